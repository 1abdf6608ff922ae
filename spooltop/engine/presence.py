"""Presence of claim holders: the presence file of a consumer, and the meaning of its lock.

Each consumer owns ``.spooltop/consumers/<token>``. The file is created under a dot name that only its user can open, locked with
a write lock of the open file description, filled with one JSON line and moved into place. The lock is held until the process
ends, however it ends: the kernel releases it, in every container and pid namespace of the machine. Nobody therefore has to check
whether a pid still belongs to the same process. A reader can query the lock, but neither take nor forge it.
"""

from __future__ import annotations

import errno
import json
import os
from typing import Any

from spooltop.model import Frozen, Owner, QueueIdentity, UsageError, Verdict, escape, finite, json_object

from .dirs import SpoolDirs
from .files import OFD_LOCKS, Files, mode_like, open_regular
from .host import MOUNTED_ONCE, Machine, command_line, is_network, process_start, this_machine
from .names import in_cur

CONSUMERS = "consumers"
ANY_MACHINE = "any"
THIS_MACHINE = "this-machine"
"""Values of the setting ``claims.hosts``: which machines ever mounted the spool."""
_CAP = 32_768
_TRIES = 16
_NOT_READ = {
    "missing": "is missing", "busy": "is in use on another machine; look again", "unreadable": "cannot be read",
}  # fmt: skip
_TYPES = {
    "host": str, "boot_id": str, "pid_ns": str, "machine_id": str, "pid": int, "start": int, "command": str, "device": int,
    "file_system": str,
}  # fmt: skip
"""Types of the fields of a presence file. A value of another type, such as a bool for a number, counts as missing."""


class Presence(Frozen):
    """Result of reading the presence file of a token.

    ``state`` is the state of its lock: "held" or "free"; else "missing" (no file), "busy" (an NFS server first has to recall it
    from a client), "unsupported" (this system has no such locks), "unreadable". The other fields describe the owner as the file
    does, None if the file does not contain them. Anyone who may write the spool can write the file, so they are evidence, not
    proof. ``start`` is in clock ticks since boot (proc(5)); ``since`` is the epoch second at which the file was written.
    ``same_mount`` tells whether this check would have found the lock, as far as mounts go: it is True if the check used the mount
    on which the lock was taken, or a later mount of the same disk, and None if the file does not say. ``file`` and ``size`` are
    those of the presence file itself. ``moves_to``: the queue into which it moves messages; None for any other consumer.
    """

    state: str
    host: str | None = None
    boot_id: str | None = None
    pid_ns: str | None = None
    machine_id: str | None = None
    pid: int | None = None
    start: int | None = None
    command: str | None = None
    since: float | None = None
    same_mount: bool | None = None
    file: tuple[int, int] | None = None
    size: int = 0
    moves_to: QueueIdentity | None = None

    @property
    def owner(self) -> Owner:
        moves_to = None if self.moves_to is None else self.moves_to.name
        return Owner(self.host, self.pid, self.since, self.command, moves_to=moves_to)


class HostView(Frozen):
    """Point of view from which claims are judged: ``machine``, whether only one machine can have the file system mounted at a
    time (``local``), and whether a setting declares that only this machine ever did (``only_here``, the setting
    ``claims.hosts``)."""

    machine: Machine
    local: bool
    only_here: bool = False

    @classmethod
    def of(cls, dirs: SpoolDirs, hosts: str = ANY_MACHINE) -> HostView:
        """This process's, on the spool ``dirs``."""
        return cls(this_machine(), not is_network(dirs.kind), hosts == THIS_MACHINE)


def check_hosts(hosts: str) -> str:
    """``hosts``, a value of ``claims.hosts``. Raises ``UsageError`` for any other."""
    if hosts not in (ANY_MACHINE, THIS_MACHINE):
        raise UsageError(f"claims.hosts: {escape(str(hosts))!r} is neither {ANY_MACHINE} nor {THIS_MACHINE}")
    return hosts


def look(dirs: SpoolDirs, token: str) -> Presence:
    """Queries the lock on a token's presence file without taking it, so that nobody is disturbed. Always opens the file again: an
    NFS client with a write delegation keeps the lock to itself until an open on the server recalls it."""
    files = dirs.files
    try:
        consumers = dirs.private_dir(CONSUMERS)
        if consumers is None:
            return Presence("missing")
        fd, found = open_regular(token, consumers, files=files)
    except FileNotFoundError:
        return Presence("missing")
    except BlockingIOError:
        return Presence("busy")
    except OSError:
        return Presence("unreadable")
    try:
        with files.closing(fd):
            record = json_object(files.read(fd, min(found.st_size, _CAP)))
            return _presence(_lock_state(files, fd, record), record, found, dirs.kind)
    except OSError:
        return Presence("unreadable")


def _lock_state(files: Files, fd: int, record: dict[str, Any]) -> str:
    """A conflict is a holder wherever it is met. A file of a system without such locks is locked by ``flock`` instead."""
    held = files.write_locked(fd)
    if held:
        return "held"
    if record.get("lock") == "ofd":
        return "unsupported" if held is None else "free"
    return "free" if files.lock(fd, shared=True) else "held"


def _presence(state: str, record: dict[str, Any], found: os.stat_result, kind: str) -> Presence:
    fields: dict[str, Any] = {name: value for name, wanted in _TYPES.items() if type(value := record.get(name)) is wanted}
    same_mount = _same_mount(fields.pop("device", None), fields.pop("file_system", None), found.st_dev, kind)
    return Presence(
        state, **fields, since=finite(record.get("since")), same_mount=same_mount, file=(found.st_dev, found.st_ino),
        size=found.st_size, moves_to=QueueIdentity.from_record(record),
    )  # fmt: skip


def _same_mount(device: int | None, kind: str | None, seen_device: int, seen: str) -> bool | None:
    """True if the viewer's mount is that of the holder, or a later mount of the same disk; None if ``device`` is None. ``device``
    and ``kind`` (of file system) are the holder's, the others the viewer's.

    A disk is mounted once at a time: another device number means that it was mounted again, and its old locks are gone. For an
    overlay or a network file system, another number may be a mount that does not see the lock.
    """
    if device is None:
        return None
    return device == seen_device or (kind == seen and seen in MOUNTED_ONCE)


def judge(presence: Presence, vantage: HostView) -> tuple[Verdict, str]:
    """Returns whether the holder of a claim made by spooltop is running, and the evidence in words (escaped).

    A held lock always proves a running holder. A free lock proves that the holder is gone only if the lock could not have been
    missed: a holder on this machine, checked through the mount on which it took the lock, or a holder from before the last
    restart of this machine.
    """
    who = _who(presence)
    if presence.state == "held":
        return Verdict.ALIVE, f"{who} holds its presence lock"
    if presence.state == "unsupported":
        return Verdict.UNKNOWN, f"this system cannot tell whether {who} holds its presence lock"
    if presence.state != "free":
        return Verdict.UNKNOWN, f"its presence file {_NOT_READ[presence.state]}"
    here = vantage.machine
    if not presence.boot_id or not here.boot_id:
        if vantage.only_here and vantage.local:
            return Verdict.DEAD, f"{who} has exited: its presence lock is free"
        return Verdict.UNKNOWN, f"{who} cannot be told from a process of another machine or of before a restart"
    if presence.boot_id == here.boot_id:
        if presence.same_mount is False or (presence.same_mount is None and not vantage.local):
            return Verdict.UNKNOWN, f"the presence lock of {who} looks free, but it was taken through another mount"
        return Verdict.DEAD, f"{who} has exited: its presence lock is free"
    same = presence.host == here.host and bool(here.machine_id) and presence.machine_id == here.machine_id
    if vantage.only_here or (vantage.local and same):
        return Verdict.DEAD, f"{who} ran before the machine restarted"
    return Verdict.UNKNOWN, f"{who} ran on another machine or before a restart; not visible from here"


def _who(presence: Presence) -> str:
    if presence.pid is None:
        return "its consumer"
    command = f" ({escape(presence.command)})" if presence.command else ""
    return f"pid {presence.pid}{command}"


class PresenceLock:
    """A consumer's own presence: the token and the locked descriptor, from ``take`` until ``drop`` or the end of the process."""

    def __init__(self, token: str, fd: int) -> None:
        self.token = token
        self.fd = fd
        # A claim's tail is the first of these, its time in µs, and the second.
        self.before_us, _, self.after_us = in_cur("", token, 0, os.getpid()).rpartition("0" * 16)

    @classmethod
    def take(
        cls, dirs: SpoolDirs, *, now: float, durable: bool = False, moves_to: QueueIdentity | None = None
    ) -> PresenceLock:
        """Creates and locks the presence file of a new token. ``OSError`` if it cannot be written.

        ``durable``: the file survives power loss, so that claims that survive it are recognised as those of a dead consumer.
        ``moves_to``: the queue into which this consumer moves messages; ``recover`` leaves its claims alone.
        """
        files = dirs.files
        machine = this_machine()
        consumers = dirs.own_dir(CONSUMERS)
        token, fd = _locked_draft(files, consumers)
        name = f".{token}"
        try:
            pid = os.getpid()
            record: dict[str, object] = {
                "lock": "ofd" if OFD_LOCKS else "flock",
                "host": machine.host,
                "machine_id": machine.machine_id,
                "boot_id": machine.boot_id,
                "device": files.fstat(fd).st_dev,
                "file_system": dirs.kind,
                "pid_ns": machine.pid_ns,
                "pid": pid,
                "start": process_start(pid),
                "command": command_line(),
                "since": now,
            }
            if moves_to is not None:
                record |= moves_to.record
            files.write_all(fd, json.dumps(record).encode() + b"\n")
            # Whoever may read new may ask for the lock; nobody else may take one, so that nobody can make the dead look alive.
            files.copy_owner(fd, dirs.owner_model, 0o600 | (mode_like(dirs.owner_model, False) & 0o044))
            if durable:
                files.sync(fd)
            files.move(name, consumers, token, consumers, unique=True)
            name = token
            if durable:
                files.sync_dir(consumers)
        except BaseException:
            files.close(fd)
            files.remove(name, consumers)
            raise
        return cls(token, fd)

    def drop(self, dirs: SpoolDirs, *, remove: bool) -> None:
        """Releases the lock. ``remove`` also removes the file: only if no claim with the token was seen, as its holder would then
        be unknown."""
        fd, self.fd = self.fd, -1
        if fd < 0:
            return
        with dirs.files.closing(fd):
            if remove and (consumers := dirs.private_dir(CONSUMERS)) is not None:
                dirs.files.remove(self.token, consumers)

    def abandon(self) -> None:
        """Closes the copy of the descriptor in a forked child, so that the lock ends with the parent. Touches nothing else."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)


def _locked_draft(files: Files, consumers: int) -> tuple[str, int]:
    """Returns a new token, with its presence file under a dot name, locked. A lock that already exists is a stranger's."""
    for _ in range(_TRIES):
        token = os.urandom(16).hex()  # never given twice
        fd = files.create(f".{token}", consumers, 0o600)
        try:
            if files.lock_write(fd):
                return token, fd
        except BaseException:
            files.close(fd)
            files.remove(f".{token}", consumers)
            raise
        files.close(fd)
        files.remove(f".{token}", consumers)
    raise OSError(errno.EAGAIN, "every new presence file is locked by another process", CONSUMERS)
