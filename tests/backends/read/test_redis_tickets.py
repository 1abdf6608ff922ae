"""Ticket queues in Redis, among the locks of a spool: looked at, never changed, and no trouble of theirs is the spool's."""

from __future__ import annotations

import itertools
import json
import os
import socket as socket_module
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from spooltop.backends.redis.tickets import RedisTickets
from spooltop.control import open_control
from spooltop.engine.tickets import RedisTicketQueue
from spooltop.errors import Refused, Unreadable, UsageError
from spooltop.model.filters.selection import Selection
from spooltop.model.vocabulary import Action
from tests.cli.streams import spooltop
from tests.clock import Clock
from tests.needs import need
from tests.reliability.tickets import redis_server

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
    assert [holder.command for holder in (*mine.holders, *mine.waiters)] == [
        f"ticket {number} {member.split(':')[1][:8]}" for number, member in enumerate(members, 2)
    ]
    assert [holder.since for holder in (*mine.holders, mine.waiters[0])] == [began + 10, began + 5]
    assert all(holder.pid is None and holder.alive is None for holder in mine.holders) and first == 1
    assert mine.evidence.startswith("10 wait for it") and "cannot be checked" in other.evidence
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


ENDLESS = itertools.repeat(b"x" * 65_536)
NONSENSE = {
    "no redis": [b"HTTP/1.1 400 Bad Request\r\n\r\n"],
    "another type": [b":1\r\n:1\r\n:1\r\n:1\r\n"],
    "null": [b"$-1\r\n*-1\r\n*-1\r\n*-1\r\n"],
    "too few": [b"*0\r\n"],
    "a cursor that is none": [b"*2\r\n*0\r\n*0\r\n"],
    "nested": [b"*1\r\n" * 100_000],
    "many": [b"*99999999\r\n"],
    "huge": [b"$99999999999\r\n"],
    "negative": [b"$-7\r\n"],
    "no number": [b":--1\r\n"],
    "not its size": [b"$1\r\nxyz\r\n"],
    "an endless line": itertools.chain([b"+"], ENDLESS),
    "endless": itertools.chain([b"*9999\r\n$3900000\r\n"], ENDLESS),
}


class HostileServer:
    """Accepts connections on the loopback, reads one piece of what is asked, sends the ``parts`` and closes; with ``drip`` it
    goes on byte by byte until that is set. ``asked`` counts the connections, ``sent`` the bytes of the parts."""

    def __init__(self, parts: Iterable[bytes], *, drip: threading.Event | None = None) -> None:
        self._parts = parts
        self._drip = drip
        self.sent = self.asked = 0
        self._listener = socket_module.create_server(("127.0.0.1", 0))
        self.url = f"redis://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return  # it was shut down
            with connection:
                try:
                    connection.recv(65_536)
                    self.asked += 1
                    for part in self._parts:
                        self.sent += connection.send(part)
                    if self._drip is not None:
                        while not self._drip.wait(0.01):
                            connection.send(b"1")
                except OSError:
                    continue  # the client has seen enough

    def __enter__(self) -> HostileServer:
        return self

    def __exit__(self, *_: object) -> None:
        if self._drip is not None:
            self._drip.set()
        self._listener.shutdown(socket_module.SHUT_RDWR)
        self._listener.close()
        self._thread.join()


@pytest.mark.parametrize("parts", NONSENSE.values(), ids=NONSENSE)
@pytest.mark.parametrize("named", ["", "#printer"])
def test_nonsense_is_told_and_not_taken_for_tickets(parts: Iterable[bytes], named: str) -> None:
    with HostileServer(parts) as hostile, closing(RedisTickets(hostile.url + named)) as server:
        (lock,) = server.look()
        assert (lock.path, lock.verdict, lock.failed) == (hostile.url, "unknown", True)
        assert lock.evidence.startswith(("the server answers nonsense", "no answer from the server"))
        assert lock.evidence.isprintable()
        assert hostile.sent < 16_000_000


@pytest.mark.parametrize("parts", [[], [b":"], [b"*2\r\n$1\r\n0\r\n*1\r\n$9999\r\n"]], ids=["nothing", "a number", "a key"])
def test_a_server_that_sends_byte_by_byte_is_left_in_time(parts: list[bytes]) -> None:
    with HostileServer(parts, drip=threading.Event()) as hostile, closing(RedisTickets(hostile.url, seconds=0.2)) as server:
        (lock,) = server.look()
        assert (lock.failed, lock.evidence) == (True, "no answer from the server within 0.2 s")


def test_a_server_that_never_answers_well_is_asked_less_and_less_often() -> None:
    now, asked = [0.0], []
    with HostileServer([b"+\r\n"]) as hostile, closing(RedisTickets(hostile.url, monotonic=lambda: now[0])) as server:
        for second in range(200):
            now[0] = float(second)
            before = hostile.asked
            server.look()
            asked += [second] if hostile.asked > before else []
    assert asked == [0, 5, 15, 35, 75, 135, 195]


def test_a_name_that_is_no_text_is_shown_and_breaks_nothing(client: Any, socket: str, server: RedisTickets) -> None:
    client.zadd(b"caf\xe9:queue", {b"1:\xff\x1b[31m:1795220919000": 1, b"2:ab:1795220919000": 2})
    (lock,) = server.look()
    assert lock.path.endswith("#caf\udce9") and lock.verdict == "blocked"
    assert lock.holders[0].command == "ticket 1 \\xff\\x1b[31m"
    queue = RedisTicketQueue(os.fsdecode(b"printer"), client, stale_timeout=60)
    client.zadd("printer:queue", {b"1:\xff:1795220919000": 1, b"\xff": 2})
    assert queue.is_head(1) and not queue.is_head(2)
    queue.cleanup_stale()
    assert client.zrange("printer:queue", 0, -1) == [b"\xff"]
    assert not queue.is_head(2)
    queue.cleanup_stale()
    assert not queue.is_empty()


@pytest.mark.parametrize("parts", [NONSENSE["another type"], NONSENSE["nested"], [b"-LOADING Redis is loading\x1b\r\n"]])
def test_a_bad_server_takes_nothing_from_the_spool_itself(spool: Path, parts: list[bytes]) -> None:
    (spool / "new" / "1795220920443125.1.vm").touch()
    with HostileServer(parts) as hostile:
        option = ("--redis-tickets", hostile.url)
        done = spooltop("status", spool, *option, "--json")
        status = json.loads(done.out)
        assert (done.code, status["boxes"]["new"]["count"]) == (0, 1)
        assert [(lock["path"], lock["verdict"]) for lock in status["locks"]] == [(hostile.url, "unknown")]
        assert hostile.url in spooltop("status", spool, *option).out
        for command, code in (("locks", 5), ("tickets", 5)):
            done = spooltop(command, spool, *option)
            assert done.code == code and done.err.startswith(f"spooltop: {hostile.url}: ") and done.err.count("\n") == 1
            assert hostile.url in done.out


def test_tickets_of_a_server_that_is_away_end_with_an_error(spool: Path, tmp_path: Path) -> None:
    done = spooltop("tickets", spool, "--redis-tickets", f"unix://{tmp_path}/none#printer")
    said = f"unix://{tmp_path}/none: no answer from the server: No such file or directory"
    assert (done.code, done.err) == (5, f"spooltop: {said}\n")


PASSWORD = "s3cret:p@ss"


def test_a_server_with_a_password_and_a_number(client: Any, socket: str) -> None:
    client.acl_setuser("viewer", enabled=True, passwords=[f"+{PASSWORD}"], keys=["*"], commands=["+@all"])
    redis = pytest.importorskip("redis")
    with redis.Redis(unix_socket_path=socket, db=3) as third:
        third.flushdb()
        RedisTicketQueue("printer", third).register()
        for secret, verdict, failed in ((quote(PASSWORD, safe=""), "held", False), ("wrong", "unknown", True)):
            with closing(RedisTickets(f"unix://viewer:{secret}@{socket}?db=3")) as server:
                (lock,) = server.look()
                assert (lock.verdict, lock.failed) == (verdict, failed)
                assert "password" in lock.evidence or not failed
                assert secret not in lock.path + lock.evidence
        third.flushdb()


def test_the_package_redis_is_not_needed_to_look(client: Any, socket: str, spool: Path) -> None:
    RedisTicketQueue("printer", client).register()
    without = "import sys; sys.modules['redis'] = None; from spooltop.__main__ import main; sys.exit(main(sys.argv[1:]))"
    words = ["tickets", str(spool), "--redis-tickets", f"unix://{socket}"]
    done = subprocess.run([sys.executable, "-c", without, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and f"unix://{socket}#printer: held" in done.stdout, done.stderr
