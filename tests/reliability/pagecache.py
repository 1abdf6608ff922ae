"""A model of what a disk holds of a directory tree while the kernel has not written all of it, and the trees after a power cut.

The rules, from power cuts on ext4, xfs and btrfs and from fsync(2), rename(2):

- A file holds what was synced; what was written since may be there, in part, or not at all. After a failed sync the pages count
  as clean: what was written before it is never written by a later one.
- Of the changes of one directory the disk holds the first few, at least all up to its last sync. Directories do not wait for each
  other: a file that was moved may be in both places.
- Where a file system keeps the order of changes (ext3, ext4, xfs, tmpfs) it holds the first few of all, and the sync of a
  directory makes those last that came before its own last change. Where it has none left to write, its sync does nothing.
- A rename never leaves a file in neither place; link and unlink, two changes that nothing ties together, do.
"""

from __future__ import annotations

import errno
import itertools
import os
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from spooltop.backends.log_store import LogFiles

__all__ = ["Cut", "Disk", "Event", "RecordingFiles"]

Event: TypeAlias = tuple[object, ...]
"""("line", text), ("enter", directory, name, node, is a directory), ("content", node, bytes), ("sync", node), ("lost", node),
("leave", directory, name), ("move", directory, name, directory, name), ("syncdir", directory), ("syncall",). Directories and
nodes are numbers; the same file has the same number under each of its names."""

MOST = 40
"""Trees that are looked at for one moment; of more a fixed choice is."""


class RecordingFiles(LogFiles):
    """Does everything, and keeps what it changed as events. ``fail_sync``: the number (from 1) of the sync that fails with EIO;
    ``old`` has no renameat2; ``keeps_order`` says so of itself, else directories are synced each alone. Only on a file system
    that does not give an inode number again at once (tmpfs does not)."""

    def __init__(self, *, fail_sync: int = 0, old: bool = False, keeps_order: bool = False) -> None:
        super().__init__()
        self.events: list[Event] = []
        self.fail_sync, self.old, self.keeps_order = fail_sync, old, keeps_order
        self.syncs = 0

    def tell(self, line: str) -> None:
        self.events.append(("line", line))

    def _entered(self, name: str, dir_fd: int, directory: bool = False) -> None:
        node = os.stat(name, dir_fd=dir_fd, follow_symlinks=False).st_ino
        self.events.append(("enter", os.fstat(dir_fd).st_ino, name, node, directory))

    def _changed(self, fd: int) -> None:
        found = os.fstat(fd)
        self.events.append(("content", found.st_ino, os.pread(fd, found.st_size, 0)))

    def create(self, name: str, dir_fd: int, mode: int = 0o666) -> int:
        fd = super().create(name, dir_fd, mode)
        self._entered(name, dir_fd)
        return fd

    def open_lasting(self, name: str, dir_fd: int, *, append: bool = False, mode: int = 0o666) -> int:
        new = not os.path.lexists(f"/proc/self/fd/{dir_fd}/{name}")
        fd = super().open_lasting(name, dir_fd, append=append, mode=mode)
        if new:
            self._entered(name, dir_fd)
        return fd

    def mkdir(self, name: str, dir_fd: int, mode: int = 0o777) -> None:
        super().mkdir(name, dir_fd, mode)
        self._entered(name, dir_fd, directory=True)

    def write(self, fd: int, data: bytes | memoryview) -> int:  # type: ignore[override]  # a method over a static one
        done = os.write(fd, data)
        self._changed(fd)
        return done

    def pwrite(self, fd: int, data: bytes, offset: int) -> int:
        done = super().pwrite(fd, data, offset)
        self._changed(fd)
        return done

    def truncate(self, fd: int, length: int) -> None:
        super().truncate(fd, length)
        self._changed(fd)

    def _synced(self, event: Event, lost: Event) -> None:
        self.syncs += 1
        if self.syncs == self.fail_sync:
            self.events.append(lost)
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        self.events.append(event)

    def sync(self, fd: int) -> None:
        node = os.fstat(fd).st_ino
        self._synced(("sync", node), ("lost", node))

    def sync_dir(self, fd: int) -> None:
        node = os.fstat(fd).st_ino
        self._synced(("syncdir", node), ("line", ""))

    def ordered(self, fd: int) -> bool:
        return self.keeps_order

    def sync_fs(self, fd: int) -> None:
        self._synced(("syncall",), ("lost", None))

    def rename_noreplace(self, name: str, dir_fd: int, to: str, to_fd: int) -> None:
        if self.old:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        super().rename_noreplace(name, dir_fd, to, to_fd)
        self.events.append(("move", os.fstat(dir_fd).st_ino, name, os.fstat(to_fd).st_ino, to))

    def rename(self, name: str, dir_fd: int, to: str, to_fd: int) -> None:
        super().rename(name, dir_fd, to, to_fd)
        self.events.append(("move", os.fstat(dir_fd).st_ino, name, os.fstat(to_fd).st_ino, to))

    def replace(self, name: str, to: str, dir_fd: int) -> None:
        super().replace(name, to, dir_fd)
        directory = os.fstat(dir_fd).st_ino
        self.events.append(("move", directory, name, directory, to))

    def link(self, name: str, dir_fd: int, to: str, to_fd: int) -> None:
        super().link(name, dir_fd, to, to_fd)
        self._entered(to, to_fd)

    def unlink(self, name: str, dir_fd: int) -> None:
        super().unlink(name, dir_fd)
        self.events.append(("leave", os.fstat(dir_fd).st_ino, name))

    def rmdir(self, name: str, dir_fd: int) -> None:
        super().rmdir(name, dir_fd)
        self.events.append(("leave", os.fstat(dir_fd).st_ino, name))


@dataclass
class _File:
    now: bytes = b""
    disk: bytes = b""
    lost: bytes | None = None
    """Content that a failed sync has left in memory alone."""


@dataclass
class _Change:
    """An entry of a directory is set, or taken away (``node`` None). ``needs``: the other half of a rename, which the disk holds
    whenever it holds this one."""

    directory: int
    name: str
    node: int | None
    needs: _Change | None = None
    done: bool = False


@dataclass
class _Directory:
    now: dict[str, int] = field(default_factory=dict)
    disk: dict[str, int] = field(default_factory=dict)
    pending: list[_Change] = field(default_factory=list)


Cut: TypeAlias = tuple[dict[int, dict[str, int]], Callable[[int], bytes]]
"""A tree that the disk may hold: the entries of each directory, and the content of each file."""


class Disk:
    """Model of a disk: what it holds for certain, and what it may hold besides."""

    def __init__(self, root: Path, *, keeps_order: bool = False) -> None:
        self.keeps_order = keeps_order
        self.changes: list[_Change] = []
        """Changes of all directories, in order."""
        self.files: dict[int, _File] = {}
        self.directories: dict[int, _Directory] = {}
        self.root = self._known(root)

    def _known(self, path: Path) -> int:
        node = path.lstat().st_ino
        entries: dict[str, int] = {}
        for below in path.iterdir():
            if below.is_dir():
                entries[below.name] = self._known(below)
            else:
                entries[below.name] = below.lstat().st_ino
                data = below.read_bytes()
                self.files[entries[below.name]] = _File(data, data)
        self.directories[node] = _Directory(dict(entries), entries)
        return node

    def apply(self, event: Event) -> bool:
        """Applies an event. Returns whether it changed what the disk may hold."""
        getattr(self, f"_{event[0]}")(*event[1:])
        return event[0] != "line"

    def _line(self, line: str) -> None:
        return

    def _directory(self, node: int) -> _Directory:
        return self.directories.setdefault(node, _Directory())

    def _change(self, directory: int, name: str, node: int | None, needs: _Change | None = None) -> _Change:
        change = _Change(directory, name, node, needs)
        found = self._directory(directory)
        found.pending.append(change)
        self.changes.append(change)
        if node is None:
            found.now.pop(name, None)
        else:
            found.now[name] = node
        return change

    def _enter(self, directory: int, name: str, node: int, is_directory: bool) -> None:
        if is_directory:
            self.directories[node] = _Directory()
        elif node not in {known for other in self.directories.values() for known in other.now.values()}:
            self.files[node] = _File()
        self._change(directory, name, node)

    def _leave(self, directory: int, name: str) -> None:
        self._change(directory, name, None)

    def _move(self, source: int, name: str, target: int, to: str) -> None:
        changed = self._change(target, to, self._directory(source).now[name])
        self._change(source, name, None, changed)

    def _content(self, node: int, data: bytes) -> None:
        self.files[node].now = data

    def _sync(self, node: int) -> None:
        file = self.files[node]
        if file.lost != file.now:
            file.disk = file.now

    def _lost(self, node: int | None) -> None:
        for file in self.files.values() if node is None else [self.files[node]]:
            file.lost = file.now if file.now != file.disk else None

    def _syncdir(self, node: int) -> None:
        own = list(self._directory(node).pending)
        if self.keeps_order and own:
            own = self._waiting()
            while own[-1].directory != node:
                own.pop()
        for change in own:
            self._settle(change)

    def _waiting(self) -> list[_Change]:
        return [change for change in self.changes if not change.done]

    def _settle(self, change: _Change) -> None:
        if change.done:
            return
        found = self._directory(change.directory)
        while not change.done:  # in order
            first = found.pending.pop(0)
            first.done = True
            if first.needs is not None:
                self._settle(first.needs)
            if first.node is None:
                found.disk.pop(first.name, None)
            else:
                found.disk[first.name] = first.node

    def _syncall(self) -> None:
        for node in list(self.files):
            self._sync(node)
        for node in list(self.directories):
            self._syncdir(node)

    def cuts(self, seed: int) -> Iterator[Cut]:
        """The trees after a power cut at this moment."""
        waiting = [(node, len(found.pending)) for node, found in self.directories.items() if found.pending]
        if self.keeps_order:
            yield from self._contents(self._first(count) for count in range(len(self._waiting()) + 1))
            return
        lengths = [range(count + 1) for _, count in waiting]
        total = 1
        for one in lengths:
            total *= len(one)
        if total <= MOST:
            chosen = set(itertools.product(*lengths))
        else:
            chance = random.Random(seed)
            chosen = {tuple(0 for _ in lengths), tuple(one[-1] for one in lengths)}
            chosen |= {tuple(one[-1] if k == at else 0 for k, one in enumerate(lengths)) for at in range(len(lengths))}
            chosen |= {tuple(0 if k == at else one[-1] for k, one in enumerate(lengths)) for at in range(len(lengths))}
            while len(chosen) < MOST:
                chosen.add(tuple(chance.choice(one) for one in lengths))
        yield from self._contents(
            {node: count for (node, _), count in zip(waiting, counts, strict=True)} for counts in sorted(chosen)
        )

    def _first(self, count: int) -> dict[int, int]:
        """Counts the changes of each directory among the first ``count`` of all. A rename is one."""
        waiting = self._waiting()
        if count < len(waiting) and waiting[count].needs is not None:
            count += 1
        found: dict[int, int] = {}
        for change in waiting[:count]:
            found[change.directory] = found.get(change.directory, 0) + 1
        return found

    def _contents(self, chosen: Iterable[dict[int, int]]) -> Iterator[Cut]:
        trees: dict[str, dict[int, dict[str, int]]] = {}
        for counts in chosen:
            tree = self._tree(counts)
            trees.setdefault(repr(sorted(tree.items())), tree)
        for tree in trees.values():
            seen = {node for entries in tree.values() for node in entries.values()}
            dirty = [node for node in seen if node in self.files and self.files[node].now != self.files[node].disk]
            yield tree, lambda node: self.files[node].disk
            if dirty:
                yield tree, lambda node: self.files[node].now if self.files[node].lost is None else self.files[node].disk
                yield tree, lambda node: self._half(node)

    def _half(self, node: int) -> bytes:
        file = self.files[node]
        return file.disk if file.now == file.disk or file.lost is not None else file.now[: len(file.now) // 2]

    def _tree(self, counts: dict[int, int]) -> dict[int, dict[str, int]]:
        """The entries of each directory where the disk holds the first ``counts`` of its changes, and what those need."""
        grown = True
        while grown:
            grown = False
            for node, count in list(counts.items()):
                for change in self.directories[node].pending[:count]:
                    other = change.needs
                    if other is not None and not other.done:
                        at = self.directories[other.directory].pending.index(other) + 1
                        if counts.get(other.directory, 0) < at:
                            counts[other.directory] = at
                            grown = True
        tree = {}
        for node, found in self.directories.items():
            entries = dict(found.disk)
            for change in found.pending[: counts.get(node, 0)]:
                if change.node is None:
                    entries.pop(change.name, None)
                else:
                    entries[change.name] = change.node
            tree[node] = entries
        return tree

    def lay_out(self, cut: Cut, root: Path) -> None:
        """Makes the tree of ``cut`` at ``root``."""
        tree, content = cut
        first: dict[int, Path] = {}

        def below(node: int, at: Path) -> None:
            at.mkdir()
            for name, inside in tree.get(node, {}).items():
                path = at / name
                if inside in self.directories:
                    below(inside, path)
                elif inside in first:
                    os.link(first[inside], path)
                else:
                    path.write_bytes(content(inside))
                    first[inside] = path

        below(self.root, root)
