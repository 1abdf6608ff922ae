"""Keys that come faster than screens open and close: they are for the screen that is in front by then, but never for a plan."""

from __future__ import annotations

import pytest
from textual.events import Key

from .driving import Driver, dashboard
from .fake import FakeControl, claim
from .test_plans import planned


def at_once(driver: Driver, *keys: str) -> None:
    """All in one read of the terminal, as tmux and a paste send them."""
    for key in keys:
        driver.app.post_message(Key(key, key if len(key) == 1 else {"question_mark": "?", "colon": ":"}.get(key)))


async def test_help_is_left_and_the_dashboard_too_by_two_keys_typed_at_once() -> None:
    async with dashboard(FakeControl([claim(1)])) as driver:
        at_once(driver, "question_mark", "q", "q")
        await driver.until(lambda: driver.app.leaving.is_set(), "the end")


async def test_help_alone_is_left_by_one_key_typed_with_it() -> None:
    async with dashboard(FakeControl([claim(1)])) as driver:
        at_once(driver, "question_mark", "q", "3")
        await driver.see("Claims 1")
        assert not driver.app.leaving.is_set()


async def test_a_key_typed_while_help_closes_is_for_the_view_below() -> None:
    async with dashboard(FakeControl([claim(1)])) as driver:
        await driver.press("question_mark")
        await driver.see("Move")
        at_once(driver, "escape", "3")
        await driver.see("Claims 1")


async def test_what_is_typed_with_the_colon_stands_in_the_palette_in_its_order() -> None:
    async with dashboard(FakeControl([claim(1)])) as driver:
        at_once(driver, "colon", *"freeze")
        await driver.see("freeze")
        await driver.press("enter")
        await driver.until(lambda: driver.app.main.frozen_at is not None, "the display to freeze")


@pytest.mark.parametrize("keys", [("r", "y"), ("r", "y", "y", "enter")])
async def test_nothing_typed_with_the_key_of_a_plan_confirms_it(keys: tuple[str, ...]) -> None:
    async with dashboard(FakeControl([claim(1)])) as driver:
        at_once(driver, *keys)
        await planned(driver)
        await driver.see("y requeue 1")
        assert driver.control.applied == []


async def test_what_is_typed_at_the_help_of_a_plan_does_not_confirm_it() -> None:
    async with dashboard(FakeControl([claim(1)])) as driver:
        await planned(driver, "r")
        await driver.press("question_mark")
        await driver.see("Move")
        at_once(driver, "q", "y")
        await driver.see("y requeue 1")
        await driver.press("j")
        await driver.pilot.pause()
        assert driver.control.applied == []


async def test_what_is_typed_with_the_key_that_leaves_a_plan_does_nothing_below() -> None:
    async with dashboard(FakeControl([claim(1)])) as driver:
        await planned(driver, "r")
        at_once(driver, "escape", "q")
        await driver.see("1 PROBLEM")
        await driver.press("2")
        await driver.see("New 0")
        assert not driver.app.leaving.is_set()
