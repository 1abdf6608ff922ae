"""``--watch`` looks for as long as the dashboard would, then answers once."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from spooltop.control import Control, open_control
from spooltop.engine import Spool

from .streams import spooltop


def write(path: Path, sections: dict[str, int]) -> None:
    draft = path.with_name("draft")
    draft.write_text(json.dumps(sections))
    draft.replace(path)


@pytest.mark.parametrize("command", ["status", "cursors"])
def test_lost_updates_are_told_by_source(tmp_path: Path, command: str) -> None:
    path = tmp_path / "cursors.json"
    write(path, {"imessage": 10, "email": 1})

    def open_busy(target: str, **options: object) -> Control:
        """After its first look, a writer loses an update and ends."""
        assert options["watch"] is True
        control = open_control(target, settings={"HOME": target})
        control.look()
        for sections in ({"imessage": 11, "email": 1}, {"imessage": 10, "email": 2}):
            write(path, sections)
            while not control.changes(0.2):
                continue
        return control

    done = spooltop(command, tmp_path, "--watch", "0.1", "--json", opener=open_busy)
    lines = [json.loads(line) for line in done.out.splitlines()]
    found = lines[0]["cursors"] if command == "status" else {line["source"]: line for line in lines}
    assert done.code == 0
    assert {source: cursor["reverts"] for source, cursor in found.items()} == {"imessage": 1, "email": 0}
    assert found["imessage"]["verdict"] == "reverted"


def test_ctrl_c_ends_it_at_once_without_a_word(spool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Control, "changes", lambda *_, **__: signal.raise_signal(signal.SIGINT))
    done = spooltop("status", spool, "--watch", "600s")
    assert (done.code, done.out, done.err.strip()) == (130, "", "")


def test_consumers_that_are_watched_have_rates(spool: Path) -> None:
    (spool / "new" / "message").touch()
    with Spool(spool, durable=False) as queue, queue.claim():
        (line,) = spooltop("consumers", spool, "--json", "--watch", "2").out.splitlines()
    running = json.loads(line)
    assert (running["done_rate"], running["failed_rate"]) == (0.0, 0.0)
    assert running["cpu"] is not None and running["memory"] > 1_000_000 and running["window"] > 0
    none = spooltop("consumers", spool, "--verdict", "dead")
    assert (none.code, none.out) == (4, "") and none.err.endswith("no consumer is dead\n")
