"""Backend of directories: spools, mail folders, cursors, tickets and lock files.

Modules are imported on first use: reading does not wait for what only changes need.
"""

from __future__ import annotations

import os
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, cast

from msgspec.structs import asdict, replace

from spooltop.cursors.files import WriterWatch
from spooltop.engine.dirs import SpoolDirs
from spooltop.model import WHOLE, Action, LockHolder, NotASpool, Observation, Queue, QueueOptions, Target
from spooltop.model.backend import OpenAs, OpenedOperator, OpenedTarget, OpenSettings

from ..log_store import STATE_DIR, LogStore
from .detect import IdentifiedPath, Kind, identify
from .processes import Processes
from .storage import OpenOptions, System
from .watcher import side_watch

if TYPE_CHECKING:
    from .reader import DirectoryReader


class DirectoryBackend:
    """Implements ``model.backend.Backend``."""

    name = "directory"

    def identify(self, spec: str, asked: OpenAs) -> Target:
        otherwise: Kind | None = "cursors" if asked.cursor_files else "locks" if asked.locks else None
        found = identify(spec, asked.as_spool, otherwise=otherwise)
        return Target(found.kind, spec, os.path.realpath(found.path), found, found.read_only)

    def open(self, target: Target, settings: OpenSettings) -> OpenedTarget:
        found = cast("IdentifiedPath", target.where)
        asked = settings.asked
        options = OpenOptions(
            **asdict(settings), layout=found.kind, as_spool=asked.as_spool,
            cursor_files=asked.cursor_files or found.cursor_files,
        )  # fmt: skip
        world = System(clock=settings.clock)
        writers = _writers_of(found.path, world.processes) if settings.who_writes else None
        from .reader import DirectoryReader, StandaloneReader

        if found.kind in ("cursors", "tickets", "locks"):
            standalone = StandaloneReader(found.path, options, world, writers=writers)
            opened = OpenedTarget(standalone, partial(_standalone_operator, found.path, options, world))
        else:
            reader = DirectoryReader(found.path, options, world, writers=writers)
            opened = OpenedTarget(reader, partial(_spool_operator, target.display_name, found.path, options, world, reader))
        if settings.watch:
            beside = side_watch(found.path, settings.side_files, options.cursor_files, opened.reader.wake)
            opened = opened.replace(beside=beside)
        return opened

    def queue(self, target: Target, options: QueueOptions) -> Queue:
        from spooltop.engine.spool import Spool

        if target.kind != "spool":
            raise NotASpool(f"{options.action}: these are {target.kind}, not messages", "name a spool", path=target.display_name)
        return Spool(target.display_name, durable=options.durable, as_spool=options.as_spool, hosts=options.hosts)


def _writers_of(path: str, processes: Processes) -> WriterWatch:
    """Watches who writes the cursor files. Raises ``Refused`` if the kernel does not report it."""
    def described(pid: int) -> LockHolder:
        process = processes.process(pid, described=True)
        return LockHolder(pid) if process is None else LockHolder(pid, process.command, process.user)

    return WriterWatch(path, described)


def _spool_operator(given: str, folder: str, options: OpenOptions, world: System, reader: DirectoryReader) -> OpenedOperator:
    """Opens the operator on the spool of ``reader``, which was ``given`` as a path."""
    from spooltop.cursors.operator import CursorOperator
    from spooltop.locks.operator import LockOperator

    from .operator.operator import OperatorChain, SpoolOpener
    from .pausing import PauseOperator
    from .rescan import FreshLook

    fresh = FreshLook(folder, options, replace(world))
    path = reader.path
    logs = LogStore(path, world.files, state_dir=STATE_DIR, opening=partial(SpoolDirs, path, world.files))

    def consumers() -> Observation:
        now = fresh.observation()
        return now.replace(last_claim_at=max(now.last_claim_at or 0.0, reader.last_claim_at or 0.0) or None)

    # Looked at again: mail may have come since it was opened to be read.
    closed = options.replace(read_only=options.read_only or identify(folder, options.as_spool).read_only)
    spool = SpoolOpener(path=folder, options=closed, world=world, look=fresh.names, again=fresh.again)
    cursors = partial(CursorOperator, path, logs, options, world)
    locks = partial(LockOperator, path, logs, options, world)
    pauses = partial(PauseOperator, path, logs, fresh.observation, options, world, given=given)
    flags = ("--as", "spool") if options.as_spool else ()
    chain = OperatorChain(
        spool.opened, (cursors, [Action.SET_CURSOR]), (locks, [Action.UNLOCK]), (pauses, WHOLE), on_close=fresh.close
    )
    return OpenedOperator(chain, flags, consumers, keeps_trash=True)


def _standalone_operator(folder: str, options: OpenOptions, world: System) -> OpenedOperator:
    """Opens the operator on cursors, tickets or lock files without a spool. Their journal is kept in root's state or in this
    user's own."""
    from spooltop.cursors.operator import CursorOperator
    from spooltop.locks.operator import LockOperator

    from .operator.operator import OperatorChain

    logs = LogStore(folder, world.files, state_dir=STATE_DIR if os.geteuid() == 0 else options.state)
    locks = partial(LockOperator, folder, logs, options, world)
    if options.layout != "cursors":
        return OpenedOperator(locks())
    cursors = nullcontext(CursorOperator(folder, logs, options, world))
    return OpenedOperator(OperatorChain(lambda: cursors, (locks, [Action.UNLOCK])))
