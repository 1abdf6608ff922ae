"""Completes what a crash cut off: the rest of the changes of a message, or if that is not possible, nothing of them."""

from __future__ import annotations

from spooltop.engine.atomic import discard
from spooltop.model.operations.plan import Outcome

from ...journal.item_operator import Skipped
from ...journal.record_log import ItemOutcome
from ..queue_dirs import QueueDirs
from .changes import Verb, inverse
from .performer import DRAFT, NOTHING, HalfDone, Performer, pin_of
from .record import MessageIntent
from .undo import stage_now

__all__ = ["finished", "remove_drafts"]


def finished(dirs: QueueDirs, intent: MessageIntent) -> ItemOutcome | None:
    """Completes the changes of ``intent``, which has no result, or else reverses those that were made, and returns the result
    to log. None where neither is possible now. Raises ``OSError``."""
    stage = stage_now(dirs, intent, ended=False, latest=False)
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
