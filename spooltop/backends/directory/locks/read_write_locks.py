"""filelock's ``SoftReadWriteLock``, the directory ``<lock>.rw``: who writes, who reads and who waits to write.

``gen/<20 digits>`` are its states, of which the highest counts: lines ``writer=TOKEN`` and ``reader=TOKEN``. A writer beside
readers waits until they leave. ``holders/<token>`` names pid and host, and is written anew with each heartbeat. The library
itself evicts a holder that has not done so for ``lease`` seconds, so nothing is removed by hand.
"""

from __future__ import annotations

import os
import re

from spooltop.engine.system.files import read_small
from spooltop.model.look.locks import Lock, LockHolder
from spooltop.model.vocabulary import Verdict
from spooltop.patterns import pattern

from .soft_lock_liveness import Judge, holder_info

__all__ = ["KIND", "SUFFIX", "read_write_lock"]

KIND = "rw"
SUFFIX = ".rw"
_STATE = pattern(r"[0-9]{20}")
_MEMBER = pattern(r"^(writer|reader)=([0-9a-f]{32})$", re.MULTILINE)
_FIELD = pattern(r"^(pid|host|lease)=(\S+)$", re.MULTILINE)
_LIMIT = 4_096
_AT_MOST = 64
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def read_write_lock(path: str, name: str, dir_fd: int, judge: Judge, *, local: bool) -> Lock | None:
    """The lock in the directory ``name`` below ``dir_fd``; None where it is none, or not for this user to read. ``local``: only
    this machine mounts it."""
    opened: list[int] = []
    try:
        opened.append(os.open(name, _FOLDER, dir_fd=dir_fd))
        opened += [os.open(folder, _FOLDER, dir_fd=opened[0]) for folder in ("gen", "holders")]
        _, states, holders = opened
        newest = max(filter(_STATE.fullmatch, os.listdir(states)), default=None)
        state = None if newest is None else read_small(newest, states, limit=_LIMIT)
        members = [] if state is None else _MEMBER.findall(state.data.decode("ascii", "replace"))[:_AT_MOST]
        records = [(role, _record(token, holders)) for role, token in members]
    except OSError:
        return None  # not ours to look into, or it changed meanwhile: the next look sees it
    finally:
        for fd in opened:
            os.close(fd)
    if state is None or not members:
        return Lock(path, KIND, verdict="free", evidence="nobody reads or writes under it")
    since = state.status.st_mtime
    readers = [record for role, record in records if role == "reader"]
    writers = [record for role, record in records if role == "writer"]
    waiters = [_judged(path, record, since, judge, local=local)[0] for record in (writers if readers else ())]
    held = [_judged(path, record, since, judge, local=local) for record in readers or writers]
    held_and_awaited = tuple(holder for holder, _, _ in held), tuple(waiters)
    if any(verdict is Verdict.ALIVE for _, verdict, _ in held):
        words = f"{len(held)} read{'s' if len(held) == 1 else ''}" if readers else "1 writes"
        return Lock(path, KIND, *held_and_awaited, "blocked" if waiters else "held", words)
    return Lock(path, KIND, *held_and_awaited, "unknown", f"{held[0][2]}; filelock evicts it when its heartbeat stays away")


def _record(token: str, holders: int) -> dict[str, str]:
    try:
        data = read_small(token, holders, limit=_LIMIT).data
    except FileNotFoundError:
        return {}  # it has just left
    return dict(_FIELD.findall(data.decode("ascii", "replace")))


def _judged(path: str, record: dict[str, str], since: float, judge: Judge, *, local: bool) -> tuple[LockHolder, Verdict, str]:
    """A holder, whether it lives, and the evidence."""
    text, host = record.get("pid", ""), record.get("host", "")
    if not text.isdecimal() or len(text) > 10:
        return LockHolder(None, since=since), Verdict.UNKNOWN, "it does not tell whose it is"
    pid = int(text)
    if not judge.is_here(host):
        return LockHolder(pid, since=since), Verdict.UNKNOWN, f"taken on host {host}, ask there"
    verdict, evidence = judge.judge(f"{path}/{text}", pid, since, local=local)
    if verdict is Verdict.DEAD:
        return LockHolder(pid, since=since, alive=False), verdict, f"pid {pid} has exited"
    return holder_info(pid, since, judge.processes), verdict, evidence
