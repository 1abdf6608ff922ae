"""Operator actions with a power cut after every change they make, by the model of ``pagecache``."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from unittest.mock import patch

from spooltop.engine import Spool, set_aside
from spooltop.engine.dirs import SpoolDirs
from spooltop.model.plan import BATCH, Outcome, Selection
from spooltop.model.vocabulary import ASIDE, LIVE, Action, Box

from .pagecache import Disk, RecordingFiles
from .world import body, build, operations

__all__ = ["TAKEN", "WORK", "operator_cuts", "taken_cuts"]

WORK: tuple[tuple[Action, ...], ...] = (
    (Action.REQUEUE,), (Action.REQUEUE, Action.UNDO), (Action.PURGE,), (Action.PURGE, Action.UNDO),
    (Action.PURGE, Action.RESTORE), (Action.HOLD,), (Action.HOLD, Action.RELEASE), (Action.HOLD, Action.PURGE),
    (Action.PURGE, Action.EMPTY),
)  # fmt: skip
"""Actions done one after the other; the power goes during the last."""
WAITING = ("m1", "m2", "m3")
TAKEN = {Action.REQUEUE: Box.NEW, Action.HOLD: Box.HELD, Action.PURGE: Box.TRASH}
"""Actions on a claim whose consumer died a moment ago, and the boxes that the claim goes to."""


def operator_cuts(
    base: Path, work: Sequence[Action], *, old: bool, keeps_order: bool, in_common: bool
) -> Iterator[tuple[int, list[str]]]:
    """(number of the event, what was wrong) for each tree that a power cut during the last of ``work``, or after it, leaves.
    ``in_common``: as of very many, whose metadata lie beside their folder."""
    with patch("spooltop.backends.directory.operator.moving._SMALL", 0 if in_common else BATCH):
        yield from _operator_cuts(base, work, old=old, keeps_order=keeps_order, in_common=in_common)


def _operator_cuts(
    base: Path, work: Sequence[Action], *, old: bool, keeps_order: bool, in_common: bool
) -> Iterator[tuple[int, list[str]]]:
    root = base / "world"
    build(root, False)
    disk = Disk(root, keeps_order=keeps_order)
    files = RecordingFiles(old=old, keeps_order=keeps_order)
    began, operation = 0, ""
    boxes: list[tuple[Box | None, Box | None]] = [(Box.CUR, Box.NEW)]
    """Boxes of d1 and of the others, before any action and after each."""
    for action in work:
        began, now = len(files.events), boxes[-1]
        desk = operations(root, files)
        if action is Action.UNDO:
            plan, goes = desk.plan(action, Selection(), options={"undoes": operation}), boxes[-2]
        else:
            box = (Box.CUR if action is Action.REQUEUE else now[1]) or Box.NEW
            plan = desk.plan(action, Selection(box=box, everything=True))
            to = {
                Action.REQUEUE: Box.NEW, Action.PURGE: Box.TRASH, Action.HOLD: Box.HELD, Action.RELEASE: Box.NEW,
                Action.RESTORE: Box.NEW, Action.EMPTY: None,
            }[action]  # fmt: skip
            goes = (to, now[1]) if action is Action.REQUEUE else (now[0], to)
        result = desk.apply(plan)
        if result.count(Outcome.DONE) != plan.count or not plan.count:
            raise AssertionError(f"{action}: {result}")
        operation = plan.operation
        boxes.append(goes)
    for number, event in enumerate(files.events):
        disk.apply(event)
        ended = number + 1 == len(files.events)
        if number < began:
            continue
        for cut in disk.cuts(number):
            where = base / "cut"
            disk.lay_out(cut, where)
            wrong = [*_wrong(where, boxes[-2], boxes[-1], ended), *(_untold(where, operation, len(plan.items)) if ended else ())]
            # Only what comes out of a box has them in common; what a message has of its own is not synced.
            yield number, [*wrong, *(_nothing_known(where) if in_common and boxes[-2][1] in LIVE else ())]
            shutil.rmtree(where)


def taken_cuts(base: Path, action: Action, *, old: bool, keeps_order: bool) -> Iterator[tuple[int, list[str]]]:
    """(number of the event, what was wrong) for each tree that a power cut leaves while an operator takes a claim that no sync
    has seen. It is never set aside and, as another message, in ``new``."""
    root = base / "world"
    build(root, False)
    disk = Disk(root, keeps_order=keeps_order)
    files = RecordingFiles(old=old, keeps_order=keeps_order)
    with Spool(root, False, files=files) as spool:
        claim = spool.claim()
        assert claim is not None
        label = claim.data.decode().partition(":")[0]
        spool._consumer._forget(claim)  # as if the process died with it
    began = len(files.events)
    desk = operations(root, files)
    plan = desk.plan(action, Selection(box=Box.CUR, ids=(claim.id,)))
    result = desk.apply(plan)
    if result.count(Outcome.DONE) != 1:
        raise AssertionError(f"{action}: {result}")
    for number, event in enumerate(files.events):
        disk.apply(event)
        if number < began:
            continue
        for cut in disk.cuts(number):
            where = base / "cut"
            disk.lay_out(cut, where)
            with Spool(where, False) as spool:
                spool.recover()
            boxes = {box for found in _exists(where, label).values() for box in found}
            # A claim that no sync has seen may be in new as well, whoever had it: until then nothing was promised of it.
            ended = number + 1 == len(files.events)
            right = boxes == {TAKEN[action]} if ended else boxes and not (Box.NEW in boxes and boxes & {*ASIDE})
            yield number, [] if right else [f"{label} stands in {sorted(boxes)}"]
            shutil.rmtree(where)


def _exists(root: Path, label: str) -> dict[int, set[Box]]:
    """The files that hold the message whole, and where their names are."""
    found: dict[int, set[Box]] = {}
    for box in (Box.NEW, Box.CUR, *ASIDE):
        folder = root / box if box not in ASIDE else root / ".spooltop" / box
        for path in folder.glob("[!.]*" if box not in ASIDE else "*/[!.]*"):
            if path.read_bytes() == body(label):
                found.setdefault(path.lstat().st_ino, set()).add(box)
    return found


def _wrong(
    root: Path, before: tuple[Box | None, Box | None], after: tuple[Box | None, Box | None], ended: bool
) -> Iterator[str]:
    for label in ("d1", *WAITING):
        was, will = (pair[0] if label == "d1" else pair[1] for pair in (before, after))
        files = _exists(root, label)
        if len(files) > 1:
            yield f"{label} stands in {len(files)} files"
        boxes = set().union(*files.values()) if files else set()
        if ended and boxes != ({will} if will is not None else set()):
            yield f"{label} stands in {sorted(boxes)}, not in {will}, where it was said to be"
        elif not boxes and will is not None:
            yield f"{label} is lost"
        elif not boxes <= {was, will}:
            yield f"{label} stands in {sorted(boxes)}, neither in {was} nor in {will}"


def _nothing_known(root: Path) -> Iterator[str]:
    with SpoolDirs(root) as dirs:
        for entry in (entry for box in ASIDE for entry in set_aside.entries(dirs, box)):
            if "reason" not in set_aside.read_meta(dirs, entry):
                yield f"nothing is known of {entry.name}, which was set aside"


def _untold(root: Path, operation: str, count: int) -> Iterator[str]:
    """Yields an error unless the operation and its number of messages are known after the power cut: else nothing could undo
    it."""
    known = [record for record in operations(root).records() if record.operation == operation]
    if [(record.done, record.open) for record in known] != [(count, False)]:
        yield f"the journal tells {known} of it"
