"""Judges whether the pid in the name of a claim still refers to the process that made it. A living holder is never called dead,
except where the setting ``claims.pids`` wrongly says that it runs here."""

from __future__ import annotations

from collections.abc import Sequence

from spooltop.errors import UsageError
from spooltop.model.text import escape
from spooltop.model.vocabulary import EXITED, RUNNING, Verdict
from spooltop.records import dataclass

from .processes import Process, Processes

__all__ = ["ANY_HOST", "THIS_HOST", "BootClock", "Certainty", "check_pids", "judge_pid", "later"]

ANY_HOST, THIS_HOST = "any", "this-host"
"""Values of the setting ``claims.pids``: where the holders run that name only a pid."""

MARGIN = 2.0
"""Seconds between a claim and the start of a process that prove that it is another process."""


@dataclass(frozen=True, slots=True)
class Certainty:
    """Conditions for conclusions about pids. ``local``: only this machine mounts the file system. ``all_pids``: this is the first
    pid namespace. ``pids_here``: the user vouches that all pids are those of processes of this pid namespace
    (``claims.pids``)."""

    local: bool
    all_pids: bool
    pids_here: bool = False


def check_pids(pids: str) -> bool:
    """``Certainty.pids_here`` for ``pids``, a value of ``claims.pids``. Raises ``UsageError`` for any other."""
    if pids not in (ANY_HOST, THIS_HOST):
        raise UsageError(f"claims.pids: {escape(pids)!r} is neither {ANY_HOST} nor {THIS_HOST}")
    return pids == THIS_HOST


class BootClock:
    """Ties file times to CLOCK_BOOTTIME. Only what happened while watching can be tied: how the wall clock was set before that
    is not known."""

    def __init__(self, processes: Processes) -> None:
        self._processes = processes
        self._began_boot = processes.boottime()
        self._offset = processes.wall() - self._began_boot
        self.jumped: float | None = None

    def look(self) -> None:
        """Notices jumps of the wall clock over 2 s since watching began."""
        drift = self._processes.wall() - self._processes.boottime() - self._offset
        if abs(drift) > 2.0:
            self.jumped = drift

    def latest(self, stamped: float, seen: float) -> float:
        """Returns a moment (CLOCK_BOOTTIME) at which a file with the time ``stamped`` (epoch), first seen at ``seen``, existed
        already."""
        if self.jumped is not None:
            return seen
        at = stamped - self._offset
        return min(seen, at) if at >= self._began_boot else seen


def judge_pid(
    pid: int,
    there: bool | None,
    process: Process | None,
    namesakes: Sequence[Process] | None,
    known_at: float,
    certainty: Certainty,
) -> tuple[Verdict, str]:
    """Judges whether the holder of a claim that names only a pid is alive. Pure.

    ``there`` is the answer of kill(pid, 0), ``process`` what is visible under that number, ``namesakes`` all processes with that
    number in any pid namespace (None: not all are visible). ``known_at`` is a moment (CLOCK_BOOTTIME) at which the claim already
    existed.
    """
    if there is None:
        return Verdict.UNKNOWN, f"no process can have pid {pid}"
    certain = certainty.local and certainty.all_pids and namesakes is not None
    vouched = "" if certain else f"; claims.pids is {THIS_HOST}"
    if there:
        if process is not None and process.zombie:
            return Verdict.UNKNOWN, f"pid {pid} has exited, its parent has not noticed"
        if process is None or process.started is None or process.started <= known_at + MARGIN:
            return Verdict.ALIVE, RUNNING
        # By the clock of a server it may only seem to have started later.
        if (certain or (certainty.local and certainty.pids_here)) and all(later(other, known_at) for other in namesakes or ()):
            return Verdict.DEAD, f"pid {pid} is running, but started after the claim{vouched}"
        return Verdict.UNKNOWN, f"pid {pid} is running, but started after the claim"
    if not certain and not certainty.pids_here:
        return Verdict.UNKNOWN, f"no pid {pid} here"
    others = [other for other in namesakes or () if not later(other, known_at)]
    if not others:
        return Verdict.DEAD, f"{EXITED}{vouched}"
    return Verdict.UNKNOWN, f"no pid {pid} here; in a container it is pid {others[0].pid}"


def later(process: Process, known_at: float) -> bool:
    """True where ``process`` was started so long after ``known_at`` (CLOCK_BOOTTIME) that it is another one."""
    return process.started is not None and process.started > known_at + MARGIN
