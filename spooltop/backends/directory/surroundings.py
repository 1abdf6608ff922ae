"""Answers about processes, locks, disk and user for kinds of queues that are no spool, by the same rules as for a spool."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence

from spooltop.model.backend import Capabilities
from spooltop.model.snapshot import Disk, Viewer
from spooltop.model.vocabulary import Holders, Verdict

from ..access import user_name
from ..surroundings import Connection, LocalClient, Users
from .liveness.lock_table import read_table
from .liveness.processes import BootClock, Certainty, Processes, judge_pids
from .liveness.users import Asked, holders_of
from .storage.disk import disk_of, is_local, mount_of, who_am_i

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
            lines = [line for line in table.of(found, mount.device if mount is not None else None) if not line.waits]
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
        return holders_of(shown, [Asked(found, folder)], self._processes, user=user_name(os.geteuid()))

    def disk(self, root: int) -> Disk:
        return disk_of(root, mount_of(root))

    def viewer(self, capabilities: Capabilities, read_only: str) -> Viewer:
        return who_am_i(capabilities, read_only=read_only, layout="layout")
