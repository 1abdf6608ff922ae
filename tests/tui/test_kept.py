"""The view and the orders that a user left a target with come back; a filter does not."""

from __future__ import annotations

from spooltop.model.backend import KeptView, Sort

from .driving import Options, dashboard, several
from .fake import FakeControl, claim, waiting
from .test_spools import back, open_first, spools


def busy() -> FakeControl:
    return FakeControl([claim(1), *map(waiting, range(20))])


async def test_view_and_orders_are_kept_and_a_filter_only_for_n() -> None:
    control = busy()
    async with dashboard(control, kept=control.kept_view()) as driver:
        await driver.walk(("2", "email"), ("slash e m a i l enter I", "sorted by age ↑"))
    assert control.kept == KeptView("new", {"new": Sort("age", False)}, "email") and control.keeps == 1
    async with dashboard(control, kept=control.kept_view()) as driver:
        await driver.see("New 20 · sorted by age ↑", "1795222900000018")
        await driver.press("n")
        await driver.chooses("1795222900000018")
    assert control.keeps == 1, "nothing changed, so nothing was written"


async def test_options_beat_what_is_kept() -> None:
    kept = KeptView("claims", {"new": Sort("size"), "cur": Sort("size", False)})
    async with dashboard(busy(), options=Options(view="new", sort=Sort("source", False)), kept=kept) as driver:
        await driver.see("New 20 · sorted by source ↑")


async def test_what_does_not_exist_is_not_taken_up() -> None:
    control = busy()
    kept = KeptView("plan", {"new": Sort("colour"), "cur": Sort("held"), "consumers": Sort("nothing"), "attic": Sort()})
    async with dashboard(control, kept=kept) as driver:
        await driver.walk(
            ("", "box       depth"), ("2", "sorted by age ↓"), ("3", "sorted by held ↓"), ("8", "sorted by verdict ↓")
        )  # fmt: skip
    keeps = control.keeps
    async with dashboard(control, kept=None) as driver:  # the demo, and a home that does not answer
        await driver.press("3")
    assert control.keeps == keeps


async def test_each_spool_keeps_its_own_when_it_is_left_for_the_spools() -> None:
    watched = spools()
    async with several(watched) as driver:
        await open_first(driver)
        await driver.press("5")
        await back(driver, "0")
        control = watched.controls[watched.opened[0]]
        await driver.until(lambda: control.keeps, "it to be kept")
        assert control.kept.view == "cursors"
    async with several(watched) as driver:
        await open_first(driver)
        await driver.see("no cursor file was found")
