"""Changes of a stream in the journal: each is read as it was written, and what is none is refused."""

from __future__ import annotations

import select
import threading
from typing import TYPE_CHECKING, cast

import pytest

from spooltop.backends.redis.operator.changes import StreamChange, StreamVerb, decode_change, encode_change
from spooltop.backends.redis.queue.arrivals import StreamArrivals
from spooltop.model.vocabulary import Json

if TYPE_CHECKING:
    from redis import Redis

CLAIM = StreamChange(StreamVerb.ASIDE, "5-1", "cur", "trash", "vm-9", 3, 1_795_000_000_000, entry="4-0")


@pytest.mark.parametrize(
    "change",
    [CLAIM, StreamChange(StreamVerb.PUT, "\udcff\x1b"), StreamChange(StreamVerb.SET, "0-0", tries=-1, delivered=(1 << 53) - 1)],
)
def test_a_change_is_read_as_it_was_written(change: StreamChange) -> None:
    assert decode_change(encode_change(change)) == change


@pytest.mark.parametrize(
    ("at", "value"),
    [
        (0, "eat"), (0, 5), (1, None), (4, 7), (7, []), (5, -2), (5, True), (5, 2.0), (5, "3"), (6, 1 << 53), (6, None),
    ],
)  # fmt: skip
def test_what_is_no_change_is_refused(at: int, value: Json) -> None:
    written = encode_change(CLAIM)
    assert isinstance(written, list)
    with pytest.raises(ValueError, match=r"no number|no text|not a valid StreamVerb"):
        decode_change([*written[:at], value, *written[at + 1 :]])
    for spoilt in (None, {}, "x", [], written[:-1], [*written, 0]):
        with pytest.raises(ValueError, match="no change"):
            decode_change(spoilt)


def test_a_wake_never_waits_for_whoever_is_to_be_woken() -> None:
    """The pipe takes 65,536 bytes; a signal handler that blocked on it would never return."""
    ended = threading.Event()

    class Silent:
        def execute_command(self, *words: object) -> list[object]:
            ended.wait(30)
            return []

    arrivals = StreamArrivals(cast("Redis", Silent()), "s", "redis://x#s")
    for _ in range(70_000):
        arrivals.wake()
    arrivals.wait(30)
    assert select.select(arrivals.fds, [], [], 0) == ([], [], [])
    arrivals.wake()
    assert select.select(arrivals.fds, [], [], 0)[0] == list(arrivals.fds)
    ended.set()
    arrivals.close()
