"""A server that refuses changes for a while, forgets scripts, or is a cluster: nothing is half done, and all comes back."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from spooltop.backends.redis.queue.connection import connect
from spooltop.backends.redis.queue.stream_queue import StreamQueue
from spooltop.backends.redis.stream_names import StreamNames
from spooltop.backends.redis.trouble import trouble_of_reply
from spooltop.control import open_control
from spooltop.errors import SpoolFull, Unavailable
from spooltop.model.filters.selection import Selection
from spooltop.model.operations.plan import Outcome
from spooltop.model.vocabulary import Action, Box
from spooltop.queues import open_queue
from tests.scratch import own_state
from tests.stream_servers import KINDS, running

from .group import Group, done, plan


@pytest.fixture
def group(socket: str, tmp_path: Path) -> Iterator[Group]:
    made = Group(socket, tmp_path)
    yield made
    made.close()


def _everything(group: Group) -> list[object]:
    keys = sorted(group.ask("KEYS", "*"))
    return [(key, group.ask("DUMP", key)) for key in keys]


def test_no_memory_puts_no_message_of_an_operator(group: Group) -> None:
    group.put(3)
    group.claim("dead", 2)
    ops = group.operations()
    made = [plan(ops, Action.INJECT, count=250, text="hello"), plan(ops, Action.HOLD, Box.CUR), plan(ops, Action.PURGE, Box.NEW)]
    before = _everything(group)
    group.ask("CONFIG", "SET", "maxmemory", "1")
    for one in made:
        with pytest.raises(SpoolFull, match="the memory of the server is full; free memory, or raise its maxmemory"):
            ops.apply(one)
    assert _everything(group) == before
    group.ask("CONFIG", "SET", "maxmemory", "0")
    assert done(ops, Action.HOLD, Box.CUR).count(Outcome.DONE) == 2


def test_a_disk_that_fails_refuses_changes_and_says_so(group: Group, socket: str) -> None:
    group.put(3)
    group.claim("dead", 2)
    ops = group.operations()
    found = plan(ops, Action.HOLD, Box.CUR)
    before = _everything(group)
    in_the_way = Path(socket).parent / "dump.rdb" / "x"  # a directory where the file of the server belongs
    in_the_way.mkdir(parents=True)
    try:
        _saved(group, b"err")
        with pytest.raises(Unavailable, match="the server cannot save to its disk, and takes no changes until it can; free its"):
            ops.apply(found)
        with pytest.raises(Unavailable, match="cannot save to its disk"), open_queue(f"unix://{socket}#jobs/work") as queue:
            queue.put(b"x")
        with open_control(f"unix://{socket}#jobs/work", watch=False, settings=own_state()) as control:
            seen = control.look().observation
            assert seen.complete and seen.boxes[Box.NEW].count == 1
            assert "cannot save to its disk" in str(seen.capabilities.why_not(Action.REQUEUE))
            with pytest.raises(Unavailable, match="cannot save to its disk"):
                control.plan(Action.PURGE, Selection(box=Box.NEW, everything=True))
            assert _everything(group) == before
            shutil.rmtree(in_the_way.parent)
            _saved(group, b"ok")
            assert control.look().observation.capabilities.change
        done(ops, Action.HOLD, Box.CUR)
    finally:
        group.ask("CONFIG", "SET", "save", "")
        shutil.rmtree(in_the_way.parent, ignore_errors=True)


def _saved(group: Group, how: bytes) -> None:
    """Has the server save, until that ends as it should."""
    group.ask("CONFIG", "SET", "save", "3600 1000000")
    group.ask("BGSAVE")
    end = time.monotonic() + 60
    while b"rdb_last_bgsave_status:" + how not in group.ask("INFO", "persistence"):
        assert time.monotonic() < end


def test_scripts_that_the_server_forgot_are_sent_again(group: Group, socket: str) -> None:
    ops = group.operations()
    with StreamQueue(connect(f"unix://{socket}"), "jobs", "work", address="redis://here#jobs/work") as queue:
        for _ in range(2):
            queue.put(b"x", key="k")
            ids = queue.put_many([b"a", b"b"])
            claims = [queue.claim(), queue.claim(), queue.claim() if len(ids) > 2 else None]
            group.ask("SCRIPT", "FLUSH")
            one, two = (claim for claim in claims if claim is not None)
            one.ack()
            two.release()
            group.ask("SCRIPT", "FLUSH")
            assert queue.depth() >= 1 and queue.recover() == []
            group.ask("SCRIPT", "FLUSH")
            while (claim := queue.claim()) is not None:
                claim.ack()
    group.put(2)
    group.claim("dead", 2)
    found = plan(ops, Action.HOLD, Box.CUR)
    group.ask("SCRIPT", "FLUSH")
    assert ops.apply(found).count(Outcome.DONE) == 2


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("stream", ["jobs", "{a}:jobs", "a{b", "{{a}:jobs"])
def test_a_node_of_a_cluster_takes_every_step(kind: str, stream: str) -> None:
    folder = Path(tempfile.mkdtemp(prefix="spooltop-cluster-"))  # the path of a socket has at most 107 bytes
    # Each node takes port 10000 for the others of its cluster, whatever its own port: two at once need an address each.
    pid = os.getpid()
    address = f"127.{pid >> 16}.{pid >> 8 & 255}.{pid & 255}"
    try:
        with running(kind, folder, "--cluster-enabled", "yes", "--bind", address) as path, Redis(unix_socket_path=path) as client:
            client.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
            end = time.monotonic() + 60
            while b"cluster_state:ok" not in _cluster_info(client):
                assert time.monotonic() < end
            _steps(f"unix://{path}#{stream.replace('{', '%7B').replace('}', '%7D')}/work", client, StreamNames(stream, "work"))
    finally:
        shutil.rmtree(folder)


def _cluster_info(client: Any) -> bytes:
    return str(client.execute_command("CLUSTER", "INFO")).encode()


def _steps(url: str, client: Any, names: StreamNames) -> None:
    with open_queue(url, create=True) as queue:
        queue.put(b"x", key="k")
        queue.put_many([b"a", b"b", b"c", b"d"])
        first, second, third = queue.claim(), queue.claim(), queue.claim()
        assert first is not None and second is not None and third is not None
        first.ack()
        second.reject("no")
        third.release(1000.0)
        assert queue.recover() == []
    client.xreadgroup("work", "bob", {names.stream: ">"}, count=1)
    with open_control(url, watch=False, settings=own_state()) as control:
        seen = control.look().observation
        assert seen.complete and not seen.findings and seen.boxes[Box.REJECTED].count == 1
        steps = ((Action.HOLD, Box.CUR), (Action.RELEASE, Box.HELD), (Action.PURGE, Box.NEW), (Action.RESTORE, Box.TRASH))
        for action, box in steps:
            result = control.apply(control.plan(action, Selection(box=box, everything=True), force=True))
            assert result.count(Outcome.DONE) == len(result.items) > 0, result
        control.apply(control.plan(Action.PAUSE, Selection()))
        slots = {client.execute_command("CLUSTER", "KEYSLOT", key) for key in client.scan_iter()}
        assert len(slots) == 1 and control.look().observation.paused is not None




@pytest.mark.parametrize("stream", ["a{}b", "a}b"])
def test_a_name_beside_which_no_key_can_lie_is_said(stream: str) -> None:
    text = "CROSSSLOT Keys in request don't hash to the same slot"
    assert "in a cluster no key can lie beside a stream of this name; name it without }" in trouble_of_reply(text).line
    assert not StreamNames(stream, "work").prefix.startswith(stream)
