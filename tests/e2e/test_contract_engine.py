"""The engine as another program's author reads its contract: nothing here looks further than the public names and the disk."""

from __future__ import annotations

import gc
import inspect
import json
import os
import re
import time
from pathlib import Path

import pytest

from spooltop.engine import Claim, Spool

CLAIM = re.compile(r"(?P<new>.+),c=(?P<token>[0-9a-f]{32})\.(?P<us>\d+):2,P(?P<pid>\d+)\Z", re.DOTALL)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "spool"


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def parameters(function: object) -> dict[str, object]:
    """Names and defaults of the parameters that the contract names."""
    promised = ("data", "source", "id", "key", "durable", "timeout", "delay", "reason")
    given = inspect.signature(function).parameters.items()  # type: ignore[arg-type]
    return {name: None if value.default is value.empty else value.default for name, value in given if name in promised}


def test_signatures_are_as_promised() -> None:
    assert parameters(Spool.put) == dict.fromkeys(("data", "source", "id", "key", "durable"))
    assert parameters(Spool.put_many) == dict.fromkeys(("source", "durable"))
    assert (parameters(Spool.claim), parameters(Spool.create)) == ({"timeout": 0}, {"durable": True})
    assert (parameters(Claim.release)["delay"], "reason" in parameters(Claim.reject)) == (0, True)
    assert "timeout" in parameters(Spool.claims)


def test_a_claim_is_named_and_backed_by_a_presence_file(path: Path) -> None:
    with Spool.create(path) as spool:
        before = int(time.time() * 1e6)
        id = spool.put(b"x", source="email")
        assert re.fullmatch(rf"\d{{16}}\.P{os.getpid()}R[0-9a-f]{{16}}\.[^,:/]+", id) and before <= int(id[:16])
        claim = spool.claim()
        assert claim is not None
        (name,) = names(path / "cur")
        found = CLAIM.match(name)
        assert found and found["new"] == f"{id},s=email" and int(found["pid"]) == os.getpid()
        assert before <= int(found["us"]) <= time.time() * 1e6
        presence = path / ".spooltop" / "consumers" / found["token"]
        (line,) = presence.read_text().splitlines()
        content = json.loads(line)
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        assert content["pid"] == os.getpid() and {boot, os.uname().nodename} <= {*map(str, content.values())}
        assert any(str(os.stat("/proc/self/ns/pid").st_ino) in str(value) for value in content.values())
        claim.ack()
    assert not presence.exists()


def test_a_claim_outlives_the_name_of_its_spool(path: Path) -> None:
    """A program that keeps the claim and not the spool still holds it: nobody else gets the message meanwhile."""
    with Spool.create(path) as other:
        id = other.put(b"x")
        claim = Spool(path).claim()
        assert claim is not None
        gc.collect()
        assert other.claim() is None and other.depth() == 0
        assert claim.data == b"x" and claim.id == id
        claim.ack()
        assert names(path / "cur") == []


def test_a_key_is_remembered_however_long_ago(path: Path) -> None:
    with Spool.create(path) as spool:
        id = spool.put(b"x", key="k")
    with Spool(path, clock=lambda: time.time() + 10 * 366 * 86400) as later:
        later.put(b"z", key="another")
        assert later.put(b"y", key="k") == id and later.depth() == 2
