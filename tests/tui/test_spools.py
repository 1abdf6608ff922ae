"""The Spools view: several targets, of which one is opened, left and opened again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from spooltop.model.look.problem import Problem, Severity
from spooltop.monitor.glance import Glance

from .driving import Driver, dashboard, make_app
from .fake import FakeControl, FakeSpools, claim, waiting

DEAD = Problem("claims-dead", Severity.CRITICAL, "2 claims of dead consumers", 2)
OLD = Problem("tmp-old", Severity.WARNING, "1 old file in tmp", 1)


def spools() -> FakeSpools:
    controls = {
        f"/var/spool/{name}": FakeControl(rows, target=f"/var/spool/{name}")
        for name, rows in (("quiet", []), ("bad", [claim(1), claim(2), *map(waiting, range(30))]), ("mail", [waiting(1)]))
    }
    controls["/var/spool/bad"].problems = (DEAD,)
    controls["/var/spool/mail"].problems = (OLD,)
    return FakeSpools(controls, [Glance("/var/spool/shut", error="permission denied (owner svc, mode 0700)")])


@asynccontextmanager
async def view(found: FakeSpools, size: tuple[int, int] = (80, 23), *, count: int = 4) -> AsyncIterator[Driver]:
    app = make_app(None, spools=found)
    async with app.run_test(size=size) as pilot:
        driver = Driver(app, pilot, next(iter(found.controls.values())))
        await driver.see(f"{count} spools")
        try:
            yield driver
        finally:
            found.gate.set()
    app.finish()


def names(driver: Driver) -> list[str]:
    """The names on the lines of the list."""
    return [line[1:].split()[1] for line in driver.lines[2:-2] if line[1:2] in tuple("✗!?✓")]


async def open_first(driver: Driver) -> None:
    await driver.press("enter")
    await driver.until(lambda: driver.at_main, "the dashboard")
    await driver.until(lambda: driver.app.main.state.received.snapshot is not None, "its first look")


async def back(driver: Driver, key: str) -> None:
    await driver.press(key)
    await driver.see("4 spools", "open")


async def test_the_worst_is_first_and_each_line_says_why() -> None:
    async with view(spools()) as driver:
        assert names(driver)[:4] == ["bad", "shut", "mail", "quiet"]
        assert "3 with problems" in driver.lines[0] and "/var/spool/" in driver.lines[0]
        assert "2 claims of dead" in driver.lines[2] and "permission denied" in driver.lines[3]


@pytest.mark.parametrize("key", ["escape", "q", "0"])
async def test_one_is_opened_and_left_to_the_same_row_filter_and_sort(key: str) -> None:
    found = spools()
    async with view(found) as driver:
        await driver.press("slash", *"a", "enter", "greater_than_sign", "I", "j")
        before = driver.lines[:-2]
        assert driver.app.spools_screen is not None
        chosen = driver.app.spools_screen.rows.cursor_key
        await open_first(driver)
        assert found.opened == [chosen] and found.calmed == [True]
        await back(driver, key)
        assert driver.lines[1:-2] == before[1:] and driver.app.spools_screen.rows.cursor_key == chosen
        assert found.calmed == [True, False]


async def test_an_opened_one_keeps_its_view_filter_sort_and_row() -> None:
    async with view(spools()) as driver:
        await open_first(driver)
        await driver.press("2", "slash", *"email", "enter", "greater_than_sign")
        await driver.until(lambda: driver.app.main.row is not None)
        await driver.press("j", "j")
        state = driver.app.main.state
        chosen, sort = driver.app.main.rows.cursor_key, state.list_state.sort
        await back(driver, "0")
        await open_first(driver)
        await driver.until(lambda: driver.app.main.row is not None)
        again = driver.app.main.state
        assert again is not state and again.root == "new" and again.filter == "email"
        assert (driver.app.main.rows.cursor_key, again.list_state.sort) == (chosen, sort)


async def test_esc_goes_back_step_by_step_before_it_leaves() -> None:
    async with view(spools()) as driver:
        await open_first(driver)
        await driver.press("3", "escape")
        assert driver.at_main and driver.app.main.state.root == "overview"
        assert driver.lines[-1].rstrip().endswith("? keys") and "q quit" not in driver.text
        await back(driver, "escape")


async def test_0_leaves_from_a_panel_and_from_an_open_message() -> None:
    async with view(spools()) as driver:
        await open_first(driver)
        await driver.walk(("question_mark 0", "4 spools", "open"))
        await open_first(driver)
        await driver.press("2")
        await driver.until(lambda: driver.app.main.row is not None)
        await driver.walk(("enter 0", "4 spools", "open"))


async def test_one_that_cannot_be_opened_says_why_and_stays_in_the_list() -> None:
    async with view(spools()) as driver:
        await driver.walk(("j enter", "/var/spool/shut: permission denied"))
        assert not driver.at_main


async def test_one_that_does_not_open_keeps_no_key_and_is_given_up() -> None:
    found = spools()
    found.gate.clear()
    async with view(found) as driver:
        await driver.walk(("enter", "opening /var/spool/bad"))
        await driver.press("j", "escape")
        await driver.press("j", "slash", *"mail", "enter")
        found.gate.set()
        await driver.press("escape")
        await driver.until(found.controls["/var/spool/bad"].closed.is_set, "it to be closed")
        assert not driver.at_main and driver.app.is_running


async def test_no_key_changes_anything_there() -> None:
    async with view(spools()) as driver:
        for key, said in (("r", "requeue: open a spool first"), ("d", "purge: open a spool first"), ("2", "New: open a spool")):
            await driver.press(key)
            await driver.see(said)


async def test_a_filter_matches_paths_and_problems() -> None:
    async with view(spools()) as driver:
        await driver.press("slash", *"dead", "enter")
        assert names(driver) == ["bad"]
        assert "1 of 4 spools match dead" in driver.lines[0]
        await driver.press("escape", "exclamation_mark")
        assert names(driver) == ["bad", "shut", "mail"] and "problems only" in driver.lines[0]
        await driver.press("escape")
        assert len(names(driver)) == 4


async def test_it_is_sorted_by_key_menu_and_click() -> None:
    async with view(spools()) as driver:
        await driver.press("greater_than_sign")
        assert names(driver) == ["bad", "mail", "quiet", "shut"] and "spool↑" in driver.lines[1]
        await driver.press("s", "j", "enter")
        assert names(driver)[:2] == ["bad", "mail"] and "new↓" in driver.lines[1]
        await driver.press("I")
        assert names(driver)[0] == "quiet"
        await driver.pilot.click("#top", offset=(driver.lines[1].index("spool"), 1))
        await driver.see("spool↑")


@pytest.mark.parametrize("moved", [(), ("slash", "u", "escape", "s", "escape")], ids=["no key", "keys that move nothing"])
async def test_the_first_screen_shows_the_worst_until_the_cursor_is_moved(moved: tuple[str, ...]) -> None:
    names_of_many = [f"q{number}" for number in range(60)]
    found = FakeSpools({f"/var/spool/{name}": FakeControl([], target=f"/var/spool/{name}") for name in names_of_many}, [])
    async with view(found, count=60) as driver:
        assert names(driver)[:3] == ["q0", "q1", "q2"]
        await driver.press(*moved)
        for name in names_of_many[20:50]:  # as where they are judged one by one
            found.controls[f"/var/spool/{name}"].problems = (DEAD,)
        found.change()
        await driver.until(lambda: names(driver)[:2] == ["q20", "q21"])
        assert driver.app.spools_screen is not None and driver.app.spools_screen.rows.cursor_key == "/var/spool/q20"
        await driver.press("j", "k")
        found.controls["/var/spool/q59"].problems = (DEAD, OLD)
        found.change()
        await driver.until(lambda: driver.app.spools_screen.glances[59].worst is not None)
        assert driver.app.spools_screen.rows.cursor_key == "/var/spool/q20"


async def test_new_glances_keep_the_cursor_on_its_target() -> None:
    found = spools()
    async with view(found) as driver:
        await driver.press("j", "j", "j")
        assert driver.app.spools_screen is not None and driver.app.spools_screen.rows.cursor_key == "/var/spool/quiet"
        found.controls["/var/spool/quiet"].problems = (DEAD,)
        found.change()
        await driver.until(lambda: names(driver)[:2] == ["bad", "quiet"])
        assert driver.app.spools_screen.rows.cursor_key == "/var/spool/quiet"


async def test_a_frozen_view_stays() -> None:
    found = spools()
    async with view(found) as driver:
        await driver.walk(("Z", "FROZEN"))
        found.controls["/var/spool/quiet"].problems = (DEAD,)
        found.change()
        await driver.press("R")
        assert found.looked_again == 1 and names(driver)[-1] == "quiet"
        await driver.press("Z")
        assert names(driver)[:2] == ["bad", "quiet"]


async def test_0_of_a_single_target_says_why_not() -> None:
    async with dashboard(FakeControl()) as driver:
        await driver.walk(("0", "there is one spool only"))


@pytest.mark.parametrize("size", [(40, 10), (60, 18), (80, 23), (120, 30), (160, 50)])
async def test_it_fits_every_window(size: tuple[int, int]) -> None:
    async with view(spools(), size) as driver:
        assert all(len(line) <= size[0] for line in driver.lines) and names(driver)[0] == "bad"
