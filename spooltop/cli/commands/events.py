"""``events``: a line for each problem that begins, changes or ends, each operation and each lost update, until it is stopped."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable
from functools import partial
from queue import Queue

from msgspec import Struct, field

from spooltop.control import Control
from spooltop.model import Json, Snapshot, SpooltopError
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
    told = _Told(args.terminal, lambda: watching.stop())
    sinks = {name: _Sink(TargetEvents(name), told) for name in targets_of(args)}
    watching = Watching(sinks, partial(args.control, watch=True), again=_AGAIN, soon=_SOON)
    watching.require_one()
    told.runner = None if args.exec is None else _Runner(args.exec, args.terminal)
    try:
        with signals_to(watching.stop), watching:
            watching.wait()
    finally:
        if told.runner is not None:
            told.runner.close()
    if told.error is not None:
        raise told.error
    return 0


class _Told(Struct):
    """Prints events, which come from several threads, and hands them to the command. A reader that stalls holds up the looks, so
    that nothing piles up here, but not the main thread, which a signal has to end. ``stop`` is called where nothing can be
    printed any more."""

    terminal: Terminal
    stop: Callable[[], object]
    runner: _Runner | None = None
    error: Exception | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, found: list[QueueEvent]) -> None:
        with self._lock:
            if self.error is not None or not found:
                return
            try:
                self.terminal.show(map(as_json, found), map(as_text, found))
                self.terminal.flush()
            except (OSError, SpooltopError) as error:  # nobody reads any more, or the disk is full: the main thread says it
                self.error = error
                self.stop()
                return
            if self.runner is not None:
                for event in found:
                    self.runner.put(as_json(event))


class _Sink(Struct):
    """Implements ``events.Sink`` for one target."""

    events: TargetEvents
    told: _Told
    feed: OperationFeed = field(default_factory=OperationFeed)

    def look(self, control: Control, snapshot: Snapshot, seconds: float) -> None:
        self.told(self.events.look(snapshot, self.feed.newest(control, _MOST_OPERATIONS) or ()))

    def failed(self, why: str, at: float) -> None:
        self.told(self.events.failed(why, at))


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
