"""Makes a snapshot of what a reader observed: adds what is not the backend's, hides what the user wants hidden, has it judged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from spooltop.model.look.snapshot import Problem, Severity
from spooltop.records import replace

from .errors import UsageError

if TYPE_CHECKING:
    from spooltop.model.cursors import Poll
    from spooltop.model.look.observation import Observation
    from spooltop.model.look.snapshot import Snapshot
    from spooltop.observe.observer import Observer

    from .model.backend import LockSource
    from .model.redact import Redactor
    from .observe.mutes import MuteFile
    from .settings import Settings, SettingsFiles

__all__ = ["SnapshotMaker"]


class SnapshotMaker:
    """Makes the snapshots of one target. ``polls`` reads the logs of pollers at each look, ``locks`` are shown among the target's
    own. ``settings_files`` are read again when they change, by ``use_changed_settings``."""

    def __init__(
        self,
        observer: Observer,
        redactor: Redactor,
        *,
        mutes: MuteFile | None = None,
        polls: Callable[[Observation], tuple[Poll, ...]] | None = None,
        locks: Sequence[LockSource] = (),
        settings_files: SettingsFiles | None = None,
    ) -> None:
        self._observer = observer
        self._redactor = redactor
        self._mutes = mutes
        self._polls = polls
        self._locks = tuple(locks)
        self._settings_files = settings_files
        self._settings_trouble = ""

    def use_changed_settings(self) -> Settings | None:
        """Uses the thresholds of settings files that changed since the last look. Returns the settings, None if none changed or
        they cannot be used; the snapshots say so then."""
        try:
            found = None if self._settings_files is None else self._settings_files.changed()
            if found is None:
                return None
            from .observe.thresholds import Thresholds

            with found.blaming():
                self._observer.use(Thresholds.from_settings(found.words))
            self._settings_trouble = ""
        except UsageError as error:
            self._settings_trouble = str(error)
            return None
        return found

    def make(self, observation: Observation) -> Snapshot:
        """Judges an observation, which counts as the one after those that were given before."""
        if self._polls is not None:
            observation = replace(observation, polls=self._polls(observation))
        if self._redactor:
            from .observe.redaction import redacted

            observation = redacted(observation, self._redactor)
        if self._locks:
            elsewhere = (lock for one in self._locks for lock in one.look())
            observation = replace(observation, locks=(*observation.locks, *elsewhere))
        snapshot = self._observer.add(observation)
        if self._settings_trouble:
            note = Problem("settings", Severity.NOTE, f"changed settings are not used: {self._settings_trouble}")
            snapshot = replace(snapshot, problems=(*snapshot.problems, note))
        if self._mutes is None:
            return snapshot
        from .observe.mutes import apply_mutes

        return apply_mutes(snapshot, *self._mutes.ends())
