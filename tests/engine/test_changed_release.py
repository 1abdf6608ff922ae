"""A release that changes the content of its message. That it is cut off, or fails, at each call is in ``tests.matrix``."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from spooltop.engine import Spool
from spooltop.errors import ClaimLost, Refused
from tests.engine.helpers import Interposed

DATA = b"whole " * 1000
CHANGED = b"what is left " * 1000


def prepared(path: Path) -> None:
    with Spool.create(path, False) as spool:
        spool.put(DATA, id="here")


def consumed(path: Path) -> list[tuple[str, bytes]]:
    """Acks all messages; returns the (id, data) of each."""
    got = []
    with Spool(path, False) as spool:
        for held in spool.claims():
            got.append((held.id, held.data))
            held.ack()
    return got


def test_a_changed_release_where_files_cannot_be_swapped_is_refused_and_changes_nothing(memory: Path) -> None:
    def before(_number: int, name: str) -> None:
        if name == "swap":
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    prepared(memory)
    with Spool(memory, False, files=Interposed(before)) as spool:
        held = spool.claim()
        assert held is not None
        with pytest.raises(Refused, match="cannot swap two files in one step, which changed content needs; put the new content"):
            held.release(data=CHANGED)
        assert held.data == DATA and os.listdir(memory / "tmp") == []
        held.release()
    assert consumed(memory) == [("here", DATA)]


@pytest.mark.parametrize("operation", ["create", "swap"])
def test_a_changed_release_of_a_claim_that_was_taken_away_is_lost_and_changes_nothing(memory: Path, operation: str) -> None:
    def before(_number: int, name: str) -> None:
        if name == operation and not taken:
            taken.append(held.name)
            os.rename(memory / "cur" / held.name, memory / "new" / held.base)  # by an operator, with force

    taken: list[str] = ["not yet"]
    prepared(memory)
    with Spool(memory, False, files=Interposed(before)) as spool:
        held = spool.claim()
        assert held is not None
        taken.clear()
        with pytest.raises(ClaimLost):
            held.release(data=CHANGED)
    assert os.listdir(memory / "tmp") == []
    assert consumed(memory) == [("here", DATA)]


def test_a_changed_release_keeps_age_source_and_place_and_takes_files_and_what_is_empty(memory: Path) -> None:
    with Spool.create(memory, False) as spool:
        (memory / "new/foreign").write_bytes(b"old")
        os.utime(memory / "new/foreign", (1_700_000_000, 1_700_000_000))
        spool.put(b"second", source="s")
        for expected in (b"old", b"from a file"):
            held = spool.claim()
            assert held is not None and (held.id, held.data) == ("foreign", expected)
            with open(memory / "file", "w+b") as file:
                file.write(b"from a file")
                file.seek(0)
                held.release(data=file)
            assert (memory / "new/foreign").stat().st_mtime == 1_700_000_000
        (memory / "new/foreign").unlink()
        held = spool.claim()
        assert held is not None and held.source == "s"
        held.release(data=b"")
        held = spool.claim()
        assert held is not None and (held.source, held.data, held.attempt) == ("s", b"", 2)
        held.ack()


def test_at_the_limit_of_attempts_a_changed_release_rejects_what_was_changed(memory: Path) -> None:
    with Spool.create(memory, False, max_attempts=1) as spool:
        spool.put(DATA)
        held = spool.claim()
        assert held is not None
        held.release(data=CHANGED)
        [path] = [path for path in (memory / ".spooltop/rejected").glob("*/*") if not path.name.startswith(".")]
        assert path.read_bytes() == CHANGED
