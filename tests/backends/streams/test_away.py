"""A server that goes away, comes back with or without its data, loads, is a replica: what a look says, and what is kept."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from spooltop.control import Control, open_control
from spooltop.errors import Refused, SpooltopError
from spooltop.model.filters.selection import Selection
from spooltop.model.look.snapshot import Snapshot
from spooltop.model.protocols import ListQuery
from spooltop.model.vocabulary import Action, Box
from spooltop.tui.draw.every_screen.header import header
from tests.cli.streams import spooltop
from tests.scratch import own_state
from tests.stream_servers import KINDS, free_port, running

CLAIMS = Selection(box=Box.CUR, everything=True)

pytestmark = pytest.mark.parametrize("kind", KINDS)


def fill(socket: str) -> None:
    """Puts three messages, of which one is claimed, and one into the trash."""
    with Redis(unix_socket_path=socket) as client:
        client.xgroup_create("jobs", "work", "0", mkstream=True)
        for number in range(3):
            client.xadd("jobs", {"data": f"m{number}"})
        client.xreadgroup("work", "bob", {"jobs": ">"}, count=1)
        client.xadd("{jobs}:spooltop:trash:work", {"data": "x", "~id": "5-1", "~group": "work"})


def header_of(snapshot: Snapshot) -> str:
    lines = header(snapshot, 120, target="redis://h#jobs/work", now=snapshot.taken_at)
    return "\n".join("".join(span.text for span in line) for line in lines)


def opened(stack: ExitStack, folder: Path, kind: str) -> Control:
    control = open_control(f"unix://{folder}/{kind}.sock#jobs/work", settings=own_state())
    stack.callback(control.close)
    return control


def until(state: Callable[[], bool]) -> None:
    """Asks until the server is in a state, for a minute at most."""
    end = time.monotonic() + 60
    while not state():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.parametrize("looked", [True, False])  # it may go before the next look, or after it
def test_a_server_that_is_away_leaves_the_last_picture_and_says_so(folder: Path, kind: str, looked: bool) -> None:
    queries = (ListQuery(Box.NEW), ListQuery(Box.CUR), ListQuery(Box.NEW, filter="!src:x"), ListQuery(Box.TRASH))
    with ExitStack() as stack:
        with running(kind, folder) as socket:
            fill(socket)
            control = opened(stack, folder, kind)
            before = control.look()
            assert before.observation.complete and not before.observation.watch.away
            for query in queries:
                held = control.listing(query)
                held.window(0, 9)
                before = control.look()  # each makes the lists anew
                control.listing(query)
            rows = {query: list(control.listing(query).window(0, 9)) for query in queries}
            assert all(rows.values())
        if looked:
            snapshot = control.look()
            seen = snapshot.observation
            assert (seen.boxes[Box.NEW].count, seen.boxes[Box.CUR].count, seen.complete) == (2, 1, False)
            (first, *others) = snapshot.problems
            assert first.code == "blind" and "no answer from the server: " in first.text and "the figures are " in first.text
            assert "blind" not in [problem.code for problem in others] and seen.as_of == before.taken_at
            assert seen.watch.away and seen.watch.reason.startswith("no answer from the server: ")
        assert {query: list(control.listing(query).window(0, 9)) for query in queries} == rows
        assert list(held.window(0, 9)) == rows[queries[-1]]
        with pytest.raises(SpooltopError, match="no answer from the server"):
            control.plan(Action.PURGE, CLAIMS)
        with running(kind, folder) as socket:
            until(lambda: control.look().observation.watch.reason == "there is no such stream any more")  # it lost its data
            fill(socket)
            back = control.look()
            assert back.observation.complete and back.observation.boxes[Box.NEW].count == 2
            assert not back.observation.watch.away and "blind" not in [problem.code for problem in back.problems]


def test_a_server_that_is_away_at_the_start_opens_and_comes(folder: Path, kind: str) -> None:
    with ExitStack() as stack:
        control = opened(stack, folder, kind)
        snapshot = control.look()
        assert snapshot.observation.watch.away and snapshot.observation.boxes[Box.NEW].count is None
        assert "STALE" in header_of(snapshot) and "as of — ·" in header_of(snapshot)
        assert "no answer from the server" in (snapshot.observation.capabilities.why_not(Action.PURGE) or "")
        for command in ("status", "ls", "consumers", "cursors"):
            done = spooltop(command, f"unix://{folder}/{kind}.sock#jobs/work")
            assert (done.code, done.out) == (5, "") and done.err.count("\n") == 1, done
            assert done.err.endswith("no answer from the server: No such file or directory; start it, or look at its log\n")
        with running(kind, folder) as socket:
            fill(socket)
            assert control.look().observation.complete


def test_a_server_that_comes_back_with_its_data_is_seen_and_operated_on_at_once(folder: Path, kind: str) -> None:
    options = ("--appendonly", "yes", "--appendfsync", "always")
    with ExitStack() as stack:
        with running(kind, folder, *options) as socket:
            fill(socket)
            control = opened(stack, folder, kind)
            assert control.look().observation.capabilities.change
            plan = control.plan(Action.PURGE, CLAIMS, force=True)
        with pytest.raises(SpooltopError, match="no answer from the server"):
            control.apply(plan)
        with running(kind, folder, *options):
            until(lambda: control.look().observation.complete)
            again = control.plan(Action.PURGE, CLAIMS, force=True)
            assert len(again.items) == 1 and control.apply(again).items


def test_a_replica_is_shown_with_its_lag_and_changed_by_nobody(folder: Path, kind: str) -> None:
    other = folder / "other"
    other.mkdir()
    with ExitStack() as stack:
        fill(stack.enter_context(running(kind, folder, "--port", str(port := free_port()))))
        replica = stack.enter_context(running(kind, other))
        copy: Any = stack.enter_context(Redis(unix_socket_path=replica))
        copy.execute_command("REPLICAOF", "127.0.0.1", port)
        until(lambda: copy.info("replication")["master_link_status"] == "up")
        control = opened(stack, other, kind)
        snapshot = control.look()
        seen = snapshot.observation
        assert seen.boxes[Box.NEW].count == 2 and seen.watch.lag is not None and seen.as_of == seen.taken_at - seen.watch.lag
        assert "replica ≤" in header_of(snapshot) and " behind · as of " in header_of(snapshot)
        assert seen.who.words == "read-only: a replica: changes are made on its master"
        url = f"unix://{replica}#jobs/work"
        line = spooltop("status", url).out.splitlines()[1]
        assert "at most " in line and "from a replica" in line
        for action in (Action.PURGE, Action.INJECT, Action.PAUSE):
            with pytest.raises(Refused, match="the server is a replica: it is changed on its master"):
                control.apply(control.plan(action, CLAIMS, force=True, options={"count": 1}))
        done = spooltop("put", url, stdin=b"x")
        assert done.code == 5 and "the server is a replica, and takes no changes; open its master" in done.err, done
        copy.execute_command("REPLICAOF", "NO", "ONE")  # the failover: it comes by itself
        until(lambda: control.look().observation.capabilities.change)
        assert control.apply(control.plan(Action.PURGE, CLAIMS, force=True)).items
