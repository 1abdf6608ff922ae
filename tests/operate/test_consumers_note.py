"""A plan that moves messages back to new names the running consumers."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from spooltop.control import open_control
from spooltop.engine import Spool
from spooltop.model.filters.selection import Selection
from spooltop.model.look.observation import Observation
from spooltop.model.row import Row
from spooltop.model.vocabulary import Action, Box, Owner, Verdict
from spooltop.operate.consumers_note import at_work
from tests.clock import NOW


def observation(
    *pids: int, consumers: int | None = None, claimed: float | None = None, verdict: Verdict = Verdict.ALIVE
) -> Observation:
    rows = tuple(Row(pid, Box.CUR, str(pid), str(pid), verdict=verdict, owner=Owner(pid=pid)) for pid in pids)
    return Observation("/s", "spool", NOW, True, {}, claims=rows, consumers=consumers, last_claim_at=claimed)


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        (observation(5201, consumers=1, claimed=NOW - 12), "At work now: 1 consumer (5201), last claim 10s ago."),
        # Who has no presence is known by its claims.
        (observation(5200, 5200, 5201), "At work now: 2 consumers (5200, 5201), last claim not known."),
        (observation(5201, consumers=3), "At work now: 3 consumers, last claim not known."),  # one is not known
        (observation(4312, verdict=Verdict.DEAD), "Nobody is at work now: they will wait in new."),
        (observation(consumers=0, claimed=NOW - 300), "Nobody is at work now, last claim 5m ago: they will wait in new."),
        (observation(claimed=NOW - 20), "Nobody is seen at work now, last claim 20s ago."),  # idle, and of another kind
    ],
)
def test_who_is_at_work(seen: Observation, words: str) -> None:
    assert at_work(seen, NOW) == words


def test_whoever_watched_for_longer_knows_of_a_later_claim() -> None:
    assert "last claim 10s ago" in at_work(observation(consumers=1, claimed=NOW - 90), NOW, NOW - 10)


def notes(path: Path, action: Action, box: Box) -> tuple[str, ...]:
    with open_control(str(path), watch=False) as control:
        return control.plan(action, Selection(box=box, everything=True), force=True).notes


def test_the_plan_of_a_spool_says_it_and_only_of_what_goes_back(tmp_path: Path) -> None:
    path = tmp_path / "spool"
    with Spool.create(str(path), durable=False) as spool:
        spool.put_many([b"a", b"b"])
        claim = spool.claim()
        assert claim is not None
        assert any(note.startswith(f"At work now: 1 consumer ({os.getpid()})") for note in notes(path, Action.REQUEUE, Box.CUR))
        assert not any("at work" in note.lower() for note in notes(path, Action.HOLD, Box.NEW))
        claim.reject("no")
    with open_control(str(path), watch=False) as control:
        plan = control.plan(Action.REQUEUE, Selection(box=Box.REJECTED, everything=True))
    assert plan.count == 1 and any(note.startswith("Nobody is at work now") for note in plan.notes)
