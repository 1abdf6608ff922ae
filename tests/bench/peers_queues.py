"""Common interface of all queues that are compared: put one, take one for good. A queue is opened anew in each process."""

from __future__ import annotations

import importlib
import mailbox
import os
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from spooltop.engine import Spool

__all__ = ["PEERS", "Peer", "Queue"]


class Queue(Protocol):
    """``take`` gives the message after it was claimed, read and acknowledged, None where there was none just now."""

    def put(self, data: bytes) -> None: ...

    def take(self) -> bytes | None: ...

    def fill(self, messages: Iterator[bytes]) -> None:
        """Puts many, as fast as it goes and without syncing: they are the depth at which is measured."""

    def close(self) -> None: ...


class _Endless:
    """A queue that needs no end."""

    def close(self) -> None:
        return None


class Own:
    def __init__(self, path: Path, durable: bool) -> None:
        self._path = str(path)
        self._spool = Spool(self._path, durable=durable) if path.is_dir() else Spool.create(self._path, durable=durable)

    def put(self, data: bytes) -> None:
        self._spool.put(data)

    def take(self) -> bytes | None:
        claim = self._spool.claim(timeout=0)
        if claim is None:
            return None
        data = claim.data
        claim.ack()
        return data

    def fill(self, messages: Iterator[bytes]) -> None:
        self._spool.put_many(messages, durable=False)

    def close(self) -> None:
        self._spool.close()


class Bare(_Endless):
    """The floor: nothing but the system calls that moving a file through two directories takes, ten names a listing."""

    def __init__(self, path: Path, durable: bool) -> None:
        self._boxes = [str(path / box) for box in ("tmp", "new", "cur")]
        for box in self._boxes:
            os.makedirs(box, exist_ok=True)
        self._durable = durable
        self._count = 0
        self._names: list[str] = []

    def put(self, data: bytes) -> None:
        tmp, new, _ = self._boxes
        self._count += 1
        name = f"{self._count}.{os.getpid()}"
        fd = os.open(f"{tmp}/{name}", os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        os.write(fd, data)
        if self._durable:
            os.fsync(fd)
        os.close(fd)
        os.rename(f"{tmp}/{name}", f"{new}/{name}")
        self._sync(new)

    def take(self) -> bytes | None:
        _, new, cur = self._boxes
        if not self._names:
            self._names = os.listdir(new)
        while self._names:
            name = self._names.pop()
            try:
                os.rename(f"{new}/{name}", f"{cur}/{name}")
            except FileNotFoundError:
                continue  # another took it
            fd = os.open(f"{cur}/{name}", os.O_RDONLY)
            data = os.read(fd, 1 << 20)
            os.close(fd)
            os.unlink(f"{cur}/{name}")
            self._sync(cur)
            return data
        return None

    def fill(self, messages: Iterator[bytes]) -> None:
        durable, self._durable = self._durable, False
        for data in messages:
            self.put(data)
        self._durable = durable

    def _sync(self, box: str) -> None:
        if self._durable:
            fd = os.open(box, os.O_RDONLY | os.O_DIRECTORY)
            os.fsync(fd)
            os.close(fd)


class Maildir(_Endless):
    """stdlib. It has no claim: a reader reads, then removes; two readers may have read the same message by then."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._box = mailbox.Maildir(path, create=True)
        self._keys: Iterator[str] = iter(())

    def put(self, data: bytes) -> None:
        self._box.add(data)

    def take(self) -> bytes | None:
        for _ in range(2):
            for key in self._keys:
                try:
                    data = self._box.get_bytes(key)
                    self._box.remove(key)
                except (KeyError, FileNotFoundError):
                    continue  # another was quicker
                return data
            self._keys = self._box.iterkeys()
        return None

    def fill(self, messages: Iterator[bytes]) -> None:
        for number, data in enumerate(messages):
            (self._path / "new" / f"1700000000.M{number}P1.host").write_bytes(data)


class Dirq(_Endless):
    def __init__(self, path: Path) -> None:
        self._queue = importlib.import_module("dirq.QueueSimple").QueueSimple(str(path))
        self._started = False

    def put(self, data: bytes) -> None:
        self._queue.add(data)

    def take(self) -> bytes | None:
        for _ in range(2):
            name = self._queue.next() if self._started else self._queue.first()
            self._started = True
            while name:
                if self._queue.lock(name):
                    data = bytes(self._queue.get(name))
                    self._queue.remove(name)
                    return data
                name = self._queue.next()
            self._started = False
        return None

    def fill(self, messages: Iterator[bytes]) -> None:
        for data in messages:
            self._queue.add(data)


class PersistFile(_Endless):
    def __init__(self, path: Path) -> None:
        self._queue = importlib.import_module("persistqueue").Queue(str(path), autosave=False)

    def put(self, data: bytes) -> None:
        self._queue.put(data)

    def take(self) -> bytes | None:
        data = bytes(self._queue.get(block=False))
        self._queue.task_done()
        return data

    def fill(self, messages: Iterator[bytes]) -> None:
        for data in messages:
            self._queue.put(data)


class PersistAck(_Endless):
    def __init__(self, path: Path) -> None:
        path.mkdir(exist_ok=True)
        module = importlib.import_module("persistqueue")
        self._empty = importlib.import_module("persistqueue.exceptions").Empty
        self._path = path
        self._queue = module.SQLiteAckQueue(str(path), auto_commit=True, auto_resume=False, multithreading=True, timeout=60)

    def put(self, data: bytes) -> None:
        self._queue.put(data)

    def take(self) -> bytes | None:
        try:
            item = self._queue.get(block=False, raw=True)
        except self._empty:
            return None
        self._queue.ack(id=item["pqid"])
        return bytes(item["data"])

    def fill(self, messages: Iterator[bytes]) -> None:
        pickle = importlib.import_module("pickle")
        with sqlite3.connect(self._path / "data.db") as database:
            rows = ((pickle.dumps(data), 0.0, 1) for data in messages)
            database.executemany("INSERT INTO ack_queue_default (data, timestamp, status) VALUES (?, ?, ?)", rows)
        database.close()


class LiteQueue(_Endless):
    def __init__(self, path: Path) -> None:
        self._queue = importlib.import_module("litequeue").LiteQueue(str(path), timeout=60)

    def put(self, data: bytes) -> None:
        self._queue.put(data.decode())

    def take(self) -> bytes | None:
        message = self._queue.pop()
        if message is None:
            return None
        self._queue.done(message.message_id)
        return str(message.data).encode()

    def fill(self, messages: Iterator[bytes]) -> None:
        with self._queue.transaction():
            for data in messages:
                self._queue.put(data.decode())


class DiskCache(_Endless):
    def __init__(self, path: Path) -> None:
        self._cache = importlib.import_module("diskcache").Cache(str(path), eviction_policy="none", timeout=60)

    def put(self, data: bytes) -> None:
        self._cache.push(data, retry=True)

    def take(self) -> bytes | None:
        key, data = self._cache.pull(retry=True)
        return None if key is None else bytes(data)

    def fill(self, messages: Iterator[bytes]) -> None:
        with self._cache.transact():
            for data in messages:
                self._cache.push(data)


class Huey(_Endless):
    def __init__(self, storage: Any, quick: Any = None) -> None:
        self._storage, self._quick = storage, quick or storage

    def put(self, data: bytes) -> None:
        self._storage.enqueue(data)

    def take(self) -> bytes | None:
        data = self._storage.dequeue()
        return None if data is None else bytes(data)

    def fill(self, messages: Iterator[bytes]) -> None:
        for data in messages:
            self._quick.enqueue(data)



class HueyFile(Huey):
    """Its own ``enqueue`` takes a number for each message of a millisecond by trying them all."""

    def __init__(self, path: Path) -> None:
        super().__init__(importlib.import_module("huey.storage").FileStorage("bench", str(path)))
        self._path = path / "queue"

    def fill(self, messages: Iterator[bytes]) -> None:
        self._path.mkdir(parents=True, exist_ok=True)
        for number, data in enumerate(messages):
            (self._path / f"ffff-{number:012x}").write_bytes(data)


def _huey_sqlite(path: Path, fsync: bool) -> Huey:
    make = importlib.import_module("huey.storage").SqliteStorage
    return Huey(make("bench", str(path), fsync=fsync, timeout=60), make("bench", str(path), fsync=False, timeout=60))


@dataclass(frozen=True)
class Peer:
    """``power`` is the class: True where a put is meant to survive a power cut. ``gives`` says what it does in truth.
    ``alone``: its files belong to one process, which then does everything."""

    name: str
    package: str
    open: Callable[[Path], Queue]
    power: bool
    gives: str
    alone: bool = False


PEERS = (
    Peer("spooltop", "", lambda path: Own(path, False), False, "killed at any point: kept, given out again"),
    Peer("bare file loop", "", lambda path: Bare(path, False), False, "the floor: killed between claim and ack: nobody looks"),
    Peer("dirq", "dirq", Dirq, False, "killed: kept, given out again after 10 min by age"),
    Peer("litequeue", "litequeue", LiteQueue, False, "killed: kept, never given out again by itself; rows stay until pruned"),
    Peer("diskcache", "diskcache", DiskCache, False, "deleted when taken: at most once"),
    Peer("huey file", "huey", HueyFile, False, "deleted when taken: at most once; a put can be seen half"),
    Peer("huey SQLite, no fsync", "huey", lambda path: _huey_sqlite(path, False), False, "deleted when taken: at most once"),
    Peer("persist-queue file", "persistqueue", PersistFile, False, "one process only: no other may open it", alone=True),
    Peer("spooltop durable", "", lambda path: Own(path, True), True, "power cut: put and ack kept"),
    Peer("bare file loop, synced", "", lambda path: Bare(path, True), True, "the floor with every sync"),
    Peer("mailbox.Maildir", "", Maildir, True, "file synced, directory not; no claim, so readers double"),
    Peer("persist-queue SQLite ack", "persistqueue", PersistAck, True, "synced; rows stay until cleared"),
    Peer("huey SQLite, fsync", "huey", lambda path: _huey_sqlite(path, True), True, "synced; deleted when taken: at most once"),
)
