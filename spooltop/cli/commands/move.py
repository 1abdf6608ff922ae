"""move: the messages of one queue into another."""

from __future__ import annotations

import argparse
import signal
from functools import partial
from typing import TYPE_CHECKING

from spooltop.errors import Refused, UsageError
from spooltop.model.text import escape
from spooltop.operate.confirm import accepts_words, confirm_for, confirm_words

from ..context import Context
from ..progress import ProgressLine
from ..render import snapshot_json
from ..signals import signals_to

if TYPE_CHECKING:
    from spooltop.moving import Moved

__all__ = ["move"]

DONE, NOTHING_MATCHED, INTERRUPTED = 0, 4, 130


def move(args: argparse.Namespace, context: Context) -> int:
    from spooltop.moving import KEYS_KEPT, move_messages
    from spooltop.queues import open_queue
    from spooltop.settings import load
    from spooltop.targets import identify_target

    terminal = context.terminal
    if args.read_only:
        raise Refused("move: refused by --read-only")
    from_target, to_target = (identify_target(path, environ=terminal.environ) for path in (args.path, args.to))
    if from_target.key == to_target.key:
        raise UsageError("move: both are the same queue", path=from_target.display_name, advice="name another one to move to")
    hosts = load(terminal.environ).claims_hosts
    opened = partial(open_queue, action="move", durable=not args.no_durable, hosts=hosts, environ=terminal.environ)
    with opened(args.path) as source, opened(args.to, keys_kept=KEYS_KEPT) as target:
        waiting = source.depth()
        if not waiting:
            terminal.error(f"{escape(source.name)}: move: no message waits there")
            return NOTHING_MATCHED
        where = f"from {escape(source.name)} to {escape(target.name)}"
        plan = f"move: {_messages(waiting)} {where}; they get new ids and begin with their first attempt"
        if args.dry_run:
            terminal.out(snapshot_json.dumps(_planned(source.name, target.name, waiting)) if args.json else plan)
            return DONE
        if not args.yes:
            terminal.err(plan)
            _confirm(waiting, context)
        received: list[int] = []
        line = ProgressLine(terminal, "move", total=waiting, hint="Ctrl-C stops between two messages")
        with line, signals_to(received.append, signal.SIGINT, signal.SIGTERM):
            done = move_messages(source, target, from_target.key, stop=lambda: bool(received), on_progress=line.advance)
        terminal.out(snapshot_json.dumps(_planned(source.name, target.name, waiting, done)) if args.json else _words(done))
    return INTERRUPTED if done.stopped else DONE


def _confirm(waiting: int, context: Context) -> None:
    terminal = context.terminal
    if not terminal.can_ask:
        raise Refused(
            "move: nothing done: no terminal to confirm on", advice="add --yes to do it, or --dry-run to see the number"
        )
    confirm = confirm_for(waiting, uncertain=False)
    wants = confirm_words(confirm, waiting)
    if not accepts_words(confirm, waiting, terminal.ask(f"move {waiting}? Type {wants}, anything else cancels: ")):
        raise Refused("move: nothing done, not confirmed", advice=f"type {wants} to confirm")


def _words(done: Moved) -> str:
    said = [f"moved {_messages(done.moved)}"]
    if done.known:
        said.append(f"{done.known:,} had been put by an earlier run")
    if done.left:
        said.append(f"{done.left:,} left: they wait for a delay, or came meanwhile")
    return "; ".join(said) + ("; stopped, and the same command goes on" if done.stopped else "")


def _messages(number: int) -> str:
    return f"{number:,} message{'' if number == 1 else 's'}"


def _planned(source: str, target: str, waiting: int, done: Moved | None = None) -> dict[str, object]:
    found: dict[str, object] = {"schema": 1, "from": escape(source), "to": escape(target), "waiting": waiting}
    if done is not None:
        found |= {"moved": done.moved, "known": done.known, "left": done.left, "stopped": done.stopped}
    return found
