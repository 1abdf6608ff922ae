"""``spooltop move`` from and to a stream: what is left, what comes again, and what a killed move leaves."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from spooltop import open_queue
from spooltop.engine import Spool
from spooltop.errors import SpoolFull
from tests.cli.streams import Done, spooltop
from tests.matrix.streams import died
from tests.stream_builders import StreamWorld

MOVED = "moved 1 message\n"


@pytest.fixture
def folder(tmp_path: Path) -> str:
    Spool.create(tmp_path / "a").close()
    return str(tmp_path / "a")


def moved(*words: str) -> Done:
    return spooltop("move", *words, "--yes", "--no-durable")


def put(queue: str, *contents: bytes) -> None:
    with open_queue(queue) as opened:
        opened.put_many(contents)


def contents(queue: str) -> list[bytes]:
    found = []
    with open_queue(queue) as opened:
        for claim in opened.claims():
            with claim:
                found.append(claim.data)
    return sorted(found)


def killed_move(source: str, target: str, *, put: bool, ack: bool = False) -> None:
    """Moves a message in a process that is killed, before or after its put and its ack."""

    def move() -> None:
        from_queue: Any = open_queue(source)
        to_queue = open_queue(target)
        mover = from_queue.mover(to_queue.identity)
        claim = mover.claim()
        if put:
            to_queue.put(claim.data, source=claim.source, key=mover.key(claim))
        if ack:
            claim.ack()
        os._exit(0)

    died(move)


def side_keys(world: StreamWorld, folder: str) -> list[str]:
    """What a move has left beside the two queues."""
    beside = {"jobs", "{jobs}:spooltop:audit", world.key("consumers"), f"{{jobs}}:lease:{world.group}:worker"}
    names = [Path(folder, ".spooltop", name) for name in ("keys", "consumers")]
    workers = [name for name in world.client.hkeys(world.key("consumers")) if name != "worker"]
    keys = sorted(set(world.client.keys()) - beside)
    return keys + workers + [file for name in names if name.is_dir() for file in os.listdir(name)]


@pytest.mark.parametrize("back", [False, True])
def test_all_that_waits_is_moved_and_nothing_is_left_beside_it(world: StreamWorld, folder: str, back: bool) -> None:
    source, target = (world.target, folder) if back else (folder, world.target)
    put(source, b"one", b"two", b"two")
    done = moved(source, target)
    assert (done.code, done.out) == (0, "moved 3 messages\n") and side_keys(world, folder) == []
    assert contents(target) == [b"one", b"two", b"two"]


def test_an_entry_id_that_comes_again_is_moved_again(world: StreamWorld, folder: str) -> None:
    for content in (b"first", b"second"):
        with Spool(folder) as spool:
            spool.put(content, id="order-17")
        assert moved(folder, world.target).out == MOVED
    assert contents(world.target) == [b"first", b"second"]
    for content in ("first", "second"):
        world.client.delete("jobs")
        world.client.xgroup_create("jobs", world.group, "0", mkstream=True)
        world.client.xadd("jobs", {"data": content}, id="7-1")
        assert moved(world.target, folder).out == MOVED
    assert contents(folder) == [b"first", b"second"]


def test_two_groups_of_a_stream_are_moved_to_one_target(world: StreamWorld, folder: str) -> None:
    world.client.xgroup_create("jobs", "mail", "0")
    world.put("one")
    killed_move(world.target, folder, put=True, ack=True)
    assert moved(world.target.replace(world.group, "mail"), folder).out == MOVED
    assert contents(folder) == [b"one", b"one"]


def test_one_stream_under_two_names_is_refused(world: StreamWorld) -> None:
    world.client.xgroup_create("jobs", "mail", "0")
    link = Path(world.socket).with_suffix(f".{world.group}")
    link.symlink_to(world.socket)
    for other in (world.address(str(link)), world.target.replace(world.group, "mail")):
        done = moved(world.target, other)
        assert done.code == 2 and "both are the same queue, as unix://" in done.err
    with Redis(unix_socket_path=world.socket, db=1) as another:
        another.xgroup_create("jobs", "work", "0", mkstream=True)
    world.put("one")
    assert moved(world.target, f"unix://{world.socket}?db=1#jobs/work").out == MOVED


@pytest.mark.parametrize("back", [False, True])
@pytest.mark.parametrize("put_before", [False, True])
def test_what_a_killed_move_held_is_taken_by_the_next_one_alone(
    world: StreamWorld, folder: str, back: bool, put_before: bool
) -> None:
    source, target = (world.target, folder) if back else (folder, world.target)
    put(source, b"one")
    killed_move(source, target, put=put_before)
    world.end_leases()
    with open_queue(source) as queue:
        assert queue.recover() == [] and queue.claim() is None
    world.lease("worker")
    done = moved(source, target)
    assert done.out == ("moved 0 messages; 1 had been put by an earlier run\n" if put_before else MOVED)
    assert done.code == 0 and side_keys(world, folder) == [] and contents(target) == [b"one"]


def test_operators_leave_it_to_the_next_move(world: StreamWorld, folder: str, tmp_path: Path) -> None:
    world.put("one")
    killed_move(world.target, folder, put=False)
    running = moved(world.target, folder)
    assert running.code == 1 and "move: 1 is claimed by a running consumer, again in 10 s" in running.err
    world.end_leases()
    Spool.create(tmp_path / "c").close()
    elsewhere = moved(world.target, str(tmp_path / "c"))
    assert elsewhere.code == 1 and f"1 is left of a move to {folder} that was killed" in elsewhere.err
    assert contents(str(tmp_path / "c")) == []
    again = f"a move to {folder} was killed; run the same move again: spooltop move "
    refused = spooltop("requeue", world.target, "ALL", "--yes")
    assert refused.code == 3 and again in refused.out + refused.err
    assert again in spooltop("status", world.target).out
    forced = spooltop("requeue", world.target, "ALL", "--yes", "--force")
    assert forced.code == 0 and f"it may be in {folder} as well" in forced.out


@pytest.mark.parametrize("back", [False, True])
def test_what_is_left_of_a_move_that_was_killed_after_an_ack_is_removed(world: StreamWorld, folder: str, back: bool) -> None:
    source, target = (world.target, folder) if back else (folder, world.target)
    put(source, b"one")
    killed_move(source, target, put=True, ack=True)
    world.end_leases()
    assert side_keys(world, folder) != []
    world.lease("worker")
    assert moved(source, target).code == 4
    assert side_keys(world, folder) == [] and contents(target) == [b"one"]


def test_claims_of_the_dead_are_moved_and_those_of_other_programs_are_told(world: StreamWorld, folder: str) -> None:
    world.put_many(250)
    world.claim_dead(250)
    assert moved(world.target, folder).out == "moved 250 messages\n"
    world.claim_foreign("held", "w7")
    world.put("one")
    done = moved(world.target, folder)
    assert (done.code, done.out) == (1, "moved 1 message; 1 is claimed by an unknown holder\n")
    assert len(contents(folder)) == 251


def test_attempts_are_not_counted_by_a_move_that_fails(
    world: StreamWorld, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: Spool, *words: Any, **named: Any) -> str:
        raise SpoolFull("put: no space or no inodes left", path=self.path)

    world.put("one")
    monkeypatch.setattr(Spool, "put", full)
    for _ in range(12):
        assert moved(world.target, folder).code != 0
    assert world.census() == {"one": ["cur/~spooltop"]}


def test_a_mover_without_its_lease_puts_nothing(world: StreamWorld, folder: str) -> None:
    """A process that was stopped for longer than its lease: the next move may have taken its claim over."""
    world.put("one")
    source: Any = world.queue()
    with source, open_queue(folder) as target, source.mover(target.identity) as mover:
        claim = mover.claim()
        assert mover.holds(claim)
        mover._consumer._lease._until = 0.0
        assert not mover.holds(claim)
        mover.leave(claim)
    assert moved(world.target, folder).out == MOVED


def test_a_record_that_somebody_wrote_does_no_harm(world: StreamWorld, folder: str) -> None:
    for text in ('vm 7 {"role": "move"}', 'vm 7 {"role": "move", "target_marks": [1, {}], "begin": 3}', "vm 7 {", "", "vm"):
        world.client.hset(world.key("consumers"), "vm-7", text)
        world.put("one")
        assert moved(world.target, folder).out == MOVED
