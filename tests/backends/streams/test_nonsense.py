"""A server that answers nonsense, slowly, or not at all: bounded memory, one line, and no wait of whoever looks."""

from __future__ import annotations

import random
import resource
import shutil
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from spooltop.backends.redis.queue import connection as connection_of_queue
from spooltop.backends.redis.queue.connection import connect
from spooltop.backends.redis.queue.failures import translated
from spooltop.cli.main import run
from spooltop.cli.terminal import Terminal
from spooltop.control import open_control
from spooltop.errors import SpooltopError
from spooltop.model.filters.selection import Selection
from spooltop.model.protocols import ListQuery
from spooltop.model.vocabulary import Action, Box
from tests.cli.streams import Stream

Answer = Callable[[socket.socket], None]


def _sent(data: bytes) -> Answer:
    """Answers whatever is asked with ``data``."""

    def answer(connection: socket.socket) -> None:
        while connection.recv(65536):
            connection.sendall(data)

    return answer


def _endless(data: bytes) -> Answer:
    """Sends ``data`` again and again, as long as anybody takes it."""

    def answer(connection: socket.socket) -> None:
        connection.recv(65536)
        while True:
            connection.sendall(data)

    return answer


def _refusing(error: bytes) -> Answer:
    """Answers ``error`` to each command."""

    def answer(connection: socket.socket) -> None:
        while data := connection.recv(65536):
            connection.sendall(error * (data.count(b"\r\n*") + data.startswith(b"*")))

    return answer


def _silent(connection: socket.socket) -> None:
    while connection.recv(65536):
        continue


def _cut(connection: socket.socket) -> None:
    connection.recv(65536)


NONSENSE: dict[str, Answer] = {
    "HTTP": _sent(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"),
    "SSH": _sent(b"SSH-2.0-OpenSSH_9.2\r\n"),
    "random bytes": _sent(random.Random(7).randbytes(100_000)),
    "a bulk without end": _sent(b"$9999999999\r\n" + b"x" * 1000),
    "a bulk that is longer than a number": _sent(b"$" + b"9" * 400 + b"\r\n"),
    "a bulk that never ends": _endless(b"$500000000\r\n" + b"x" * 60_000),
    "a bulk of negative size": _sent(b"$-7\r\n"),
    "arrays in arrays": _sent(b"*1\r\n" * 100_000),
    "an array without end": _sent(b"*2147483647\r\n" + b":1\r\n" * 1000),
    "many empty arrays": _endless(b"*100000\r\n" + b"*0\r\n" * 15_000),
    "a line of 50 MB": _endless(b"+" + b"x" * 1_000_000),
    "an error of 50 MB": _endless(b"-" + b"x" * 1_000_000),
    "numbers that are none": _sent(b":one\r\n" * 50),
    "a wrong answer to each": _sent(b"+OK\r\n" * 50),
    "nothing to each": _sent(b"$-1\r\n" * 50),
    "numbers to each": _sent(b":7\r\n" * 50),
    "lists of numbers to each": _sent(b"*2\r\n:1\r\n:2\r\n" * 50),
    "errors with escapes": _sent(b"-ERR \x1b]0;owned\x07\xff\r\n" * 50),
    "RESP 3": _sent(b"%1\r\n+a\r\n_\r\n" * 50),
    "a closed connection": _cut,
    "silence": _silent,
}


@pytest.fixture
def folder() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="spooltop-nonsense-"))
    yield made
    shutil.rmtree(made)


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
        for one in opened:
            one.close()


def _bytes_in_use() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@pytest.mark.parametrize("name", NONSENSE)
def test_nonsense_is_one_line_and_costs_no_memory(folder: Path, name: str) -> None:
    before = _bytes_in_use()
    with (
        serving(folder, NONSENSE[name]) as server,
        open_control(f"{server}#jobs/work", watch=False, settings={}) as control,
    ):
        snapshot = control.look()
        (problem,) = snapshot.problems
        assert problem.code == "blind" and "\n" not in problem.text and problem.text.isprintable(), problem
        assert snapshot.observation.watch.away and snapshot.observation.watch.advice
        assert len(control.listing(ListQuery(Box.NEW))) == len(control.listing(ListQuery(Box.TRASH))) == 0
        assert not control.consumers().consumers and control.follow(["5-1"], 0.0)["5-1"].box is None
        for call in (
            lambda: control.read(("new", "5-1")),
            lambda: control.holders(("cur", "5-1")),
            lambda: control.plan(Action.REQUEUE, Selection(box=Box.CUR, everything=True)),
        ):
            with pytest.raises(SpooltopError) as refused:
                call()
            assert "\n" not in str(refused.value) and str(refused.value).isprintable()
        out, err = Stream(), Stream()
        code = run(["status", f"{server}#jobs"], Terminal(Stream(), out, err, {"TERM": "xterm"}), dashboard=lambda *_: 42)
        assert code in (3, 5) and out.written == "" and err.written.count("\n") == 1 and "defect" not in err.written, err.written
    assert _bytes_in_use() - before < 400 << 20


UNBOUNDED = ("a bulk that never ends", "many empty arrays", "a line of 50 MB", "an error of 50 MB")
"""Answers without end, which the package redis reads for as long as they come."""


@pytest.mark.parametrize("name", [name for name in NONSENSE if name not in (*UNBOUNDED, "silence")])
def test_a_queue_says_nonsense_in_one_line(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(connection_of_queue, "_TIMEOUT", 0.5)  # each answer here is all that comes
    with serving(folder, NONSENSE[name]) as server, pytest.raises(SpooltopError) as refused, translated("here", "open"):
        with connect(server) as connection:
            connection.xinfo_groups("jobs")[0]["name"].decode()
            raise SpooltopError("it took that for an answer")
    assert "\n" not in str(refused.value) and str(refused.value).isprintable()


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
    with serving(folder, _refusing(f"-{error}\r\n".encode())) as server:
        with open_control(f"{server}#jobs/work", watch=False, settings={}) as control:
            (problem,) = control.look().problems
            assert problem.text.startswith(words)
            with pytest.raises(SpooltopError) as refused:
                control.plan(Action.REQUEUE, Selection(box=Box.CUR, everything=True))
            assert words in str(refused.value)
        with pytest.raises(SpooltopError) as refused, translated("here", "open"), connect(server) as connection:
            connection.xinfo_groups("jobs")
        assert words in str(refused.value)


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
            with pytest.raises(SpooltopError, match="no answer from the server within 2 s"):
                control.read((str(box), "5-1"))
        assert control.look().observation.watch.away and len(asked) == before
