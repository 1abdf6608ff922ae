"""Questions to a server with streams, and nothing that writes: a look at a stream and its group in two exchanges, verdicts on the
consumers by what they tell, changes, rights; and entries and claims as rows, and lists of them that page: windows are fetched
when they are shown."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from time import monotonic, time
from typing import Any, NamedTuple, TypeAlias

from msgspec import Struct, field

from spooltop.model import AnswerLost, Capabilities, ListQuery, Refused, Selection, SpooltopError, Unavailable
from spooltop.model.vocabulary import ASIDE, Action, Box, Frozen, Key, Owner, Row, Verdict, age, escape

from ...surroundings import Connection, LocalClient, Surroundings
from ..client import (
    Endpoint,
    ErrorReply,
    Nonsense,
    RedisClient,
    Reply,
    bytes_of,
    fields_of,
    list_of,
    number_of,
    text_of,
    trouble_of,
)
from ..stream_names import HANDED_BACK, LATER, LeaseRecord, StreamNames, gone_words

# A server with streams, asked within limits of time and size; its failures are said in words.

Command = Sequence[str | bytes | int]
_BYTES = 64 << 20
_REST = 3.0
"""Seconds after a question that was not answered in time, in which none is asked."""


class StreamServer(RedisClient):
    """Connection to a server, for one thread. It connects again by itself."""

    patience = 2.0
    """Seconds that one question may take in all."""
    _rest_until = 0.0
    _trouble = SpooltopError("")

    def ask(self, *commands: Command) -> list[Reply]:
        """Returns the answers to these commands, sent together; a command that failed has an ``ErrorReply``. Raises
        ``Unavailable``. After a question that was not answered in time it raises that at once for some seconds, so that nobody
        who waits for the reader waits for one question after another."""
        if monotonic() >= self._rest_until:
            self.allowance.begin(self.patience, _BYTES)
            try:
                return super().ask(*commands)
            except SpooltopError as trouble:
                self._trouble = trouble
                if self.allowance.seconds_left <= 0:
                    self._rest_until = monotonic() + _REST
        raise Unavailable(self._trouble.what, self._trouble.advice, path=self.address)


@contextmanager
def translate_errors(path: str | None = None) -> Iterator[None]:
    """Raises what is wrong with an answer as ``Unavailable``."""
    try:
        try:
            yield
        except (IndexError, KeyError, TypeError, ValueError) as error:  # an answer of another shape
            raise Nonsense(f"not what was asked for ({type(error).__name__})") from None
    except SpooltopError as trouble:
        raise Unavailable(trouble.what, trouble.advice, path=path) from None


# Connection of an operator, and what a user of the server may do, found out without changing anything.

Word = str | bytes | int
_SECONDS = 5.0
_OPERATOR_BYTES = 256 << 20


class OperatorConnection(RedisClient):
    """Connection to the server of one group. ``address`` names the group in errors, without a password."""

    def __init__(self, endpoint: Endpoint, address: str, names: StreamNames) -> None:
        super().__init__(endpoint, address)
        self.names = names

    def ask(self, *commands: Command) -> list[Reply]:
        self.allowance.begin(_SECONDS, _OPERATOR_BYTES)
        return super().ask(*commands)

    def answer(self, *command: Word) -> Reply:
        """Returns the answer to a command. Raises as ``ask`` does, and ``Refused``, ``SpoolFull`` and ``Unreadable`` for an error
        that the server answers."""
        (reply,) = self.ask(command)
        if isinstance(reply, ErrorReply):
            trouble = trouble_of(reply)
            if self.sent_before:  # it may have been done then, whatever the server says now
                raise AnswerLost(trouble.what, trouble.advice, path=self.address)
            trouble.path = self.address
            raise trouble
        return reply


SOURCES: Mapping[Action, tuple[Box, ...]] = {
    Action.REQUEUE: (Box.CUR, Box.REJECTED, Box.HELD, Box.NEW),
    Action.PURGE: (Box.CUR, Box.NEW, Box.REJECTED, Box.HELD),
    Action.HOLD: (Box.CUR, Box.NEW),
    Action.RELEASE: (Box.HELD,),
    Action.RESTORE: (Box.TRASH, Box.HELD, Box.REJECTED),
    Action.EMPTY: (Box.TRASH,),
}
"""Boxes that each action takes from. Undo is not among them: it reverses what the journal says."""

_DENIED = """
-- KEYS stream; ARGV group. Returns the commands that this user may not send, without trying one: the server logs what it refuses.
local denied = {}
for _, words in ipairs({{'XACK', KEYS[1], ARGV[1], '0-0'}, {'XDEL', KEYS[1], '0-0'}, {'EVAL', 'return 1', '0'}, {'ROLE'}}) do
  if not redis.acl_check_cmd(unpack(words)) then denied[#denied + 1] = words[1] end
end
return denied
"""
_NEEDED = {"XACK": "acknowledge messages", "XDEL": "delete messages", "EVAL": "run scripts", "EVAL_RO": "run scripts"}


def can_change(server: OperatorConnection) -> Capabilities:
    """Returns what may be done to a group. Raises ``Unavailable``, also while the server takes no changes."""
    names = server.names
    try:
        probe = ("XACK", names.stream, names.group, "0-0")  # which no entry has
        (reply,) = server.ask(("EVAL_RO", _DENIED, 1, names.stream, names.group))
        if is_denied(reply):
            denied = {"XACK" if is_denied(*server.ask(probe)) else "EVAL_RO"}
        else:
            denied = set(map(text_of, list_of(reply)))
        for command, what in _NEEDED.items():
            if command in denied:
                return Capabilities.nothing(f"this user of the server may not {what} ({command})")
        if "ROLE" not in denied:
            check_master(server)
        server.answer(*probe)
    except Unavailable:
        raise
    except SpooltopError as error:
        return Capabilities.nothing(f"{error.what}; {error.advice}")
    return Capabilities({Action.UNLOCK: "a stream has no locks"}, boxes=SOURCES)


def check_master(server: OperatorConnection) -> None:
    """Raises ``Refused`` on a replica. Where this user may not ask, the change itself finds out."""
    (role,) = server.ask(("ROLE",))
    if not isinstance(role, ErrorReply) and text_of(list_of(role)[0]) != "master":
        what = "the server is a replica: it is changed on its master"
        raise Refused(what, "open its master instead", path=server.address)


# Answers of a server, checked and turned into plain values; and the ids of entries.

ZERO = "0-0"
"""The id before all others."""
ID = re.compile(r"([0-9]{1,20})-([0-9]{1,20})\Z")


def section(reply: Reply) -> Mapping[str, str]:
    """Returns the lines ``name:value`` of an answer to INFO; empty where this user may not ask."""
    if isinstance(reply, ErrorReply):
        return {}
    lines = text_of(reply).split("\r\n")
    return dict(line.split(":", 1) for line in lines if ":" in line)


def id_order(id: str) -> tuple[int, int]:
    """Returns the place of an id among others. Raises ``Nonsense`` for what is no id.

    >>> id_order("9-1") < id_order("10-0") < id_order("10-2")
    True
    """
    found = ID.match(id)
    if found is None:
        raise Nonsense("an id that is none")
    return int(found[1]), int(found[2])


def checked_id(reply: Reply) -> str:
    """Returns the id of an entry. Raises ``Nonsense`` for what is none."""
    id_order(id := text_of(reply))
    return id


def entry_time(id: str) -> float:
    """Returns when an entry was put, in epoch seconds, as its id says.

    >>> entry_time("1763900000123-0")
    1763900000.123
    """
    return id_order(id)[0] / 1000


# Lua scripts that only read. They spare the network the contents of entries, and run with EVAL_RO on a replica too. Each looks
# at a few hundred entries at most, so that the server is held up for no more than about a millisecond. All but STREAM run a
# command that reads entries, or claims, of the stream KEYS[1]: its words are the last of ARGV.

# KEYS stream. XINFO STREAM with the sizes of the first and the last entry in place of their contents, which may be large.
STREAM = """
local found = redis.call('XINFO', 'STREAM', KEYS[1])
for at = 1, #found, 2 do
  local name, value = found[at], found[at + 1]
  if (name == 'first-entry' or name == 'last-entry') and value then
    local size = 0
    for _, word in ipairs(value[2]) do size = size + #word end
    found[at + 1] = {value[1], size}
  end
end
return found
"""

# ARGV 'heads' to read the entries of claims too, then the command. Returns of each entry or claim: id, consumer, milliseconds
# since it was delivered, number of deliveries, size, source, notes of spooltop (names and values), the time. The size is that of
# its field data, else of all fields together but for the notes; -1 where the entry was deleted or trimmed, -2 if it was not read.
DESCRIBED = """
local known = {['~id'] = true, ['~tries'] = true, ['~why'] = true, ['~from'] = true, ['~by'] = true}
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local out = {}
for _, one in ipairs(redis.call(unpack(ARGV, 2))) do
  local fields, consumer = one[2], ''
  if one[3] then
    fields, consumer = nil, one[2]
    if ARGV[1] == 'heads' then
      local entry = redis.call('XRANGE', KEYS[1], one[1], one[1])[1]
      fields = entry and entry[2]
    end
  end
  local all, data, source, notes = 0, false, false, {}
  for at = 1, #(fields or {}), 2 do
    if string.sub(fields[at], 1, 1) ~= '~' then all = all + #fields[at] + #fields[at + 1] end
    if fields[at] == 'data' then data = #fields[at + 1] end
    if fields[at] == 'source' then source = fields[at + 1] end
    if known[fields[at]] then notes[#notes + 1] = fields[at]; notes[#notes + 1] = fields[at + 1] end
  end
  local size = fields and (data or all) or ARGV[1] == 'heads' and -1 or -2
  out[#out + 1] = {one[1], consumer, one[3] or 0, one[4] or 0, size, source, notes, now}
end
return out
"""

# Returns how many entries or claims there are, the id of the last of them, and its size if it is an entry.
SKIP = """
local found = redis.call(unpack(ARGV))
local last = found[#found] or {'', {}}
local size = 0
for _, word in ipairs(type(last[2]) == 'table' and last[2] or {}) do size = size + #word end
return {#found, last[1], size}
"""


# Waits for changes: new entries by XREAD on a connection of its own, and all else by a look a second.

_PERIOD = 1.0
"""Seconds between two looks at least: claims, acks and leases send no event."""
_BLOCK = 5.0


class StreamChanges:
    """Listens for an entry of ``stream`` while somebody waits, and for ``_BLOCK`` seconds more at most. ``wait`` and ``wake`` may
    be called from any thread."""

    def __init__(self, endpoint: Endpoint, stream: str) -> None:
        self._server = StreamServer(endpoint)
        self._server.patience += _BLOCK
        self._stream = stream
        self._looked = monotonic()
        self._woken = threading.Event()
        self._listener = threading.Thread()
        self.wake = self._woken.set

    def looked(self) -> None:
        """Notes that the reader looks: what comes from now on is a change."""
        self._looked = monotonic()
        self._woken.clear()

    def wait(self, timeout: float) -> bool:
        """Waits up to ``timeout`` seconds for an entry, ``wake``, or the time of the next look."""
        if timeout > 0 and not self._listener.is_alive():
            self._listener = threading.Thread(target=self._listen, name="stream-changes", daemon=True)
            self._listener.start()
        left = max(0.0, self._looked + _PERIOD - monotonic())
        woken = self._woken.wait(min(timeout, left))
        self._woken.clear()
        return woken or left <= timeout

    def _listen(self) -> None:
        with suppress(Unavailable), translate_errors():  # whoever looks says so
            (reply,) = self._server.ask(("XREAD", "COUNT", 1, "BLOCK", int(_BLOCK * 1000), "STREAMS", self._stream, "$"))
            if reply is not None and list_of(reply):
                self._woken.set()


# A look at a stream and its group.

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
    """A consumer; ``idle`` is seconds since it last asked, None for one that is only known by its lease. ``record`` is its
    ``LeaseRecord``, None for one that holds no leases; ``lease`` the milliseconds that are left of one that runs (-1: without an
    end), None where none does."""

    name: str
    pending: int
    idle: float | None
    record: str | None = None
    lease: int | None = None


class SideState(NamedTuple):
    """A stream of messages that were set aside; ``oldest_at`` is when its oldest was. ``length`` None: it may not be asked, and
    ``note`` says why."""

    length: int | None
    oldest_at: float | None
    note: str = ""


class ServerFacts(Frozen):
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


class Look(Frozen):
    """Facts of one look, at ``now`` by the clock of the server.

    ``connected`` are the names of all connections, None where they cannot be asked for; ``connections`` are their ends, where the
    server sees those that this host sees: there is no proxy between. ``hidden`` are the facts that this user may not ask for,
    each with the reason.
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
    connected: frozenset[str] | None = None
    connections: frozenset[Connection] = frozenset()
    hidden: Mapping[str, str] = {}


class KeptAnswers(Struct):
    """The last answers to questions for which the server reads an entry, by key. One about a large entry is kept for a while: in
    the mean no look makes the server read more than ``_CHEAP`` bytes a second."""

    _kept: dict[str, tuple[Any, float]] = {}

    def due(self, key: str) -> bool:
        """True if it is time to ask again."""
        return key not in self._kept or monotonic() >= self._kept[key][1]

    def note(self, key: str, answer: object, size: int = 0) -> None:
        """Notes an answer about entries of ``size`` bytes."""
        self._kept[key] = answer, monotonic() + (min(_RAREST, size / _CHEAP) if size > _CHEAP else 0.0)

    def answer(self, key: str) -> Any:
        return self._kept[key][0]


class Looker(Struct):
    """Takes the looks."""

    _server: RedisClient
    _names: StreamNames
    _facts: ServerFacts = ServerFacts()
    _facts_at: float = float("-inf")
    _scripts: bool = True
    kept: KeptAnswers = field(default_factory=KeptAnswers)
    """Answers for which the server reads an entry."""
    _hidden_facts: Mapping[str, str] = {}
    _unleased: frozenset[str] = frozenset()
    """Consumers without a lease at the last look."""
    _clients: Reply = None
    _connected: frozenset[str] | None = None
    _connections: frozenset[Connection] = frozenset()

    def look(self) -> Look:
        """Looks once. Raises ``Unavailable``."""
        names = self._names
        due = monotonic() - self._facts_at >= _FACTS_EVERY
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
        facts: list[Command] = [*_FACTS, ("MEMORY", "USAGE", names.stream)] if due else []
        replies = iter(self._server.ask(*first, *heads, *facts))
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
            if due:
                self._facts, self._hidden_facts, self._facts_at = *_facts_of([*replies]), monotonic()
            return self._with_leases(self._parsed(basic, fresh=names.stream in asked), due=due)

    def _check_stream(self, groups: Reply) -> None:
        """Raises ``Unavailable`` where the question about its groups was answered that there is no such stream."""
        if isinstance(groups, ErrorReply):
            self.kept.note(self._names.stream, None)
            if "no such key" in str(groups):
                raise Unavailable("there is no such stream any more", "look if the server lost its data")
            if str(groups).startswith("WRONGTYPE"):
                raise Unavailable("it is not a stream any more", "look who wrote over it")

    def _parsed(self, replies: Sequence[Reply], *, fresh: bool) -> Look:
        clock, entries, group_facts, consumer_facts, records, paused, *lengths = replies
        time, length = [int(text_of(part)) for part in list_of(clock)], number_of(entries)
        groups = tuple(map(_group, list_of(group_facts)))
        stream = fields_of(self.kept.answer(self._names.stream))
        added = number_of(stream.get("entries-added", stream["length"]))
        first, last = stream["first-entry"], text_of(stream["last-generated-id"])
        if fresh:
            length = number_of(stream["length"])
        else:  # the facts that were kept are brought up to date by the length and the groups
            counted = [one.entries_read + one.lag for one in groups if one.entries_read is not None and one.lag is not None]
            before, added = added, max(counted, default=added + max(0, length - number_of(stream["length"])))
            if added > before:  # its last id is some id until now
                last = f"{time[0]}999-0"
        group = next((one for one in groups if one.name == self._names.group), None)
        if group is None:
            raise Unavailable("the stream has no such group any more", "spooltop init makes it, from the first entry on")
        told = {} if isinstance(records, ErrorReply) else fields_of(list_of(records)[1])
        known = {name: text_of(record) for name, record in told.items()}
        consumers = [_consumer(one, known) for one in list_of(consumer_facts)]
        listed = {one.name for one in consumers}
        consumers += [ConsumerState(name, 0, None, record) for name, record in known.items() if name not in listed]
        oldest = [self.kept.answer(self._names.of_box(box)) for box in _ASIDE]
        facts = self._facts
        if facts.behind is not None:
            facts = facts.replace(behind=facts.behind + round(monotonic() - self._facts_at))
        return Look(
            time[0] + time[1] / 1e6, length, added, None if first is None else checked_id(list_of(first)[0]), last, groups,
            group, tuple(consumers),
            {box: _side(count, head) for box, count, head in zip(_ASIDE, lengths, oldest, strict=True)},
            paused if isinstance(paused, bytes) else None, facts,
            hidden={**self._hidden_facts, **_hidden({
                "processes of consumers": records, "a pause": paused,
                "sizes of claims and ages of what was set aside": oldest[0],
            })},
        )  # fmt: skip

    def _with_leases(self, look: Look, *, due: bool) -> Look:
        """Adds what only some consumers need: leases, records that were not in the first answer, and the names of connections,
        now and then, where consumers have no lease."""
        known = [one.name for one in look.consumers if not one.name.startswith("~")]
        whole = sum(one.record is not None for one in look.consumers) < _HASHED
        holders = [] if whole else [one.name for one in look.consumers if one.pending and one.record is None][:_HASHED]
        commands: list[Command] = [("PTTL", self._names.lease(name)) for name in known]
        commands += [("HGET", self._names.consumers, name) for name in holders]
        replies = iter(self._server.ask(*commands) if commands else ())
        ttls, more = dict(zip(known, replies, strict=False)), dict(zip(holders, replies, strict=True))
        consumers = tuple(
            one._replace(
                record=text_of(record) if isinstance(record := more.get(one.name), bytes) else one.record,
                lease=ttl if isinstance(ttl := ttls.get(one.name), int) and ttl >= -1 else None,
            )
            for one in look.consumers
        )
        before, self._unleased = self._unleased, frozenset(
            one.name for one in consumers if one.lease is None and one.record is None and one.name in ttls
        )
        if due or self._unleased - before or (self._unleased and self._clients is None):  # also where that was not answered
            self._ask_connections(look.server.clients if self._unleased else None)
        denied = next(filter(is_denied, ttls.values()), None)
        hidden = _hidden({"leases": denied, "names of connections": self._clients})
        return look.replace(
            consumers=consumers, connected=self._connected, connections=self._connections, hidden={**look.hidden, **hidden}
        )

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
    ), _hidden({"memory and role of the server": replies[0], "size of the stream": replies[3]})  # fmt: skip


def no_script(reply: Reply) -> bool:
    """True for the error of a server that does not know scripts that only read, or does not let this user run them."""
    return is_denied(reply) or (isinstance(reply, ErrorReply) and str(reply).startswith("ERR unknown command"))


def is_denied(reply: Reply) -> bool:
    """True for the error of a server that this user may not do that."""
    return isinstance(reply, ErrorReply) and str(reply).startswith("NOPERM")


def _hidden(asked: Mapping[str, Reply]) -> dict[str, str]:
    """Returns which of these facts this user may not ask for, with what the server said."""
    return {fact: trouble_of(reply).what for fact, reply in asked.items() if isinstance(reply, ErrorReply) and is_denied(reply)}


def _int(word: str | None) -> int | None:
    return int(word) if word is not None and word.removeprefix("-").isdecimal() else None


def _group(reply: Reply) -> GroupState:
    found = fields_of(reply)
    read, lag = found.get("entries-read"), found.get("lag")
    return GroupState(
        text_of(found["name"]), number_of(found["pending"]), checked_id(found["last-delivered-id"]),
        None if read is None else number_of(read), None if lag is None else number_of(lag),
    )  # fmt: skip


def _consumer(reply: Reply, records: Mapping[str, str]) -> ConsumerState:
    found = fields_of(reply)
    name = text_of(found["name"])
    return ConsumerState(name, number_of(found["pending"]), number_of(found["idle"]) / 1000, records.get(name))


def _side(count: Reply, head: Reply) -> SideState:
    if isinstance(count, ErrorReply):
        return SideState(None, None, trouble_of(count).what)
    oldest = text_of(list_of(head)[1]) if isinstance(head, list) else ""
    return SideState(number_of(count), entry_time(oldest) if oldest else None)


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


class JudgedMember(Frozen):
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

    def _lease_words(self, look: Look, state: ConsumerState, owner: Owner) -> str:
        """Says of a consumer with a lease that its process is gone, if it was one of this host; "" of others. Another machine may
        have the name of this one, so the lease decides all the same."""
        left = state.lease or 0
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

    def consumers(self, look: Look) -> dict[str, JudgedMember]:
        """Judges the consumers of a look, by name; those that are no programs are left out.

        The first of these that applies decides: its lease runs; it held leases, and none runs; a connection has its name; its
        name is that of this host and a number, and what is known of such a process.
        """
        found: dict[str, JudgedMember] = {}
        numbered: list[tuple[ConsumerState, int]] = []
        for state in look.consumers:
            if state.name in (HANDED_BACK, LATER):
                continue
            owner, ends = _owner(state), ""
            if state.record is not None and "leases" in look.hidden:
                verdict, words = Verdict.UNKNOWN, "this user may not read its lease"
            elif state.lease is not None:
                ends = self._lease_words(look, state, owner)
                verdict, words = Verdict.ALIVE, ends or "its lease runs"
            elif state.record is not None:
                named = owner.host is not None and state.name.startswith(f"{owner.host}-{owner.pid}-")
                where = f"; it was pid {owner.pid} of {escape(owner.host)}" if owner.host and owner.pid and not named else ""
                verdict, words = Verdict.DEAD, f"its lease ended{where}"
            elif look.connected is not None and state.name in look.connected:
                verdict, words = Verdict.ALIVE, "a connection has its name"
            elif (parts := _HOST_PID.match(state.name)) is not None and parts[1] == self._here:
                numbered.append((state, int(parts[2])))
                continue
            else:
                verdict, words = Verdict.UNKNOWN, _unknown(state, look)
            found[state.name] = JudgedMember(*state[:3], verdict, words, owner, bool(ends))
        if numbered:
            found.update(self._numbered(look, numbered))
        return found

    def _numbered(self, look: Look, numbered: Sequence[tuple[ConsumerState, int]]) -> Iterator[tuple[str, JudgedMember]]:
        """Judges consumers of this host, each with the number in its name; yields them with their names."""
        by_pid = self._by_pid([(pid, look.now - (state.idle or 0.0)) for state, pid in numbered])
        if not self.vouched:
            known = {name for name, one in self._seen.items() if one.connection in look.connections}
            asked = [pid for state, pid in numbered if state.name not in known]
            clients = {one.pid: one for one in self._around.clients(asked, look.connections)}
            self._seen |= {state.name: clients[pid] for state, pid in numbered if pid in clients}
        for (state, pid), (verdict, words) in zip(numbered, by_pid, strict=True):
            owner, client = Owner(self._here, pid, name=state.name), self._seen.get(state.name)
            ended = None if client is None else self._around.has_ended(client.pid, client.started)
            if self.vouched:
                pass
            elif client is None or ended is None or (ended and client.connection in look.connections):
                state_words = {Verdict.ALIVE: ", which is running", Verdict.DEAD: ", which has exited"}.get(verdict, f": {words}")
                verdict, words, owner = Verdict.UNKNOWN, f"may be pid {pid} of this host{state_words}", Owner(name=state.name)
            elif ended:
                verdict, words = Verdict.DEAD, f"pid {pid} of this host was connected, and has exited"
            else:
                verdict, words = Verdict.ALIVE, f"pid {pid} of this host was seen connected, and is running"
            yield state.name, JudgedMember(*state[:3], verdict, words, owner)


def _unknown(state: ConsumerState, look: Look) -> str:
    asked = "" if state.idle is None else f"; asked {age(state.idle)} ago"
    named = "no connection has its name" if look.connected is not None else "connections cannot be listed"
    return f"no lease, {named}{asked}"


def _owner(state: ConsumerState) -> Owner:
    record = LeaseRecord.parse(state.record or "")
    if record.host and record.pid is not None:
        moves_to = None if record.moves_to is None else record.moves_to.name
        return Owner(record.host, record.pid, name=state.name, moves_to=moves_to)
    return Owner(name=state.name)


# Rows of lists: entries that wait, claims, and messages that were set aside.


class PendingEntry(Frozen):
    """An entry, claimed by ``consumer`` at ``delivered`` (milliseconds of the server's clock), if it was delivered. ``size`` is
    None where it was not asked for, and where its entry is ``gone``: deleted or trimmed."""

    id: str
    consumer: str = ""
    delivered: int = 0
    deliveries: int = 0
    size: int | None = None
    source: str | None = None
    gone: bool = False
    notes: Mapping[str, str] = {}
    """Notes of spooltop about a message that was set aside, or put again."""


def fields_by_name(reply: Reply) -> dict[bytes, bytes]:
    """Returns the fields of an entry."""
    flat = [bytes_of(one) for one in list_of(reply)]
    return dict(zip(flat[::2], flat[1::2], strict=False))


def _described(
    id: Reply, consumer: Reply, idle: Reply = 0, deliveries: Reply = 0, size: Reply = -2, source: Reply = None,
    notes: Reply = None, now: Reply = None,
) -> PendingEntry:  # fmt: skip
    """Parses what the script DESCRIBED returns of an entry or a claim, or what the command itself does: then the fields of an
    entry are in place of ``consumer``."""
    fields = fields_by_name(consumer if isinstance(consumer, list) else notes or [])
    if isinstance(consumer, list):
        own = sum(len(name) + len(value) for name, value in fields.items() if not name.startswith(b"~"))
        size, source = len(fields[b"data"]) if b"data" in fields else own, fields.get(b"source")
    number, at = number_of(size), round(time() * 1000) if now is None else number_of(now)
    return PendingEntry(
        checked_id(id), text_of(consumer) if isinstance(consumer, bytes) else "", at - number_of(idle), number_of(deliveries),
        None if number < 0 else number, None if source is None else text_of(source), number == -1,
        {text_of(name): text_of(value) for name, value in fields.items() if name.startswith(b"~")},
    )  # fmt: skip


def claim_row(claim: PendingEntry, judged: JudgedMember | None) -> Row:
    """Returns the row of a claim. Its key holds what a change is checked against, besides the time: the consumer and the number
    of deliveries."""
    return Row(
        ("cur", claim.id, claim.consumer, claim.deliveries), Box.CUR, claim.id, claim.id, claim.size, entry_time(claim.id),
        claim.delivered / 1000, False, claim.source, claim.deliveries, Verdict.UNKNOWN if judged is None else judged.verdict,
        "its consumer is not known" if judged is None else judged.evidence,
        Owner(name=claim.consumer) if judged is None else judged.owner,
        "its entry was deleted or trimmed; only the claim is left" if claim.gone else "",
    )  # fmt: skip


def waiting_row(entry: PendingEntry, not_before: float | None = None) -> Row:
    """Returns the row of an entry that was never delivered, or was handed back and waits as the new ones do."""
    at = entry_time(entry.id)
    note = "its entry was deleted or trimmed" if entry.gone else ""
    return Row(
        ("new", entry.id), Box.NEW, entry.id, entry.id, entry.size, at, at, False, entry.source, entry.deliveries, note=note,
        not_before=not_before,
    )  # fmt: skip


def aside_row(box: Box, entry: PendingEntry, retention: float | None = None) -> Row:
    """Returns the row of a message that was set aside as the ``entry`` of a side stream. Its notes say which it was."""
    own, since, tries = entry.notes.get("~id", entry.id), entry_time(entry.id), entry.notes.get("~tries", "")
    try:
        put_at: float | None = entry_time(own)
    except Nonsense:
        put_at = None
    return Row(
        (box.value, entry.id), box, own, entry.id, entry.size, put_at, since, source=entry.source,
        attempt=int(tries) if tries.isascii() and tries.isdecimal() and len(tries) < 10 else None,
        reason=_reason(box, entry.notes), expires_at=None if not retention or box is not Box.TRASH else since + retention,
    )  # fmt: skip


def _reason(box: Box, notes: Mapping[str, str]) -> str:
    """Says why a message was set aside: what its consumer said, else who did it."""
    if (why := notes.get("~why")) or "~by" not in notes:
        return why or ""
    done = {Box.HELD: "held", Box.TRASH: f"purged from {notes.get('~from', 'the group')}"}.get(box, "set aside")
    return f"{done} by {notes['~by']}"


# Fetches pieces of a stream and of the list of pending messages: short ones, without the contents of entries.

_PAGE = 100
"""Entries in one answer."""
_CLAIMS_PAGE = 50
"""Claims in one answer, each with the size of its entry."""
_PLAIN_CLAIMS = 500
"""Claims in one answer without the sizes of their entries."""
_SKIPPED = 200
"""Entries that the server counts in one step: it reads their contents for that, some 3.5 µs each."""
_CLAIMS_SKIPPED = 500


def id_after(id: str) -> str:
    """Returns where a range begins that goes on behind ``id``; empty: at the beginning."""
    return f"({id}" if id else "-"


class StreamFetcher(Struct):
    """Reads one stream and one of its groups: the entries in ``Box.NEW`` or in the side stream of a box, or in ``Box.CUR`` the
    claims, of a ``consumer`` or of all. Every method may raise ``Unavailable``."""

    _ask: Callable[..., list[Reply]]
    _names: StreamNames
    entry_size: int = 0
    """Bytes of an entry in the mean, as far as that is known."""
    _scripts: bool = True
    """False for a user who may not run scripts."""

    def span(
        self, box: Box, begin: str, end: str, count: int, consumer: str | None = None, *, back: bool = False
    ) -> Command:  # fmt: skip
        """Returns the command that reads up to ``count`` entries or claims between two ids, the last ones first with ``back``."""
        if box is not Box.CUR:
            name, *ends = ("XREVRANGE", end, begin) if back else ("XRANGE", begin, end)
            return (name, self._names.of_box(box), *ends, "COUNT", count)
        named = () if consumer is None else (consumer,)  # a name may be empty
        return ("XPENDING", self._names.stream, self._names.group, begin, end, count, *named)

    def read(self, *spans: Command, heads: bool = True) -> list[list[PendingEntry]]:
        """Returns what each of some commands reads; without size and source of claims, which the server finds slowly, where
        ``heads`` is False."""
        replies = self._run(spans, DESCRIBED, "heads" if heads else "") if spans else ()
        with translate_errors():
            return [[_described(*list_of(one)) for one in list_of(reply)] for reply in replies]

    def _run(self, spans: Sequence[Command], script: str, *words: str) -> list[Reply]:
        """Returns the answers to a script for each of some commands, or to the commands themselves."""
        if self._scripts:
            replies = self._ask(*(("EVAL_RO", script, 1, span[1], *words, *span) for span in spans))
            if not any(map(no_script, replies)):
                return replies
            self._scripts = False
        return self._ask(*spans)

    def pages(
        self, box: Box, begin: str, end: str = "+", most: int = 1 << 62, consumer: str | None = None, *, heads: bool = True
    ) -> Iterator[list[PendingEntry]]:  # fmt: skip
        """Yields up to ``most`` entries or claims between two ids, oldest id first."""
        step = self.fitting(_PAGE if box is not Box.CUR else _CLAIMS_PAGE if heads else _PLAIN_CLAIMS)
        while most > 0:
            wanted = min(step, most)
            (found,) = self.read(self.span(box, begin, end, wanted, consumer), heads=heads)
            yield found
            if len(found) < wanted:
                return
            most, begin = most - wanted, f"({found[-1].id}"

    def skip(
        self, begin: str, end: str, most: int, box: Box = Box.NEW, consumer: str | None = None, *, back: bool = False
    ) -> tuple[int, str]:  # fmt: skip
        """Returns how many entries or claims, up to ``most``, lie between two ids, and the id of the last of them, of the first
        with ``back``."""
        step, count, last = _CLAIMS_SKIPPED if box is Box.CUR else self.fitting(_SKIPPED), 0, ""
        while count < most:
            wanted = min(step, most - count)
            number, at, _ = self._skipped(self.span(box, begin, end, wanted, consumer, back=back))
            count, last = count + number, at or last
            if number < wanted:
                break
            begin, end = (begin, f"({last}") if back else (f"({last}", end)
        return count, last

    def first(self, begin: str) -> tuple[str, int]:
        """Returns the id of the first entry from an id on, "" where there is none, and its size."""
        return self._skipped(self.span(Box.NEW, begin, "+", 1))[1:]

    def _skipped(self, span: Command) -> tuple[int, str, int]:
        (reply,) = self._run([span], SKIP)
        with translate_errors():
            found = list_of(reply)
            if not self._scripts:
                return len(found), text_of(list_of(found[-1])[0]) if found else "", 0
            number, last, size = found
            return number_of(number), text_of(last), number_of(size)

    def fitting(self, most: int, size: int = 1 << 20) -> int:
        """Returns how many entries, up to ``most``, the server reads in one step of about ``size`` bytes."""
        return max(1, min(most, size // max(1, self.entry_size)))

    def delays(self, ids: list[str]) -> list[float | None]:
        """Returns when the delay of each message ends, in epoch seconds; None where it has none."""
        if not ids:
            return []
        (reply,) = self._ask(("ZMSCORE", self._names.later, *ids))
        if isinstance(reply, ErrorReply):
            return [None] * len(ids)
        with translate_errors():
            return [None if one is None else float(text_of(one)) / 1000 for one in list_of(reply)]

    def entry(self, box: Box, id: str) -> Mapping[bytes, bytes] | None:
        """Returns the fields of one entry; None where it is gone."""
        (reply,) = self._ask(("XRANGE", self._names.of_box(box), id, id, "COUNT", 1))
        with translate_errors():
            return next((fields_by_name(list_of(one)[1]) for one in list_of(reply)), None)

    def claim(self, id: str) -> PendingEntry | None:
        """Returns who holds a message now, without its size; None where nobody does."""
        (found,) = self.read(self.span(Box.CUR, id, id, 1), heads=False)
        return found[0] if found else None


# Parts of a list, each in the order of ids: entries that were never delivered, or the claims of one consumer. A part knows its
# length, and the ids at some positions. A window near one of these is counted from there, exactly. Further away, beyond
# ``_WALKED`` entries, its beginning is estimated by the times in the ids: a list of millions opens anywhere at once.

_WALKED = 10_000


class Part(Struct):
    """A part with ``count`` rows: entries that wait, messages that were set aside into a ``box``, or what the list of pending
    ones (``Box.CUR``) has under a ``consumer``, with its verdict ``judged``; None: they were handed back, and wait. ``span`` are
    the ids of its first and last row, as far as they are known, ``marks`` are positions, each with the id of the row before
    it."""

    fetcher: StreamFetcher
    count: int
    box: Box
    consumer: str | None = None
    judged: JudgedMember | None = None
    span: tuple[str, str] | None = None
    retention: float = 0.0
    marks: dict[int, str] = field(default_factory=lambda: {0: ""})

    def window(self, start: int, stop: int) -> list[Row]:
        """Returns the rows ``start`` to ``stop``, in the order of ids."""
        start, stop = max(0, start), min(self.count, stop)
        if stop <= start:
            return []
        behind = self.count - start
        if self.consumer is None and behind <= _WALKED and behind < start - self._nearest(start):
            _, first = self.fetcher.skip(id_after(self.marks[0]), "+", behind, back=True)
            return self._between(first, "+", stop - start) if first else []
        found = self._between(id_after(self._before(start)), "+", stop - start)
        if found and start + len(found) < self.count:
            self.marks[start + len(found)] = found[-1].id
        return found

    def rows(self) -> Iterator[Sequence[Row]]:
        """Yields all rows in pages."""
        return map(self._rows, self.fetcher.pages(self.box, id_after(self.marks[0]), consumer=self.consumer))

    def find(self, id: str) -> int | None:
        """Returns the position of an id, None where it is not in this part; far from every known position it is estimated."""
        order = id_order(id)
        known = [at for at, mark in self.marks.items() if id_order(mark or ZERO) < order]
        if 0 not in known or not self._between(id, id, 1):
            return None
        at = max(known)
        counted, last = self._skip(self.marks[at], id, min(_WALKED, self.count))
        if last == id:
            return at + counted - 1
        if self.span is None:
            return None
        first, last_time = self._times()
        estimated = min(self.count - 1, (order[0] - first) * self.count // max(1, last_time - first))
        self.marks[estimated + 1] = id
        return estimated

    def _between(self, begin: str, end: str, most: int) -> list[Row]:
        """Fetches up to ``most`` rows between two ids."""
        return [*chain.from_iterable(map(self._rows, self.fetcher.pages(self.box, begin, end, most, self.consumer)))]

    def _skip(self, before: str, end: str, most: int) -> tuple[int, str]:
        """Counts up to ``most`` rows behind the id ``before``; returns the id of the last of them too."""
        return self.fetcher.skip(id_after(before), end, most, self.box, self.consumer)

    def _rows(self, found: list[PendingEntry]) -> list[Row]:
        if self.judged is not None:
            return [claim_row(claim, self.judged) for claim in found]
        if self.box in ASIDE:
            return [aside_row(self.box, head, self.retention) for head in found]
        delays = self.fetcher.delays([one.id for one in found]) if self.consumer == LATER else [None] * len(found)
        return list(map(waiting_row, found, delays))

    def _nearest(self, start: int) -> int:
        """Returns the last position up to ``start`` before which the id is known."""
        return max(at for at in self.marks if at <= start)

    def _before(self, start: int) -> str:
        """Returns the id of the row before the position ``start``."""
        position = self._nearest(start)
        before = self.marks[position]
        if start - position > _WALKED and self.span is not None:
            first, last = self._times()
            before = self.marks[start] = f"{first + (last - first) * start // self.count}-0"
            return before
        while position < start:
            counted, last_id = self._skip(before, "+", min(5_000, start - position))
            if counted == 0:
                break
            position, before = position + counted, last_id
            self.marks[position] = before
        return before

    def _times(self) -> tuple[int, int]:
        """Returns the times of the first and the last row, in milliseconds."""
        assert self.span is not None
        first, last = (id_order(one)[0] for one in self.span)
        return first, last


Window: TypeAlias = "tuple[int, int, Sequence[Row]]"
"""Its start, its stop, and its rows."""


class PagedListing(Struct):
    """List of ``parts``, one after the other, from the end with ``backwards``. Of a window that cannot be fetched there are the
    rows that were shown before, also by another list of the same query, which had ``stale``."""

    query: ListQuery
    _parts: Sequence[Part]
    _backwards: bool
    complete: bool
    generation: int
    _stale: Window = (0, 0, ())
    _last: Window = (0, 0, ())
    timed: bool = False
    ordered_over: int | None = None

    @property
    def shown(self) -> Window:
        """The window that was fetched last, with its rows."""
        return self._last if self._last[2] else self._stale

    def __len__(self) -> int:
        return sum(part.count for part in self._parts)

    def window(self, start: int, stop: int) -> Sequence[Row]:
        count = len(self)
        start, stop = max(0, start), min(count, max(0, stop))
        begin, end, rows = self._last
        if begin <= start and stop <= end:
            return rows[start - begin : stop - begin]
        first, last = (count - stop, count - start) if self._backwards else (start, stop)
        found: list[Row] = []
        try:
            for part in self._parts:
                if first < part.count and last > 0:
                    found += part.window(first, last)
                first, last = first - part.count, last - part.count
        except Unavailable:  # the rows that were fetched before are stale, as all that is shown then
            if not begin <= start < end:
                begin, end, rows = self._stale
            return rows[start - begin : stop - begin] if begin <= start < end else ()
        if self._backwards:
            found.reverse()
        if len(found) == stop - start:
            self._last = (start, stop, found)
        return found

    def find(self, key: Key) -> int | None:
        if not isinstance(key, tuple) or len(key) < 2 or key[0] != self.query.box:
            return None
        begin, _, rows = self._last
        for place, row in enumerate(rows):
            if row.key == key:
                return begin + place
        before = 0
        try:
            for part in self._parts:
                if (at := part.find(str(key[1]))) is not None:
                    return len(self) - 1 - before - at if self._backwards else before + at
                before += part.count
        except Unavailable:
            return None
        return None

    def keys(self) -> Iterator[Key]:
        """Yields all keys, in order. Raises ``Unavailable``."""
        for part in reversed(self._parts) if self._backwards else self._parts:
            rows = (row.key for page in part.rows() for row in page)
            yield from reversed(list(rows)) if self._backwards else rows


def in_order_of_ids(query: ListQuery) -> bool | None:
    """Returns whether a list begins with its end, where the server has it in order already; None where it has not."""
    everything = query.selection in (None, Selection(box=query.box), Selection(everything=True))
    if query.filter or not everything:
        return None
    column, descending = query.sort.column, query.sort.descending
    if query.box is Box.NEW and column in ("age", "held"):
        return not descending
    if query.box is Box.NEW and column == "name":
        return descending
    if query.box is Box.CUR and column == "verdict" and descending:
        return False
    return None
