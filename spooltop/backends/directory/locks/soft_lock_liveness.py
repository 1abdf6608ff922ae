"""Judges locks whose existence is the lock: which process has them, and if it is running."""

from __future__ import annotations

from spooltop.model.look.locks import Lock, LockHolder
from spooltop.model.text import escape
from spooltop.model.units import clock_time
from spooltop.model.vocabulary import EXITED, Verdict

from ..liveness.pid_liveness import Certainty, judge_pid
from ..liveness.processes import Process, Processes
from ..storage.filesystem import is_local, mount_of
from .soft_locks import Marker, read_directory, read_marker

__all__ = ["Judge", "directory_lock", "holder_info", "soft_lock"]

_NAMESPACE = "?pidns-"
"""Mark between the host and the pid namespace (in hex) in a host name of filelock."""
_SAME_START = 0.02
"""Seconds between two starts that are the same one: two clock ticks."""


class Judge:
    """Tells whether the process of a marker or a ticket is running, by the rules for claims that name only a pid. A process
    found to be gone stays gone: it is looked up once."""

    def __init__(self, processes: Processes) -> None:
        self.processes = processes
        self._gone: dict[tuple[str, int, float], str] = {}

    def judge(self, path: str, pid: int, since: float, *, local: bool, start: int | None = None) -> tuple[Verdict, str]:
        """The verdict on ``path``, which names ``pid`` since ``since`` (epoch seconds, of its file), and filelock's ``start``
        token. ``local``: only this machine mounts it."""
        key = (path, pid, since)
        if key in self._gone:
            return Verdict.DEAD, self._gone[key]
        there = self.processes.exists(pid)
        sure = Certainty(local, self.processes.in_first_namespace())
        found = None if there else self.processes.namesakes([pid]) if sure.local and sure.all_pids else None
        process = self.processes.process(pid) if there else None
        now = self.processes.boottime()  # it exists now: any process that was started before may have taken it
        if process is not None and sure.local and sure.all_pids and self._is_another(process, start):
            verdict, evidence = Verdict.DEAD, f"pid {pid} is another process now"
        else:
            verdict, evidence = judge_pid(pid, there, process, None if found is None else found.get(pid, []), now, sure)
        if verdict is Verdict.DEAD:
            self._gone[key] = evidence
        return verdict, evidence

    def is_here(self, host: str) -> bool:
        """True if ``host`` names this machine, as filelock writes it: outside the first pid namespace with that behind it."""
        return host in (self.processes.host(), f"{self.processes.host()}{_NAMESPACE}{self.processes.namespace() or 0:x}")

    def _is_another(self, process: Process, start: int | None) -> bool:
        """True if the process was started at another moment than the token says. One without a boot id proves nothing."""
        boot = self.processes.boot_id().replace("-", "")
        if start is None or process.started is None or not start >> 64 or not boot or self.processes.starts_shifted():
            return False
        return start >> 64 != int(boot, 16) or abs(process.started - self.processes.seconds(start % 2**64)) > _SAME_START


def holder_info(pid: int | None, since: float | None, processes: Processes) -> LockHolder:
    """A holder or waiter with its data from the process table."""
    if pid is None:
        return LockHolder(None, since=since)
    process = processes.process(pid, described=True)
    return LockHolder(
        pid, process.command if process else None, process.user if process else None, since, processes.exists(pid)
    )


def directory_lock(path: str, name: str, fd: int, judge: Judge) -> Lock | None:
    """The lock that the existence of the directory ``name`` below ``fd`` is; None if it cannot be read."""
    marker = read_directory(name, fd)
    if marker is None:
        return None
    if marker.pid is None:
        why = "a lock directory, which does not name its owner"
        return Lock(path, "mkdir", (LockHolder(None, since=marker.since),), (), "unknown", why)
    return _judged(path, "mkdir", marker, marker.pid, fd, judge)


def soft_lock(path: str, name: str, fd: int, judge: Judge, now: float) -> Lock | None:
    """The lock that the existence of the file ``name`` below ``fd`` is; None if it is not one. ``now`` is in epoch seconds."""
    marker = read_marker(name, fd)
    if marker is None:
        return None
    if marker.free:
        return Lock(path, "soft", verdict="free", evidence="no claim is held beside it")
    if marker.until is not None:
        return _lease(path, marker, marker.until, now)
    pid, since = marker.pid, marker.since
    nobody = LockHolder(pid, since=since)
    if pid is None:
        of = f"a link to {escape(marker.element)}: " if marker.element else ""
        return Lock(path, "soft", (nobody,), (), "unknown", f"{of}it does not name its owner")
    return _judged(path, "soft", marker, pid, fd, judge)


def _judged(path: str, kind: str, marker: Marker, pid: int, fd: int, judge: Judge) -> Lock:
    """The lock of a marker that names a process. If it names no host, only a local file system shows that it is this one."""
    processes, since, local = judge.processes, marker.since, is_local(mount_of(fd))
    if marker.host is not None and not judge.is_here(marker.host):
        host, container, _ = marker.host.partition(_NAMESPACE)
        where = f"in a container on host {host}" if container else f"on host {host}"
        return Lock(path, kind, (LockHolder(pid, since=since),), (), "unknown", f"taken {where}, ask there")
    if marker.host is None and not local:
        return Lock(path, kind, (LockHolder(pid, since=since),), (), "unknown", f"pid {pid} of an unknown host")
    verdict, evidence = judge.judge(path, pid, since, local=local, start=marker.start)
    if verdict is Verdict.ALIVE:
        return Lock(path, kind, (holder_info(pid, since, processes),), (), "held", f"pid {pid}, which it names, is running")
    if verdict is not Verdict.DEAD:
        return Lock(path, kind, (LockHolder(pid, since=since, alive=processes.exists(pid)),), (), "unknown", evidence)
    why = f"pid {pid} has exited" if evidence == EXITED else evidence
    if marker.lease is not None:
        why += f"; a lease of {marker.lease:g} s, then the next one takes it"
    return Lock(path, kind, (LockHolder(pid, since=since, alive=False),), (), "stale", why)


def _lease(path: str, marker: Marker, until: float, now: float) -> Lock:
    """The lock of a leader that names no pid, but how long it leads. After that it is none by its own account."""
    if until > now:
        return Lock(path, "soft", (LockHolder(None, since=marker.since),), (), "held", f"a lease until {clock_time(until)}")
    return Lock(path, "soft", (LockHolder(None, since=until),), (), "stale", f"its lease ended {clock_time(until)}, not renewed")
