"""Streams of a test, on Redis and on Valkey, and Controls of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from redis import Redis

from spooltop.control import Control, open_control
from tests.scratch import own_state
from tests.stream_builders import StreamWorld
from tests.stream_servers import EACH, running


def key(name: str) -> str:
    """The key of the group ``work`` beside the stream ``jobs`` that is called ``name``: ``consumers``, ``trash`` …"""
    return f"{{jobs}}:spooltop:{name}:work"


def lease(consumer: str) -> str:
    return f"{{jobs}}:lease:work:{consumer}"


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder for sockets: the path of one has at most 107 bytes."""
    with TemporaryDirectory(prefix="spooltop-streams-") as made:
        yield Path(made)


@pytest.fixture(scope="package", params=EACH)
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
def opened(socket: str) -> Iterator[Callable[..., Control]]:
    """Opens the group ``work`` of the stream ``jobs``, with settings."""
    with ExitStack() as stack:
        yield lambda **settings: stack.enter_context(
            open_control(f"unix://{socket}#jobs/work", watch=False, settings={**own_state(), **settings})
        )


@pytest.fixture
def world(socket: str, tmp_path: Path) -> Iterator[StreamWorld]:
    with StreamWorld(tmp_path, socket) as made:
        yield made


@pytest.fixture
def control(world: StreamWorld) -> Iterator[Control]:
    with world.control() as made:
        yield made
