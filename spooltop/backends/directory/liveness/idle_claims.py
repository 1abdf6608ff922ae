"""Detects living holders of old claims that do nothing: their CPU time is sampled every few seconds."""

from __future__ import annotations

from collections.abc import Iterable

from spooltop.model.units import age

from .processes import Processes

__all__ = ["Idle"]

_EVERY = 10.0
_TOLD_FROM = 60.0
_ASKED_AT_MOST = 200

_Used = tuple[tuple[int, float, float], ...]


class Idle:
    """Remembers of each process since when it and its children have used no CPU (``Processes.cpu``)."""

    def __init__(self, processes: Processes) -> None:
        self._processes = processes
        self._asked_at = float("-inf")
        self._since: dict[int, tuple[_Used, float]] = {}

    def look(self, pids: Iterable[int]) -> None:
        """Asks for ``pids``, at most every 10 s; who is not among them is forgotten."""
        now = self._processes.boottime()
        if now - self._asked_at < _EVERY:
            return
        self._asked_at = now
        seen: dict[int, tuple[_Used, float]] = {}
        for pid in sorted(set(pids))[:_ASKED_AT_MOST]:
            used = self._processes.cpu(pid)
            if used is not None:
                before = self._since.get(pid)
                seen[pid] = before if before is not None and before[0] == used else (used, now)
        self._since = seen

    def words(self, pid: int | None) -> str:
        """"no CPU for 5m", in steps as ages are; empty until that was watched for a minute."""
        known = None if pid is None else self._since.get(pid)
        idle = 0.0 if known is None else self._asked_at - known[1]
        return f"no CPU for {age(idle)}" if idle >= _TOLD_FROM else ""
