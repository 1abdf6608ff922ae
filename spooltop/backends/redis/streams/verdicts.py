"""Verdicts on the consumers of a group: alive, dead or unknown, by evidence. Time alone proves nothing."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

from spooltop.model.text import escape
from spooltop.model.units import age
from spooltop.model.vocabulary import Owner, Verdict

from ...surroundings import LocalClient, Surroundings
from ..stream_names import HANDED_BACK, LATER, LeaseRecord, gone_words
from .look import ConsumerState, Look

_HOST_PID = re.compile(r"(.+?)[-:@.]([1-9][0-9]{0,6})(?:[-:.][0-9a-f]{4,})?\Z")


class JudgedMember(Struct, frozen=True):
    """A consumer with its verdict. ``leased``: it is one of spooltop's own. ``ends``: it is gone, and dead once its lease
    ends."""

    state: ConsumerState
    verdict: Verdict
    evidence: str
    owner: Owner
    leased: bool = False
    ends: bool = False


class PidJudge:
    """Judges consumers whose names are that of this host, ``here``, and a number. Such a number alone is no pid: ``vm-9`` may be
    the ninth worker of ``vm``. It is one where the process with that pid was seen to have a connection to the server, or where
    ``vouched``: the user says that all such numbers are pids of this host (``claims.pids``)."""

    def __init__(self, around: Surroundings, here: str, *, vouched: bool = False) -> None:
        self._around = around
        self._here = here
        self._vouched = vouched
        self._seen: dict[str, LocalClient] = {}

    def number(self, name: str) -> int | None:
        """Returns the number at the end of the name of a consumer of this host; None for other names."""
        parts = _HOST_PID.match(name)
        return int(parts[2]) if parts is not None and parts[1] == self._here else None

    def lease_words(self, look: Look, state: ConsumerState, owner: Owner) -> str:
        """Says of a consumer with a lease that its process is gone, if it was one of this host; "" of others. Another machine may
        have the name of this one, so the lease decides all the same."""
        left = (look.leases or {}).get(state.name) or 0
        if owner.host != self._here or owner.pid is None or left < 0:
            return ""
        ((verdict, _),) = self._by_pid([(owner.pid, look.now - (state.idle or 0.0))])
        return gone_words(left / 1000) if verdict is Verdict.DEAD else ""

    def _by_pid(self, asked: Sequence[tuple[int, float]]) -> list[tuple[Verdict, str]]:
        root = os.open("/", os.O_PATH | os.O_CLOEXEC)
        try:
            return self._around.pids(asked, root)
        finally:
            os.close(root)

    def judge(self, look: Look, numbered: Sequence[tuple[ConsumerState, int]]) -> list[JudgedMember]:
        """Judges consumers, each with its number."""
        by_pid = self._by_pid([(pid, look.now - (state.idle or 0.0)) for state, pid in numbered])
        if self._vouched:
            return [
                JudgedMember(state, *verdict, Owner(self._here, pid, name=state.name))
                for (state, pid), verdict in zip(numbered, by_pid, strict=True)
            ]
        clients = {one.pid: one for one in self._around.clients([pid for _, pid in numbered], look.connections)}
        self._seen |= {state.name: clients[pid] for state, pid in numbered if pid in clients}
        pairs = zip(numbered, by_pid, strict=True)
        return [self._judged(look, state, pid, verdict, words) for (state, pid), (verdict, words) in pairs]

    def _judged(self, look: Look, state: ConsumerState, pid: int, by_pid: Verdict, words: str) -> JudgedMember:
        client = self._seen.get(state.name)
        ended = None if client is None else self._around.has_ended(client.pid, client.started)
        if client is None or ended is None or (ended and client.connection in look.connections):
            known = {Verdict.ALIVE: ", which is running", Verdict.DEAD: ", which has exited"}.get(by_pid, f": {words}")
            return JudgedMember(state, Verdict.UNKNOWN, f"may be pid {pid} of this host{known}", Owner(name=state.name))
        owner = Owner(self._here, pid, name=state.name)
        if ended:
            return JudgedMember(state, Verdict.DEAD, f"pid {pid} of this host was connected, and has exited", owner)
        return JudgedMember(state, Verdict.ALIVE, f"pid {pid} of this host was seen connected, and is running", owner)


def judged_consumers(look: Look, judge: PidJudge) -> dict[str, JudgedMember]:
    """Judges the consumers of a look, by name; those that are no programs are left out.

    The first of these that applies decides: its lease runs; it held leases, and none runs; a connection has its name; its name
    is that of this host and a number, and what ``judge`` says of it.
    """
    found: dict[str, JudgedMember] = {}
    numbered: list[tuple[ConsumerState, int]] = []
    for state in look.consumers:
        if state.name in (HANDED_BACK, LATER):
            continue
        owner = _owner(state.name, look.processes)
        if look.leases is None and state.name in look.processes:
            found[state.name] = JudgedMember(state, Verdict.UNKNOWN, "this user may not read its lease", owner, True)
        elif state.name in (look.leases or {}):
            words = judge.lease_words(look, state, owner)
            found[state.name] = JudgedMember(state, Verdict.ALIVE, words or "its lease runs", owner, True, bool(words))
        elif state.name in look.processes:
            named = owner.host is not None and state.name.startswith(f"{owner.host}-{owner.pid}-")
            where = f"; it was pid {owner.pid} of {escape(owner.host)}" if owner.host and owner.pid and not named else ""
            found[state.name] = JudgedMember(state, Verdict.DEAD, f"its lease ended{where}", owner, True)
        elif look.connected is not None and state.name in look.connected:
            found[state.name] = JudgedMember(state, Verdict.ALIVE, "a connection has its name", owner)
        elif (number := judge.number(state.name)) is not None:
            numbered.append((state, number))
        else:
            found[state.name] = JudgedMember(state, Verdict.UNKNOWN, _unknown(state, look), owner)
    found.update((one.state.name, one) for one in (judge.judge(look, numbered) if numbered else ()))
    return found


def _unknown(state: ConsumerState, look: Look) -> str:
    asked = "" if state.idle is None else f"; asked {age(state.idle)} ago"
    named = "no connection has its name" if look.connected is not None else "connections cannot be listed"
    return f"no lease, {named}{asked}"


def _owner(name: str, processes: Mapping[str, str]) -> Owner:
    record = LeaseRecord.parse(processes.get(name, ""))
    if record.host and record.pid is not None:
        return Owner(record.host, record.pid, name=name, moves_to=None if record.moves_to is None else record.moves_to.name)
    return Owner(name=name)
