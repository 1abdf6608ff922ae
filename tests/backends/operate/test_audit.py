"""The audit log: each thousand is announced before it is touched and reported after, whatever ends an operation."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

import pytest

from spooltop.errors import AuditFailed
from spooltop.model.filters.selection import Selection
from spooltop.model.operations.plan import Outcome, Plan, Result
from spooltop.model.operations.progress import BATCH
from spooltop.model.vocabulary import Action, Box
from tests.backends.conftest import Interpose
from tests.builders import SpoolWorld

NEW = Selection(box=Box.NEW, everything=True)


def lines(world: SpoolWorld, operation: str) -> list[dict[str, Any]]:
    log = world.path / ".spooltop/audit.jsonl"
    written = map(json.loads, log.read_text().replace("\0", "").splitlines()) if log.exists() else ()
    return [line for line in written if line["operation"] == operation]


def held(world: SpoolWorld, count: int, **ways: Any) -> tuple[Plan, Result]:
    """Holds ``count`` messages; ``ways`` are those of ``apply``."""
    for number in range(count):
        world.put(f"m{number:05}")
    with world.control() as control:
        plan = control.plan(Action.HOLD, NEW)
        return plan, control.apply(plan, **ways)


def test_nothing_is_moved_before_the_line_that_announces_it(world: SpoolWorld, before_call: Interpose) -> None:
    moved, count = 0, 2 * BATCH + 1
    log = world.path / ".spooltop/audit.jsonl"

    def check(name: str, *_: object) -> None:
        nonlocal moved
        moved += name.startswith("m0")
        if moved in (1, BATCH, BATCH + 1, count):
            announced = sum(len(json.loads(line)["ids"]) for line in log.read_text().replace("\0", "").splitlines()
                            if '"before"' in line)  # fmt: skip
            assert announced >= moved

    before_call("rename_noreplace", check)
    plan, result = held(world, count)
    assert (result.count(Outcome.DONE), moved) == (count, count)
    assert [(line["event"], len(line["ids"])) for line in lines(world, plan.operation)] == [
        ("before", BATCH), ("after", BATCH), ("before", BATCH), ("after", BATCH), ("before", 1), ("after", 1),
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["audit", "journal"])
@pytest.mark.parametrize("good", range(4))
def test_a_log_that_fails_ends_the_operation_and_the_result_says_what_was_done(
    world: SpoolWorld, before_call: Interpose, name: str, good: int
) -> None:
    writes = 0

    def fail(fd: int, *_: object) -> None:
        nonlocal writes
        if f"/{name}.jsonl" in os.readlink(f"/proc/self/fd/{fd}"):
            writes += 1
            if writes > good:
                raise OSError(5, "Input/output error")

    before_call("write", fail)
    try:
        _, result = held(world, 2 * BATCH)
    except AuditFailed:
        assert good == 0 and len(world.names(Box.NEW)) == 2 * BATCH
        return
    moved = len(world.names(Box.HELD))
    assert moved == 2 * BATCH or (moved == BATCH and result.stopped)
    assert (len(result.items), result.untried) == (moved, 2 * BATCH - moved)
    assert result.undo and any("Input/output error" in note for note in result.notes)


def broken(done: int) -> None:
    raise KeyError("in a callback")


@pytest.mark.parametrize(
    ("count", "ways", "ends"),
    [
        (5, lambda: {"stop": iter([False, False, *[True] * 9]).__next__}, [(2, ""), (2, "stopped")]),
        (0, dict, [(0, "nothing to do")]),
        (BATCH + 1, lambda: {"on_progress": broken}, [(BATCH, ""), (BATCH, "KeyError('in a callback')")]),
    ],
)  # fmt: skip
def test_what_was_announced_and_did_not_happen_is_written_down_as_well(
    world: SpoolWorld, count: int, ways: Callable[[], dict[str, Any]], ends: list[tuple[int, str]]
) -> None:
    for number in range(count):
        world.put(f"m{number:05}")
    with world.control() as control:
        plan = control.plan(Action.HOLD, NEW)
        try:
            control.apply(plan, **ways())
        except KeyError:
            assert ways()["on_progress"] is broken
    written = [(line["event"], line.get("tried"), line.get("ended", "")) for line in lines(world, plan.operation)]
    assert written == [("before", None, ""), *(("after", *end) for end in ends)]
