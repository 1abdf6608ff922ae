"""A server that refuses changes for a while, forgets scripts, or is a cluster: nothing is half done, and all comes back."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from redis import Redis

from spooltop import open_queue
from spooltop.control import Control, open_control
from spooltop.errors import Unavailable
from spooltop.model.filters.selection import Selection
from spooltop.model.operations.plan import Outcome
from spooltop.model.vocabulary import Action, Box
from tests.scratch import own_state
from tests.stream_builders import StreamWorld
from tests.stream_servers import KINDS, running


def do_all(control: Control, action: Action, box: Box) -> None:
    result = control.apply(control.plan(action, Selection(box=box, everything=True), force=True))
    assert result.count(Outcome.DONE) == len(result.items) > 0, result


def until(state: Callable[[], bool]) -> None:
    """Asks until the server is in a state, for a minute at most."""
    end = time.monotonic() + 60
    while not state():
        assert time.monotonic() < end


def test_a_disk_that_fails_refuses_changes_and_says_so(world: StreamWorld, socket: str) -> None:
    def save(status: str) -> None:
        """Has the server save, until that ends with ``status``."""
        world.client.config_set("save", "3600 1000000")
        world.client.bgsave()
        until(lambda: world.client.info("persistence")["rdb_last_bgsave_status"] == status)

    world.put_many(3)
    world.claim_dead(2)
    before = world.census()
    in_the_way = Path(socket).parent / "dump.rdb" / "x"  # a directory where the file of the server belongs
    with world.control() as control:
        hold = control.plan(Action.HOLD, Selection(box=Box.CUR, everything=True))
        in_the_way.mkdir(parents=True)
        try:
            save("err")
            line = "the server cannot save to its disk, and takes no changes until it can; free its"
            with pytest.raises(Unavailable, match=line):
                control.apply(hold)
            with pytest.raises(Unavailable, match="cannot save to its disk"), world.queue() as queue:
                queue.put(b"x")
            seen = control.look().observation
            assert seen.complete and seen.boxes[Box.NEW].count == 1
            assert "cannot save to its disk" in str(seen.capabilities.why_not(Action.REQUEUE))
            with pytest.raises(Unavailable, match="cannot save to its disk"):
                control.plan(Action.PURGE, Selection(box=Box.NEW, everything=True))
            assert world.census() == before
            shutil.rmtree(in_the_way.parent)
            save("ok")
            assert control.look().observation.capabilities.change
            do_all(control, Action.HOLD, Box.CUR)
        finally:
            world.client.config_set("save", "")
            shutil.rmtree(in_the_way.parent, ignore_errors=True)


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


@pytest.mark.parametrize("kind", KINDS)
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
