"""The source's side of ``spooltop move`` on a stream."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from spooltop.model.queue import InterruptedMove, QueueCounts

from ..stream_names import HANDED_BACK, LATER, StreamNames
from .failures import translated
from .group_consumer import GroupConsumer, lease_records
from .stream_claim import StreamClaim
from .stream_producer import AT_ONCE

if TYPE_CHECKING:
    from redis import Redis

__all__ = ["StreamMover"]


class StreamMover:
    """Implements ``model.moves.MessageMover`` with ``consumer``, whose record beside the stream says where the messages go.
    ``begin`` is the beginning of its keys; ``depth`` counts what waits."""

    def __init__(
        self, connection: Redis, names: StreamNames, address: str, consumer: GroupConsumer, begin: str, depth: Callable[[], int]
    ) -> None:
        self._redis: Any = connection
        self._names = names
        self._address = address
        self._consumer = consumer
        self._begin = begin
        self._depth = depth

    def counts(self) -> QueueCounts:
        names = self._names
        with translated(self._address, "move"):
            members = self._redis.xinfo_consumers(names.stream, names.group)
            seconds, micros = self._redis.time()
            due = self._redis.zcount(names.later, "-inf", seconds * 1000 + micros // 1000)
            pending = {one["name"].decode(errors="surrogateescape"): int(one["pending"]) for one in members if one["pending"]}
            delayed = max(0, pending.pop(LATER, 0) - due)
            pending.pop(HANDED_BACK, None)
            pending.pop(self._consumer.name, None)
            leased = lease_records(self._redis, names)
            running = dead = unknown = 0
            ends: list[float] = []
            for name, count in pending.items():
                left = self._redis.pttl(names.lease(name)) if name in leased else None
                if left is None:
                    unknown += count
                elif left > 0:
                    running += count
                    ends.append(left / 1000)
                elif leased[name].moves_to is None:
                    dead += count
        return QueueCounts(self._depth() - delayed, delayed, 0, running, dead, unknown, max(ends, default=None))

    def interrupted(self) -> Sequence[InterruptedMove]:
        with translated(self._address, "move"):
            return list(self._interrupted())

    def _interrupted(self) -> Iterator[InterruptedMove]:
        names = self._names
        for name, record in lease_records(self._redis, names).items():
            target = record.moves_to
            if target is None or name == self._consumer.name or self._redis.exists(names.lease(name)):
                continue
            mover = _mover(record.begin, name)
            claims = [(f"{name},{id},{tries}", _key(mover, id, tries)) for id, tries in self._pending(name)]
            yield InterruptedMove(mover, target, claims)

    def _pending(self, consumer: str) -> Iterator[tuple[str, int]]:
        names, start = self._names, "-"
        while found := self._redis.xpending_range(names.stream, names.group, start, "+", AT_ONCE, consumername=consumer):
            yield from ((entry["message_id"].decode(), int(entry["times_delivered"])) for entry in found)
            start = f"({found[-1]['message_id'].decode()}"

    def claim(self) -> StreamClaim | None:
        return self._consumer.take()

    def adopt(self, name: str) -> StreamClaim | None:
        return self._consumer.adopt(*_parts(name))

    def discard(self, name: str) -> None:
        self._consumer.discard(*_parts(name))

    def key(self, claim: StreamClaim) -> str:
        return _key(_mover(self._begin, self._consumer.name), *claim.token)

    def holds(self, _claim: StreamClaim) -> bool:
        return self._consumer.is_leased

    def give_back(self, claim: StreamClaim) -> None:
        self._consumer.give_back(claim)

    def leave(self, claim: StreamClaim) -> None:
        claim.end()

    def end(self, move: InterruptedMove) -> None:
        self._consumer.dismiss(move.mover.rpartition("/")[2])

    def close(self) -> None:
        self._consumer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _exception: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self.close()


def _mover(begin: str, consumer: str) -> str:
    return f"{begin}/{consumer}"


def _key(mover: str, id: str, deliveries: int) -> str:
    return f"{mover}.{id}:{deliveries}"


def _parts(name: str) -> tuple[str, str, int]:
    """Splits the name of a claim into its consumer, its id and the number of deliveries."""
    consumer, id, deliveries = name.rsplit(",", 2)
    return consumer, id, int(deliveries)
