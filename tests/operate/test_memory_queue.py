"""A new kind of queue is one module, which says how its messages move: all else is what every kind has."""

from __future__ import annotations

import os
import time
from itertools import count
from pathlib import Path

from spooltop.backends.log_store import LogFiles, LogStore
from spooltop.model.plan import Outcome, Selection
from spooltop.model.vocabulary import Action, Box
from spooltop.operate.operations import Operations

from .memory_queue import MemoryOperator


def test_a_queue_in_memory_is_changed_paced_stopped_listed_audited_and_undone(tmp_path: Path) -> None:
    boxes = {box: set[str]() for box in (Box.NEW, Box.HELD, Box.TRASH)}
    boxes[Box.NEW] = set("abcd")
    waited: list[float] = []
    operator = MemoryOperator(boxes, LogStore("memory", LogFiles(), state_dir=str(tmp_path)), time.time)
    operator._wait = waited.append
    numbers = count()
    operations = Operations(operator, "memory", time.time, lambda: f"op{next(numbers)}")

    plan = operations.plan(Action.HOLD, Selection(ids=("a", "b", "c")), options={"rate": 10})
    boxes[Box.NEW].discard("b")  # a consumer was quicker
    result = operations.apply(plan)
    assert [(one.id, one.outcome) for one in result.items] == [
        ("a", Outcome.DONE), ("b", Outcome.SKIPPED), ("c", Outcome.DONE)
    ]  # fmt: skip
    assert boxes == {Box.NEW: {"d"}, Box.HELD: {"a", "c"}, Box.TRASH: set()} and sum(waited) >= 0.2

    [record] = operations.records()
    assert (record.count, record.done, record.skipped, record.why_not_undo) == (3, 2, 1, None)
    trail = operations.audited(record.operation)
    assert [(line.tried, line.count, line.by.pid) for line in trail.lines] == [(tried, 3, os.getpid()) for tried in (1, 2, 3)]
    assert [one.became for line in trail.lines for one in line.results] == ["held/a", "", "held/c"]

    steps = iter((False, True))
    undo = operations.plan(Action.UNDO, Selection(), options={"undoes": record.operation})
    assert [refusal.row.id for refusal in undo.refused] == ["b"]
    stopped = operations.apply(undo, stop=lambda: next(steps))
    assert (stopped.stopped, stopped.untried, boxes[Box.NEW]) == (True, 1, {"a", "d"})
    rest = operations.plan(Action.UNDO, Selection(), options={"undoes": record.operation})
    assert operations.apply(rest).count(Outcome.DONE) == 1 and boxes[Box.NEW] == {"a", "c", "d"}
    purge = operations.plan(Action.PURGE, Selection(box=Box.NEW, everything=True))
    assert purge.count == 3 and operator.why_not(Action.REQUEUE) == "not in memory"
