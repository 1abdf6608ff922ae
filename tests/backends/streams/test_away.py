"""A server that goes away, comes back with or without its data, loads, is a replica: what the header says, and what is kept."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from spooltop.cli.render.snapshot_text import status
from spooltop.control import Control, open_control
from spooltop.errors import Refused, SpooltopError
from spooltop.model.filters.selection import Selection
from spooltop.model.look.snapshot import Snapshot
from spooltop.model.protocols import ListQuery
from spooltop.model.vocabulary import Action, Box
from spooltop.tui.draw.every_screen.header import header
from tests.cli.streams import spooltop
from tests.scratch import own_state
from tests.stream_servers import KINDS, running


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def folder() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="spooltop-away-"))  # the path of a socket has at most 107 bytes
    yield made
    shutil.rmtree(made)


def _filled(socket: str, count: int = 3) -> None:
    with Redis(unix_socket_path=socket) as client:
        client.xgroup_create("jobs", "work", "0", mkstream=True)
        for number in range(count):
            client.xadd("jobs", {"data": f"m{number}"})
        client.xreadgroup("work", "bob", {"jobs": ">"}, count=1)


def _header(snapshot: Snapshot, width: int = 120) -> str:
    lines = header(snapshot, width, target="redis://h#jobs/work", now=snapshot.taken_at)
    return "\n".join("".join(span.text for span in line) for line in lines)


def _opened(stack: ExitStack, folder: Path, kind: str, **more: Any) -> Control:
    made = open_control(f"unix://{folder}/{kind}.sock#jobs/work", settings=own_state(), **more)
    stack.callback(made.close)
    return made


def _until(done: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not done():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_server_that_is_away_leaves_the_last_picture_and_says_so(folder: Path, kind: str) -> None:
    with ExitStack() as stack:
        with running(kind, folder) as socket:
            _filled(socket)
            control = _opened(stack, folder, kind)
            before = control.look()
            assert "STALE" not in _header(before) and before.observation.complete
            listed = control.listing(ListQuery(Box.NEW)).window(0, 2)
        snapshot = control.look()
        seen = snapshot.observation
        assert (seen.boxes[Box.NEW].count, seen.boxes[Box.CUR].count, seen.complete) == (2, 1, False)
        again = control.listing(ListQuery(Box.NEW))
        assert list(again.window(0, 2)) == list(again.window(0, 9)) == list(listed) and len(listed) == 2
        (first, *_) = snapshot.problems
        assert first.code == "blind" and "no answer from the server: " in first.text and "the figures are " in first.text
        assert [problem.code for problem in snapshot.problems].count("blind") == 1
        head = _header(snapshot)
        assert "STALE 0s: no answer from the server: " in head and "as of " in head and seen.as_of == before.taken_at
        with pytest.raises(SpooltopError, match="no answer from the server"):
            control.plan(Action.PURGE, Selection(box=Box.CUR, everything=True))
        with running(kind, folder) as socket:
            assert control.look().observation.watch.reason == "there is no such stream any more"  # it came back without its data
            with Redis(unix_socket_path=socket) as client:
                client.xadd("jobs", {"data": "1"})
            assert control.look().observation.watch.reason == "the stream has no such group any more"
            with Redis(unix_socket_path=socket) as client:
                client.xgroup_create("jobs", "work", "0")
            back = control.look()
            assert back.observation.complete and back.observation.boxes[Box.NEW].count == 1
            assert "STALE" not in _header(back) and "blind" not in [problem.code for problem in back.problems]


def test_rows_stay_while_the_server_is_away(folder: Path, kind: str) -> None:
    queries = (ListQuery(Box.NEW), ListQuery(Box.CUR), ListQuery(Box.NEW, filter="!src:x"), ListQuery(Box.TRASH))
    for looked in (True, False):  # it may go before the next look, or after it
        with ExitStack() as stack:
            with running(kind, folder) as socket:
                _filled(socket)
                with Redis(unix_socket_path=socket) as client:
                    client.xadd("{jobs}:spooltop:trash:work", {"data": "x", "~id": "5-1", "~group": "work"})
                control = _opened(stack, folder, kind)
                control.look()
                for query in queries:
                    before = list(control.listing(query).window(0, 9))
                    control.look()  # each makes the lists anew
                    again = control.listing(query)
                    if query is queries[0]:
                        held = again
                seen = {query: list(control.listing(query).window(0, 9)) for query in queries}
                assert before and all(seen.values())
            if looked:
                assert control.look().observation.as_of is not None
            assert {query: list(control.listing(query).window(0, 9)) for query in queries} == seen
            assert list(held.window(0, 9)) == seen[queries[0]]


def test_a_server_that_is_away_at_the_start_opens_and_comes(folder: Path, kind: str) -> None:
    with ExitStack() as stack:
        control = _opened(stack, folder, kind)
        snapshot = control.look()
        assert snapshot.observation.as_of is None and snapshot.observation.boxes[Box.NEW].count is None
        assert "STALE" in _header(snapshot) and "as of — ·" in _header(snapshot)
        for command in ("status", "ls", "consumers", "cursors"):
            done = spooltop(command, f"unix://{folder}/{kind}.sock#jobs/work")
            assert (done.code, done.out) == (5, "") and done.err.count("\n") == 1, done
            assert done.err.endswith("no answer from the server: No such file or directory; start it, or look at its log\n")
        with running(kind, folder) as socket:
            _filled(socket)
            assert control.look().observation.complete


def test_a_server_that_comes_back_with_its_data_is_seen_and_operated_on_at_once(folder: Path, kind: str) -> None:
    options = ("--appendonly", "yes", "--appendfsync", "always")
    with ExitStack() as stack:
        with running(kind, folder, *options) as socket:
            _filled(socket)
            control = _opened(stack, folder, kind)
            assert control.look().observation.capabilities.change
            plan = control.plan(Action.PURGE, Selection(box=Box.CUR, everything=True), force=True)
        with pytest.raises(SpooltopError, match="no answer from the server"):
            control.apply(plan)
        with running(kind, folder, *options) as socket:
            _until(lambda: control.look().observation.complete)
            again = control.plan(Action.PURGE, Selection(box=Box.CUR, everything=True), force=True)
            assert len(again.items) == 1 and control.apply(again).items


def test_a_replica_is_shown_with_its_lag_and_changed_by_nobody(folder: Path, kind: str) -> None:
    other = folder / "other"
    other.mkdir()
    with ExitStack() as stack:
        master = stack.enter_context(running(kind, folder))
        _filled(master)
        port = _free_port()
        replica = stack.enter_context(running(kind, other))
        with Redis(unix_socket_path=master) as client:
            client.config_set("port", port)
        copy = stack.enter_context(Redis(unix_socket_path=replica))
        copy.execute_command("REPLICAOF", "127.0.0.1", port)
        _until(lambda: copy.info("replication")["master_link_status"] == "up")
        control = _opened(stack, other, kind)
        snapshot = control.look()
        seen = snapshot.observation
        assert seen.boxes[Box.NEW].count == 2 and seen.watch.lag is not None and seen.as_of == seen.taken_at - seen.watch.lag
        assert "replica ≤" in _header(snapshot) and " behind · as of " in _header(snapshot)
        assert "at most " in status(snapshot, "redis://h#jobs/work")[1] and "from a replica" in status(snapshot, "x")[1]
        assert "read-only: a replica: changes are made on its master" in _header(snapshot)
        for action in (Action.PURGE, Action.INJECT, Action.PAUSE):
            with pytest.raises(Refused, match="the server is a replica: it is changed on its master"):
                control.apply(control.plan(action, Selection(box=Box.CUR, everything=True), force=True, options={"count": 1}))
        done = spooltop("put", f"unix://{replica}#jobs/work", stdin=b"x")
        assert done.code == 5 and "the server is a replica, and takes no changes; open its master" in done.err, done
        copy.execute_command("REPLICAOF", "NO", "ONE")  # the failover: it comes by itself
        _until(lambda: control.look().observation.capabilities.change)
        assert control.apply(control.plan(Action.PURGE, Selection(box=Box.CUR, everything=True), force=True)).items


def _free_port() -> int:
    import socket

    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
