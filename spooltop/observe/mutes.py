"""Muted sources: a temporary filter on problems. Pure except ``MuteFile``, which keeps the mutes in the user's own state.

The file holds one object, ``{"schema": 1, "targets": {real path of a target: {source: end in epoch seconds}}}``, names escaped.
"""

from __future__ import annotations

import errno
import json
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from msgspec.structs import replace

from spooltop.engine.atomic import publish
from spooltop.engine.system.files import Files, NotRegular, close_all, read_small
from spooltop.errors import Refused, Unreadable, UsageError
from spooltop.model.look.snapshot import Problem, Severity, Snapshot
from spooltop.model.text import escape, unescape
from spooltop.model.units import clock_time

LONGEST = 366 * 86_400.0
"""Longest mute in seconds: a mute has an end that somebody will see."""

_OF_A_SOURCE = ("cursor-reverted", "cursor-stalled", "cursor-stopped", "cursor-rewound", "cursor-missing", "cursor-unreadable")
_NAME = "mutes.json"
_LOCK = ".mutes.lock"
_CAP = 1 << 20

Targets = dict[str, dict[str, float]]


def state_folder(settings: Mapping[str, str]) -> str | None:
    """Returns ``$XDG_STATE_HOME/spooltop`` from the environment, by default below ``~/.local/state``; None if no home is set. A
    relative path counts as unset (XDG base directory specification)."""
    home = settings.get("XDG_STATE_HOME", "")
    if not os.path.isabs(home):
        home = settings.get("HOME", "")
        if not os.path.isabs(home):
            return None
        home = os.path.join(home, ".local", "state")
    return os.path.join(home, "spooltop")


def decode(data: bytes) -> Targets:
    """Parses the file: real path of a target → source → end. Raises ``ValueError`` for anything else."""
    value = json.loads(data)
    targets = value.get("targets") if isinstance(value, dict) and value.get("schema") == 1 else None
    if not isinstance(targets, dict):
        raise ValueError("not a file of mutes")
    found: Targets = {}
    for path, ends in targets.items():
        if not isinstance(ends, dict):
            raise ValueError("not a file of mutes")
        for source, end in ends.items():
            if isinstance(end, bool) or not isinstance(end, (int, float)) or not math.isfinite(end):
                raise ValueError("an end is not a time")
            found.setdefault(unescape(path), {})[unescape(source)] = float(end)
    return found


def encode(targets: Mapping[str, Mapping[str, float]]) -> bytes:
    escaped = {escape(path): {escape(source): end for source, end in ends.items()} for path, ends in targets.items() if ends}
    return json.dumps({"schema": 1, "targets": escaped}, indent=1).encode() + b"\n"


def apply_mutes(snapshot: Snapshot, ends: Mapping[str, float], reason: str = "") -> Snapshot:
    """Returns the snapshot without the cursor problems of the sources in ``ends``, plus one last line that names them.

    Mutes that ended before the look are ignored. A shared file that does not parse concerns no single source and stays.
    ``reason`` says why mutes are not known.
    """
    ends = {source: end for source, end in ends.items() if end > snapshot.taken_at}
    if not ends and not reason:
        return snapshot
    own = {cursor.source for cursor in snapshot.cursors if not cursor.shared}
    problems = [
        problem
        for problem in snapshot.problems
        if not (
            problem.view == "cursors"
            and problem.subject in ends
            and problem.code in _OF_A_SOURCE
            and (problem.code != "cursor-unreadable" or problem.subject in own)
        )
    ]
    if ends:
        named = sorted(ends.items(), key=lambda item: (item[1], item[0]))
        words = ", ".join(f"{escape(source)} until {_until(end, snapshot.taken_at)}" for source, end in named)
        problems.append(Problem("muted", Severity.NOTE, f"muted: {words}", len(named), view="cursors", subject=named[0][0]))
    if reason:
        problems.append(Problem("muted", Severity.NOTE, f"nothing is muted: {reason}", view="cursors"))
    return replace(snapshot, problems=tuple(problems), muted=ends)


def _until(end: float, now: float) -> str:
    """Formats the end: the time of day; with the date if it is a day away or more."""
    if end - now < 86_400:
        return clock_time(end, offset=False)[:5]
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(end))


class MuteFile:
    """The mutes of one target, kept in ``folder`` (None: not kept) under ``target``, its real path.

    Thread-safe. Every call reads the file, so mutes set in another dashboard of the same user count here too.
    """

    def __init__(self, folder: str | None, target: str, *, clock: Callable[[], float], files: Files | None = None) -> None:
        self._folder = folder
        self._target = target
        self._clock = clock
        self._files = files or Files()
        self._known: tuple[tuple[int, int, int], dict[str, float], str] | None = None

    @property
    def paths(self) -> tuple[str, ...]:
        """The file, where mutes are kept."""
        return () if self._folder is None else (os.path.join(self._folder, _NAME),)

    def ends(self) -> tuple[Mapping[str, float], str]:
        """Returns source → end, and in words why they are not known (""). Reads the file if it has changed."""
        if self._folder is None:
            return {}, ""
        path = os.path.join(self._folder, _NAME)
        try:
            found = os.stat(path, follow_symlinks=False)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR):
                return {}, ""
            return {}, f"{escape(path)} cannot be read: {error.strerror}"
        state = (found.st_ino, found.st_mtime_ns, found.st_size)
        known = self._known
        if known is None or known[0] != state:
            try:
                ends, reason = self._read(None).get(self._target, {}), ""
            except Unreadable as error:
                ends, reason = {}, escape(str(error))
            known = self._known = (state, ends, reason)
        return known[1], known[2]

    def set(self, source: str, seconds: float) -> float:
        """Mutes ``source`` for ``seconds`` and returns the end. Raises ``UsageError`` for an invalid duration, ``Unreadable`` if
        the file does not parse (it is not changed), ``Refused`` if it cannot be written."""
        if not 0 < seconds <= LONGEST:
            raise UsageError("a mute has an end, in at most a year", advice="say for how long: 1h, 2d")
        end = self._clock() + seconds
        with self._changing() as targets:
            targets.setdefault(self._target, {})[source] = end
        return end

    def drop(self, source: str) -> bool:
        """Ends the mute of ``source``; False if it was not muted. Raises as ``set``."""
        with self._changing() as targets:
            return targets.get(self._target, {}).pop(source, None) is not None

    @contextmanager
    def _changing(self) -> Iterator[Targets]:
        if self._folder is None:
            raise Refused("mute: there is no place to keep it", advice="set XDG_STATE_HOME or HOME")
        files = self._files
        try:
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
            opened = [files.open_dir(self._folder, follow=True)]
            folder = opened[0]
            try:
                lock = files.open_lasting(_LOCK, folder, mode=0o600)
                opened.insert(0, lock)
                files.copy_owner(lock, files.fstat(folder))  # by sudo it would else lock the user's own dashboard out
                files.lock_coarse(lock, wait=True)
                targets = self._read(folder)
                now = self._clock()
                yield targets
                for path in list(targets):
                    targets[path] = {source: end for source, end in targets[path].items() if end > now}
                self._write(folder, encode(targets))
            finally:
                close_all(files, opened)
        except OSError as error:
            raise self._refused(error) from error

    def _read(self, folder: int | None) -> Targets:
        """Reads and parses the file. Raises ``Unreadable``."""
        assert self._folder is not None  # nobody reads where there is nothing
        files = self._files
        path = os.path.join(self._folder, _NAME)
        try:
            if folder is not None:
                return decode(read_small(_NAME, folder, files=files, limit=_CAP).data)
            folder = files.open_dir(self._folder, follow=True)
            try:
                return self._read(folder)
            finally:
                files.close(folder)
        except FileNotFoundError:
            return {}
        except (NotRegular, ValueError, RecursionError) as error:
            raise Unreadable("not a file of mutes; it is left as it is", path=path, advice="fix it or move it away") from error
        except OSError as error:
            raise Unreadable(f"cannot be read: {error.strerror}", path=path) from error

    def _write(self, folder: int, data: bytes) -> None:
        publish(self._files, folder, _NAME, data, self._files.fstat(folder), mode=0o600)

    def _refused(self, error: OSError) -> Refused:
        advice = "fix its permissions, or set XDG_STATE_HOME"
        return Refused(f"mute: it cannot be kept: {error.strerror}", path=self._folder, advice=advice)
