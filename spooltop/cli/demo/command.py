"""The ``demo`` command: makes the directory, starts the actors, opens the dashboard, and cleans up."""

from __future__ import annotations

import os
import shlex
import signal
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from types import FrameType

from msgspec import field

from spooltop.engine import Spool
from spooltop.errors import Refused, UsageError
from spooltop.model import Action, Environ, Frozen, OperationRecord, escape

from ..commands.status import show_status
from ..context import Arguments
from . import demo_dir
from .scenario import LOGS, SETTINGS, Act, SpoolScenario, begin, playing

# Stages of the demo: a directory with a spool, or a server of its own with a stream.

_BANNER = " DEMO, {} on exit · try {} d y, then z y (undo) · 3 r y · 5 Enter · ? keys"


class Stage(Frozen):
    """The queue that a demo plays on.

    The dashboard opens ``target`` with ``settings`` and shows ``banner``. ``act`` starts all actors; what goes wrong in them is
    written to the file ``errors``. At the end the demo says what became of the queue (``end``: "the spool is removed") and how
    the user opens one of his own (``yours``)."""

    target: str
    act: Act
    errors: str
    banner: str
    end: str
    yours: str = "spooltop PATH, or make one: spooltop init PATH"
    settings: Environ = field(default_factory=lambda: SETTINGS)
    poll_logs: tuple[str, ...] = ()


@contextmanager
def spool_stage(path: str | None) -> Iterator[Stage]:
    """A spool in a directory that is removed at the end; with ``path`` a spool there that is kept."""
    with demo_dir.scratch_dir() if path is None else nullcontext(demo_dir.make_kept(path)) as base:
        spool = os.path.join(base, "memex") if path is None else base
        Spool.create(spool, durable=False).close()
        begin(spool)
        logs = os.path.join(spool, LOGS)
        end = "the spool is removed" if path is None else f"the spool is kept: spooltop {escape(shlex.quote(path))}"
        yield Stage(
            spool, lambda child: SpoolScenario(child, spool).run(kept=path is not None), os.path.join(logs, "demo.log"),
            _BANNER.format("deleted" if path is None else "kept", 4), end, poll_logs=(os.path.join(logs, "poll-*.log"),),
        )  # fmt: skip


@contextmanager
def stream_stage() -> Iterator[Stage]:
    """A stream on a server that is ended and removed at the end. Raises ``UsageError`` where there is no program of a server, or
    the package redis is missing."""
    from .stream_scenario import StreamScenario, find_program, make_groups, running_server

    program = find_program()
    with demo_dir.scratch_dir() as base, running_server(program, base):
        address = demo_dir.stream_address(base)
        make_groups(address)
        settings = {**SETTINGS, "XDG_STATE_HOME": base}
        yield Stage(
            address, lambda child: StreamScenario(child, address, settings).run(kept=False), os.path.join(base, "demo.log"),
            _BANNER.format("deleted", 3), "the server and its stream are removed", "spooltop 'redis://HOST/0#STREAM/GROUP'",
            settings,
        )  # fmt: skip


HUNG_UP = 128 + signal.SIGHUP
"""Exit code if the terminal was closed: nobody can read a message."""


def demo(args: Arguments) -> int:
    if args.headless is None and not args.terminal.can_draw:
        raise UsageError("demo needs a terminal", "--headless 20 prints its status after 20 s")
    if args.read_only:
        raise Refused("demo: refused by --read-only, because it makes a spool", "spooltop --read-only PATH looks at yours")
    if args.redis and args.dir is not None:
        raise UsageError("demo: --dir keeps a directory, and --redis makes none", "leave one of them out")
    signal.signal(signal.SIGTERM, _interrupt)
    signal.signal(signal.SIGHUP, _interrupt)
    demo_dir.sweep()
    with stream_stage() if args.redis else spool_stage(args.dir) as stage:
        with (
            playing("spooltop-demo", stage.act, errors=stage.errors) as deaths,
            args.open(stage.target, watch=True, settings=stage.settings, poll_logs=stage.poll_logs) as control,
        ):
            args.banner = stage.banner
            if args.headless is None:
                code = args.dashboard(control, args)
            else:
                show_status(args, control.watch(args.headless), control.target)
                code = 0
            records = control.operations()
    if code != HUNG_UP:
        said = args.terminal.err if args.json else args.terminal.out
        said(goodbye(records, sum(deaths), stage))
    return code


def goodbye(records: list[OperationRecord], deaths: int, stage: Stage) -> str:
    """Text printed on exit. ``deaths`` is the number of dead claims that occurred."""
    requeued = sum(record.done for record in records if record.action is Action.REQUEUE and record.undone_by is None)
    return f"demo over: you requeued {min(requeued, deaths)} of {deaths} dead claims; {stage.end}. Yours: {stage.yours}"


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
