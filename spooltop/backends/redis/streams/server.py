"""Questions to a server with streams, their answers, and the streams and groups that an address names. Nothing here writes."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import monotonic

from msgspec.structs import replace
from redis.exceptions import RedisError
from redis.exceptions import TimeoutError as RedisTimeout

from spooltop.errors import NotASpool, SpooltopError, Unavailable
from spooltop.model.vocabulary import escape

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
    text_of,
    trouble_of,
    trouble_of_connection,
)

# A server with streams, asked within limits of time and size; its failures are said in words.

Command = Sequence[str | bytes | int]
PATIENCE = 2.0
"""Seconds that one question may take in all."""
_BYTES = 64 << 20
_REST = 3.0
"""Seconds after a question that was not answered in time, in which none is asked."""


class StreamServer(RedisClient):
    """Connection to a server, for one thread. It connects again by itself."""

    def __init__(self, endpoint: Endpoint, *, patience: float = PATIENCE) -> None:
        super().__init__(endpoint)
        self._patience = patience
        self._rest_until = 0.0
        self._late: SpooltopError = trouble_of_connection(TimeoutError())

    def ask(self, *commands: Command) -> list[Reply]:
        """Returns the answers to these commands, sent together; a command that failed has an ``ErrorReply``. Raises
        ``Unavailable``. After a question that was not answered in time it raises that at once for some seconds, so that nobody
        who waits for the reader waits for one question after another."""
        if monotonic() >= self._rest_until:
            self.begin(self._patience, _BYTES)
            try:
                with translate_errors():
                    return super().ask(*commands)
            except RedisTimeout as error:
                self._late, self._rest_until = trouble_of(error), monotonic() + _REST
                if self._late.what == trouble_of_connection(TimeoutError()).what:
                    self._late.what = f"no answer from the server within {self._patience:g} s"
        raise Unavailable(self._late.what, advice=self._late.advice)


@contextmanager
def translate_errors() -> Iterator[None]:
    """Raises what goes wrong with a server as ``Unavailable``, in words without a secret; but for what took too long."""
    try:
        yield
    except RedisTimeout:
        raise
    except (RedisError, ErrorReply, Nonsense) as error:
        trouble = trouble_of(error)
        raise Unavailable(trouble.what, advice=trouble.advice) from None
    except (IndexError, KeyError, TypeError, ValueError) as error:  # an answer of another shape
        raise trouble_of(Nonsense(f"not what was asked for ({type(error).__name__})")) from None


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


def entry_time(id: str) -> float:
    """Returns when an entry was put, in epoch seconds, as its id says.

    >>> entry_time("1763900000123-0")
    1763900000.123
    """
    return id_order(id)[0] / 1000


# Lua scripts that only read. They spare the network the contents of entries, and run with EVAL_RO on a replica too. Each looks
# at a few hundred entries at most, so that the server is held up for no more than about a millisecond. All but STREAM run a
# command that reads entries, or claims: its words are the last of ARGV.

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

DESCRIBED = """
local function described(fields)  -- the size of its field data, else of all fields together but for the notes of spooltop
  local all, data, source = 0, false, false
  for at = 1, #fields, 2 do
    if string.sub(fields[at], 1, 1) ~= '~' then all = all + #fields[at] + #fields[at + 1] end
    if fields[at] == 'data' then data = #fields[at + 1] end
    if fields[at] == 'source' then source = fields[at + 1] end
  end
  return data or all, source
end
"""

# Returns id, size and source of each entry, and its notes of spooltop: names and values.
HEADS = DESCRIBED + """
local out, known = {}, {['~id'] = true, ['~tries'] = true, ['~why'] = true, ['~from'] = true, ['~by'] = true}
for _, entry in ipairs(redis.call(unpack(ARGV))) do
  local fields, notes = entry[2], {}
  for at = 1, #fields, 2 do
    if known[fields[at]] then notes[#notes + 1] = fields[at]; notes[#notes + 1] = fields[at + 1] end
  end
  local size, source = described(fields)
  out[#out + 1] = {entry[1], size, source, notes}
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

# KEYS stream; ARGV 'heads' to describe the entries too, then XPENDING. Returns id, consumer, when it was delivered, number of
# deliveries, size and source of each claim. The size is -1 where the entry was deleted or trimmed, -2 if it is not described.
CLAIMS = DESCRIBED + """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local out = {}
for _, claim in ipairs(redis.call(unpack(ARGV, 2))) do
  local size, source = -2, false
  if ARGV[1] == 'heads' then
    local entry = redis.call('XRANGE', KEYS[1], claim[1], claim[1])[1]
    size = -1
    if entry then size, source = described(entry[2]) end
  end
  out[#out + 1] = {claim[1], claim[2], now - claim[3], claim[4], size, source}
end
return out
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
    if address.pattern:
        found = find_groups(address, login)
        if len(found) == 1:
            return found[0]
        raise NotASpool("the name stands for several groups", path=address.shown, advice=_name_one(one.name for one in found))
    try:
        with _asked(address, login) as server:
            groups = _groups(server, address)
    except Unavailable:
        if address.group is not None:
            return address
        raise
    if address.group is None and len(groups) == 1:
        return replace(address, group=groups[0])
    if address.group in groups:
        return address
    if not groups:
        raise _without_groups(address)
    what = "the stream has several groups" if address.group is None else "the stream has no such group"
    raise NotASpool(what, path=address.shown, advice=_name_one(groups))


def find_groups(address: StreamAddress, login: Login) -> list[StreamAddress]:
    """Returns the addresses of all groups that an address stands for, by name: those of its stream, or of all streams that its
    pattern matches. Raises ``NotASpool`` where there is none, and ``Unavailable``."""
    with _asked(address, login) as server:
        if not address.pattern:
            groups = sorted(_groups(server, address))
            if not groups:
                raise _without_groups(address)
            return [replace(address, group=group) for group in groups]
        found = [
            replace(address, stream=name, group=group, pattern=False)
            for name, groups in _groups_of_all(server, _matching(server, address))
            for group in sorted(groups)
            if address.group is None or address.group == group
        ]
    if len(found) > _GROUPS_AT_MOST:
        what = f"the name stands for {len(found):,} groups, more than can be watched at once"
        raise NotASpool(what, path=address.shown, advice="write a narrower pattern")
    if not found:
        what = "no stream of such a name has a group" if address.group is None else "no stream of such a name has such a group"
        raise NotASpool(what, path=address.shown, advice="redis-cli --scan --type stream lists the streams")
    return found


def _name_one(names: Iterable[str]) -> str:
    known = sorted(names)
    more = ", …" if len(known) > _NAMED else ""
    return f"name one of them: {', '.join(map(escape, known[:_NAMED]))}{more}"


def _without_groups(address: StreamAddress) -> NotASpool:
    advice = f"spooltop init {address.server}#STREAM/GROUP makes one"
    return NotASpool("the stream has no consumer group", path=address.shown, advice=advice)


@contextmanager
def _asked(address: StreamAddress, login: Login) -> Iterator[StreamServer]:
    """The server of an address for some questions. Raises ``Unavailable`` where it does not answer them."""
    server = StreamServer(address.endpoint(login))
    try:
        yield server
    except Unavailable as trouble:
        raise Unavailable(trouble.what, path=address.shown, advice=trouble.advice) from None
    finally:
        server.close()


def _groups_of_all(server: StreamServer, names: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Yields the groups of each stream. One that is gone meanwhile, or that this user may not look at, has none."""
    for start in range(0, len(names), _TOGETHER):
        some = names[start : start + _TOGETHER]
        replies = server.ask(*(("XINFO", "GROUPS", name) for name in some))
        with translate_errors():
            for name, reply in zip(some, replies, strict=True):
                yield name, [] if isinstance(reply, ErrorReply) else _names_of(reply)


def _groups(server: StreamServer, address: StreamAddress) -> list[str]:
    (reply,) = server.ask(("XINFO", "GROUPS", address.stream))
    if isinstance(reply, ErrorReply):
        if "no such key" in str(reply):
            raise NotASpool("there is no such stream", path=address.shown, advice=_there_are(server))
        if str(reply).startswith("WRONGTYPE"):
            raise NotASpool("that key is not a stream", path=address.shown, advice=_there_are(server))
    with translate_errors():
        return _names_of(reply)


def _names_of(reply: Reply) -> list[str]:
    return [text_of(fields_of(one)["name"]) for one in list_of(reply)]


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
            raise NotASpool(what, path=address.shown, advice="name the streams")
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
