"""Look at a stream and its group: two exchanges with the server, and the facts that they tell."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from spooltop.model.vocabulary import Box
from spooltop.records import dataclass, field, replace

from ..client import ErrorReply, Reply
from ..stream_names import StreamNames
from ..trouble import Kind, Trouble, trouble_of_reply
from .server import scripts
from .server.replies import entry_time, fields_of, id_order, list_of, number_of, section, text_of
from .server.requests import Command, ServerTrouble, StreamServer, told

__all__ = ["ConsumerState", "GroupState", "Look", "Looker", "ServerFacts", "SideState"]

_FACTS_EVERY = 5.0
"""Seconds between two questions about the server itself."""
_LARGE = 256
"""Bytes of the first and the last entry from which a script leaves them out."""
_HASHED = 100
"""Consumers in one answer about their processes."""
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


@dataclass(frozen=True, slots=True)
class ServerFacts:
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


@dataclass(frozen=True, slots=True)
class Look:
    """Facts of one look, at ``now`` by the clock of the server.

    ``leases`` are milliseconds (-1: without an end), None for one that ended; ``processes`` are ``HOST PID`` by consumer, of
    those that hold leases; ``connected`` are the names of all connections, None where they cannot be asked for. ``leases`` is
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
    hidden: Mapping[str, str] = field(default_factory=dict)


class Looker:
    """Takes the looks. ``monotonic`` says when the server itself is asked about again."""

    def __init__(self, server: StreamServer, names: StreamNames, monotonic: Callable[[], float]) -> None:
        self._server = server
        self._names = names
        self._monotonic = monotonic
        self._facts = ServerFacts()
        self._facts_at: float | None = None
        self._large = False
        self._scripts = True
        self._hidden_facts: Mapping[str, str] = {}
        self._known: tuple[str, ...] = ()
        self._connections: Reply = None
        self._aside = {Box.REJECTED: names.rejected, Box.HELD: names.held, Box.TRASH: names.trash}

    def look(self) -> Look:
        """Looks once. Raises ``ServerTrouble``."""
        names = self._names
        due = self._facts_at is None or self._monotonic() - self._facts_at >= _FACTS_EVERY
        short = self._large and self._scripts
        first: list[Command] = [
            ("TIME",), ("EVAL_RO", scripts.STREAM, 1, names.stream) if short else ("XINFO", "STREAM", names.stream),
            ("XINFO", "GROUPS", names.stream), ("XINFO", "CONSUMERS", names.stream, names.group),
            ("HSCAN", names.consumers, 0, "COUNT", _HASHED), ("GET", names.paused),
        ]  # fmt: skip
        first += [("XLEN", key) for key in self._aside.values()]
        first += [("EVAL_RO", scripts.SKIP, 1, key, "-", "+", 1) for key in self._aside.values()]
        known = self._known
        leases: list[Command] = [("PTTL", names.lease(name)) for name in known]
        facts_too: list[Command] = [*_FACTS, ("MEMORY", "USAGE", names.stream)]
        replies = self._server.ask(*first, *leases, *(facts_too if due else ()))
        basic, ttls, facts = replies[: len(first)], replies[len(first) :][: len(known)], replies[len(first) + len(known) :]
        with told():
            if due:
                self._facts, self._facts_at = _facts_of(facts), self._monotonic()
                self._hidden_facts = _hidden(zip(_SERVER_FACTS, (facts[0], facts[3]), strict=True))
            self._scripts = not _is_denied(basic[9])
            return self._with_leases(self._parsed(basic), dict(zip(known, ttls, strict=True)), due=due)

    def _parsed(self, replies: Sequence[Reply]) -> Look:
        stream = self._stream(replies[1])
        groups = tuple(map(_group, list_of(replies[2])))
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
        lengths, oldest = replies[6:9], replies[9:12]
        aside = {box: _side(count, head) for box, count, head in zip(self._aside, lengths, oldest, strict=True)}
        paused = replies[5] if isinstance(replies[5], bytes) else None
        return Look(
            seconds + micros / 1e6, number_of(stream["length"]), number_of(stream.get("entries-added", stream["length"])),
            _entry_id(stream["first-entry"]), text_of(stream["last-generated-id"]), groups, group, tuple(consumers), aside,
            paused, self._facts_now(), processes=processes,
            hidden={**self._hidden_facts, **_hidden(zip(_FIRST_FACTS, (replies[4], replies[5], replies[9]), strict=True))},
        )  # fmt: skip

    def _facts_now(self) -> ServerFacts:
        """Returns the facts about the server with what has passed since they were asked."""
        facts, at = self._facts, self._facts_at
        if facts.behind is None or at is None:
            return facts
        return replace(facts, behind=facts.behind + round(self._monotonic() - at))

    def _stream(self, reply: Reply) -> dict[str, Reply]:
        if isinstance(reply, ErrorReply):
            if "no such key" in str(reply):
                raise ServerTrouble(_NO_STREAM)
            if str(reply).startswith("WRONGTYPE"):
                raise ServerTrouble(_NOT_A_STREAM)
        found = fields_of(reply)
        self._large = self._large or any(_entry_size(found[name]) > _LARGE for name in ("first-entry", "last-entry"))
        return found

    def _with_leases(self, look: Look, ttls: dict[str, Reply], *, due: bool) -> Look:
        """Adds what only some consumers need: leases that were not asked for yet, processes that were not in the first answer,
        and the names of connections, now and then, where consumers have no lease."""
        names = tuple(one.name for one in look.consumers if not one.name.startswith("~"))
        others = [name for name in names if name not in ttls]
        holders = [one.name for one in look.consumers if one.pending and one.name not in look.processes]
        holders = holders[:_HASHED] if len(look.processes) >= _HASHED else []
        commands: list[Command] = [("PTTL", self._names.lease(name)) for name in others]
        commands += [("HGET", self._names.consumers, name) for name in holders]
        replies = self._server.ask(*commands) if commands else []
        ttls |= zip(others, replies, strict=False)
        more = zip(holders, replies[len(others) :], strict=True)
        processes = {**look.processes, **{name: text_of(reply) for name, reply in more if isinstance(reply, bytes)}}
        denied = next(filter(_is_denied, map(ttls.__getitem__, names)), None)
        leases = {name: ttl for name in names if (ttl := _lease(ttls[name])) is not None}
        unleased = any(name not in leases and name not in processes for name in names)
        if due or others or (unleased and self._connections is None):
            self._ask_connections(look.server.clients if unleased else None)
        self._known = names
        hidden = _hidden((("leases", denied), ("names of connections", self._connections)))
        return replace(
            look, leases=None if denied is not None else leases, processes=processes,
            connected=_connections(self._connections), hidden={**look.hidden, **hidden},
        )  # fmt: skip

    def _ask_connections(self, clients: int | None) -> None:
        """Asks for the list of connections; ``clients`` None: nobody needs it."""
        self._connections = None
        if clients is not None and clients <= _CLIENTS_AT_MOST:
            (self._connections,) = self._server.ask(("CLIENT", "LIST"))


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
    return sum(len(one) for one in fields if isinstance(one, bytes)) if isinstance(fields, list) else 0


def _lease(reply: Reply) -> int | None:
    return reply if isinstance(reply, int) and reply >= -1 else None


def _connections(reply: Reply) -> frozenset[str] | None:
    """Returns the names of all connections; None where this user may not ask."""
    if not isinstance(reply, bytes):
        return None
    words = (word for line in text_of(reply).splitlines() for word in line.split(" "))
    return frozenset(name for word in words if word.startswith("name=") and (name := word[5:]))
