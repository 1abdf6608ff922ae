"""A server that goes away, comes back, is a replica, refuses changes for a while, forgets scripts, or is a cluster."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from redis import Redis

from spooltop import open_queue
from spooltop.control import Control, open_control
from spooltop.errors import Refused, SpooltopError
from spooltop.model.backend import ListQuery, Sort
from spooltop.model.plan import Outcome, Selection
from spooltop.model.vocabulary import Action, Box
from tests.cli.streams import spooltop
from tests.scratch import own_state
from tests.stream_builders import StreamWorld
from tests.stream_servers import KINDS, free_port, running

CLAIMS = Selection(box=Box.CUR, everything=True)

ON_EACH = pytest.mark.parametrize("kind", KINDS)


def fill(socket: str) -> None:
    """Puts three messages, of which one is claimed, and one into the trash."""
    with Redis(unix_socket_path=socket) as client:
        client.xgroup_create("jobs", "work", "0", mkstream=True)
        for number in range(3):
            client.xadd("jobs", {"data": f"m{number}"})
        client.xreadgroup("work", "bob", {"jobs": ">"}, count=1)
        client.xadd("{jobs}:spooltop:trash:work", {"data": "x", "~id": "5-1", "~group": "work"})


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


@ON_EACH
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
            newest = control.listing(ListQuery(Box.NEW, sort=Sort("age", False)))
            newest.window(1, 2)
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
        assert [len(newest.window(start, 2)) for start in range(2)] == [0, 1]  # of what was never fetched there is nothing
        with pytest.raises(SpooltopError, match="no answer from the server"):
            control.plan(Action.PURGE, CLAIMS)
        with running(kind, folder) as socket:
            until(lambda: control.look().observation.watch.reason == "there is no such stream any more")  # it lost its data
            fill(socket)
            back = control.look()
            assert back.observation.complete and back.observation.boxes[Box.NEW].count == 2
            assert not back.observation.watch.away and "blind" not in [problem.code for problem in back.problems]


@ON_EACH
def test_a_server_that_is_away_at_the_start_opens_and_comes(folder: Path, kind: str) -> None:
    with ExitStack() as stack:
        control = opened(stack, folder, kind)
        snapshot = control.look()
        assert snapshot.observation.watch.away and snapshot.observation.boxes[Box.NEW].count is None
        assert "no answer from the server" in (snapshot.observation.capabilities.why_not(Action.PURGE) or "")
        with running(kind, folder) as socket:
            fill(socket)
            assert control.look().observation.complete


@ON_EACH
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
        seen = control.look().observation
        assert seen.boxes[Box.NEW].count == 2 and seen.watch.lag is not None and seen.as_of == seen.taken_at - seen.watch.lag
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


def do_all(control: Control, action: Action, box: Box) -> None:
    result = control.apply(control.plan(action, Selection(box=box, everything=True), force=True))
    assert result.count(Outcome.DONE) == len(result.items) > 0, result


def test_scripts_that_the_server_forgot_are_sent_again(world: StreamWorld, control: Control) -> None:
    with world.queue() as queue:
        queue.put_many([b"a", b"b"])
        one, two = queue.claims()
        again = (queue.depth, queue.recover, lambda: queue.claim().ack(), lambda: queue.put(b"x", key="k"))
        for call in (one.ack, two.release, *again):
            world.client.script_flush()
            call()
        assert queue.depth() == 1
    world.claim_dead()
    world.client.script_flush()
    do_all(control, Action.HOLD, Box.CUR)


@ON_EACH
@pytest.mark.parametrize("stream", ["jobs", "{a}:jobs", "a{b", "{{a}:jobs"])
def test_a_node_of_a_cluster_takes_every_step(kind: str, stream: str) -> None:
    # Each node takes port 10000 for the others of its cluster, whatever its own port: two at once need an address each.
    pid = os.getpid()
    cluster = ("--cluster-enabled", "yes", "--bind", f"127.{pid >> 16}.{pid >> 8 & 255}.{pid & 255}")
    with (
        TemporaryDirectory(prefix="spooltop-cluster-") as folder,
        running(kind, Path(folder), *cluster) as path,
        Redis(unix_socket_path=path) as client,
    ):
        client.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        until(lambda: "cluster_state:ok" in str(client.execute_command("CLUSTER", "INFO")))
        take_every_step(f"unix://{path}#{stream.replace('{', '%7B').replace('}', '%7D')}/work", client, stream)


def take_every_step(url: str, client: Any, stream: str) -> None:
    with open_queue(url, create=True) as queue:
        queue.put(b"x", key="k")
        queue.put_many([b"a", b"b", b"c", b"d"])
        claims = queue.claims()
        next(claims).ack()
        next(claims).reject("no")
        next(claims).release(1000.0)
        assert queue.recover() == []
    client.xreadgroup("work", "bob", {stream: ">"}, count=1)
    with open_control(url, watch=False, settings=own_state()) as control:
        seen = control.look().observation
        assert seen.complete and not seen.findings and seen.boxes[Box.REJECTED].count == 1
        for action, box in (
            (Action.HOLD, Box.CUR), (Action.RELEASE, Box.HELD), (Action.PURGE, Box.NEW), (Action.RESTORE, Box.TRASH),
        ):  # fmt: skip
            do_all(control, action, box)
        control.apply(control.plan(Action.PAUSE, Selection()))
        slots = {client.execute_command("CLUSTER", "KEYSLOT", key) for key in client.scan_iter()}
        assert len(slots) == 1 and control.look().observation.paused is not None
