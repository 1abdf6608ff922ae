"""Streams of a test, on Redis and on Valkey, and readers of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from socket import gethostname
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from redis import Redis

from spooltop.backends.redis.address import StreamAddress
from spooltop.backends.redis.stream_names import StreamNames
from spooltop.backends.redis.streams.reader import StreamReader
from spooltop.backends.redis.streams.verdicts import PidJudge
from spooltop.backends.surroundings import LocalClient
from spooltop.control import Control
from spooltop.model.vocabulary import Verdict
from tests.stream_builders import StreamWorld
from tests.stream_servers import KINDS, running

NAMES = StreamNames("jobs", "work")


class Around:
    """Answers about processes: pid 1 runs, all others have exited."""

    def pids(self, claims: Any, root: int) -> list[tuple[Verdict, str]]:
        return [(Verdict.ALIVE, "running") if pid == 1 else (Verdict.DEAD, "exited") for pid, _ in claims]

    def clients(self, pids: Any, connections: Any) -> list[LocalClient]:
        return []


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder for sockets: the path of one has at most 107 bytes."""
    with TemporaryDirectory(prefix="spooltop-streams-") as made:
        yield Path(made)


@pytest.fixture(scope="package", params=KINDS)
def socket(request: pytest.FixtureRequest) -> Iterator[str]:
    with TemporaryDirectory(prefix="spooltop-streams-") as folder, running(request.param, Path(folder)) as path:
        yield path


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
def url(jobs: Any, socket: str) -> str:
    return f"unix://{socket}#jobs/work"


@pytest.fixture
def reader_of(socket: str) -> Iterator[Callable[..., StreamReader]]:
    """Opens readers of the stream ``jobs`` and the group ``work``."""
    made: list[StreamReader] = []

    def open_reader(*, vouched: bool = False, **options: Any) -> StreamReader:
        address = StreamAddress.parse(f"unix://{socket}#jobs/work")
        judge = PidJudge(Around(), gethostname(), vouched=vouched)  # type: ignore[arg-type]
        made.append(StreamReader(address.endpoint(), NAMES, address.shown, judge, **options))
        return made[-1]

    yield open_reader
    for reader in made:
        reader.close()


@pytest.fixture
def reader(jobs: Any, reader_of: Callable[..., StreamReader]) -> StreamReader:
    return reader_of()


@pytest.fixture
def world(socket: str, tmp_path: Path) -> Iterator[StreamWorld]:
    with StreamWorld(tmp_path, socket) as made:
        yield made


@pytest.fixture
def control(world: StreamWorld) -> Iterator[Control]:
    with world.control() as made:
        yield made
