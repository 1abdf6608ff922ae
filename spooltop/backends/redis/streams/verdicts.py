"""Verdicts on the consumers of a group: alive, dead or unknown, by evidence. Time alone proves nothing."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from spooltop.model.text import escape
from spooltop.model.units import age
from spooltop.model.vocabulary import Owner, Verdict
from spooltop.records import dataclass

from ..stream_names import HANDED_BACK, LATER
from .look import ConsumerState, Look

__all__ = ["JudgedMember", "PidJudge", "judged_consumers"]

PidJudge = Callable[[Sequence[tuple[int, float]]], list[tuple[Verdict, str]]]
"""Judges processes of this host: (pid, time of a claim) each."""
_HOST_PID = re.compile(r"(.+?)[-:@.]([1-9][0-9]{0,6})(?:[-:.][0-9a-f]{4,})?\Z")


@dataclass(frozen=True, slots=True)
class JudgedMember:
    """A consumer with its verdict. ``leased``: it is one of spooltop's own."""

    state: ConsumerState
    verdict: Verdict
    evidence: str
    owner: Owner
    leased: bool = False


def judged_consumers(look: Look, here: str, judge: PidJudge) -> dict[str, JudgedMember]:
    """Judges the consumers of a look, by name; those that are no programs are left out. ``here`` is the name of this host.

    The first of these that applies decides: its lease runs; it held leases, and none runs; a connection has its name; its name
    is that of this host and a pid, and so the process table knows.
    """
    found: dict[str, JudgedMember] = {}
    local: list[tuple[ConsumerState, Owner]] = []
    for state in look.consumers:
        if state.name in (HANDED_BACK, LATER):
            continue
        owner = _owner(state.name, look.processes)
        if look.leases is None and state.name in look.processes:
            found[state.name] = JudgedMember(state, Verdict.UNKNOWN, "this user may not read its lease", owner, True)
        elif state.name in (look.leases or {}):
            found[state.name] = JudgedMember(state, Verdict.ALIVE, "its lease runs", owner, True)
        elif state.name in look.processes:
            named = owner.host is not None and state.name.startswith(f"{owner.host}-{owner.pid}-")
            where = f"; it was pid {owner.pid} of {escape(owner.host)}" if owner.host and owner.pid and not named else ""
            found[state.name] = JudgedMember(state, Verdict.DEAD, f"its lease ended{where}", owner, True)
        elif look.connected is not None and state.name in look.connected:
            found[state.name] = JudgedMember(state, Verdict.ALIVE, "a connection has its name", owner)
        elif owner.host == here and owner.pid is not None:
            local.append((state, owner))
        else:
            found[state.name] = JudgedMember(state, Verdict.UNKNOWN, _unknown(state, look), owner)
    if local:
        asked = [(owner.pid or 0, look.now - (state.idle or 0.0)) for state, owner in local]
        for (state, owner), (verdict, evidence) in zip(local, judge(asked), strict=True):
            found[state.name] = JudgedMember(state, verdict, evidence, owner)
    return found


def _unknown(state: ConsumerState, look: Look) -> str:
    asked = "" if state.idle is None else f"; asked {age(state.idle)} ago"
    named = "no connection has its name" if look.connected is not None else "connections cannot be listed"
    return f"no lease, {named}{asked}"


def _owner(name: str, processes: Mapping[str, str]) -> Owner:
    host, _, pid = processes.get(name, "").rpartition(" ")
    if host and pid.isdecimal() and len(pid) <= 7:
        return Owner(host, int(pid), name=name)
    parts = _HOST_PID.match(name)
    return Owner(name=name) if parts is None else Owner(parts[1], int(parts[2]), name=name)
