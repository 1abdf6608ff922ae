"""What became of messages and cursors: the result of an operation, and the timeline of a message."""

from __future__ import annotations

import re
from typing import Any

import pytest
from msgspec.structs import replace

from spooltop.cursors.model import Cursor, CursorSection
from spooltop.model.plan import TrackedMessage
from spooltop.model.vocabulary import Action, Box, Json, LockHolder, Owner, Verdict

from .driving import dashboard
from .fake import NOW, FakeControl, claim, waiting, written

AT_7 = {"claimed_at": NOW + 1, "pid": 7}


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ([{"box": Box.NEW, "place": 1, "of": 4309}], "1 waits in new, place 1 of 4,309, nobody took it for 10s"),
        ([{"box": Box.NEW, "place": 1, "of": 9}, {"box": Box.NEW, "place": 3, "of": 9}],
         "2 wait in new, place 1 to 3 of 9, nobody took them for 10s"),
        ([{"box": Box.CUR, **AT_7}], "1 claimed by 7 after 1.0s, being processed for 10s"),
        ([{"box": Box.CUR, **AT_7, "verdict": Verdict.DEAD}], "1 claimed by 7 after 1.0s, now DEAD and still holding it"),
        ([{"box": Box.CUR, "claimed_at": NOW + 1}], "1 claimed by a process that is not visible after 1.0s, being processed"),
        ([{"box": Box.NEW, "place": 1, "of": 1, **AT_7}], "1 claimed by 7 after 1.0s, returned, waits in new again"),
        ([{"box": Box.REJECTED, **AT_7}], "1 claimed by 7 after 1.0s, then set aside in rejected"),
        ([{"gone_at": NOW + 3}], "1 taken and gone; consumer not seen"),
        ([AT_7], "1 claimed by 7 after 1.0s, left its claim just now"),
        ([{}], "1 on the way, not seen in any box yet"),
        ([{"box": Box.TRASH}], "1 set aside in trash"),
        ([{"box": Box.CUR}], "1 in cur"),
        ([{"claimed_at": NOW + at, "pid": 7, "gone_at": NOW + 2 * at} for at in (1.0, 2.0)],
         "2 claimed by 7 after 1.0s to 2.0s, done after 2.0s to 4.0s"),
    ],
)  # fmt: skip
async def test_a_result_says_where_its_messages_are(facts: list[dict[str, Any]], words: str) -> None:
    rows = [claim(number) for number in range(len(facts))]
    control = FakeControl(rows)
    async with dashboard(control, (120, 23)) as driver:
        await driver.planned("r")
        await driver.walk(("y", "since then"))
        control.time = NOW + 12
        control.whereabouts = {row.id: TrackedMessage(row.id, **fact) for row, fact in zip(rows, facts, strict=True)}
        control.change()
        await driver.see(words)


async def test_the_panel_follows_its_messages_from_before_the_change_until_it_is_closed() -> None:
    control = FakeControl([claim(1), waiting(1)])
    id = claim(1).id
    async with dashboard(control) as driver:
        await driver.planned("r")
        assert control.follows == []
        await driver.press("y")
        control.whereabouts[id] = TrackedMessage(id, Box.NEW, 1, 2)
        await driver.see("since then", "1 waits in new, place 1 of 2", "z undo (the 1 that waits)")
        assert control.follows[0] == ((id,), NOW)
        await driver.walk(("F", "Following", "waits in new"), ("escape", "Requeued 1"))
        control.whereabouts[id] = TrackedMessage(id, None, claimed_at=NOW + 0.3, pid=5201, gone_at=NOW + 0.5)
        control.change()
        await driver.see("1 claimed by 5201 after 0.3s, done after 0.5s")
        assert {ids for ids, _ in control.follows} == {(id,)}
        await driver.press("escape")
        await driver.until(lambda: control.follows[-1][0] == ())


async def test_what_was_put_aside_by_the_operation_is_not_waited_for() -> None:
    control = FakeControl([waiting(1)])
    async with dashboard(control) as driver:
        await driver.walk(("2", '"source"'))
        await driver.planned("d")
        await driver.walk(("y", "Purged 1"))
        assert "since then" not in driver.text and not any(ids for ids, _ in control.follows)


def cursor(value: Json, *history: CursorSection, verdict: str = "advancing") -> Cursor:
    return Cursor("imessage", value, str(value), verdict, "its file does not parse", "/c.json", True, history=history)


def write(value: Json, later: float, writer: LockHolder | None = None) -> CursorSection:
    return CursorSection(NOW + later, value, shown=str(value), writer=writer)


@pytest.mark.parametrize(
    ("now", "words"),
    [
        ((cursor(9),), "still 9: nobody has written over it for 10s"),
        ((cursor(5, write(5, 8), write(4, 4, LockHolder(4312, "python3 poll_email.py")), write(9, 0)),),
         "OVERWRITTEN after 4.0s by 4312 poll_email.py: 9 → 5"),
        ((cursor(12, write(12, 4)),), "advanced after 4.0s: 9 → 12"),
        ((cursor("tok", write("tok", 4)),), "OVERWRITTEN after 4.0s: 9 → tok"),
        ((cursor(9, verdict="unreadable"),), "imessage cannot be read now: its file does not parse"),
        ((), "imessage cannot be read now: its file is gone"),
    ],
)  # fmt: skip
async def test_a_result_says_what_became_of_the_cursor_that_was_set(now: tuple[Cursor, ...], words: str) -> None:
    control = FakeControl()
    control.cursors = (cursor(5),)
    async with dashboard(control, (120, 23)) as driver:
        await driver.see("no problems detected")
        await driver.planned(*"5e9", "enter")
        await driver.walk(("y", "operation op1"))
        control.time = NOW + 12
        control.cursors = now
        control.change()
        await driver.see(words)
        assert [plan.action for plan in control.applied] == [Action.SET_CURSOR]


NEW = {"box": Box.NEW, "place": 1, "of": 1}
CLAIMED = {"claimed_at": NOW + 2.5, "pid": 7}
IN_CUR = {"box": Box.CUR, **CLAIMED, "holder": (7, 1)}
DEAD = {**IN_CUR, "verdict": Verdict.DEAD}
DONE = {**CLAIMED, "gone_at": NOW + 5.0}


@pytest.mark.parametrize(
    "looks",
    [
        [(NEW, "waits in new, place 1 of 1"), ({**NEW, "of": 8}, ""), (IN_CUR, "claimed by 7 worker.py, attempt 1"),
         (IN_CUR, ""), (DONE, "gone, done after 2.5s"), (DONE, "")],
        [(IN_CUR, "claimed by 7 worker.py, attempt 1"),
         (DEAD, "its holder 7 is DEAD; the message stays in cur until it is requeued"), (DEAD, ""),
         ({**NEW, **CLAIMED}, "back in new, place 1 of 1"),
         ({"box": Box.CUR, "claimed_at": NOW + 3.9, "pid": 8, "holder": (8, 2)}, "claimed by 8 worker.py, attempt 2"),
         ({"box": Box.HELD, "claimed_at": NOW + 3.9, "pid": 8}, "set aside in held")],
        [(NEW, "waits in new, place 1 of 1"), (DONE, "claimed by 7|gone, done after 2.5s")],
        [(NEW, "waits in new, place 1 of 1"), ({**NEW, **CLAIMED}, "claimed by 7|back in new, place 1 of 1")],
        [({"written": True, "gone_at": NOW}, "being written in tmp"), (NEW, "complete|waits in new, place 1 of 1")],
        [({}, "not seen in any box"), ({}, ""), ({"gone_at": NOW + 4}, "gone; consumer not seen")],
    ],
    ids=["a whole life", "a holder dies", "done between two looks", "given back between two looks", "written", "not seen"],
)  # fmt: skip
async def test_a_timeline_tells_each_step_once_and_in_its_order(looks: list[tuple[dict[str, Any], str]]) -> None:
    row = waiting(1)
    control = FakeControl([row, claim(9)])
    expected: list[str] = []
    async with dashboard(control, (120, 40), quiet=0.01) as driver:
        await driver.walk(("2", '"source"'))
        for at, (facts, words) in enumerate(looks, 1):
            facts = dict(facts)
            control.time = NOW + at
            control.rows = [claim(9), row]
            there = slice(1, None) if at > 1 else slice(2, None)  # the first time its row is still to be chosen
            if holder := facts.pop("holder", None):
                owner = Owner(pid=holder[0], command="worker.py")
                control.rows[there] = [claim(1, id=row.id, attempt=holder[1], owner=owner)]
            elif facts.pop("written", False):
                control.rows[there] = [replace(written(1, Verdict.WRITING), id=row.id)]
            control.whereabouts = {row.id: TrackedMessage(row.id, **facts)}
            follows = len(control.follows)
            control.change()
            if at == 1:
                await driver.press("F")
            expected += words.split("|") if words else []
            await driver.until(lambda before=follows: len(control.follows) > before + 1, "two looks")
            await driver.see("Following", *expected)
            steps = re.findall(r"^│ .?\d\d:\d\d:\d\d +(.*?) *│$", driver.text, re.MULTILINE)
            assert steps == expected, driver.text


async def test_the_newest_step_stays_in_sight_and_what_is_above_is_counted() -> None:
    row = waiting(1)
    control = FakeControl([row])
    control.whereabouts[row.id] = TrackedMessage(row.id, Box.NEW, 1, 1)
    async with dashboard(control, (80, 14), quiet=0.01) as driver:
        await driver.walk(("2", row.id[:16]), ("F", "waits in new"))
        for pid in range(30):
            control.whereabouts[row.id] = TrackedMessage(row.id, Box.CUR, claimed_at=NOW + pid, pid=pid)
            control.change()
            await driver.see(f"claimed by {pid}")
        assert "lines above" in driver.text
        await driver.walk(("g", "waits in new", "claimed by 0"), ("G", "claimed by 29", "lines above"))


async def test_a_scrolled_timeline_is_copied_as_one_that_is_not() -> None:
    rows = [claim(number, owner=Owner(pid=7, command="worker" * 200)) for number in range(20)]
    control = FakeControl(rows)
    async with dashboard(control, (120, 40)) as driver:
        await driver.walk(("3", "Claims 20"), ("a", "20 marked"))
        await driver.planned("r")
        await driver.walk(("Y", "Requeued 20"))
        control.rows = rows
        control.whereabouts = {row.id: TrackedMessage(row.id, Box.CUR, claimed_at=NOW + 1, pid=7) for row in rows}
        control.change()
        await driver.walk(("F", "claimed by 7"), ("y", "copied: "))
        newest = driver.clipboard
        await driver.walk(("g", "claimed by 7"), ("y", "copied: "))
        assert driver.clipboard == newest and "lines above" in newest
