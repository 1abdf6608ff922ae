"""Look at a stream and its group: two exchanges with the server, and the facts that they tell."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from spooltop.model.vocabulary import Box

from ...surroundings import Connection
from ..client import Reply, fields_of, list_of, number_of, text_of
from ..stream_names import StreamNames
from ..trouble import ErrorReply, Kind, Trouble, trouble_of_reply
from .server import FIRST, STREAM, Command, ServerTrouble, StreamServer, entry_time, id_order, section, translate_errors

_FACTS_EVERY = 5.0
"""Seconds between two questions about the server itself."""
_CHEAP = 250_000
"""Bytes of an entry that the server may read in a second for a look: what asks for larger ones is asked more rarely."""
_RAREST = 60.0
_NO_END, _NO_LEASE = -1, -2
"""Answers to PTTL."""
_HASHED = 100
"""Consumers in one answer about their processes."""
_LEASES = 200
"""Leases that are asked for again in one look, those of consumers with claims first; the others in turn. One that should have
ended since is always asked for."""
_CLIENTS_AT_MOST = 1_000
"""Connections up to which their names are asked for: the server writes a line of 300 bytes about each."""


_NO_GROUP = Trouble(Kind.NO_STREAM, "the stream has no such group any more", "spooltop init makes it, from the first entry on")
_NO_STREAM = Trouble(Kind.NO_STREAM, "there is no such stream any more", "look if the server lost its data")
_NOT_A_STREAM = Trouble(Kind.NO_STREAM, "it is not a stream any more", "look who wrote over it")


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

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._kept: dict[str, tuple[Reply, float]] = {}

    def due(self, key: str) -> bool:
        """True if it is time to ask again."""
        return key not in self._kept or self._monotonic() >= self._kept[key][1]

    def note(self, replies: Mapping[str, Reply], size_of: Callable[[Reply], int]) -> None:
        """Notes answers, each about entries of the size that ``size_of`` tells, in bytes."""
        now = self._monotonic()
        for key, reply in replies.items():
            size = size_of(reply)
            self._kept[key] = reply, now + (min(_RAREST, size / _CHEAP) if size > _CHEAP else 0.0)

    def forget(self, key: str) -> None:
        """Has it asked again at the next time."""
        del self._kept[key]

    def answer(self, key: str) -> Reply:
        return self._kept[key][0]


class Looker:
    """Takes the looks. ``monotonic`` says when the server itself is asked about again."""

    def __init__(self, server: StreamServer, names: StreamNames, monotonic: Callable[[], float]) -> None:
        self._server = server
        self._names = names
        self._monotonic = monotonic
        self._facts = ServerFacts()
        self._facts_at: float | None = None
        self._scripts = True
        self.kept = KeptAnswers(monotonic)
        """Answers for which the server reads an entry."""
        self._hidden_facts: Mapping[str, str] = {}
        self._known: tuple[str, ...] = ()
        self._leases: dict[str, tuple[Reply, float]] = {}
        """The last answers about leases, in the order in which they were asked for, each with when."""
        self._connections: Reply = None
        self._ends: frozenset[Connection] = frozenset()
        self._aside = {Box.REJECTED: names.rejected, Box.HELD: names.held, Box.TRASH: names.trash}

    def look(self) -> Look:
        """Looks once. Raises ``ServerTrouble``."""
        names = self._names
        due = self._facts_at is None or self._monotonic() - self._facts_at >= _FACTS_EVERY
        asks = [key for key in (names.stream, *self._aside.values()) if self.kept.due(key)]
        stream: Command = ("EVAL_RO", STREAM, 1, names.stream) if self._scripts else ("XINFO", "STREAM", names.stream)
        first: list[Command] = [
            ("TIME",), stream if names.stream in asks else ("XLEN", names.stream),
            ("XINFO", "GROUPS", names.stream), ("XINFO", "CONSUMERS", names.stream, names.group),
            ("HSCAN", names.consumers, 0, "COUNT", _HASHED), ("GET", names.paused),
        ]  # fmt: skip
        first += [("XLEN", key) for key in self._aside.values()]
        sides = [key for key in self._aside.values() if key in asks]
        first += [("EVAL_RO", FIRST, 1, key, "-") for key in sides]
        known = self._known
        leases: list[Command] = [("PTTL", names.lease(name)) for name in known]
        facts_too: list[Command] = [*_FACTS, ("MEMORY", "USAGE", names.stream)]
        replies = self._server.ask(*first, *leases, *(facts_too if due else ()))
        basic, ttls, facts = replies[: len(first)], replies[len(first) :][: len(known)], replies[len(first) + len(known) :]
        with translate_errors():
            if due:
                self._facts, self._facts_at = _facts_of(facts), self._monotonic()
                self._hidden_facts = _hidden(zip(_SERVER_FACTS, (facts[0], facts[3]), strict=True))
            self.kept.note(dict(zip(sides, basic[9:], strict=True)), _first_size)
            if names.stream not in asks and (basic[1] == 0 or isinstance(basic[2], ErrorReply)):
                self.kept.forget(names.stream)  # it is empty or gone
                return self.look()
            if names.stream in asks and not isinstance(basic[1], ErrorReply):
                self.kept.note({names.stream: basic[1]}, _stream_size)
            elif names.stream in asks and self._scripts and not _is_gone(basic[1]):  # denied, or an old server
                self._scripts = False
                return self.look()
            return self._with_leases(self._parsed(basic), dict(zip(known, ttls, strict=True)), due=due)

    def _parsed(self, replies: Sequence[Reply]) -> Look:
        asked = None if isinstance(replies[1], int) else self._stream(replies[1])
        groups = tuple(map(_group, list_of(replies[2])))
        stream = asked if asked is not None else self._kept_stream(number_of(replies[1]), groups, text_of(list_of(replies[0])[0]))
        group = next((one for one in groups if one.name == self._names.group), None)
        if group is None:
            raise ServerTrouble(_NO_GROUP)
        seconds, micros = (int(text_of(part)) for part in list_of(replies[0]))
        hashed = [] if isinstance(replies[4], ErrorReply) else list_of(list_of(replies[4])[1])
        flat = [text_of(word) for word in hashed]
        processes = dict(zip(flat[::2], flat[1::2], strict=True))
        consumers = [_consumer(one) for one in list_of(replies[3])]
        known = {one.name for one in consumers}
        consumers += [ConsumerState(name, 0, None) for name in processes if name not in known]
        lengths, oldest = replies[6:9], [self.kept.answer(key) for key in self._aside.values()]
        aside = {box: _side(count, head) for box, count, head in zip(self._aside, lengths, oldest, strict=True)}
        paused = replies[5] if isinstance(replies[5], bytes) else None
        return Look(
            seconds + micros / 1e6, number_of(stream["length"]), number_of(stream.get("entries-added", stream["length"])),
            _entry_id(stream["first-entry"]), text_of(stream["last-generated-id"]), groups, group, tuple(consumers), aside,
            paused, self._facts_now(), processes=processes,
            hidden={**self._hidden_facts, **_hidden(zip(_FIRST_FACTS, (replies[4], replies[5], oldest[0]), strict=True))},
        )  # fmt: skip

    def _facts_now(self) -> ServerFacts:
        """Returns the facts about the server with what has passed since they were asked."""
        facts, at = self._facts, self._facts_at
        if facts.behind is None or at is None:
            return facts
        return replace(facts, behind=facts.behind + round(self._monotonic() - at))

    def _kept_stream(self, length: int, groups: Sequence[GroupState], second: str) -> dict[str, Reply]:
        """Returns the facts that were kept of the stream, brought up to date by its ``length`` and its groups."""
        found = fields_of(self.kept.answer(self._names.stream))
        before = number_of(found.get("entries-added", found["length"]))
        counted = [one.entries_read + one.lag for one in groups if one.entries_read is not None and one.lag is not None]
        added = max(counted, default=before + max(0, length - number_of(found["length"])))
        if added > before:  # its last id is some id until now
            found["last-generated-id"] = f"{second}999-0".encode()
        return {**found, "length": length, "entries-added": added}

    def _stream(self, reply: Reply) -> dict[str, Reply]:
        if isinstance(reply, ErrorReply):
            if "no such key" in str(reply):
                raise ServerTrouble(_NO_STREAM)
            if str(reply).startswith("WRONGTYPE"):
                raise ServerTrouble(_NOT_A_STREAM)
        return fields_of(reply)

    def _with_leases(self, look: Look, ttls: dict[str, Reply], *, due: bool) -> Look:
        """Adds what only some consumers need: leases that were not asked for yet, processes that were not in the first answer,
        and the names of connections, now and then, where consumers have no lease."""
        names = tuple(one.name for one in look.consumers if not one.name.startswith("~"))
        now = self._monotonic()
        self._note_leases(ttls, now)
        others = [name for name in names if not self._is_known(name, now)]
        come = any(name not in self._leases for name in others)
        holders = [one.name for one in look.consumers if one.pending and one.name not in look.processes]
        holders = holders[:_HASHED] if len(look.processes) >= _HASHED else []
        commands: list[Command] = [("PTTL", self._names.lease(name)) for name in others]
        commands += [("HGET", self._names.consumers, name) for name in holders]
        replies = self._server.ask(*commands) if commands else []
        self._note_leases(dict(zip(others, replies, strict=False)), now)
        ttls = {name: _left(*self._leases[name], now) for name in names}
        more = zip(holders, replies[len(others) :], strict=True)
        processes = {**look.processes, **{name: text_of(reply) for name, reply in more if isinstance(reply, bytes)}}
        denied = next(filter(_is_denied, map(ttls.__getitem__, names)), None)
        leases = {name: ttl for name in names if (ttl := _lease(ttls[name])) is not None}
        unleased = any(name not in leases and name not in processes for name in names)
        if due or come or (unleased and self._connections is None):
            self._ask_connections(look.server.clients if unleased else None)
        self._known = self._asked_next(look)
        for gone in self._leases.keys() - set(names):
            del self._leases[gone]
        hidden = _hidden((("leases", denied), ("names of connections", self._connections)))
        return replace(
            look, leases=None if denied is not None else leases, processes=processes,
            connected=_connections(self._connections), connections=self._ends, hidden={**look.hidden, **hidden},
        )  # fmt: skip

    def _note_leases(self, ttls: Mapping[str, Reply], now: float) -> None:
        for name, ttl in ttls.items():
            self._leases.pop(name, None)
            self._leases[name] = ttl, now

    def _is_known(self, name: str, now: float) -> bool:
        """True if the lease of a consumer was asked for, and cannot have ended since."""
        asked = self._leases.get(name)
        if asked is None:
            return False
        left = _left(*asked, now)
        return not isinstance(left, int) or left == _NO_END or left > 0 or asked[0] == _NO_LEASE

    def _asked_next(self, look: Look) -> tuple[str, ...]:
        """Returns the consumers whose leases the next look asks for."""
        holding = {one.name for one in look.consumers if one.pending}
        in_turn = sorted(self._leases, key=lambda name: name not in holding)
        return tuple(in_turn[:_LEASES])

    def _ask_connections(self, clients: int | None) -> None:
        """Asks for the list of connections; ``clients`` None: nobody needs it."""
        self._connections, self._ends = None, frozenset()
        if clients is not None and clients <= _CLIENTS_AT_MOST:
            (self._connections,) = self._server.ask(("CLIENT", "LIST"))
            ends = _ends(self._connections)
            self._ends = ends if self._server.ends in ends else self._ends


_FIRST_FACTS = ("processes of consumers", "a pause", "sizes of claims and ages of what was set aside")
_SERVER_FACTS = ("memory and role of the server", "size of the stream")
_FACTS: list[Command] = [("INFO", "memory"), ("INFO", "replication"), ("INFO", "clients")]


def _facts_of(replies: Sequence[Reply]) -> ServerFacts:
    memory, replication, clients = map(section, replies[:3])
    replica = replication.get("role") == "slave"
    linked = replication.get("master_link_status") == "up"
    since = replication.get("master_last_io_seconds_ago" if linked else "master_link_down_since_seconds")
    used = replies[3] if isinstance(replies[3], int) else None
    return ServerFacts(
        _int(memory.get("used_memory")), _int(memory.get("maxmemory")) or 0, memory.get("maxmemory_policy", ""),
        _int(since) if replica else None, replica,
        _int(clients.get("connected_clients")) or 0, used,
    )  # fmt: skip


def _is_denied(reply: Reply) -> bool:
    return isinstance(reply, ErrorReply) and str(reply).startswith("NOPERM")


def _hidden(asked: Iterable[tuple[str, Reply]]) -> dict[str, str]:
    """Returns which of these facts this user may not ask for, with what the server said."""
    return {fact: trouble_of_reply(str(reply)).what for fact, reply in asked if _is_denied(reply)}


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
        return SideState(None, None, trouble_of_reply(str(count)).what)
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


def _is_gone(reply: Reply) -> bool:
    """True if the server answers that there is no such stream."""
    text = str(reply)
    return isinstance(reply, ErrorReply) and ("no such key" in text or "WRONGTYPE" in text)


def _left(ttl: Reply, asked: float, now: float) -> Reply:
    """Returns what is left by ``now`` of a lease of ``ttl`` milliseconds, as PTTL answers."""
    return ttl if not isinstance(ttl, int) or ttl < 0 else max(0, ttl - round((now - asked) * 1000))


def _lease(reply: Reply) -> int | None:
    return reply if isinstance(reply, int) and reply >= -1 else None


def _connections(reply: Reply) -> frozenset[str] | None:
    """Returns the names of all connections; None where this user may not ask."""
    if not isinstance(reply, bytes):
        return None
    words = (word for line in text_of(reply).splitlines() for word in line.split(" "))
    return frozenset(name for word in words if word.startswith("name=") and (name := word[5:]))


def _ends(reply: Reply) -> frozenset[Connection]:
    """Returns both ends of all connections, as the server sees them."""
    lines = text_of(reply).splitlines() if isinstance(reply, bytes) else ()
    facts = (dict(word.partition("=")[::2] for word in line.split(" ")) for line in lines)
    return frozenset((one["addr"], one["laddr"]) for one in facts if "addr" in one and "laddr" in one)
