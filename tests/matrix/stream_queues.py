"""The queue of a stream in the crash matrix: each of its methods, cut at each command that it sends. The same call again finishes
it, once; another consumer recovers what a killed process held."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from spooltop.engine import Spool
from spooltop.errors import ClaimLost, SpooltopError
from spooltop.model.queue import Queue
from spooltop.queues import open_queue
from tests.cli.streams import spooltop
from tests.matrix.cutting_proxy import Cut, CuttingProxy
from tests.matrix.streams import died
from tests.stream_builders import StreamWorld

__all__ = ["OPERATIONS", "Operation", "QueueSweep"]


@dataclass
class Hands:
    """A consumer behind the proxy, one behind none, and what the first has claimed. ``folder`` is another queue, a directory."""

    world: StreamWorld
    folder: Path
    queue: Queue = field(init=False)
    claims: list[Any] = field(default_factory=list)

    def open(self) -> Hands:
        self.queue = open_queue(self.world.target, durable=False)
        return self

    def claim(self) -> None:
        claim = self.queue.claim()
        self.claims += [] if claim is None else [claim]

    def move(self, source: str, target: str) -> None:
        """Moves messages by the command line. Raises the error that it prints, which has one line."""
        self.world.end_leases()  # of a mover that was cut off
        moved = spooltop("move", source, target, "--yes", "--no-durable", environ={})
        assert moved.code in (0, 4) or moved.err.count("\n") == 1, moved
        if moved.code not in (0, 4):  # 4: nothing is left to move
            raise SpooltopError(moved.err)

    def move_out(self) -> None:
        self.move(self.world.target, str(self.folder))

    def move_in(self) -> None:
        self.move(str(self.folder), self.world.target)

    def contents(self) -> list[str]:
        """Recovers what the dead hold, and lists the contents of all messages here and in the directory, with what is doubled."""
        self.world.end_leases()
        with self.world.queue() as other, open_queue(str(self.folder)) as target:
            other.recover()
            census = [content for content, places in self.world.census().items() for _ in places]
            target.recover()
            claims = list(target.claims())
            census += [claim.data.decode() for claim in claims]
            for claim in claims:
                claim.release()
        return sorted(census)


def put(hands: Hands) -> None:
    hands.world.put("1")


def claimed(hands: Hands) -> None:
    put(hands)
    hands.claim()


def two_claimed(hands: Hands) -> None:
    claimed(hands)
    hands.world.put("2")
    hands.claim()


def held_by_the_dead(deliveries: int) -> Callable[[Hands], None]:
    def prepare(hands: Hands) -> None:
        put(hands)
        (id,) = hands.world.claim_dead()
        for _ in range(deliveries - 1):
            hands.world.take("dead", id)

    return prepare


def put_into_directory(hands: Hands) -> None:
    with Spool(hands.folder, False) as spool:
        spool.put(b"1")


def held_by_a_dead_mover(hands: Hands) -> None:
    put(hands)

    def work() -> None:
        source, target = open_queue(hands.world.address(hands.world.socket)), open_queue(str(hands.folder))
        mover = source.mover(target.identity)
        os._exit(int(mover.claim() is None))

    died(work)


@dataclass(frozen=True)
class Operation:
    """A call of a method and what is prepared for it. ``leaves``: the contents of the messages that are there after it. A call
    that ``begins`` or ``ends`` a message may be cut before or after that. ``repeats``: the same again would do it twice."""

    prepare: Callable[[Hands], object]
    act: Callable[[Hands], object]
    leaves: tuple[str, ...] = ("1",)
    begins: bool = False
    ends: bool = False
    repeats: bool = False


OPERATIONS: dict[str, Operation] = {
    "put": Operation(bool, lambda hands: hands.queue.put(b"1"), begins=True, repeats=True),
    "put with a key": Operation(bool, lambda hands: hands.queue.put(b"1", key="once"), begins=True),
    "put_many": Operation(bool, lambda hands: hands.queue.put_many([b"1", b"2"]), ("1", "2"), begins=True, repeats=True),
    "claim": Operation(put, Hands.claim),
    "ack": Operation(claimed, lambda hands: hands.claims[0].ack(), (), ends=True),
    "ack_many": Operation(two_claimed, lambda hands: hands.queue.ack_many(hands.claims), (), ends=True),
    "release": Operation(claimed, lambda hands: hands.claims[0].release()),
    "release with a delay": Operation(claimed, lambda hands: hands.claims[0].release(600)),
    "reject": Operation(claimed, lambda hands: hands.claims[0].reject("no")),
    "recover": Operation(held_by_the_dead(1), lambda hands: hands.queue.recover()),
    "recover at the limit": Operation(held_by_the_dead(10), lambda hands: hands.queue.recover()),
    "close": Operation(claimed, lambda hands: hands.queue.close()),
    "move to a directory": Operation(put, Hands.move_out),
    "move from a directory": Operation(put_into_directory, Hands.move_in),
    "move on": Operation(held_by_a_dead_mover, Hands.move_out),
}


class QueueSweep:
    """Prepares the operation ``name`` again and again, as ``Sweep`` does."""

    def __init__(self, name: str, socket: str, proxy: CuttingProxy, folder: Path) -> None:
        self._operation, self._socket, self._proxy, self._folder = OPERATIONS[name], socket, proxy, folder
        self._numbers = count(1)
        for _ in range(2):  # the second time the server knows all scripts
            with ExitStack() as stack:
                hands = self._hands(stack).open()
                self._operation.prepare(hands)
                proxy.disarm()
                self._operation.act(hands)
                self.commands = list(proxy.commands)
                self._end(hands)
                assert hands.contents() == [*self._operation.leaves]

    def _hands(self, stack: ExitStack) -> Hands:
        folder = self._folder / str(next(self._numbers))
        world = stack.enter_context(StreamWorld(folder, self._socket, self._proxy.path))
        Spool.create(folder / "other", False).close()
        return Hands(world, folder / "other")

    def _end(self, hands: Hands) -> None:
        for claim in hands.claims:
            claim.end()
        hands.queue.close()

    def cut(self, at: int, cut: Cut) -> None:
        """Cuts the ``at``-th command of the operation, and does it again where it failed."""
        operation = self._operation
        with ExitStack() as stack:
            hands = self._hands(stack).open()
            with closing(hands.queue):
                operation.prepare(hands)
                self._proxy.arm(at, cut)
                failed = _fails(operation, hands)
                assert self._proxy.disarm()
                if failed and not operation.repeats:
                    assert not _fails(operation, hands), f"cut {cut.value} command {at}"
                self._end(hands)
            self._check(hands, finished=not (failed and operation.repeats))

    def kill(self, at: int, cut: Cut) -> None:
        """Kills the process at the ``at``-th command of the operation."""
        with ExitStack() as stack:
            hands = self._hands(stack)
            assert died(
                lambda: self._operation.act(hands),
                lambda pid: self._proxy.arm(at, cut, victim=pid),
                lambda: self._operation.prepare(hands.open()),
            )
            assert self._proxy.disarm()
            moves = self._operation.act in (Hands.move_in, Hands.move_out)
            if moves:  # what was put and not acked stands in both queues until the same move runs again
                self._operation.act(hands)
            self._check(hands, finished=moves)

    def _check(self, hands: Hands, *, finished: bool) -> None:
        """Demands that nothing is lost or doubled; where the operation ``finished``, that exactly what it leaves is there."""
        contents, leaves = hands.contents(), self._operation.leaves
        assert len(set(contents)) == len(contents), contents
        if finished or not (self._operation.begins or self._operation.ends):
            assert contents == [*leaves]


def _fails(operation: Operation, hands: Hands) -> bool:
    """Returns whether the operation raised an error, which has one line. A claim that an earlier try has ended is lost, which is
    no failure."""
    try:
        operation.act(hands)
    except ClaimLost:
        return False
    except SpooltopError as error:
        assert "\n" not in str(error).rstrip("\n")
        return True
    return False
