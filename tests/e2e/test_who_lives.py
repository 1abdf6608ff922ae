"""A consumer that lives is never called dead: not from inside a container, not where its pid is hidden. One that is gone is."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from spooltop.engine import FileTicketQueue
from tests.needs import needs

from .consumers import Consumer
from .terminal import SPOOLTOP

pytestmark = pytest.mark.long

CONTAINER = ("unshare", "--pid", "--fork", "--mount-proc")
VOUCHED = (*CONTAINER, "env", "SPOOLTOP_CLAIMS_PIDS=this-host")
NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")

needs_root = needs("root")


def claims(spool: Path, inside: Sequence[str] = ()) -> list[dict[str, object]]:
    """The lines of ``ls --json --box cur``, asked from inside something."""
    completed = subprocess.run(
        [*inside, *SPOOLTOP, "ls", "--json", "--box", "cur", str(spool)], capture_output=True, text=True, check=False, timeout=60
    )
    assert completed.returncode in (0, 4), completed.stderr
    return [json.loads(line) for line in completed.stdout.splitlines()]


@contextmanager
def foreign_claim(spool: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A claim as other programs make it, ``:2,P<pid>``, by a process that lives."""
    with subprocess.Popen(["sleep", "1000"]) as process:
        message = next((spool / "new").iterdir())
        message.rename(spool / "cur" / f"1795220920443125.9155.vm:2,P{process.pid}")
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def server_away(folder: Path) -> Iterator[None]:
    """A process has a file of a FUSE file system open whose server takes every request and answers none. Whoever asks it can be
    ended by nobody, so the server is killed after half a minute, and then this fails."""
    mount = folder / "mount"
    mount.mkdir()
    command = [sys.executable, "-c", "import os, sys; os.open(sys.argv[1], 0); print(flush=True); sys.stdin.read()", str(mount)]
    with subprocess.Popen(
        ["unshare", "--mount", sys.executable, "-m", "tests.e2e.fusefs", str(folder), str(mount), *command],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as holder:  # fmt: skip
        assert holder.stdin is not None and holder.stdout is not None and holder.stdout.readline()
        (server,) = psutil.Process(holder.pid).children()
        server.send_signal(signal.SIGUSR1)
        end = threading.Timer(30, server.kill)
        end.start()
        try:
            yield
            assert end.is_alive(), "somebody waited for the server"
        finally:
            end.cancel()
            server.kill()
            holder.stdin.close()


@needs_root
def test_a_process_whose_files_are_on_a_server_that_is_away_stops_no_look(spool_path: Path, tmp_path: Path) -> None:
    away = tmp_path / "away"
    away.mkdir()
    with foreign_claim(spool_path), server_away(away):
        assert [claim["verdict"] for claim in claims(spool_path)] == ["alive"]
        name = next((spool_path / "cur").iterdir()).name
        shown = subprocess.run([*SPOOLTOP, "show", str(spool_path), name, "--who"], check=False, timeout=60)
    assert shown.returncode == 0


def open_to_all(spool: Path) -> None:
    for path in (spool, *spool.parents):
        if path.stat().st_uid == os.geteuid() and path != Path("/") and path != Path("/tmp"):
            path.chmod(path.stat().st_mode | 0o055)


@needs_root
def test_own_consumer_seen_from_here_by_another_user_and_from_inside_a_container(spool_path: Path) -> None:
    open_to_all(spool_path)
    consumer = Consumer.claim(spool_path)
    for inside, evidence in (((), "running"), (NOBODY, "running"), (CONTAINER, "held; holder not visible")):
        (claim,) = claims(spool_path, inside)
        assert (claim["verdict"], claim["evidence"]) == ("alive", evidence)
    consumer.kill()
    assert [claims(spool_path, inside)[0]["verdict"] for inside in ((), CONTAINER)] == ["dead"] * 2


@needs_root
def test_foreign_consumer_hidden_by_hidepid_or_a_container(spool_path: Path) -> None:
    script = f'mount -t proc -o hidepid=2 proc /proc && exec {" ".join(NOBODY)} "$@"'
    open_to_all(spool_path)
    with foreign_claim(spool_path) as process:
        (claim,) = claims(spool_path, CONTAINER)
        assert claim["verdict"] == "unknown" and str(process.pid) in str(claim["evidence"]), claim
        (claim,) = claims(spool_path, ("unshare", "--mount", "sh", "-c", script, "sh"))
        assert claim["verdict"] in ("alive", "unknown"), claim
    (claim,) = claims(spool_path)
    assert claim["verdict"] in ("dead", "unknown"), claim


def test_a_command_that_outlives_its_worker_is_named(spool_path: Path) -> None:
    """The number of the worker may be another's by now: only its command can be stopped."""
    pipe, command = spool_path / "pipe", spool_path / "slow.sh"
    os.mkfifo(pipe)
    command.write_text(f"#!/bin/sh\necho $$ > {pipe}\nread word < {pipe}\n")
    command.chmod(0o755)
    with subprocess.Popen([*SPOOLTOP, "work", str(spool_path), "--", str(command)]) as worker:
        pid = int(pipe.read_text())
        worker.kill()
    words = f"worker {worker.pid} has exited; its command {pid} (slow.sh) still runs and holds the claim; stop {pid}"
    (claim,) = claims(spool_path)
    assert (claim["verdict"], claim["evidence"]) == ("alive", words)
    assert isinstance(claim["owner"], dict) and claim["owner"]["pid"] == pid
    completed = subprocess.run([*SPOOLTOP, "show", str(spool_path), str(claim["id"])], capture_output=True, text=True, check=True)
    assert words in completed.stdout
    plan = [*SPOOLTOP, "requeue", str(spool_path), "ALL", "--dry-run"]
    assert words in subprocess.run(plan, capture_output=True, text=True, check=False).stdout
    os.kill(pid, signal.SIGKILL)
    while (claim := claims(spool_path)[0])["verdict"] == "alive":
        pass  # the kernel ends it as soon as it can
    assert claim["verdict"] == "dead"


@needs_root
def test_a_consumer_in_a_container_is_named_by_its_number_here(spool_path: Path) -> None:
    """Its number in there may be anybody's out here."""
    script = (
        "import os, sys; from spooltop.engine import Spool; s = Spool(sys.argv[1]); c = s.claim()\n"
        "print(os.getpid(), flush=True); sys.stdin.read(); c.ack()"
    )
    command = [*CONTAINER, sys.executable, "-c", script, str(spool_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as container:
        assert container.stdout is not None and container.stdout.readline() == "1\n"
        (claim,) = claims(spool_path)
        children = Path(f"/proc/{container.pid}/task/{container.pid}/children").read_text().split()
        container.communicate("")
    assert isinstance(claim["owner"], dict)
    assert (claim["verdict"], claim["evidence"], [str(claim["owner"]["pid"])]) == ("alive", "running", children)


@needs_root
def test_a_pid_that_is_gone_in_a_container_is_dead_where_that_is_vouched_for(spool_path: Path) -> None:
    with subprocess.Popen(["true"]) as gone:
        pass
    (spool_path / "cur" / f"m:2,P{gone.pid}").write_text("m")
    not_vouched, vouched = ("unknown", f"no pid {gone.pid} here"), ("dead", "exited; claims.pids is this-host")
    for inside, words in ((CONTAINER, not_vouched), (VOUCHED, vouched)):
        (claim,) = claims(spool_path, inside)
        assert (claim["verdict"], claim["evidence"]) == words
    requeue = [*SPOOLTOP, "requeue", str(spool_path), "--verdict", "dead", "--yes"]
    for inside, code in ((CONTAINER, 4), (VOUCHED, 0)):
        assert (spool_path / "cur" / f"m:2,P{gone.pid}").exists()
        assert subprocess.run([*inside, *requeue], capture_output=True, check=False).returncode == code
    assert (spool_path / "new" / "m").exists()


@needs_root
def test_the_ticket_of_a_process_that_a_container_does_not_see_stays(tmp_path: Path) -> None:
    queue = FileTicketQueue(tmp_path / "q")
    ticket, _ = queue.register()
    script = "import sys; from spooltop.engine import FileTicketQueue; FileTicketQueue(sys.argv[1]).cleanup_stale()"
    subprocess.run([*CONTAINER, sys.executable, "-c", script, str(tmp_path / "q")], check=True, timeout=60)
    assert queue.is_head(ticket)
