"""Ticket queues in Redis, among the locks of a spool: looked at, never changed, and no trouble of theirs is the spool's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from spooltop.backends.redis.tickets import RedisTickets
from spooltop.control import open_control
from spooltop.engine.tickets import RedisTicketQueue
from spooltop.errors import Refused, Unreadable, UsageError
from spooltop.model.plan import Selection
from spooltop.model.vocabulary import Action, Lock
from tests.cli.streams import spooltop
from tests.clock import Clock
from tests.needs import need
from tests.reliability.tickets import redis_server
from tests.stream_servers import endless

READS = {"scan", "zcard", "zrange", "get", "exists", "hello", "auth", "client|setinfo", "select", "ping", "info"}


@pytest.fixture(scope="module")
def socket() -> Iterator[str]:
    need("redis-server")
    with redis_server() as path:
        yield path


@pytest.fixture
def client(socket: str) -> Iterator[Any]:
    redis = pytest.importorskip("redis")
    with redis.Redis(unix_socket_path=socket) as made:
        made.flushall()
        yield made


@pytest.fixture
def server(socket: str) -> Iterator[RedisTickets]:
    with closing(RedisTickets(f"unix://{socket}", clock=lambda: 2e9, monotonic=iter(range(0, 10_000, 2)).__next__)) as made:
        yield made


def verdicts(locks: tuple[Lock, ...]) -> list[tuple[str, str]]:
    return [(lock.path.partition("#")[2], lock.verdict) for lock in locks]


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
    client.config_resetstat()
    kept = {key: client.dump(key) for key in client.scan_iter()}
    locks = server.look()
    done = {name.removeprefix("cmdstat_") for name in client.info("commandstats")} - {"config|resetstat", "dump"}
    assert done <= READS and {key: client.dump(key) for key in client.scan_iter()} == kept  # nothing is changed there
    assert verdicts(locks) == [("a/b", "blocked"), ("other", "held")]
    mine, other = locks
    assert [holder.command for holder in (*mine.holders, *mine.waiters)] == [
        f"ticket {number} {member.split(':')[1][:8]}" for number, member in enumerate(members, 2)
    ]
    assert [holder.since for holder in (*mine.holders, mine.waiters[0])] == [began + 10, began + 5]
    assert all(holder.pid is None and holder.alive is None for holder in mine.holders) and first == 1
    assert mine.evidence.startswith("10 wait for it") and "cannot be checked" in other.evidence
    assert other.holders[0].since is None and server.look()[1].holders[0].since == 2e9


def test_named_queues_are_listed_in_their_order_and_of_many_keys_a_part_at_a_look(
    client: Any, server: RedisTickets, socket: str
) -> None:
    RedisTicketQueue("x,y", client).register()
    client.set("text:queue", "no set")
    with closing(RedisTickets(f"unix://{socket}#gone,x%2Cy,text")) as named:
        assert verdicts(named.look()) == [("gone", "free"), ("x,y", "held"), ("text", "unknown")]
    client.mset({f"key:{number}": "" for number in range(45_000)})
    looks = [server.look() for _ in range(3)]
    assert "#NAME" in looks[0][-1].evidence and looks[0][-1].verdict == "unknown"
    assert verdicts(looks[2]) == [("x,y", "held")]


@pytest.mark.parametrize(
    "url", ["", "s3cret", "http://:s3cret@h", "redis://:s3cret@h:port", "redis://", "redis://h/name", "unix://"]
)
def test_what_is_no_url_is_refused_without_its_password(url: str) -> None:
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
    assert f"{path}: held, 1 waits for it;" in spooltop("tickets", spool, "--redis-tickets", url).out
    with open_control(str(spool), watch=False, settings={"SPOOLTOP_REDIS_TICKETS": f"{url} unix:///nowhere"}) as control:
        snapshot = control.look()
        assert [lock.path for lock in snapshot.observation.locks] == [path, "unix:///nowhere"]
        assert any("unix:///nowhere: no answer" in line for line in snapshot.not_visible)
        with pytest.raises(Refused, match="a queue in Redis is read-only here"):
            control.plan(Action.UNLOCK, Selection(ids=(path,)))
        with pytest.raises(Unreadable, match="Redis does not report the processes"):
            control.holders(path)
    assert [member.decode() for member in client.zrange("printer:queue", 0, -1)] == members


NESTED = b"*1\r\n" * 100_000


@pytest.mark.parametrize(
    ("answer", "then"),
    [
        (b":1\r\n:1\r\n:1\r\n:1\r\n", b""), (b"*2\r\n*0\r\n*0\r\n", b""), (NESTED, b""),
        (b"*9999\r\n$3900000\r\n", b"x" * 65_536), (b"-LOADING Redis is loading\x1b\r\n", b""),
    ],
    ids=["another type", "a cursor that is none", "nested", "endless", "loading"],
)  # fmt: skip
@pytest.mark.parametrize("named", ["", "#printer"])
def test_nonsense_is_told_and_not_taken_for_tickets(answer: bytes, then: bytes, named: str) -> None:
    with endless(answer, then, 0.0 if then else 0.05) as port:
        url = f"redis://127.0.0.1:{port}"
        with closing(RedisTickets(f"{url}{named}", seconds=0.3)) as server:
            (lock,) = server.look()
    assert (lock.path, lock.verdict, lock.failed) == (url, "unknown", True)
    said = ("the server answers", "no answer from the server", "the server is loading its data")
    assert lock.evidence.startswith(said), lock.evidence
    assert lock.evidence.isprintable()


def test_a_bad_server_takes_nothing_from_the_spool_itself(spool: Path) -> None:
    (spool / "new" / "1795220920443125.1.vm").touch()
    with endless(NESTED, b"", 0.05) as port:
        url = f"redis://127.0.0.1:{port}"
        option = ("--redis-tickets", url)
        done = spooltop("status", spool, *option, "--json")
        status = json.loads(done.out)
        assert (done.code, status["boxes"]["new"]["count"]) == (0, 1)
        assert [(lock["path"], lock["verdict"]) for lock in status["locks"]] == [(url, "unknown")]
        for command in ("locks", "tickets"):
            done = spooltop(command, spool, *option)
            assert done.code == 5 and done.err.startswith(f"spooltop: {url}: ") and done.err.count("\n") == 1
            assert url in done.out


def test_a_name_that_is_no_text_is_shown_and_breaks_nothing(client: Any, server: RedisTickets) -> None:
    client.zadd(b"caf\xe9:queue", {b"1:\xff\x1b[31m:1795220919000": 1, b"2:ab:1795220919000": 2})
    (lock,) = server.look()
    assert lock.path.endswith("#caf\udce9") and lock.verdict == "blocked"
    assert lock.holders[0].command == "ticket 1 \\xff\\x1b[31m"
    queue = RedisTicketQueue("printer", client, stale_timeout=60)
    client.zadd("printer:queue", {b"1:\xff:1795220919000": 1, b"\xff": 2})
    assert queue.is_head(1) and not queue.is_head(2)
    for _ in range(2):
        queue.cleanup_stale()
        assert client.zrange("printer:queue", 0, -1) == [b"\xff"]
        assert not queue.is_head(2) and not queue.is_empty()


def test_a_server_with_a_password_and_a_number(client: Any, socket: str) -> None:
    password = "s3cret:p@ss"
    client.acl_setuser("viewer", enabled=True, passwords=[f"+{password}"], keys=["*"], commands=["+@all"])
    redis = pytest.importorskip("redis")
    with redis.Redis(unix_socket_path=socket, db=3) as third:
        RedisTicketQueue("printer", third).register()
        for secret, verdict in ((quote(password, safe=""), "held"), ("wrong", "unknown")):
            with closing(RedisTickets(f"unix://viewer:{secret}@{socket}?db=3")) as server:
                (lock,) = server.look()
                assert (lock.verdict, lock.failed) == (verdict, verdict == "unknown")
                assert lock.evidence.endswith("password: redis://USER:PASSWORD@HOST") or not lock.failed
                assert secret not in lock.path + lock.evidence
