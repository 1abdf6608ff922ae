"""The mouse: it chooses, opens and scrolls, and never answers a plan."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from spooltop.model.vocabulary import Action, Verdict

from .driving import Driver, dashboard
from .fake import FakeControl, a_lock, claim
from .test_plans import dead


def places(driver: Driver) -> list[tuple[int, int]]:
    """The first cell of each piece of the screen that is drawn in a style of its own, as keys are."""
    cells = []
    for y, row in enumerate(driver.rows):
        x = 0
        for segment in row:
            cells.append((x, y))
            x += segment.cell_length
    return cells


async def click_everywhere(driver: Driver, keys: tuple[str, ...]) -> None:
    """Opens a plan with ``keys`` and clicks on every place of it, each time on a new one where a click has left it."""
    await driver.planned(*keys)
    for x, y in places(driver):
        if not driver.at_plan:
            await driver.press("escape")  # the help
            if not driver.at_plan:
                await driver.planned(*keys)
        await driver.click(x, y)
        await driver.click(x, y)
        assert driver.control.applied == []


LONG = pytest.mark.long


@pytest.mark.parametrize(("count", "key"), [(2, "r"), (0, "P"), *(pytest.param(many, "r", marks=LONG) for many in (12, 120))])
async def test_a_click_never_confirms_a_plan(count: int, key: str) -> None:
    async with dashboard(dead(count)) as driver:
        await click_everywhere(driver, (key,))


async def test_a_click_on_the_key_of_a_plan_says_which_key_to_press() -> None:
    async with dashboard(dead(2)) as driver:
        await driver.planned("r")
        await driver.click(*driver.place("y requeue 2 ·"))
        await driver.see("the mouse does not confirm: press y")
        assert driver.control.applied == []
        await driver.walk(("y", "Requeued 2"))


async def test_a_click_forces_nothing() -> None:
    async with dashboard(FakeControl([claim(0), claim(1, Verdict.ALIVE)])) as driver:
        await driver.walk(("3", "Claims 2"), ("a", "2 marked"))
        await driver.planned("r")
        await driver.see("f force")
        await driver.click(*driver.place("f force"))
        await driver.see("the mouse does not force: press f")
        assert len(driver.control.planned) == 1


async def test_a_click_does_not_send_the_number_that_was_typed() -> None:
    async with dashboard(dead(120)) as driver:
        await driver.planned("r")
        await driver.press("1", "2", "0")
        for x, y in places(driver):
            if driver.at_plan and not driver.lines[y][x:].lstrip("[ ").startswith("Esc"):
                await driver.click(x, y)
                assert driver.control.applied == []


async def test_a_click_on_the_undo_of_a_result_opens_a_plan_that_it_does_not_confirm() -> None:
    async with dashboard(dead(1)) as driver:
        await driver.planned("r")
        await driver.walk(("y", "Requeued 1", "z undo"))
        await driver.click(*driver.place("z undo"))
        await driver.planned()
        assert driver.control.planned[-1][0] is Action.UNDO
        await driver.click(*driver.place("y undo 1 ·"))
        await driver.see("the mouse does not confirm: press y")
        assert len(driver.control.applied) == 1


async def test_only_the_first_button_counts() -> None:
    async with dashboard(dead(2)) as driver:
        await driver.see("r requeue 2")
        await driver.click(*driver.place("r requeue 2"), button=3)
        assert driver.control.planned == []
        await driver.click(*driver.place("r requeue 2"))
        await driver.until(lambda: driver.control.planned, "the plan")


async def test_a_click_on_the_titles_sorts_by_the_nearest_that_can_be_sorted_by() -> None:
    async with dashboard(FakeControl([claim(1)])) as driver:
        await driver.walk(("3", "Claims 1", "sorted by verdict"))
        for words, column in (("owner", "tries"), ("evidence", "message"), ("held", "held")):
            await driver.click(*driver.place(words))
            await driver.see(f"sorted by {column}")


async def test_a_click_chooses_a_lock_and_another_one_opens_it() -> None:
    fake = FakeControl()
    fake.locks = (a_lock(), replace(a_lock(), path="/var/spool/memex/leader.lock"))
    async with dashboard(fake) as driver:
        await driver.walk(("6", "Locks 2", "leader.lock"))
        for words in ("leader.lock", ".cursors.lock"):  # one of them was chosen before
            await driver.click(*driver.place(words))
            await driver.chooses(words)
        await driver.click(*driver.place(".cursors.lock"))
        await driver.see("Who has")


async def test_a_click_on_a_field_of_a_form_does_not_send_the_form() -> None:
    async with dashboard(FakeControl()) as driver:
        await driver.walk(("2 i", "Inject test messages"))
        for x, y in places(driver):
            if "Enter" not in driver.lines[y] and "Esc" not in driver.lines[y]:
                await driver.click(x, y)
        await driver.see("Inject test messages")
        assert driver.control.planned == []
