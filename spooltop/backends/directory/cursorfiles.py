"""The cursor files of a spool as they are now: one for all sources, or one a source. Read again only when changed."""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from spooltop.engine.cursors import LOCK
from spooltop.model.sight import CursorSource, CursorWrite, LockParty
from spooltop.model.words import Json

from .cursorear import CursorEar
from .cursorjournal import CursorJournal
from .writers import WriterWatch

__all__ = ["CursorFiles", "named_folders", "parse_sections", "parse_value"]

_CAP = 4 << 20
_FILES_AT_MOST = 256
_LIST_AT_MOST = 20_000
_SHARED = "cursors.json"
_BEGUN = ("true", "false", "null", "-", ".", "e+", "e-", "E+", "E-")
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY

Holders = Callable[[os.stat_result], tuple[LockParty, ...]]
"""Who holds a lock on the file with this status."""


def _load(data: bytes) -> tuple[Json, str]:
    if not data.strip():
        return None, "it is empty"
    try:
        return json.loads(data), ""
    except (ValueError, RecursionError) as problem:
        where = getattr(problem, "pos", None)
        if isinstance(problem, json.JSONDecodeError) and _cut_off(problem):
            return None, "it is cut off"
        return None, f"not JSON at byte {where}" if where is not None else "not JSON"


def _cut_off(problem: json.JSONDecodeError) -> bool:
    """Whether what is wrong is only that it ends: within a string, a word or a number, or where more is wanted."""
    rest = problem.doc[problem.pos :].rstrip()
    if problem.msg.startswith("Unterminated string"):
        return True
    if problem.msg.startswith("Invalid \\u"):
        return len(rest) <= len("uXXX")
    return problem.msg != "Extra data" and (not rest or any(word.startswith(rest) for word in _BEGUN))


def parse_value(data: bytes) -> tuple[Json, str]:
    """The value of a file that belongs to one source, and why it does not parse ("")."""
    return _load(data)


def parse_sections(data: bytes) -> tuple[dict[str, Json] | None, str]:
    """The sections of a shared file, and why it does not parse ("")."""
    value, error = _load(data)
    if error:
        return None, error
    return (value, "") if isinstance(value, dict) else (None, "not an object: one section for each source is expected")


@contextmanager
def named_folders(named: Iterable[str]) -> Iterator[list[tuple[str, int]]]:
    """(path, descriptor) of each folder in ``named``, and of the one that each file in it lies in; what cannot be opened is left
    out."""
    opened: dict[str, int] = {}
    try:
        for path in map(os.path.abspath, named):
            for folder in (path, os.path.dirname(path)):
                try:
                    if folder not in opened:
                        opened[folder] = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                    break
                except OSError:
                    continue  # a file, or nothing: the folder it lies in is tried
        yield list(opened.items())
    finally:
        for fd in opened.values():
            os.close(fd)


@dataclass(slots=True)
class _Known:
    state: tuple[int, int, int]
    source: CursorSource


class CursorFiles:
    """The cursor files in some folders. What has not changed is the very object of the look before."""

    def __init__(
        self, *, clock: Callable[[], float] = time.time, writers: WriterWatch | None = None, named: Sequence[str] = (),
        ear: CursorEar | None = None,
    ) -> None:  # fmt: skip
        """``named``: cursor files, or folders of them, in place of those that lie in the folders looked at. ``ear`` hears what
        happens to them between two looks."""
        self._clock = clock
        self._named = [os.path.abspath(path) for path in named]
        self._writers = writers
        self._ear = ear
        self._journal = CursorJournal()
        self._known: dict[str, _Known] = {}
        self._seen: set[str] = set()
        self._litter: dict[str, tuple[tuple[int, int, int], tuple[str, ...]]] = {}

    def look(self, folders: Iterable[tuple[str, int]], holders: Holders) -> tuple[CursorSource, ...]:
        """``folders``: (path as shown, descriptor) of the spool and of its parent; the first that has cursors is taken."""
        now = self._clock()
        if self._named:
            with named_folders(self._named) as opened:
                return self._of_names(dict(opened), holders, now)
        for path, fd in folders:
            found = self._in(path, fd, holders, now)
            if found:
                return found
        return ()

    def _of_names(self, opened: dict[str, int], holders: Holders, now: float) -> tuple[CursorSource, ...]:
        sources: list[CursorSource] = []
        for path in self._named:
            if path in opened:
                sources += self._in(path, opened[path], holders, now)
                continue
            above, name = os.path.split(path)
            alone = name[: -len(".json")] if os.path.basename(above) == "cursors" and name.endswith(".json") else None
            one = None
            if above in opened:
                fd = opened[above]
                self._follow(fd, name)
                told = self._journal.since(above, fd, now)
                if (one := self._file(path, name, fd, alone, holders)) is not None:
                    self._seen.add(path)
                    if name == _SHARED:
                        one = self._with_temporary(one, above, fd)
                    sources.append(self._with(one, told, fd))
            if one is None and path not in self._seen:  # it never was there: what was named is told all the same
                sources.append(CursorSource(path, alone is None, None, "there is no such file"))
        return tuple(sources)

    def _in(self, path: str, fd: int, holders: Holders, now: float) -> tuple[CursorSource, ...]:
        sources = []
        self._follow(fd)
        told = self._journal.since(path, fd, now)  # before the files: what it tells was published before they are read
        shared = self._file(os.path.join(path, _SHARED), _SHARED, fd, None, holders)
        if shared is not None:
            sources.append(self._with(self._with_temporary(shared, path, fd), told, fd))
        folder = -1
        try:
            folder = os.open("cursors", os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fd)
            self._follow(folder)
            if self._ear is not None:
                self._ear.follow(folder)
            told = self._journal.since(os.path.join(path, "cursors"), folder, now)
            names = sorted(name for name in os.listdir(folder) if name.endswith(".json") and not name.startswith("."))
            for name in names[:_FILES_AT_MOST]:
                one = self._file(os.path.join(path, "cursors", name), name, folder, name[: -len(".json")], holders)
                if one is not None:
                    sources.append(self._with(one, told, folder))
        except OSError:
            return tuple(sources)  # no such folder, which is the rule
        finally:
            if folder >= 0:
                os.close(folder)
        return tuple(sources)

    def _file(self, path: str, name: str, fd: int, source: str | None, holders: Holders) -> CursorSource | None:
        try:
            found = os.stat(name, dir_fd=fd, follow_symlinks=False)
        except FileNotFoundError:
            self._known.pop(path, None)
            return None
        except OSError as problem:
            return CursorSource(path, source is None, None, str(problem.strerror))
        state = (found.st_ino, found.st_mtime_ns, found.st_size)
        known = self._known.get(path)
        if known is not None and known.state == state:
            return known.source
        sections, error, writer = self._read(name, fd, source, found)
        answer = CursorSource(
            path, source is None, sections, error, found.st_ino, found.st_mtime, found.st_size, holders(found), writer=writer
        )  # fmt: skip
        self._known[path] = _Known(state, answer)
        return answer

    def _with(self, source: CursorSource, told: dict[str, tuple[CursorWrite, ...]], fd: int) -> CursorSource:
        """With what the journal tells of it, and whether its lock is there. The same object where that is as before."""
        there: bool | None
        try:
            there = stat.S_ISREG(os.stat(LOCK, dir_fd=fd, follow_symlinks=False).st_mode)
        except OSError as problem:
            there = False if isinstance(problem, FileNotFoundError) else None
        if there is not source.lock_there:
            source = replace(source, lock_there=there)
            if source.path in self._known:
                self._known[source.path].source = source
        writes = told.get(os.path.basename(source.path), ())
        return replace(source, journal=writes) if writes else source

    def _follow(self, fd: int, name: str | None = None) -> None:
        if self._writers is None:
            return
        try:
            self._writers.follow(fd, name)
        except OSError:
            return  # its file system tells nothing: the writer is not seen

    def _read(
        self, name: str, fd: int, source: str | None, found: os.stat_result
    ) -> tuple[dict[str, Json] | None, str, LockParty | None]:
        """The sections, or why there are none, and who published them where that is listened to."""
        if not stat.S_ISREG(found.st_mode):
            return None, "not a plain file", None
        try:
            own = os.open(name, _FLAGS, dir_fd=fd)
        except OSError as problem:
            return None, f"you may not read it ({problem.strerror})", None
        try:
            if not stat.S_ISREG(os.fstat(own).st_mode):
                return None, "not a plain file", None
            data = b""
            while len(data) <= _CAP and (part := os.read(own, _CAP + 1 - len(data))):
                data += part
            writer = self._writers.writer(own) if self._writers is not None else None
        except OSError as problem:
            return None, str(problem.strerror), None
        finally:
            os.close(own)
        if len(data) > _CAP:
            return None, f"over {_CAP >> 20} MB, not read", writer
        if source is None:
            return (*parse_sections(data), writer)
        value, error = parse_value(data)
        return (None, error, writer) if error else ({source: value}, "", writer)

    def _with_temporary(self, source: CursorSource, path: str, fd: int) -> CursorSource:
        """With the temporary files that stand beside it or were heard of. The same object where they are as before."""
        heard = self._ear.shared_names(fd) if self._ear is not None else ()
        litter = tuple(sorted({*self._beside(path, fd), *heard}))
        if litter != source.litter:
            source = replace(source, litter=litter)
            if source.path in self._known:  # not where it could not even be looked at
                self._known[source.path].source = source
        return source

    def _beside(self, path: str, fd: int) -> tuple[str, ...]:
        """Temporary files of writers that use a common or a guessable name. Listed again only when the folder changed."""
        own = -1
        try:
            state = os.fstat(fd)
            generation = (state.st_dev, state.st_ino, state.st_mtime_ns)
            kept = self._litter.get(path)
            if kept is not None and kept[0] == generation:
                return kept[1]
            own = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=fd)
            names: list[str] = []
            with os.scandir(own) as entries:
                for turn, entry in enumerate(entries):
                    if turn >= _LIST_AT_MOST or len(names) >= 16:
                        break
                    if entry.name != _SHARED and entry.name.startswith(("cursors.json.", "cursors.tmp", "cursors.json~")):
                        names.append(entry.name)
        except OSError:
            return ()  # the folder cannot be listed: nothing is known of litter
        finally:
            if own >= 0:
                os.close(own)
        self._litter[path] = (generation, tuple(sorted(names)))
        return self._litter[path][1]
