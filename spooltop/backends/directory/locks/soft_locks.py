"""Lock files whose existence is the lock, read and never touched: which process holds them.

- filelock's ``SoftFileLock``: ``pid\\nhost\\nstart\\n``; its ``SoftFileLease``: ``filelock/2`` and lines ``name=value``.
  ``start`` is that of the process, so that another one with its pid is recognised: boot id × 2⁶⁴ + clock ticks since boot.
- filelock's ``StrictSoftFileLock``: a marker that stays, beside it ``<lock>.filelock/claims/``. A file ``held-v1-….claim``
  there is the lock: magic, token, pid, host in hex, start.
- files of JSON, as leaders leave: with a pid, ``{"pid": 77, "host": "here"}``, or a lease, ``{"ownerId": …, "expiresAt": ms}``.
- ``<element>.lck``, a second name of the element that it locks: it does not name its holder.
- a symbolic link that leads nowhere and whose text has the pid: ``host:+pid``, ``user@host.pid``, ``host:pid``, ``pid``.
- files with ``pid`` alone, ``host:pid`` or ``user@host.pid``.
- directories, as mkdir(1) makes them: if anything names the holder, it is a file in them.
"""

from __future__ import annotations

import os
import re

from spooltop.engine.system.files import read_small
from spooltop.model.text import json_object
from spooltop.patterns import pattern
from spooltop.records import dataclass

__all__ = ["LIMIT", "Marker", "read_directory", "read_marker"]

LIMIT = 1_024
"""Bytes that a marker has at most."""
_MAX_PID = 1 << 22
"""The greatest pid there is (proc(5), pid_max)."""
_PID_ALONE = pattern(r"\s*(?:(?:[^@/\s]+@)?(?P<host>[A-Za-z0-9_.-]+):)?\s*(?P<pid>[0-9]{1,10})\s*\Z", re.ASCII)
_USER_AT_HOST = pattern(r"\s*[^@/\s]+@(?P<host>[A-Za-z0-9_.-]+)\.(?P<pid>[0-9]{1,10})(?::[0-9]+)?\s*\Z", re.ASCII)
_STRICT = b"filelock-strict-v1"
_AT_MOST = 64
_LINK = pattern(r"(?:[^@/]*@)?(?:([A-Za-z0-9._-]+?)(?:\.|:\+?))?([0-9]{1,10})(?::[0-9]+)?\Z")
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Marker:
    """The content of a soft lock: the ``pid`` on ``host`` (None: not named, or not yet) that has it ``since`` (epoch seconds,
    of its file). ``lease`` seconds after its last renewal anyone may take it; None for a lock without an end; ``until`` is that
    end where it is given (epoch seconds). ``free``: a file that stays when nobody holds the lock. ``below`` (a path below the
    lock's folder) and ``names`` in it are the files that the lock consists of, names of one file; none where it is the file
    itself. ``element`` is the name of the file that a link locks. ``start`` is filelock's start token."""

    pid: int | None
    host: str | None
    since: float
    lease: float | None = None
    free: bool = False
    until: float | None = None
    below: str = ""
    names: tuple[str, ...] = ()
    element: str = ""
    start: int | None = None


def read_marker(name: str, dir_fd: int) -> Marker | None:
    """Reads the soft lock in the file ``name`` below ``dir_fd``; None if it is not one."""
    found = _content(name, dir_fd)
    if found is None:
        return _symbolic(name, dir_fd)
    data, since = found
    if (linked := _linked(name, dir_fd)) is not None:
        return linked
    if _STRICT in data:
        return _strict(name, dir_fd, since)
    lines = data.decode("utf-8", "replace").split("\n")
    if lines[0] == "filelock/2":
        fields = dict(line.split("=", 1) for line in lines[1:] if "=" in line)
        lease, start = _seconds(fields.get("duration", "")), _token(fields.get("start", ""))
        return Marker(_pid(fields.get("pid", "")), fields.get("host"), since, lease, start=start)
    if len(lines) >= 3 and _pid(lines[0]) and lines[1]:
        return Marker(_pid(lines[0]), lines[1], since, start=_token(lines[2]))
    return _leader(data, since) or _plain(data, since)


def read_directory(name: str, dir_fd: int) -> Marker | None:
    """Reads the lock that the existence of the directory ``name`` below ``dir_fd`` is; None if it is gone or may not be
    read."""
    try:
        fd = os.open(name, _FOLDER, dir_fd=dir_fd)
    except OSError:
        return None
    try:
        since = os.fstat(fd).st_mtime
        for inside in sorted(os.listdir(fd))[:_AT_MOST]:
            if (marker := read_marker(inside, fd)) is not None and marker.pid is not None:
                return Marker(marker.pid, marker.host, since)
    except OSError:
        return None
    finally:
        os.close(fd)
    return Marker(None, None, since)


def _plain(data: bytes, since: float) -> Marker | None:
    text = data.decode("utf-8", "replace")
    found = _USER_AT_HOST.match(text) or _PID_ALONE.match(text)
    pid = _pid(found["pid"]) if found is not None else None
    return Marker(pid, found["host"], since) if found is not None and pid is not None and pid <= _MAX_PID else None


def _strict(name: str, dir_fd: int, since: float) -> Marker:
    claims = -1
    try:
        folder = os.open(f"{name}.filelock", _FOLDER, dir_fd=dir_fd)
        try:
            claims = os.open("claims", _FOLDER, dir_fd=folder)
        finally:
            os.close(folder)
        names = sorted(os.listdir(claims))
        for claim in names[:_AT_MOST]:
            found = _content(claim, claims) if claim.startswith("held-v1-") and claim.endswith(".claim") else None
            if found is not None:
                lines = found[0].decode("ascii", "replace").split("\n")
                complete = lines[0] == _STRICT.decode() and len(lines) >= 4
                pid, host = (_pid(lines[2]), _unhex(lines[3])) if complete else (None, None)
                intent = claim.replace("held-", "intent-", 1)  # stays beside it as long as it is held, and blocks as well
                both = (claim, intent) if intent in names else (claim,)
                start = _token(lines[4]) if complete and len(lines) > 4 else None
                return Marker(pid, host, found[1], below=f"{name}.filelock/claims", names=both, start=start)
    except FileNotFoundError:
        return Marker(None, None, since, free=True)  # its directory comes with the first claim
    except OSError:
        return Marker(None, None, since)  # not ours to look into
    finally:
        if claims >= 0:
            os.close(claims)
    return Marker(None, None, since, free=True)


def _leader(data: bytes, since: float) -> Marker | None:
    record = json_object(data)
    until = record.get("expiresAt")
    if isinstance(record.get("ownerId"), str) and isinstance(until, (int, float)) and 1e12 < until < 1e14:
        return Marker(None, None, since, until=until / 1000)
    if type(record.get("pid")) is not int or record["pid"] <= 0:
        return None
    host = record.get("host", record.get("hostname"))
    return Marker(record["pid"], host if isinstance(host, str) and host else None, since)


def _linked(name: str, dir_fd: int) -> Marker | None:
    """The lock ``x.lck`` where it is another name of ``x``."""
    element = name.removesuffix(".lck")
    if element in (name, ""):
        return None
    try:
        lock, locked = (os.stat(one, dir_fd=dir_fd, follow_symlinks=False) for one in (name, element))
    except OSError:
        return None  # no such element
    # Its ctime, as the mtime may be that of the element: making the link moved it.
    return Marker(None, None, lock.st_ctime, element=element) if os.path.samestat(lock, locked) else None


def _symbolic(name: str, dir_fd: int) -> Marker | None:
    try:
        text = os.readlink(name, dir_fd=dir_fd)
        if _leads(name, dir_fd):
            return None
        since = os.stat(name, dir_fd=dir_fd, follow_symlinks=False).st_mtime
    except OSError:
        return None  # gone, or no link
    found = _LINK.match(text)
    return Marker(_pid(found[2]), found[1], since) if found is not None and _pid(found[2]) else None


def _leads(name: str, dir_fd: int) -> bool:
    try:
        os.stat(name, dir_fd=dir_fd)
    except OSError:
        return False
    return True


def _content(name: str, dir_fd: int) -> tuple[bytes, float] | None:
    """The start of a plain file and its mtime; None if it is gone, is not a plain file or may not be read."""
    try:
        found = read_small(name, dir_fd, limit=LIMIT)
    except OSError:
        return None
    return found.data, found.status.st_mtime


def _pid(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and 0 < len(text) <= 10 and int(text) > 0 else None


def _token(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 60 else None


def _seconds(text: str) -> float | None:
    try:
        seconds = float(text)
    except ValueError:
        return None
    return seconds if 0 < seconds < float("inf") else None


def _unhex(text: str) -> str | None:
    try:
        return bytes.fromhex(text).decode("utf-8", "replace") or None
    except ValueError:
        return None
