"""A server that answers nonsense, slowly, without end, or not at all: bounded memory, one line, and no wait of whoever looks."""

from __future__ import annotations

import random
import resource
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from spooltop import open_queue
from spooltop.backends.redis.queue import connection as queue_connection
from spooltop.backends.redis.queue.stream_producer import StreamProducer
from spooltop.control import open_control
from spooltop.errors import PutUnknown, SpooltopError, Unavailable
from spooltop.model.filters.selection import Selection
from spooltop.model.protocols import ListQuery
from spooltop.model.vocabulary import Action, Box
from tests.cli.streams import spooltop

from .conftest import NAMES

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


def silent(connection: socket.socket) -> None:
    while connection.recv(65536):
        continue


def cut(connection: socket.socket) -> None:
    connection.recv(65536)


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
    "a closed connection": cut,
    "silence": silent,
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
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(folder / "s"))
    listener.listen()
    opened: list[socket.socket] = []

    def serve(connection: socket.socket) -> None:
        with connection:
            try:
                answer(connection)
            except OSError:
                return  # it has heard enough

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:  # closed
                return
            opened.append(connection)
            threading.Thread(target=serve, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"unix://{folder}/s"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        for connection in opened:
            connection.close()


def bytes_in_use() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def line_of(call: Callable[[], object]) -> str:
    """The error that ``call`` raises, which has one line."""
    with pytest.raises(SpooltopError) as refused:
        call()
    assert "\n" not in str(refused.value) and str(refused.value).isprintable()
    return str(refused.value)


@pytest.mark.parametrize("name", NONSENSE)
def test_nonsense_is_one_line_and_costs_no_memory(folder: Path, name: str) -> None:
    before = bytes_in_use()
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
        done = spooltop("status", f"{server}#jobs")
        assert done.code in (3, 5) and done.out == "" and done.err.count("\n") == 1 and "defect" not in done.err, done
    assert bytes_in_use() - before < 400 << 20


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has a queue wait for little: each answer here is all that comes, or has no end."""
    monkeypatch.setattr(queue_connection, "_TIMEOUT", 0.3)
    monkeypatch.setattr(queue_connection, "_LONGEST", 2.0)


@pytest.mark.parametrize("name", NONSENSE)
@pytest.mark.usefixtures("impatient")
def test_a_queue_says_nonsense_in_one_line(folder: Path, name: str) -> None:
    with serving(folder, NONSENSE[name]) as server:
        line_of(lambda: open_queue(f"{server}#jobs/work"))


@pytest.mark.parametrize("name", ENDLESS)
@pytest.mark.usefixtures("impatient")
def test_a_put_may_have_arrived(folder: Path, name: str) -> None:
    with serving(folder, ENDLESS[name]) as server, queue_connection.connect(server) as client:
        with pytest.raises(Unavailable, match=r"too long|in time"):
            open_queue(f"{server}#jobs/work")
        producer = StreamProducer(client, NAMES, "here", None, waits=False)
        with pytest.raises(PutUnknown, match=r"too long|in time"):
            producer.put(b"1", None, None)
        with pytest.raises(Unavailable, match=r"too long|in time"):
            producer.put(b"1", None, "k")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        ("LOADING Redis is loading the dataset in memory", "the server is loading its data; it answers when that is done"),
        ("MASTERDOWN Link with MASTER is down", "the replica has lost its master; look at the master"),
        ("BUSY Redis is busy running a script.", "the server is busy with a script; try again, or look who runs it"),
        ("NOAUTH Authentication required.", "the server wants a password; set SPOOLTOP_REDIS_USER and _PASSWORD"),
        ("MOVED 3999 10.0.0.7:6381", "this stream is on another node of the cluster: 10.0.0.7:6381; open it there"),
        ("CLUSTERDOWN The cluster is down", "the cluster is down; look at its nodes"),
    ],
)
def test_what_a_server_answers_to_all_is_said_everywhere(folder: Path, error: str, words: str) -> None:
    with serving(folder, refusing(f"-{error}\r\n".encode())) as server:
        with open_control(f"{server}#jobs/work", watch=False, settings={}) as control:
            (problem,) = control.look().problems
            assert problem.text.startswith(words)
            assert words in line_of(lambda: control.plan(Action.REQUEUE, Selection(box=Box.CUR, everything=True)))
        assert words in line_of(lambda: open_queue(f"{server}#jobs/work"))


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
