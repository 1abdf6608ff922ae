"""The end of the process at every file operation of an inject: what came into ``new`` is known, and can be taken back."""

from __future__ import annotations

from functools import partial

import pytest

from spooltop.model.filters.selection import Selection
from spooltop.model.operations.plan import Outcome
from spooltop.model.vocabulary import Action

from .test_crash import prepared, run
from .tripwire import CHANGES, Tripwire, killed


def injected(desk):
    return [path for path in (desk.path / "new").iterdir() if path.read_text() == "injected"]


@pytest.mark.parametrize("old", [False, True], ids=["renameat2", "link and unlink"])
def test_what_was_injected_before_a_kill_is_known_and_undone(desks, old):
    made, at, over, seen = desks(prepared), 0, False, set()
    while not over:
        at += 1
        desk = made.another()
        over = killed(at, partial(run, desk, "inject", made.prepared), old=old, seen=CHANGES)
        count = len(injected(desk))
        seen.add(count)
        operations = desk.operations()
        newest = operations.records()[0]
        assert count <= 2 and (not over or (count, newest.done) == (2, 2)), at
        if count:
            assert (newest.action, newest.why_not_undo) == (Action.INJECT, None), at
            undo = operations.plan(Action.UNDO, Selection(), options={"undoes": newest.operation})
            assert operations.apply(undo).count(Outcome.DONE) == count, at
            assert injected(desk) == [], at
    assert seen == {0, 1, 2}


def test_the_tripwire_counts_what_it_was_told_to(desks):
    made = desks(prepared)
    files = Tripwire(0, lambda: None, seen=CHANGES)
    run(made.another(), "inject", made.prepared, files)
    every = Tripwire(0, lambda: None)
    run(made.another(), "inject", made.prepared, every)
    assert 0 < files.count < every.count
