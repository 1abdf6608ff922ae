"""Conclusions of a single look, and the limits that it states."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from spooltop.control import open_control
from spooltop.engine import FileTicketQueue, Spool
from spooltop.engine.counters import COUNTERS
from spooltop.model.filters.selection import Selection
from spooltop.model.look.problem import CODES
from spooltop.model.look.snapshot import Snapshot
from spooltop.model.protocols import ListQuery
from spooltop.model.vocabulary import Action, Box
from spooltop.tui.draw.overview import overview
from tests.engine.helpers import in_child

from ..cli.streams import spooltop


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    with Spool.create(tmp_path / "s", durable=False) as spool:
        yield spool


def put_before(path: str, seconds: float, many: int = 1) -> list[str]:
    """Puts messages of our own with this age."""
    with Spool(path, durable=False, clock=lambda: time.time() - seconds) as before:
        return before.put_many([b"x"] * many)


def test_while_a_consumer_lives_one_look_cannot_say_so_and_says_that(spool: Spool) -> None:
    put_before(spool.path, 190, 5)
    claim = spool.claim()
    assert claim is not None
    claim.release()
    status = json.loads(spooltop("status", spool.path, "--json").out)
    assert status["consumers"] == 1 and "no-consumer" not in [one["code"] for one in status["problems"]]
    assert status["not_judged"] == ["no-consumer", "new-growing"]
    assert set(status["not_judged"]) <= set(CODES)
    assert "not judged: no-consumer, new-growing (needs --watch 60s)" in spooltop("status", spool.path).out.splitlines()


def test_how_many_consumers_live_is_not_known_where_cur_cannot_be_read(spool: Spool) -> None:
    put_before(spool.path, 190)
    claim = spool.claim()
    assert claim is not None
    claim.release()  # this process goes on holding its presence lock
    assert json.loads(spooltop("status", spool.path, "--json").out)["consumers"] == 1
    Path(spool.path, "cur").rmdir()
    Path(spool.path, "cur").touch()
    status = json.loads(spooltop("status", spool.path, "--json").out)
    assert status["consumers"] is None and "blind" in [problem["code"] for problem in status["problems"]]


def last_claim(path: str) -> float | None:
    found = json.loads(spooltop("status", path, "--json").out)["last_claim_at"]
    assert found is None or isinstance(found, float)
    return found


def test_the_newest_claim_is_the_last_only_where_nothing_was_claimed_and_finished_since(spool: Spool) -> None:
    put_before(spool.path, 2_000, 2)
    token = "ab" * 16
    old = time.time() - 1_200
    [first, second] = sorted(os.listdir(Path(spool.path, "new")))
    cur = Path(spool.path, "cur")
    os.rename(Path(spool.path, "new", first), cur / f"{first},c={token}.{int(old * 1e6)}:2,P4194304")
    os.utime(cur, (old, old))
    at = last_claim(spool.path)
    assert at is not None and abs(at - old) < 1
    claim = spool.claim()
    assert claim is not None and claim.id == second
    claim.ack()
    assert last_claim(spool.path) is None
    with open_control(spool.path, watch=False) as control:
        control.look()
        notes = " ".join(control.plan(Action.REQUEUE, Selection(box=Box.CUR, everything=True), force=True).notes)
        assert "19m" not in notes and "20m" not in notes and "At work now: 1 consumer, last claim not known." in notes


def test_a_list_and_a_plan_agree_on_what_is_older(spool: Spool) -> None:
    now = 1_795_220_920.0
    for age in (599, 600, 601):
        Path(spool.path, "new", f"{int((now - age) * 1e6)}.P1R{age:016x}.vm").touch()
    chosen = Selection(box=Box.NEW, older_than=600.0)
    with open_control(spool.path, watch=False, clock=lambda: now) as control:
        control.look()
        listed = [row.id for row in control.listing(ListQuery(Box.NEW, selection=chosen)).window(0, 9)]
        planned = [item.id for item in control.plan(Action.HOLD, chosen).items]
    assert listed == planned == [f"{int((now - age) * 1e6)}.P1R{age:016x}.vm" for age in (601, 600)]


def test_verdicts_are_counted_under_their_own_names_and_thresholds_are_obeyed(spool: Spool) -> None:
    put_before(spool.path, 1_200, 1)
    for number in range(2):
        Path(spool.path, "new", f"1795220920443125.P1R{number:016x}.vm,n=4").touch()

    def work() -> None:
        with Spool(spool.path, durable=False) as other:
            claims = [other.claim() for _ in range(2)]
            assert None not in claims
            os.kill(os.getpid(), signal.SIGKILL)

    assert in_child(work) == signal.SIGKILL
    for number in range(3):
        Path(spool.path, "cur", f"order-{number},n=0,c={'cd' * 16}.{1795220925443125 + number}:2,P4194304").touch()

    def status(**settings: str) -> dict[str, Any]:
        done = spooltop("status", spool.path, "--json", environ={"TERM": "xterm", **settings})
        return dict(json.loads(done.out))

    reported = status()
    assert reported["claims"] == {"alive": 0, "dead": 2, "unknown": 3}
    assert {"poison", "new-old"} <= {one["code"] for one in reported["problems"]}
    with open_control(
        spool.path, watch=False, settings={"SPOOLTOP_POISON_DEATHS": "6", "SPOOLTOP_NEW_OLD": "30m"}
    ) as control:  # fmt: skip
        assert not {"poison", "new-old"} & {one.code for one in control.look().problems}


def test_a_look_that_is_to_scan_again_scans_though_no_time_changed(spool: Spool) -> None:
    new = Path(spool.path, "new")
    os.utime(new, (1, 1))
    with open_control(spool.path, watch=False) as control:
        assert control.look().observation.boxes[Box.NEW].count == 0
        (new / "1795220920443125.9155.vm").touch()
        os.utime(new, (1, 1))
        assert control.look().observation.boxes[Box.NEW].count == 0
        assert control.look(rescan=True).observation.boxes[Box.NEW].count == 1


def test_a_ticket_of_more_digits_is_served_and_shown(tmp_path: Path) -> None:
    (tmp_path / "seq").write_text("1")
    members = [f"{number}.{os.getpid()}.{'ab' * 16}" for number in ("99999999999999999999", "100000000000000000000")]
    for member in reversed(members):
        (tmp_path / member).touch()
    assert FileTicketQueue(tmp_path).is_head(99999999999999999999)
    status = json.loads(spooltop("status", tmp_path, "--json").out)
    [lock] = [one for one in status["locks"] if one["kind"] == "ticket"]
    assert (len(lock["holders"]), len(lock["waiters"])) == (1, 1)
    (tmp_path / members[0]).unlink()
    status = json.loads(spooltop("status", tmp_path, "--json").out)
    assert [len(one["holders"]) for one in status["locks"] if one["kind"] == "ticket"] == [1]


def test_puts_that_were_none_are_told_by_source(spool: Spool) -> None:
    for _ in range(3):
        spool.put(b"x", key="order-17", source="shop")
    assert json.loads(spooltop("status", spool.path, "--json").out)["duplicates_suppressed"] == {"shop": 2}
    assert "duplicates suppressed: 2 (shop 2)" in spooltop("status", spool.path).out.splitlines()
    for many in (2, 0):
        with open_control(spool.path, watch=False) as control:
            snapshot = control.look()
        shown = ["".join(span.text for span in line) for line in overview(snapshot, 80, 22, now=snapshot.taken_at)]
        assert (" duplicates suppressed: 2 (shop 2)" in shown) is (many > 0)
        Path(spool.path, ".spooltop", COUNTERS).unlink(missing_ok=True)


def test_the_last_look_of_a_watch_begins_so_long_after_the_first(spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    now, began = [0.0], list[float]()
    with open_control(spool.path, watch=False) as control:
        look = control.look

        def slow() -> Snapshot:
            began.append(now[0])
            now[0] += 0.015
            return look()

        monkeypatch.setattr(control, "look", slow)
        control.watch(0.02, monotonic=lambda: now[0])
    assert began[-2] < 0.035 <= began[-1], "0.02 s after the end of the first look"
