"""Who holds a claim: the presence file of a consumer, and what its lock tells.

A consumer owns ``.spooltop/consumers/<token>``. It is made under a dot name, locked with ``flock(LOCK_EX)``, filled with one
JSON line and moved into place, and the lock is held until the process ends, however it ends: the kernel lets go of it, in every
container and pid namespace of one machine. So nobody has to ask whether a pid is still the same process.
"""

from __future__ import annotations

import json
import os
import stat
from dataclasses import dataclass

from spooltop.model.numbers import finite
from spooltop.model.text import escape
from spooltop.model.words import Owner, Verdict

from .dirs import SpoolDirs
from .files import Files
from .machine import Machine, command_line, process_start, this_machine
from .names import in_cur

__all__ = ["CONSUMERS", "Hold", "Presence", "judge", "look", "new_token"]

CONSUMERS = "consumers"
_CAP = 4096
_COMMAND_CAP = 200


@dataclass(frozen=True, slots=True)
class Presence:
    """What a look at a token's presence file gave.

    ``state``: "alive" (its lock is held), "dead" (the lock was free), "missing", "unreadable". The rest is what the file says of
    its owner, None where it does not: it is written by whoever may write the spool, so it is evidence, not proof. ``start`` is in
    clock ticks since boot (proc(5)); ``since`` is the epoch second at which the file was written.
    """

    state: str
    host: str | None = None
    boot_id: str | None = None
    pid_ns: str | None = None
    pid: int | None = None
    start: int | None = None
    command: str | None = None
    since: float | None = None

    @property
    def owner(self) -> Owner:
        return Owner(host=self.host, pid=self.pid, start=self.since, command=self.command)


def new_token() -> str:
    """A token, 32 hex digits, never given twice."""
    return os.urandom(16).hex()


def look(dirs: SpoolDirs, token: str) -> Presence:
    """Tries the shared lock on a token's presence file, without waiting, and lets go of it at once. This disturbs nobody: the
    owner had its lock before the file got its name, and nobody waits for it."""
    files = dirs.files
    try:
        consumers = dirs.own(CONSUMERS)
        if consumers is None:
            return Presence("missing")
        fd = files.open_read(token, consumers)
    except FileNotFoundError:
        return Presence("missing")
    except OSError:
        return Presence("unreadable")
    try:
        if not stat.S_ISREG(files.fstat(fd).st_mode):
            return Presence("unreadable")
        state = "dead" if files.lock(fd, shared=True) else "alive"
        return _told(state, files.read(fd, _CAP))
    except OSError:
        return Presence("unreadable")
    finally:
        files.close(fd)


def _told(state: str, line: bytes) -> Presence:
    try:
        told = json.loads(line)
    except (ValueError, RecursionError):  # nested deeper than the parser goes: planted
        return Presence(state)
    if not isinstance(told, dict):
        return Presence(state)

    def text(key: str) -> str | None:
        value = told.get(key)
        return value if isinstance(value, str) else None

    def number(key: str) -> int | None:
        value = told.get(key)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    return Presence(
        state,
        host=text("host"),
        boot_id=text("boot_id"),
        pid_ns=text("pid_ns"),
        pid=number("pid"),
        start=number("start"),
        command=text("command"),
        since=finite(told.get("since")),
    )


def judge(presence: Presence, boot_id: str, *, network: bool) -> tuple[Verdict, str]:
    """Whether the holder of an own claim lives, and the evidence in words (escaped).

    ``boot_id`` is that of this machine, ``network`` whether the spool's file system is one that several machines mount.
    """
    who = _who(presence)
    if presence.state == "alive":
        return Verdict.ALIVE, f"{who} holds its presence lock"
    if presence.state == "missing":
        return Verdict.UNKNOWN, "its presence file is missing"
    if presence.state == "unreadable":
        return Verdict.UNKNOWN, "its presence file cannot be read"
    if presence.boot_id is not None and presence.boot_id != boot_id:
        if network:
            return Verdict.UNKNOWN, f"{who} ran on another machine or before a restart; not visible from here"
        return Verdict.DEAD, f"{who} ran before the machine restarted"
    if presence.boot_id is None and network:
        return Verdict.UNKNOWN, f"{who} does not say on which machine it ran"
    return Verdict.DEAD, f"{who} is gone: its presence lock is free"


def _who(presence: Presence) -> str:
    if presence.pid is None:
        return "its consumer"
    command = f" ({escape(presence.command)})" if presence.command else ""
    return f"pid {presence.pid}{command}"


class Hold:
    """A consumer's own presence: the token and the locked descriptor, from ``take`` until ``drop`` or the end of the process."""

    def __init__(self, token: str, fd: int) -> None:
        self.token = token
        self.fd = fd
        # A claim's tail is the first of these, its time in µs, and the second.
        self.before_us, _, self.after_us = in_cur("", token, 0, os.getpid()).rpartition("0" * 16)

    @classmethod
    def take(
        cls, dirs: SpoolDirs, *, now: float, machine: Machine | None = None, command: str | None = None, durable: bool = False
    ) -> Hold:
        """Makes and locks the presence file of a new token. ``OSError`` where it cannot be written.

        ``durable``: it survives power loss, so that the claims that do are known to be those of the dead.
        """
        files = dirs.files
        machine = machine or this_machine()
        token = new_token()
        consumers = dirs.own(CONSUMERS, create=True)
        assert consumers is not None  # create=True makes it or raises
        draft = f".{token}"
        fd = files.create(draft, consumers)
        try:
            files.lock(fd, wait=True)
            pid = os.getpid()
            told = {
                "host": machine.host,
                "boot_id": machine.boot_id,
                "pid_ns": machine.pid_ns,
                "pid": pid,
                "start": process_start(pid),
                "command": (command if command is not None else command_line())[:_COMMAND_CAP],
                "since": now,
            }
            files.own_as(fd, dirs.like)
            files.write_all(fd, json.dumps(told).encode() + b"\n")
            if durable:
                files.sync(fd)
            files.move(draft, consumers, token, consumers, unique=True)
        except BaseException:
            files.close(fd)
            _remove(files, draft, consumers)
            raise
        if durable:
            try:
                files.sync_dir(consumers)
            except BaseException:
                files.close(fd)
                _remove(files, token, consumers)
                raise
        return cls(token, fd)

    def drop(self, dirs: SpoolDirs, *, remove: bool) -> None:
        """Lets go. ``remove`` takes the file away too: only after seeing no claim with the token, which would then be unknown."""
        fd, self.fd = self.fd, -1
        if fd < 0:
            return
        if remove:
            consumers = dirs.own(CONSUMERS)
            if consumers is not None:
                _remove(dirs.files, self.token, consumers)
        dirs.files.close(fd)

    def abandon(self) -> None:
        """In a forked child: closes its copy of the descriptor, so that the lock ends with the parent. Touches nothing else."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)


def _remove(files: Files, name: str, dir_fd: int) -> None:
    try:
        files.unlink(name, dir_fd)
    except FileNotFoundError:
        return  # somebody cleaned up before us
