"""A block: writers and readers as processes on one queue, started together, until all that was put was taken as often."""

from __future__ import annotations

import json
import os
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .peers_queues import Peer

__all__ = ["Block", "payload", "run"]

ID = 24
"""Bytes at the beginning of a message that no other message has."""
PATIENCE = 20.0
"""Seconds after which a block is broken off; what was taken until then counts."""


@dataclass(frozen=True)
class Block:
    """``taken`` messages in ``seconds``; ``twice`` were handed to two readers; ``errors`` are last lines of tracebacks."""

    taken: int
    seconds: float
    twice: int
    errors: tuple[str, ...]

    @property
    def rate(self) -> float:
        """Messages through the whole cycle a second."""
        return self.taken / self.seconds if self.taken else 0.0


def payload(name: str, size: int) -> bytes:
    return name.encode().ljust(ID, b".")[:ID].ljust(size, b"x")


def run(peer: Peer, path: Path, writers: int, readers: int, count: int, size: int, tag: str) -> Block:
    """``count`` messages for each reader, shared by the writers."""
    per_writer = -(-count * readers // writers)

    def write(number: int) -> Callable[[float], tuple[int, list[str]]]:
        queue = peer.open(path)
        messages = [payload(f"{tag}.{number}.{turn}", size) for turn in range(min(per_writer, 64))]

        def go(end: float) -> tuple[int, list[str]]:
            for turn in range(per_writer):
                head = f"{tag}.{number}.{turn}".encode().ljust(ID, b".")
                queue.put(head + messages[turn % 64][ID:])
                if time.monotonic() > end:
                    break
            queue.close()
            return 0, []

        return go

    def read() -> Callable[[float], tuple[int, list[str]]]:
        queue = peer.open(path)
        queue.put(payload(f"{tag}.w{os.getpid()}", size))
        queue.take()  # the first look at what lies there is not part of a cycle

        def go(end: float) -> tuple[int, list[str]]:
            seen: list[str] = []
            while len(seen) < count and time.monotonic() < end:
                data = queue.take()
                if data is not None:
                    seen.append(data[:ID].decode())
                else:
                    os.sched_yield()
            queue.close()
            return len(seen), seen

        return go

    def both() -> Callable[[float], tuple[int, list[str]]]:
        queue = peer.open(path)

        def go(end: float) -> tuple[int, list[str]]:
            seen: list[str] = []
            for turn in range(count * readers):
                queue.put(payload(f"{tag}.{turn}", size))
                data = queue.take()
                if data is not None:
                    seen.append(data[:ID].decode())
                if time.monotonic() > end:
                    break
            queue.close()
            return len(seen), seen

        return go

    if peer.alone:
        return _together([both])
    return _together([*(lambda n=n: write(n) for n in range(writers)), *[read] * readers])


def _together(parts: list[Callable[[], Callable[[float], tuple[int, list[str]]]]]) -> Block:
    gate_read, gate_write = os.pipe()
    pipes = []
    for part in parts:
        ours, theirs = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(gate_write)
            os.close(ours)
            _child(part, gate_read, theirs)
        os.close(theirs)
        pipes.append((pid, os.fdopen(ours, "rb")))
    os.close(gate_read)
    for _, pipe in pipes:
        pipe.readline()  # it is open and ready, or has failed
    began = time.monotonic()
    os.close(gate_write)
    ends, taken, seen, errors = [began], 0, Counter[str](), []
    for pid, pipe in pipes:
        record = json.loads(pipe.readline() or "{}")
        pipe.close()
        os.waitpid(pid, 0)
        if "error" in record or not record:
            errors.append(record.get("error", "died"))
            continue
        taken += record["taken"]
        ends.append(record["ended"])
        seen.update(record["seen"])
    twice = sum(times - 1 for times in seen.values())
    return Block(taken, max(max(ends) - began, 1e-6), twice, tuple(errors))


def _child(part: Callable[[], Callable[[float], tuple[int, list[str]]]], gate: int, out: int) -> None:
    """Opens, waits at the gate, works, tells. Ends without the parent's clean-up."""
    try:
        with os.fdopen(out, "w") as pipe:
            try:
                go = part()
                pipe.write("ready\n")
                pipe.flush()
                os.read(gate, 1)
                taken, seen = go(time.monotonic() + PATIENCE)
                record = {"taken": taken, "ended": time.monotonic(), "seen": seen}
            except Exception:  # noqa: BLE001  a peer that breaks is a result
                record = {"error": traceback.format_exc().strip().rpartition("\n")[2][:100]}
                pipe.write("failed\n")
            pipe.write(json.dumps(record) + "\n")
    finally:
        os._exit(0)
