"""The ``demo`` command: makes the directory, starts the actors, opens the dashboard, and cleans up."""

from __future__ import annotations

import argparse
import signal
import time
from types import FrameType
from typing import TYPE_CHECKING

from spooltop.errors import Refused, UsageError
from spooltop.model.operations.plan import OperationRecord
from spooltop.model.vocabulary import Action

from ..context import Context
from ..render import snapshot_json, snapshot_text
from . import demo_dir, speed, stages
from .process_group import ProcessGroup
from .stages import Stage

if TYPE_CHECKING:
    from spooltop.control import Control
    from spooltop.model.look.snapshot import Snapshot

__all__ = ["demo", "goodbye"]

HUNG_UP = 128 + signal.SIGHUP
"""Exit code if the terminal was closed: nobody can read a message."""


def demo(args: argparse.Namespace, context: Context) -> int:
    if args.headless is None and not context.terminal.can_draw:
        raise UsageError("demo needs a terminal", advice="--headless 20 prints its status after 20 s")
    if args.read_only:
        raise Refused("demo: refused by --read-only, because it makes a spool", advice="spooltop --read-only PATH looks at yours")
    if args.redis and args.dir is not None:
        raise UsageError("demo: --dir keeps a directory, and --redis makes none", advice="leave one of them out")
    signal.signal(signal.SIGTERM, _interrupt)
    signal.signal(signal.SIGHUP, _interrupt)
    demo_dir.sweep()
    with stages.stream_stage() if args.redis else stages.spool_stage(args.dir) as stage:
        group = ProcessGroup.begin("spooltop-demo", stage.act, errors=stage.errors)
        try:
            with context.open(stage.target, watch=True, settings=stage.settings, poll_logs=stage.poll_logs) as control:
                args.banner = stage.banner
                code = _headless(control, args, context) if args.headless is not None else context.dashboard(control, args)
                records = control.operations()
        finally:
            deaths = group.end()
    if code != HUNG_UP:
        said = context.terminal.err if args.json else context.terminal.out
        said(goodbye(records, deaths, stage))
    return code


def goodbye(records: list[OperationRecord], deaths: int, stage: Stage) -> str:
    """Text printed on exit. ``deaths`` is the number of dead claims that occurred."""
    requeued = sum(record.done for record in records if record.action is Action.REQUEUE and record.undone_by is None)
    return f"demo over: you requeued {min(requeued, deaths)} of {deaths} dead claims; {stage.end}. Yours: {stage.yours}"


def _headless(control: Control, args: argparse.Namespace, context: Context) -> int:
    snapshot = _watched(control, args.headless)
    if args.json:
        context.terminal.out(snapshot_json.dumps(snapshot_json.status(snapshot, control.target)))
    else:
        for line in snapshot_text.status(snapshot, control.target):
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
