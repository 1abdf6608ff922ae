"""The engine at its edges: equal instants, frozen clocks, forged records, second names."""

from __future__ import annotations

import json
import os
import signal
from hashlib import sha256
from pathlib import Path

import pytest

from spooltop.engine import Spool
from tests.clock import Clock
from tests.engine.helpers import in_child, places


def opened(path: Path, clock: Clock, **more: float) -> Spool:
    return Spool.create(path / "spool", False, clock=clock, **more)  # type: ignore[arg-type]


def dies_holding(path: Path, count: int = 1) -> None:
    def work() -> None:
        spool = Spool(path / "spool", False)
        claims = [spool.claim() for _ in range(count)]
        assert all(claims)
        os.kill(os.getpid(), signal.SIGKILL)

    assert in_child(work) == signal.SIGKILL


def test_a_claim_has_a_name_that_no_claim_had_before_it_though_the_clock_stands_still(tmp_path: Path, clock: Clock) -> None:
    with opened(tmp_path, clock) as spool:
        (tmp_path / "spool" / "new" / "foreign").write_bytes(b"x")
        names = []
        for _ in range(4):
            claim = spool.claim()
            assert claim is not None
            names.append(claim.name)
            claim.release()
        assert len(set(names)) == 4
        assert names == sorted(names)


def test_a_message_is_given_out_at_the_very_instant_before_which_it_waits(tmp_path: Path, clock: Clock) -> None:
    with opened(tmp_path, clock) as spool:
        at = clock.now + 60
        id = spool.put(b"x", not_before=at)
        clock.now = at - 1e-3
        assert spool.claim() is None
        clock.now = at
        claim = spool.claim()
        assert claim is not None and claim.id == id
        claim.ack()


def test_a_key_counts_for_its_window_and_no_longer(tmp_path: Path, clock: Clock) -> None:
    with opened(tmp_path, clock, key_window=100) as spool:
        first = spool.put(b"x", key="k")
        clock.advance(99)
        assert spool.put(b"x", key="k") == first
        assert spool.depth() == 1
        clock.advance(2)
        second = spool.put(b"x", key="k")
        assert second != first and spool.depth() == 2
        assert spool.put(b"x", key="k") == second  # and that is a record again
        assert spool.depth() == 2


@pytest.mark.parametrize("name", ["../victim", "/etc/passwd", ".hidden", "", "a/b", 7, None])
def test_a_forged_record_of_a_key_leads_nowhere(tmp_path: Path, clock: Clock, name: object) -> None:
    with opened(tmp_path, clock) as spool:
        spool.put(b"first", key="other")
        (tmp_path / "spool" / "victim").write_text("stays")
        (tmp_path / "spool" / "tmp" / ".hidden").write_text("stays")
        record = tmp_path / "spool" / ".spooltop" / "keys" / sha256(b"k").hexdigest()
        record.write_text(json.dumps({"name": name, "at": clock.now}))
        spool.put(b"second", key="k")
        assert (tmp_path / "spool" / "victim").read_text() == "stays"
        assert (tmp_path / "spool" / "tmp" / ".hidden").exists()
        assert sorted(path.read_bytes() for path in (tmp_path / "spool" / "new").iterdir()) == [b"first", b"second"]
        assert spool.put(b"second", key="k") and spool.depth() == 2


def test_recover_puts_back_the_oldest_first_and_leaves_its_own_claims(tmp_path: Path, clock: Clock) -> None:
    with opened(tmp_path, clock) as spool:
        ids = [spool.put(b"%d" % number) for number in range(5)]
        dies_holding(tmp_path, 3)
        mine = spool.claim()
        assert mine is not None and mine.id == ids[3]
        assert spool.recover() == ids[:3]
        assert spool.recover() == []
        assert (tmp_path / "spool" / "cur" / mine.name).exists()
        mine.ack()
        assert {claim.id for claim in _all(spool)} == {*ids[:3], ids[4]}


def _all(spool: Spool) -> list:  # type: ignore[type-arg]
    found = []
    while (claim := spool.claim()) is not None:
        claim.ack()
        found.append(claim)
    return found


def test_recover_counts_the_attempt_and_rejects_at_the_limit_with_the_reason(tmp_path: Path, clock: Clock) -> None:
    with opened(tmp_path, clock, max_attempts=2) as spool:
        id = spool.put(b"poison")
        dies_holding(tmp_path)
        assert spool.recover() == [id]
        dies_holding(tmp_path)
        assert spool.recover() == []
        (kept,) = (tmp_path / "spool" / ".spooltop" / "rejected").glob("*/[!.]*")
        metadata = json.loads(next(kept.parent.glob(".*.meta")).read_text())
        assert (kept.read_bytes(), metadata["origin"], metadata["attempt"]) == (b"poison", "cur", 2)
        assert spool.depth() == 0


def test_recover_takes_away_the_name_in_tmp_of_what_is_delivered_and_no_other(tmp_path: Path, clock: Clock) -> None:
    with opened(tmp_path, clock) as spool:
        waiting, claimed = spool.put(b"waiting"), spool.put(b"claimed")
        tmp, new = tmp_path / "spool" / "tmp", tmp_path / "spool" / "new"
        os.link(new / waiting, tmp / waiting)
        (tmp / "being written").write_text("x")
        os.link(tmp / "being written", tmp_path / "elsewhere")
        spool.recover()
        assert sorted(os.listdir(tmp)) == ["being written"]
        assert (new / waiting).stat().st_nlink == 1
        first = spool.claim()
        second = spool.claim()
        assert first is not None and second is not None and second.id == claimed
        os.link(tmp_path / "spool" / "cur" / second.name, tmp / claimed)
        spool.recover()
        assert sorted(os.listdir(tmp)) == ["being written"]
        assert all(len(names) == 1 for names in places(tmp_path / "spool").values())
        first.ack()
        second.ack()


def test_a_delay_of_a_foreign_message_is_kept_by_the_process_that_gave_it_back(tmp_path: Path, clock: Clock) -> None:
    with opened(tmp_path, clock) as spool:
        (tmp_path / "spool" / "new" / "foreign").write_bytes(b"x")
        claim = spool.claim()
        assert claim is not None
        claim.release(delay=30)
        assert spool.claim() is None
        clock.advance(29)
        assert spool.claim() is None
        clock.advance(1.001)
        again = spool.claim()
        assert again is not None and again.id == "foreign"
        again.ack()


def test_a_dot_file_is_no_message(tmp_path: Path, clock: Clock) -> None:
    with opened(tmp_path, clock) as spool:
        (tmp_path / "spool" / "new" / ".hidden").write_bytes(b"x")
        assert (spool.depth(), spool.peek(), spool.claim()) == (0, None, None)
        id = spool.put(b"x")
        assert (spool.depth(), spool.peek()) == (1, id)


def test_a_claim_of_another_boot_is_put_back_where_no_other_machine_mounts_the_spool(tmp_path: Path) -> None:
    with Spool.create(tmp_path / "spool", False) as spool:
        id = spool.put(b"x")
    dies_holding(tmp_path)
    [presence] = (tmp_path / "spool" / ".spooltop" / "consumers").iterdir()
    presence.write_text(json.dumps({**json.loads(presence.read_text()), "boot_id": "another", "host": "client-b"}))
    for hosts, found in (("any", []), ("this-machine", [id])):
        with Spool(tmp_path / "spool", False, hosts=hosts) as spool:
            assert spool.recover() == found


def test_a_claim_with_a_second_name_elsewhere_is_not_the_rest_of_an_interrupted_move(tmp_path: Path) -> None:
    """What was set aside under the same id is another message: only the same inode tells that a move was interrupted."""
    path = tmp_path / "spool"
    with Spool.create(path) as spool:
        spool.put(b"first", id="order-1")
    dies_holding(tmp_path)
    [claim] = (path / "cur").iterdir()
    (tmp_path / "kept").hardlink_to(claim)
    aside = path / ".spooltop" / "rejected" / "op"
    aside.mkdir(parents=True)
    (aside / "order-1").write_bytes(b"another")
    with Spool(path) as spool:
        assert spool.recover() == ["order-1"]
        again = spool.claim()
        assert again is not None and again.data == b"first"
        again.ack()
