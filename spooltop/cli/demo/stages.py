"""Stages of the demo: a directory with a spool, or a server of its own with a stream."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from spooltop.model.text import escape
from spooltop.records import dataclass, field

from . import demo_dir, pollers, speed
from .scenario import Act

__all__ = ["BANNER", "BANNER_KEPT", "STREAM_BANNER", "Stage", "spool_stage", "stream_stage"]

BANNER = " DEMO, deleted on exit · try 4 d y, then z y (undo) · 3 r y · 5 Enter · ? keys"
BANNER_KEPT = " DEMO, kept on exit · try 4 d y, then z y (undo) · 3 r y · 5 Enter · ? keys"
STREAM_BANNER = " DEMO, deleted on exit · try 3 d y, then z y (undo) · 3 r y · 5 Enter · ? keys"


@dataclass(frozen=True, slots=True)
class Stage:
    """``target`` is what the dashboard opens, with ``settings``; ``act`` starts all actors, and ``errors`` is the file for what
    goes wrong in them. ``end`` and ``yours`` are parts of the last words of the demo."""

    target: str
    act: Act
    errors: str
    banner: str
    end: str
    yours: str = "spooltop PATH, or make one: spooltop init PATH"
    settings: Mapping[str, str] = field(default_factory=lambda: speed.SETTINGS)
    poll_logs: tuple[str, ...] = ()


@contextmanager
def spool_stage(path: str | None) -> Iterator[Stage]:
    """A spool in a directory that is removed at the end; with ``path`` a spool there that is kept."""
    from . import spool_scenario

    directory = demo_dir.make() if path is None else demo_dir.keep(path)
    try:
        pollers.begin(directory.spool)
        logs = os.path.join(directory.spool, pollers.LOGS)
        kept = directory.base is None
        end = f"the spool is kept: spooltop {escape(shlex.quote(path))}" if path is not None else "the spool is removed"
        yield Stage(
            directory.spool, spool_scenario.play(directory.spool, kept=kept), os.path.join(logs, "demo.log"),
            BANNER_KEPT if kept else BANNER, end, poll_logs=(os.path.join(logs, "poll-*.log"),),
        )  # fmt: skip
    finally:
        directory.close()


@contextmanager
def stream_stage() -> Iterator[Stage]:
    """A stream on a server that is ended and removed at the end. Raises ``UsageError`` where there is no program of a server, or
    the package redis is missing."""
    from .server import DemoServer, check_client, find_program
    from .stream_scenario import make_groups, play

    program = find_program()
    check_client()
    directory = demo_dir.make_empty()
    try:
        assert directory.base is not None
        server = DemoServer.start(program, directory.base)
        try:
            address = demo_dir.stream_address(directory.base)
            make_groups(address)
            settings = {**speed.SETTINGS, "XDG_STATE_HOME": directory.base}
            yield Stage(
                address, play(address, settings), os.path.join(directory.base, "demo.log"), STREAM_BANNER,
                "the server and its stream are removed", "spooltop 'redis://HOST/0#STREAM/GROUP'", settings,
            )  # fmt: skip
        finally:
            server.close()
    finally:
        directory.close()
