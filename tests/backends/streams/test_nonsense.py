"""A server that answers nonsense, slowly, without end, or not at all: bounded memory, one line, and no wait of whoever looks."""

from __future__ import annotations

import random
import resource
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from redis.client import Pipeline
from redis.exceptions import ResponseError

from spooltop import open_queue
from spooltop.backends.redis.client import known_reply
from spooltop.control import open_control
from spooltop.errors import NotASpool, PutUnknown, Refused, SpoolFull, SpooltopError, Unavailable, Unreadable
from spooltop.model.backend import ListQuery
from spooltop.model.plan import Selection
from spooltop.model.vocabulary import Action, Box
from tests.cli.streams import spooltop
from tests.stream_builders import StreamWorld

Answer = Callable[[socket.socket], None]


def sent(data: bytes) -> Answer:
    """Answers whatever is asked with ``data``."""

    def answer(connection: socket.socket) -> None:
        while connection.recv(65536):
            connection.sendall(data)

    return answer


def endless(data: bytes, pause: float = 0.0) -> Answer:
    """Sends ``data`` again and again, as long as anybody takes it."""

    def answer(connection: socket.socket) -> None:
        connection.recv(65536)
        while not threading.Event().wait(pause):
            connection.sendall(data)

    return answer


def refusing(error: bytes) -> Answer:
    """Answers ``error`` to each command."""

    def answer(connection: socket.socket) -> None:
        while data := connection.recv(65536):
            connection.sendall(error * (data.count(b"\r\n*") + data.startswith(b"*")))

    return answer


NONSENSE: dict[str, Answer] = {
    "HTTP": sent(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"),
    "SSH": sent(b"SSH-2.0-OpenSSH_9.2\r\n"),
    "random bytes": sent(random.Random(7).randbytes(100_000)),
    "a bulk without end": sent(b"$9999999999\r\n" + b"x" * 1000),
    "a bulk that is longer than a number": sent(b"$" + b"9" * 400 + b"\r\n"),
    "a bulk that never ends": endless(b"$500000000\r\n" + b"x" * 60_000),
    "a bulk of negative size": sent(b"$-7\r\n"),
    "arrays in arrays": sent(b"*1\r\n" * 100_000),
    "an array without end": sent(b"*2147483647\r\n" + b":1\r\n" * 1000),
    "many empty arrays": endless(b"*100000\r\n" + b"*0\r\n" * 15_000),
    "a line of 50 MB": endless(b"+" + b"x" * 1_000_000),
    "an error of 50 MB": endless(b"-" + b"x" * 1_000_000),
    "numbers that are none": sent(b":one\r\n" * 50),
    "a wrong answer to each": sent(b"+OK\r\n" * 50),
    "nothing to each": sent(b"$-1\r\n" * 50),
    "numbers to each": sent(b":7\r\n" * 50),
    "lists of numbers to each": sent(b"*2\r\n:1\r\n:2\r\n" * 50),
    "errors with escapes": sent(b"-ERR \x1b]0;owned\x07\xff\r\n" * 50),
    "RESP 3": sent(b"%1\r\n+a\r\n_\r\n" * 50),
    "a closed connection": lambda connection: connection.recv(65536) and None,
    "silence": sent(b""),
}


ENDLESS: dict[str, Answer] = {
    "a line": endless(b"+" + b"x" * 65_536),
    "bytes": endless(b"$99999999999\r\n" + b"x" * 65_536),
    "elements": endless(b"*99999999999\r\n" + b":1\r\n" * 10_000),
    "byte by byte": endless(b"+", 0.01),
}


@contextmanager
def serving(folder: Path, answer: Answer) -> Iterator[str]:
    """A server at a socket that answers every connection by ``answer``."""

    class Connection(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with suppress(OSError):  # the client has heard enough
                answer(self.request)

    with socketserver.ThreadingUnixStreamServer(f"{folder}/s", Connection) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.01,)).start()
        yield f"unix://{folder}/s"
        server.shutdown()


def line_of(call: Callable[[], object]) -> str:
    """The error that ``call`` raises, which has one line."""
    with pytest.raises(SpooltopError) as refused:
        call()
    assert "\n" not in str(refused.value) and str(refused.value).isprintable()
    return str(refused.value)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has a queue wait for little: each answer here is all that comes, or has no end."""
    monkeypatch.setattr("spooltop.backends.redis.client._TIMEOUT", 0.3)
    monkeypatch.setattr("spooltop.backends.redis.client._LONGEST", 2.0)


SLOW = {"silence": pytest.mark.long}


@pytest.mark.parametrize("name", [pytest.param(name, marks=SLOW.get(name, ())) for name in NONSENSE])
@pytest.mark.usefixtures("impatient")
def test_nonsense_is_one_line_and_costs_no_memory(folder: Path, name: str) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with serving(folder, NONSENSE[name]) as server, open_control(f"{server}#jobs/work", watch=False, settings={}) as control:
        snapshot = control.look()
        (problem,) = snapshot.problems
        assert problem.code == "blind" and "\n" not in problem.text and problem.text.isprintable(), problem
        assert snapshot.observation.watch.away and snapshot.observation.watch.advice
        assert len(control.listing(ListQuery(Box.NEW))) == len(control.listing(ListQuery(Box.TRASH))) == 0
        assert not control.consumers().consumers and control.follow(["5-1"], 0.0)["5-1"].box is None
        line_of(lambda: control.read(("new", "5-1")))
        line_of(lambda: control.holders(("cur", "5-1")))
        line_of(lambda: control.plan(Action.REQUEUE, Selection(box=Box.CUR, everything=True)))
        line_of(lambda: open_queue(f"{server}#jobs/work"))
        done = spooltop("status", f"{server}#jobs")
        assert done.code in (3, 5) and done.out == "" and done.err.count("\n") == 1 and "defect" not in done.err, done
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 400 << 10


@pytest.mark.parametrize("name", ENDLESS)
@pytest.mark.usefixtures("impatient")
def test_a_put_may_have_arrived(folder: Path, url: str, name: str) -> None:
    """The server behind it is a good one until the put."""
    path = url.removeprefix("unix://").partition("#")[0]
    ended = threading.Event()

    def answer(connection: socket.socket) -> None:
        with socket.socket(socket.AF_UNIX) as behind:
            behind.connect(path)
            while connection.recv(1, socket.MSG_PEEK) and not ended.is_set():
                behind.sendall(connection.recv(65536))
                connection.sendall(behind.recv(65536))
        ENDLESS[name](connection)

    with serving(folder, answer) as server:
        queue = open_queue(f"{server}#jobs/work")
        ended.set()
        with pytest.raises(Unavailable, match=r"too long|in time"):
            open_queue(f"{server}#jobs/work")
        with pytest.raises(PutUnknown, match=r"too long|in time"):
            queue.put(b"1")
        with pytest.raises(Unavailable, match=r"too long|in time"):
            queue.put(b"1", key="k")


REPLIES: dict[str, tuple[type[SpooltopError], str]] = {
    "NOAUTH Authentication required.": (Refused, "the server wants a password; set SPOOLTOP_REDIS_USER and _PASSWORD"),
    "WRONGPASS invalid username-password pair or user is disabled.": (Refused, "the server refuses this user or password; set "),
    "ERR invalid password": (Refused, "the server refuses this user or password; set "),
    "ERR AUTH <password> called without any password configured": (Refused, "no password for its default user; name the user"),
    "NOPERM this user has no permissions to run the 'xack' command": (Refused, "may not run 'xack'; give this user"),
    "NOPERM User bob has no permissions to run the 'client|list' command": (Refused, "may not run 'client|list'; give this"),
    "NOPERM this user has no permissions to access one of the keys used as arguments": (Refused, "may not use this key; give"),
    "ERR ACL failure in script: User v has no permissions to run the 'xack' command script: 1.": (Refused, "run 'xack'; give"),
    "ERR The user executing the script can't run this command script: 592.": (Refused, "a script of spooltop needs; give"),
    "LOADING Redis is loading the dataset": (Unavailable, "the server is loading its data; it answers when that is done"),
    "MASTERDOWN Link with MASTER is down.": (Unavailable, "the replica has lost its master; look at the master"),
    "READONLY You can't write against a read only replica.": (Unavailable, "a replica, and takes no changes; open its master"),
    "OOM command not allowed when used memory > 'maxmemory'.": (SpoolFull, "the memory of the server is full; free memory"),
    "MISCONF Redis is configured to save RDB snapshots": (Unavailable, "cannot save to its disk, and takes no changes until"),
    "BUSY Redis is busy running a script.": (Unavailable, "the server is busy with a script; try again, or look who runs it"),
    "ERR max number of clients reached": (Unavailable, "the server has no connection left; close some"),
    "MOVED 3999 10.0.0.7:6381": (Unreadable, "this stream is on another node of the cluster: 10.0.0.7:6381; open it there"),
    "CLUSTERDOWN The cluster is down": (Unavailable, "the cluster is down; look at its nodes"),
    "ERR DB index is out of range": (Unreadable, "the server has no such database; mend the number"),
    "CROSSSLOT Keys in request don't hash to the same slot": (Unreadable, "no key can lie beside a stream of this name; name it"),
    "NOGROUP No such key 'jobs'": (NotASpool, "No such key 'jobs'; name a stream"),
    "something\x1b[2J": (Unreadable, "the server answers with an error: something\\"),
}
"""Errors that a server answers, what whoever opens a queue raises, and its words."""


@pytest.mark.parametrize("error", REPLIES)
def test_what_a_server_answers_to_all_is_said_everywhere(folder: Path, error: str) -> None:
    kind, words = REPLIES[error]
    with serving(folder, refusing(f"-{error}\r\n".encode())) as server:
        with open_control(f"{server}#jobs/work", watch=False, settings={}) as control:
            (problem,) = control.look().problems
            assert words in problem.text
            line = line_of(lambda: control.plan(Action.REQUEUE, Selection(box=Box.CUR, everything=True)))
            assert words in line or error.startswith(("NOPERM", "READONLY")), line  # of these it says what cannot be done
        with pytest.raises(kind) as refused:
            open_queue(f"{server}#jobs/work")
        assert words in str(refused.value) and "\n" not in str(refused.value) and str(refused.value).isprintable()
        assert not getattr(refused.value, "answer_lost", False)


def test_a_long_error_is_recognized_at_once() -> None:
    began = time.monotonic()
    for word in ("ACL failure in script ", "NOPERM ", "'", "'a ", "MOVED a "):
        for first in ("NOPERM ", "ERR ACL failure in script", "MOVED ", "ERR "):
            assert issubclass(known_reply(first + word * 10_000)[0], SpooltopError)
    assert time.monotonic() - began < 5


def test_no_error_of_a_put_has_the_message_in_it(world: StreamWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """redis-py repeats a command of a pipeline in its errors."""
    text = "Command # 1 (XADD a * data hush (a) of pipeline caused error: x\n) of pipeline caused error: MISCONF Redis is full"

    def fails(*words: object, **more: object) -> None:
        raise ResponseError(text)

    with world.queue() as queue:
        monkeypatch.setattr(Pipeline, "execute", fails)
        with pytest.raises(Unavailable, match="cannot save to its disk") as refused:
            queue.put_many([b"hush", b"hush"])
        assert "hush" not in str(refused.value)
        monkeypatch.undo()


def test_a_slow_server_is_waited_for_once_and_not_by_who_types(folder: Path) -> None:
    """Each question has an end, and after one that was not answered the next ones fail at once for a while."""
    asked: list[bytes] = []

    def answer(connection: socket.socket) -> None:
        while data := connection.recv(65536):
            asked.append(data)

    with serving(folder, answer) as server, open_control(f"{server}#jobs/work", settings={}) as control:
        assert control.look().observation.watch.reason == "no answer from the server within 2 s"
        before = len(asked)
        for box in (Box.NEW, Box.CUR, Box.TRASH):
            assert len(control.listing(ListQuery(box))) == 0
            assert "no answer from the server within 2 s" in line_of(lambda: control.read((str(box), "5-1")))  # noqa: B023
        assert control.look().observation.watch.away and len(asked) == before
