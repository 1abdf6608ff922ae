"""Changes of a stream in the journal: each is read as it was written, and what is none is refused."""

from __future__ import annotations

import pytest

from spooltop.backends.redis.operator.changes import StreamChange, StreamVerb, decode_change, encode_change
from spooltop.model.vocabulary import Json

CLAIM = StreamChange(StreamVerb.ASIDE, "5-1", "cur", "trash", "vm-9", 3, 1_795_000_000_000, entry="4-0")
OTHERS = (
    StreamChange(StreamVerb.PUT, "\udcff\x1b"), StreamChange(StreamVerb.SET, "0-0", tries=-1, delivered=(1 << 53) - 1),
    StreamChange(StreamVerb.BACK, "5-1", "rejected", notes="10 no\ngood"),
)  # fmt: skip


@pytest.mark.parametrize("change", [CLAIM, *OTHERS])
def test_a_change_is_read_as_it_was_written(change: StreamChange) -> None:
    assert decode_change(encode_change(change)) == change


@pytest.mark.parametrize(
    ("at", "value"),
    [(0, "eat"), (0, 5), (1, None), (4, 7), (7, []), (5, -2), (5, True), (5, 2.0), (5, "3"), (6, 1 << 53), (6, None)],
)
def test_what_is_no_change_is_refused(at: int, value: Json) -> None:
    written = encode_change(CLAIM)
    assert isinstance(written, list)
    for spoilt in ([*written[:at], value, *written[at + 1 :]], None, {}, "x", [], written[:-1], [*written, 0], [*written, "x"]):
        with pytest.raises(ValueError, match=r"no number|no text|not a valid StreamVerb|no change|no notes"):
            decode_change(spoilt)
