"""Assembles the operators and journals for each kind of target, and the additional readers.

Modules are imported on first use: reading does not wait for what only changes need.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from .errors import Refused
from .model.vocabulary import Action

if TYPE_CHECKING:
    from .backends.directory.cursors.operator import CursorOperator
    from .backends.directory.cursors.writers import WriterWatch
    from .backends.directory.events.folder_watch import FolderWatch
    from .backends.directory.liveness.processes import Processes
    from .backends.directory.locks.operator import LockOperator
    from .backends.directory.options import OpenOptions
    from .backends.directory.pausing.operator import PauseOperator
    from .backends.directory.reader import DirectoryReader
    from .backends.directory.world import World
    from .backends.layouts.definition.layout import Layout
    from .backends.layouts.reader import LayoutReader
    from .backends.redis.tickets import RedisTickets
    from .model.cursors.state import Poll
    from .model.look.observation import Observation
    from .model.protocols import Reader
    from .operate.operations import Operations

__all__ = [
    "OperatorConfig", "folder_watch", "open_layout", "open_reader", "poll_reader", "redis_servers", "to_syslog", "writers_of",
]  # fmt: skip


class OperatorConfig(NamedTuple):
    """Configuration of the operators on the directory ``folder``, given as ``path``. ``copies`` gets the audit records."""

    path: str
    folder: str
    options: OpenOptions
    world: World
    copies: Callable[[str], None] | None


def to_syslog(words: str) -> None:
    """Sends an audit record to syslog."""
    from .operate import syslog

    syslog.to_syslog(words, notice=True)


def redis_servers(urls: Sequence[str], named: Sequence[str], clock: Callable[[], float]) -> tuple[RedisTickets, ...]:
    """Opens ``urls``, or those ``named`` in the settings. Raises ``UsageError`` for an invalid URL."""
    wanted = tuple(urls or named)
    if not wanted:
        return ()
    from .backends.redis.tickets import RedisTickets

    return tuple(RedisTickets(url, clock=clock) for url in dict.fromkeys(wanted))


def writers_of(path: str, processes: Processes) -> WriterWatch:
    """Watches who writes the cursor files. Raises ``Refused`` if the kernel does not report it."""
    from .backends.directory.cursors.writers import WriterWatch
    from .model.look.locks import LockHolder

    def described(pid: int) -> LockHolder:
        process = processes.process(pid, described=True)
        return LockHolder(pid) if process is None else LockHolder(pid, process.command, process.user)

    writers = WriterWatch(described)
    try:
        writers.follow_path(path)
    except Refused:
        writers.close()
        raise
    return writers


def open_reader(
    config: OperatorConfig, writers: WriterWatch | None, state: str | None
) -> tuple[Reader, Callable[[], Operations]]:
    """Opens the reader of a target. Also returns a function that opens the operations on it. ``state`` is this user's own folder,
    for the journal of a target that is no spool."""
    if config.options.layout in ("cursors", "tickets", "locks"):
        from .backends.directory.standalone_reader import StandaloneReader

        standalone = StandaloneReader(config.folder, config.options, config.world, writers=writers)
        return standalone, partial(_standalone_operations, config, state)
    from .backends.directory.reader import DirectoryReader

    reader = DirectoryReader(config.folder, config.options, config.world, writers=writers)
    return reader, partial(_spool_operations, config, reader)


def open_layout(path: str, layout: Layout, clock: Callable[[], float], *, pids: str) -> LayoutReader:
    """Opens the reader of a queue of another program. ``pids`` is the setting ``claims.pids``."""
    from .backends.directory.liveness.pid_liveness import check_pids
    from .backends.directory.liveness.processes import Processes
    from .backends.directory.surroundings import LocalSurroundings
    from .backends.layouts.reader import LayoutReader

    return LayoutReader(path, layout, LocalSurroundings(Processes(), pids_here=check_pids(pids)), clock=clock)


def _spool_operations(config: OperatorConfig, reader: DirectoryReader) -> Operations:
    """Opens the operations on the spool of ``reader``."""
    from .backends.directory.journal.log_files import STATE_DIR
    from .backends.directory.journal.log_store import SpoolPathLogs
    from .backends.directory.operator.chain import OperatorChain
    from .backends.directory.operator.operator import DirectoryOperator
    from .backends.directory.rescan import FreshLook
    from .operate.consumers_note import at_work
    from .operate.operations import Operations

    options, world = config.options, config.world
    fresh = FreshLook(config.folder, options, world)
    operator = DirectoryOperator(config.folder, options, world, look=fresh.names, again=fresh.again, on_close=fresh.close)

    def note() -> str:
        return at_work(fresh.observation(), world.clock(), reader.last_claim_at)

    def cursors() -> CursorOperator:
        from .backends.directory.cursors.operator import CursorOperator

        return CursorOperator(reader.path, logs, options, world, above=True)

    def locks() -> LockOperator:
        from .backends.directory.locks.operator import LockOperator

        return LockOperator(reader.path, logs, options, world)

    def pauses() -> PauseOperator:
        from .backends.directory.pausing.operator import PauseOperator

        return PauseOperator(reader.path, logs, fresh.observation, options, world, given=config.path)

    logs = SpoolPathLogs(reader.path, world.files, state_dir=STATE_DIR)
    flags = ("--as", "spool") if options.as_spool else ()
    all_of_it = OperatorChain(OperatorChain(operator, cursors, Action.SET_CURSOR), locks, Action.UNLOCK)
    all_of_it = OperatorChain(all_of_it, pauses, Action.PAUSE, Action.RESUME)
    return Operations(
        all_of_it, config.path, world.clock, flags=flags, copies=config.copies, at_work=note, retention=options.retention,
        redactor=options.redactor,
    )  # fmt: skip


def _standalone_operations(config: OperatorConfig, state: str | None) -> Operations:
    """Opens the operations on cursors, tickets or lock files without a spool. Their journal is kept in root's state or in
    ``state``, the user's own."""
    from .backends.directory.cursors.operator import CursorOperator
    from .backends.directory.journal.log_files import STATE_DIR
    from .backends.directory.journal.log_store import StateLogs
    from .backends.directory.locks.operator import LockOperator
    from .backends.directory.operator.chain import OperatorChain
    from .operate.operations import Operations

    folder, options, world = config.folder, config.options, config.world
    logs = StateLogs(folder, world.files, state_dir=STATE_DIR if os.geteuid() == 0 else state)
    tickets = options.layout == "tickets"
    locks = partial(LockOperator, folder, logs, options, world, tickets=tickets, above=tickets)
    if options.layout != "cursors":
        return Operations(locks(), config.path, world.clock, copies=config.copies)
    both = OperatorChain(CursorOperator(folder, logs, options, world, above=False), locks, Action.UNLOCK)
    return Operations(both, config.path, world.clock, copies=config.copies, redactor=options.redactor)


def folder_watch(
    target: str, poll_logs: Sequence[str], cursor_files: Sequence[str], files: Sequence[str], wake: Callable[[], object]
) -> FolderWatch:
    """Watches what a look reads besides the boxes, and calls ``wake`` where it changed: lock files in the directory ``target``
    and above it, the logs of pollers, ``files``, and cursor files where there is no inotify(7).

    Never ``/etc``: every process that starts opens files there, which on a busy machine wakes the library 30 times a second. Each
    look checks the settings file there anyway.
    """
    import glob
    from fnmatch import fnmatchcase

    from .backends.directory.cursors.poll_logs import LogGlob
    from .backends.directory.events.folder_watch import FolderWatch
    from .backends.directory.locks.lock_files import is_lock_name
    from .engine.system.syscalls import HAS_INOTIFY

    wanted: dict[str, list[Callable[[str], bool]]] = {}

    def add(folder: str, matters: Callable[[str], bool]) -> None:
        wanted.setdefault(os.path.realpath(folder), []).append(matters)

    own = (target, os.path.join(target, ".."))
    for folder in own:
        add(folder, is_lock_name)
    for one in poll_logs:
        folders, pattern = os.path.split(LogGlob.parse(one).pattern)
        for folder in glob.glob(folders or "."):  # noqa: PTH207  Path.glob takes no absolute ones
            add(folder, partial(fnmatchcase, pat=pattern))
    for folder, name in map(os.path.split, files):
        if folder != "/etc":
            add(folder, name.__eq__)
    if not HAS_INOTIFY:
        for folder in (*own, os.path.join(target, "cursors"), *cursor_files, *map(os.path.dirname, cursor_files)):
            add(folder, lambda name: name.endswith(".json"))
    return FolderWatch({folder: partial(_any, tests) for folder, tests in wanted.items()}, wake)


def _any(tests: Sequence[Callable[[str], bool]], name: str) -> bool:
    return any(test(name) for test in tests)


def poll_reader(globs: Sequence[str], settings: Mapping[str, str]) -> Callable[[Observation], tuple[Poll, ...]] | None:
    """Returns a function that reads the poll logs at each look, None if none were named. Raises ``UsageError`` for an invalid
    pattern."""
    if not globs:
        return None
    from .backends.directory.cursors.poll_logs import LogGlob, PollLogs
    from .observe.cursors.polls import POLL_LINE, parse_poll, poll_pattern, source_of

    logs = PollLogs([LogGlob.parse(one) for one in globs])
    pattern = poll_pattern(settings.get("SPOOLTOP_POLL_LINE") or POLL_LINE)

    def read(observation: Observation) -> tuple[Poll, ...]:
        sources = [name for one in observation.cursors for name in one.sections or {}]
        found = []
        for named, file, written_at, lines in logs.look():
            source = named if named is not None else source_of(file, sources)
            at = min(written_at, observation.taken_at)
            polls = (parse_poll(source, line, at, pattern) for line in lines if source is not None)
            found += [poll for poll in polls if poll is not None]
        return tuple(found)

    return read
