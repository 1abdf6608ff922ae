"""Operations on queues of other programs, ended or failing at each of their file operations: nothing is lost, nothing doubled,
and undo or the next operation leaves no message half moved."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.backends.operate.tripwire import Tripwire, failed, killed

from spooltop.backends.journal.log_files import LogFiles
from spooltop.model.filters.selection import Selection
from spooltop.model.operations.plan import Plan, Result
from spooltop.model.vocabulary import Action, Box
from tests.backends.layouts.queues import ACTIONS, aside, contents, operations, outcomes
from tests.builders import LAYOUTS

FIRST = (
    ("job-queue", Action.REQUEUE, Box.CUR), ("job-queue", Action.PURGE, Box.NEW), ("dirq-simple", Action.PURGE, Box.NEW),
    ("dirq-normal", Action.HOLD, Box.NEW), ("huey", Action.REQUEUE, Box.TMP),
)  # fmt: skip
"""One action of each kind of steps; the others take the same ways."""
Row = tuple[Any, ...]
WHOLE = bool(os.environ.get("SPOOLTOP_WHOLE"))
"""Every action with every error and both ways of moving a file, which takes six minutes more; else the first of each sweep."""


def swept(rows: Sequence[Row], quick: Callable[[Row], bool], usual: str, *further: str) -> list[Any]:
    """Each row with the usual variant, and the first row with the further ones. A plain run takes the quick ones alone."""
    found = []
    for number, row in enumerate(rows):
        name = " ".join(getattr(part, "__name__", str(part)) for part in row[:3])
        for variant in (usual, *further):
            is_usual = variant is usual
            if is_usual or WHOLE or number == 0:
                marks = () if is_usual and quick(row) else pytest.mark.long
                found.append(pytest.param(*row, variant, id=f"{name} {variant}", marks=marks))
    return found


def is_first(row: Row) -> bool:
    return row[:3] in FIRST


def laid_out(path: Path, layout: str) -> Path:
    """A queue that was changed before, so that its logs are there."""
    queue = path / "queue"
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir()
    LAYOUTS[layout](queue)
    own = queue / ".spooltop" if layout != "dirq-normal" else path / ".queue.spooltop"
    own.mkdir()
    for name in ("messages.jsonl", "audit.jsonl", "operate.lock"):
        (own / name).touch()
    return queue


def plan_of(queue: Path, layout: str, action: Action, box: Box, force: bool) -> Plan:
    """A plan for the first message in the box."""
    ops = operations(queue, layout)
    ids = [item.id for item in ops.plan(action, Selection(box=box, everything=True), force).items]
    return ops.plan(action, Selection(box=box, ids=(ids[0],)), force)


def inodes(queue: Path) -> dict[int, list[str]]:
    """The names of each file of the queue, in it or set aside, but for the registers, which are written anew."""
    found: dict[int, list[str]] = {}
    own = (queue / ".spooltop", queue.parent / ".queue.spooltop")
    for top in (queue, own[1]):
        for one in top.rglob("*") if top.exists() else ():
            ours = any(one.parent == folder for folder in own) or ".meta" in one.name
            if one.is_file() and "jobs" not in one.parts and not ours:
                found.setdefault(one.stat().st_ino, []).append(str(one.relative_to(queue.parent)))
    return found


def run(queue: Path, layout: str, plan: Plan, files: LogFiles, say: Callable[[str], object] = print) -> Result:
    ops = operations(queue, layout, files)
    files.armed = True  # type: ignore[attr-defined]
    try:
        return ops.apply(plan)
    finally:
        files.armed = False  # type: ignore[attr-defined]


def settled(queue: Path, before: dict[int, list[str]], at: int) -> None:
    """Each file is there under as many names as before: none is lost, none doubled."""
    found = inodes(queue)
    assert found.keys() == before.keys(), at
    assert {one: len(names) for one, names in found.items()} == {one: len(names) for one, names in before.items()}, (at, found)


@pytest.mark.parametrize("repair", ["undo", "rerun"])
@pytest.mark.parametrize(("layout", "action", "box", "force", "rename"), swept(ACTIONS, is_first, "renameat2", "link"))
def test_killed_at_any_call_no_message_is_lost_and_undo_or_a_rerun_finishes(
    memory: Path, layout: str, action: Action, box: Box, force: bool, repair: str, rename: str
) -> None:
    at = 0
    while True:
        at += 1
        queue = laid_out(memory / "q", layout)
        first, names = contents(queue), inodes(queue)
        plan = plan_of(queue, layout, action, box, force)
        over = killed(at, lambda files, queue=queue, plan=plan: run(queue, layout, plan, files), old=rename == "link")
        found = inodes(queue)
        assert found.keys() == names.keys(), (at, found)
        ops = operations(queue, layout, Tripwire(0, lambda: None, old=rename == "link"))
        if repair == "undo":
            for record in ops.records():
                undo = ops.plan(Action.UNDO, Selection(), options={"undoes": record.operation})
                assert not undo.refused, (at, undo.refused)
                assert all(outcome == "done" for outcome, _ in outcomes(ops.apply(undo))), at
            settled(queue, names, at)
            assert contents(queue) == first, at
            assert aside(queue) == {}, at
        else:
            again = ops.plan(action, Selection(box=box, everything=True), force)
            result = ops.apply(again)
            for outcome, why in outcomes(result):
                assert outcome == "done" or (outcome == "skipped" and "was cut off at it" in why), (at, why)
            assert not ops.plan(action, Selection(box=box, everything=True), force).items, at
            assert not again.items or not any(record.open for record in ops.records()), at
            unlocked = layout == "dirq-simple" and action is Action.REQUEUE
            settled(queue, {one: paths[:1] for one, paths in names.items()} if unlocked else names, at)
        if over:
            break
    assert at > 3


@pytest.mark.parametrize(("layout", "action", "box", "force", "error"), swept(ACTIONS, is_first, "ENOSPC", "EIO", "EACCES"))
def test_an_error_at_any_call_loses_nothing_and_is_told_in_a_line(
    memory: Path, layout: str, action: Action, box: Box, force: bool, error: str
) -> None:
    code: int = getattr(errno, error)
    at = 0
    while True:
        at += 1
        queue = laid_out(memory / "q", layout)
        names = inodes(queue)
        plan = plan_of(queue, layout, action, box, force)
        reported, over = failed(at, code, lambda files, say, queue=queue, plan=plan: run(queue, layout, plan, files, say))
        assert inodes(queue).keys() == names.keys(), at
        assert all("\n" not in words for words in reported), reported
        if over:
            assert operations(queue, layout).records()[0].done == 1
            break
        ops = operations(queue, layout)
        for record in ops.records():
            undo = ops.plan(Action.UNDO, Selection(), options={"undoes": record.operation})
            ops.apply(undo)
        settled(queue, names, at)
    assert at > 3


def held(queue: Path) -> None:
    """Holds everything that waits."""
    ops = operations(queue, "job-queue")
    ops.apply(ops.plan(Action.HOLD, Selection(box=Box.NEW, everything=True)))


def purged(queue: Path, layout: str = "job-queue") -> None:
    """Moves everything that waits to the trash."""
    ops = operations(queue, layout)
    ops.apply(ops.plan(Action.PURGE, Selection(box=Box.NEW, everything=True)))


def purged_elements(queue: Path) -> None:
    purged(queue, "dirq-normal")


def lost(queue: Path) -> None:
    """Leaves the state of a job whose message is nowhere."""
    state = queue / "jobs/gone-1.state"
    state.write_text("queued:1795220920720")
    os.utime(state, (1, 1))


def alone(queue: Path) -> None:
    """Leaves a lock whose element is gone."""
    (queue / "6b00e590/6b00e5b7c2149f").unlink()


REST = (
    ("job-queue", held, Action.RELEASE, Selection(ids=("wait-1",), box=Box.HELD)),
    ("job-queue", held, Action.REQUEUE, Selection(ids=("wait-1",), box=Box.HELD)),
    ("job-queue", held, Action.PURGE, Selection(ids=("wait-1",), box=Box.HELD)),
    ("job-queue", purged, Action.RESTORE, Selection(ids=("wait-1",), box=Box.TRASH)),
    ("dirq-normal", purged_elements, Action.RESTORE, Selection(everything=True, box=Box.TRASH)),
    ("job-queue", lost, Action.PURGE, Selection(ids=("gone-1",))),
    ("dirq-simple", alone, Action.UNLOCK, Selection(everything=True)),
    ("job-queue", purged, Action.UNDO, Selection()),
    ("dirq-normal", purged_elements, Action.UNDO, Selection()),
)
"""What may be done besides the actions of the layouts: the layout, what happened before, the action, and with which messages."""


def is_frequent(row: Row) -> bool:
    return row[2] in (Action.RELEASE, Action.UNDO, Action.UNLOCK)


def is_brief(row: Row) -> bool:
    return row[2] in (Action.RELEASE, Action.UNLOCK)


def plan_rest(queue: Path, layout: str, action: Action, selection: Selection) -> Plan:
    """A plan for one of ``REST``; an undo is that of the last operation."""
    ops = operations(queue, layout)
    undoes = next((one.operation for one in reversed(ops.records())), "")
    return ops.plan(action, selection, options={"undoes": undoes} if action is Action.UNDO else {})


@pytest.mark.parametrize("repair", ["undo", "rerun"])
@pytest.mark.parametrize(("layout", "before", "action", "selection", "rename"), swept(REST, is_frequent, "renameat2", "link"))
def test_killed_at_any_call_what_was_set_aside_is_finished_or_reversed(
    memory: Path, layout: str, before: Callable[[Path], None], action: Action, selection: Selection, repair: str, rename: str
) -> None:
    at = 0
    while True:
        at += 1
        queue = laid_out(memory / "q", layout)
        before(queue)
        first, put_aside, names = contents(queue), aside(queue), inodes(queue)
        plan = plan_rest(queue, layout, action, selection)
        assert plan.items
        over = killed(at, lambda files, queue=queue, plan=plan: run(queue, layout, plan, files), old=rename == "link")
        assert inodes(queue).keys() == names.keys(), at
        if repair == "undo":
            ops = operations(queue, layout)
            (mine,) = [one.operation for one in ops.records() if one.operation == plan.operation] or [""]
            if mine:
                back = ops.plan(Action.UNDO, Selection(), options={"undoes": mine})
                assert all(outcome == "done" for outcome, _ in outcomes(ops.apply(back))), at
            settled(queue, names, at)
            assert (contents(queue), aside(queue)) == (first, put_aside), at
        else:
            again = plan_rest(queue, layout, action, selection)
            operations(queue, layout).apply(again)
            assert not plan_rest(queue, layout, action, selection).items, at
            settled(queue, names, at)
        if over:
            break
    assert at > 3


@pytest.mark.parametrize(
    ("layout", "before", "action", "selection", "error"), swept(REST, is_brief, "ENOSPC", "EIO", "EACCES")
)
def test_an_error_at_any_call_with_what_was_set_aside_loses_nothing_and_a_rerun_finishes(
    memory: Path, layout: str, before: Callable[[Path], None], action: Action, selection: Selection, error: str
) -> None:
    code: int = getattr(errno, error)
    at = 0
    while True:
        at += 1
        queue = laid_out(memory / "q", layout)
        before(queue)
        names = inodes(queue)
        plan = plan_rest(queue, layout, action, selection)
        assert plan.items
        reported, over = failed(at, code, lambda files, say, queue=queue, plan=plan: run(queue, layout, plan, files, say))
        assert inodes(queue).keys() == names.keys(), at
        assert all("\n" not in words for words in reported), reported
        operations(queue, layout).apply(plan_rest(queue, layout, action, selection))
        assert not plan_rest(queue, layout, action, selection).items, at
        settled(queue, names, at)
        if over:
            break
    assert at > 3


def test_a_trash_that_was_emptied_halfway_is_emptied_again(memory: Path) -> None:
    at = 0
    while True:
        at += 1
        queue = laid_out(memory / "q", "dirq-normal")
        purged_elements(queue)
        left = contents(queue)
        plan = operations(queue, "dirq-normal").plan(Action.EMPTY, Selection(everything=True))
        over = killed(at, lambda files, queue=queue, plan=plan: run(queue, "dirq-normal", plan, files), old=False)
        assert contents(queue) == left, at
        ops = operations(queue, "dirq-normal")
        ops.apply(ops.plan(Action.EMPTY, Selection(everything=True)))
        assert aside(queue) == {}, at
        if over:
            break
    assert at > 3
