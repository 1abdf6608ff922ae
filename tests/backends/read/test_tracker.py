"""Messages followed by their ids: where each is now, and who took it since."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from spooltop.control import Control
from spooltop.engine import Spool
from spooltop.model.plan import TrackedMessage
from spooltop.model.vocabulary import Box

from .conftest import Opened
from .table import see_until

START = 1_795_222_000.0


class Looking:
    """A Control whose looks are a second apart."""

    def __init__(self, spool: Path, opened: Opened) -> None:
        self.now, self.spool = START, spool
        self.control: Control = opened(spool, clock=lambda: self.now, monotonic=lambda: self.now)

    def where(self, *ids: str, since: float = 0.0) -> Sequence[TrackedMessage]:
        self.now += 1.0
        self.control.look(rescan=True)
        found = self.control.follow(ids, since)
        return [found[id] for id in ids if id in found]

    def put(self, *names: str) -> None:
        for name in names:
            (self.spool / name).write_bytes(b"x")


@pytest.fixture
def looking(spool: Path, opened: Opened) -> Looking:
    return Looking(spool, opened)


ONE, FIVE, NINE = (f"179522200{second}000000.1.vm" for second in (1, 5, 9))


def test_places_are_counted_by_age(spool: Path, looking: Looking) -> None:
    looking.put(*(f"new/{name}" for name in (NINE, "1795222003000000.1.vm", FIVE, ONE)), "new/plain")
    os.utime(spool / "new" / "plain", (START + 4, START + 4))
    found = looking.where(FIVE, ONE, NINE, "plain")
    assert [(one.box, one.place, one.of) for one in found] == [(Box.NEW, place, 5) for place in (4, 1, 5, 3)]
    (spool / "new" / ONE).unlink()
    (later,) = looking.where(FIVE)
    assert (later.place, later.of) == (3, 4)
    assert looking.control.follow([], 0.0) == {}  # what is not asked for any more is forgotten
    assert looking.where(NINE)[0].place == 4


def test_one_that_is_taken_and_done(spool: Path, looking: Looking) -> None:
    looking.put(f"new/{ONE}")
    assert looking.where(ONE)[0].box is Box.NEW
    (spool / "new" / ONE).rename(spool / "cur" / f"{ONE}:2,P5201")
    (taken,) = looking.where(ONE)
    assert (taken.box, taken.pid, taken.place) == (Box.CUR, 5201, None)
    assert taken.verdict is not None and taken.claimed_at is not None
    (spool / "cur" / f"{ONE}:2,P5201").unlink()
    gone = [looking.where(ONE)[0] for _ in range(4)]
    assert [one.box for one in gone] == [None] * 4 and gone[0].gone_at is None
    assert (gone[-1].gone_at, gone[-1].pid, gone[-1].claimed_at) == (START + 3, 5201, taken.claimed_at)


def test_a_claim_of_before_does_not_count(spool: Path, looking: Looking) -> None:
    claimed = f"cur/{ONE},c={'ab' * 16}.{int(START * 1e6)}:2,P5"
    looking.put(claimed)
    (old,) = looking.where(ONE, since=START + 1)
    assert (old.box, old.claimed_at, old.pid) == (Box.CUR, None, None)
    (spool / claimed).rename(spool / "new" / f"{ONE},n=1")
    (back,) = looking.where(ONE, since=START + 1)
    assert (back.box, back.place, back.claimed_at) == (Box.NEW, 1, None)


def test_what_is_set_aside_and_moved_back_or_in_a_box_that_cannot_be_seen_is_not_gone(spool: Path, looking: Looking) -> None:
    places = [spool / ".spooltop/trash/7f3a", spool / "tmp", spool / "new"]
    places[0].mkdir(parents=True)
    at = spool / "new" / f"{ONE},s=email"
    looking.put(f"new/{at.name}")
    assert looking.where(ONE)[0].box is Box.NEW
    for place, box in zip(places, (Box.TRASH, Box.TMP, Box.NEW), strict=True):  # an undo moves into tmp too
        at = at.rename(place / at.name)
        found = [looking.where(ONE)[0] for _ in range(4)]
        assert [(one.box, one.gone_at) for one in found] == [(box, None)] * 4
    (spool / "new").rename(spool / "new.away")
    assert not any(one.gone_at for _ in range(4) for one in looking.where(ONE))


@pytest.mark.parametrize("canary", [False, True])
def test_events_tell_who_took_it_and_when_between_two_looks(spool: Path, opened: Opened, canary: bool) -> None:
    """A canary is followed from its put on: it may be gone before anybody asked for it."""
    with Spool(str(spool)) as consumer:
        control = opened(spool, watch=True)
        see_until(control, lambda observation: observation.flow.measured)
        id = consumer.put(b"x", source="email", canary=canary)
        if not canary:
            see_until(control, lambda _: control.follow([id], 0.0)[id].box is Box.NEW)
        claim = consumer.claim(timeout=30)
        assert claim is not None and claim.id == id
        claim.ack()
        if canary:
            consumer.put(b"y")
            see_until(control, lambda observation: observation.flow.arrived > 0)
        see_until(control, lambda _: control.follow([id], 0.0)[id].gone_at is not None)
        found = control.follow([id], 0.0)[id]
        assert found.pid == os.getpid() and found.claimed_at is not None and found.gone_at is not None
        assert not canary or (found.put_at is not None and found.put_at <= found.claimed_at <= found.gone_at)
