"""The ``demo`` command: makes the directory, starts the actors, opens the dashboard, and cleans up."""

from __future__ import annotations

import os
import shlex
import signal
from collections.abc import Sequence
from contextlib import nullcontext
from types import FrameType

from spooltop.engine import Spool
from spooltop.model import Action, Environ, Refused, UsageError, escape

from ..commands.status import show_status
from ..context import Arguments
from .scenario import LOGS, SETTINGS, Act, SpoolScenario, begin, make_kept, playing, scratch_dir, stream_address, sweep

_BANNER = " DEMO, {} on exit · try {} d y, then z y (undo) · 3 r y · 5 Enter · ? keys"
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
    sweep()
    code, goodbye = (_on_stream if args.redis else _on_spool)(args)
    if code != HUNG_UP:
        said = args.terminal.err if args.json else args.terminal.out
        said(f"demo over: you requeued {goodbye}")
    return code


def _on_spool(args: Arguments) -> tuple[int, str]:
    """Plays on a spool in a directory that is removed at the end; with ``--dir`` on a spool there that is kept."""
    path: str | None = args.dir
    with scratch_dir() if path is None else nullcontext(make_kept(path)) as base:
        spool = os.path.join(base, "memex") if path is None else base
        Spool.create(spool, durable=False).close()
        begin(spool)
        logs = os.path.join(spool, LOGS)
        code, requeued = _play(
            args, spool, lambda child: SpoolScenario(child, spool).run(kept=path is not None), os.path.join(logs, "demo.log"),
            _BANNER.format("deleted" if path is None else "kept", 4), poll_logs=(os.path.join(logs, "poll-*.log"),),
        )  # fmt: skip
    end = "the spool is removed" if path is None else f"the spool is kept: spooltop {escape(shlex.quote(path))}"
    return code, f"{requeued}; {end}. Yours: spooltop PATH, or make one: spooltop init PATH"


def _on_stream(args: Arguments) -> tuple[int, str]:
    """Plays on a stream of a server that is ended and removed at the end. Raises ``UsageError`` where there is no program of a
    server, or the package redis is missing."""
    from .stream_scenario import StreamScenario, find_program, make_groups, running_server

    program = find_program()
    with scratch_dir() as base, running_server(program, base):
        address = stream_address(base)
        make_groups(address)
        settings = {**SETTINGS, "XDG_STATE_HOME": base}
        code, requeued = _play(
            args, address, lambda child: StreamScenario(child, address, settings).run(kept=False),
            os.path.join(base, "demo.log"), _BANNER.format("deleted", 3), settings,
        )  # fmt: skip
    return code, f"{requeued}; the server and its stream are removed. Yours: spooltop 'redis://HOST/0#STREAM/GROUP'"


def _play(
    args: Arguments, target: str, act: Act, errors: str, banner: str, settings: Environ = SETTINGS, poll_logs: Sequence[str] = ()
) -> tuple[int, str]:  # fmt: skip
    """Plays until the dashboard is left, which opens ``target`` with ``settings`` and shows ``banner``. ``act`` starts all
    actors; what goes wrong in them is written to the file ``errors``. Returns the exit code, and how many dead claims were
    requeued."""
    with (
        playing(act, errors=errors) as deaths,
        args.open(target, watch=True, settings=settings, poll_logs=poll_logs) as control,
    ):
        args.banner = banner
        if args.headless is None:
            code = args.dashboard(control, args)
        else:
            show_status(args, control.watch(args.headless), control.target)
            code = 0
        records = control.operations()
    requeued = sum(record.done for record in records if record.action is Action.REQUEUE and record.undone_by is None)
    return code, f"{min(requeued, sum(deaths))} of {sum(deaths)} dead claims"


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
