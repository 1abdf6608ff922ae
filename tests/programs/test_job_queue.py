"""job-queue beside the dashboard: a worker is killed, its claim turns dead, two keys put it back, a new worker finishes it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from ..e2e.terminal import SPOOLTOP
from ..e2e.tmux import Tmux
from .actor import job_queue

pytestmark = [pytest.mark.programs, pytest.mark.timeout(300)]


@pytest.fixture
def tmux(tmp_path: Path) -> Iterator[Tmux]:
    server = Tmux(tmp_path / "tmux.socket")
    yield server
    server.run("kill-server")


def test_the_job_of_a_killed_worker_is_put_back_by_two_keys_and_finished(tmux: Tmux, tmp_path: Path) -> None:
    spool = tmp_path / "jobs"
    with job_queue(spool, "worker-1") as worker:
        worker.ask("put", id="mail-17", payload={"delay": 600_000, "result": "sent"})
        worker.ask("work")
        worker.ask("wait", id="mail-17", event="begun")
        tmux.type(shlex.join([*SPOOLTOP, str(spool)]), "Enter")
        tmux.wait_for("1 claim of unknown holders")
        tmux.type("3")
        text = tmux.wait_for(lambda text: "mail-17" in text and f"pid {worker.pid} watches queue/" in text)
        assert "DEAD" not in text
        tmux.type("r")
        tmux.wait_for(lambda text: "Refused 1" in text and "nothing to do" in text)
        tmux.type("", "Escape")
        worker.kill()
    tmux.wait_for(lambda text: "DEAD" in text and "no process watches queue/, so no worker runs" in text)
    tmux.type("r")
    tmux.wait_for("y requeue 1")
    tmux.type("y")
    tmux.wait_for(lambda text: "done 1 · skipped 0" in text)
    assert [path.name.partition("-")[2] for path in (spool / "queue").iterdir()] == ["mail-17.msg"]
    assert (spool / "jobs" / "mail-17.state").read_text().startswith("queued:")
    tmux.type("", "Escape")
    with job_queue(spool, "worker-2", QUICK="1") as second:
        assert second.ask("put", id="mail-17")["status"] == "duplicate"
        second.ask("work")
        assert second.ask("wait", id="mail-17", event="completed")
        assert second.ask("result", id="mail-17") == "sent"
        assert second.ask("status", id="mail-17")["state"] == "completed"
        tmux.wait_for(lambda text: "Claims 0" in text and "new 0" in text)
    tmux.type("qq")
    tmux.wait_for("requeued 1; undo: spooltop undo")
