"""Consumers on the command line: rates of those that are watched, and what is left out."""

from __future__ import annotations

import json
from pathlib import Path

from spooltop.engine import Spool

from .streams import spooltop


def test_watching_gives_rates(tmp_path: Path) -> None:
    with Spool.create(tmp_path / "s", durable=False) as spool:
        spool.put(b"x")
        claim = spool.claim()
        assert claim is not None
        (line,) = spooltop("consumers", spool.path, "--json", "--watch", "2").out.splitlines()
        claim.ack()
    running = json.loads(line)
    assert (running["done_rate"], running["failed_rate"]) == (0.0, 0.0)
    assert running["cpu"] is not None and running["memory"] > 1_000_000 and running["window"] > 0
    none = spooltop("consumers", spool.path, "--verdict", "dead")
    assert (none.code, none.out) == (4, "") and none.err.endswith("no consumer is dead\n")
    (Path(spool.path) / "cur" / "nobody").touch()
    assert "1 claim names no consumer" in spooltop("consumers", spool.path).err
