"""What to say of a lock whose existing is the lock: whose it is, and whether that one lives."""

from __future__ import annotations

from spooltop.model.sight import Lock, LockParty
from spooltop.model.text import escape
from spooltop.model.units import clock_time

from .mounts import is_local, mount_of
from .processes import Processes
from .softlocks import Marker, read_marker

__all__ = ["party", "soft_lock"]


def party(pid: int | None, since: float | None, processes: Processes) -> LockParty:
    """A holder or waiter with what the process table tells of it."""
    if pid is None:
        return LockParty(None, since=since)
    process = processes.process(pid, described=True)
    return LockParty(
        pid, process.command if process else None, process.user if process else None, since, processes.exists(pid)
    )


def soft_lock(path: str, name: str, fd: int, processes: Processes, now: float) -> Lock | None:
    """The lock that the file ``name`` below ``fd`` is by existing; None where it is none. ``now`` is epoch seconds."""
    marker = read_marker(name, fd)
    if marker is None:
        return None
    if marker.free:
        return Lock(path, "soft", verdict="free", evidence="no claim is held beside it")
    if marker.until is not None:
        return _lease(path, marker, marker.until, now)
    pid, since = marker.pid, marker.since
    nobody = LockParty(pid, since=since)
    if pid is None:
        of = f"a link to {escape(marker.element)}: " if marker.element else ""
        return Lock(path, "soft", (nobody,), (), "unknown", f"{of}it does not tell whose it is")
    if marker.host != processes.host():
        where = f"taken on host {marker.host}, ask there" if marker.host else f"pid {pid} of a host that it does not tell"
        return Lock(path, "soft", (nobody,), (), "unknown", where)
    there = processes.exists(pid)
    if there:
        return Lock(path, "soft", (party(pid, since, processes),), (), "held", "the marker's process lives")
    one = LockParty(pid, since=since, alive=None if there is None else False)
    if there is None or not processes.in_first_namespace() or not is_local(mount_of(fd)):
        return Lock(path, "soft", (one,), (), "unknown", f"pid {pid} is gone here")
    why = f"pid {pid} is gone"
    if marker.lease is not None:
        why += f"; a lease of {marker.lease:g} s, then the next one takes it"
    return Lock(path, "soft", (one,), (), "stale", why)


def _lease(path: str, marker: Marker, until: float, now: float) -> Lock:
    """Of a leader that says no pid, but for how long it leads: after that it is none by its own word."""
    if until > now:
        return Lock(path, "soft", (LockParty(None, since=marker.since),), (), "held", f"a lease until {clock_time(until)}")
    return Lock(path, "soft", (LockParty(None, since=until),), (), "stale", f"its lease ended {clock_time(until)}, not renewed")
