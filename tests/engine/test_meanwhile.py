"""Interference by somebody else between two calls of one step changes nothing of what the step promises."""

from __future__ import annotations

import errno
import json
import os
import threading
from pathlib import Path

import pytest

from spooltop.control import open_control
from spooltop.engine import Spool, SpooltopError
from spooltop.engine.system.files import Files
from tests.clock import Clock
from tests.engine.helpers import Interposed


def waiting_for(path: Path) -> bool:
    """True while somebody waits for a lock on the file (proc_locks(5))."""
    inode = f":{path.stat().st_ino} "
    with open("/proc/locks") as table:
        return any(" -> " in line and inode in line for line in table)


def test_an_expired_key_that_another_process_renews_meanwhile_is_theirs(tmp_path: Path, clock: Clock) -> None:
    with Spool.create(tmp_path, False, key_window=60, clock=clock) as spool:
        old = spool.put(b"", key="k")
        keys = tmp_path / ".spooltop/keys"
        [record] = [path for path in keys.iterdir() if not path.name.startswith(".")]
        clock.advance(61)
        renewed = json.dumps({"name": "renewed,n=0", "at": clock()})
        got: list[str] = []
        with open(keys / ".lock", "w") as lock:  # as another put of that key, which found it expired too
            assert Files().lock_write(lock.fileno())
            thread = threading.Thread(target=lambda: got.append(spool.put(b"", key="k")))
            thread.start()
            while thread.is_alive() and not waiting_for(keys / ".lock"):
                thread.join(0.01)
            assert thread.is_alive()
            record.write_text(renewed)
        thread.join()
        assert got == ["renewed"] and record.read_text() == renewed and spool.depth() == 1 and old != "renewed"


@pytest.mark.parametrize(("source", "to"), [("cur", "new"), ("new", "cur")])
def test_a_message_that_moves_while_it_is_looked_for_is_not_put_again(tmp_path: Path, source: str, to: str) -> None:
    listed: list[str] = []
    armed: list[bool] = []

    def before(_number: int, name: str) -> None:
        if name == "list" and armed:
            listed.append(name)
            if len(listed) == 2:
                [file] = (tmp_path / source).iterdir()
                file.rename(tmp_path / to / file.name.replace("n=0", "n=1"))

    with Spool.create(tmp_path, False, files=Interposed(before)) as spool:
        spool.put(b"", id="order-17")
        if source == "cur":
            os.rename(tmp_path / "new/order-17,n=0", tmp_path / "cur/order-17,n=0")
        armed.append(True)
        assert spool.put(b"", id="order-17").duplicate
    assert len([*(tmp_path / "new").iterdir(), *(tmp_path / "cur").iterdir()]) == 1


@pytest.mark.filterwarnings("ignore:claim on:ResourceWarning")
def test_another_file_under_the_name_is_no_sign_that_a_failed_move_was_done(tmp_path: Path) -> None:
    armed: list[bool] = []

    def before(_number: int, name: str) -> None:
        if name == "rename_noreplace" and armed:
            armed.clear()
            (tmp_path / "new/order,n=1").write_bytes(b"another")
            (tmp_path / "cur" / claim.name).unlink()
            raise OSError(errno.EIO, "I/O error")

    with Spool.create(tmp_path, False, files=Interposed(before)) as spool:
        spool.put(b"", id="order")
        found = spool.claim()
        assert found is not None
        claim = found
        armed.append(True)
        with pytest.raises(SpooltopError, match="release: Input/output error"):
            claim.release()
        claim.end()


def test_a_file_that_has_a_second_name_keeps_its_owner_and_mode(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("")
    precious.chmod(0o640)
    Spool.create(tmp_path / "spool").close()
    with open_control(str(tmp_path / "spool"), watch=False, settings={"XDG_STATE_HOME": str(tmp_path / "state")}) as control:
        control.mute("imessage", 60)
        [lock] = (tmp_path / "state").rglob(".mutes.lock")
        lock.unlink()
        os.link(precious, lock)  # by one who may write that directory, to have it given to its owner
        if os.geteuid() == 0:
            os.chown(lock.parent, 4711, 4712)
        before = precious.stat()
        control.mute("imessage", 60)
    after = precious.stat()
    assert (after.st_uid, after.st_gid, after.st_mode) == (before.st_uid, before.st_gid, before.st_mode)
