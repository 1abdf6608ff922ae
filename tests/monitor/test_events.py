"""Events between two looks."""

from __future__ import annotations

import json
import re

import pytest

from spooltop.model.cursors.state import Cursor
from spooltop.model.filters.selection import Selection
from spooltop.model.look.observation import Observation
from spooltop.model.look.problem import Problem, Severity
from spooltop.model.look.snapshot import Rates, Snapshot
from spooltop.model.operations.plan import OperationRecord
from spooltop.model.vocabulary import Action, Box, Verdict
from spooltop.monitor.events import QueueEvent, TargetEvents, as_json, as_text
from tests.clock import NOW


def look(
    events: TargetEvents, *problems: Problem, at: float = 0, complete: bool = True, reverts: int | None = None,
    operations: tuple[OperationRecord, ...] = (),
) -> list[str]:  # fmt: skip
    observation = Observation("/spool", "spool", NOW + at, complete, {})
    cursors = () if reverts is None else (Cursor("imessage", 5, "5", "reverted", "went back", "/c.json", True, reverts=reverts),)
    found = events.look(Snapshot(observation, Rates(), cursors, problems), operations)
    assert all(one.at == NOW + at and one.target == "/spool" for one in found)
    return [f"{one.kind} {one.subject}".strip() for one in found]


def dead(count: int = 1, severity: Severity = Severity.CRITICAL, box: Box = Box.CUR) -> Problem:
    return Problem("claims-dead", severity, f"{count} claims of dead consumers", count, Selection(box=box))


def stale(subject: str) -> Problem:
    return Problem("lock-stale", Severity.WARNING, f"{subject} is stale", 1, view="locks", subject=subject)


def long_claim(verdict: Verdict) -> Problem:
    return Problem("claim-long", Severity.WARNING, "1 claim held 11m", 1, Selection(box=Box.CUR, verdict=verdict))


def test_a_problem_begins_once_and_ends_once_though_it_comes_and_goes() -> None:
    events = TargetEvents("/spool")
    assert look(events, dead()) == ["begins claims-dead"]
    for at in range(1, 60, 4):
        assert look(events, at=at) == look(events, dead(), at=at + 2) == []
    assert look(events, at=60) == look(events, at=68) == []
    assert look(events, at=69) == ["ends claims-dead"]
    assert look(events, at=99) == []
    assert look(events, dead(), at=100) == ["begins claims-dead"]


def test_a_look_that_is_not_complete_ends_nothing() -> None:
    events = TargetEvents("/spool")
    look(events, dead())
    assert look(events, at=60, complete=False) == []
    assert look(events, at=61) == ["ends claims-dead"]


@pytest.mark.parametrize(
    ("counts", "told"),
    [([1, 2], [2]), ([4, 5, 6, 7, 8], [8]), ([8, 5, 4], [4]), ([0, 1], [1]), ([3, 3], []), ([10, 19, 20, 39, 40], [20, 40])],
)
def test_a_count_is_told_when_it_doubles_or_halves_and_a_severity_always(counts: list[int], told: list[int]) -> None:
    events = TargetEvents("/spool")
    look(events, dead(counts[0]))
    assert [count for count in counts[1:] if look(events, dead(count)) == ["changes claims-dead"]] == told
    assert look(events, dead(counts[-1], severity=Severity.WARNING)) == ["changes claims-dead"]


@pytest.mark.parametrize(
    ("one", "other"),
    [(stale("a.lock"), stale("b.lock")), (dead(), dead(box=Box.NEW)), (long_claim(Verdict.ALIVE), long_claim(Verdict.UNKNOWN))],
)
def test_problems_of_one_code_are_told_apart(one: Problem, other: Problem) -> None:
    events = TargetEvents("/spool")
    assert look(events, one, other) == [f"begins {one.code}"] * 2
    assert look(events, one, other, at=5) == []
    assert look(events, other, at=20) == [f"ends {one.code}"]


@pytest.mark.parametrize(
    ("seen", "told"), [([3, 3, 4], [[], [], ["reverted imessage"]]), ([None, 1], [[], ["reverted imessage"]])]
)
def test_lost_updates_are_told_that_came_after_the_first_look(seen: list[int | None], told: list[list[str]]) -> None:
    events = TargetEvents("/spool")
    assert [look(events, reverts=reverts) for reverts in seen] == told


def operation(name: str, *, open: bool = False, done: int = 2) -> OperationRecord:
    return OperationRecord(name, Action.REQUEUE, NOW, "a\nnn", 3, done, 1, 0, open)


def test_operations_are_told_when_they_have_ended() -> None:
    events = TargetEvents("/spool")
    assert look(events, operations=(operation("old"),)) == []
    assert look(events, operations=(operation("second", open=True), operation("first"), operation("old"))) == ["operation first"]
    assert look(events, operations=(operation("second"), operation("first"), operation("old"))) == ["operation second"]
    assert look(events, operations=(operation("second"),)) == []


def test_a_target_that_cannot_be_read_is_told_once_and_ends_no_problem() -> None:
    events = TargetEvents("/spool")
    look(events, dead())
    [failed] = events.failed("it is gone", NOW)
    assert (failed.kind, failed.text) == ("unreadable", "it is gone")
    assert events.failed("it is gone", NOW + 15) == []
    assert [one.text for one in events.failed("permission denied", NOW + 30)] == ["permission denied"]
    assert look(events, dead(), at=60) == ["readable"]


def test_the_text_is_one_line_and_the_json_has_all() -> None:
    events = TargetEvents("/sp\nool\udcff")
    observation = Observation("/spool", "spool", NOW, True, {})
    events.look(Snapshot(observation, Rates(), (), ()), ())
    found: list[QueueEvent] = events.look(Snapshot(observation, Rates(), (), (stale("a.lock"),)), (operation("7f3a"),))
    texts = [as_text(one) for one in found]
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:\d\d /sp\\x0aool\\xff [^\n]+", text) for text in texts)
    assert texts[0].endswith(" begins warning lock-stale: a.lock is stale")
    assert texts[1].endswith(r" operation 7f3a: requeue by a\x0ann: done 2, skipped 1, failed 0")
    problem, done = (json.loads(json.dumps(as_json(one))) for one in found)
    assert problem == {
        "schema": 1, "event": "begins", "at": NOW, "target": r"/sp\x0aool\xff", "code": "lock-stale", "text": "a.lock is stale",
        "severity": "warning", "count": 1, "view": "locks", "subject": "a.lock",
    }  # fmt: skip
    assert done == {
        "schema": 1, "event": "operation", "at": NOW, "target": r"/sp\x0aool\xff", "subject": "7f3a",
        "text": r"requeue by a\x0ann: done 2, skipped 1, failed 0", "action": "requeue", "user": r"a\x0ann", "began_at": NOW,
        "done": 2, "skipped": 1, "failed": 0,
    }  # fmt: skip
