"""The application's API: a front end opens a target here and does everything through its Control.

``look``, ``listing``, ``read``, ``follow``, ``consumers`` and ``holders`` belong to one thread (they share the reader's scan).
``plan``, ``apply`` and ``operations`` may run in another, on a reader of their own. ``changes``, ``wake``, ``current_step``,
``mute`` and ``unmute`` may be called from any. All but ``wake``, ``current_step`` and ``now`` may block.
"""

from __future__ import annotations

import glob
import math
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial, wraps
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from msgspec import Struct, field

from .backends.registry import identify, lock_source
from .engine.arguments import closed
from .model import Action, Closed, Holders, Json, Key, Payload, Redactor, Refused, Target, UsageError, escape, has_scheme
from .model.backend import (
    KeptView,
    Listing,
    ListProgress,
    ListQuery,
    LockSource,
    OpenAs,
    OpenSettings,
    Reader,
    SideWatch,
    command_for,
)
from .model.plan import AuditTrail, Item, OperationRecord, Plan, Progress, Result, Selection, TrackedMessage
from .model.snapshot import ConsumerList, Observation, Problem, Severity, Snapshot
from .observe.observer import Observer
from .observe.own_state import MuteFile, ViewFile, apply_mutes, state_folder
from .observe.thresholds import Thresholds
from .run_each import call_watched
from .settings import SettingsFiles, from_environ, load

if TYPE_CHECKING:
    from .operate.operations import Operations

__all__ = ["Control", "open_control"]

# Keeps the files of a Control open while it is called, also if another thread closes it meanwhile.

P = ParamSpec("P")
R = TypeVar("R")


class OpenCalls(Struct):
    """Running calls of a Control, each a ``with`` block that raises ``Closed`` after ``close``. ``path`` is named in the error;
    ``release`` closes the files, once, when the Control is closed and the last call has ended. Thread-safe."""

    path: str
    release: Callable[[], None]
    _counting: threading.RLock = field(default_factory=threading.RLock)
    _running: int = 0
    _closed: bool = False

    def __enter__(self) -> None:
        with self._counting:
            if self._closed:
                raise closed(self.path, "Control")
            self._running += 1

    def __exit__(self, *_raised: object) -> None:
        with self._counting:
            self._running -= 1
            last = self._closed and self._running == 0
        if last:
            self.release()

    def close(self, interrupt: Callable[[], None]) -> None:
        """Closes the object: ``interrupt`` ends calls that wait, and the last running call releases the files. A second call does
        nothing."""
        with self._counting:
            if self._closed:
                return
            self._closed = True
            self._running += 1
        try:
            interrupt()
        finally:
            self.__exit__()


def while_open(
    method: Callable[Concatenate[Control, P], R], *, watched: bool = False
) -> Callable[Concatenate[Control, P], R]:
    """Makes a method of a closed Control raise ``Closed``, and keeps its files open during a call. ``watched``: it reads a file
    system, which may never answer, and raises ``DoesNotAnswer`` then, where the Control has not endless patience."""

    @wraps(method)
    def called(self: Control, /, *arguments: P.args, **options: P.kwargs) -> R:
        def call() -> R:
            with self._calls:
                return method(self, *arguments, **options)

        return call_watched(call, self._patience, self.target, self._reader.current_step) if watched else call()

    return called


def while_watched(method: Callable[Concatenate[Control, P], R]) -> Callable[Concatenate[Control, P], R]:
    """As ``while_open``, ``watched``."""
    return while_open(method, watched=True)


_SAVED_AT_MOST = 64 << 20
_QUIET, _BUSY = 1.0, 0.25
"""Seconds between two looks of ``watch``: without changes, and at least."""


class Control(Struct, eq=False, dict=True, weakref=True):
    """An open target. ``target`` is its name, as printed, and ``layout`` its kind: spool, mail, cursors, tickets, locks, layout
    or that of a further backend. ``who_has`` stands before the name of a message in the list of its holders.

    ``polls`` adds what the logs of pollers say to each look. The settings files are read again when they change. ``operations``
    opens the operators on first use, so that reading does not wait for them; None for a target that has nothing to change.
    ``read_only`` says why nothing may be changed. ``locks`` are shown among the target's own. ``beside`` wakes the reader.
    ``mutes`` and ``views`` are kept in this user's own state. A call that is ``while_watched`` and hangs is left behind after
    ``patience`` seconds.
    """

    _target: Target
    _reader: Reader
    _open_operations: Callable[[], Operations | None]
    _observer: Observer
    _redactor: Redactor
    _polls: Callable[[Observation], Observation] | None
    _settings_files: SettingsFiles | None
    _read_only: str | None
    _clock: Callable[[], float]
    _mutes: MuteFile
    _views: ViewFile
    _locks: tuple[LockSource, ...]
    _beside: SideWatch | None
    _patience: float
    _trouble: str = ""
    _opened: Operations | None = None
    _opening: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.target = self._target.display_name
        self.layout = self._target.kind
        self.who_has = self._target.who_has
        self._calls = OpenCalls(self.target, self._release)

    __repr__ = object.__repr__  # its parts know passwords

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("target", self.target)]

    @property
    def trash_retention(self) -> float:
        """Seconds after which messages in the trash expire; 0: never."""
        return self._observer.thresholds.trash_retention

    @property
    def why_read_only(self) -> str | None:
        """Why nothing may be changed here at all, in words; None if it may."""
        return self._read_only

    def now(self) -> float:
        """Returns epoch seconds by the one clock that everything here uses."""
        return self._clock()

    @while_watched
    def look(self, rescan: bool = False) -> Snapshot:
        """Looks once and judges. Scans only what may have changed, everything with ``rescan``. Thresholds that changed in a
        settings file count from this look on, and so does ``read_only`` where it was not before."""
        self._use_changed_settings()
        return self._judged(self._reader.see(rescan=rescan))

    def _use_changed_settings(self) -> None:
        """Uses settings files that changed since the last look. If they cannot be used, the snapshots say so."""
        try:
            found = None if self._settings_files is None else self._settings_files.changed()
            if found is None:
                return
            with found.blaming():
                self._observer.thresholds = Thresholds.from_settings(found.words)
            self._trouble = ""
            self._read_only = self._read_only or found.why_read_only(self._target)
        except UsageError as error:
            self._trouble = str(error)

    def _judged(self, observation: Observation) -> Snapshot:
        """Judges an observation, which counts as the one after those that were given before: adds what is not the backend's, and
        hides what the user wants hidden."""
        if self._polls is not None:
            observation = self._polls(observation)
        if self._redactor:
            observation = self._observer.redacted(observation, self._redactor)
        if self._locks:
            elsewhere = (lock for one in self._locks for lock in one.look())
            observation = observation.replace(locks=(*observation.locks, *elsewhere))
        snapshot = self._observer.add(observation)
        if self._trouble:
            note = Problem("settings", Severity.NOTE, f"changed settings are not used: {self._trouble}")
            snapshot = snapshot.replace(problems=(*snapshot.problems, note))
        return apply_mutes(snapshot, *self._mutes.ends())

    def watch(self, seconds: float, monotonic: Callable[[], float] = time.monotonic) -> Snapshot:
        """Looks repeatedly for ``seconds``, as the dashboard does, and returns the last look: ``seconds`` or more after the
        first, so that what needs to be watched for so long is judged."""
        began = monotonic()
        snapshot = self.look()
        end = monotonic() + seconds
        pause = threading.Event()
        while began < end:
            now = monotonic()
            pause.wait(min(max(0.0, end - now), max(_BUSY, 3 * (now - began))))
            self.changes(max(0.0, min(_QUIET, end - monotonic())))
            began = monotonic()
            snapshot = self.look()
        return snapshot

    @while_open
    def changes(self, timeout: float) -> bool:
        """Waits until something may have changed (True), or ``timeout`` seconds (False)."""
        if self._beside is not None:
            self._beside.start()
        return self._reader.changes(min(timeout, _QUIET) if self._locks else timeout)

    @while_watched
    def has_changed(self) -> bool:
        """Returns whether something may have changed since the last look, as ``changes``, but at once. Belongs to the thread of
        the looks."""
        return self._reader.changes(0.0)

    def wake(self) -> None:
        """Ends a ``changes`` that waits in another thread. Does nothing after ``close``."""
        with suppress(Closed), self._calls:
            self._reader.wake()

    @while_watched
    def listing(
        self, query: ListQuery, cancelled: Callable[[], bool] = lambda: False, progress: ListProgress | None = None
    ) -> Listing:
        """Returns a list from the scan of the last look, and reports to ``progress`` meanwhile. Raises ``UsageError`` for an
        invalid filter."""
        return self._reader.listing(query, cancelled, progress)

    @while_watched
    def read(self, key: Key, limit: int = 65536) -> Payload:
        """Returns the first ``limit`` bytes of a message, redacted as set, and the facts about it. Raises ``Unreadable`` if it is
        gone."""
        payload = self._reader.read(key, limit)
        return payload.replace(data=self._redactor.data(payload.data))

    @while_open
    def save(self, key: Key, path: str) -> tuple[str, int]:
        """Saves a whole message, redacted as set, to the new file ``path``; returns its absolute path and its size in bytes.
        Belongs to the thread of the looks. Raises ``Unreadable`` if the message is gone, ``Refused`` if the file exists or cannot
        be written, or the message is too large to be redacted in memory."""
        from spooltop.operate.operations import save_file

        payload = self._reader.read(key, _SAVED_AT_MOST)
        if payload.size > _SAVED_AT_MOST:
            advice = "spooltop show PATH ID --raw > FILE writes it as far as memory allows"
            raise Refused(f"larger than {_SAVED_AT_MOST >> 20} MiB", advice)
        data = self._redactor.data(payload.data)
        return save_file(path, data), len(data)

    @while_watched
    def follow(self, ids: Sequence[str], since: float) -> Mapping[str, TrackedMessage]:
        """Returns the locations of the messages with these ids as of the last look, by id, and tracks them until other ids are
        given. Only the first 1,000 ids are tracked. Claims before ``since`` (epoch seconds) do not count."""
        return self._reader.follow(ids, since)

    @while_watched
    def consumers(self) -> ConsumerList:
        """Returns the consumers as of the last look: who they are, what they hold, and what they use. It costs more than a look
        where there are many, so it is called while somebody reads it."""
        return self._observer.measured(self._reader.consumers())

    @while_watched
    def holders(self, key: Key) -> Holders:
        """Finds the processes that have it open or locked: a message or file by its row's key, a lock or a cursor file of the
        last look by its path. Reads every descriptor of every process, so it is called once, not at each look. Raises
        ``Unreadable`` if it is gone."""
        self._check_elsewhere(None, key)
        return self._reader.holders(key)

    @while_open
    def mute(self, source: str, seconds: float) -> float:
        """Hides the cursor problems of ``source`` for ``seconds``, and returns the end (epoch seconds). The mute is kept in this
        user's own state, for this target. Raises ``UsageError``, ``Refused``, ``Unreadable``."""
        end = self._mutes.set(source, seconds)
        self._reader.wake()
        return end

    @while_open
    def unmute(self, source: str) -> bool:
        """Ends the mute; False if ``source`` was not muted. Raises as ``mute``."""
        ended = self._mutes.drop(source)
        self._reader.wake()
        return ended

    @while_open
    def kept_view(self) -> KeptView:
        """Returns the view and the orders in which this user left the dashboard of this target the last time."""
        return self._views.read()

    @while_open
    def keep_view(self, kept: KeptView) -> bool:
        """Keeps them in this user's own state; False where that is not possible."""
        return self._views.write(kept)

    @while_open
    def current_step(self) -> str:
        """Describes the current step of a running look ("readdir of new"): called if the look does not return."""
        return self._reader.current_step()

    @while_watched
    def plan(
        self,
        action: Action,
        selection: Selection,
        *,
        force: bool = False,
        options: Mapping[str, Json] | None = None,
        on_progress: Callable[[str], object] | None = None,
        on_first: Callable[[Sequence[Item]], object] | None = None,
        stop: Callable[[], bool] | None = None,
    ) -> Plan:
        """Pins what ``selection`` names now; changes nothing.

        ``on_progress`` gets the progress in words ("230,000 of 300,000 claims judged"), ``on_first`` the first items where there
        are many; ``stop`` is called every few hundred messages and returns True to stop. Raises ``Stopped`` then, and ``Refused``
        if the action is not available here.

        SET_CURSOR takes an empty selection and the options ``source``, ``value`` (any JSON: the whole section, as
        ``cursors.model.parse_value`` reads it from text) and ``file`` (None if only one fits).
        """
        operations = self._operator(action, *(selection.ids or ())[:1])
        if action is Action.UNLOCK:
            self._check_elsewhere(action, *(selection.ids or ()), *(selection.keys or ()))
        options = self._observer.plan_options(action, options or {})
        return operations.plan(action, selection, force, options, Progress(stop, on_progress, on_first))

    @while_open
    def with_rate(self, plan: Plan, rate: float | None) -> Plan:
        """Returns the same list with a limit of ``rate`` items a second; None: unlimited."""
        return self._operator(plan.action).with_rate(plan, rate)

    @while_open
    def apply(
        self,
        plan: Plan,
        on_progress: Callable[[int], None] | None = None,
        stop: Callable[[], bool] | None = None,
    ) -> Result:
        """Applies the plan and returns the result of each item. ``on_progress`` gets the number of items tried so far; ``stop``
        is called between items. Raises ``Refused`` and ``AuditFailed`` before anything was changed."""
        result = self._operator(plan.action).apply(plan, on_progress=on_progress, stop=stop)
        self._reader.wake()
        return result

    @while_watched
    def operations(
        self, stop: Callable[[], bool] | None = None, *, begins: str = "", most: int | None = None
    ) -> list[OperationRecord]:
        """Lists the operations whose id ``begins`` so, newest first, ``most`` of them. ``stop`` is called every few hundred
        moves; raises ``Stopped`` if it returns True."""
        operations = self._operations()
        return [] if operations is None else operations.records(stop, begins=begins, most=most)

    @while_watched
    def audit(self, operation: str) -> AuditTrail:
        """Returns who did an operation, from where, and what became of each item. Raises ``Unreadable``."""
        operations = self._operations()
        return AuditTrail() if operations is None else operations.audited(operation)

    def close(self) -> None:
        """Closes the target; every other method but ``now`` and ``wake`` raises ``Closed`` from then on. A call that runs in
        another thread ends normally, and only then are files closed. A second call does nothing."""
        self._calls.close(interrupt=self._reader.wake)

    def _release(self) -> None:
        if self._beside is not None:
            self._beside.stop()
        self._reader.close()
        if self._beside is not None:
            self._beside.close()
        for source in self._locks:
            source.close()
        if self._opened is not None:
            self._opened.close()

    def _check_elsewhere(self, action: Action | None, *keys: Key) -> None:
        """Raises the error of a source of locks that cannot do ``action`` (None: find the holders) to one of ``keys``."""
        for source in self._locks:
            for key in keys:
                if (error := source.why_not(action, key)) is not None:
                    raise error

    def _operator(self, action: Action, id: str = "ID") -> Operations:
        if self._read_only is not None:
            command = command_for(self._target.commands.get(action, ""), escape(id))
            raise Refused(f"{action}: {self._read_only}", command, path=self.target)
        operations = self._operations()
        if operations is None:
            raise Refused(f"{action}: a {self.layout} target has no messages to change", path=self.target)
        return operations

    def _operations(self) -> Operations | None:
        with self._opening:
            if self._opened is None:
                self._opened = self._open_operations()
            return self._opened

    def __enter__(self) -> Control:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def open_control(
    path: str,
    *,
    read_only: bool = False,
    as_kind: str = "",
    watch: bool = True,
    clock: Callable[[], float] = time.time,
    settings: Mapping[str, str] | None = None,
    poll_logs: Sequence[str] = (),
    who_writes: bool = False,
    cursor_files: Sequence[str] = (),
    syslog: bool = False,
    redis_tickets: Sequence[str] = (),
    locks: bool = False,
    owners: bool = True,
    patience: float = math.inf,
) -> Control:
    """Opens what ``path``, a path or a URL, is: a spool, a mail folder (read-only), a ``cursors.json`` alone, tickets, lock
    files, or what another backend knows. ``as_kind`` says what it is: ``spool``, also for a mail folder, or the name of a layout;
    without it the setting ``layouts`` does. ``locks`` treats any other directory as a directory of lock files.

    ``watch`` listens for changes (the dashboard), else each look stands alone (a command). ``settings`` are environment
    variables (``SPOOLTOP_*``; ``XDG_STATE_HOME`` and ``HOME`` say where mutes are kept) in place of this process's own and of
    the files with settings. ``syslog`` also sends audit records to syslog. ``poll_logs`` are logs of pollers,
    ``GLOB`` or ``SOURCE=GLOB``; without any those of ``SPOOLTOP_POLL_LOG``, with ``:`` between; ``SPOOLTOP_POLL_LINE`` is the
    pattern of their lines.
    ``SPOOLTOP_CURSOR_FIELD`` names the field of a section that is the cursor: ``FIELD`` or ``SOURCE=FIELD``, with ``,`` between.
    ``cursor_files`` (or ``SPOOLTOP_CURSOR_FILES``, with ``:`` between) are the cursor files, or folders of them, in place of
    those in the spool or beside it; they need no spool. ``who_writes`` (or ``SPOOLTOP_WHO_WRITES``, where it ``watch``es) asks
    the kernel who writes the cursors: for root, else ``Refused``. ``redis_tickets`` are servers whose ticket queues are shown
    among the locks, as ``backends.redis.tickets`` takes them; without any those of ``SPOOLTOP_REDIS_TICKETS``, with spaces
    between. Without ``owners`` only those holders of claims are described that a problem may name.
    ``patience``: seconds after which a file system does not answer, here and in each call that reads (``run_each.call_watched``);
    servers have limits of their own.
    Raises ``NotASpool`` or ``Unreadable`` with the hint that fits, ``DoesNotAnswer``. Creates nothing.
    """
    patience = math.inf if has_scheme(path) else patience

    def opened() -> Control:
        found = load(os.environ) if settings is None else from_environ(settings)
        with found.blaming():
            settings_files = SettingsFiles(os.environ) if settings is None and watch else None
            words = found.words
            asked = OpenAs(as_kind or found.kind_of(path), locks, tuple(cursor_files), words)
            backend, target = identify(path, asked)
            observer = Observer(Thresholds.from_settings(words), words)
            state = state_folder(words)
            mutes = MuteFile(state, target.key, clock)
            limits, redactor = observer.thresholds, Redactor(found.redact)
            why_closed = target.read_only or ("opened read-only, by --read-only" if read_only else found.why_read_only(target))
            logs = tuple(poll_logs) or found.items("poll_log")
            polls = None
            files = (*(() if settings_files is None else settings_files.paths), *mutes.paths) if watch else ()
            side_files = tuple(map(glob.escape, files))
            if logs:
                from .cursors.watch import PollLogs

                read_logs = PollLogs(logs, words)
                polls = read_logs.add_to
                side_files = (*(one.pattern for one in read_logs.globs), *side_files)
            urls = tuple(redis_tickets) or found.items("redis_tickets")
            tickets = tuple(lock_source(url, clock) for url in dict.fromkeys(urls))
            asked = asked.replace(cursor_files=asked.cursor_files or found.items("cursor_files"))
            options = OpenSettings(
                why_closed, asked, watch, clock, words, found.claims_hosts, found.claims_pids, limits.trash_retention,
                limits.lock_stale, 0.0 if owners else limits.claim_long / 2, redactor, state=state, side_files=side_files,
                who_writes=who_writes or (watch and words.get("SPOOLTOP_WHO_WRITES", "") not in ("", "0")),
            )  # fmt: skip
            parts = backend.open(target, options)

            def open_operations() -> Operations | None:
                if parts.operator is None:
                    return None
                from spooltop.operate.operations import Operations, at_work, to_syslog

                changes = parts.operator()
                consumers, copies = changes.consumers, partial(to_syslog, notice=True) if syslog or found.syslog else None
                return Operations(
                    changes.operator, target.display_name, clock, flags=changes.flags, copies=copies,
                    at_work=None if consumers is None else lambda: at_work(consumers(), clock()),
                    retention=limits.trash_retention if changes.keeps_trash else 0.0, redactor=redactor,
                )  # fmt: skip

            return Control(
                target, parts.reader, open_operations, observer, redactor, polls, settings_files, why_closed, clock, mutes,
                ViewFile(state, target.key), tickets, parts.beside, patience,
            )

    return call_watched(opened, patience, path)
