"""Looks at a stream and its group in two exchanges with the server, and judges the consumers by what they tell."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from time import monotonic
from typing import NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from spooltop.errors import Unavailable
from spooltop.model.units import age
from spooltop.model.vocabulary import Box, Owner, Verdict, escape

from ...surroundings import Connection, LocalClient, Surroundings
from ..client import ErrorReply, Reply, fields_of, list_of, number_of, text_of, trouble_of
from ..stream_names import HANDED_BACK, LATER, LeaseRecord, StreamNames, gone_words
from .server import SKIP, STREAM, Command, StreamServer, entry_time, id_order, section, translate_errors

_FACTS_EVERY = 5.0
"""Seconds between two questions about the server itself."""
_CHEAP = 250_000
"""Bytes of an entry that the server may read in a second for a look: what asks for larger ones is asked more rarely."""
_RAREST = 60.0
_HASHED = 100
"""Consumers in one answer about their processes."""
_CLIENTS_AT_MOST = 1_000
"""Connections up to which their names are asked for: the server writes a line of 300 bytes about each."""


class GroupState(NamedTuple):
    """A consumer group. ``entries_read`` and ``lag`` are None where the server has lost count."""

    name: str
    pending: int
    last_delivered: str
    entries_read: int | None
    lag: int | None


class ConsumerState(NamedTuple):
    """A consumer; ``idle`` is seconds since it last asked, None for one that is only known by its lease."""

    name: str
    pending: int
    idle: float | None


class SideState(NamedTuple):
    """A stream of messages that were set aside; ``oldest_at`` is when its oldest was. ``length`` None: it may not be asked, and
    ``note`` says why."""

    length: int | None
    oldest_at: float | None
    note: str = ""


class ServerFacts(Struct, frozen=True):
    """The server itself. ``memory`` and ``most_memory`` are bytes, ``most_memory`` 0 without a limit. ``behind`` is the number of
    seconds since a replica last heard its master, None for a master. ``clients`` is the number of connections. ``used`` is the
    size of the stream in memory."""

    memory: int | None = None
    most_memory: int = 0
    policy: str = ""
    behind: int | None = None
    replica: bool = False
    clients: int = 0
    used: int | None = None


class Look(Struct, frozen=True):
    """Facts of one look, at ``now`` by the clock of the server.

    ``leases`` are milliseconds (-1: without an end), None for one that ended; ``processes`` are ``HOST PID`` by consumer, of
    those that hold leases; ``connected`` are the names of all connections, None where they cannot be asked for;
    ``connections`` are their ends, where the server sees those that this host sees: there is no proxy between. ``leases`` is
    None where this user may not ask for them. ``hidden`` are the facts that this user may not ask for, each with the reason.
    """

    now: float
    length: int
    added: int
    first: str | None
    last: str
    groups: tuple[GroupState, ...]
    group: GroupState
    consumers: tuple[ConsumerState, ...]
    aside: Mapping[Box, SideState]
    paused: bytes | None
    server: ServerFacts
    leases: Mapping[str, int | None] | None = field(default_factory=dict)
    processes: Mapping[str, str] = field(default_factory=dict)
    connected: frozenset[str] | None = None
    connections: frozenset[Connection] = frozenset()
    hidden: Mapping[str, str] = field(default_factory=dict)


class KeptAnswers:
    """The last answers to questions for which the server reads an entry, by key. One about a large entry is kept for a while: in
    the mean no look makes the server read more than ``_CHEAP`` bytes a second."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[Reply, float]] = {}

    def due(self, key: str) -> bool:
        """True if it is time to ask again."""
        return key not in self._kept or monotonic() >= self._kept[key][1]

    def note(self, key: str, reply: Reply, size: int = 0) -> None:
        """Notes an answer about entries of ``size`` bytes."""
        self._kept[key] = reply, monotonic() + (min(_RAREST, size / _CHEAP) if size > _CHEAP else 0.0)

    def answer(self, key: str) -> Reply:
        return self._kept[key][0]


class Looker:
    """Takes the looks."""

    def __init__(self, server: StreamServer, names: StreamNames) -> None:
        self._server = server
        self._names = names
        self._facts = ServerFacts()
        self._facts_at: float | None = None
        self._scripts = True
        self.kept = KeptAnswers()
        """Answers for which the server reads an entry."""
        self._hidden_facts: Mapping[str, str] = {}
        self._known: tuple[str, ...] = ()
        """Consumers at the last look."""
        self._clients: Reply = None
        self._connected: frozenset[str] | None = None
        self._connections: frozenset[Connection] = frozenset()

    def look(self) -> Look:
        """Looks once. Raises ``Unavailable``."""
        names = self._names
        due = self._facts_at is None or monotonic() - self._facts_at >= _FACTS_EVERY
        sides = [names.of_box(box) for box in _ASIDE]
        first: list[Command] = [
            ("TIME",), ("XLEN", names.stream), ("XINFO", "GROUPS", names.stream),
            ("XINFO", "CONSUMERS", names.stream, names.group), ("HSCAN", names.consumers, 0, "COUNT", _HASHED),
            ("GET", names.paused), *(("XLEN", key) for key in sides),
        ]  # fmt: skip
        asked = [key for key in (names.stream, *sides) if self.kept.due(key)]
        heads: list[Command] = [("EVAL_RO", SKIP, 1, key, "XRANGE", key, "-", "+", "COUNT", 1) for key in asked]
        if names.stream in asked:
            heads[0] = ("EVAL_RO", STREAM, 1, names.stream) if self._scripts else ("XINFO", "STREAM", names.stream)
        leases = [("PTTL", names.lease(name)) for name in self._known]
        facts: list[Command] = [*_FACTS, ("MEMORY", "USAGE", names.stream)] if due else []
        replies = iter(self._server.ask(*first, *heads, *leases, *facts))
        with translate_errors():
            basic = [next(replies) for _ in first]
            self._check_stream(basic[2])
            for key, head in zip(asked, replies, strict=False):
                if key == names.stream and self._scripts and isinstance(head, ErrorReply):  # denied, or an old server
                    self._scripts = False
                    return self.look()
                self.kept.note(key, head, _stream_size(head) if key == names.stream else _first_size(head))
            if names.stream not in asked and basic[1] == 0:
                self.kept.note(names.stream, None)  # what was kept is of entries that are gone
                return self.look()
            ttls = dict(zip(self._known, replies, strict=False))
            if due:
                self._facts, self._hidden_facts, self._facts_at = *_facts_of([*replies]), monotonic()
            return self._with_leases(self._parsed(basic, fresh=names.stream in asked), ttls, due=due)

    def _check_stream(self, groups: Reply) -> None:
        """Raises ``Unavailable`` where the question about its groups was answered that there is no such stream."""
        if isinstance(groups, ErrorReply):
            self.kept.note(self._names.stream, None)
            if "no such key" in str(groups):
                raise Unavailable("there is no such stream any more", advice="look if the server lost its data")
            if str(groups).startswith("WRONGTYPE"):
                raise Unavailable("it is not a stream any more", advice="look who wrote over it")

    def _parsed(self, replies: Sequence[Reply], *, fresh: bool) -> Look:
        time, length = [int(text_of(part)) for part in list_of(replies[0])], number_of(replies[1])
        groups = tuple(map(_group, list_of(replies[2])))
        stream = fields_of(self.kept.answer(self._names.stream))
        added = number_of(stream.get("entries-added", stream["length"]))
        last = text_of(stream["last-generated-id"])
        if fresh:
            length = number_of(stream["length"])
        else:  # the facts that were kept are brought up to date by the length and the groups
            counted = [one.entries_read + one.lag for one in groups if one.entries_read is not None and one.lag is not None]
            before, added = added, max(counted, default=added + max(0, length - number_of(stream["length"])))
            if added > before:  # its last id is some id until now
                last = f"{time[0]}999-0"
        group = next((one for one in groups if one.name == self._names.group), None)
        if group is None:
            raise Unavailable("the stream has no such group any more", advice="spooltop init makes it, from the first entry on")
        flat = [] if isinstance(replies[4], ErrorReply) else [text_of(word) for word in list_of(list_of(replies[4])[1])]
        processes = dict(zip(flat[::2], flat[1::2], strict=True))
        consumers = [_consumer(one) for one in list_of(replies[3])]
        known = {one.name for one in consumers}
        consumers += [ConsumerState(name, 0, None) for name in processes if name not in known]
        oldest = [self.kept.answer(self._names.of_box(box)) for box in _ASIDE]
        facts = self._facts
        if facts.behind is not None and self._facts_at is not None:
            facts = replace(facts, behind=facts.behind + round(monotonic() - self._facts_at))
        return Look(
            time[0] + time[1] / 1e6, length, added, _entry_id(stream["first-entry"]), last, groups, group, tuple(consumers),
            {box: _side(count, head) for box, count, head in zip(_ASIDE, replies[6:], oldest, strict=True)},
            replies[5] if isinstance(replies[5], bytes) else None, facts, processes=processes,
            hidden={**self._hidden_facts, **_hidden(zip(_FIRST_FACTS, (replies[4], replies[5], oldest[0]), strict=True))},
        )  # fmt: skip

    def _with_leases(self, look: Look, ttls: dict[str, Reply], *, due: bool) -> Look:
        """Adds what only some consumers need: leases that were not asked for yet, processes that were not in the first answer,
        and the names of connections, now and then, where consumers have no lease."""
        names = tuple(one.name for one in look.consumers if not one.name.startswith("~"))
        others = [name for name in names if name not in ttls]
        self._known = names
        holders = [one.name for one in look.consumers if one.pending and one.name not in look.processes]
        holders = holders[:_HASHED] if len(look.processes) >= _HASHED else []
        commands: list[Command] = [("PTTL", self._names.lease(name)) for name in others]
        commands += [("HGET", self._names.consumers, name) for name in holders]
        replies = self._server.ask(*commands) if commands else []
        ttls.update(zip(others, replies, strict=False))
        more = zip(holders, replies[len(others) :], strict=True)
        processes = {**look.processes, **{name: text_of(reply) for name, reply in more if isinstance(reply, bytes)}}
        denied = next((ttls[name] for name in names if _is_denied(ttls[name])), None)
        leases = {name: ttl for name in names if isinstance(ttl := ttls[name], int) and ttl >= -1}
        unleased = any(name not in leases and name not in processes for name in names)
        if due or others or (unleased and self._clients is None):
            self._ask_connections(look.server.clients if unleased else None)
        hidden = _hidden((("leases", denied), ("names of connections", self._clients)))
        return replace(
            look, leases=None if denied is not None else leases, processes=processes, connected=self._connected,
            connections=self._connections, hidden={**look.hidden, **hidden},
        )  # fmt: skip

    def _ask_connections(self, clients: int | None) -> None:
        """Asks for the list of connections; ``clients`` None: nobody needs it."""
        self._clients, self._connected, self._connections = None, None, frozenset()
        if clients is None or clients > _CLIENTS_AT_MOST:
            return
        (self._clients,) = self._server.ask(("CLIENT", "LIST"))
        if isinstance(self._clients, bytes):
            lines = text_of(self._clients).splitlines()
            facts = [dict(word.partition("=")[::2] for word in line.split(" ")) for line in lines]
            self._connected = frozenset(name for one in facts if (name := one.get("name")))
            ends = frozenset((one["addr"], one["laddr"]) for one in facts if "addr" in one and "laddr" in one)
            self._connections = ends if self._server.ends in ends else frozenset()


_ASIDE = (Box.REJECTED, Box.HELD, Box.TRASH)
_FIRST_FACTS = ("processes of consumers", "a pause", "sizes of claims and ages of what was set aside")
_SERVER_FACTS = ("memory and role of the server", "size of the stream")
_FACTS: list[Command] = [("INFO", "memory"), ("INFO", "replication"), ("INFO", "clients")]


def _facts_of(replies: Sequence[Reply]) -> tuple[ServerFacts, dict[str, str]]:
    """Returns the facts about the server, and which of them this user may not ask for."""
    memory, replication, clients = map(section, replies[:3])
    replica = replication.get("role") == "slave"
    linked = replication.get("master_link_status") == "up"
    since = replication.get("master_last_io_seconds_ago" if linked else "master_link_down_since_seconds")
    used = replies[3] if isinstance(replies[3], int) else None
    return ServerFacts(
        _int(memory.get("used_memory")), _int(memory.get("maxmemory")) or 0, memory.get("maxmemory_policy", ""),
        _int(since) if replica else None, replica,
        _int(clients.get("connected_clients")) or 0, used,
    ), _hidden(zip(_SERVER_FACTS, (replies[0], replies[3]), strict=True))  # fmt: skip


def _is_denied(reply: Reply) -> bool:
    return isinstance(reply, ErrorReply) and str(reply).startswith("NOPERM")


def _hidden(asked: Iterable[tuple[str, Reply]]) -> dict[str, str]:
    """Returns which of these facts this user may not ask for, with what the server said."""
    return {fact: trouble_of(reply).what for fact, reply in asked if isinstance(reply, ErrorReply) and _is_denied(reply)}


def _int(word: str | None) -> int | None:
    return int(word) if word is not None and word.removeprefix("-").isdecimal() else None


def _group(reply: Reply) -> GroupState:
    found = fields_of(reply)
    read, lag, last = found.get("entries-read"), found.get("lag"), text_of(found["last-delivered-id"])
    id_order(last)
    return GroupState(
        text_of(found["name"]), number_of(found["pending"]), last,
        None if read is None else number_of(read), None if lag is None else number_of(lag),
    )  # fmt: skip


def _consumer(reply: Reply) -> ConsumerState:
    found = fields_of(reply)
    return ConsumerState(text_of(found["name"]), number_of(found["pending"]), number_of(found["idle"]) / 1000)


def _side(count: Reply, head: Reply) -> SideState:
    if isinstance(count, ErrorReply):
        return SideState(None, None, trouble_of(count).what)
    oldest = text_of(list_of(head)[1]) if isinstance(head, list) else ""
    return SideState(number_of(count), entry_time(oldest) if oldest else None)


def _entry_id(reply: Reply) -> str | None:
    if reply is None:
        return None
    id = text_of(list_of(reply)[0])
    id_order(id)
    return id


def _entry_size(reply: Reply) -> int:
    fields = list_of(reply)[1] if isinstance(reply, list) else None
    if isinstance(fields, int):
        return fields
    return sum(len(one) for one in fields if isinstance(one, bytes)) if isinstance(fields, list) else 0


def _stream_size(reply: Reply) -> int:
    found = fields_of(reply)
    return sum(_entry_size(found[name]) for name in ("first-entry", "last-entry"))


def _first_size(reply: Reply) -> int:
    return number_of(list_of(reply)[2]) if isinstance(reply, list) else 0


# Verdicts on the consumers of a group: alive, dead or unknown, by evidence. Time alone proves nothing.

_HOST_PID = re.compile(r"(.+?)[-:@.]([1-9][0-9]{0,6})(?:[-:.][0-9a-f]{4,})?\Z")


class JudgedMember(Struct, frozen=True):
    """A consumer (``ConsumerState``) with its verdict. ``ends``: it is gone, and dead once its lease ends."""

    name: str
    pending: int
    idle: float | None
    verdict: Verdict
    evidence: str
    owner: Owner
    ends: bool = False


class PidJudge(Struct):
    """Judges consumers whose names are that of this host, ``here``, and a number. Such a number alone is no pid: ``vm-9`` may be
    the ninth worker of ``vm``. It is one where the process with that pid was seen to have a connection to the server, or where
    ``vouched``: the user says that all such numbers are pids of this host (``claims.pids``)."""

    _around: Surroundings
    _here: str
    vouched: bool = False
    _seen: dict[str, LocalClient] = {}

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
        if self.vouched:
            return [
                JudgedMember(*state, *verdict, Owner(self._here, pid, name=state.name))
                for (state, pid), verdict in zip(numbered, by_pid, strict=True)
            ]
        known = {name for name, one in self._seen.items() if one.connection in look.connections}
        asked = [pid for state, pid in numbered if state.name not in known]
        clients = {one.pid: one for one in self._around.clients(asked, look.connections)}
        self._seen |= {state.name: clients[pid] for state, pid in numbered if pid in clients}
        pairs = zip(numbered, by_pid, strict=True)
        return [self._judged(look, state, pid, verdict, words) for (state, pid), (verdict, words) in pairs]

    def _judged(self, look: Look, state: ConsumerState, pid: int, by_pid: Verdict, words: str) -> JudgedMember:
        client = self._seen.get(state.name)
        ended = None if client is None else self._around.has_ended(client.pid, client.started)
        if client is None or ended is None or (ended and client.connection in look.connections):
            known = {Verdict.ALIVE: ", which is running", Verdict.DEAD: ", which has exited"}.get(by_pid, f": {words}")
            return JudgedMember(*state, Verdict.UNKNOWN, f"may be pid {pid} of this host{known}", Owner(name=state.name))
        owner = Owner(self._here, pid, name=state.name)
        if ended:
            return JudgedMember(*state, Verdict.DEAD, f"pid {pid} of this host was connected, and has exited", owner)
        return JudgedMember(*state, Verdict.ALIVE, f"pid {pid} of this host was seen connected, and is running", owner)


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
        owner, ends = _owner(state.name, look.processes), ""
        if look.leases is None and state.name in look.processes:
            verdict, words = Verdict.UNKNOWN, "this user may not read its lease"
        elif state.name in (look.leases or {}):
            ends = judge.lease_words(look, state, owner)
            verdict, words = Verdict.ALIVE, ends or "its lease runs"
        elif state.name in look.processes:
            named = owner.host is not None and state.name.startswith(f"{owner.host}-{owner.pid}-")
            where = f"; it was pid {owner.pid} of {escape(owner.host)}" if owner.host and owner.pid and not named else ""
            verdict, words = Verdict.DEAD, f"its lease ended{where}"
        elif look.connected is not None and state.name in look.connected:
            verdict, words = Verdict.ALIVE, "a connection has its name"
        elif (number := judge.number(state.name)) is not None:
            numbered.append((state, number))
            continue
        else:
            verdict, words = Verdict.UNKNOWN, _unknown(state, look)
        found[state.name] = JudgedMember(*state, verdict, words, owner, bool(ends))
    found.update((one.name, one) for one in (judge.judge(look, numbered) if numbered else ()))
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
