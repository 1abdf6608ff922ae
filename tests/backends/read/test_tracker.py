"""Messages followed by their ids: where each is now, and who took it since."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from spooltop.backends.directory.reader import DirectoryReader
from spooltop.engine import Spool
from spooltop.model.operations.tracked import TrackedMessage
from spooltop.model.vocabulary import Box

from .table import see_until

Opened = Callable[..., DirectoryReader]
START = 1_795_222_000.0


class Looking:
    """A reader whose looks are a second apart."""

    def __init__(self, reader: DirectoryReader, clock: list[float]) -> None:
        self.reader = reader
        self.clock = clock

    def where(self, *ids: str, since: float = 0.0) -> Sequence[TrackedMessage]:
        self.clock[0] += 1.0
        self.reader.see(rescan=True)
        found = self.reader.follow(ids, since)
        return [found[id] for id in ids]


@pytest.fixture
def looking(spool: Path, opened: Opened) -> Looking:
    clock = [START]
    return Looking(opened(spool, clock=lambda: clock[0], monotonic=lambda: clock[0]), clock)


def put(spool: Path, *names: str, box: str = "new") -> None:
    for name in names:
        (spool / box / name).write_bytes(b"x")


def message(second: int) -> str:
    return f"17952220{second:02}000000.1.vm"


def test_places_are_counted_by_age(spool: Path, looking: Looking) -> None:
    put(spool, *(message(second) for second in (9, 3, 5, 1)), "plain")
    os.utime(spool / "new" / "plain", (START + 4, START + 4))
    found = looking.where(message(5), message(1), message(9), "plain")
    assert [(one.box, one.place, one.of) for one in found] == [
        (Box.NEW, 4, 5), (Box.NEW, 1, 5), (Box.NEW, 5, 5), (Box.NEW, 3, 5)
    ]  # fmt: skip
    (spool / "new" / message(1)).unlink()
    (later,) = looking.where(message(5))
    assert (later.place, later.of) == (3, 4)


def test_one_that_is_taken_and_done(spool: Path, looking: Looking) -> None:
    put(spool, message(1))
    assert looking.where(message(1))[0].box is Box.NEW
    (spool / "new" / message(1)).rename(spool / "cur" / f"{message(1)}:2,P5201")
    (taken,) = looking.where(message(1))
    assert (taken.box, taken.pid, taken.place) == (Box.CUR, 5201, None)
    assert taken.verdict is not None and taken.claimed_at is not None
    (spool / "cur" / f"{message(1)}:2,P5201").unlink()
    gone = [looking.where(message(1))[0] for _ in range(4)]
    assert [one.box for one in gone] == [None] * 4
    assert gone[0].gone_at is None and gone[-1].gone_at == START + 3
    assert (gone[-1].pid, gone[-1].claimed_at) == (5201, taken.claimed_at)


def test_a_claim_of_before_does_not_count(spool: Path, looking: Looking) -> None:
    claimed = f"{message(1)},c={'ab' * 16}.{int(START * 1e6)}:2,P5"
    put(spool, claimed, box="cur")
    (old,) = looking.where(message(1), since=START + 1)
    assert (old.box, old.claimed_at, old.pid) == (Box.CUR, None, None)
    (spool / "cur" / claimed).rename(spool / "new" / f"{message(1)},n=1")
    (back,) = looking.where(message(1), since=START + 1)
    assert (back.box, back.place, back.claimed_at) == (Box.NEW, 1, None)


def test_one_that_was_set_aside(spool: Path, looking: Looking) -> None:
    place = spool / ".spooltop" / "trash" / "7f3a"
    place.mkdir(parents=True)
    put(spool, message(1))
    assert looking.where(message(1))[0].box is Box.NEW
    (spool / "new" / message(1)).rename(place / message(1))
    assert looking.where(message(1))[0].box is Box.TRASH


def test_a_file_that_an_undo_moved_back_into_tmp_is_not_gone(spool: Path, looking: Looking) -> None:
    name = f"{message(1)},s=email"
    place = spool / ".spooltop" / "trash" / "7f3a"
    place.mkdir(parents=True)
    put(spool, f".spooltop/trash/7f3a/{name}", box=".")
    assert looking.where(message(1))[0].box is Box.TRASH
    (place / name).rename(spool / "tmp" / name)
    found = [looking.where(message(1))[0] for _ in range(5)]
    assert [(one.box, one.gone_at) for one in found] == [(Box.TMP, None)] * 5
    (spool / "tmp" / name).rename(spool / "new" / name)
    assert looking.where(message(1))[0].box is Box.NEW


def test_a_box_that_cannot_be_seen_makes_nothing_gone(spool: Path, looking: Looking) -> None:
    put(spool, message(1))
    assert looking.where(message(1))[0].box is Box.NEW
    (spool / "new").rename(spool / "new.away")
    for _ in range(4):
        looking.clock[0] += 1.0
        looking.reader.see(rescan=True)
        assert all(one.gone_at is None for one in looking.reader.follow([message(1)], 0.0).values())


def test_what_is_not_asked_for_any_more_is_forgotten(spool: Path, looking: Looking) -> None:
    put(spool, *(message(second) for second in range(3)))
    assert len(looking.where(message(0), message(1))) == 2
    assert looking.reader.follow([], 0.0) == {}
    assert looking.where(message(2))[0].place == 3


def test_events_tell_who_took_it_and_when_between_two_looks(spool: Path, opened: Opened) -> None:
    with Spool(str(spool)) as consumer:
        id = consumer.put(b"x", source="email")
        reader = opened(spool, watch=True)
        see_until(reader, lambda observation: observation.flow.measured)
        assert reader.follow([id], 0.0)[id].box is Box.NEW
        claim = consumer.claim(timeout=30)
        assert claim is not None and claim.id == id
        claim.ack()

        def done(observation: object) -> bool:
            return reader.follow([id], 0.0)[id].gone_at is not None

        see_until(reader, done)
        found = reader.follow([id], 0.0)[id]
        assert found.pid == os.getpid() and found.claimed_at is not None and found.gone_at is not None


def test_a_canary_that_was_gone_before_anybody_asked_for_it_is_told_all_the_same(spool: Path, opened: Opened) -> None:
    with Spool(str(spool)) as consumer:
        reader = opened(spool, watch=True)
        see_until(reader, lambda observation: observation.flow.measured)
        id = consumer.put(b"x", canary=True)
        claim = consumer.claim(timeout=30)
        assert claim is not None and claim.id == id
        claim.ack()
        consumer.put(b"y")
        see_until(reader, lambda observation: observation.flow.arrived > 0)
        see_until(reader, lambda observation: reader.follow([id], 0.0)[id].gone_at is not None)
        found = reader.follow([id], 0.0)[id]
        assert found.pid == os.getpid() and found.claimed_at is not None and found.put_at is not None
        assert found.put_at <= found.claimed_at <= (found.gone_at or 0.0)
