"""A worker on a spool that is paused and resumed, each a process of its own."""

from __future__ import annotations

import json
import os
from pathlib import Path

from spooltop.engine import Spool

from ..cli.streams import finish, start


def test_a_worker_takes_nothing_while_the_spool_is_paused_and_all_of_it_afterwards(tmp_path: Path) -> None:
    path = str(tmp_path / "spool")
    with Spool.create(path, durable=False) as spool, start("work", path, "--", "sh", "-c", "cat") as worker:
        assert worker.stdout is not None and worker.stderr is not None
        try:
            spool.put(b"before\n")
            assert worker.stdout.readline() == b"before\n"
            assert b" done after " in worker.stderr.readline()
            done = finish(["pause", path, "--yes", "--reason", "a schema change"])
            assert done.code == 0 and "1 spooltop consumer" in done.out, done.err
            said = worker.stderr.readline().decode()  # from now on it knows
            assert "is paused by " in said and "a schema change; waiting for spooltop resume" in said
            ids = spool.put_many([b"1\n", b"2\n"])
            status = json.loads(finish(["status", path, "--json"]).out)
            assert status["paused"]["reason"] == "a schema change" and status["boxes"]["new"]["count"] == 2
            assert status["boxes"]["cur"]["count"] == 0
            assert finish(["resume", path, "--yes"]).code == 0
            assert [worker.stdout.readline() for _ in ids] == [b"1\n", b"2\n"]
        finally:
            worker.terminate()
            worker.communicate()  # its last lines need a reader
    assert worker.returncode == 0 and os.listdir(f"{path}/new") == os.listdir(f"{path}/cur") == []
