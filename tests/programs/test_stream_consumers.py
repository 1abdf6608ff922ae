"""Streams are operated while the workers of other libraries take from them, and one is killed: all messages are done."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from redis import Redis

from spooltop.backends.redis.operator import operator
from spooltop.backends.redis.stream_names import StreamNames
from spooltop.control import Control, open_control
from spooltop.model.plan import Outcome, Plan, Result, Selection
from spooltop.model.vocabulary import Action, Box, Verdict
from tests.stream_servers import running

from .actor import Actor, library, wait_for
from .installed import STREAM_PACKAGES

pytestmark = [pytest.mark.programs, pytest.mark.timeout(300)]
NAMES = StreamNames("jobs", "work")
WORDS = {
    "taskiq_streams": "consumers that use XAUTOCLAIM take it",
    "faststream_streams": "nobody was seen to use XAUTOCLAIM, so its consumers only read new entries",
}
"""What a plan says about the consumers of each library."""


def _all(control: Control, action: Action, box: Box, *, force: bool = False) -> Plan:
    return control.plan(action, Selection(box=box, everything=True), force=force)


def _apply(control: Control, plan: Plan) -> Result:
    result = control.apply(plan)
    assert not result.count(Outcome.FAILED), result
    return result


@contextmanager
def _stopped(server: Any, actors: Sequence[Actor]) -> Iterator[None]:
    """Stops these processes meanwhile, and lets those go on that are still among them."""
    for actor in actors:
        os.kill(actor.pid, signal.SIGSTOP)
        os.waitpid(actor.pid, os.WUNTRACED)
    server.ping()  # by its answer the server has read all that they had sent
    yield
    for actor in actors:
        os.kill(actor.pid, signal.SIGCONT)


@pytest.mark.parametrize("driver", WORDS)
def test_all_messages_are_done(driver: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operator, "STATE_DIR", str(tmp_path))  # where the journal of root lies
    with ExitStack() as stack:
        folder = stack.enter_context(TemporaryDirectory(prefix="spooltop-streams-"))
        socket = stack.enter_context(running("redis", Path(folder)))
        server: Any = stack.enter_context(Redis(unix_socket_path=socket, decode_responses=True))
        server.xgroup_create("jobs", "work", "0", mkstream=True)
        producer, victim, worker = (stack.enter_context(library(driver, Path(socket), STREAM_PACKAGES)) for _ in range(3))
        working, put = [victim, worker], set[str]()

        def add(count: int) -> None:
            for _ in range(count):
                data = f"m{len(put)}"
                put.add(data)
                producer.ask("put", data=data)

        def done() -> set[str]:
            return set(server.lrange("done", 0, -1))

        name = victim.ask("work")
        worker.ask("work")
        add(20)
        wait_for(lambda: len(done()) > 10)
        control = stack.enter_context(open_control(f"unix://{socket}#jobs/work", watch=False, settings={}))
        with _stopped(server, working):
            add(40)
            purge = _all(control, Action.PURGE, Box.NEW)
        assert len(purge.items) >= 20
        _apply(control, purge)
        while victim in working:
            add(20)
            with _stopped(server, working):
                if server.xpending_range("jobs", "work", "-", "+", 1, consumername=name):
                    victim.kill()
                    working.remove(victim)
        _apply(control, control.plan(Action.UNDO, Selection(), options={"undoes": purge.operation}))
        with _stopped(server, working):
            add(40)
            hold = _all(control, Action.HOLD, Box.NEW)
            requeue = _all(control, Action.REQUEUE, Box.CUR, force=True)
        dead = [item.row for item in requeue.items if item.row.owner is not None and item.row.owner.name == name]
        assert dead and {row.verdict for row in dead} == {Verdict.UNKNOWN}
        assert WORDS[driver] in requeue.notes[0]
        _apply(control, hold)
        _apply(control, requeue)
        _apply(control, _all(control, Action.RELEASE, Box.HELD))
        if driver == "taskiq_streams":
            add(1)  # its workers use XAUTOCLAIM only when something new came
        wait_for(lambda: put <= done() and not server.xpending("jobs", "work")["pending"])
        assert done() == put
        assert not server.xlen(NAMES.held) and not server.xlen(NAMES.trash) and not server.xlen(NAMES.rejected)
