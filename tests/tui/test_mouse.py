"""The mouse: it chooses, opens and scrolls, and never answers a plan."""

from __future__ import annotations

import pytest
from textual.events import Click

from spooltop.model.vocabulary import Action, Verdict
from spooltop.tui.widgets import LinesView

from .driving import Driver, dashboard
from .fake import FakeControl, claim
from .test_plans import dead, planned


async def click_at(driver: Driver, x: int, y: int, button: int = 1) -> None:
    """Clicks on a cell of the panel in front."""
    panel = driver.app.screen.query_one(LinesView)
    panel.post_message(Click(panel, x, y, 0, 0, button, False, False, False, screen_x=x, screen_y=y))
    await driver.pilot.pause()


def places(driver: Driver) -> list[tuple[int, int]]:
    """A cell of each key on each line, and one of each line beside the keys."""
    panel = driver.app.screen.query_one(LinesView)
    width, height = driver.app.size
    found = {(panel.key_at(x, y), y): (x, y) for y in range(height) for x in range(width)}
    return sorted(found.values(), key=lambda place: (place[1], place[0]))


async def click_everywhere(driver: Driver, keys: tuple[str, ...]) -> None:
    """Opens a plan with ``keys`` and clicks on every place of it, each time on a new one where a click has left it."""
    await planned(driver, *keys)
    where = places(driver)
    assert len({y for _, y in where}) == driver.app.size[1]
    for x, y in where:
        if not driver.at_plan:
            await driver.press("escape")  # the help
            if not driver.at_plan:
                await planned(driver, *keys)
        await click_at(driver, x, y)
        await click_at(driver, x, y)
        assert driver.control.applied == []


@pytest.mark.parametrize("count", [2, 12, 120])
async def test_a_click_never_confirms_a_plan(count: int) -> None:
    async with dashboard(dead(count)) as driver:
        await click_everywhere(driver, ("r",))


async def test_a_click_never_pauses() -> None:
    async with dashboard(FakeControl()) as driver:
        await click_everywhere(driver, ("P",))


async def test_a_click_on_the_key_of_a_plan_says_which_key_to_press() -> None:
    async with dashboard(dead(2)) as driver:
        await planned(driver, "r")
        y = driver.app.size[1] - 1
        await click_at(driver, driver.lines[y].index("y requeue 2"), y)
        await driver.see("the mouse does not confirm: press y")
        assert driver.control.applied == []
        await driver.walk(("y", "Requeued 2"))


async def test_a_click_forces_nothing() -> None:
    async with dashboard(FakeControl([claim(0), claim(1, Verdict.ALIVE)])) as driver:
        await driver.walk(("3", "Claims 2"), ("a", "2 marked"))
        await planned(driver, "r")
        await driver.see("f force")
        y = next(y for y, line in enumerate(driver.lines) if "f force" in line)
        await click_at(driver, driver.lines[y].index("f force"), y)
        await driver.see("the mouse does not force: press f")
        assert len(driver.control.planned) == 1


async def test_a_click_does_not_send_the_number_that_was_typed() -> None:
    async with dashboard(dead(120)) as driver:
        await planned(driver, "r")
        await driver.press("1", "2", "0")
        for x, y in places(driver):
            if driver.app.screen.query_one(LinesView).key_at(x, y) != "Esc" and driver.at_plan:
                await click_at(driver, x, y)
                assert driver.control.applied == []


async def test_a_click_on_the_undo_of_a_result_opens_a_plan_that_it_does_not_confirm() -> None:
    async with dashboard(dead(1)) as driver:
        await planned(driver, "r")
        await driver.walk(("y", "Requeued 1", "z undo"))
        y = driver.app.size[1] - 1
        await click_at(driver, driver.lines[y].index("z undo"), y)
        await planned(driver)
        assert driver.control.planned[-1][0] is Action.UNDO
        for x, y in places(driver):
            if driver.app.screen.query_one(LinesView).key_at(x, y) == "y":
                await click_at(driver, x, y)
        await driver.see("the mouse does not confirm: press y")
        assert len(driver.control.applied) == 1


async def test_only_the_first_button_counts() -> None:
    async with dashboard(dead(2)) as driver:
        y = next(y for y, line in enumerate(driver.lines) if "r requeue 2" in line)
        await driver.see("r requeue 2")
        page = driver.app.main.lines("page")
        x = driver.lines[y].index("r requeue 2")
        page.post_message(Click(page, x, y - 2, 0, 0, 3, False, False, False))
        await driver.pilot.pause()
        assert driver.control.planned == []
        page.post_message(Click(page, x, y - 2, 0, 0, 1, False, False, False))
        await driver.until(lambda: driver.control.planned, "the plan")
