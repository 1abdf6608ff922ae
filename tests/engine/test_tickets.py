from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from spooltop.engine.tickets import FileTicketQueue, RedisTicketQueue
from tests.engine.helpers import Interposed, in_child, killed_at
from tests.proof.tickets import redis_server


def member(ticket: int, pid: int = 1) -> str:
    return f"{ticket:020d}.{pid}.{'0' * 31}{ticket % 10}"


def test_the_queue_of_another_program_goes_on_where_it_stood(real_spools: Path) -> None:
    queue = FileTicketQueue(real_spools / "stouputils_lockfifo/job.lock.queue", gone=lambda _pid: False)
    assert queue.is_head(1) and not queue.is_head(3)
    ticket, name = queue.register()
    assert ticket == 4 and (Path(queue.queue_dir) / "seq").read_text() == "4"
    for other in sorted(os.listdir(queue.queue_dir))[:3]:
        queue.remove(other)
    assert queue.is_head(4)
    queue.remove(name)
    assert queue.is_empty()
    queue.maybe_cleanup()
    assert not os.path.exists(queue.queue_dir)


@pytest.mark.parametrize("seq", ["", "1", "garbage", "\n"])
def test_a_lost_counter_gives_no_ticket_twice(tmp_path: Path, seq: str) -> None:
    for number in (2, 3, 4):
        (tmp_path / member(number)).touch()
    (tmp_path / "seq").write_text(seq)
    queue = FileTicketQueue(tmp_path)
    assert queue.register()[0] == 5 and (tmp_path / "seq").read_text() == "5"


def test_killed_at_every_call_the_next_ticket_is_higher(tmp_path: Path) -> None:
    for k in range(1, 200):
        folder = tmp_path / str(k)
        first, _ = FileTicketQueue(folder).register()

        def work(folder: Path = folder, k: int = k) -> None:
            FileTicketQueue(folder, files=killed_at(k)).register()

        status = in_child(work)
        queue = FileTicketQueue(folder)
        second, _ = queue.register()
        tickets = [name.split(".")[0] for name in os.listdir(folder) if name != "seq"]
        assert second > first and len(set(tickets)) == len(tickets), k
        if status == 0:
            return
        assert status == signal.SIGKILL
    raise AssertionError("it never passes")


def test_what_is_no_ticket_is_not_the_head(tmp_path: Path) -> None:
    queue = FileTicketQueue(tmp_path)
    ticket, _ = queue.register()
    for name in (".hidden", "00000000000000000000", "0.1.x", "note.txt"):
        (tmp_path / name).touch()
    assert queue.is_head(ticket)
    queue.remove("../" + tmp_path.name)
    queue.remove(".hidden")
    assert (tmp_path / ".hidden").exists()


def test_a_dead_head_is_stale_at_once_and_a_living_one_is_not(tmp_path: Path) -> None:
    def work() -> None:
        FileTicketQueue(tmp_path).register()

    assert in_child(work) == 0
    queue = FileTicketQueue(tmp_path, gone=lambda pid: pid != os.getpid())
    ticket, _ = queue.register()
    assert not queue.is_head(ticket)
    queue.cleanup_stale()
    assert queue.is_head(ticket)
    queue.cleanup_stale()
    assert queue.is_head(ticket)


def test_who_waited_behind_another_is_not_stale_for_it(tmp_path: Path, clock) -> None:  # type: ignore[no-untyped-def]
    queue = FileTicketQueue(tmp_path, stale_timeout=60, clock=clock, gone=lambda _pid: False)
    names = [queue.register()[1] for _ in range(3)]
    for name in names:
        os.utime(tmp_path / name, (clock(), clock()))
    clock.advance(61)
    queue.cleanup_stale()
    queue.cleanup_stale()
    assert queue.is_head(2)
    clock.advance(1)
    queue.remove(names[1])
    clock.advance(59)
    queue.cleanup_stale()
    assert queue.is_head(3)
    clock.advance(1)
    queue.cleanup_stale()
    assert queue.is_empty()


def test_an_eviction_by_age_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture, clock) -> None:  # type: ignore[no-untyped-def]
    queue = FileTicketQueue(tmp_path, stale_timeout=60, clock=clock, gone=lambda _pid: False)
    _, name = queue.register()
    os.utime(tmp_path / name, (clock() - 59, clock() - 59))
    queue.cleanup_stale()
    assert not queue.is_empty()
    clock.advance(2)
    with caplog.at_level(logging.WARNING, "spooltop.tickets"):
        queue.cleanup_stale()
    assert queue.is_empty() and "may still be at work" in caplog.text


def test_cleanup_of_an_empty_queue_keeps_the_counter(tmp_path: Path) -> None:
    queue = FileTicketQueue(tmp_path, stale_timeout=0.0)
    _, name = queue.register()
    queue.remove(name)
    queue.cleanup_stale()
    assert os.listdir(tmp_path) == ["seq"] and queue.is_empty()


def test_maybe_cleanup_leaves_a_queue_in_use_and_foreign_files(tmp_path: Path) -> None:
    queue = FileTicketQueue(tmp_path / "q")
    _, name = queue.register()
    queue.maybe_cleanup()
    assert not queue.is_empty() and (tmp_path / "q/seq").exists()
    queue.remove(name)
    (tmp_path / "q/note").touch()
    queue.maybe_cleanup()
    assert os.listdir(tmp_path / "q") == ["note"]


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


def test_a_file_in_place_of_the_queue_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "q").touch()
    with pytest.raises(FileExistsError):
        FileTicketQueue(tmp_path / "q")


def test_a_counter_that_was_removed_while_waiting_for_it_excludes_nobody(tmp_path: Path) -> None:
    # Opened, then removed by a cleanup before the lock is had: the ticket must come from the new counter.
    def swap(_number: int, name: str) -> None:
        if name == "lock" and files.calls.count("lock") == 1:
            os.unlink(tmp_path / "seq")
            (tmp_path / "seq").write_text("41")

    (tmp_path / "seq").write_text("7")
    files = Interposed(swap)
    assert FileTicketQueue(tmp_path, files=files).register()[0] == 42


def test_the_calls_of_the_example_of_stouputils(tmp_path: Path) -> None:
    # Those of the doctest of its FileTicketQueue, in their order, with what each gives there.
    folder = str(tmp_path / "q")
    queue = FileTicketQueue(folder, stale_timeout=0.01)
    first, one = queue.register()
    second, two = queue.register()
    assert queue.is_head(first) is True
    queue.remove(one)
    assert queue.is_head(second) is True
    os.utime(os.path.join(folder, two), (0, 0))
    queue.cleanup_stale()
    assert queue.is_empty() is True
    queue.maybe_cleanup()
    assert os.path.exists(folder) is False


RACE = """
import sys
from spooltop.engine.tickets import FileTicketQueue
queue = FileTicketQueue(sys.argv[1])
sys.stdin.readline()
for _ in range(int(sys.argv[2])):
    ticket, member = queue.register()
    while not queue.is_head(ticket):
        pass
    with open(sys.argv[3], "r+") as file:
        n = int(file.read())
        file.seek(0)
        file.write(str(n + 1))
    queue.remove(member)
    queue.maybe_cleanup()
"""


def test_one_owner_at_a_time_even_while_the_queue_is_cleaned_up(tmp_path: Path) -> None:
    (tmp_path / "count").write_text("0")
    workers = [
        subprocess.Popen([sys.executable, "-c", RACE, str(tmp_path / "q"), "60", str(tmp_path / "count")], stdin=subprocess.PIPE)
        for _ in range(3)
    ]
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write(b"go\n")
        worker.stdin.flush()
    for worker in workers:
        worker.communicate()
        assert worker.returncode == 0
    assert (tmp_path / "count").read_text() == "180"
    assert not (tmp_path / "q").exists()


# Redis


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    redis = pytest.importorskip("redis")
    with redis_server() as socket:
        if socket is None:
            pytest.skip("no redis-server here")
        with redis.Redis(unix_socket_path=socket) as client:
            yield client


def test_redis_gives_tickets_in_order(client: Any) -> None:
    queue = RedisTicketQueue("order", client)
    first, one = queue.register()
    second, two = queue.register()
    assert (first, second) == (1, 2) and queue.is_head(1) and not queue.is_head(2)
    ticket, token, ms = one.split(":")
    assert ticket == "1" and len(token) == 32 and abs(int(ms) / 1000 - time.time()) < 60
    queue.maybe_cleanup()
    queue.remove(one)
    assert queue.is_head(2) and not queue.is_empty()
    queue.remove(two)
    assert queue.is_empty()
    queue.maybe_cleanup()
    assert client.exists("order:seq", "order:queue") == 0


def test_redis_a_lost_counter_gives_no_ticket_twice(client: Any) -> None:
    queue = RedisTicketQueue("lost", client)
    assert [queue.register()[0] for _ in range(3)] == [1, 2, 3]
    client.delete("lost:seq")
    assert queue.register()[0] == 4 and queue.register()[0] == 5


def test_redis_evicts_by_its_own_clock_only_and_says_so(client: Any, caplog: pytest.LogCaptureFixture, clock) -> None:  # type: ignore[no-untyped-def]
    queue = RedisTicketQueue("stale", client, stale_timeout=60, clock=clock)
    ticket, name = queue.register()
    client.zadd("stale:queue", {f"0:{'f' * 32}:123456": 0})
    clock.advance(3600)
    queue.cleanup_stale()
    assert queue.is_head(0)
    queue.remove(f"0:{'f' * 32}:123456")
    clock.advance(60)
    with caplog.at_level(logging.WARNING, "spooltop.tickets"):
        queue.cleanup_stale()
    assert queue.is_empty() and f"ticket {ticket}" in caplog.text
    queue.remove(name)


def test_redis_who_waited_behind_another_is_not_stale_for_it(client: Any, clock) -> None:  # type: ignore[no-untyped-def]
    queue = RedisTicketQueue("behind", client, stale_timeout=60, clock=clock)
    _, dead = queue.register()
    clock.advance(1)
    second, _ = queue.register()
    third, member = queue.register()
    clock.advance(60)
    queue.cleanup_stale()  # the first one, which nobody holds
    queue.cleanup_stale()
    assert queue.is_head(second)
    queue.remove(member)  # one that gives up makes nobody the head
    clock.advance(60)
    queue.cleanup_stale()
    assert queue.is_empty() and third > second
    queue.remove(dead)
    queue.maybe_cleanup()
    assert client.keys("behind:*") == []


def test_redis_the_calls_of_the_examples_of_stouputils(client: Any) -> None:
    # Those of the doctests of its RedisTicketQueue and RedisLockFifo, with what each gives there: also a head whose token is
    # no hex.
    client.delete("rq:queue", "rq:seq")
    queue = RedisTicketQueue("rq", client, stale_timeout=0.01)
    first, one = queue.register()
    second, two = queue.register()
    assert queue.is_head(first) is True
    queue.remove(one)
    assert queue.is_head(second) is True
    queue.remove(two)
    queue.maybe_cleanup()
    assert client.exists("rq:queue") == 0 and client.exists("rq:seq") == 0

    client.zadd("rq:queue", {f"1:stale:{int((time.time() - 10) * 1000)}": 1})
    queue = RedisTicketQueue("rq", client, stale_timeout=0.01)
    ticket, member = queue.register()
    assert queue.is_head(ticket) is False
    queue.cleanup_stale()
    assert queue.is_head(ticket) is True
    queue.remove(member)
    queue.maybe_cleanup()
    assert client.exists("rq:queue") == 0 and client.exists("rq:seq") == 0
