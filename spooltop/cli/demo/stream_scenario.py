"""The scenario on a stream: two groups, producers, consumers with leases, and one of which nothing is known."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Any

from spooltop.backends.redis.queue.connection import connect
from spooltop.backends.redis.queue.stream_queue import StreamQueue
from spooltop.backends.redis.stream_names import StreamNames
from spooltop.model.filters.selection import Selection
from spooltop.model.vocabulary import Action, Box

from . import consumers, sample_messages, speed, stream_actors
from .demo_dir import STREAM, WORKING
from .process_group import Child, fork
from .scenario import WORKERS, Act, HeldMessage, Scenario

__all__ = ["StreamScenario", "make_groups", "play"]

_NAMES = StreamNames(STREAM, WORKING)
_LISTED = 100
_SHORT_LEASE = 0.2


def make_groups(address: str) -> None:
    """Makes the stream with both groups, while it is empty: so the server counts what each of them has read."""
    for group in (WORKING, stream_actors.ARCHIVE):
        StreamQueue.create(connect(address), STREAM, group, address=address).close()


def play(address: str, settings: Mapping[str, str]) -> Act:
    """Runs the whole demo on the group at ``address`` until it is over. ``settings`` are those of an operator there."""

    def act(child: Child) -> None:
        with closing(StreamScenario(child, address, settings)) as scenario:
            scenario.run(kept=False)

    return act


class StreamScenario(Scenario):
    """Scenario on the group at ``address``. ``poison`` is the id of the message that kills each of its consumers."""

    def __init__(self, child: Child, address: str, settings: Mapping[str, str]) -> None:
        super().__init__(child)
        self.address = address
        self._settings = settings
        self.poison = ""
        self._poison_at = float("inf")
        self._redis: Any = None

    def acts(self) -> Mapping[str, Act]:
        queue = partial(open_queue, self.address)
        connected = partial(connect, self.address)
        return {
            "import_imessage.py": stream_actors.producer(queue, "imessage", 1.5),
            "import_teams.py": stream_actors.producer(queue, "teams", 3.0),
            "import_signal.py": stream_actors.producer(queue, "signal", 2.0, burst=20),
            "import_email.py": stream_actors.producer(queue, "email", 2.0),
            "import_messenger.py": stream_actors.producer(queue, "messenger", 15.0),
            WORKERS[0]: consumers.worker(queue, 0.4, 0.8),
            WORKERS[1]: consumers.worker(queue, 0.3, 0.6),
            "indexer.py": consumers.slow(queue),
            "archive.py": stream_actors.archive(connected, STREAM),
            "report.py": stream_actors.report(connected, STREAM, WORKING),
        }

    def before(self) -> None:
        os.waitpid(fork("operator", self._set_aside), 0)
        with open_queue(self.address) as box:
            self.poison = box.put(sample_messages.poison(77119), source="teams")
            for _ in range(2):
                os.waitpid(fork(WORKERS[0], self._die_with_it), 0)
                while not box.recover() and self.child.wait(_SHORT_LEASE / 4):
                    continue
            for source in ("email", "signal"):
                newest = sample_messages.NEWEST[source]
                box.put_many([sample_messages.row(source, newest - back) for back in range(6)], source=source)
        self._redis = connect(self.address)

    def close(self) -> None:
        """Closes the connection."""
        if self._redis is not None:
            self._redis.close()

    def _die_with_it(self) -> None:
        with open_queue(self.address, _SHORT_LEASE) as box:
            box.claim()
            os.kill(os.getpid(), signal.SIGKILL)

    def _set_aside(self) -> None:
        """Holds three messages and purges one of them, as an operator did some time ago."""
        from spooltop.control import open_control

        with open_queue(self.address) as box:
            rows = [sample_messages.row("email", sample_messages.NEWEST["email"] - back) for back in range(7, 10)]
            ids = tuple(box.put_many(rows, source="email"))
            claims = [box.claim() for _ in ids]
            with open_control(self.address, watch=False, settings=self._settings) as control:
                for action, source, some in ((Action.HOLD, Box.CUR, ids), (Action.PURGE, Box.HELD, ids[:1])):
                    control.apply(control.plan(action, Selection(ids=some, box=source), force=True))
            for claim in claims:
                if claim is not None:
                    claim.end()

    def held(self) -> Sequence[HeldMessage]:
        processes = self._redis.hgetall(_NAMES.consumers)
        found = []
        for claim in self._redis.xpending_range(STREAM, WORKING, "-", "+", _LISTED):
            process = processes.get(claim["consumer"])
            if process is not None:
                id = claim["message_id"].decode()
                name = f"{id},{claim['times_delivered']}"
                found.append(HeldMessage(name, int(process.rpartition(b" ")[2]), id == self.poison))
        self._forget(processes)
        return found

    def _forget(self, processes: Mapping[bytes, bytes]) -> None:
        """Takes dead consumers out of the group that hold nothing any more, as workers do that recover by themselves."""
        for consumer, process in processes.items():
            if int(process.rpartition(b" ")[2]) in self.running or self._redis.exists(_NAMES.lease(consumer.decode())):
                continue
            if not self._redis.xpending_range(STREAM, WORKING, "-", "+", 1, consumername=consumer):
                self._redis.xgroup_delconsumer(STREAM, WORKING, consumer)
                self._redis.hdel(_NAMES.consumers, consumer)

    def is_held(self, name: str) -> bool:
        id, _, deliveries = name.partition(",")
        found = self._redis.xpending_range(STREAM, WORKING, id, id, 1)
        return bool(found) and str(found[0]["times_delivered"]) == deliveries

    def poison_waits(self, now: float) -> bool:
        found = self._redis.xpending_range(STREAM, WORKING, self.poison, self.poison, 1)
        if found:
            self._poison_at = now + speed.POISON_AGAIN
            return bool(found[0]["consumer"] == b"~spooltop")
        if now >= self._poison_at:
            with open_queue(self.address) as box:
                self.poison = box.put(sample_messages.poison(77119), source="teams")
            return True
        return False


def open_queue(address: str, lease: float = speed.LEASE) -> StreamQueue:
    """Opens the queue of the first group."""
    return StreamQueue(connect(address), STREAM, WORKING, address=address, lease=lease, durable=False)
