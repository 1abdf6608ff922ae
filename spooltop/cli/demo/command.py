"""The ``demo`` command: makes the directory, starts the actors, opens the dashboard, and cleans up."""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import time
from types import FrameType
from typing import TYPE_CHECKING

from spooltop.cli.context import Context
from spooltop.cli.render import snapshot_json as render_json
from spooltop.cli.render import snapshot_text as render_text
from spooltop.errors import Refused, UsageError
from spooltop.model.operations.plan import OperationRecord
from spooltop.model.text import escape
from spooltop.model.vocabulary import Action

from . import demo_dir, pollers, scenario, speed
from .process_group import ProcessGroup

if TYPE_CHECKING:
    from spooltop.control import Control
    from spooltop.model.look.snapshot import Snapshot

__all__ = ["BANNER", "demo", "goodbye"]

BANNER = " DEMO, deleted on exit · try 4 d y, then z y (undo) · 3 r y · 5 Enter · ? keys"
BANNER_KEPT = " DEMO, kept on exit · try 4 d y, then z y (undo) · 3 r y · 5 Enter · ? keys"
HUNG_UP = 128 + signal.SIGHUP
"""Exit code if the terminal was closed: nobody can read a message."""


def demo(args: argparse.Namespace, context: Context) -> int:
    if args.headless is None and not context.terminal.can_draw:
        raise UsageError("demo needs a terminal", advice="--headless 20 prints its status after 20 s")
    if args.read_only:
        raise Refused("demo: refused by --read-only, because it makes a spool", advice="spooltop --read-only PATH looks at yours")
    demo_dir.sweep()
    directory = demo_dir.make() if args.dir is None else demo_dir.keep(args.dir)
    try:
        pollers.begin(directory.spool)
        signal.signal(signal.SIGTERM, _interrupt)
        signal.signal(signal.SIGHUP, _interrupt)
        errors = os.path.join(directory.spool, pollers.LOGS, "demo.log")
        group = ProcessGroup.begin("spooltop-demo", scenario.play(directory.spool, kept=directory.base is None), errors=errors)
        try:
            logs = os.path.join(directory.spool, pollers.LOGS, "poll-*.log")
            with context.open(directory.spool, watch=True, settings=speed.SETTINGS, poll_logs=[logs]) as control:
                code = _headless(control, args, context) if args.headless is not None else _drawn(control, args, context)
                records = control.operations()
        finally:
            deaths = group.end()
    finally:
        directory.close()
    if code != HUNG_UP:
        said = context.terminal.err if args.json else context.terminal.out
        said(goodbye(records, deaths, None if directory.base is not None else args.dir))
    return code


def goodbye(records: list[OperationRecord], deaths: int, kept: str | None) -> str:
    """Text printed on exit. ``deaths`` is the number of dead claims that occurred, ``kept`` is the path of a spool that is not
    removed."""
    requeued = sum(record.done for record in records if record.action is Action.REQUEUE and record.undone_by is None)
    end = "the spool is removed" if kept is None else f"the spool is kept: spooltop {escape(shlex.quote(kept))}"
    words = f"demo over: you requeued {min(requeued, deaths)} of {deaths} dead claims; {end}. "
    return words + "Yours: spooltop PATH, or make one: spooltop init PATH"


def _drawn(control: Control, args: argparse.Namespace, context: Context) -> int:
    args.banner = BANNER if args.dir is None else BANNER_KEPT
    return context.dashboard(control, args)


def _headless(control: Control, args: argparse.Namespace, context: Context) -> int:
    snapshot = _watched(control, args.headless)
    if args.json:
        context.terminal.out(render_json.dumps(render_json.status(snapshot, control.target)))
    else:
        for line in render_text.status(snapshot, control.target):
            context.terminal.out(line)
    return 0


def _watched(control: Control, seconds: float) -> Snapshot:
    end = time.monotonic() + seconds
    snapshot = control.look()
    while time.monotonic() < end:
        time.sleep(min(speed.TICK, max(0.0, end - time.monotonic())))
        snapshot = control.look()
    return snapshot


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
