"""Streams of a test, on Redis and on Valkey."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from socket import gethostname
from typing import Any

import pytest
from redis import Redis

from spooltop.backends.redis.address import StreamAddress
from spooltop.backends.redis.stream_names import StreamNames
from spooltop.backends.redis.streams.reader import StreamReader
from spooltop.backends.redis.streams.verdicts import PidJudge
from spooltop.backends.surroundings import LocalClient
from spooltop.model.vocabulary import Verdict
from tests.stream_servers import KINDS, running

NAMES = StreamNames("jobs", "work")


class Around:
    """Answers about processes: pid 1 runs, all others have exited."""

    def pids(self, claims: Any, root: int) -> list[tuple[Verdict, str]]:
        return [(Verdict.ALIVE, "running") if pid == 1 else (Verdict.DEAD, "exited") for pid, _ in claims]

    def clients(self, pids: Any, connections: Any) -> list[LocalClient]:
        return []


@pytest.fixture(scope="package", params=KINDS)
def socket(request: pytest.FixtureRequest) -> Iterator[str]:
    folder = tempfile.mkdtemp(prefix="spooltop-streams-")  # the path of a socket has at most 107 bytes
    try:
        with running(request.param, Path(folder)) as path:
            yield path
    finally:
        shutil.rmtree(folder)


@pytest.fixture
def client(socket: str) -> Iterator[Any]:
    with Redis(unix_socket_path=socket) as made:
        made.flushall()
        made.config_set("maxmemory", 0)
        yield made


@pytest.fixture
def jobs(client: Any) -> Any:
    """A stream ``jobs`` with a group ``work``."""
    client.xgroup_create("jobs", "work", "0", mkstream=True)
    return client


@pytest.fixture
def reader_of(socket: str) -> Iterator[Callable[..., StreamReader]]:
    """Opens readers of a stream and a group."""
    made: list[StreamReader] = []

    def open_one(names: StreamNames = NAMES, *, vouched: bool = False, **options: Any) -> StreamReader:
        address = StreamAddress.parse(f"unix://{socket}#{names.stream}/{names.group}")
        judge = PidJudge(Around(), gethostname(), vouched=vouched)  # type: ignore[arg-type]
        made.append(StreamReader(address.endpoint(), names, address.shown, judge, **options))
        return made[-1]

    yield open_one
    for reader in made:
        reader.close()


@pytest.fixture
def reader(jobs: Any, reader_of: Callable[..., StreamReader]) -> StreamReader:
    return reader_of()
