"""The process ends, or the call fails, at every single file operation of every action. Nothing is lost and nothing is doubled."""

from __future__ import annotations

import errno
from functools import partial

import pytest

from spooltop.model.filters.selection import Selection
from spooltop.model.operations.plan import Outcome
from spooltop.model.vocabulary import Action, Box

from .tripwire import Tripwire, failed, killed


def prepared(desk):
    """Prepares one message of each kind: claimed by a consumer that died, a foreign claim, one waiting; and a purge that can be
    undone."""
    desk.claim_and_die_here(desk.put(desk.id(1), "own"))
    desk.put("foreign:2,P4242", "foreign", box=Box.CUR)
    desk.put("waiting", "waiting")
    folder = desk.path / ".spooltop" / "rejected" / "b4d"
    folder.mkdir(parents=True)
    (folder / "bad:2,P4242").write_text("bad")
    (folder / ".bad:2,P4242.meta").write_text('{"origin": "cur"}')
    operations = desk.operations()
    revive = operations.plan(Action.REQUEUE, Selection(box=Box.REJECTED, everything=True))
    operations.apply(revive)
    purge = operations.plan(Action.PURGE, Selection(ids=("waiting",)))
    operations.apply(purge)
    requeue = operations.plan(Action.REQUEUE, Selection(ids=("foreign",)))
    operations.apply(requeue)
    return {"purged": purge.operation, "requeued": requeue.operation, "revived": revive.operation}


ACTS = {
    "requeue": lambda ids: (Action.REQUEUE, Selection(everything=True), {}),
    "purge": lambda ids: (Action.PURGE, Selection(box=Box.NEW, everything=True), {}),
    "inject": lambda ids: (Action.INJECT, Selection(), {"count": 2, "text": "injected"}),
    "undo of a purge": lambda ids: (Action.UNDO, Selection(), {"undoes": ids["purged"]}),
    "undo of a requeue": lambda ids: (Action.UNDO, Selection(), {"undoes": ids["requeued"]}),
    "undo of a requeue of what was rejected": lambda ids: (Action.UNDO, Selection(), {"undoes": ids["revived"]}),
}
MESSAGES = ("own", "foreign", "waiting", "bad")


def each_in_one_place(desk, at):
    census = desk.census()
    for content in MESSAGES:
        assert len(census.get(content, ())) == 1, (at, content, census)


def run(desk, act, ids, files, tell=lambda words: None):
    """``tell`` gets why the plan refuses what it refuses, and what is wrong with the journal."""
    action, selection, options = ACTS[act](ids)
    operations = desk.operations(files)
    files.armed = True
    plan = operations.plan(action, selection, options=options)
    for words in (*(refusal.reason for refusal in plan.refused), *(note for note in plan.notes if "journal" in note)):
        tell(words)
    return operations.apply(plan)


def finished(desk, act):
    census = desk.census()
    return {
        "requeue": census["own"][0].startswith("new/"),
        "purge": census["foreign"][0].startswith(".spooltop/trash/"),
        "inject": True,
        "undo of a purge": census["waiting"] == ["new/waiting"],
        "undo of a requeue": census["foreign"] == ["cur/foreign:2,P4242"],
        "undo of a requeue of what was rejected": census["bad"] == [".spooltop/rejected/b4d/bad:2,P4242"],
    }[act]


@pytest.mark.parametrize("old", [False, True], ids=["renameat2", "link and unlink"])
@pytest.mark.parametrize(("act", "in_common"), [*((act, False) for act in ACTS), ("purge", True)], indirect=["in_common"])
def test_killed_at_any_call_every_message_is_in_one_place_and_a_rerun_finishes(desks, act, old, in_common):
    made, at = desks(prepared), 0
    ids = made.prepared
    while True:
        at += 1
        desk = made.another()
        over = killed(at, partial(run, desk, act, ids), old=old)
        each_in_one_place(desk, at)
        desk.operations().records()
        if act == "inject":
            count = len(desk.census().get("injected", ()))
            assert count <= 2
            newest = desk.operations().records()[0]
            if newest.action is Action.INJECT and count and newest.why_not_undo is None:
                operations = desk.operations()
                undo = operations.plan(Action.UNDO, Selection(), options={"undoes": newest.operation})
                operations.apply(undo)
                assert not [name for name in desk.names(Box.NEW) if "R" in name]
        elif not finished(desk, act):
            again = run(desk, act, ids, Tripwire(0, lambda: None, old=old))
            assert again.count(Outcome.FAILED) == 0, (at, again)
            assert finished(desk, act), (at, again, desk.census())
            each_in_one_place(desk, at)
        # Two names of one file are left by none: a change has repaired them.
        run(desk, "requeue", ids, Tripwire(0, lambda: None, old=old))
        for box in ("new", "cur"):
            for path in (desk.path / box).iterdir():
                assert path.stat().st_nlink == 1, (at, path)
        if over:
            break
    assert at > 5


@pytest.mark.parametrize(
    "code", [errno.ENOSPC, *(pytest.param(code, marks=pytest.mark.long) for code in (errno.EIO, errno.EACCES))]
)
@pytest.mark.parametrize(("act", "in_common"), [*((act, False) for act in ACTS), ("purge", True)], indirect=["in_common"])
def test_an_error_at_any_call_loses_nothing_and_is_told(desks, act, code, in_common):
    made, at = desks(prepared), 0
    ids = made.prepared
    while True:
        at += 1
        desk = made.another()
        reported, over = failed(at, code, partial(run, desk, act, ids))
        each_in_one_place(desk, at)
        assert any(reported) or finished(desk, act), at
        if over:
            assert finished(desk, act)
            break
    assert at > (5 if code == errno.ENOSPC else 20)
