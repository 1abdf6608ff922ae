"""A stream with a group, and operators on it, as a test drives them."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from spooltop.backends.journal.log_files import LogFiles
from spooltop.backends.journal.log_store import LogStore, StateLogs
from spooltop.backends.redis.client import Endpoint, RedisClient, Reply
from spooltop.backends.redis.operator.connection import OperatorConnection
from spooltop.backends.redis.operator.operator import StreamOperator
from spooltop.backends.redis.operator.rows import JudgedConsumer
from spooltop.backends.redis.stream_names import StreamNames
from spooltop.model.filters.selection import Selection
from spooltop.model.operations.plan import Outcome, Plan, Result
from spooltop.model.vocabulary import Action, Box, Json, Owner, Verdict
from spooltop.operate.operations import Operations

__all__ = ["ADDRESS", "NAMES", "Group", "done", "plan", "undone"]

NAMES = StreamNames("jobs", "work")
ADDRESS = "redis://here/0#jobs/work"


class Group:
    """The group ``work`` of the stream ``jobs`` on the server at ``socket``, emptied. Consumers have the verdict that their names
    begin with; a worker of spooltop runs in the group. ``state`` is the folder of the user's logs."""

    def __init__(self, socket: str, state: Path) -> None:
        self._socket = socket
        self._state = str(state)
        self._client = RedisClient(Endpoint(path=socket))
        self._numbers = itertools.count(1)
        self._opened: list[StreamOperator] = []
        self.ask("FLUSHALL")
        self.ask("CONFIG", "SET", "maxmemory", "0")
        self.ask("CONFIG", "RESETSTAT")
        self.ask("XGROUP", "CREATE", NAMES.stream, NAMES.group, "0", "MKSTREAM")
        self.ask("HSET", NAMES.consumers, "worker", "here 1")
        self.ask("SET", NAMES.lease("worker"), "1")

    def only_plain_consumers(self) -> None:
        """Has no worker of spooltop ever been in the group."""
        self.ask("DEL", NAMES.consumers, NAMES.lease("worker"))

    def ask(self, *words: str | bytes | int) -> Any:
        """The answer to one command."""
        self._client.begin(20, 1 << 28)
        (reply,) = self._client.ask(words)
        if isinstance(reply, Exception):
            raise reply
        return reply

    def close(self) -> None:
        for one in self._opened:
            one.close()
        self._client.close()

    def put(self, count: int, *, source: str = "") -> list[str]:
        """Adds messages 1, 2, 3 …"""
        extra = ("source", source) if source else ()
        return [self.ask("XADD", NAMES.stream, "*", "data", f"m{next(self._numbers)}", *extra).decode() for _ in range(count)]

    def claim(self, consumer: str, count: int = 1) -> list[str]:
        """Delivers messages to a consumer."""
        script = """
        local out = {}
        local read = redis.call('XREADGROUP', 'GROUP', ARGV[1], ARGV[2], 'COUNT', ARGV[3], 'STREAMS', KEYS[1], '>')
        for _, one in ipairs(read and read[1][2] or {}) do out[#out + 1] = one[1] end
        return out"""
        return [id.decode() for id in self.ask("EVAL", script, 1, NAMES.stream, NAMES.group, consumer, count)]

    def take(self, consumer: str, id: str) -> None:
        """Lets a consumer take a claim over."""
        script = "redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, ARGV[3]) return 1"
        self.ask("EVAL", script, 1, NAMES.stream, NAMES.group, consumer, id)

    def ack(self, id: str) -> int:
        return int(self.ask("XACK", NAMES.stream, NAMES.group, id))

    def pending(self) -> dict[str, tuple[str, int]]:
        """The claims: id → consumer, deliveries."""
        found = self.ask("XPENDING", NAMES.stream, NAMES.group, "-", "+", 10_000)
        return {one[0].decode(): (one[1].decode(), one[3]) for one in found}

    def entries(self, key: str = NAMES.stream) -> dict[str, dict[str, str]]:
        """The entries of a stream: id → fields."""
        script = """
        local out = {}
        for _, one in ipairs(redis.call('XRANGE', KEYS[1], '-', '+')) do
          out[#out + 1] = one[1]
          out[#out + 1] = one[2]
        end
        return out"""
        flat = self.ask("EVAL", script, 1, key)
        return {id.decode(): _fields(fields) for id, fields in zip(flat[::2], flat[1::2], strict=True)}

    def data(self, key: str = NAMES.stream) -> list[str]:
        return [fields["data"] for fields in self.entries(key).values()]

    def operator(self, client: RedisClient | None = None, store: LogStore | None = None) -> StreamOperator:
        """An operator with a connection and logs of its own, or with those that a test breaks."""
        server = OperatorConnection(client or self.connection(), ADDRESS, wait=lambda seconds: None)
        logs = store or self.logs()
        self._opened.append(StreamOperator(server, NAMES, logs, judge=_judged, wait=lambda seconds: None, user="ann"))
        return self._opened[-1]

    def connection(self) -> RedisClient:
        return RedisClient(Endpoint(path=self._socket))

    def logs(self) -> StateLogs:
        return StateLogs(ADDRESS, LogFiles(), state_dir=self._state)

    def operations(self, client: RedisClient | None = None, store: LogStore | None = None) -> Operations:
        return Operations(self.operator(client, store), ADDRESS, syslog=lambda line: None)

    def where(self) -> dict[str, list[str]]:
        """The messages that are not done by their data, and the places where each is: one, if nothing was doubled."""
        pending, last = self.pending(), self.ask("XINFO", "GROUPS", NAMES.stream)[0][7].decode()
        found: dict[str, list[str]] = {}
        for id, fields in self.entries().items():
            if id in pending:
                found.setdefault(fields["data"], []).append(pending[id][0])
            elif _order(id) > _order(last):
                found.setdefault(fields["data"], []).append("new")
        for place, key in (("held", NAMES.held), ("rejected", NAMES.rejected), ("trash", NAMES.trash)):
            for data in self.data(key):
                found.setdefault(data, []).append(place)
        return found


def _order(id: str) -> tuple[int, ...]:
    return tuple(map(int, id.split("-")))


def _judged(consumers: Sequence[str]) -> Mapping[str, JudgedConsumer]:
    return {one: JudgedConsumer(_verdict(one), f"{one} is so", Owner(name=one)) for one in consumers}


def _verdict(name: str) -> Verdict:
    return next((one for one in (Verdict.ALIVE, Verdict.DEAD) if name.startswith(one)), Verdict.UNKNOWN)


def _fields(flat: Sequence[Reply]) -> dict[str, str]:
    words = [word.decode() for word in flat if isinstance(word, bytes)]
    return dict(zip(words[::2], words[1::2], strict=True))


def plan(operations: Operations, action: Action, box: Box | None = None, *, force: bool = False, **options: Json) -> Plan:
    """The plan of ``action`` on all messages of ``box``."""
    return operations.plan(action, Selection(box=box, everything=True), force, options)


def done(operations: Operations, action: Action, box: Box | None = None, *, force: bool = False, **options: Json) -> Result:
    """Plans and applies; every message of the plan must be done."""
    result = operations.apply(plan(operations, action, box, force=force, **options))
    assert result.count(Outcome.DONE) == len(result.items) > 0, result
    return result


def undone(operations: Operations, operation: str, *, force: bool = False) -> Result:
    return done(operations, Action.UNDO, force=force, undoes=operation)
