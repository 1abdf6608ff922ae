"""Reverses an operation from its records in the journal, and lists operations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from spooltop.engine.atomic import discard
from spooltop.model.operations.plan import Item, OperationRecord, Outcome, Refusal
from spooltop.model.row import Row
from spooltop.model.text import escape
from spooltop.model.vocabulary import Box

from ...journal.item_operator import Skipped, may_have_changed, operation_record, why_not_undo
from ...journal.record_log import ItemOutcome, LoggedOperation
from ..definition import Layout
from ..queue_dirs import QueueDirs, aside, in_queue, is_aside
from .changes import FileChange, Verb, inverse
from .performer import DRAFT, NOTHING, HalfDone, LayoutIntent, LayoutOutcome, MessageChanges, Performer, pin_of, stage_of
from .planning import MessagePlan

LoggedMessages = LoggedOperation[LayoutIntent, LayoutOutcome]
"""All that the journal holds of one operation on another program's queue."""

DURING = 60.0
"""Seconds after an intent within which its changes were made. A lock that is younger is not ours."""


class LoggedMessage(NamedTuple):
    """A message of an operation: its place there, its changes, when they were about to begin, and how they ended; None: that is
    not in the journal."""

    place: int
    changes: MessageChanges
    at: float
    outcome: ItemOutcome | None


def messages_of(logged: LoggedMessages) -> Iterator[LoggedMessage]:
    """The messages of ``logged`` that were begun, in order."""
    for step, (batch, outcome) in sorted(logged.steps.items()):
        for number, changes in enumerate(batch.items if outcome is None else batch.items[: outcome.tried]):
            yield LoggedMessage(step + number, changes, batch.at, None if outcome is None else outcome.at(number))


def stage_now(dirs: QueueDirs, intent: MessageChanges, at: float, *, ended: bool, latest: bool) -> tuple[int, bool] | None:
    """The number of changes of ``intent``, of the time ``at``, that are in effect, all or none where it ``ended``, as
    ``stage_of`` says. None where something else has happened since. Raises ``OSError``."""
    stage = stage_of(dirs, intent.changes, intent.pins, latest=latest)
    if stage is None or (stage[0] in (0, len(intent.changes)) and not stage[1]):
        return stage
    if ended:
        return None
    # Cut off in the middle: a lock that was made then looks like one that its program made later, but for its time.
    newest = 0
    for change in intent.changes:
        for location in (change.path, change.to):
            found = dirs.status(location) if location else None
            newest = max(newest, 0 if found is None else found.st_ctime_ns)
    return stage if newest / 1e9 < at + DURING else None


def undo_candidates(
    dirs: QueueDirs, layout: Layout, logged: LoggedMessages, undos: Sequence[LoggedMessages], seen: Mapping[str, Row]
) -> tuple[list[Item], list[Refusal], list[str]]:
    """Pins the messages of ``logged`` that can go back to where they were, as far as none of ``undos`` has reversed them.
    ``seen`` are the messages of a look just now by location. Raises ``OSError``."""
    reversing = [one for undo in undos for one in messages_of(undo)]
    reversed_by = {one.changes.reverses for one in reversing if one.outcome is not None and one.outcome.changed}
    cut_off = {one.changes.reverses: one.changes for one in reversing if one.outcome is None}
    items: list[Item] = []
    refused: list[Refusal] = []
    for place, intent, at, outcome in messages_of(logged):
        if place in reversed_by or (outcome is not None and not outcome.changed):
            continue
        stage = stage_now(dirs, intent, at, ended=outcome is not None, latest=True)
        number = None if stage is None else stage[0]
        if number == 0:
            continue  # it was cut short before, or is back already
        row = _row(layout, intent, number, seen)
        if any(change.verb is Verb.DELETE for change in intent.changes):
            refused.append(Refusal(row, "deleted permanently"))
        elif number is not None:
            items.append(Item(row, _reversed(dirs, intent, number, place)))
        elif place in cut_off:
            items.append(Item(row, _repeated(dirs, cut_off[place])))  # it is finished first
        else:
            refused.append(Refusal(row, "too late: its program, or somebody else, has changed it since"))
    notes = [f"{len(reversed_by)} of {logged.first.count} undone already."] if reversed_by else []
    return items, refused, notes


def _reversed(dirs: QueueDirs, intent: MessageChanges, number: int, place: int) -> MessagePlan:
    back = inverse(intent.changes[:number])
    message = _message(intent.message, intent.changes[:number])
    pins = {location: pin_of(dirs.status(location)) for location in _read_by(back)}
    pins = {location: pin for location, pin in pins.items() if pin != NOTHING}
    return MessagePlan(intent.id, message, dirs.identity, back, tuple(pins.items()), reverses=place)


def _repeated(dirs: QueueDirs, intent: MessageChanges) -> MessagePlan:
    """The plan of ``intent``, for a message at which an undo was cut off."""
    return MessagePlan(
        intent.id, intent.message, dirs.identity, tuple(intent.changes), tuple(intent.pins.items()), reverses=intent.reverses
    )


def _read_by(changes: Sequence[FileChange]) -> list[str]:
    """The locations that lie where they are before the first change, with the other name of a file that loses one."""
    read = [change for change in changes if change.verb not in (Verb.MKDIR, Verb.POKE)]
    return list(dict.fromkeys([change.path for change in read] + [change.to for change in read if change.verb is Verb.UNLINK]))


def _message(location: str, changes: Sequence[FileChange]) -> str:
    for change in changes:
        if change.verb is Verb.MOVE and change.path == location:
            location = change.to
    return location


def _row(layout: Layout, intent: MessageChanges, number: int | None, seen: Mapping[str, Row]) -> Row:
    """The row of a message where it lies after ``number`` changes, as it was ``seen`` if it was."""
    location = _message(intent.message, intent.changes[: number or 0])
    if location in seen:
        return seen[location]
    if is_aside(location):
        box = Box.HELD if location.startswith(aside("held/")) else Box.TRASH
    else:
        box = next((Box(match.box) for match in layout.matches if match.template.match(location) is not None), Box.NEW)
    return Row(key=(box.value, location), box=box, id=intent.id, name=in_queue(location))


def entries(
    operations: Mapping[str, LoggedMessages], undone_by: Mapping[str, str]
) -> list[OperationRecord]:
    """The entries of ``operations`` in the list of operations."""
    records = []
    for logged in operations.values():
        messages = list(messages_of(logged))
        outcomes = [one.outcome.outcome for one in messages if one.outcome is not None]
        deletes = all(change.verb is Verb.DELETE for one in messages for change in one.changes.changes)
        undone = undone_by.get(logged.operation)
        why_not = why_not_undo(changed=may_have_changed(logged), undone=undone, other="deleted permanently" if deletes else None)
        words = ""
        if logged.open:
            first, *more = [escape(one.changes.id) for one in messages if one.outcome is None]
            where = f"between {first} and {more[-1]}" if more else f"at {first}"
            words = f"cut short {where}: undo reverses it, the next operation finishes it"
        records.append(
            operation_record(
                logged, outcomes, count=logged.first.count, unfinished=logged.open, undone=undone, why_not=why_not, words=words
            )
        )
    return records


# Completes what a crash cut off: the rest of the changes of a message, or if that is not possible, nothing of them.

def finished(dirs: QueueDirs, intent: MessageChanges, at: float) -> ItemOutcome | None:
    """Completes the changes of ``intent``, of the time ``at``, which has no result, or else reverses those that were made, and
    returns the result to log. None where neither is possible now. Raises ``OSError``."""
    stage = stage_now(dirs, intent, at, ended=False, latest=False)
    if stage is None:
        return ItemOutcome(Outcome.SKIPPED, "cut short, and changed by its program since")
    number, half = stage
    if number == 0 and not half:
        Performer(dirs, {}, intent.message).tidy([change.to for change in intent.changes])
        return ItemOutcome(Outcome.SKIPPED, "cut short before anything was changed")
    rest = intent.changes[number:]
    if not rest:
        return ItemOutcome(Outcome.DONE, "finished later")
    message = intent.message
    for change in intent.changes[:number]:
        if change.verb is Verb.MOVE and change.path == message:
            message = change.to
    locations = [one for change in intent.changes for one in (change.path, change.to) if one]
    pins = {location: pin for location in locations if (pin := pin_of(dirs.status(location))) != NOTHING}
    performer = Performer(dirs, pins, message)
    try:
        performer.run(rest)
    except HalfDone:
        return None
    except (Skipped, OSError) as error:
        try:
            Performer(dirs, pins, message).run(inverse(intent.changes[:number]))
        except (HalfDone, Skipped, OSError):
            return None
        why = error.strerror if isinstance(error, OSError) else str(error)
        return ItemOutcome(Outcome.SKIPPED, f"cut short and reversed: {why}")
    return ItemOutcome(Outcome.DONE, "finished later")


def remove_drafts(dirs: QueueDirs) -> None:
    """Removes texts that were not written to their end. Only in a turn: nobody else writes one then. Raises ``OSError``."""
    own = dirs.private_dir()
    for name in () if own is None else dirs.files.list(own):
        if name.startswith(DRAFT):
            assert own is not None  # else there are no names
            discard(dirs.files, name, own)
