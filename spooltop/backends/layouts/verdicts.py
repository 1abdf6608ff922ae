"""Verdicts on the holders of messages and the writers of files, by the evidence that a layout names.

A lease that ended proves nothing, nor does age. Where nothing is proved the verdict is ``unknown``, with what was seen.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence

from spooltop.model.units import age
from spooltop.model.vocabulary import Verdict
from spooltop.records import dataclass

from ..surroundings import Surroundings, Users
from .definition.layout import Layout, VerdictRule
from .definition.units import time_of
from .inside import read, status
from .sort_files import QueueFile

__all__ = ["HolderVerdict", "judge"]

_SMALL = 64
_NOBODY = "its claim names nobody"
_WRITER = {Verdict.ALIVE: Verdict.WRITING, Verdict.DEAD: Verdict.ABANDONED, Verdict.UNKNOWN: Verdict.UNKNOWN}


@dataclass(frozen=True, slots=True)
class HolderVerdict:
    """A verdict, its grounds in words, and the pid of the holder where it is known."""

    verdict: Verdict
    evidence: str
    pid: int | None = None


def judge(
    layout: Layout, root: int, files: Sequence[tuple[QueueFile, float]], around: Surroundings, now: float
) -> dict[str, HolderVerdict]:
    """Returns the verdicts by path. ``files`` are those in ``cur`` and ``tmp``, each with the time since which it lies there
    (epoch seconds). What several files have in common is asked once."""
    judging = _Judging(layout, root, around, now)
    judging.ask(files)
    found = {file.path: judging.judge(file, since) for file, since in files}
    writers = {file.path for file, _ in files if file.match is not None and file.match.box == "tmp"}
    return {path: _of_writer(one) if path in writers else one for path, one in found.items()}


def _of_writer(one: HolderVerdict) -> HolderVerdict:
    return HolderVerdict(_WRITER[one.verdict], one.evidence, one.pid)


class _Judging:
    """Keeps the answers that several files have in common for one look."""

    def __init__(self, layout: Layout, root: int, around: Surroundings, now: float) -> None:
        self._layout = layout
        self._root = root
        self._around = around
        self._now = now
        self._local = around.local(root)
        self._answers: dict[tuple[str, str], HolderVerdict] = {}
        self._locks: Callable[[os.stat_result], Users] | None = None
        self._watching: Users | None = None
        self._pids: dict[tuple[int, float], tuple[Verdict, str]] = {}
        self._opened: dict[str, Users] = {}

    def ask(self, files: Sequence[tuple[QueueFile, float]]) -> None:
        """Asks for all files at once what may read all processes."""
        pids: dict[tuple[int, float], None] = {}
        statuses: dict[str, os.stat_result] = {}
        for file, since in files:
            if (rule := _rule(file)) is None:
                continue
            if rule.pid and _proves_nothing(self._by_flock(rule, file)):
                pids[int(file.fields[rule.pid]), since] = None
            if rule.open is not None and (path := rule.open.path_of(_fields(file))) is not None:
                try:
                    statuses[path] = status(self._root, path)
                except OSError:
                    continue  # its verdict says so
        if pids:
            self._pids = dict(zip(pids, self._around.pids([*pids], self._root), strict=True))
        if statuses:
            self._opened = dict(zip(statuses, self._around.opened([*statuses.values()]), strict=True))

    def judge(self, file: QueueFile, since: float) -> HolderVerdict:
        if (rule := _rule(file)) is None:
            return HolderVerdict(Verdict.UNKNOWN, _NOBODY)
        fields = _fields(file)
        judged = self._by_flock(rule, file)
        if rule.pid and _proves_nothing(judged):
            judged = self._by_pid(int(fields[rule.pid]), since)
        if rule.pidfile:
            judged = self._once("pidfile", rule.pidfile, self._by_pidfile)
        if rule.open is not None:
            judged = self._once("open", rule.open.path_of(fields), self._by_open)
        if rule.lease is not None or rule.watched:
            judged = self._by_lease(rule, fields)
        return judged or HolderVerdict(Verdict.UNKNOWN, _NOBODY)

    def _by_flock(self, rule: VerdictRule, file: QueueFile) -> HolderVerdict | None:
        return None if rule.flock is None else self._once("flock", rule.flock.path_of(_fields(file)), self._by_lock)

    def _once(self, kind: str, path: str | None, ask: Callable[[str], HolderVerdict]) -> HolderVerdict | None:
        if path is None:
            return None
        key = kind, path
        if key not in self._answers:
            self._answers[key] = ask(path)
        return self._answers[key]

    def _by_lock(self, path: str) -> HolderVerdict:
        try:
            if self._locks is None:
                self._locks = self._around.locks(self._root)
            users = self._locks(status(self._root, path))
        except OSError:
            return HolderVerdict(Verdict.UNKNOWN, f"{path} cannot be seen")
        if users.pids or not users.complete:
            words = f"locked by pid {users.pids[0]}" if users.pids else users.why or "the locks of others cannot be seen"
            return HolderVerdict(Verdict.ALIVE if users.pids else Verdict.UNKNOWN, words, users.pids[0] if users.pids else None)
        if not self._local:
            return HolderVerdict(Verdict.UNKNOWN, f"nobody here locks {path}; another machine may")
        return HolderVerdict(Verdict.DEAD, f"nobody locks {path}")

    def _by_pid(self, pid: int, since: float) -> HolderVerdict:
        if (pid, since) not in self._pids:
            self._pids[pid, since] = self._around.pids([(pid, since)], self._root)[0]
        verdict, words = self._pids[pid, since]
        return HolderVerdict(verdict, words, pid)

    def _by_pidfile(self, path: str) -> HolderVerdict:
        try:
            pid = int(read(self._root, path, _SMALL).split()[0])
            since = status(self._root, path).st_mtime
        except (OSError, ValueError, IndexError):
            return HolderVerdict(Verdict.UNKNOWN, f"{path} names no process")
        return self._by_pid(pid, since)

    def _by_open(self, path: str) -> HolderVerdict:
        if path not in self._opened:
            return HolderVerdict(Verdict.UNKNOWN, f"{path} cannot be seen")
        users = self._opened[path]
        if users.pids:
            return HolderVerdict(Verdict.ALIVE, f"pid {users.pids[0]} has it open", users.pids[0])
        if not users.complete or not self._local:
            return HolderVerdict(Verdict.UNKNOWN, users.why or "nobody here has it open; another machine may")
        return HolderVerdict(Verdict.DEAD, "nobody has it open")

    def _by_lease(self, rule: VerdictRule, fields: Mapping[str, str]) -> HolderVerdict:
        path = None if rule.lease is None else rule.lease.path_of(fields)
        lease = "" if path is None else self._lease(path, rule.lease_unit)
        if not rule.watched:
            return HolderVerdict(Verdict.UNKNOWN, lease or _NOBODY)
        if self._watching is None:
            try:
                self._watching = self._around.watching(status(self._root, self._layout.watched), self._root)
            except OSError:
                self._watching = Users((), False, f"{self._layout.watched} cannot be seen")
        users, folder = self._watching, f"{self._layout.watched}/"
        if users.pids:
            others = len(users.pids) - 1
            who = f"pid {users.pids[0]} and {others} more watch" if others else f"pid {users.pids[0]} watches"
            words = f"{who} {folder}, as its worker would"
            return HolderVerdict(Verdict.UNKNOWN, _joined(words, lease))
        if not users.complete:
            return HolderVerdict(Verdict.UNKNOWN, _joined(users.why, lease))
        if not self._local:
            return HolderVerdict(Verdict.UNKNOWN, _joined(f"nobody here watches {folder}; another machine may", lease))
        return HolderVerdict(Verdict.DEAD, _joined(f"no process watches {folder}, so no worker runs", lease))

    def _lease(self, path: str, unit: str) -> str:
        try:
            until = time_of(unit, read(self._root, path, _SMALL).decode("ascii", "replace"))
        except OSError:
            return "no lease"
        if until is None:
            return "its lease cannot be read"
        left = until - self._now
        return f"lease ended {age(-left)} ago" if left < 0 else f"lease runs {age(left)} more"


def _rule(file: QueueFile) -> VerdictRule | None:
    return None if file.match is None else file.match.verdict


def _fields(file: QueueFile) -> Mapping[str, str]:
    return {**file.fields, "path": file.path, "name": os.path.basename(file.path)}


def _proves_nothing(judged: HolderVerdict | None) -> bool:
    return judged is None or judged.verdict is Verdict.UNKNOWN


def _joined(words: str, lease: str) -> str:
    return f"{words}; {lease}" if lease else words
