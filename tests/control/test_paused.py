"""A paused spool, as everything that looks tells it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from spooltop.control import open_control
from spooltop.engine import Spool
from spooltop.model.filters.selection import Selection
from spooltop.model.vocabulary import Action
from spooltop.monitor.metrics import Metrics, TargetMetrics

from ..cli.streams import spooltop


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Path]:
    Spool.create(tmp_path / "s", durable=False).close()
    yield tmp_path / "s"


def pause(spool: Path, by: str, at: float, reason: str) -> None:
    assert spooltop("pause", spool, "--yes").code == 0
    (spool / ".spooltop/paused").write_text(json.dumps({"by": by, "at": at, "reason": reason}))


def test_status_check_and_metrics_tell_it(spool: Path) -> None:
    assert json.loads(spooltop("status", spool, "--json").out)["paused"] is None
    pause(spool, "a\x1bb", 5.0, "x\ny")
    status = json.loads(spooltop("status", spool, "--json").out)
    assert {name: status["paused"][name] for name in ("by", "at", "reason")} == {"by": "a\\x1bb", "at": 5.0, "reason": "x\\x0ay"}
    assert status["paused"]["age"] == pytest.approx(status["taken_at"] - 5.0)
    assert [(one["code"], one["severity"]) for one in status["problems"]] == [("paused", "warning")]
    assert "PAUSED by a\\x1bb for " in spooltop("status", spool).out
    done = spooltop("check", spool)
    assert done.code == 1 and done.out.startswith("SPOOL WARNING - paused by a\\x1bb for ")
    assert spooltop("check", spool, "-c", "paused").code == 2
    assert done.out.count("paused") == 1 and spooltop("check", spool, "-w", "depth=9").out.count("- paused by") == 1
    for pausing, value in ((True, 1.0), (False, 0.0)):
        if not pausing:
            assert spooltop("resume", spool, "--yes").code == 0
        target = TargetMetrics(str(spool))
        with open_control(str(spool), watch=False) as control:
            target.look(control, control.look(), 0.5)
        [family] = [one for one in Metrics([target]).collect() if one.name == "spooltop_paused"]
        assert [(one.labels, one.value) for one in family.samples] == [({"target": str(spool)}, value)]


def test_a_dashboard_that_watches_sees_it_come_and_go(spool: Path) -> None:
    with open_control(str(spool)) as watching:
        assert watching.look().observation.paused is None
        with open_control(str(spool), watch=False) as operator:
            for action in (Action.PAUSE, Action.RESUME):
                operator.apply(operator.plan(action, Selection()))
                while (watching.look().observation.paused is not None) is not (action is Action.PAUSE):
                    assert watching.changes(10)


def test_what_is_not_visible_is_no_error_of_the_look(spool: Path) -> None:
    (spool / ".spooltop").symlink_to("/nowhere")
    with open_control(str(spool), watch=False) as control:
        assert control.look().observation.paused is None
    (spool / ".spooltop").unlink()
    (spool / ".spooltop").mkdir()
    os.mkfifo(spool / ".spooltop/paused")
    with open_control(str(spool), watch=False) as control:
        found = control.look().observation.paused
        assert found is not None and found.by is None
