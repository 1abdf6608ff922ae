"""move: the messages of one queue into another."""

from __future__ import annotations

import signal
from argparse import Namespace
from collections.abc import Mapping
from functools import partial
from math import ceil
from shlex import quote

from msgspec.structs import replace

from spooltop.errors import Refused, UsageError
from spooltop.model.queue import Queue, QueueCounts
from spooltop.model.text import escape
from spooltop.moving import Moved, forget_ended, move_messages, to_move
from spooltop.operate.operations import confirm_for
from spooltop.queues import open_queue
from spooltop.settings import load

from ..context import DONE, INTERRUPTED, NOTHING_MATCHED, SOME, Context
from ..progress import ProgressLine
from ..render.as_json import members
from ..terminal import signals_received
from .change import confirm


def move(args: Namespace, context: Context) -> int:
    terminal = context.terminal
    if args.read_only:
        raise Refused("move: refused by --read-only")
    hosts = load(terminal.environ).claims_hosts
    opened = partial(open_queue, action="move", durable=not args.no_durable, hosts=hosts, environ=terminal.environ)
    taking = context.reach(args.path, partial(opened, args.path))
    with taking as source, context.reach(args.to, partial(opened, args.to)) as target:
        if source.identity.is_same(target.identity):
            what = "move: both are the same queue" + ("" if source.name == target.name else f", as {escape(target.name)} too")
            raise UsageError(what, path=source.name, advice="name another one to move to")
        with source.mover(target.identity) as mover:
            waiting, counts, elsewhere = context.reach(args.path, partial(to_move, mover, target))
            left = _left(Moved(0, 0, 0, replace(counts, ready=0, dead=0), elsewhere), source)
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
            confirm(f"move {waiting}", waiting, confirm_for(waiting, uncertain=False), args, terminal, shown=[plan])
            line = ProgressLine(terminal, "move", total=waiting, hint="Ctrl-C stops between two messages")
            with line, signals_received(signal.SIGINT, signal.SIGTERM) as received:
                done = move_messages(source, target, mover, stop=lambda: bool(received), on_progress=line.advance)
            left = _left(done, source)
            words = "; ".join([*_done(done, target), *left])
            terminal.show([_planned(source.name, target.name, waiting, done)], [words])
    return INTERRUPTED if done.stopped else SOME if left or done.taken else DONE


def _done(done: Moved, target: Queue) -> list[str]:
    said = [f"moved {_messages(done.moved)}"]
    if done.known:
        said.append(f"{done.known:,} had been put by an earlier run")
    if done.taken:
        verb = "was" if done.taken == 1 else "were"
        said.append(f"{done.taken:,} {verb} taken back by force meanwhile, and {verb} put into {escape(target.name)} as well")
    if done.stopped:
        said.append("stopped, and the same command goes on")
    return said


def _left(done: Moved, source: Queue) -> list[str]:
    """Says what is left in the source, and what helps."""
    counts, said = done.left, []
    more = counts.ready + counts.dead
    if more and not done.stopped:
        pause = source.paused
        helps = "run it again" if pause is None else f"the queue is paused: spooltop resume {quote(escape(source.name))}"
        said.append(f"{more:,} came meanwhile: {helps}" if pause is None else f"{_many(more, 'waits', 'wait')}: {helps}")
    if counts.delayed:
        said.append(f"{_many(counts.delayed, 'waits for its', 'wait for their')} delay")
    if counts.unclaimable:
        said.append(f"{counts.unclaimable:,} cannot be claimed: the name is too long")
    if counts.running:
        again = "" if counts.leases_end is None else f", again in {ceil(counts.leases_end)} s"
        said.append(f"{_claimed(counts.running, 'a running consumer', 'running consumers')}{again}")
    if counts.unknown:
        said.append(_claimed(counts.unknown, "an unknown holder", "unknown holders"))
    for name, number in sorted(done.elsewhere.items()):
        to = quote(escape(name))
        again = f"run that move again: spooltop move {quote(escape(source.name))} {to}"
        said.append(f"{_many(number, 'is left of a move', 'are left of a move')} to {to} that was killed, {again}")
    return said


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
        found |= {
            **members(done, "moved", "known", "taken"), "left": _total(counts, done.elsewhere),
            "came": counts.ready + counts.dead, **members(counts, "delayed", "unclaimable", "running", "unknown"),
            "elsewhere": {escape(name): number for name, number in done.elsewhere.items()}, "stopped": done.stopped,
        }  # fmt: skip
    return found


def _total(counts: QueueCounts, elsewhere: Mapping[str, int]) -> int:
    others = counts.delayed + counts.unclaimable + counts.running + counts.unknown
    return counts.ready + counts.dead + others + sum(elsewhere.values())
