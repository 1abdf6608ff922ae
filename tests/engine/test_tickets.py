from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from spooltop.engine.tickets import FileTicketQueue, RedisTicketQueue
from tests.clock import Clock
from tests.engine.helpers import Interposed, names_in
from tests.needs import need
from tests.reliability.tickets import redis_server


def member(ticket: int, pid: int = 1) -> str:
    return f"{ticket:020d}.{pid}.{'0' * 31}{ticket % 10}"


def test_the_queue_of_another_program_goes_on_where_it_stood(real_spools: Path) -> None:
    queue = FileTicketQueue(real_spools / "stouputils_lockfifo/job.lock.queue", gone=lambda _pid: False)
    assert queue.is_head(1) and not queue.is_head(3)
    assert queue.register()[0] == 4 and (Path(queue.queue_dir) / "seq").read_text() == "4"


@pytest.mark.parametrize("seq", ["", "1", "garbage", "\n"])
def test_a_lost_counter_gives_no_ticket_twice(tmp_path: Path, seq: str) -> None:
    for number in (2, 3, 4):
        (tmp_path / member(number)).touch()
    (tmp_path / "seq").write_text(seq)
    queue = FileTicketQueue(tmp_path)
    assert queue.register()[0] == 5 and (tmp_path / "seq").read_text() == "5"


def test_what_is_no_ticket_is_not_the_head_and_stays(tmp_path: Path) -> None:
    queue = FileTicketQueue(tmp_path / "q", stale_timeout=0.0)
    ticket, name = queue.register()
    foreign = [".hidden", "0.1.x", "00000000000000000000", "note.txt"]
    for other in foreign:
        (tmp_path / "q" / other).touch()
    assert queue.is_head(ticket)
    queue.remove("../q")
    queue.remove(".hidden")
    queue.maybe_cleanup()  # leaves a queue in use
    assert names_in(tmp_path / "q") == sorted([*foreign, name, "seq"])
    queue.remove(name)
    queue.cleanup_stale()  # keeps the counter
    assert names_in(tmp_path / "q") == sorted([*foreign, "seq"]) and queue.is_empty()
    queue.maybe_cleanup()
    assert names_in(tmp_path / "q") == foreign
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError):
        FileTicketQueue(tmp_path / "file")


def test_who_comes_after_a_dead_head_is_not_stale_for_its_long_wait(tmp_path: Path, clock: Clock) -> None:
    queue = FileTicketQueue(tmp_path / "q", stale_timeout=60, clock=clock, gone=lambda pid: pid == 999)
    dead, waiting = member(1, 999), member(2, 1000)
    for name in (dead, waiting):
        (tmp_path / "q" / name).touch()
        os.utime(tmp_path / "q" / name, (clock() - 3600, clock() - 3600))
    queue.cleanup_stale()  # the dead one, at once
    queue.cleanup_stale()
    assert os.listdir(tmp_path / "q") == [waiting] and queue.is_head(2)
    clock.advance(60)
    queue.cleanup_stale()
    assert queue.is_empty()


def test_who_comes_next_is_found_when_a_dead_head_is_taken_out_not_before_it_is_judged(tmp_path: Path, clock: Clock) -> None:
    def gone(pid: int) -> bool:
        FileTicketQueue(tmp_path / "q", stale_timeout=60, clock=clock, gone=lambda _pid: False).remove(member(2, 1000))
        return pid == 999

    queue = FileTicketQueue(tmp_path / "q", stale_timeout=60, clock=clock, gone=gone)
    for name in (member(1, 999), member(2, 1000), member(3, 1001)):
        (tmp_path / "q" / name).touch()
        os.utime(tmp_path / "q" / name, (clock() - 3600, clock() - 3600))
    queue.cleanup_stale()  # meanwhile the second leaves
    queue.cleanup_stale()
    assert os.listdir(tmp_path / "q") == [member(3, 1001)] and queue.is_head(3)


def test_who_leaves_a_queue_without_a_timeout_lists_nothing(tmp_path: Path) -> None:
    files = Interposed()
    queue = FileTicketQueue(tmp_path / "q", files=files)
    _, name = queue.register()
    files.calls.clear()
    queue.remove(name)
    assert "list" not in files.calls and queue.is_empty()


def test_a_pid_says_nothing_where_other_machines_may_queue(tmp_path: Path) -> None:
    away = FileTicketQueue(tmp_path / "q", gone=lambda _pid: True, local=lambda _fd: False)
    _, name = away.register()
    away.cleanup_stale()
    assert os.path.exists(tmp_path / "q" / name)
    FileTicketQueue(tmp_path / "q", gone=lambda _pid: True, local=lambda _fd: True).cleanup_stale()
    assert away.is_empty()


def test_a_queue_that_vanishes_while_it_is_looked_at_is_empty(tmp_path: Path) -> None:
    def vanish(_number: int, name: str) -> None:
        if name == "list":
            os.rmdir(tmp_path / "q")

    queue = FileTicketQueue(tmp_path / "q", stale_timeout=1, files=Interposed(vanish))
    assert queue.is_empty()
    (tmp_path / "q").mkdir()
    queue.cleanup_stale()
    (tmp_path / "q").mkdir()
    assert not queue.is_head(1)


def test_a_number_alone_is_given_once_and_enters_nobody(tmp_path: Path) -> None:
    # LockFifo of stouputils asks its queue for one.
    queue = FileTicketQueue(tmp_path / "q")
    assert queue.get_ticket() == 1 and queue.is_empty()
    assert queue.register()[0] == 2 and queue.get_ticket() == 3
    (tmp_path / "q/seq").unlink()
    assert queue.get_ticket() == 3  # the counter was lost, who waits was not
    queue = FileTicketQueue(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert queue.get_ticket() == 1


def test_a_counter_that_was_removed_while_waiting_for_it_excludes_nobody(tmp_path: Path) -> None:
    # Opened, then removed by a cleanup before the lock is had: the ticket must come from the new counter.
    def swap(_number: int, name: str) -> None:
        if name == "lock" and files.calls.count("lock") == 1:
            os.unlink(tmp_path / "seq")
            (tmp_path / "seq").write_text("41")

    (tmp_path / "seq").write_text("7")
    files = Interposed(swap)
    assert FileTicketQueue(tmp_path, files=files).register()[0] == 42


# Redis, and what holds of both


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    import redis

    need("redis-server")
    with redis_server() as socket:
        with redis.Redis(unix_socket_path=socket) as client:
            yield client


@pytest.fixture
def new(client: Any) -> Callable[..., RedisTicketQueue]:
    """Makes clients of one queue, which is empty."""
    client.flushdb()
    return lambda **options: RedisTicketQueue("q", client, **options)


@pytest.fixture(params=["file", "redis"])
def queue(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> Any:
    """Queue of each kind, at the clock."""
    if request.param == "redis":
        return request.getfixturevalue("new")(stale_timeout=60, clock=clock)
    return FileTicketQueue(tmp_path / "q", stale_timeout=60, clock=clock, gone=lambda _pid: False)


def registered(queue: Any, clock: Clock) -> str:
    """Enters the queue at the time of the clock."""
    _, name = queue.register()
    if isinstance(queue, FileTicketQueue):
        os.utime(Path(queue.queue_dir, name), (clock(), clock()))
    return name


def test_tickets_are_served_in_order(queue: Any) -> None:
    (first, one), (second, two) = queue.register(), queue.register()
    assert (first, second) == (1, 2) and queue.is_head(1) and not queue.is_head(2)
    queue.maybe_cleanup()  # leaves a queue in use
    queue.remove(one)
    assert queue.is_head(2) and not queue.is_empty()
    queue.remove(two)
    assert queue.is_empty()
    queue.maybe_cleanup()
    assert queue.is_empty() and (not isinstance(queue, FileTicketQueue) or not os.path.exists(queue.queue_dir))


def test_who_waited_behind_another_is_not_stale_for_it_and_an_eviction_is_told(
    queue: Any, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    names = [registered(queue, clock) for _ in range(4)]
    clock.advance(59)
    queue.cleanup_stale()
    assert queue.is_head(1)
    clock.advance(2)
    with caplog.at_level(logging.WARNING, "spooltop.tickets"):
        queue.cleanup_stale()
        queue.cleanup_stale()
    assert queue.is_head(2) and caplog.text.count("may still be at work") == 1 and "ticket 1" in caplog.text
    queue.remove(names[3])  # one that gives up makes nobody the head
    queue.remove(names[1])
    assert queue.is_head(3)
    clock.advance(59)
    queue.cleanup_stale()
    assert queue.is_head(3)
    clock.advance(1)
    queue.cleanup_stale()
    assert queue.is_empty()


def delete(client: Any) -> None:
    """Deletes the queue with those that wait, as stouputils does when it takes it for empty."""
    client.delete("q:queue", "q:seq")


New = Callable[..., RedisTicketQueue]


def test_redis_evicts_nobody_by_another_clock(client: Any, new: New, clock: Clock) -> None:
    queue = new(stale_timeout=60, clock=clock)
    _, name = queue.register()
    ticket, token, ms = name.split(":")
    assert (ticket, len(token), int(ms)) == ("1", 32, clock() * 1000)
    theirs = f"0:{'f' * 32}:123456"  # of a clock that began with the machine, as stouputils writes it
    client.zadd("q:queue", {theirs: 0})
    clock.advance(3600)
    queue.cleanup_stale()
    assert queue.is_head(0)
    queue.remove(theirs)
    queue.remove(name)
    queue.maybe_cleanup()
    assert client.keys("*") == []


class Away:
    """A client whose server is away."""

    def eval(self, *_arguments: object) -> object:
        raise ConnectionError("connection refused")


@pytest.mark.parametrize("kind", ["file", "redis"])
def test_leaving_and_cleaning_up_raise_nothing_and_say_why_they_failed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    queue: Any = RedisTicketQueue("away", Away()) if kind == "redis" else FileTicketQueue(tmp_path / "q")
    if kind == "file":
        (tmp_path / "q").rmdir()
        (tmp_path / "q").symlink_to("q")
    with caplog.at_level(logging.WARNING, "spooltop.tickets"):
        queue.remove(member(1))
        queue.maybe_cleanup()
    assert [record.getMessage().split(": ")[1] for record in caplog.records] == [
        f"{member(1)} could not be removed", "could not be cleaned up",
    ]  # fmt: skip
    with pytest.raises(OSError):
        queue.register()


# A queue in Redis that is deleted while somebody waits: stouputils looks whether it is empty, and deletes it, in two steps


def test_redis_gives_no_ticket_twice_when_its_counter_is_lost(client: Any, new: New) -> None:
    queue = new()
    assert [queue.register()[0] for _ in range(3)] == [1, 2, 3]
    client.delete("q:seq")
    assert [queue.register()[0] for _ in range(2)] == [4, 5]
    delete(client)
    assert queue.register()[0] == 6
    assert [queue.is_head(ticket) for ticket in (6, 1, 2, 6)] == [True, False, False, True]


def test_redis_who_waits_and_was_deleted_is_put_back_with_his_number(client: Any, new: New) -> None:
    ours, another = new(), new()
    ours.remove(ours.register()[1])
    second, two = ours.register()
    delete(client)
    third, three = another.register()
    assert (second, third) == (2, 1) and another.is_head(third)  # who came since the deletion is served first
    assert not ours.is_head(second) and client.zscore("q:queue", two) == 2
    assert another.register()[0] == 3
    another.remove(three)
    assert ours.is_head(second)
    delete(client)
    waiting = [ours.register()[0] for _ in range(2)]
    delete(client)
    assert waiting == [1, 2] and ours.is_head(1) and client.get("q:seq") == b"1"


def test_redis_who_asks_first_after_a_deletion_is_the_head_and_the_only_one(client: Any, new: New) -> None:
    queues = [new() for _ in range(3)]
    given = [queue.register() for queue in queues]
    delete(client)
    for turn in (1, 0, 2):  # in whatever order they ask, one is told that it is the head until it leaves
        asked = [queues[at].is_head(given[at][0]) for at in (turn, *({0, 1, 2} - {turn}))]
        assert asked.count(True) <= 1
    served = []
    for _ in range(3):
        [head] = [at for at in range(3) if at not in served and queues[at].is_head(given[at][0])]
        served.append(head)
        queues[head].remove(given[head][1])
    assert sorted(served) == [0, 1, 2] and queues[0].is_empty()


def test_redis_a_number_that_was_given_again_makes_no_two_heads(client: Any, new: New, caplog: pytest.LogCaptureFixture) -> None:
    ours = new()
    ticket, name = ours.register()
    delete(client)
    client.incr("q:seq")
    theirs = f"1:{'f' * 32}:123456"  # as stouputils writes it
    client.zadd("q:queue", {theirs: 1})
    with caplog.at_level(logging.WARNING, "spooltop.tickets"):
        assert ticket == 1 and not ours.is_head(ticket)
    assert "ticket 1 was taken out while it waited; it goes on as 2" in caplog.text
    ours.remove(theirs)
    assert ours.is_head(ticket) and ours.is_head(ticket)
    ours.remove(name)
    assert ours.is_empty()


def test_redis_who_was_told_that_he_is_the_head_is_not_put_back(new: New, clock: Clock) -> None:
    holder, other = (new(stale_timeout=60, clock=clock) for _ in range(2))
    first, one = holder.register()
    second, _ = other.register()
    assert holder.is_head(first)
    clock.advance(60)
    other.cleanup_stale()  # evicts it: it may still be at work, and hears of it by asking
    assert other.is_head(second) and not holder.is_head(first) and other.is_head(second)
    holder.remove(one)
