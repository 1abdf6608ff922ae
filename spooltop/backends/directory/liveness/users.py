"""Selects the files that the question "who has it?" is about: a message and its holder's presence file, a lock, a cursor file and
its lock.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache, partial

from msgspec import Struct

from spooltop.engine import names
from spooltop.engine.cursors import LOCK
from spooltop.engine.dirs import SpoolDirs
from spooltop.engine.presence import CONSUMERS
from spooltop.errors import Unreadable
from spooltop.model.vocabulary import Box, Holders, Holding, Key, escape

from ...access import user_name
from ..listing import split_key
from ..storage.disk import is_local, mount_of
from ..storage.location import folders_dir, opened_below
from .lock_table import lock_owners, read_table
from .processes import Descriptor, Process, Processes

# Finds the processes that have a file open or locked: from the descriptors of all processes (proc(5): fd, fdinfo), and from the
# kernel's lock table.


class Asked(Struct, frozen=True):
    """File whose users are wanted. ``fd`` is its directory; ``of`` describes it where it is not the main file; ``holds`` says
    what a lock on it means, where that is more than a lock, and ``since`` (epoch seconds) when that began."""

    found: os.stat_result
    fd: int
    of: str = ""
    holds: str = ""
    locks_only: bool = False
    since: float | None = None


def holders_of(path: str, files: Iterable[Asked], processes: Processes, *, user: str) -> Holders:
    """All that can be seen of who has ``files`` open or locked; ``path`` is how the first is called, ``user`` who asks."""
    asked = list(files)
    by_inode = {(one.found.st_dev, one.found.st_ino): one for one in asked}
    seen = processes.descriptors(set(by_inode))
    found: dict[Holding, None] = {}
    described = cache(partial(processes.process, described=True))

    def holder_info(pid: int | None, how: str, of: str, since: float | None = None) -> Holding:
        process = (None if pid is None else described(pid)) or Process(-1)
        return Holding(pid, process.command, process.user, how, since, of)

    unseen = ""
    for one in asked:
        mount = mount_of(one.fd)
        table = read_table(processes)
        unseen = unseen or table.unseen
        key = (one.found.st_dev, one.found.st_ino)
        opened = seen.by_file.get(key, ())
        for line in table.of(one.found, mount.device if mount is not None else None):
            for pid in lock_owners(line, opened, processes):
                own = bool(one.holds) and not line.waits
                words = one.holds if own else f"{line.kind}, {'waits' if line.waits else 'holds'}"
                found[holder_info(pid, words, one.of, one.since if own else None)] = None
        if one.locks_only:
            continue
        for pid, how in _opened(opened):
            found[holder_info(pid, how, one.of)] = None
    notes = list(_notes(asked, unseen, seen.all_seen, processes, user))
    return Holders(path, tuple(found), complete=not notes, notes=tuple(notes))


def _opened(opened: Iterable[Descriptor]) -> Iterator[tuple[int, str]]:
    """Yields each process with the highest access that it has to the file."""
    ways: dict[int, set[bool | None]] = {}
    for one in opened:
        ways.setdefault(one.pid, set()).add(one.writing)
    for pid, way in ways.items():
        yield pid, "open for writing" if True in way else "open for reading" if False in way else "open"


def _notes(asked: list[Asked], unseen: str, all_seen: bool, processes: Processes, user: str) -> Iterator[str]:
    if unseen:
        yield unseen
    if not all_seen:
        yield f"open files of other users' processes are not visible: you are {user}"
    if any(not is_local(mount_of(one.fd)) for one in asked):
        yield "it lies on a file system that other machines may mount: ask there, too"


def who_has(dirs: SpoolDirs, key: Key, processes: Processes) -> Holders:
    """Finds the processes that hold a message in any box. Raises ``Unreadable`` where it is gone or not in this spool."""
    box, within, name = split_key(key)
    shown = f"{box}/{escape(name)}"
    with _translate_errors(shown):
        above = dirs.private_dir(folders_dir(box)) if within else dirs.box(box)
        if above is None:
            raise FileNotFoundError(2, "gone")
        with opened_below(above, within or ".") as folder:
            asked = [Asked(os.lstat(name, dir_fd=folder), folder)]
            parsed = names.parse(name, claimed=True) if box is Box.CUR else None
            token = parsed.token if parsed is not None else None
            since = parsed.claimed_us / 1e6 if parsed is not None and parsed.claimed_us is not None else None
            consumers = dirs.private_dir(CONSUMERS) if token is not None else None
            if token is not None and consumers is not None:
                asked += _there(consumers, token, "its holder's presence file", "holds the claim", since)
            return holders_of(shown, asked, processes, user=user_name(os.geteuid()))


def who_has_path(path: str, folders: Iterable[tuple[str, int]], processes: Processes) -> Holders:
    """Finds the processes that hold a file in one of ``folders`` (path as shown, descriptor), or in ``cursors/`` below one: a
    lock, or a cursor file with the lock beside it. Raises ``Unreadable``."""
    with _translate_errors(escape(path)), _folder(path, folders) as folder:
        name = os.path.basename(path)
        asked = [Asked(os.lstat(name, dir_fd=folder), folder)]
        if name.endswith(".json"):
            asked += _there(folder, LOCK, LOCK, "")
        return holders_of(escape(path), asked, processes, user=user_name(os.geteuid()))


@contextmanager
def _folder(path: str, folders: Iterable[tuple[str, int]]) -> Iterator[int]:
    above, name = os.path.split(path)
    for folder, fd in folders:
        below = "" if above == folder else "cursors" if above == os.path.join(folder, "cursors") else None
        if below is not None and name not in ("", ".", ".."):
            with opened_below(fd, below or ".") as own:
                yield own
            return
    raise Unreadable("nothing of this target", path=escape(path), advice="name a lock or a cursor file as it is listed")


@contextmanager
def _translate_errors(shown: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise Unreadable("gone since", path=shown, advice="it was claimed, finished or moved") from None
    except OSError as problem:
        raise Unreadable(str(problem.strerror), path=shown) from None


def _there(fd: int, name: str, of: str, holds: str, since: float | None = None) -> list[Asked]:
    """The file beside, where there is one: who locks it counts, who has it open does not."""
    try:
        return [Asked(os.lstat(name, dir_fd=fd), fd, of, holds, locks_only=True, since=since)]
    except OSError:
        return []  # nobody locks there
