"""Drawings of very large plans and results, and what every screen says of a lock."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar, overload

import pytest

from spooltop.cli.render import changes_text, snapshot_text
from spooltop.model.look.locks import Lock, LockHolder
from spooltop.model.operations.plan import ItemResult, NotDone, Outcome
from spooltop.model.operations.tracked import TrackedMessage
from spooltop.model.vocabulary import Action, Box
from spooltop.observe.observer import Observer
from spooltop.tui.draw.elements.spans import Line, line_text
from spooltop.tui.draw.locks import lock_lines, lock_table
from spooltop.tui.draw.operating.plan import plan_lines
from spooltop.tui.draw.operating.result import result_lines
from spooltop.tui.draw.overview import overview
from spooltop.tui.threads.messages import MessagesTracked
from spooltop.tui.tracking.status import FOLLOWED_AT_MOST, followed_ids, since_then, waiting

from ...observe.observations import T0, look
from ...snapshots import asked
from ...snapshots.values import NOW

T = TypeVar("T")


def text(lines: Sequence[Line]) -> str:
    return "\n".join(line_text(line).rstrip() for line in lines)


class Asked(Sequence[T]):
    """A sequence of items or results that counts those that were read."""

    def __init__(self, one: T, length: int) -> None:
        self.one, self.length, self.looked_at = one, length, 0
        self.warnings: dict[str, int] = {}
        self.not_done = NotDone()
        self.oldest_at = 1.0

    def __len__(self) -> int:
        return self.length

    @overload
    def __getitem__(self, index: int) -> T: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...

    def __getitem__(self, index: int | slice) -> T | Sequence[T]:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(self.length))]
        if not -self.length <= index < self.length:
            raise IndexError(index)
        self.looked_at += 1
        return self.one


def test_a_plan_of_a_million_is_drawn_by_those_that_are_seen() -> None:
    """It is drawn at each key and each look: otherwise the screen would freeze for seconds."""
    one = asked.plan(items=1)
    items = Asked(one.items[0], 1_000_000)
    whole = replace(one, items=items, notes=("They wait.",))
    assert "Requeue 1,000,000" in text(plan_lines(whole, 80, 23, now=NOW, scroll=500_000))
    printed = "\n".join(changes_text.plan(whole))
    assert "requeue 1,000,000" in printed and "oldest in its box for" in printed
    assert items.looked_at < 100


def test_a_result_of_a_million_is_drawn_by_those_that_are_seen() -> None:
    """Otherwise the last key before it, and each key at it, would wait for seconds."""
    items = Asked(ItemResult("id", "id", Outcome.DONE), 1_000_000)
    items.not_done.note(500_000, [Outcome.DONE, Outcome.SKIPPED], ["", "gone"])
    whole = replace(asked.result(), action=Action.REQUEUE, items=items)
    tracked = MessagesTracked(whole.finished_at + 1, {"id": TrackedMessage("id", Box.NEW, 1, 2)})
    ids = followed_ids(whole)
    words = text(result_lines(whole, 80, 20, since=since_then(whole, tracked, ids), waiting=waiting(whole, tracked, ids)))
    assert "done 999,999 · skipped 1" in words and "skipped 1: gone" in words
    assert items.looked_at <= FOLLOWED_AT_MOST + 20


LOCKS = (
    Lock("/s/calm.lock", "flock", (LockHolder(1, since=T0 - 59),), (LockHolder(2),), "blocked", "1 waits for it"),
    Lock("/s/import.lock", "flock", (LockHolder(3, "import.py", since=T0 - 61),), (LockHolder(4),), "blocked", "1 waits for it"),
    Lock("/s/just.lock", "soft", (LockHolder(5, since=T0 - 300, alive=False),), (), "stale", "pid 5 has exited"),
    Lock("/s/leader.lock", "soft", (LockHolder(6, since=T0 - 301, alive=False),), (), "stale", "pid 6 has exited"),
    Lock("/s/x.lck", "mkdir", (LockHolder(7, since=T0 - 999, alive=False),), (), "stale", "pid 7 has exited"),
    Lock("/s/job.lock.queue", "ticket", (LockHolder(8, since=T0 - 1, alive=False),), (LockHolder(9),), "stale",
         "pid 8 has exited"),
    Lock("/s/long.lock", "flock", (LockHolder(10, since=T0 - 999),), (), "held"),
    Lock("/s/free.lock", "none", verdict="free"),
)
PROBLEM_VERDICTS = {"/s/import.lock": "BLOCKED", "/s/leader.lock": "STALE", "/s/x.lck": "STALE", "/s/job.lock.queue": "STALE"}


@pytest.mark.parametrize("many", (0, 1, 2, len(LOCKS)))
def test_every_screen_judges_a_lock_by_the_rule_of_the_problems(many: int) -> None:
    """Never "no problems detected" above a lock that is BLOCKED or STALE. The Locks view counts the locks with problems."""
    for locks in itertools.combinations(LOCKS, many):
        snapshot = Observer().add(look(0, locks=locks))
        loud = {lock.path: PROBLEM_VERDICTS[lock.path] for lock in locks if lock.path in PROBLEM_VERDICTS}
        counts = {"lock-blocked": 0, "lock-stale": 0, "ticket-orphan": 0}
        for problem in snapshot.problems:
            counts[problem.code] += 1 if problem.code != "lock-stale" else problem.count
        assert sum(counts.values()) == len(loud)
        table = text(lock_table(snapshot, 80, 60, now=T0))
        for shown in (table, text(lock_lines(snapshot, 200, 20, now=T0)), "\n".join(snapshot_text.locks(snapshot))):
            words = [(line, word) for line in shown.splitlines() for word in ("BLOCKED", "STALE") if word in line]
            assert {path: word for line, word in words for path in loud if path in line} == loud
            assert len(re.findall("BLOCKED|STALE", shown)) == len(loud)
        assert (f"{len(loud)} with problems" in table) is bool(loud)
        assert ("no problems detected" in text(overview(snapshot, 80, 20, now=T0))) is not bool(loud)
        assert ("no problems detected" in "\n".join(snapshot_text.status(snapshot, "/s"))) is not bool(loud)
