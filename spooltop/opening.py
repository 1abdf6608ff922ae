"""Opens the parts of a ``Control``: finds the backend of a target, and combines its reader and operator with what holds for every
kind of queue.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from .backends.registry import identify, lock_source
from .errors import UsageError
from .model.backend import LockSource, OpenAs, OpenedOperator, OpenSettings, SideWatch
from .model.cursors import Poll, cursor_fields
from .model.look.observation import Observation
from .model.look.snapshot import Problem, Severity, Snapshot
from .model.protocols import Reader
from .model.redact import Redactor
from .model.target import Target
from .observe.observer import Observer, redacted
from .observe.own_state import MuteFile, ViewFile, apply_mutes, state_folder
from .observe.thresholds import Thresholds
from .settings import Settings, SettingsFiles, from_environ, load

if TYPE_CHECKING:
    from .operate.operations import Operations


# Makes a snapshot of what a reader observed: adds what is not the backend's, hides what the user wants hidden, has it judged.

class SnapshotMaker(Struct):
    """Makes the snapshots of one target. ``polls`` reads the logs of pollers at each look, ``locks`` are shown among the target's
    own. ``settings_files`` are read again when they change, by ``use_changed_settings``."""

    observer: Observer
    redactor: Redactor
    mutes: MuteFile
    polls: Callable[[Observation], tuple[Poll, ...]] | None
    locks: tuple[LockSource, ...]
    settings_files: SettingsFiles | None
    _trouble: str = ""

    def use_changed_settings(self) -> Settings | None:
        """Uses the thresholds of settings files that changed since the last look. Returns the settings, None if none changed or
        they cannot be used; the snapshots say so then."""
        try:
            found = None if self.settings_files is None else self.settings_files.changed()
            if found is None:
                return None
            with found.blaming():
                self.observer.use(Thresholds.from_settings(found.words))
            self._trouble = ""
        except UsageError as error:
            self._trouble = str(error)
            return None
        return found

    def make(self, observation: Observation) -> Snapshot:
        """Judges an observation, which counts as the one after those that were given before."""
        if self.polls is not None:
            observation = replace(observation, polls=self.polls(observation))
        if self.redactor:
            observation = redacted(observation, self.redactor)
        if self.locks:
            elsewhere = (lock for one in self.locks for lock in one.look())
            observation = replace(observation, locks=(*observation.locks, *elsewhere))
        snapshot = self.observer.add(observation)
        if self._trouble:
            note = Problem("settings", Severity.NOTE, f"changed settings are not used: {self._trouble}")
            snapshot = replace(snapshot, problems=(*snapshot.problems, note))
        return apply_mutes(snapshot, *self.mutes.ends())


class ControlParts(Struct, frozen=True):
    """Parts of a ``Control``.

    ``operations`` opens the operators on first use, so that reading does not wait for them; None for a target that has nothing to
    change. ``snapshots`` judges what the reader observes, by ``observer``. ``read_only`` says why nothing may be changed.
    ``locks`` are shown among the target's own. ``beside`` wakes the reader. ``mutes`` and ``views`` are kept in this user's own
    state."""

    target: Target
    reader: Reader
    operations: Callable[[], Operations] | None
    observer: Observer
    snapshots: SnapshotMaker
    redactor: Redactor
    read_only: str | None
    clock: Callable[[], float]
    mutes: MuteFile
    views: ViewFile
    locks: tuple[LockSource, ...] = ()
    beside: SideWatch | None = None


def open_parts(
    spec: str, asked: OpenAs, given: Mapping[str, str] | None, clock: Callable[[], float], *, read_only: bool, watch: bool,
    poll_logs: Sequence[str], who_writes: bool, syslog: bool, redis_tickets: Sequence[str], owners: bool,
) -> ControlParts:  # fmt: skip
    """Opens what ``spec`` names; ``given`` are the settings. The arguments are those of ``control.open_control``, which explains
    them. Raises as that does."""
    found = load(os.environ) if given is None else from_environ(given)
    with found.blaming():
        settings_files = SettingsFiles(os.environ) if given is None and watch else None
        words = found.words
        asked = replace(asked, as_kind=asked.as_kind or found.kind_of(spec), environ=words)
        backend, target = identify(spec, asked)
        observer = Observer(Thresholds.from_settings(words), cursor_fields(words.get("SPOOLTOP_CURSOR_FIELD", "")))
        state = state_folder(words)
        mutes = MuteFile(state, target.key, clock=clock)
        limits, redactor = observer.thresholds, Redactor(found.redact)
        why_closed = target.read_only or ("opened read-only, by --read-only" if read_only else found.why_read_only(target))
        logs = tuple(poll_logs) or found.items("poll_log")
        polls = None
        files = (*(() if settings_files is None else settings_files.paths), *mutes.paths) if watch else ()
        side_files = tuple(map(glob.escape, files))
        if logs:
            from .observe.cursors.watch import LogGlob, poll_reader

            polls = poll_reader(logs, words)
            side_files = (*(LogGlob.parse(one).pattern for one in logs), *side_files)
        urls = tuple(redis_tickets) or found.items("redis_tickets")
        locks = tuple(lock_source(url, clock) for url in dict.fromkeys(urls))
        asked = replace(asked, cursor_files=asked.cursor_files or found.items("cursor_files"))
        settings = OpenSettings(
            why_closed, asked, watch, clock, words, found.claims_hosts, found.claims_pids, limits.trash_retention,
            limits.lock_stale, 0.0 if owners else limits.claim_long / 2, redactor, state=state, side_files=side_files,
            who_writes=who_writes or (watch and words.get("SPOOLTOP_WHO_WRITES", "") not in ("", "0")),
        )  # fmt: skip
        opened = backend.open(target, settings)
        snapshots = SnapshotMaker(observer, redactor, mutes, polls, locks, settings_files)
        operations = None
        if opened.operator is not None:
            operations = partial(_operations, opened.operator, target, settings, syslog=syslog or found.syslog)
        return ControlParts(
            target, opened.reader, operations, observer, snapshots, redactor, why_closed, clock, mutes,
            ViewFile(state, target.key), locks, opened.beside,
        )


def _operations(
    open_operator: Callable[[], OpenedOperator], target: Target, settings: OpenSettings, *, syslog: bool
) -> Operations:
    """Opens the operator of a target, and what holds for the changes of every kind."""
    from spooltop.operate.operations import Operations, at_work
    from spooltop.operate.syslog import to_syslog

    opened = open_operator()
    consumers, clock = opened.consumers, settings.clock
    return Operations(
        opened.operator,
        target.display_name,
        clock,
        flags=opened.flags,
        copies=partial(to_syslog, notice=True) if syslog else None,
        at_work=None if consumers is None else lambda: at_work(consumers(), clock()),
        retention=settings.retention if opened.keeps_trash else 0.0,
        redactor=settings.redactor,
    )
