"""A consumer that lives is never called dead: not from inside a container, not where its pid is hidden. One that is gone is."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from .consumers import Consumer
from .terminal import SPOOLTOP

CONTAINER = ("unshare", "--pid", "--fork", "--mount-proc")
NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="namespaces and other users need root")


def claims(spool: Path, inside: Sequence[str] = ()) -> list[dict[str, object]]:
    """The lines of ``ls --json --box cur``, asked from inside something."""
    told = subprocess.run(
        [*inside, *SPOOLTOP, "ls", "--json", "--box", "cur", str(spool)], capture_output=True, text=True, check=False, timeout=60
    )
    assert told.returncode in (0, 4), told.stderr
    return [json.loads(line) for line in told.stdout.splitlines()]


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


def test_own_consumer_alive_then_dead(spool_path: Path) -> None:
    consumer = Consumer.claim(spool_path)
    assert [claim["verdict"] for claim in claims(spool_path)] == ["alive"]
    consumer.kill()
    assert [claim["verdict"] for claim in claims(spool_path)] == ["dead"]


@needs_root
def test_own_consumer_seen_from_inside_a_container(spool_path: Path) -> None:
    consumer = Consumer.claim(spool_path)
    assert [claim["verdict"] for claim in claims(spool_path, CONTAINER)] == ["alive"]
    consumer.kill()
    assert [claim["verdict"] for claim in claims(spool_path, CONTAINER)] == ["dead"]


@needs_root
def test_foreign_consumer_whose_pid_a_container_does_not_show(spool_path: Path) -> None:
    with foreign_claim(spool_path) as process:
        (claim,) = claims(spool_path, CONTAINER)
        assert claim["verdict"] == "unknown", claim
        assert str(process.pid) in str(claim["evidence"])


@needs_root
def test_foreign_consumer_hidden_by_hidepid(spool_path: Path) -> None:
    script = f'mount -t proc -o hidepid=2 proc /proc && exec {" ".join(NOBODY)} "$@"'
    for path in (spool_path, *spool_path.parents):
        if path.stat().st_uid == os.geteuid() and path != Path("/") and path != Path("/tmp"):
            path.chmod(path.stat().st_mode | 0o055)
    with foreign_claim(spool_path):
        (claim,) = claims(spool_path, ("unshare", "--mount", "sh", "-c", script, "sh"))
        assert claim["verdict"] in ("alive", "unknown"), claim
    (claim,) = claims(spool_path)
    assert claim["verdict"] in ("dead", "unknown"), claim
