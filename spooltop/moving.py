"""Moves the messages of one queue into another, of whatever kinds they are: claim, put with a key, ack, forget the key.

The key is the claim. Killed at any point, nothing is lost and nothing is there twice: nobody but the next move to the same target
takes the claims of a killed one, and it asks the target for the key of each: there, it is acked, else it is put.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from spooltop.model.queue import InterruptedMove, MessageMover, Queue, QueueCounts

from .errors import ClaimLost, SpooltopError, Unavailable


class Moved(Struct, frozen=True):
    """Numbers of messages: ``moved``; ``known``, which an earlier run had put, so that only their acks were missing; ``taken``,
    which an operator took back while they were put, so that both queues have them. ``left`` counts what the source has at the
    end, ``elsewhere`` the claims of killed moves by the names of their targets. ``stopped``: before all were moved."""

    moved: int
    known: int
    taken: int
    left: QueueCounts
    elsewhere: Mapping[str, int] = field(default_factory=dict)
    stopped: bool = False


def to_move(mover: MessageMover, target: Queue) -> tuple[int, QueueCounts, Mapping[str, int]]:
    """Returns the number of messages that a move to ``target`` would move, what the source has, and the claims of killed moves to
    other targets, by their names. Changes nothing."""
    counts = mover.counts()
    ours, others = _sorted(mover.interrupted(), target)
    return counts.ready + counts.dead + sum(len(move.claims) for move in ours), counts, others


def move_messages(
    source: Queue,
    target: Queue,
    mover: MessageMover,
    *,
    stop: Callable[[], bool] = lambda: False,
    on_progress: Callable[[int], object] = lambda done: None,
) -> Moved:
    """Moves what can be claimed from ``source`` by its ``mover``, oldest first: as many messages as are there at the start. So it
    ends, also where both are one queue without its being known. Returns earlier if ``stop`` returns True between two messages.

    What killed moves to the same target have left comes first, then what other dead consumers held. Messages get new ids and
    begin with their first attempt; content and source stay. Claims that running consumers hold are theirs. Raises
    ``SpooltopError``; a message that then may have been put stays claimed, for the next run.
    """
    moved = known = taken = 0
    stopped = False

    def move(claim: Any) -> None:
        nonlocal moved, taken
        done = _move(claim, target, mover)
        moved += done is True
        taken += done is False
        on_progress(moved + known + taken)

    for interrupted in _sorted(mover.interrupted(), target)[0]:
        for name, key in interrupted.claims:
            if stopped := stopped or stop():
                break
            if target.was_put(key):
                mover.discard(name)
                target.forget_key(key)
                known += 1
                on_progress(moved + known + taken)
            elif (claim := mover.adopt(name)) is not None:
                move(claim)
        if not stopped:
            target.forget_mover(interrupted.mover)
            mover.end(interrupted)
    while not stopped and source.recover():
        pass  # a server hands back some at a time
    for _ in range(mover.counts().ready):
        if stopped := stopped or stop():
            break
        if (claim := mover.claim()) is None:
            break  # consumers took the others
        move(claim)
    return Moved(moved, known, taken, mover.counts(), _sorted(mover.interrupted(), target)[1], stopped)


def forget_ended(mover: MessageMover, target: Queue) -> None:
    """Removes what killed moves to ``target`` left that have no claim any more: their keys, and their records."""
    for interrupted in _sorted(mover.interrupted(), target)[0]:
        if not interrupted.claims:
            target.forget_mover(interrupted.mover)
            mover.end(interrupted)


def _move(claim: Any, target: Queue, mover: MessageMover) -> bool | None:
    """Moves one message. If an operator took the claim away, returns False after the put, and None before it. An error leaves the
    claim to the next run, unless the message was not put for sure."""
    key = mover.key(claim)
    try:
        data, source = claim.data, claim.source
    except ClaimLost:
        return None
    except BaseException:
        mover.give_back(claim)
        raise
    if not mover.holds(claim):
        return None
    try:
        target.put(data, source=source, key=key)
        claim.ack()
    except ClaimLost:
        target.forget_key(key)
        return False
    except BaseException as error:
        _settle(claim, key, target, mover, error)
        raise
    target.forget_key(key)
    return True


def _settle(claim: Any, key: str, target: Queue, mover: MessageMover, error: BaseException) -> None:
    """Gives a claim back whose message was not put. After ``error`` the put may still come where an answer was lost."""
    if isinstance(error, SpooltopError) and not (isinstance(error, Unavailable) and error.answer_lost):
        try:
            if not target.was_put(key):
                mover.give_back(claim)
                return
        except SpooltopError as further:
            error.add_note(f"and then: {further}")
    mover.leave(claim)


def _sorted(moves: Sequence[InterruptedMove], target: Queue) -> tuple[list[InterruptedMove], Mapping[str, int]]:
    """Returns the killed moves to ``target``, and the number of claims of the others by the names of their targets."""
    identity = target.identity
    others: Counter[str] = Counter()
    ours = []
    for move in moves:
        if move.target.is_same(identity):
            ours.append(move)
        elif move.claims:
            others[move.target.name] += len(move.claims)
    return ours, others
