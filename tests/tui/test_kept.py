"""The view and the orders that a user left a target with come back; a filter does not."""

from __future__ import annotations

from spooltop.model.kept_view import KeptView
from spooltop.model.protocols import Sort
from spooltop.model.vocabulary import Box

from .driving import Options, dashboard
from .fake import FakeControl, a_cursor, claim, waiting
from .test_spools import back, open_first, spools, view


def busy() -> FakeControl:
    fake = FakeControl([claim(1), *map(waiting, range(20))])
    fake.cursors = (a_cursor(),)
    return fake


async def test_view_and_orders_are_kept_and_a_filter_only_for_n() -> None:
    control = busy()
    async with dashboard(control, kept=control.kept_view()) as driver:
        await driver.press("2")
        await driver.until(lambda: driver.app.main.row is not None, "the row")
        await driver.press("slash", *"email", "enter", "I")
    assert control.kept == KeptView("new", {"new": Sort("age", False)}, "email") and control.keeps == 1
    async with dashboard(control, kept=control.kept_view()) as driver:
        await driver.until(lambda: driver.app.main.row is not None, "the row")
        state = driver.app.main.state
        assert (state.root, state.filter, state.lists[Box.NEW].sort) == ("new", "", Sort("age", False))
        assert "20" in driver.lines[0]
        await driver.press("n")
        await driver.until(lambda: driver.app.main.rows.cursor_index == 1, "the next match")
    assert control.keeps == 1, "nothing changed, so nothing was written"


async def test_options_beat_what_is_kept() -> None:
    control = busy()
    kept = KeptView("claims", {"new": Sort("size"), "cur": Sort("size", False)})
    options = Options(view="new", sort=Sort("source", False))
    async with dashboard(control, options=options, kept=kept) as driver:
        state = driver.app.main.state
        assert state.root == "new" and state.lists[Box.NEW].sort == Sort("source", False)


async def test_what_does_not_exist_is_not_taken_up() -> None:
    control = busy()
    kept = KeptView("plan", {"new": Sort("colour"), "cur": Sort("held"), "consumers": Sort("nothing"), "attic": Sort()})
    async with dashboard(control, kept=kept) as driver:
        state = driver.app.main.state
        assert state.root == "overview" and state.lists[Box.NEW].sort == Sort()
        assert state.lists[Box.CUR].sort == Sort("held") and state.consumer_sort == Sort("verdict")
    async with dashboard(control, kept=None) as driver:  # the demo, and a home that does not answer
        keeps = control.keeps
        await driver.press("3")
    assert control.keeps == keeps


async def test_each_spool_keeps_its_own_when_it_is_left_for_the_spools() -> None:
    found = spools()
    async with view(found) as driver:
        await open_first(driver)
        await driver.press("5")
        await back(driver, "0")
        control = found.controls[found.opened[0]]
        await driver.until(lambda: control.keeps, "it to be kept")
        assert control.kept.view == "cursors"
    async with view(found) as driver:
        await open_first(driver)
        assert driver.app.main.state.root == "cursors"
