"""Ticket queues in Redis, among the locks of a spool: looked at, never changed, and no trouble of theirs is the spool's."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from spooltop.backends.redis.tickets import NEEDS, RedisTickets
from spooltop.control import open_control
from spooltop.engine.tickets import RedisTicketQueue
from spooltop.errors import Refused, Unreadable, UsageError
from spooltop.model.selection import Selection
from spooltop.model.words import Action
from tests.cli.streams import spooltop
from tests.conftest import Clock
from tests.proof.tickets import redis_server

READS = {"scan", "zcard", "zrange", "get", "exists", "hello", "auth", "client|setinfo", "select", "ping", "info"}


@pytest.fixture(scope="module")
def socket() -> Iterator[str]:
    with redis_server() as path:
        if path is None:
            pytest.skip("no redis-server here")
        yield path


@pytest.fixture
def client(socket: str) -> Iterator[Any]:
    redis = pytest.importorskip("redis")
    with redis.Redis(unix_socket_path=socket) as made:
        made.flushall()
        yield made


@pytest.fixture
def server(socket: str) -> Iterator[RedisTickets]:
    made = RedisTickets(f"unix://{socket}", clock=lambda: 2e9, monotonic=iter(range(0, 10_000, 2)).__next__)
    yield made
    made.close()


def test_each_queue_with_its_holder_and_who_waits_in_their_order(client: Any, server: RedisTickets) -> None:
    clock = Clock()
    queue = RedisTicketQueue("a/b", client, stale_timeout=60, clock=clock)
    began = clock()
    first, one = queue.register()
    clock.advance(5)
    members = [queue.register()[1] for _ in range(11)]
    clock.advance(5)
    queue.remove(one)
    client.zadd("other:queue", {f"7:{'f' * 32}:123456": 7})  # another clock's
    client.set("text:queue", "no set")
    client.zadd("jobs:queue", {"job 1": 1})  # a sorted set of something else
    locks = server.look()
    assert [(lock.path.partition("#")[2], lock.kind, lock.verdict) for lock in locks] == [
        ("a/b", "redis", "blocked"), ("other", "redis", "held"),
    ]  # fmt: skip
    mine, other = locks
    assert [party.command for party in (*mine.holders, *mine.waiters)] == [
        f"ticket {number} {member.split(':')[1][:8]}" for number, member in enumerate(members, 2)
    ]
    assert [party.since for party in (*mine.holders, mine.waiters[0])] == [began + 10, began + 5]
    assert all(party.pid is None and party.alive is None for party in mine.holders) and first == 1
    assert mine.evidence.startswith("10 wait for it") and "is not known" in other.evidence
    assert other.holders[0].since is None and server.look()[1].holders[0].since == 2e9


def test_nothing_is_changed_there(client: Any, server: RedisTickets) -> None:
    RedisTicketQueue("printer", client).register()
    client.config_resetstat()
    kept = {key: client.dump(key) for key in client.scan_iter()}
    assert server.look()[0].verdict == "held"
    done = {name.removeprefix("cmdstat_") for name in client.info("commandstats")} - {"config|resetstat", "dump"}
    assert done <= READS, done - READS
    assert {key: client.dump(key) for key in client.scan_iter()} == kept


def test_named_queues_are_listed_in_their_order_whether_they_are_there_or_not(client: Any, socket: str) -> None:
    RedisTicketQueue("x,y", client).register()
    RedisTicketQueue("unnamed", client).register()
    client.set("text:queue", "no set")
    named = RedisTickets(f"unix://{socket}#gone,x%2Cy,text")
    assert [(lock.path.partition("#")[2], lock.verdict) for lock in named.look()] == [
        ("gone", "free"), ("x,y", "held"), ("text", "unknown"),
    ]  # fmt: skip
    named.close()


def test_many_keys_are_looked_through_a_part_at_a_time_and_that_is_told(client: Any, server: RedisTickets) -> None:
    client.mset({f"key:{number}": "" for number in range(45_000)})
    RedisTicketQueue("printer", client).register()
    looks = [server.look() for _ in range(3)]
    assert "#NAME" in looks[0][-1].evidence and looks[0][-1].verdict == "unknown"
    assert [lock.verdict for lock in looks[2]] == ["held"]


def test_a_server_that_is_away_is_told_and_asked_again_only_after_a_while(tmp_path: Path, client: Any, socket: str) -> None:
    now = [0.0]
    away = RedisTickets(f"unix://{tmp_path}/s", monotonic=lambda: now[0])
    (lock,) = away.look()
    assert (lock.path, lock.verdict, lock.holders) == (f"unix://{tmp_path}/s", "unknown", ())
    assert lock.evidence.startswith("no answer from the server")
    RedisTicketQueue("printer", client).register()
    (tmp_path / "s").symlink_to(socket)
    now[0] = 4.9
    assert away.look() == (lock,)
    now[0] = 5.0
    assert [lock.verdict for lock in away.look()] == ["held"]
    away.close()


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://user:s3cret@host:6380/2#a", "redis://host:6380/2"),
        ("rediss://:s3cret@[::1]/0", "rediss://[::1]"),
        ("unix:///run/redis.sock?db=3&password=s3cret#a", "unix:///run/redis.sock?db=3"),
    ],
)
def test_a_password_is_not_shown(url: str, shown: str) -> None:
    assert RedisTickets(url).shown == shown


@pytest.mark.parametrize("url", ["", "s3cret", "http://:s3cret@h", "redis://:s3cret@h:port", "redis://", "redis://h/name", "unix://"])
def test_what_is_no_url_is_refused_in_one_line_without_it(url: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as refused:
        RedisTickets(url)
    assert "s3cret" not in str(refused.value) and "redis://HOST" in str(refused.value)


def test_they_stand_among_the_locks_by_an_option_or_a_setting_and_are_only_looked_at(
    client: Any, socket: str, spool: Path
) -> None:
    queue = RedisTicketQueue("printer", client)
    members = [queue.register()[1] for _ in range(2)]
    path, url = f"unix://{socket}#printer", f"unix://{socket}"
    lines = [json.loads(line) for line in spooltop("locks", spool, "--redis-tickets", url, "--json").out.splitlines()]
    assert [(line["path"], line["kind"], len(line["waiters"])) for line in lines] == [(path, "redis", 1)]
    assert f"{path}: BLOCKED" in spooltop("tickets", spool, "--redis-tickets", url).out
    with open_control(str(spool), watch=False, settings={"SPOOLTOP_REDIS_TICKETS": f"{url} unix:///nowhere"}) as control:
        snapshot = control.look()
        assert [lock.path for lock in snapshot.sight.locks] == [path, "unix:///nowhere"]
        assert any("unix:///nowhere: no answer" in line for line in snapshot.not_visible)
        with pytest.raises(Refused, match="only looked at"):
            control.plan(Action.UNLOCK, Selection(ids=(path,)))
        with pytest.raises(Unreadable, match="Redis tells no process"):
            control.holders(path)
    assert [member.decode() for member in client.zrange("printer:queue", 0, -1)] == members


WITHOUT = """
import sys
sys.modules["redis"] = None
from spooltop.control import open_control
from spooltop.__main__ import main
settings = {"SPOOLTOP_REDIS_TICKETS": "redis://127.0.0.1"}
with open_control(sys.argv[1], watch=False, settings=settings) as control:
    print(*(lock.evidence for lock in control.look().sight.locks))
sys.exit(main(["locks", sys.argv[1], "--redis-tickets", "redis://127.0.0.1"]))
"""


def test_without_the_package_one_line_says_what_to_install(spool: Path) -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT, str(spool)], capture_output=True, text=True, check=False)
    assert done.stdout == NEEDS + "\n"
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "pip install 'spooltop[redis]'" in done.stderr
