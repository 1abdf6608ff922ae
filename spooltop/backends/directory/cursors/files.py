"""The cursor files of a spool: one for all sources, or one for each source. A file is read again only when it changed.

A file may be large or hostile, so there is a budget: 64 MB of memory and 1 s for each look. A file over 4 MB is not read, and at
most 4 MB of the versions written between two looks are parsed; ``parsing`` bounds what is kept of each. ``CursorSource`` counts
what is left out (``left_out``, ``cut``, ``unread``).
"""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from spooltop.engine.cursors import FILE_MAX, LOCK
from spooltop.model.cursors import CursorSource, CursorVersion, CursorWrite
from spooltop.model.look.locks import LockHolder
from spooltop.model.vocabulary import Json
from spooltop.records import dataclass, replace

from ..world import World
from .folders import named_folders
from .journal import CursorJournal
from .parsing import parse_sections, parse_value, within_budget
from .version import Version, read_version

if TYPE_CHECKING:
    from .watcher import CursorWatcher
    from .writers import WriterWatch

__all__ = ["CursorFiles"]

_FILES_AT_MOST = 256
_LIST_AT_MOST = 20_000
_SHARED = "cursors.json"

Holders = Callable[[os.stat_result], tuple[LockHolder, ...]]
"""Gives the holders of a lock on the file with this status."""


def _content(version: Version) -> tuple[tuple[int, int, int], str, int]:
    return version.state, version.error, hash(version.data)


@dataclass(slots=True)
class _Known:
    """The source as it was last seen. ``content`` is the state of the file, why it could not be read, and the hash of its
    bytes."""

    content: tuple[tuple[int, int, int], str, int]
    source: CursorSource


class CursorFiles:
    """The cursor files in some folders. A file that has not changed gives the same object as in the look before."""

    def __init__(
        self, world: World, *, writers: WriterWatch | None = None, named: Sequence[str] = (),
        watcher: CursorWatcher | None = None, whole: bool = False,
    ) -> None:  # fmt: skip
        """``named``: cursor files, or folders of them, in place of those in the folders looked at. ``watcher`` watches them
        between two looks. ``whole``: every source and section is kept in full, for a caller that looks once."""
        self._clock = world.clock
        self._named = [os.path.abspath(path) for path in named]
        self._writers = writers
        self._watcher = watcher
        self._whole = whole
        self._journal = CursorJournal()
        self._known: dict[str, _Known] = {}
        self._seen: set[str] = set()
        self._temp_files: dict[str, tuple[tuple[int, int, int], tuple[str, ...]]] = {}

    def look(self, folders: Iterable[tuple[str, int]], holders: Holders) -> tuple[CursorSource, ...]:
        """Looks at the cursor files in ``folders``, (path as shown, descriptor) of the spool and of its parent; the first one
        that has cursors is taken."""
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
                writes = self._journal.since(above, fd, now)
                if (one := self._source(path, fd, alone, holders, writes)) is not None:
                    self._seen.add(path)
                    sources.append(one)
            if one is None and path not in self._seen:  # it never existed: what was named is shown all the same
                sources.append(CursorSource(path, alone is None, None, "there is no such file"))
        return tuple(sources)

    def _in(self, path: str, fd: int, holders: Holders, now: float) -> tuple[CursorSource, ...]:
        self._follow(fd)
        writes = self._journal.since(path, fd, now)  # before the files: what it has was published before they are read
        shared = self._source(os.path.join(path, _SHARED), fd, None, holders, writes)
        sources = [shared] if shared is not None else []
        folder = -1
        try:
            folder = os.open("cursors", os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fd)
            self._follow(folder)
            if self._watcher is not None:
                self._watcher.follow(folder)
            writes = self._journal.since(os.path.join(path, "cursors"), folder, now)
            names = sorted(name for name in os.listdir(folder) if name.endswith(".json") and not name.startswith("."))
            for name in names[:_FILES_AT_MOST]:
                one = self._source(os.path.join(path, "cursors", name), folder, name[: -len(".json")], holders, writes)
                if one is not None:
                    sources.append(one)
        except OSError:
            return tuple(sources)  # usually there is no such folder
        finally:
            if folder >= 0:
                os.close(folder)
        return tuple(sources)

    def _source(
        self, path: str, fd: int, source: str | None, holders: Holders, writes: Mapping[str, tuple[CursorWrite, ...]]
    ) -> CursorSource | None:
        """Reads the file ``path``, which lies in the folder ``fd`` and belongs to ``source`` (None: to several), and adds its
        temporary files, its lock and its journal. None if there is no such file."""
        folder, name = os.path.split(path)
        one = self._file(path, name, fd, source, holders)
        if one is None:
            return None
        if source is None and name == _SHARED:
            one = self._with_temporary(one, folder, fd)
        one = self._with_lock(one, fd)
        return replace(one, journal=writes[name]) if name in writes else one

    def _file(self, path: str, name: str, fd: int, source: str | None, holders: Holders) -> CursorSource | None:
        versions = self._watcher.take(fd, name) if self._watcher is not None else None
        try:
            found = os.stat(name, dir_fd=fd, follow_symlinks=False)
        except FileNotFoundError:
            self._known.pop(path, None)
            return None
        except OSError as problem:
            return CursorSource(path, source is None, None, str(problem.strerror))
        known = self._known.get(path)
        if versions is None and known is not None:
            if known.content[0] == (found.st_ino, found.st_mtime_ns, found.st_size):
                return known.source
        elif versions and known is not None and _content(versions[0]) == known.content:
            del versions[0]  # a new watch of the folder begins with what is there
        if not versions:
            if known is not None and versions is not None:
                return known.source
            now = read_version(name, fd, self._clock(), handles=self._writers is not None)
            if now is None:
                self._known.pop(path, None)
                return None
            versions = [replace(now, unread=0)] if versions is not None else [replace(now, unread=None)]
        return self._changed(path, versions, source, holders(found))

    def _changed(
        self, path: str, versions: list[Version], source: str | None, held_by: tuple[LockHolder, ...]
    ) -> CursorSource:
        """Returns the newest of ``versions``, with those before it."""
        earlier: deque[CursorVersion] = deque()
        unread = versions[-1].unread
        left = FILE_MAX
        for place in range(len(versions) - 2, -1, -1):
            one = versions[place]
            left -= len(one.data)
            sections = None if left < 0 else self._parsed(one, source)[0]
            if sections is not None:
                writer = self._writer(one)
                earlier.appendleft(CursorVersion(one.at, one.mtime, sections, one.state[0], one.unread, writer))
                continue
            # what could not be read as a whole is one more write that stands between its neighbours
            skipped = (one.unread or 0) + 1
            if earlier:
                earlier[0] = replace(earlier[0], unread=(earlier[0].unread or 0) + skipped)
            else:
                unread = (unread or 0) + skipped
        last = versions[-1]
        sections, error, left_out, cut = self._parsed(last, source)
        inode, _, size = last.state
        answer = CursorSource(
            path, source is None, sections, error, inode, last.mtime, size, held_by, writer=self._writer(last), unread=unread,
            read_at=last.at, left_out=left_out, cut=cut,
        )  # fmt: skip
        self._known[path] = _Known(_content(last), answer)
        return replace(answer, earlier=tuple(earlier)) if earlier else answer

    def _writer(self, version: Version) -> LockHolder | None:
        return self._writers.writer(version.handle) if self._writers is not None else None

    def _parsed(self, version: Version, source: str | None) -> tuple[dict[str, Json] | None, str, int, frozenset[str]]:
        """Returns the sections, or why there are none; how many are left out, and which are cut."""
        if version.error:
            return None, version.error, 0, frozenset()
        if source is None:
            sections, error = parse_sections(version.data)
        else:
            value, error = parse_value(version.data)
            sections = None if error else {source: value}
        if sections is None or self._whole:
            return sections, error, 0, frozenset()
        sections, left_out, cut = within_budget(sections, len(version.data))
        return sections, "", left_out, cut

    def _with_lock(self, source: CursorSource, fd: int) -> CursorSource:
        """Notes if its lock exists. Returns the same object if nothing changed."""
        there: bool | None
        try:
            there = stat.S_ISREG(os.stat(LOCK, dir_fd=fd, follow_symlinks=False).st_mode)
        except OSError as problem:
            there = False if isinstance(problem, FileNotFoundError) else None
        if there is not source.lock_there:
            source = self._kept(replace(source, lock_there=there))
        return source

    def _kept(self, source: CursorSource) -> CursorSource:
        """Stores ``source`` without its earlier versions as the result for an unchanged file, and returns it."""
        if source.path in self._known:  # not where it could not even be looked at
            self._known[source.path].source = replace(source, earlier=()) if source.earlier else source
        return source

    def _follow(self, fd: int, name: str | None = None) -> None:
        if self._writers is None:
            return
        try:
            self._writers.follow(fd, name)
        except OSError:
            return  # its file system reports no writers

    def _with_temporary(self, source: CursorSource, path: str, fd: int) -> CursorSource:
        """Adds the temporary files that lie beside the file or were reported. Returns the same object if nothing changed."""
        reported = self._watcher.shared_names(fd) if self._watcher is not None else ()
        temp_files = tuple(sorted({*self._beside(path, fd), *reported}))
        if temp_files != source.temp_files:
            source = self._kept(replace(source, temp_files=temp_files))
        return source

    def _beside(self, path: str, fd: int) -> tuple[str, ...]:
        """Lists temporary files of writers that use a common or a guessable name. Reads the folder again only when it changed."""
        own = -1
        try:
            state = os.fstat(fd)
            generation = (state.st_dev, state.st_ino, state.st_mtime_ns)
            kept = self._temp_files.get(path)
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
            return ()  # the folder cannot be listed: nothing is known of temporary files
        finally:
            if own >= 0:
                os.close(own)
        self._temp_files[path] = (generation, tuple(sorted(names)))
        return self._temp_files[path][1]
