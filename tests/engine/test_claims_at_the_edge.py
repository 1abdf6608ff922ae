"""Claims where the clock stands, where a server answers wrongly, and where files have names outside the spool."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spooltop.engine import Spool
from spooltop.engine.consuming.claim import Claim
from spooltop.engine.system.files import Files
from spooltop.errors import ClaimLost, SpooltopError
from tests.clock import NOW
from tests.engine.helpers import in_child


def names(path: Path) -> list[str]:
    return sorted(os.listdir(path))


def test_with_a_clock_that_stands_an_old_claim_does_not_end_the_new_one(tmp_path: Path) -> None:
    with Spool.create(tmp_path, False, clock=lambda: NOW) as spool:
        (tmp_path / "new" / "order-17").write_text("m")  # a name of its own that comes back as it was
        old = spool.claim()
        assert old is not None
        os.rename(tmp_path / "cur" / old.name, tmp_path / "new" / "order-17")  # an operator's requeue, by force
        new = spool.claim()
        assert new is not None and new.name != old.name
        for end in (old.ack, old.release, lambda: old.reject("late")):
            with pytest.raises(ClaimLost):
                end()
        assert names(tmp_path / "cur") == [new.name]
        new.ack()
        assert names(tmp_path / "cur") == []


class Server(Files):
    """The next rename reports an error: ``done`` all the same or not; and for so many times no name can be looked at."""

    def __init__(self, *, done: bool, code: int = errno.EIO, blind: int = 0) -> None:
        super().__init__()
        self.done, self.code, self.blind, self.armed = done, code, blind, False

    def rename(self, name: str, dir_fd: int, to: str, to_fd: int) -> None:
        if not self.armed:
            return super().rename(name, dir_fd, to, to_fd)
        self.armed = False
        self.looks = self.blind
        if self.done:
            super().rename(name, dir_fd, to, to_fd)
        raise OSError(self.code, os.strerror(self.code), name)

    looks = 0

    def stat(self, name: str, dir_fd: int) -> os.stat_result:
        if self.looks:
            self.looks -= 1
            raise OSError(errno.EIO, os.strerror(errno.EIO), name)
        return super().stat(name, dir_fd)


def served(path: Path, files: Server) -> Spool:
    spool = Spool.create(path, False, files=files)
    spool.put(b"one")
    os.utime(path / "new", (1, 1))  # long ago, so that it is not listed again
    spool.peek()
    spool.presence_fd()
    files.armed = True
    return spool


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOENT])
def test_a_claim_that_was_made_is_one_whatever_the_server_says(tmp_path: Path, code: int) -> None:
    with served(tmp_path, Server(done=True, code=code)) as spool:
        claim = spool.claim()
        assert claim is not None and names(tmp_path / "cur") == [claim.name]
        claim.ack()


def test_a_claim_that_was_not_made_is_told_and_comes_again(tmp_path: Path) -> None:
    with served(tmp_path, Server(done=False)) as spool:
        with pytest.raises(SpooltopError, match="claim: Input/output error"):
            spool.claim()
        assert names(tmp_path / "cur") == []
        with spool.claim() as claim:  # type: ignore[union-attr]
            assert claim.attempt == 1


def test_a_lost_race_is_no_error(spool: Spool) -> None:
    ids = [spool.put(b"one"), spool.put(b"two")]
    assert spool.peek() == ids[0]
    os.unlink(os.path.join(spool.path, "new", ids[0]))
    with spool.claim() as claim:  # type: ignore[union-attr]
        assert claim.id == ids[1]


@pytest.mark.parametrize("done", [True, False])
@pytest.mark.parametrize("code", [errno.EIO, errno.ENOENT])
def test_a_claim_of_which_nobody_could_tell_is_asked_for_again(tmp_path: Path, done: bool, code: int) -> None:
    """Nobody puts back what a living process holds: it would stand in cur until the process ends."""
    with served(tmp_path, Server(done=done, code=code, blind=1)) as spool:
        with pytest.raises(SpooltopError, match="claim"):
            spool.claim()
        with spool.claim() as claim:  # type: ignore[union-attr]
            assert names(tmp_path / "cur") == [claim.name]
        assert names(tmp_path / "cur") == names(tmp_path / "new") == []


@pytest.mark.parametrize("interrupted", [KeyboardInterrupt, SystemExit])
def test_an_interrupted_program_gives_its_message_back_at_once(spool: Spool, interrupted: type[BaseException]) -> None:
    spool.put(b"")
    with pytest.raises(interrupted), spool.claim():  # type: ignore[union-attr]
        raise interrupted
    with spool.claim() as again:  # type: ignore[union-attr]
        assert again.attempt == 2


def test_a_handler_that_fails_has_its_message_wait(spool: Spool) -> None:
    spool.put(b"")
    with pytest.raises(ValueError, match="bad"), spool.claim():  # type: ignore[union-attr]
        raise ValueError("bad")
    assert spool.claim() is None and spool.depth() == 1


def test_a_time_in_the_future_keeps_no_foreign_message_last(tmp_path: Path) -> None:
    """It stands by when it was first seen, or messages that come later would go before it for ever."""
    now = [NOW + 0.5]
    with Spool.create(tmp_path, False, clock=lambda: now[0]) as spool:
        later = spool.put(b"")
        (tmp_path / "new" / "foreign").touch()
        os.utime(tmp_path / "new" / "foreign", (NOW + 9_000, NOW + 9_000))
        now[0] = NOW
        claims = [spool.claim(), spool.claim()]
        assert [claim and claim.id for claim in claims] == ["foreign", later]
        spool.ack_many([claim for claim in claims if claim is not None])


# Second names outside the spool: a backup by cp -al


def died(path: Path, act: Callable[[Spool], Any]) -> None:
    """``act`` in a child that then is killed."""

    def work() -> None:
        kept = act(Spool(path, False))
        assert kept is not None
        os.kill(os.getpid(), signal.SIGKILL)

    assert in_child(work) == signal.SIGKILL


def test_a_dead_claim_with_a_backup_goes_back_and_the_backup_stays(tmp_path: Path) -> None:
    path, backup = tmp_path / "spool", tmp_path / "backup"
    with Spool.create(path, False) as spool:
        id = spool.put(b"one")
        died(path, Spool.claim)
        (name,) = names(path / "cur")
        os.link(path / "cur" / name, backup)
        assert spool.recover() == [id]
        claim = spool.claim()
        assert isinstance(claim, Claim) and claim.data == b"one" == backup.read_bytes()
        claim.ack()


@pytest.mark.parametrize("place", ["new/{},n=1", ".spooltop/held/op/{},n=1"])
def test_a_dead_claim_that_stands_where_it_was_being_moved_goes_from_cur_alone(tmp_path: Path, place: str) -> None:
    with Spool.create(tmp_path, False) as spool:
        id = spool.put(b"one")
        died(tmp_path, Spool.claim)
        (name,) = names(tmp_path / "cur")
        moved = tmp_path / place.format(id)
        moved.parent.mkdir(parents=True, exist_ok=True)
        os.link(tmp_path / "cur" / name, moved)
        assert spool.recover() == [] and names(tmp_path / "cur") == []
        assert moved.read_bytes() == b"one" and names(tmp_path / "new") == names(moved.parent) * (moved.parent.name == "new")


def test_a_claim_whose_other_name_merely_begins_alike_stays(tmp_path: Path) -> None:
    """Two files of one id: neither is a half move."""
    path = tmp_path / "spool"
    with Spool.create(path, False) as spool:
        (path / "new" / "order-17").write_text("mine")
        died(path, Spool.claim)
        (name,) = names(path / "cur")
        os.link(path / "cur" / name, tmp_path / "backup")
        (path / "new" / "order-17").write_text("another")
        assert spool.recover() == []
        assert (path / "cur" / name).read_text() == "mine" and (path / "new" / "order-17").read_text() == "another"


def test_what_a_put_left_in_tmp_stays_where_its_other_name_is_a_backup(tmp_path: Path) -> None:
    path = tmp_path / "spool"
    with Spool.create(path, False) as spool:
        (path / "tmp" / "order-17").write_text("half")
        os.link(path / "tmp" / "order-17", tmp_path / "backup")
        (path / "new" / "order-17").write_text("another")
        spool.recover()
        assert (path / "tmp" / "order-17").read_text() == "half"


def test_what_a_put_had_delivered_leaves_tmp(tmp_path: Path) -> None:
    path = tmp_path / "spool"
    with Spool.create(path, False) as spool:
        (path / "tmp" / "order-17").write_text("whole")
        os.link(path / "tmp" / "order-17", path / "new" / "order-17")
        spool.recover()
        assert names(path / "tmp") == [] and names(path / "new") == ["order-17"]


def test_recover_syncs_what_it_put_back_only_where_that_is_asked_for(tmp_path: Path) -> None:
    synced: list[int] = []

    class Counted(Files):
        def sync_dir(self, fd: int) -> None:
            synced.append(fd)
            super().sync_dir(fd)

    for durable, count in ((False, 0), (True, 2)):
        path = tmp_path / str(durable)
        with Spool.create(path, durable, files=Counted()) as spool:
            spool.put(b"")
            spool.presence_fd()
            spool.recover()  # what it makes for itself is made
            died(path, Spool.claim)
            synced.clear()
            assert len(spool.recover()) == 1
            assert len(synced) == count
            synced.clear()
            assert spool.recover() == [] and synced == []
