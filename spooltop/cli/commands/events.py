"""``events``: a line for each problem that begins, changes or ends, each operation and each lost update, until it is stopped."""

from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Callable
from functools import partial
from queue import Queue, SimpleQueue

from msgspec import Struct, field

from spooltop.control import Control
from spooltop.model.snapshot import Snapshot
from spooltop.model.vocabulary import Json
from spooltop.monitor.events import OperationFeed, QueueEvent, TargetEvents, Watching, as_json, as_text

from ..context import Arguments, Terminal, dumps, signals_to, targets_of

_MOST_OPERATIONS = 100
_SOON, _AGAIN = 0.5, 5.0
"""Seconds after which a target without changes is looked at again, at least and at most, besides the second between two looks:
the end of a process is no change in a directory."""
_COMMAND_WITHIN = 60.0
"""Seconds after which a command of ``--exec`` is killed: one that hangs must not keep back the events after it."""
_WAITING = 1_000
"""Events that wait for ``--exec``; past them, the oldest of those that wait is left out and a line says so."""


def events(args: Arguments) -> int:
    terminal = args.terminal
    heard: SimpleQueue[list[QueueEvent] | None] = SimpleQueue()
    sinks = {name: _Sink(TargetEvents(name), heard.put) for name in targets_of(args)}
    watching = Watching(sinks, partial(args.control, watch=True), again=_AGAIN, soon=_SOON, heard=heard)
    watching.require_one()
    runner = None if args.exec is None else _Runner(args.exec, terminal)
    try:
        with signals_to(lambda number: watching.stop(), signal.SIGTERM, signal.SIGINT), watching:
            for found in watching.told():
                terminal.show(map(as_json, found), map(as_text, found))
                terminal.flush()
                if runner is not None:
                    for event in found:
                        runner.put(as_json(event))
    finally:
        if runner is not None:
            runner.close()
    return 0


class _Sink(Struct):
    """Implements ``events.Sink`` for one target."""

    events: TargetEvents
    tell: Callable[[list[QueueEvent]], object]
    feed: OperationFeed = field(default_factory=OperationFeed)

    def look(self, control: Control, snapshot: Snapshot, seconds: float) -> None:
        self.tell(self.events.look(snapshot, self.feed.newest(control, _MOST_OPERATIONS) or ()))

    def failed(self, why: str, at: float) -> None:
        self.tell(self.events.failed(why, at))


class _Runner:
    """Runs the command for each event, one after the other, in a thread of its own."""

    def __init__(self, command: str, terminal: Terminal) -> None:
        self._command = command
        self._terminal = terminal
        self._waiting: Queue[dict[str, Json] | None] = Queue()
        self._left_out = 0
        self._thread = threading.Thread(target=self._run, name="events --exec", daemon=True)
        self._thread.start()

    def put(self, event: dict[str, Json]) -> None:
        if self._waiting.qsize() >= _WAITING:
            self._waiting.get_nowait()
            self._left_out += 1
        self._waiting.put(event)

    def close(self) -> None:
        """Runs the command for what waits, and ends."""
        self._waiting.put(None)
        self._thread.join(_COMMAND_WITHIN)

    def _run(self) -> None:
        while (event := self._waiting.get()) is not None:
            line = (dumps(event) + "\n").encode()
            try:
                done = subprocess.run(self._command, shell=True, input=line, timeout=_COMMAND_WITHIN, check=False)
            except subprocess.TimeoutExpired:
                self._terminal.error(f"--exec: killed after {_COMMAND_WITHIN:g}s: {self._command}")
                continue
            if done.returncode:
                self._terminal.error(f"--exec: exit code {done.returncode}: {self._command}")
            if self._left_out:
                self._terminal.error(f"--exec: {self._left_out} events were left out: the command is too slow")
                self._left_out = 0
