"""Operators beside consumers that know nothing of spooltop: the loop over XREADGROUP and XACK that redis-py's manual shows."""

from __future__ import annotations

import os
import signal
import socket as sockets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from spooltop.backends.redis.operator import opening
from spooltop.control import Control, open_control
from spooltop.model.filters.selection import Selection
from spooltop.model.operations.plan import Outcome, Plan, Result
from spooltop.model.protocols import ListQuery
from spooltop.model.row import Row
from spooltop.model.vocabulary import Action, Box, Verdict
from tests.scratch import own_state

from .conftest import NAMES

_STEALS_AFTER = 3_600_000
"""Milliseconds: within this test nothing is stolen but what an operator handed over."""


def consume(path: str, name: str, *, steals: bool) -> None:
    """Works for ever. ``steals``: also on what others left."""
    with Redis(unix_socket_path=path, decode_responses=True) as client:
        server: Any = client
        while True:
            read = server.xreadgroup("work", name, {"jobs": ">"}, count=5, block=20)
            found = read[0][1] if read else []
            if steals:
                found += server.xautoclaim("jobs", "work", name, _STEALS_AFTER, "0-0", count=5)[1]
            for id, fields in found:
                threading.Event().wait(0.002)  # the work
                server.rpush("done", fields["data"])
                server.xack("jobs", "work", id)


class Consumers:
    """Processes that consume, and the messages that were put for them."""

    def __init__(self, path: str, server: Any, *, steals: bool) -> None:
        self._path = path
        self._server = server
        self._steals = steals
        self._pids: dict[str, int] = {}
        self.put: set[str] = set()

    def start(self, name: str = "") -> str:
        """Starts one; without a ``name``, its name is that of this host and its pid."""
        pid = os.fork()
        if pid == 0:
            try:
                consume(self._path, name or f"{sockets.gethostname()}-{os.getpid()}", steals=self._steals)
            finally:
                os._exit(1)
        self._pids[name := name or f"{sockets.gethostname()}-{pid}"] = pid
        return name

    def add(self, count: int) -> None:
        for _ in range(count):
            data = f"m{len(self.put)}"
            self.put.add(data)
            self._server.xadd("jobs", {"data": data})

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Stops all of them meanwhile."""
        for pid in self._pids.values():
            os.kill(pid, signal.SIGSTOP)
            os.waitpid(pid, os.WUNTRACED)
        self._server.ping()  # by its answer the server has read all that they had sent
        yield
        for pid in self._pids.values():
            os.kill(pid, signal.SIGCONT)

    def kill_at_work(self, name: str) -> None:
        """Kills one while it holds claims."""
        while True:
            self.add(20)
            with self.stopped():
                if self._server.xpending_range("jobs", "work", "-", "+", 1, consumername=name):
                    return self._end(name)

    def wait(self) -> None:
        """Waits until all messages are done."""
        while self.put - self.done() or self._server.xpending("jobs", "work")["pending"]:
            threading.Event().wait(0.02)

    def done(self) -> set[str]:
        return {one.decode() for one in self._server.lrange("done", 0, -1)}

    def _end(self, name: str) -> None:
        pid = self._pids.pop(name)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)

    def end(self) -> None:
        for name in list(self._pids):
            self._end(name)


@pytest.fixture(params=[False, True], ids=["reads", "steals"])
def steals(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def consumers(jobs: Any, socket: str, steals: bool) -> Iterator[Consumers]:
    jobs.config_resetstat()
    made = Consumers(socket, jobs, steals=steals)
    yield made
    made.end()


def _apply(control: Control, plan: Plan) -> Result:
    result = control.apply(plan)
    assert not result.count(Outcome.FAILED), result
    return result


def _all(control: Control, action: Action, box: Box, *, force: bool = False) -> Plan:
    return control.plan(action, Selection(box=box, everything=True), force=force)


def _claims_of(control: Control, name: str) -> list[Row]:
    control.look(rescan=True)
    rows = control.listing(ListQuery(Box.CUR)).window(0, 999)
    return [row for row in rows if row.owner is not None and row.owner.name == name]


def test_all_messages_are_done(
    jobs: Any, socket: str, steals: bool, consumers: Consumers, memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "STATE_DIR", str(memory))  # where the journal of root lies
    named, unnamed = consumers.start(), consumers.start("worker b")
    living = [consumers.start("worker c"), consumers.start()]
    consumers.add(100)
    with open_control(f"unix://{socket}#jobs/work", watch=False, settings=own_state()) as control:
        with consumers.stopped():
            consumers.add(40)
            purge = _all(control, Action.PURGE, Box.NEW)
        assert len(purge.items) >= 20  # the others were delivered to who waited for them
        _apply(control, purge)
        consumers.kill_at_work(named)
        dead = _claims_of(control, named)
        assert {row.verdict for row in dead} == {Verdict.UNKNOWN}
        assert all(row.evidence.startswith(f"may be pid {named.rpartition('-')[2]} of this host") for row in dead)
        requeue = control.plan(Action.REQUEUE, Selection(box=Box.CUR, keys=tuple(row.key for row in dead)))
        assert len(requeue.items) == len(dead)
        assert ("consumers that use XAUTOCLAIM take it" if steals else "only read new entries") in requeue.notes[0]
        assert _apply(control, requeue).count(Outcome.DONE) == len(dead)
        _apply(control, control.plan(Action.UNDO, Selection(), options={"undoes": purge.operation}))
        with consumers.stopped():
            consumers.add(40)
            holds = [_all(control, Action.HOLD, box, force=True) for box in (Box.NEW, Box.CUR)]
        assert len(holds[0].items) >= 20
        for plan in holds:
            _apply(control, plan)
        _apply(control, _all(control, Action.RELEASE, Box.HELD))
        consumers.kill_at_work(unnamed)
        unknown = _claims_of(control, unnamed)
        assert {row.verdict for row in unknown} == {Verdict.UNKNOWN}
        forced = _all(control, Action.REQUEUE, Box.CUR, force=True)
        assert {row.id for row in unknown} <= {item.row.id for item in forced.items}
        _apply(control, forced)
        consumers.wait()
        with consumers.stopped():
            assert not any(_claims_of(control, name) for name in (named, unnamed, *living))
    assert consumers.done() == consumers.put
    assert not jobs.xlen(NAMES.held) and not jobs.xlen(NAMES.trash) and not jobs.xlen(NAMES.rejected)
