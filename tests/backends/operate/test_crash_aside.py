"""As ``test_crash``, of what sets aside, takes back and deletes: the end, or an error, at every single file operation."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass, field
from functools import partial

import pytest

from spooltop.model.filters.selection import Selection
from spooltop.model.operations.plan import Outcome
from spooltop.model.vocabulary import ASIDE, Action, Box

from .tripwire import Tripwire, failed, killed

ALL = Selection(everything=True)
TRASH = Selection(box=Box.TRASH, everything=True)
NEW = Selection(box=Box.NEW, everything=True)
POISON = f"1795222800000001.P77R0000000000000001.vm,n=3,c={'a' * 32}.1795222800000000:2,P9"


def claims(desk):
    desk.put("claimed:2,P4242", "claimed", box=Box.CUR)
    desk.put("waiting", "waiting")


def poison(desk):
    desk.put("claimed:2,P4242", "claimed", box=Box.CUR)
    desk.put(POISON, "poison", box=Box.CUR)


def put_aside(desk, box, *wanted):
    folder = desk.path / ".spooltop" / box / "f1"
    folder.mkdir(parents=True)
    for name, content, meta in wanted:
        (folder / f".{name}.meta").write_text(meta)
        (folder / name).write_text(content)


def held(desk):
    put_aside(desk, "held", ("waiting", "waiting", '{"origin": "new"}'), ("claimed:2,P9", "claimed", '{"origin": "cur"}'))


def trash(desk):
    put_aside(
        desk, "trash", ("waiting", "waiting", '{"origin": "new"}'), ("half", "half", '{"origin": "tmp"}'),
        ("claimed:2,P9", "claimed", '{"origin": "held", "was": {"origin": "cur"}}'),
    )  # fmt: skip


def waiting(desk):
    for name in ("waiting", "second"):
        desk.put(name, name)


def purged(desk):
    waiting(desk)
    operations = desk.operations()
    plan = operations.plan(Action.PURGE, NEW)
    assert operations.apply(plan).count(Outcome.DONE) == 2


@dataclass(frozen=True)
class Act:
    """``ends`` is where each message stands when it is done: the beginning of its path, None for deleted. ``undone``: it is the
    undo of that, and all is as it was before."""

    prepare: object
    action: Action
    selection: Selection
    ends: dict[str, str | None]
    options: dict = field(default_factory=dict)
    undone: bool = False


HOLD = (claims, Action.HOLD, ALL, {"claimed": ".spooltop/held/", "waiting": ".spooltop/held/"})
RELEASE = (held, Action.RELEASE, ALL, {"claimed": "new/claimed", "waiting": "new/waiting"})
RESTORE = (trash, Action.RESTORE, TRASH, {"claimed": ".spooltop/held/", "waiting": "new/waiting", "half": "tmp/half"})
REQUEUE = (poison, Action.REQUEUE, ALL, {"claimed": "new/claimed", "poison": ".spooltop/held/"})
DELETED = {"claimed": None, "waiting": None}
ACTS = {
    "hold": Act(*HOLD),
    "release": Act(*RELEASE),
    "restore": Act(*RESTORE),
    "purge of what was held": Act(
        held, Action.PURGE, Selection(box=Box.HELD, everything=True), dict.fromkeys(DELETED, ".spooltop/trash/")
    ),
    "requeue that holds poison": Act(*REQUEUE, {"hold_poison": True}),
    "empty": Act(trash, Action.EMPTY, TRASH, {**DELETED, "half": None}),
    "purge now": Act(claims, Action.PURGE, Selection(ids=("claimed", "waiting")), DELETED, {"now": True}),
    "undo of hold": Act(*HOLD, undone=True),
    "undo of release": Act(*RELEASE, undone=True),
    "undo of restore": Act(*RESTORE, undone=True),
}


HOLD_NEW = (waiting, Action.HOLD, NEW, {"waiting": ".spooltop/held/", "second": ".spooltop/held/"})
IN_COMMON = {
    "hold of all that waits": Act(*HOLD_NEW),
    "undo of hold of all that waits": Act(*HOLD_NEW, undone=True),
    "requeue of claims that holds poison": Act(
        poison, Action.REQUEUE, Selection(box=Box.CUR, everything=True), REQUEUE[-1], {"hold_poison": True}
    ),
    "empty of what was purged": Act(purged, Action.EMPTY, TRASH, {"waiting": None, "second": None}),
    "restore of what was purged": Act(purged, Action.RESTORE, TRASH, {"waiting": "new/waiting", "second": "new/second"}),
}
EACH = [*((name, False) for name in ACTS), *((name, True) for name in IN_COMMON)]
"""With metadata of its own beside each message, and in common beside the folder."""
ACTS |= IN_COMMON


def prepared(desk, act):
    """Returns the place of each message before, and the operation to undo."""
    act.prepare(desk)
    before = desk.census()
    operation = ""
    if act.undone:
        operations = desk.operations()
        plan = operations.plan(act.action, act.selection)
        assert operations.apply(plan).count(Outcome.DONE) == len(act.ends)
        operation = plan.operation
    return before, operation


def run(desk, act, operation, files, tell=lambda words: None):
    operations = desk.operations(files)
    files.armed = True
    if act.undone:
        plan = operations.plan(Action.UNDO, Selection(), options={"undoes": operation})
    else:
        plan = operations.plan(act.action, act.selection, options=act.options)
    for words in (*(refusal.reason for refusal in plan.refused), *(note for note in plan.notes if "journal" in note)):
        tell(words)
    return operations.apply(plan)


def none_lost(desk, act, at):
    census = desk.census()
    for content, end in act.ends.items():
        found = len(census.get(content, ()))
        assert found == 1 or (found == 0 and end is None and not act.undone), (at, content, census)


def finished(desk, act, before):
    census = desk.census()
    if act.undone:
        return census == before
    # A half move of a claim whose holder may be running is finished by another run alone.
    half_moved = any(path.is_file() and path.stat().st_nlink == 2 for path in (desk.path / "cur").iterdir())
    return not half_moved and all(
        content not in census if end is None else census[content][0].startswith(end) for content, end in act.ends.items()
    )


def in_order(desk, at):
    """No message has two names, what is aside has its metadata beside it or its folder, and no metadata lie about without."""
    for path in desk.path.rglob("*"):
        assert path.is_dir() or path.suffix == ".meta" or path.stat().st_nlink == 1, (at, path)
    for box in ASIDE:
        above = desk.path / ".spooltop" / box
        for folder in above.glob("[!.]*"):
            names = set(os.listdir(folder))
            meta_names = {f".{name}.meta" for name in names if not name.startswith(".")}
            assert meta_names <= names or (above / f".{folder.name}.meta").read_bytes().endswith(b"}\n"), (at, names)
        for path in above.glob(".*.meta"):
            assert (above / path.name[1:-5]).is_dir(), (at, path)


@pytest.mark.parametrize(
    ("name", "in_common", "old"),
    [
        *((*one, False) for one in EACH),
        *(pytest.param(*one, True, marks=pytest.mark.long) for one in EACH if not one[1] or one[0].startswith("hold")),
    ],
    indirect=["in_common"],
)
def test_killed_at_any_call_nothing_is_lost_and_a_rerun_finishes(desks, name, old, in_common):
    act, at = ACTS[name], 0
    made = desks(partial(prepared, act=act))
    before, operation = made.prepared
    while True:
        at += 1
        desk = made.another()
        over = killed(at, partial(run, desk, act, operation), old=old)
        none_lost(desk, act, at)
        for record in desk.operations().records():
            assert record.open or record.done, (at, record)
        if not finished(desk, act, before):
            again = run(desk, act, operation, Tripwire(0, lambda: None, old=old))
            assert again.count(Outcome.FAILED) == 0, (at, again)
            assert finished(desk, act, before), (at, again, desk.census())
        desk.put("another", "another")  # any change puts in order what a crash has left
        operations = desk.operations()
        operations.apply(operations.plan(Action.HOLD, Selection(ids=("another",))))
        none_lost(desk, act, at)
        in_order(desk, at)
        if all(end is None for end in act.ends.values()):
            assert list((desk.path / ".spooltop" / "trash").rglob(".*.meta")) == [], at
        if over:
            break
    assert at > 5


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "in_common", "code"),
    [
        *((*one, errno.ENOSPC) for one in EACH),
        *((name, False, errno.EIO) for name in ("empty", "purge now")),
    ],
    indirect=["in_common"],
)
def test_an_error_at_any_call_loses_nothing_and_is_told(desks, name, code, in_common):
    act, at = ACTS[name], 0
    made = desks(partial(prepared, act=act))
    before, operation = made.prepared
    while True:
        at += 1
        desk = made.another()
        reported, over = failed(at, code, partial(run, desk, act, operation))
        none_lost(desk, act, at)
        assert any(reported) or finished(desk, act, before), at
        if over:
            assert finished(desk, act, before)
            break
    assert at > (5 if code == errno.ENOSPC else 20)
