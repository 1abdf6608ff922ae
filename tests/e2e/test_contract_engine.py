"""The engine as another program's author reads its contract: nothing here looks further than the public names and the disk."""

from __future__ import annotations

import gc
import inspect
import os
import time
from pathlib import Path

import pytest

from spooltop import open_queue
from spooltop.engine import Claim, Spool
from spooltop.model.queue import Guarantee


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


def test_a_promise_that_was_given_up_is_no_guarantee(path: Path) -> None:
    Spool.create(path).close()
    with open_queue(str(path), durable=False) as queue, Spool(path, key_window=60.0) as windowed:
        assert frozenset(Guarantee) - queue.guarantees == {Guarantee.DURABLE}
        assert frozenset(Guarantee) - windowed.guarantees == {Guarantee.KEY_FOREVER}
