"""Questions to a server with streams: a look at a stream and its group in two exchanges, verdicts on the consumers by what they
tell, changes, rights, and the streams and groups that an address names. Nothing here writes."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import Any, NamedTuple

from msgspec import Struct, field

from spooltop.model import AnswerLost, Capabilities, NotASpool, Refused, SpooltopError, Unavailable
from spooltop.model.vocabulary import Action, Box, Frozen, Owner, Verdict, age, escape

from ...surroundings import Connection, LocalClient, Surroundings
from ..client import (
    Endpoint,
    ErrorReply,
    Login,
    Nonsense,
    RedisClient,
    Reply,
    StreamAddress,
    fields_of,
    list_of,
    number_of,
    text_of,
    trouble_of,
)
from ..stream_names import HANDED_BACK, LATER, LeaseRecord, StreamNames, gone_words

# A server with streams, asked within limits of time and size; its failures are said in words.

Command = Sequence[str | bytes | int]
PATIENCE = 2.0
"""Seconds that one question may take in all."""
_BYTES = 64 << 20
_REST = 3.0
"""Seconds after a question that was not answered in time, in which none is asked."""


class StreamServer(RedisClient):
    """Connection to a server, for one thread. It connects again by itself."""

    def __init__(self, endpoint: Endpoint, address: str = "", *, patience: float = PATIENCE) -> None:
        super().__init__(endpoint, address)
        self._patience = patience
        self._rest_until = 0.0
        self._trouble = SpooltopError("")

    def ask(self, *commands: Command) -> list[Reply]:
        """Returns the answers to these commands, sent together; a command that failed has an ``ErrorReply``. Raises
        ``Unavailable``. After a question that was not answered in time it raises that at once for some seconds, so that nobody
        who waits for the reader waits for one question after another."""
        if monotonic() >= self._rest_until:
            self.begin(self._patience, _BYTES)
            try:
                return super().ask(*commands)
            except SpooltopError as trouble:
                self._trouble = trouble
                if self.seconds_left <= 0:
                    self._rest_until = monotonic() + _REST
        raise Unavailable(self._trouble.what, self._trouble.advice, path=self.address)


@contextmanager
def translate_errors() -> Iterator[None]:
    """Raises what is wrong with an answer as ``Unavailable``."""
    try:
        yield
    except SpooltopError as trouble:
        raise Unavailable(trouble.what, trouble.advice) from None
    except (IndexError, KeyError, TypeError, ValueError) as error:  # an answer of another shape
        raise Nonsense(f"not what was asked for ({type(error).__name__})") from None


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
        self.begin(_SECONDS, _OPERATOR_BYTES)
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
_SLACK = 2.0
_RETRY = 1.0


class StreamChanges:
    """Listens for entries of ``stream`` once somebody waits. ``wait`` and ``wake`` may be called from any thread."""

    def __init__(self, endpoint: Endpoint, stream: str) -> None:
        self._server = StreamServer(endpoint, patience=_BLOCK + _SLACK)
        self._stream = stream
        self._looked = monotonic()
        self._woken = threading.Event()
        self._armed = threading.Event()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def looked(self) -> None:
        """Notes that the reader looks: what comes from now on is a change."""
        self._looked = monotonic()
        self._woken.clear()
        self._armed.set()

    def wait(self, timeout: float) -> bool:
        """Waits up to ``timeout`` seconds for an entry, ``wake``, or the time of the next look."""
        if self._thread is None and timeout > 0:
            self._thread = threading.Thread(target=self._listen, name="stream-changes", daemon=True)
            self._thread.start()
        left = max(0.0, self._looked + _PERIOD - monotonic())
        woken = self._woken.wait(min(timeout, left))
        self._woken.clear()
        return woken or left <= timeout

    def wake(self) -> None:
        self._woken.set()

    def close(self) -> None:
        """Ends the listening. Its connection is closed by the thread, within seconds."""
        self._ended.set()
        self._armed.set()
        self._woken.set()

    def _listen(self) -> None:
        while not self._ended.is_set():
            self._armed.wait()
            if self._ended.is_set():
                break
            try:
                (reply,) = self._server.ask(("XREAD", "COUNT", 1, "BLOCK", int(_BLOCK * 1000), "STREAMS", self._stream, "$"))
                if reply is None:
                    continue
                with translate_errors():
                    list_of(reply)
            except Unavailable:  # whoever looks says so
                self._ended.wait(_RETRY)
                continue
            self._armed.clear()
            self._woken.set()
        self._server.close()


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
    _known: tuple[str, ...] = ()
    """Consumers at the last look."""
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
                raise Unavailable("there is no such stream any more", "look if the server lost its data")
            if str(groups).startswith("WRONGTYPE"):
                raise Unavailable("it is not a stream any more", "look who wrote over it")

    def _parsed(self, replies: Sequence[Reply], *, fresh: bool) -> Look:
        clock, entries, group_facts, consumer_facts, records, paused, *lengths = replies
        time, length = [int(text_of(part)) for part in list_of(clock)], number_of(entries)
        groups = tuple(map(_group, list_of(group_facts)))
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
            time[0] + time[1] / 1e6, length, added, _entry_id(stream["first-entry"]), last, groups, group, tuple(consumers),
            {box: _side(count, head) for box, count, head in zip(_ASIDE, lengths, oldest, strict=True)},
            paused if isinstance(paused, bytes) else None, facts,
            hidden={**self._hidden_facts, **_hidden({
                "processes of consumers": records, "a pause": paused,
                "sizes of claims and ages of what was set aside": oldest[0],
            })},
        )  # fmt: skip

    def _with_leases(self, look: Look, ttls: dict[str, Reply], *, due: bool) -> Look:
        """Adds what only some consumers need: leases that were not asked for yet, records that were not in the first answer, and
        the names of connections, now and then, where consumers have no lease."""
        self._known = tuple(one.name for one in look.consumers if not one.name.startswith("~"))
        others = [name for name in self._known if name not in ttls]
        whole = sum(one.record is not None for one in look.consumers) < _HASHED
        holders = [] if whole else [one.name for one in look.consumers if one.pending and one.record is None][:_HASHED]
        commands: list[Command] = [("PTTL", self._names.lease(name)) for name in others]
        commands += [("HGET", self._names.consumers, name) for name in holders]
        replies = self._server.ask(*commands) if commands else []
        ttls.update(zip(others, replies, strict=False))
        more = dict(zip(holders, replies[len(others) :], strict=True))
        consumers = tuple(
            one._replace(
                record=text_of(record) if isinstance(record := more.get(one.name), bytes) else one.record,
                lease=ttl if isinstance(ttl := ttls.get(one.name), int) and ttl >= -1 else None,
            )
            for one in look.consumers
        )
        unleased = any(one.lease is None and one.record is None for one in consumers if one.name in ttls)
        if due or others or (unleased and self._clients is None):
            self._ask_connections(look.server.clients if unleased else None)
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


def _entry_id(reply: Reply) -> str | None:
    return None if reply is None else checked_id(list_of(reply)[0])


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

    def number(self, name: str) -> int | None:
        """Returns the number at the end of the name of a consumer of this host; None for other names."""
        parts = _HOST_PID.match(name)
        return int(parts[2]) if parts is not None and parts[1] == self._here else None

    def lease_words(self, look: Look, state: ConsumerState, owner: Owner) -> str:
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

    def judge(self, look: Look, numbered: Sequence[tuple[ConsumerState, int]]) -> Iterator[JudgedMember]:
        """Judges consumers, each with its number."""
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
            yield JudgedMember(*state[:3], verdict, words, owner)


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
        owner, ends = _owner(state), ""
        if state.record is not None and "leases" in look.hidden:
            verdict, words = Verdict.UNKNOWN, "this user may not read its lease"
        elif state.lease is not None:
            ends = judge.lease_words(look, state, owner)
            verdict, words = Verdict.ALIVE, ends or "its lease runs"
        elif state.record is not None:
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
        found[state.name] = JudgedMember(*state[:3], verdict, words, owner, bool(ends))
    found.update((one.name, one) for one in (judge.judge(look, numbered) if numbered else ()))
    return found


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


# Finds the streams and groups that an address names, and says which there are where it names none.

_STEPS = 20
"""Steps through the keys for an advice."""
_STEP = 1_000
"""Keys that one step looks at."""
_PATIENCE = 5.0
"""Seconds that a search for a pattern may take."""
_TOGETHER = 100
_NAMED = 10
_GROUPS_AT_MOST = 1_000


def resolved(address: StreamAddress, login: Login) -> StreamAddress:
    """Returns the address with its group: the only one of the stream, where it names none. A group that is named is taken as it
    is while the server does not answer. Raises ``NotASpool`` and ``Unavailable``."""
    named = address.group is not None and not address.pattern
    try:
        found = find_groups(address, login)
    except Unavailable:
        if named:
            return address
        raise
    chosen = [one for one in found if not named or one.group == address.group]
    if len(chosen) == 1:
        return chosen[0]
    what = "the name stands for several groups" if address.pattern else "the stream has several groups"
    names = sorted(escape(one.name if address.pattern else one.group or "") for one in found)
    advice = f"name one of them: {', '.join(names[:_NAMED])}{', …' if len(names) > _NAMED else ''}"
    raise NotASpool("the stream has no such group" if named else what, advice, path=address.shown)


def find_groups(address: StreamAddress, login: Login) -> list[StreamAddress]:
    """Returns the addresses of all groups that an address stands for, by name: those of its stream, whatever group it names, or
    of all streams that its pattern matches. Raises ``NotASpool`` where there is none, and ``Unavailable``."""
    with _asked(address, login) as server:
        found = [
            address.replace(stream=name, group=group, pattern=False)
            for name, groups in _groups(server, address, _matching(server, address) if address.pattern else [address.stream])
            for group in sorted(groups)
            if not address.pattern or address.group in (None, group)
        ]
    if not address.pattern:
        if not found:
            advice = f"spooltop init {address.server}#STREAM/GROUP makes one"
            raise NotASpool("the stream has no consumer group", advice, path=address.shown)
        return found
    if len(found) > _GROUPS_AT_MOST:
        what = f"the name stands for {len(found):,} groups, more than can be watched at once"
        raise NotASpool(what, "write a narrower pattern", path=address.shown)
    if not found:
        what = "no stream of such a name has a group" if address.group is None else "no stream of such a name has such a group"
        raise NotASpool(what, "redis-cli --scan --type stream lists the streams", path=address.shown)
    return found


@contextmanager
def _asked(address: StreamAddress, login: Login) -> Iterator[StreamServer]:
    """The server of an address for some questions. Raises ``Unavailable`` where it does not answer them."""
    server = StreamServer(address.endpoint(login))
    try:
        yield server
    except Unavailable as trouble:
        trouble.path = address.shown
        raise
    finally:
        server.close()


_NO_STREAM = {"no such key": "there is no such stream", "WRONGTYPE": "that key is not a stream"}


def _groups(server: StreamServer, address: StreamAddress, names: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Yields the groups of each stream. One that a pattern matched has none if it is gone meanwhile, or this user may not look at
    it; else ``NotASpool`` or ``Unavailable`` says so."""
    for start in range(0, len(names), _TOGETHER):
        some = names[start : start + _TOGETHER]
        for name, reply in zip(some, server.ask(*(("XINFO", "GROUPS", name) for name in some)), strict=True):
            if isinstance(reply, ErrorReply):
                if address.pattern:
                    continue
                if what := next((what for word, what in _NO_STREAM.items() if word in str(reply)), ""):
                    raise NotASpool(what, _there_are(server), path=address.shown)
            with translate_errors():
                yield name, [text_of(fields_of(one)["name"]) for one in list_of(reply)]


def _there_are(server: StreamServer) -> str:
    """Says which streams there are, as far as a short search finds them."""
    found: set[str] = set()
    try:
        for _, names in zip(range(_STEPS), _scanned(server, "*"), strict=False):
            found.update(map(escape, names))
            if len(found) > _NAMED:
                break
    except Unavailable:
        return "look at the name"
    if not found:
        return "spooltop init ADDRESS#STREAM/GROUP makes one"
    more = ", …" if len(found) > _NAMED else ""
    return f"there are {', '.join(sorted(found)[:_NAMED])}{more}" if len(found) > 1 else f"there is {found.pop()}"


def _matching(server: StreamServer, address: StreamAddress) -> list[str]:
    """Returns the names of all streams that a pattern matches. Raises ``NotASpool`` where there are too many keys to look at."""
    found: set[str] = set()
    until = monotonic() + _PATIENCE
    for steps, names in enumerate(_scanned(server, address.stream), 1):
        found.update(names)
        if monotonic() > until:
            what = f"the server has too many keys to search for a pattern: {steps * _STEP:,} in {_PATIENCE:g} s were not all"
            raise NotASpool(what, "name the streams", path=address.shown)
    return sorted(found)


def _scanned(server: StreamServer, pattern: str) -> Iterator[list[str]]:
    """Yields names of streams, for each step through the keys; the side streams of spooltop are left out."""
    at: bytes | str = "0"
    while True:
        (reply,) = server.ask(("SCAN", at, "MATCH", pattern, "COUNT", _STEP, "TYPE", "stream"))
        with translate_errors():
            after, names = list_of(reply)
            at = text_of(after)
            found = [text_of(one) for one in list_of(names)]
        yield [name for name in found if ":spooltop:" not in name]
        if at == "0":
            return
