"""Judges the holders that own a presence file: whether each is alive, who it is, and the evidence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from spooltop.engine import presence
from spooltop.engine.presence import Presence
from spooltop.model.vocabulary import EXITED, RUNNING, Owner, Verdict
from spooltop.records import replace

from .claim_holders import ClaimHolders
from .pid_liveness import Certainty
from .processes import Process, Processes

__all__ = ["TokenHolder", "TokenJudge", "also"]

_BEFORE_RESTART = f"{EXITED}, ran before the restart"
_DESCRIBED = 100
"""Descriptions that are kept of processes, whether or not they hold something."""

TokenHolder: TypeAlias = tuple[Verdict, str, Owner, str, bool]
"""Verdict, evidence, owner, the same evidence as a sentence, and whether it runs under its pid here."""


def also(evidence: str, more: str) -> str:
    """Returns the evidence with one thing more, if there is one."""
    return f"{evidence} · {more}" if more else evidence


class TokenJudge:
    """Remembers from look to look who the holders are. ``brief`` are pids of holders that need no description yet."""

    def __init__(self, processes: Processes, hosts: str = presence.ANY_MACHINE) -> None:
        self._processes = processes
        self._only_here = hosts == presence.THIS_MACHINE
        self._claim_holders = ClaimHolders(processes)
        self._described: dict[tuple[int, float | None], Process] = {}
        self.brief: set[int | None] = set()

    def vantage(self, certainty: Certainty) -> presence.Vantage:
        """The point of view from which presence locks are judged."""
        return presence.Vantage(self._processes.machine(), certainty.local, self._only_here)

    def judge(self, looked: Mapping[str, Presence], certainty: Certainty) -> dict[str, TokenHolder]:
        """Judges the holders of the tokens whose presence files were just ``looked`` at."""
        vantage = self.vantage(certainty)
        here_is = vantage.machine
        holders: dict[str, TokenHolder] = {}
        lock_holders = self._claim_holders.look({token: seen for token, seen in looked.items() if seen.state == "held"})
        for token, seen in looked.items():
            verdict, sentence = presence.judge(seen, vantage)
            words = EXITED if verdict is Verdict.DEAD else sentence
            if verdict is Verdict.DEAD and seen.boot_id != here_is.boot_id:
                words = _BEFORE_RESTART
            if seen.moves_to is not None and verdict is not Verdict.ALIVE:
                words = also(words, "left to the next move")
            owner, here = seen.owner, False
            holder = lock_holders.get(token)
            if holder is not None:
                words = holder.words or RUNNING
                sentence = holder.words or sentence
                process = holder.process
                described = self.describe(process) if process is not None and process.started is not None else None
                if described is not None:
                    here, words = True, also(words, described.halted)
                    known = owner if not holder.words else Owner(host=owner.host)
                    owner = known._replace(
                        pid=described.pid, start=described.since or known.start,
                        command=described.command or known.command, user=described.user,
                    )  # fmt: skip
            holders[token] = (verdict, words, owner, sentence, here)
        return holders

    def describe(self, process: Process | None) -> Process | None:
        """Adds command and user to what is visible of a process; they are read once."""
        if process is None or process.zombie or process.pid in self.brief:
            return process
        key = (process.pid, process.started)
        if key not in self._described:
            self._described[key] = self._processes.process(process.pid, described=True) or process
        return replace(self._described[key], stopped=process.stopped)

    def forget(self, but: Iterable[int | None]) -> None:
        """Forgets the descriptions of processes, ``but`` those with these pids."""
        if len(self._described) > _DESCRIBED:
            pids = set(but)
            self._described = {key: described for key, described in self._described.items() if key[0] in pids}
