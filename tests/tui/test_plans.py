"""Changes of the spool: always through a plan, confirmed as it demands, never by a key that was typed before it was seen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar, overload

import pytest
from msgspec.structs import replace

from spooltop.model.backend import Capabilities
from spooltop.model.plan import EVERY, Confirm, ItemResult, Outcome, Plan, Result, RowItem
from spooltop.model.vocabulary import Box, Verdict

from .driving import dashboard
from .fake import FakeControl, a_cursor, claim, waiting

T = TypeVar("T")


def dead(count: int, *, live: int = 0) -> FakeControl:
    rows = [claim(n) for n in range(count)] + [claim(500 + n, Verdict.ALIVE) for n in range(live)]
    return FakeControl(rows)


@pytest.mark.parametrize(
    ("count", "said", "keys"),
    [(12, "press Shift-Y to requeue 12", "Y"), (120, "type the number 120 and Enter", "1 2 0 enter")],
)
async def test_ten_take_a_capital_and_a_hundred_the_number(count: int, said: str, keys: str) -> None:
    async with dashboard(dead(count)) as driver:
        await driver.planned("r")
        await driver.walk(("y", said))
        if count > 100:
            await driver.walk(("1 2 enter", said))
            keys = "0 enter"
        assert driver.control.applied == []
        await driver.walk((keys, f"Requeued {count}"))


async def test_force_plans_again_and_wants_the_number() -> None:
    async with dashboard(dead(1, live=1)) as driver:
        await driver.walk(("3", "Claims 2"), ("a", "2 marked"))
        await driver.planned("r")
        await driver.see("Refused 1")
        await driver.planned("f")
        await driver.until(lambda: len(driver.control.planned) == 2)
        await driver.planned()
        await driver.walk(("y", "type the number 2"), ("2 enter", "Requeued 2"))
        assert [force for _, _, force, _ in driver.control.planned] == [False, True]


async def test_the_plan_is_copied_as_a_command() -> None:
    async with dashboard(dead(1), (50, 20)) as driver:
        await driver.planned("r")
        await driver.walk(("s", "a rate limit needs at least 2 items"))
        await driver.press("c")
        text = await driver.see("copied: spooltop requeue")
        assert text.replace("\n", "").endswith(claim(0).id)  # all of it, for whose terminal copies nothing
        assert driver.clipboard == f"spooltop requeue /var/spool/memex {claim(0).id}"


async def test_the_plan_stays_as_it_is_while_the_spool_moves() -> None:
    async with dashboard(dead(2), quiet=0.01) as driver:
        await driver.planned("r")
        driver.control.rows.append(claim(7))
        driver.control.change()
        looks = driver.control.looks
        await driver.until(lambda: driver.control.looks > looks + 2)
        await driver.walk(("y", "Requeued 2"), ("escape", "1 claims of dead consumers"))


async def test_a_change_under_way_is_stopped_by_escape() -> None:
    async with dashboard(dead(9)) as driver:
        await driver.planned("r")
        driver.control.gate.clear()
        await driver.walk(("y", "Esc stop"))
        await driver.until(lambda: len(driver.control.of(Box.CUR)) == 8, "the first item, after which it waits")
        await driver.walk(("escape", "stopping"))
        driver.control.gate.set()
        await driver.see("done 1")
        assert len(driver.control.of(Box.CUR)) == 8


async def test_the_row_under_the_cursor_is_what_is_planned_without_marks() -> None:
    async with dashboard(FakeControl([waiting(n) for n in range(5)])) as driver:
        await driver.walk(("2", "New 5"), ("j", "─ 1795222900000001"))
        await driver.planned("d")
        assert driver.control.planned[0][1].keys == (("new", 1),)


async def test_injecting_by_the_form() -> None:
    async with dashboard(FakeControl()) as driver:
        await driver.walk(("i", "Inject test messages"))
        await driver.press("backspace", "3", "tab", "ctrl+u", *"hello", "tab", "tab", "tab", *"email")
        await driver.press("tab", "5", "x", "0")  # a rate is a number
        await driver.planned("enter")
        options = {"count": 3, "canary": True, "text": "hello", "source": "email", "rate": 50}
        assert driver.control.planned[0][3] == options
        await driver.walk(("y", "Injected"), ("escape", "no problems detected"))


async def test_the_form_takes_a_file_or_a_size_and_wants_a_count() -> None:
    async with dashboard(FakeControl()) as driver:
        await driver.walk(
            ("i", "Inject test messages"), ("down down / t m p / m down 9 enter", "give a file or a size, not both"),
        )  # fmt: skip
        assert driver.control.planned == []
        await driver.press("backspace")
        await driver.planned("enter")
        assert driver.control.planned[0][3] == {"count": 1, "canary": True, "file": "/tmp/m"}
        await driver.walk(("escape escape", "no problems detected"), ("i backspace enter", "a number from 1 to 100,000"))


@pytest.mark.parametrize("form", ["i", "5 e 9 9"], ids=["inject", "set a cursor"])
async def test_undo_from_the_result_of_a_form_opens_a_plan_that_can_be_confirmed_and_left(form: str) -> None:
    control = FakeControl()
    control.cursors = (a_cursor(),)
    async with dashboard(control) as driver:
        await driver.see("no problems detected")
        await driver.press(*form.split())
        await driver.planned("enter")
        await driver.walk(("y", "operation op1"))
        await driver.planned("z")
        await driver.see("Undo 1")
        assert control.planned[-1][3] == {"undoes": "op1"}
        await driver.press("y")
        await driver.until(lambda: len(control.applied) == 2, "the undo to be done")
        await driver.see("operation op2")
        await driver.press("escape")
        await driver.gone("operation op2")
        await driver.press("2")  # the form has gone with its plan
        await driver.see("New 0")


async def test_a_plan_that_ends_beneath_its_help_leaves_the_keyboard_alive() -> None:
    async with dashboard(dead(2)) as driver:
        await driver.planned("r")
        driver.control.gate.clear()
        await driver.walk(("y", "Esc stop"), ("question_mark", "In a plan"))
        driver.control.gate.set()
        await driver.see("operation op1")
        await driver.press("escape")
        await driver.gone("operation op1")
        await driver.walk(("escape", "no problems detected"), ("2", "New 2"))


async def test_a_refused_plan_says_why_and_esc_leaves() -> None:
    control = dead(1)
    async with dashboard(control) as driver:
        await driver.press("r")
        control.capabilities = Capabilities.nothing("the audit log cannot be written")
        await driver.walk(("escape r", "the audit log cannot be written"))
        await driver.press("escape")
        assert control.applied == []


async def test_leaving_stops_what_is_being_done_and_tells_of_it() -> None:
    control = FakeControl([claim(n) for n in range(9)], target="/s p\x1b]0;x\x07")
    async with dashboard(control) as driver:
        await driver.planned("r")
        driver.control.gate.clear()
        await driver.walk(("y", "Esc stop"))
        await driver.until(lambda: len(driver.control.of(Box.CUR)) == 8, "the first item, after which it waits")
        await driver.press("ctrl+c")
        await driver.until(lambda: driver.leaving)
        driver.control.gate.set()
    assert driver.app.return_code == 0
    assert driver.app.goodbye() == [r"op1: requeued 1, not reached 8; undo: spooltop undo '/s p\x1b]0;x\x07' op1"]


async def test_a_message_in_full_is_what_is_planned_from_there_whatever_is_marked() -> None:
    async with dashboard(dead(3)) as driver:
        await driver.walk(("3", '"source"'), ("space", "1 marked"), ("enter", "requeue this 1", "─ 1795222800000001"))
        await driver.planned("r")
        assert driver.control.planned[0][1].keys == (("cur", 1),)
        await driver.walk(("y", "Requeued 1"), ("escape", "Claims 2"))


async def test_escape_ends_the_making_of_a_plan_and_the_next_one_is_made_at_once() -> None:
    async with dashboard(dead(2)) as driver:
        driver.control.judged = EVERY
        driver.control.gate.clear()  # without which this plan is never done
        await driver.walk(("r", "requeue: making the plan", "500 of 1,500 claims judged"), ("escape", "1 PROBLEM"))
        await driver.until(lambda: driver.control.given_up == 1, "nobody to make it any more")
        assert driver.control.planned == []
        driver.control.gate.set()
        await driver.planned("r")
        await driver.see("y requeue 2")
        assert len(driver.control.planned) == 1


async def test_a_rate_is_typed_into_the_plan_and_applied() -> None:
    async with dashboard(dead(120)) as driver:
        await driver.planned("r")
        await driver.see("s rate limit")
        await driver.walk(
            ("s", "rate limit: _", "Enter set it"), ("y 5 enter", "invalid rate 'y5'"),
            ("ctrl+u 5 0 slash s enter", "rate limit 50/s: takes 2.4s or longer", "--rate 50", "type 120"),
        )  # fmt: skip
        await driver.planned()
        assert driver.control.applied == [] and len(driver.control.planned) == 1  # the list is the one that was seen
        await driver.walk(("1 2 0 enter", "Requeued 120"))
        assert [plan.rate for plan in driver.control.applied] == [50.0]


async def test_a_rate_is_left_as_it_is_changed_and_taken_away() -> None:
    async with dashboard(dead(3)) as driver:
        await driver.planned("r")
        await driver.walk(("s 7 escape", "y requeue 3"))
        assert "at most" not in driver.text
        await driver.walk(("s 1 0 0 0 slash m enter", "rate limit 16.7/s"))
        await driver.planned()
        await driver.walk(("s", "rate limit: 16.7/s_"))
        await driver.press("ctrl+u", "enter")
        await driver.planned()
        await driver.see("y requeue 3")
        assert "at most" not in driver.text
        await driver.walk(("y", "Requeued 3"))
        assert [plan.rate for plan in driver.control.applied] == [None]


async def test_a_rate_that_was_set_is_that_of_the_plan_made_again() -> None:
    async with dashboard(dead(2, live=1)) as driver:
        await driver.walk(("3", "Claims 3"), ("a", "3 marked"))
        await driver.planned("r")
        await driver.walk(("s 5 enter", "rate limit 5/s"))
        await driver.planned("f")
        await driver.until(lambda: len(driver.control.planned) == 2)
        assert driver.control.planned[1][2:] == (True, {"rate": 5.0})


async def test_a_message_of_a_plan_is_found_by_its_id() -> None:
    async with dashboard(dead(60)) as driver:
        await driver.planned("r")
        assert claim(50).id not in driver.text
        await driver.press("slash", *claim(50).id, "enter")
        await driver.see(claim(50).id, "above")


class Counted(Sequence[T]):
    """A million of the same item or result; it counts those that were read."""

    def __init__(self, item: T) -> None:
        self.item, self.read = item, 0
        self.others: dict[int, T] = {}

    def __len__(self) -> int:
        return 1_000_000

    @overload
    def __getitem__(self, index: int) -> T: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...

    def __getitem__(self, index: int | slice) -> T | Sequence[T]:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        self.read += 1
        return self.item


async def test_a_plan_and_a_result_of_a_million_are_drawn_by_those_that_are_seen() -> None:
    """They are drawn at each key and each look: otherwise the screen would freeze for seconds."""
    items = Counted(RowItem(claim(1), ("cur", 1)))
    results = Counted(ItemResult("id", "id", Outcome.DONE))
    results.others[500_001] = ItemResult("id", "id", Outcome.SKIPPED, "gone")

    class Million(FakeControl):
        def plan(self, *asked: Any, **more: Any) -> Plan:
            return replace(super().plan(*asked, **more), items=items, confirm=Confirm.SMALL)

        def apply(self, plan: Plan, *asked: Any, **more: Any) -> Result:
            return Result(plan.operation, plan.action, plan.target, self.time, results)

    async with dashboard(Million([claim(1)])) as driver:
        await driver.planned("r")
        await driver.walk(("G k g j", "Requeue 1,000,000"))
        assert items.read < 1000
        await driver.walk(("y", "done 999,999 · skipped 1", "skipped 1: gone", "since then"), ("j k", "since then"))
        assert results.read < 5000
        assert driver.app.goodbye() == ["op1: requeued 999,999, skipped 1"]
