"""Servers that answer without end: a queue says so in one error, within limits of time and size."""

from __future__ import annotations

from typing import Any

import pytest

from spooltop.backends.redis.queue import connection
from spooltop.backends.redis.queue.group_consumer import GroupConsumer
from spooltop.backends.redis.queue.stream_producer import StreamProducer
from spooltop.errors import PutUnknown, Unavailable
from spooltop.queues import open_queue
from tests.stream_servers import endless

from .conftest import NAMES

ANSWERS = {
    "a line": (b"+", b"x" * 65_536, 0.0),
    "bytes": (b"$99999999999\r\n", b"x" * 65_536, 0.0),
    "elements": (b"*99999999999\r\n", b":1\r\n" * 10_000, 0.0),
    "byte by byte": (b"+", b"x", 0.01),
}


@pytest.fixture(params=ANSWERS, autouse=True)
def port(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(connection, "_TIMEOUT", 0.3)
    monkeypatch.setattr(connection, "_LONGEST", 2.0)
    with endless(*ANSWERS[request.param]) as found:
        yield found


def test_a_put_may_have_arrived(port: int) -> None:
    with pytest.raises(Unavailable, match=r"too long|in time"):
        open_queue(f"redis://127.0.0.1:{port}#jobs/work")
    client = connection.connect(f"redis://127.0.0.1:{port}")
    producer = StreamProducer(client, NAMES, "here", None, waits=False)
    with pytest.raises(PutUnknown, match=r"too long|in time"):
        producer.put(b"1", None, None)
    with pytest.raises(Unavailable, match=r"too long|in time"):
        producer.put(b"1", None, "k")
    client.close()


def test_nothing_is_claimed(port: int) -> None:
    client = connection.connect(f"redis://127.0.0.1:{port}")
    consumer = GroupConsumer(client, NAMES, "here", 10.0, 3, waits=False)
    consumer._lease.take = lambda: None  # type: ignore[method-assign]
    for claim in (consumer.take, lambda: consumer.read(0.1)):
        with pytest.raises(Unavailable, match=r"too long|in time"):
            claim()
    client.close()
