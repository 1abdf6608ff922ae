"""A queue in memory for those who put and work: ``model.queue.Queue``, and its claims."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any

from spooltop.engine.producing.producer import MessageId
from spooltop.errors import ClaimLost
from spooltop.model.moves import QueueCounts, QueueIdentity
from spooltop.model.queue import Guarantee
from spooltop.model.row import Row
from spooltop.model.vocabulary import Box, Owner, Verdict
from spooltop.records import replace

__all__ = ["MemoryQueue"]


class MemoryClaim(AbstractContextManager["MemoryClaim"]):
    def __init__(self, store: MemoryQueue, claimed: Row) -> None:
        self.store, self.row, self.id, self.source = store, claimed, claimed.id, claimed.source
        self.attempt, self.data = claimed.attempt or 1, store.data[claimed.id]

    def open(self) -> Any:
        file = tempfile.TemporaryFile()  # noqa: SIM115  closed by whoever asked for it
        file.write(self.data)
        file.seek(0)
        return file

    def _end(self, box: Box | None, reason: str = "", ended: str | None = None) -> None:
        if self.store.rows.get(self.id) != self.row:
            raise ClaimLost(f"the claim on {self.id} was taken away", names=(self.id,))
        self.store.move(self.row, box, reason=reason, ended=ended)

    def ack(self) -> None:
        self._end(None)

    def release(self, delay: float = 0, *, ended: str | None = None) -> None:
        self._end(Box.NEW, ended=ended)

    def reject(self, reason: str, *, ended: str | None = None) -> None:
        self._end(Box.REJECTED, reason, ended)

    def __exit__(self, kind: object, value: BaseException | None, trace: object) -> None:
        self.ack() if value is None else self.release(ended=type(value).__name__)


class MemoryMover(AbstractContextManager["MemoryMover"]):
    """Moves out of a queue in memory. It dies with its queue, so that no move is ever interrupted."""

    def __init__(self, store: MemoryQueue) -> None:
        self.claim = store.claim
        self.counts = lambda: QueueCounts(ready=store.depth(), running=len(store.judged(Box.CUR)))
        self.interrupted = lambda: ()
        self.key = lambda claim: f"move:{claim.id}"
        self.holds = lambda claim: True
        self.give_back = lambda claim: claim.release()

    def __exit__(self, *error: object) -> None:
        """There is nothing to close."""


class MemoryQueue(threading.Event):
    """Messages as rows, by id. ``dead`` are the consumers that are known to have exited; ``consumer`` claims. Its event is set
    when something changed."""

    def __init__(self, name: str, clock: Callable[[], float] = time.time) -> None:
        super().__init__()
        self.name, self.clock, self.consumer, self.generation, self.paused = name, clock, "me", 0, None
        self.rows, self.data, self.dead = dict[str, Row](), dict[str, bytes](), set[str]()
        self.guarantees = frozenset({Guarantee.ONE_HOLDER, Guarantee.ORDERED})

    def move(self, one: Row, box: Box | None, **changes: Any) -> None:
        del self.rows[one.id]
        if box is not None:
            self.rows[one.id] = replace(one, key=(box, one.id), box=box, in_box_since=self.clock(), **changes)
        self.generation += 1
        self.set()

    def judged(self, box: Box) -> list[Row]:
        verdicts = {True: (Verdict.DEAD, "its consumer has left"), False: (Verdict.ALIVE, "its consumer is connected")}
        found = [one for one in list(self.rows.values()) if one.box is box]
        if box is not Box.CUR:
            return found
        return [one.judged(*verdicts[(one.owner or Owner()).name in self.dead], one.owner) for one in found]

    def put(self, data: Any, *, source: str | None = None, id: str | None = None, key: str | None = None, **rest: object) -> str:
        id = id or key or f"m{len(self.data) + 1}"
        fresh, now = id not in self.data, self.clock()
        if fresh:
            self.data[id] = bytes(data) if isinstance(data, (bytes, bytearray, memoryview)) else data.read()
            self.rows[id] = Row((Box.NEW, id), Box.NEW, id, id, len(self.data[id]), now, now, source=source, attempt=0)
            self.set()
        return MessageId(id, duplicate=not fresh)

    def put_many(self, messages: Iterable[Any], *, source: str | None = None) -> list[str]:
        return [self.put(one, source=source) for one in messages]

    def claim(self, timeout: float | None = 0) -> MemoryClaim | None:
        for one in self.judged(Box.NEW):
            self.move(one, Box.CUR, owner=Owner(name=self.consumer), attempt=(one.attempt or 0) + 1)
            return MemoryClaim(self, self.rows[one.id])
        return None

    def claims(self, timeout: float | None = 0) -> Iterator[MemoryClaim]:
        return iter(self.claim, None)

    def ack_many(self, claims: Iterable[MemoryClaim]) -> None:
        [one.ack() for one in claims]

    def recover(self) -> list[str]:
        found = [one for one in self.judged(Box.CUR) if one.verdict is Verdict.DEAD]
        [self.move(self.rows[one.id], Box.NEW, owner=None) for one in found]
        return [one.id for one in found]

    def depth(self) -> int:
        return len(self.judged(Box.NEW))

    def peek(self) -> str | None:
        return next((one.id for one in self.judged(Box.NEW)), None)

    def arrivals(self) -> MemoryQueue:
        return self

    def claims_of_others(self) -> tuple[()]:
        return ()

    @property
    def identity(self) -> QueueIdentity:
        return QueueIdentity(self.name)

    def mover(self, target: QueueIdentity) -> MemoryMover:
        return MemoryMover(self)

    def was_put(self, key: str) -> bool:
        return key in self.data

    def forget_key(self, key: str) -> None:
        """A key is the id of its message here, and goes with it."""

    forget_mover = forget_key

    def inherited_fds(self) -> tuple[int, ...]:
        return ()

    def __enter__(self) -> MemoryQueue:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        self.set()

    wake = threading.Event.set
