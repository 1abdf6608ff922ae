"""The engine at its edges: clocks that stand, wrong answers of servers, forged records, second names, interference."""

from __future__ import annotations

import errno
import json
import os
from hashlib import sha256
from pathlib import Path

import pytest

from spooltop.engine import Spool
from spooltop.errors import ClaimLost, SpooltopError
from tests.clock import NOW, Clock
from tests.engine.helpers import Files, Interposed, claimed, die_holding, in_child, meanwhile, names_in, places


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "spool"


def test_with_a_clock_that_stands_an_old_claim_does_not_end_the_new_one(path: Path, clock: Clock) -> None:
    with Spool.create(path, False, clock=clock) as spool:
        (path / "new/order-17").write_text("m")  # a name of its own that comes back as it was
        old = claimed(spool)
        os.rename(path / "cur" / old.name, path / "new/order-17")  # an operator's requeue, by force
        new = claimed(spool)
        assert new.name > old.name
        for end in (old.ack, old.release, lambda: old.reject("late")):
            with pytest.raises(ClaimLost):
                end()
        assert names_in(path / "cur") == [new.name]
        new.ack()


class Server(Files):
    """The next rename reports an error: ``done`` all the same or not; ``blind``: nor can the next name be looked at."""

    armed = False

    def __init__(self, done: bool, code: int, blind: bool) -> None:
        super().__init__()
        self.done, self.code, self.blind, self.looks = done, code, blind, 0

    def rename(self, name: str, dir_fd: int, to: str, to_fd: int) -> None:
        if self.done or not self.armed:
            super().rename(name, dir_fd, to, to_fd)
        if self.armed:
            self.armed, self.looks = False, int(self.blind)
            raise OSError(self.code, os.strerror(self.code), name)

    def stat(self, name: str, dir_fd: int) -> os.stat_result:
        if self.looks:
            self.looks -= 1
            raise OSError(errno.EIO, os.strerror(errno.EIO), name)
        return super().stat(name, dir_fd)


@pytest.mark.parametrize(
    ("done", "code", "blind"),
    [
        (True, errno.EIO, False), (True, errno.ENOENT, False), (False, errno.EIO, False),
        (True, errno.EIO, True), (True, errno.ENOENT, True), (False, errno.EIO, True), (False, errno.ENOENT, True),
    ],
)  # fmt: skip
def test_a_claim_that_a_server_answers_wrongly_is_made_or_comes_again(path: Path, done: bool, code: int, blind: bool) -> None:
    """Nobody puts back what a living process holds: it would stand in cur until the process ends."""
    files = Server(done, code, blind)
    with Spool.create(path, False, files=files) as spool:
        spool.put(b"one")
        os.utime(path / "new", (1, 1))  # long ago, so that it is not listed again
        spool.peek()
        spool.presence_fd()
        files.armed = True
        if blind or not done:
            with pytest.raises(SpooltopError, match="claim"):
                spool.claim()
        claim = claimed(spool)
        assert names_in(path / "cur") == [claim.name] and claim.attempt == 1
        claim.ack()
        assert names_in(path / "cur") == names_in(path / "new") == []


def test_a_time_in_the_future_keeps_no_foreign_message_last(path: Path) -> None:
    """It stands by when it was first seen, or messages that come later would go before it for ever."""
    now = [NOW + 0.5]
    with Spool.create(path, False, clock=lambda: now[0]) as spool:
        later = spool.put(b"")
        (path / "new/foreign").touch()
        os.utime(path / "new/foreign", (NOW + 9_000, NOW + 9_000))
        now[0] = NOW
        claims = [claimed(spool), claimed(spool)]
        assert [claim.id for claim in claims] == ["foreign", later]
        spool.ack_many(claims)


def test_a_message_is_given_out_at_the_very_instant_before_which_it_waits(path: Path, clock: Clock) -> None:
    with Spool.create(path, False, clock=clock) as spool:
        at = clock.now + 60
        id = spool.put(b"x", not_before=at)
        clock.now = at - 1e-3
        assert spool.claim() is None
        clock.now = at
        with claimed(spool) as claim:
            assert claim.id == id


def test_a_delay_of_a_foreign_message_is_kept_by_the_process_that_gave_it_back(path: Path, clock: Clock) -> None:
    with Spool.create(path, False, clock=clock) as spool:
        (path / "new/report: [x].txt").write_bytes(b"x")
        claimed(spool).release(delay=30)
        assert spool.claim() is None and names_in(path / "new") == ["report: [x].txt"]
        clock.advance(29)
        assert spool.claim() is None
        clock.advance(1.001)
        with claimed(spool) as again:
            assert (again.id, again.attempt) == ("report: [x].txt", 2)


# Keys


def test_a_key_counts_for_its_window_and_no_longer(path: Path, clock: Clock) -> None:
    with Spool.create(path, False, clock=clock, key_window=100) as spool:
        first = spool.put(b"x", key="k")
        clock.advance(99)
        assert spool.put(b"x", key="k") == first and spool.depth() == 1
        clock.advance(2)
        second = spool.put(b"x", key="k")
        assert second != first and spool.depth() == 2
        assert spool.put(b"x", key="k") == second and spool.depth() == 2  # and that is a record again


@pytest.mark.parametrize("name", ["../victim", "/etc/passwd", ".hidden", "", "a/b", 7, None])
def test_a_forged_record_of_a_key_leads_nowhere(path: Path, clock: Clock, name: object) -> None:
    with Spool.create(path, False, clock=clock) as spool:
        spool.put(b"first", key="other")
        for victim in ("victim", "tmp/.hidden"):
            (path / victim).write_text("stays")
        (path / ".spooltop/keys" / sha256(b"k").hexdigest()).write_text(json.dumps({"name": name, "at": clock.now}))
        for _ in range(2):
            spool.put(b"second", key="k")
            assert sorted(file.read_bytes() for file in (path / "new").iterdir()) == [b"first", b"second"]
        assert (path / "victim").read_text() == (path / "tmp/.hidden").read_text() == "stays"


@pytest.mark.parametrize(
    "record", [b'{"name":"\xff\xfe","at":1}', b'{"name":"a\\u0000b","at":1}', b'{"name":"a","at":1e300}', b"["]
)
def test_a_record_of_a_key_that_is_of_no_use_is_removed_in_any_put(path: Path, clock: Clock, record: bytes) -> None:
    with Spool.create(path, False, clock=clock, key_window=2400) as spool:
        spool.put(b"first", key="other")
        for key in (b"k", b"never put"):
            (path / ".spooltop/keys" / sha256(key).hexdigest()).write_bytes(record)
        assert not spool.was_put(key="k")
        clock.advance(200)  # the records of all keys are looked at
        spool.put(b"second", key="k")
        assert spool.depth() == 2 and not any((path / "tmp").iterdir())
        assert len([name for name in names_in(path / ".spooltop/keys") if not name.startswith(".")]) == 2


# Recover


def test_recover_says_how_the_attempt_ended_and_why_it_rejects(path: Path) -> None:
    with Spool.create(path, False, max_attempts=2) as spool:
        ids = [spool.put(data) for data in (b"poison", b"2")]
        die_holding(path, 2)
        assert spool.recover() == ids and names_in(path / "new") == [f"{id},n=1,e=died" for id in ids]
        die_holding(path)
        assert spool.recover() == [] and spool.depth() == 1
    (kept,) = (path / ".spooltop/rejected").glob("*/[!.]*")
    metadata = json.loads(next(kept.parent.glob(".*.meta")).read_text())
    assert (kept.read_bytes(), metadata["origin"], metadata["attempt"]) == (b"poison", "cur", 2)


# Second names: interrupted moves, and backups by cp -al


@pytest.mark.parametrize(
    ("another", "goes_back"), [("", True), (".spooltop/rejected/op/order-17", True), ("new/order-17", False)]
)
def test_only_one_inode_tells_that_a_move_was_interrupted(path: Path, tmp_path: Path, another: str, goes_back: bool) -> None:
    """What was set aside under the same id is another message; where it is in new, neither of two files is a half move."""
    with Spool.create(path, False) as spool:
        (path / "new/order-17").write_text("mine")
        die_holding(path)
        (name,) = names_in(path / "cur")
        os.link(path / "cur" / name, tmp_path / "backup")
        if another:
            (path / another).parent.mkdir(parents=True, exist_ok=True)
            (path / another).write_text("another")
        assert spool.recover() == ["order-17"] * goes_back
        stands = path / ("new/order-17" if goes_back else f"cur/{name}")
        assert stands.read_text() == (tmp_path / "backup").read_text() == "mine"
        assert not another or (path / another).read_text() == "another"


def test_recover_takes_away_the_name_in_tmp_of_what_is_delivered_and_no_other(path: Path, tmp_path: Path) -> None:
    with Spool.create(path, False) as spool:
        waiting, second = spool.put(b"waiting"), spool.put(b"claimed")
        os.link(path / "new" / waiting, path / "tmp" / waiting)
        (path / "tmp/being written").write_text("x")
        os.link(path / "tmp/being written", tmp_path / "elsewhere")
        (path / "tmp/order-17").write_text("half")
        os.link(path / "tmp/order-17", tmp_path / "backup")
        (path / "new/order-17").write_text("another")
        spool.recover()
        assert names_in(path / "tmp") == ["being written", "order-17"] and (path / "new" / waiting).stat().st_nlink == 1
        claims = list(spool.claims())
        os.link(path / "cur" / claims[1].name, path / "tmp" / second)
        spool.recover()
        assert names_in(path / "tmp") == ["being written", "order-17"]
        assert all(len(names) == 1 for names in places(path).values())
        spool.ack_many(claims)


# Interference by somebody else between two calls of one step


def test_an_expired_key_that_another_process_renews_before_it_is_locked_is_theirs(tmp_path: Path, clock: Clock) -> None:
    records: list[Path] = []
    files = meanwhile("lock_write", lambda: records[0].write_text(json.dumps({"name": "renewed,n=0", "at": clock()})))
    files.armed = False
    with Spool.create(tmp_path, False, key_window=60, clock=clock, files=files) as spool:
        spool.put(b"", key="k")
        records.extend((tmp_path / ".spooltop/keys").glob("[!.]*"))
        clock.advance(61)
        files.armed = True
        assert spool.put(b"", key="k") == "renewed" and "renewed" in records[0].read_text() and spool.depth() == 1


@pytest.mark.parametrize(("source", "to"), [("cur", "new"), ("new", "cur")])
def test_a_message_that_moves_while_it_is_looked_for_is_not_put_again(tmp_path: Path, source: str, to: str) -> None:
    def before(_number: int, name: str) -> None:
        if name == "list" and files.calls.count("list") == 2:
            (tmp_path / source / "order-17,n=0").rename(tmp_path / to / "order-17,n=1")

    files = Interposed(before)
    with Spool.create(tmp_path, False, files=files) as spool:
        (tmp_path / source / "order-17,n=0").touch()
        files.calls.clear()
        assert spool.put(b"", id="order-17").duplicate
    assert len([*(tmp_path / "new").iterdir(), *(tmp_path / "cur").iterdir()]) == 1


@pytest.mark.filterwarnings("ignore:claim on:ResourceWarning")
def test_another_file_under_the_name_is_no_sign_that_a_failed_move_was_done(tmp_path: Path) -> None:
    def replace() -> None:
        (tmp_path / "new/order,n=1").write_bytes(b"another")
        (tmp_path / "cur" / claim.name).unlink()
        raise OSError(errno.EIO, "I/O error")

    files = meanwhile("rename_noreplace", replace)
    files.armed = False
    with Spool.create(tmp_path, False, files=files) as spool:
        spool.put(b"", id="order")
        claim = claimed(spool)
        files.armed = True
        with pytest.raises(SpooltopError, match="release: Input/output error"):
            claim.release()
        claim.end()


def test_a_child_takes_no_claim_that_its_parent_may_hold(path: Path) -> None:
    files = Server(True, errno.EIO, True)
    with Spool.create(path, False, files=files) as spool:
        spool.put_many([b"one", b"two"])
        spool.presence_fd()
        files.armed = True
        with pytest.raises(SpooltopError, match="claim"):
            spool.claim()

        def child() -> None:
            claim = claimed(spool)
            assert claim.data == b"two" and spool.claim() is None

        assert in_child(child) == 0
        with claimed(spool) as claim:
            assert claim.data == b"one"
