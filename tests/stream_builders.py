"""Builder of a small world on a server: a consumer group of a stream, what happens to it, and a census of what it holds.

It stands on what is on the server as other programs see it, and on ``tests.builders``.
"""

from __future__ import annotations

import itertools
import os
import shutil
from pathlib import Path
from typing import Any, NamedTuple

from redis import Redis

from spooltop import open_queue
from spooltop.model.queue import Queue
from tests.builders import ROOT_STATE, World

__all__ = ["StreamRow", "StreamWorld"]

_NUMBERS = itertools.count(1)
SIDES = ("held", "rejected", "trash")
"""Boxes of messages that were set aside, each a stream of its own."""


class StreamRow(NamedTuple):
    """A message as the server has it: its place as in ``StreamWorld.census``, the ``id`` that it has there, the id by which it is
    ``known``, and of a claim the number of its deliveries and when it was delivered, in milliseconds."""

    content: str
    place: str
    id: str
    known: str
    tries: int = 0
    delivered: int = 0


class StreamWorld(World):
    """Group of the stream ``jobs`` on the server at ``socket``, which is emptied. A worker of spooltop runs in the group, so that
    what is handed back is claimed again. ``door`` is the socket through which spooltop comes, where that is another.

    The name of the group is new in each world: root's journals lie under it in one place for all.
    """

    def __init__(self, folder: str | Path, socket: str, door: str = "") -> None:
        self.socket, self.door = socket, door or socket
        self.stream, self.group = "jobs", f"work-{os.getpid()}-{next(_NUMBERS)}"
        self.client: Any = Redis(unix_socket_path=socket, decode_responses=True)
        super().__init__(folder)

    def build(self) -> None:
        self.client.flushall()
        self.client.config_set("maxmemory", 0)
        self.client.xgroup_create(self.stream, self.group, "0", mkstream=True)
        self.lease("worker")

    @property
    def target(self) -> str:
        return self.address(self.door)

    def address(self, socket: str) -> str:
        return f"unix://{socket}#{self.stream}/{self.group}"

    def key(self, name: str) -> str:
        """Returns the key of the group beside the stream that is called ``name``: ``held``, ``rejected``, ``consumers`` …"""
        return f"{{{self.stream}}}:spooltop:{name}:{self.group}"

    @property
    def paused(self) -> str:
        return f"{{{self.stream}}}:spooltop:paused"

    def queue(self, **options: Any) -> Queue:
        """Opens the queue, without the door."""
        return open_queue(self.address(self.socket), **options)

    # What it holds

    def put(self, content: str, source: str = "") -> str:
        """Adds a message, and returns its id."""
        return str(self.client.xadd(self.stream, {"data": content} | ({"source": source} if source else {})))

    def put_many(self, count: int) -> list[str]:
        """Adds messages ``m1``, ``m2`` …, and returns their ids."""
        start = self.client.xlen(self.stream)
        return [self.put(f"m{number}") for number in range(start + 1, start + count + 1)]

    def lease(self, consumer: str, *, runs: bool = True) -> None:
        """Makes a consumer one of spooltop's own, whose lease runs or has ended."""
        self.client.hset(self.key("consumers"), consumer, "elsewhere 1")
        (self.client.set if runs else self.client.delete)(self.lease_key(consumer), *("1",) * runs)

    def end_leases(self) -> None:
        """Ends the leases of all consumers, as their deaths do in time."""
        for name in self.client.hkeys(self.key("consumers")):
            self.client.delete(self.lease_key(name))

    def lease_key(self, consumer: str) -> str:
        return f"{{{self.stream}}}:lease:{self.group}:{consumer}"

    def claim_dead(self, count: int = 1) -> list[str]:
        """Has a consumer claim the ``count`` oldest messages and die; returns their ids."""
        self.lease("dead", runs=False)
        return self.deliver("dead", count)

    def claim_living(self, count: int = 1) -> list[str]:
        """Has a consumer claim the ``count`` oldest messages and live on; returns their ids."""
        self.lease("alive")
        return self.deliver("alive", count)

    def claim_foreign(self, content: str, consumer: str = "stranger") -> str:
        """Makes the claim of another program, where nothing else waits, and returns its id."""
        self.put(content)
        return self.deliver(consumer)[0]

    def deliver(self, consumer: str, count: int = 1) -> list[str]:
        """Delivers the ``count`` oldest messages to a consumer; returns their ids."""
        ((_, entries),) = self.client.xreadgroup(self.group, consumer, {self.stream: ">"}, count=count)
        return [id for id, _ in entries]

    def take(self, consumer: str, id: str) -> None:
        """Has a consumer take a claim over, which counts as a delivery."""
        self.client.xclaim(self.stream, self.group, consumer, 0, [id])

    def pending(self) -> dict[str, tuple[str, int]]:
        """Id → consumer and number of deliveries of each claim."""
        rows = self.client.xpending_range(self.stream, self.group, "-", "+", 10_000)
        return {row["message_id"]: (row["consumer"], row["times_delivered"]) for row in rows}

    def rows(self) -> list[StreamRow]:
        """All messages that are not done, in one step of the server."""
        pipe = self.client.pipeline()
        pipe.time()
        pipe.xinfo_groups(self.stream)
        pipe.xpending_range(self.stream, self.group, "-", "+", 10_000)
        for key in (self.stream, *map(self.key, SIDES)):
            pipe.xrange(key)
        (seconds, micros), groups, claims, entries, *sides = pipe.execute()
        now, pending = seconds * 1000 + micros // 1000, {row["message_id"]: row for row in claims}
        (last,) = [group["last-delivered-id"] for group in groups if group["name"] == self.group]
        rows = []
        for id, fields in entries:
            if (claim := pending.get(id)) is not None:
                since = now - claim["time_since_delivered"]
                rows.append(StreamRow(fields["data"], f"cur/{claim['consumer']}", id, id, claim["times_delivered"], since))
            elif _order(id) > _order(last):
                rows.append(StreamRow(fields["data"], "new", id, id))
        for box, kept in zip(SIDES, sides, strict=True):
            rows += [StreamRow(words["data"], box, id, words["~id"], int(words["~tries"])) for id, words in kept]
        return rows

    def census(self) -> dict[str, list[str]]:
        """Content of each message that is not done → the places of it: ``new``, ``cur/CONSUMER``, or where it was set aside."""
        census: dict[str, list[str]] = {}
        for row in self.rows():
            census.setdefault(row.content, []).append(row.place)
        return census

    def close(self) -> None:
        super().close()
        self.client.close()
        if os.geteuid() == 0:
            for logs in Path(ROOT_STATE).glob(f"{self.group}-*"):
                shutil.rmtree(logs)


def _order(id: str) -> tuple[int, ...]:
    return tuple(map(int, id.split("-")))
