"""Moves the messages of one queue into another, of whatever kinds they are: claim, put with a key, ack.

Killed at any point, nothing is lost and nothing is there twice: a message that was put but not acked is claimed again by the next
run, whose put with the same key does nothing.
"""

from __future__ import annotations

from collections.abc import Callable

from spooltop.records import dataclass

from .engine.producing.producer import MessageId
from .model.queue import Queue

__all__ = ["KEYS_KEPT", "Moved", "move_messages"]

KEYS_KEPT = 7 * 86400.0
"""Seconds for which the target remembers what was moved: so long after an interruption a further run puts nothing twice."""


@dataclass(frozen=True, slots=True)
class Moved:
    """Numbers of messages: ``moved``, ``known`` (an earlier run had put them; only their acks were missing) and ``left`` in the
    source, which wait for a delay or came meanwhile. ``stopped``: before all were moved."""

    moved: int
    known: int
    left: int
    stopped: bool


def move_messages(
    source: Queue,
    target: Queue,
    name: str,
    *,
    stop: Callable[[], bool] = lambda: False,
    on_progress: Callable[[int], object] = lambda done: None,
) -> Moved:
    """Moves what can be claimed from ``source``, oldest first, and returns when nothing is left to claim, or ``stop`` returns
    True between two messages. ``name`` is the same for all names of the source, and part of the keys in ``target``.

    Messages get new ids and begin with their first attempt; content and source stay. Claims that consumers hold are theirs.
    Raises ``SpooltopError``; what was claimed then goes back when ``source`` is closed.
    """
    moved = known = 0
    stopped = False
    source.recover()
    while not (stopped := stop()):
        claim = source.claim()
        if claim is None:
            if source.recover():
                continue
            break
        id = target.put(claim.data, source=claim.source, key=f"moved from {name}: {claim.id}")
        claim.ack()
        repeated = isinstance(id, MessageId) and id.duplicate
        known += repeated
        moved += not repeated
        on_progress(moved + known)
    return Moved(moved, known, source.depth(), stopped)
