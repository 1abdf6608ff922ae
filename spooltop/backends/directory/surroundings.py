"""Answers about processes, locks, disk and user: who has a message, a lock or a cursor file; and the same for kinds of queues
that are no spool, by the same rules as for a spool.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial

from spooltop.engine import names
from spooltop.engine.cursors import LOCK
from spooltop.engine.dirs import SpoolDirs
from spooltop.engine.presence import CONSUMERS
from spooltop.model import Box, Capabilities, Disk, Frozen, Holders, Holding, Key, Unreadable, Verdict, Viewer, escape

from ..access import user_name
from ..surroundings import Connection, LocalClient, Users
from .listing import split_key
from .processes import BootClock, Certainty, Process, Processes, judge_pids, lock_owners, read_table
from .storage import OpenFolder, disk_of, epoch, folder_in, folders_dir, is_local, mount_of, opened_below, who_am_i

# Finds the processes that have a file open or locked: from the descriptors of all processes (proc(5): fd, fdinfo), and from the
# kernel's lock table.


class Asked(Frozen):
    """File whose users are wanted. ``fd`` is its directory; ``of`` describes it where it is not the main file; ``holds`` says
    what a lock on it means, where that is more than a lock, and ``since`` (epoch seconds) when that began."""

    found: os.stat_result
    fd: int
    of: str = ""
    holds: str = ""
    locks_only: bool = False
    since: float | None = None


def holders_of(path: str, asked: Sequence[Asked], processes: Processes) -> Holders:
    """All that can be seen of who has the files that are ``asked`` for open or locked; ``path`` is how the first is called."""
    seen = processes.descriptors({(one.found.st_dev, one.found.st_ino) for one in asked})
    found: dict[Holding, None] = {}
    described = cache(partial(processes.process, described=True))

    def holder_info(pid: int | None, how: str, of: str, since: float | None = None) -> Holding:
        process = (None if pid is None else described(pid)) or Process(-1)
        return Holding(pid, process.command, process.user, how, since, of)

    unseen = ""
    for one in asked:
        table = read_table(processes)
        unseen = unseen or table.unseen
        key = (one.found.st_dev, one.found.st_ino)
        opened = seen.by_file.get(key, ())
        for line in table.of(one.found, mount_of(one.fd)):
            for pid in lock_owners(line, opened, processes):
                own = bool(one.holds) and not line.waits
                words = one.holds if own else f"{line.kind}, {'waits' if line.waits else 'holds'}"
                found[holder_info(pid, words, one.of, one.since if own else None)] = None
        if one.locks_only:
            continue
        ways: dict[int, set[bool | None]] = {}  # each process has the highest access of its descriptors
        for descriptor in opened:
            ways.setdefault(descriptor.pid, set()).add(descriptor.writing)
        for pid, way in ways.items():
            how = "open for writing" if True in way else "open for reading" if False in way else "open"
            found[holder_info(pid, how, one.of)] = None
    notes = [unseen] if unseen else []
    if not seen.all_seen:
        notes.append(f"open files of other users' processes are not visible: you are {user_name(os.geteuid())}")
    if any(not is_local(mount_of(one.fd)) for one in asked):
        notes.append("it lies on a file system that other machines may mount: ask there, too")
    return Holders(path, tuple(found), complete=not notes, notes=tuple(notes))


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
            claim = names.parse(name, claimed=box is Box.CUR)
            if claim.token is not None and (consumers := dirs.private_dir(CONSUMERS)) is not None:
                presence = "its holder's presence file"
                asked += _there(consumers, claim.token, presence, "holds the claim", epoch(claim.claimed_us))
            return holders_of(shown, asked, processes)


def who_has_path(path: str, folders: Iterable[OpenFolder], processes: Processes) -> Holders:
    """Finds the processes that hold a file in one of ``folders`` (path as shown, descriptor), or in ``cursors/`` below one: a
    lock, or a cursor file with the lock beside it. Raises ``Unreadable``."""
    found = folder_in(path, folders)
    if found is None:
        raise Unreadable("nothing of this target", "name a lock or a cursor file as it is listed", path=escape(path))
    with _translate_errors(escape(path)), opened_below(*found) as folder:
        name = os.path.basename(path)
        asked = [Asked(os.lstat(name, dir_fd=folder), folder)]
        if name.endswith(".json"):
            asked += _there(folder, LOCK, LOCK, "")
        return holders_of(escape(path), asked, processes)


@contextmanager
def _translate_errors(shown: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise Unreadable("gone since", "it was claimed, finished or moved", path=shown) from None
    except OSError as problem:
        raise Unreadable(str(problem.strerror), path=shown) from None


def _there(fd: int, name: str, of: str, holds: str, since: float | None = None) -> list[Asked]:
    """The file beside, where there is one: who locks it counts, who has it open does not."""
    try:
        return [Asked(os.lstat(name, dir_fd=fd), fd, of, holds, locks_only=True, since=since)]
    except OSError:
        return []  # nobody locks there


# Answers for kinds of queues that are no spool.

_UNNAMED = "somebody locks it whom the kernel does not name"
_UNREADABLE = "the processes of other users cannot be seen"


class LocalSurroundings:
    """Answers of this machine. ``pids_here``: the user vouches that all pids are those of processes seen here
    (``claims.pids``)."""

    def __init__(self, processes: Processes, *, pids_here: bool = False) -> None:
        self._processes = processes
        self._pids_here = pids_here
        self._boot_clock = BootClock(processes)

    def local(self, root: int) -> bool:
        return is_local(mount_of(root))

    def pids(self, claims: Sequence[tuple[int, float]], root: int) -> list[tuple[Verdict, str]]:
        self._boot_clock.look()
        certainty = Certainty(self.local(root), self._processes.in_first_namespace(), self._pids_here)
        seen = self._processes.boottime()
        timed = [(pid, self._boot_clock.latest(since, seen)) for pid, since in claims]
        return [(verdict, evidence) for verdict, evidence, _ in judge_pids(self._processes, timed, certainty)]

    def clients(self, pids: Collection[int], connections: Collection[Connection]) -> list[LocalClient]:
        return [LocalClient(*one) for one in self._processes.clients(pids, connections)]

    def has_ended(self, pid: int, started: float) -> bool | None:
        return self._processes.has_ended(pid, started)

    def locks(self, root: int) -> Callable[[os.stat_result], Users]:
        mount = mount_of(root)
        table = read_table(self._processes)

        def of(found: os.stat_result) -> Users:
            lines = [line for line in table.of(found, mount) if not line.waits]
            pids = tuple(line.pid for line in lines if line.pid > 0)
            why = table.unseen or (_UNNAMED if len(pids) < len(lines) else "")
            return Users(pids, not why, why)

        return of

    def opened(self, found: Sequence[os.stat_result]) -> list[Users]:
        seen = self._processes.descriptors({(one.st_dev, one.st_ino) for one in found})
        return [
            Users(
                tuple(dict.fromkeys(each.pid for each in seen.by_file.get((one.st_dev, one.st_ino), ()))), seen.all_seen,
                "" if seen.all_seen else _UNREADABLE,
            )
            for one in found
        ]  # fmt: skip

    def watching(self, found: os.stat_result, root: int) -> Users:
        # The kernel names the device of the mount, which on btrfs is not the one of the file's status.
        mount = mount_of(root)
        devices = {found.st_dev} | ({os.makedev(*mount.device)} if mount is not None else set())
        seen = self._processes.watchers({(device, found.st_ino) for device in devices})
        why = "" if seen.complete and self._processes.in_first_namespace() else _UNREADABLE
        # Who has none left works without a watch, and tries again until there is one.
        full = seen.full if found.st_mode & 0o022 else seen.full & {0, found.st_uid}
        if full and not why:
            why = f"user {user_name(min(full))} has no inotify watch left, so who works may have none"
        own = os.getpid()
        return Users(tuple(pid for pid in seen.pids if pid != own), not why, why)

    def holders(self, shown: str, found: os.stat_result, folder: int) -> Holders:
        return holders_of(shown, [Asked(found, folder)], self._processes)

    def disk(self, root: int) -> Disk:
        return disk_of(root, mount_of(root))

    def viewer(self, capabilities: Capabilities, read_only: str) -> Viewer:
        return who_am_i(capabilities, read_only=read_only, layout="layout")
