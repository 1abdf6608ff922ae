"""A release that changes the content of its message. That it is cut off, or fails, at each call is in ``tests.matrix``."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from spooltop.engine import Claim, Spool
from spooltop.errors import ClaimLost, Refused
from tests.engine.helpers import claimed, failing, meanwhile

DATA, CHANGED = b"whole " * 1000, b"what is left " * 1000


def test_a_changed_release_where_files_cannot_be_swapped_is_refused_and_changes_nothing(memory: Path) -> None:
    with Spool.create(memory, False, files=failing("swap", errno.EINVAL)) as spool:
        spool.put(DATA)
        claim = claimed(spool)
        with pytest.raises(Refused, match="cannot swap two files in one step, which changed content needs; put the new content"):
            claim.release(data=CHANGED)
        assert claim.data == DATA and os.listdir(memory / "tmp") == []
        claim.ack()


@pytest.mark.parametrize("operation", ["create", "swap"])
def test_a_changed_release_of_a_claim_that_was_taken_away_is_lost_and_changes_nothing(memory: Path, operation: str) -> None:
    claims: list[Claim] = []

    def take_away() -> None:
        """As an operator, with force."""
        os.rename(memory / "cur" / claims[0].name, memory / "new" / claims[0].base)

    files = meanwhile(operation, take_away)
    files.armed = False
    with Spool.create(memory, False, files=files) as spool:
        spool.put(DATA)
        claims.append(claimed(spool))
        files.armed = True
        with pytest.raises(ClaimLost):
            claims[0].release(data=CHANGED)
        with claimed(spool) as again:
            assert again.data == DATA and os.listdir(memory / "tmp") == []


def test_a_changed_release_keeps_age_source_and_place_and_takes_files_and_what_is_empty(memory: Path) -> None:
    with Spool.create(memory, False) as spool:
        (memory / "new/foreign").write_bytes(b"old")
        os.utime(memory / "new/foreign", (1_700_000_000, 1_700_000_000))
        spool.put(b"second", source="s")
        for expected in (b"old", b"from a file"):
            claim = claimed(spool)
            assert (claim.id, claim.data) == ("foreign", expected)
            with open(memory / "file", "w+b") as file:
                file.write(b"from a file")
                file.seek(0)
                claim.release(data=file)
            assert (memory / "new/foreign").stat().st_mtime == 1_700_000_000
        (memory / "new/foreign").unlink()
        claimed(spool).release(data=b"")
        with claimed(spool) as claim:
            assert (claim.source, claim.data, claim.attempt) == ("s", b"", 2)


def test_at_the_limit_of_attempts_a_changed_release_rejects_what_was_changed(memory: Path) -> None:
    with Spool.create(memory, False, max_attempts=1) as spool:
        spool.put(DATA)
        claimed(spool).release(data=CHANGED)
        [path] = (memory / ".spooltop/rejected").glob("*/[!.]*")
        assert path.read_bytes() == CHANGED
