"""``spooltop move`` from and to a stream: what is left, what comes again, and what a killed move leaves."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from spooltop import open_queue
from spooltop.backends.redis.stream_names import LeaseRecord
from spooltop.engine import Spool
from tests.cli.streams import Done, spooltop

from .conftest import NAMES


@pytest.fixture
def address(socket: str, jobs: Any) -> str:
    return f"unix://{socket}#jobs/work"


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


def in_child(steps: Callable[[], object]) -> None:
    """Runs ``steps`` in a process that is killed after them."""
    child = os.fork()
    if child == 0:
        try:
            steps()
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0


def killed_move(source: str, target: str, *, put: bool, ack: bool = False) -> None:
    def steps() -> None:
        from_queue, to_queue = open_queue(source), open_queue(target)
        mover = from_queue.mover(to_queue.identity)
        claim = mover.claim()
        if put:
            to_queue.put(claim.data, source=claim.source, key=mover.key(claim))
        if ack:
            claim.ack()
        os._exit(0)

    in_child(steps)


def end_leases(client: Any) -> None:
    for key in client.keys(f"{NAMES.prefix}:lease:*"):
        client.delete(key)


def side_keys(client: Any, folder: str) -> list[bytes | str]:
    """What a move has left beside the two queues."""
    keys = [key for key in client.keys("*") if key != b"jobs" and not key.endswith(b":audit")]
    names = [Path(folder, ".spooltop", name) for name in ("keys", "consumers")]
    return keys + [file for name in names if name.is_dir() for file in os.listdir(name)]


@pytest.mark.parametrize("back", [False, True])
def test_all_that_waits_is_moved_and_nothing_is_left_beside_it(client: Any, address: str, folder: str, back: bool) -> None:
    source, target = (address, folder) if back else (folder, address)
    put(source, b"one", b"two", b"two")
    done = moved(source, target)
    assert (done.code, done.out) == (0, "moved 3 messages\n")
    assert side_keys(client, folder) == []
    assert contents(target) == [b"one", b"two", b"two"]


def test_an_id_that_comes_again_is_moved_again_to_a_stream(address: str, folder: str) -> None:
    for content in (b"first", b"second"):
        with Spool(folder) as spool:
            spool.put(content, id="order-17")
        assert moved(folder, address).out == "moved 1 message\n"
    assert contents(address) == [b"first", b"second"]


def test_an_entry_id_that_comes_again_is_moved_again(client: Any, address: str, folder: str) -> None:
    for content in (b"first", b"second"):
        client.delete("jobs")
        client.xgroup_create("jobs", "work", "0", mkstream=True)
        client.xadd("jobs", {"data": content}, id="7-1")
        assert moved(address, folder).out == "moved 1 message\n"
    assert contents(folder) == [b"first", b"second"]


def test_two_groups_of_a_stream_are_moved_to_one_target(client: Any, socket: str, address: str, folder: str) -> None:
    client.xgroup_create("jobs", "mail", "0")
    put(address, b"one")
    killed_move(address, folder, put=True, ack=True)
    assert moved(f"unix://{socket}#jobs/mail", folder).out == "moved 1 message\n"
    assert contents(folder) == [b"one", b"one"]


def test_one_stream_under_two_names_is_refused(client: Any, socket: str, address: str) -> None:
    client.xgroup_create("jobs", "mail", "0")
    link = Path(socket).with_suffix(".link")
    link.symlink_to(socket)
    for other in (f"unix://{link}#jobs/work", f"unix://{socket}#jobs/mail"):
        done = moved(address, other)
        assert done.code == 2 and "both are the same queue, as unix://" in done.err


def test_another_database_is_another_queue(socket: str, address: str) -> None:
    with Redis(unix_socket_path=socket, db=1) as other:
        other.xgroup_create("jobs", "work", "0", mkstream=True)
    put(address, b"one")
    assert moved(address, f"unix://{socket}?db=1#jobs/work").out == "moved 1 message\n"


@pytest.mark.parametrize("back", [False, True])
@pytest.mark.parametrize("put_before", [False, True])
def test_what_a_killed_move_held_is_taken_by_the_next_one_alone(
    client: Any, address: str, folder: str, back: bool, put_before: bool
) -> None:
    source, target = (address, folder) if back else (folder, address)
    put(source, b"one")
    killed_move(source, target, put=put_before)
    end_leases(client)
    with open_queue(source) as queue:
        assert queue.recover() == [] and queue.claim() is None
    done = moved(source, target)
    assert done.out == ("moved 0 messages; 1 had been put by an earlier run\n" if put_before else "moved 1 message\n")
    assert done.code == 0 and side_keys(client, folder) == []
    assert contents(target) == [b"one"]


def test_operators_leave_it_to_the_next_move(client: Any, address: str, folder: str) -> None:
    put(address, b"one")
    killed_move(address, folder, put=False)
    end_leases(client)
    again = f"a move to {folder} was killed; run the same move again: spooltop move "
    refused = spooltop("requeue", address, "ALL", "--yes")
    assert refused.code == 3 and again in refused.out + refused.err
    assert again in spooltop("status", address).out
    forced = spooltop("requeue", address, "ALL", "--yes", "--force")
    assert forced.code == 0 and f"it may be in {folder} as well" in forced.out


def test_what_is_left_of_a_move_that_was_killed_after_an_ack_is_removed(client: Any, address: str, folder: str) -> None:
    for source, target in ((address, folder), (folder, address)):
        put(source, b"one")
        killed_move(source, target, put=True, ack=True)
        end_leases(client)
        assert side_keys(client, folder) != []
        assert moved(source, target).code == 4
        assert side_keys(client, folder) == [] and contents(target) == [b"one"]


def test_claims_are_named_until_their_lease_ends(client: Any, address: str, folder: str) -> None:
    put(address, b"one")
    killed_move(address, folder, put=False)
    done = moved(address, folder)
    assert done.code == 1 and "move: 1 is claimed by a running consumer, again in 10 s" in done.err
    end_leases(client)
    assert moved(address, folder).out == "moved 1 message\n"


def test_claims_of_a_dead_consumer_are_moved_where_nothing_else_waits(client: Any, address: str, folder: str) -> None:
    put(address, *[b"%d" % number for number in range(250)])

    def die() -> None:
        queue = open_queue(address)
        claims = [queue.claim() for _ in range(250)]
        assert None not in claims
        os._exit(0)

    in_child(die)
    end_leases(client)
    assert moved(address, folder).out == "moved 250 messages\n"
    assert len(contents(folder)) == 250


def test_claims_of_other_programs_are_left_and_told(client: Any, address: str, folder: str) -> None:
    put(address, b"one", b"two")
    client.xreadgroup("work", "w7", {"jobs": ">"}, count=1)
    done = moved(address, folder)
    assert (done.code, done.out) == (1, "moved 1 message; 1 is claimed by an unknown holder\n")


def test_a_killed_move_to_another_target_is_named_and_left(client: Any, address: str, folder: str, tmp_path: Path) -> None:
    Spool.create(tmp_path / "c").close()
    put(address, b"one")
    killed_move(address, folder, put=True)
    end_leases(client)
    done = moved(address, str(tmp_path / "c"))
    assert done.code == 1 and f"1 is left of a move to {folder} that was killed" in done.err
    assert contents(str(tmp_path / "c")) == []


def test_attempts_are_not_counted_by_a_move_that_fails(address: str, folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from spooltop.errors import SpoolFull

    put(address, b"one")

    def full(self: Spool, *words: Any, **named: Any) -> str:
        raise SpoolFull("put: no space or no inodes left", path=self.path)

    monkeypatch.setattr(Spool, "put", full)
    for _ in range(12):
        assert moved(address, folder).code != 0
    with open_queue(address) as queue:
        assert queue.depth() == 1


def test_a_mover_without_its_lease_puts_nothing(client: Any, address: str, folder: str) -> None:
    """A process that was stopped for longer than its lease: the next move may have taken its claim over."""
    put(address, b"one")
    with open_queue(address) as source, open_queue(folder) as target, source.mover(target.identity) as mover:
        claim = mover.claim()
        assert mover.holds(claim)
        mover._consumer._lease._until = 0.0  # type: ignore[attr-defined]
        assert not mover.holds(claim)
        mover.leave(claim)
    assert moved(address, folder).out == "moved 1 message\n"


def test_a_record_that_somebody_wrote_does_no_harm(client: Any, address: str, folder: str) -> None:
    for text in ('vm 7 {"role": "move"}', 'vm 7 {"role": "move", "target_marks": [1, {}], "begin": 3}', "vm 7 {", "", "vm"):
        record = LeaseRecord.parse(text)
        assert record.moves_to is None or record.moves_to.name == ""
        client.hset(NAMES.consumers, "vm-7", text)
        put(address, b"one")
        assert moved(address, folder).out == "moved 1 message\n"
