"""Processes that have a file open or locked: real processes, real descriptors, real locks."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from spooltop.engine import CursorFile, Spool
from spooltop.errors import Unreadable
from spooltop.model.backend import ListQuery
from spooltop.model.vocabulary import Box, Holders
from tests.builders import SpoolWorld, message_id
from tests.needs import needs

from .conftest import Opened
from .lock_holders import holder, opener

needs_root = needs("root")


def how(found: Holders) -> set[tuple[int | None, str]]:
    return {(one.pid, one.how) for one in found.processes}


@needs_root
@pytest.mark.parametrize("box", [Box.TMP, Box.NEW, Box.CUR, Box.REJECTED])
def test_of_a_message_in_any_box(memory: Path, opened: Opened, box: Box) -> None:
    with SpoolWorld(memory) as world:
        name = world.put_aside(box, message_id(1)) if box is Box.REJECTED else world.put(message_id(1), box=box)
        (path,) = world.path.rglob(name)
        control = opened(world.path)
        control.look()
        (row,) = control.listing(ListQuery(box)).window(0, 1)
        assert control.holders(row.key).processes == ()
        for modes, words in (("r", "reading"), ("w", "writing"), ("ra", "writing"), ("rr", "reading")):
            with opener(path, modes) as pid:
                found = control.holders(row.key)
            assert how(found) == {(pid, f"open for {words}")}
        assert (found.processes[0].user, found.complete, found.notes) == ("root", True, ())
        assert (found.path, found.processes[0].command is None) == (f"{box}/{name}", False)


def test_of_a_claim_its_consumer(spool: Path, opened: Opened) -> None:
    with Spool(spool) as consumer:
        consumer.put(b"x")
        claim = consumer.claim()
        assert claim is not None
        control = opened(spool)
        (row,) = control.look().observation.claims
        found = control.holders(row.key)
        claim.ack()
    claims = [one for one in found.processes if one.how == "holds the claim"]
    assert [(one.pid, one.of) for one in claims] == [(os.getpid(), "its holder's presence file")]
    assert claims[0].since == row.in_box_since  # as the name of the claim tells; of the others nobody knows
    assert {one.since for one in found.processes if one not in claims} <= {None}


@pytest.mark.parametrize("kind", ["flock", "posix", "ofd"])
def test_of_a_lock_who_holds_and_who_waits(spool: Path, opened: Opened, kind: str) -> None:
    path = spool / "x.lock"
    with holder(kind, path) as pid:
        control = opened(spool)
        (lock,) = control.look().observation.locks
        assert {(pid, f"{kind}, holds"), (pid, "open for writing")} <= how(control.holders(lock.path))
        if kind == "flock":
            with holder("wait", path) as waiter:
                seen = set[tuple[int | None, str]]()
                while (waiter, "flock, waits") not in seen:  # it said so just before it began to wait
                    seen = how(control.holders(lock.path))
                assert (pid, "flock, holds") in seen


def test_of_a_cursor_file_and_the_lock_beside_it(spool: Path, opened: Opened) -> None:
    file = spool.parent / "cursors.json"
    CursorFile(file).advance("imessage", 5)
    (spool.parent / "cursors").mkdir()
    CursorFile(spool.parent / "cursors" / "teams.json").advance("teams", 5)
    control = opened(spool)
    shared, own = control.look().observation.cursors
    with holder("flock", spool.parent / ".cursors.lock") as pid, opener(file, "r") as reads:
        assert [one.pid for one in opened(spool).look().observation.cursors[0].lock_holders] == [pid]
        found = control.holders(shared.path)
        assert how(found) == {(pid, "flock, holds"), (reads, "open for reading")}
        assert [one.of for one in found.processes if one.pid == pid] == [".cursors.lock"]
        assert control.holders(own.path).processes == ()


@pytest.mark.parametrize(
    "key",
    ["/etc/passwd", "", "..", "x/../../etc", ("cur", "../../etc/passwd"), ("new", ".."), ("new", "gone"), 5, ("nobox", "x")],
)
def test_nothing_but_what_is_of_this_target_and_no_link_is_followed(spool: Path, opened: Opened, key: object) -> None:
    real = spool.parent / "real"
    real.touch()
    (spool / "x.lock").symlink_to(real)
    control = opened(spool)
    control.look()
    with opener(real, "w"):
        assert control.holders(str(spool / "x.lock")).processes == ()
        with pytest.raises(Unreadable):
            control.holders(key)


@needs_root
def test_what_another_user_cannot_see_is_said(spool: Path, opened: Opened) -> None:
    (spool / "new" / "m").write_bytes(b"x")
    control = opened(spool)
    control.look()
    with opener(spool / "new" / "m", "w"):
        try:
            os.seteuid(65534)
            found = control.holders(("new", "m"))
        finally:
            os.seteuid(0)
    assert (found.processes, found.complete) == ((), False)
    assert found.notes == ("open files of other users' processes are not visible: you are nobody",)
