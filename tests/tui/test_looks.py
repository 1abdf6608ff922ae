"""Looks that hang, fail or tell of little, as the screen shows them."""

from __future__ import annotations

import gc
import os
import time

import pytest
from msgspec.structs import replace
from textual.strip import Strip

from spooltop.errors import Unreadable
from spooltop.model.vocabulary import Verdict

from .driving import dashboard
from .fake import FakeControl, claim


@pytest.mark.early
async def test_while_a_look_hangs_the_header_says_so_keys_answer_plans_open_and_q_quits() -> None:
    control = FakeControl([claim(1), claim(2, Verdict.ALIVE)])
    passed = [0.0]
    async with dashboard(control, monotonic=lambda: time.monotonic() + passed[0]) as driver:
        control.hang.clear()
        control.entered.clear()
        control.change()
        await driver.until(control.entered.is_set, "a look that hangs")
        passed[0] += 41
        text = await driver.see("STALE 40s: readdir of new does not answer", "as of", "1 claims of dead consumers")
        assert "live" not in text.split("\n")[0]
        await driver.walk(
            ("3", "Claims", "STALE 40s"), ("1", "1 claims of dead consumers"), ("r", "y requeue 1"), ("escape", "STALE"),
        )  # fmt: skip
        passed[0] += 30
        await driver.see("STALE 1m10s")
        control.hang.set()
        await driver.see("live · as of")
        control.hang.clear()
        control.entered.clear()
        passed[0] += 30
        control.change()
        await driver.until(control.entered.is_set, "another look that hangs")
        await driver.press("q")
        await driver.until(lambda: driver.leaving)
    assert driver.app.return_code == 0


@pytest.mark.parametrize("broken", [Unreadable("new cannot be read"), OSError(5, "I/O"), ZeroDivisionError("a defect")])
async def test_a_look_that_fails_is_told_and_the_next_one_is_made(broken: Exception) -> None:
    control = FakeControl([claim(1)])
    async with dashboard(control) as driver:
        await driver.see("1 claims of dead consumers")
        control.broken = broken
        control.change()
        await driver.see(str(broken))
        control.broken = None
        control.rows.append(claim(2))
        control.change()
        await driver.see("2 claims of dead consumers", "live")


async def test_what_changed_is_shown_though_the_clock_was_set_back_and_all_counts_stay() -> None:
    one, other = claim(1), replace(claim(2, Verdict.ALIVE), in_box_since=claim(1).in_box_since)
    control = FakeControl([one, other])
    async with dashboard(control, quiet=0.01) as driver:
        await driver.walk(("3", "4301", "4302"))

        def dead() -> list[str]:
            return [word for line in driver.lines if "DEAD" in line for word in ("4301", "4302") if word in line]

        await driver.until(lambda: dead() == ["4301"], "the verdicts")
        control.time -= 3600
        control.rows = [replace(one, verdict=Verdict.ALIVE), replace(other, verdict=Verdict.DEAD)]
        control.change()
        await driver.until(lambda: dead() == ["4302"], "the new verdicts")
        as_of = driver.lines[0]
        control.time -= 3600
        await driver.until(lambda: driver.lines[0] != as_of, "the earlier time")


async def test_however_long_a_screen_is_held_up_as_little_waits_for_it() -> None:
    control = FakeControl([claim(1)])
    async with dashboard(control) as driver:
        await driver.walk(("3", '"source"'), ("F", "Following"))
        looks = control.looks
        while control.looks < looks + 50:  # the event loop stands still here, as where the terminal does not read
            control.change()
            os.sched_yield()
        assert 1 <= driver.unread() <= 6


@pytest.mark.long
async def test_a_screen_that_was_left_leaves_nothing_behind_of_what_it_had_drawn() -> None:
    def drawn() -> int:
        gc.collect()
        return sum(isinstance(one, Strip) for one in gc.get_objects())

    async with dashboard(FakeControl()) as driver:
        counts = []
        for _ in range(4):
            await driver.walk(("question_mark", "more lines"), ("q", "no problems detected"))
            counts.append(drawn())
        assert counts[-1] <= counts[0]


async def test_before_the_first_look_nothing_is_said_to_be_absent() -> None:
    control = FakeControl()
    control.hang.clear()
    async with dashboard(control) as driver:
        await driver.until(control.entered.is_set, "a look that hangs")
        await driver.press("exclamation_mark")
        text = await driver.see("looking for the first time…")
        assert "no problems" not in text
        control.hang.set()
        await driver.see("no problems detected (watched for")
        await driver.press("escape", "exclamation_mark")
        await driver.see("no problems detected so far")
