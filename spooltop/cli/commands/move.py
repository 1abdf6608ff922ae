"""``move``: moves the messages of one queue into another, of whatever kinds they are: claim, put with a key, ack, forget the key.

The key is the claim. Killed at any point, nothing is lost and nothing is there twice: nobody but the next move to the same target
takes the claims of a killed one, and it asks the target for the key of each: there, it is acked, else it is put.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from math import ceil
from shlex import quote
from typing import Any

from spooltop.model import ClaimLost, Frozen, SpooltopError, Stop, UsageError, escape
from spooltop.model.queue import InterruptedMove, MessageMover, Queue, QueueCounts
from spooltop.operate.operations import confirm_for
from spooltop.settings import load

from ..context import DONE, INTERRUPTED, NOTHING_MATCHED, SOME, Arguments, ProgressLine, signals_to
from ..render.as_json import members
from .change import confirm
from .create import open_for


class Moved(Frozen):
    """Numbers of messages: ``moved``; ``known``, which an earlier run had put, so that only their acks were missing; ``taken``,
    which an operator took back while they were put, so that both queues have them. ``left`` counts what the source has at the
    end, ``elsewhere`` the claims of killed moves by the names of their targets. ``stopped``: before all were moved."""

    moved: int
    known: int
    taken: int
    left: QueueCounts
    elsewhere: Mapping[str, int] = {}
    stopped: bool = False


def to_move(mover: MessageMover, target: Queue) -> tuple[int, QueueCounts, Mapping[str, int]]:
    """Returns the number of messages that a move to ``target`` would move, what the source has, and the claims of killed moves to
    other targets, by their names. Changes nothing."""
    counts = mover.counts()
    ours, others = _interrupted(mover, target)
    return counts.ready + counts.dead + sum(len(move.claims) for move in ours), counts, others


def move_messages(
    source: Queue,
    target: Queue,
    mover: MessageMover,
    *,
    stop: Stop = lambda: False,
    on_progress: Callable[[int], object] = lambda done: None,
) -> Moved:
    """Moves what can be claimed from ``source`` by its ``mover``, oldest first: as many messages as are there at the start. So it
    ends, also where both are one queue without its being known. Returns earlier if ``stop`` returns True between two messages.

    What killed moves to the same target have left comes first, then what other dead consumers held. Messages get new ids and
    begin with their first attempt; content and source stay. Claims that running consumers hold are theirs. Raises
    ``SpooltopError``; a message that then may have been put stays claimed, for the next run.
    """
    done = Counter[str]()
    stopped = False

    def tell(outcome: str) -> None:
        done[outcome] += 1
        on_progress(done.total())

    for interrupted in _interrupted(mover, target)[0]:
        for name, key in interrupted.claims:
            if stopped := stopped or stop():
                break
            if target.was_put(key):
                mover.discard(name)
                target.forget_key(key)
                tell("known")
            elif (claim := mover.adopt(name)) is not None:
                tell(_move(claim, target, mover))
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
        tell(_move(claim, target, mover))
    return Moved(done["moved"], done["known"], done["taken"], mover.counts(), _interrupted(mover, target)[1], stopped)


def forget_ended(mover: MessageMover, target: Queue) -> None:
    """Removes what killed moves to ``target`` left that have no claim any more: their keys, and their records."""
    for interrupted in _interrupted(mover, target)[0]:
        if not interrupted.claims:
            target.forget_mover(interrupted.mover)
            mover.end(interrupted)


def _move(claim: Any, target: Queue, mover: MessageMover) -> str:
    """Moves one message, and returns "moved". If an operator took the claim away, returns "taken" after the put, and "gone"
    before it. An error leaves the claim to the next run, unless the message was not put for sure."""
    key = mover.key(claim)
    try:
        data, source = claim.data, claim.source
    except ClaimLost:
        return "gone"
    except BaseException:
        mover.give_back(claim)
        raise
    if not mover.holds(claim):
        return "gone"
    try:
        target.put(data, source=source, key=key)
        claim.ack()
    except ClaimLost:
        target.forget_key(key)
        return "taken"
    except BaseException as error:
        _settle(claim, key, target, mover, error)
        raise
    target.forget_key(key)
    return "moved"


def _settle(claim: Any, key: str, target: Queue, mover: MessageMover, error: BaseException) -> None:
    """Gives a claim back whose message was not put. After ``error`` the put may still come where an answer was lost."""
    if isinstance(error, SpooltopError) and not error.answer_lost:
        try:
            if not target.was_put(key):
                mover.give_back(claim)
                return
        except SpooltopError as further:
            error.add_note(f"and then: {further}")
    mover.leave(claim)


def _interrupted(mover: MessageMover, target: Queue) -> tuple[list[InterruptedMove], Mapping[str, int]]:
    """Returns the killed moves to ``target``, and the number of claims of the others by the names of their targets."""
    identity = target.identity
    others: Counter[str] = Counter()
    ours = []
    for move in mover.interrupted():
        if move.target.is_same(identity):
            ours.append(move)
        elif move.claims:
            others[move.target.name] += len(move.claims)
    return ours, others


def move(args: Arguments) -> int:
    terminal = args.terminal
    opened = partial(open_for, args, action="move", hosts=load(terminal.environ).claims_hosts)
    with opened() as source, opened(path=args.to) as target:
        if source.identity.is_same(target.identity):
            what = "move: both are the same queue" + ("" if source.name == target.name else f", as {escape(target.name)} too")
            raise UsageError(what, "name another one to move to", path=source.name)
        with source.mover(target.identity) as mover:
            waiting, counts, elsewhere = args.reach(args.path, partial(to_move, mover, target))
            left = [*_left(Moved(0, 0, 0, counts.replace(ready=0, dead=0), elsewhere), source)]
            if not waiting:
                if not args.dry_run:
                    forget_ended(mover, target)
                terminal.error(f"{escape(source.name)}: move: {'; '.join(left) if left else 'no message waits there'}")
                return SOME if left else NOTHING_MATCHED
            where = f"from {escape(source.name)} to {escape(target.name)}"
            plan = f"move: {_messages(waiting)} {where}; they get new ids and begin with their first attempt"
            plan = "; ".join([plan, *left])
            if args.dry_run:
                terminal.show([_planned(source.name, target.name, waiting)], [plan])
                return DONE
            confirm(f"move {waiting}", waiting, confirm_for(waiting, uncertain=False), args, shown=[plan])
            line = ProgressLine(terminal, "move", total=waiting, hint="Ctrl-C stops between two messages")
            received: list[int] = []
            with line, signals_to(received.append):
                done = move_messages(source, target, mover, stop=lambda: bool(received), on_progress=line.advance)
            left = [*_left(done, source)]
            words = "; ".join([*_done(done, target), *left])
            terminal.show([_planned(source.name, target.name, waiting, done)], [words])
    return INTERRUPTED if done.stopped else SOME if left or done.taken else DONE


def _done(done: Moved, target: Queue) -> Iterator[str]:
    yield f"moved {_messages(done.moved)}"
    if done.known:
        yield f"{done.known:,} had been put by an earlier run"
    if done.taken:
        verb = "was" if done.taken == 1 else "were"
        yield f"{done.taken:,} {verb} taken back by force meanwhile, and {verb} put into {escape(target.name)} as well"
    if done.stopped:
        yield "stopped, and the same command goes on"


def _left(done: Moved, source: Queue) -> Iterator[str]:
    """Says what is left in the source, and what helps."""
    counts = done.left
    more = counts.ready + counts.dead
    if more and not done.stopped:
        pause = source.paused
        helps = "run it again" if pause is None else f"the queue is paused: spooltop resume {quote(escape(source.name))}"
        yield f"{more:,} came meanwhile: {helps}" if pause is None else f"{_many(more, 'waits', 'wait')}: {helps}"
    if counts.delayed:
        yield f"{_many(counts.delayed, 'waits for its', 'wait for their')} delay"
    if counts.unclaimable:
        yield f"{counts.unclaimable:,} cannot be claimed: the name is too long"
    if counts.running:
        again = "" if counts.leases_end is None else f", again in {ceil(counts.leases_end)} s"
        yield f"{_claimed(counts.running, 'a running consumer', 'running consumers')}{again}"
    if counts.unknown:
        yield _claimed(counts.unknown, "an unknown holder", "unknown holders")
    for name, number in sorted(done.elsewhere.items()):
        to = quote(escape(name))
        again = f"run that move again: spooltop move {quote(escape(source.name))} {to}"
        yield f"{_many(number, 'is left of a move', 'are left of a move')} to {to} that was killed, {again}"


def _claimed(number: int, one: str, many: str) -> str:
    return f"{_many(number, 'is', 'are')} claimed by {one if number == 1 else many}"


def _many(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"


def _messages(number: int) -> str:
    return _many(number, "message", "messages")


def _planned(source: str, target: str, waiting: int, done: Moved | None = None) -> dict[str, object]:
    found: dict[str, object] = {"from": escape(source), "to": escape(target), "waiting": waiting}
    if done is not None:
        counts = done.left
        came = counts.ready + counts.dead
        claimed, waiting = counts.running + counts.unknown, counts.delayed + counts.unclaimable
        found |= {
            **members(done, "moved", "known", "taken"), "left": came + waiting + claimed + sum(done.elsewhere.values()),
            "came": came, **members(counts, "delayed", "unclaimable", "running", "unknown"),
            "elsewhere": {escape(name): number for name, number in done.elsewhere.items()}, "stopped": done.stopped,
        }  # fmt: skip
    return found
