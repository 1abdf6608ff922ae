"""Assembles the operators and journals for each kind of target, and the additional readers.

Modules are imported on first use: reading does not wait for what only changes need.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from .errors import Refused
from .model.vocabulary import Action

if TYPE_CHECKING:
    from .backends.directory.cursors.writers import WriterWatch
    from .backends.directory.detect import Target
    from .backends.directory.reader import DirectoryReader
    from .backends.redis.tickets import RedisTickets
    from .model.observation import Observation, Poll
    from .model.redact import Redactor
    from .operate.operations import Operations

__all__ = ["OperatorConfig", "lone_operations", "poll_reader", "redis_servers", "spool_operations", "to_syslog", "writers_of"]


class OperatorConfig(NamedTuple):
    """Configuration of the operators on ``target``, given as ``path``.

    ``copies`` gets the audit records. A lock without a holder is stale after ``stale_after`` seconds, a message in the trash
    expires after ``retention``. ``redactor`` hides values in plans, results and logs. ``hosts`` and ``pids`` are the settings
    ``claims.hosts`` and ``claims.pids``.
    """

    path: str
    target: Target
    clock: Callable[[], float]
    copies: Callable[[str], None] | None
    cursor_files: Sequence[str]
    stale_after: float
    retention: float
    redactor: Redactor
    hosts: str
    pids: str


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


def writers_of(path: str) -> WriterWatch:
    """Watches who writes the cursor files. Raises ``Refused`` if the kernel does not report it."""
    from .backends.directory.cursors.writers import WriterWatch
    from .backends.directory.liveness.processes import Processes
    from .model.observation import LockHolder

    processes = Processes()

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


def spool_operations(wanted: OperatorConfig, reader: DirectoryReader, why: str | None, *, as_spool: bool) -> Operations:
    """Opens the operations on the spool of ``reader``. ``why`` it is read-only, None if it is not."""
    from .backends.directory.cursors.operator import CursorOperator
    from .backends.directory.journal.log_files import LogFiles
    from .backends.directory.journal.log_store import STATE_DIR, SpoolPathLogs
    from .backends.directory.locks.operator import LockOperator
    from .backends.directory.operator.chain import OperatorChain
    from .backends.directory.operator.operator import DirectoryOperator
    from .backends.directory.rescan import FreshRows
    from .operate.consumers_note import at_work
    from .operate.operations import Operations

    target, clock = wanted.target, wanted.clock
    fresh = FreshRows.of(
        target.path, layout=target.kind, read_only=why, clock=clock, hosts=wanted.hosts, pids=wanted.pids
    )  # fmt: skip
    operator = DirectoryOperator(
        target.path, rows=fresh.rows, again=fresh.again, read_only=why, as_spool=as_spool, hosts=wanted.hosts, clock=clock,
        on_close=fresh.close, redactor=wanted.redactor,
    )  # fmt: skip

    def taking() -> str:
        return at_work(fresh.observation(), clock(), reader.last_claim_at)

    logs = SpoolPathLogs(reader.path, LogFiles(), state_dir=STATE_DIR)
    cursors = CursorOperator(
        reader.path, logs, beside=True, read_only=why, clock=clock, cursor_files=wanted.cursor_files,
        redactor=wanted.redactor,
    )
    locks = LockOperator(reader.path, logs, read_only=why, clock=clock, stale_after=wanted.stale_after)
    flags = ("--as", "spool") if as_spool else ()
    all_of_it = OperatorChain(OperatorChain(operator, cursors, Action.SET_CURSOR), locks, Action.UNLOCK)
    return Operations(
        all_of_it, wanted.path, clock, flags=flags, copies=wanted.copies, at_work=taking, retention=wanted.retention,
        redactor=wanted.redactor,
    )


def lone_operations(wanted: OperatorConfig, state: str | None) -> Operations:
    """Opens the operations on cursors, tickets or lock files without a spool. Their journal is kept in root's state or in
    ``state``, the user's own."""
    from .backends.directory.cursors.operator import CursorOperator
    from .backends.directory.journal.log_files import LogFiles
    from .backends.directory.journal.log_store import STATE_DIR, StateLogs
    from .backends.directory.locks.operator import LockOperator
    from .backends.directory.operator.chain import OperatorChain
    from .operate.operations import Operations

    target, clock = wanted.target, wanted.clock
    logs = StateLogs(target.path, LogFiles(), state_dir=STATE_DIR if os.geteuid() == 0 else state)
    tickets = target.kind == "tickets"
    locks = LockOperator(
        target.path, logs, tickets=tickets, above=tickets, clock=clock, stale_after=wanted.stale_after
    )
    if target.kind != "cursors":
        return Operations(locks, wanted.path, clock, copies=wanted.copies)
    cursors = CursorOperator(
        target.path, logs, beside=False, clock=clock, cursor_files=wanted.cursor_files,
        redactor=wanted.redactor,
    )
    both = OperatorChain(cursors, locks, Action.UNLOCK)
    return Operations(both, wanted.path, clock, copies=wanted.copies, redactor=wanted.redactor)


def poll_reader(globs: Sequence[str], settings: Mapping[str, str]) -> Callable[[Observation], tuple[Poll, ...]] | None:
    """Returns a function that reads the poll logs at each look, None if none were named. Raises ``UsageError`` for an invalid
    pattern."""
    if not globs:
        return None
    from .backends.directory.cursors.poll_logs import LogGlob, PollLogs
    from .observe.polls import POLL_LINE, parse_poll, poll_pattern, source_of

    logs = PollLogs([LogGlob.parse(one) for one in globs])
    pattern = poll_pattern(settings.get("SPOOLTOP_POLL_LINE") or POLL_LINE)

    def read(observation: Observation) -> tuple[Poll, ...]:
        sources = [name for one in observation.cursors for name in one.sections or {}]
        found = []
        for named, file, written_at, lines in logs.look():
            source = named if named is not None else source_of(file, sources)
            at = min(written_at, observation.taken_at)
            told = (parse_poll(source, line, at, pattern) for line in lines if source is not None)
            found += [poll for poll in told if poll is not None]
        return tuple(found)

    return read
