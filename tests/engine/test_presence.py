from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from spooltop.engine import Spool
from spooltop.engine.dirs import SpoolDirs
from spooltop.engine.machine import Machine, file_system, is_network, process_start, this_machine
from spooltop.engine.presence import Hold, Presence, judge, look, new_token
from spooltop.model.words import Verdict
from tests.engine.helpers import in_child

HERE = Machine("box", "boot-1", "pid:[1]")


@pytest.fixture
def dirs(tmp_path: Path) -> Iterator[SpoolDirs]:
    Spool.create(tmp_path, False).close()
    with SpoolDirs(tmp_path) as dirs:
        yield dirs


def test_a_presence_tells_who_it_is_and_is_alive_until_it_is_dropped(dirs: SpoolDirs) -> None:
    hold = Hold.take(dirs, now=17.5, machine=HERE, command="worker --fast")
    found = look(dirs, hold.token)
    assert found == Presence("alive", "box", "boot-1", "pid:[1]", os.getpid(), process_start(os.getpid()), "worker --fast", 17.5)
    assert found.owner.pid == os.getpid() and found.owner.start == 17.5
    hold.drop(dirs, remove=False)
    assert look(dirs, hold.token).state == "dead"


def test_looking_disturbs_nobody_and_many_can_look(dirs: SpoolDirs) -> None:
    hold = Hold.take(dirs, now=0)
    with SpoolDirs(dirs.path) as other:
        assert [look(which, hold.token).state for which in (dirs, other) * 3] == ["alive"] * 6
    hold.drop(dirs, remove=True)
    assert look(dirs, hold.token).state == "missing"


def test_the_lock_ends_with_the_process(dirs: SpoolDirs) -> None:
    def work() -> None:
        with SpoolDirs(dirs.path) as mine:
            Hold.take(mine, now=0)
            os._exit(0)

    assert in_child(work) == 0
    [token] = os.listdir(Path(dirs.path, ".spooltop/consumers"))
    assert look(dirs, token).state == "dead"


@pytest.mark.parametrize(
    "line",
    [b"", b"{", b"[]", b'{"pid": true, "host": 7, "command": null, "since": "x"}', b"\xff" * 9000, b"[" * 4096],
    ids=["empty", "cut off", "a list", "wrong kinds", "no text", "nested too deep"],
)
def test_what_a_forged_file_says_is_not_trusted(dirs: SpoolDirs, line: bytes) -> None:
    hold = Hold.take(dirs, now=0)
    path = Path(dirs.path, ".spooltop/consumers", hold.token)
    path.write_bytes(line)
    found = look(dirs, hold.token)
    assert found == Presence("alive")
    hold.drop(dirs, remove=True)


def test_a_link_or_a_fifo_in_place_of_a_presence_is_unreadable(dirs: SpoolDirs, tmp_path: Path) -> None:
    hold = Hold.take(dirs, now=0)
    folder = tmp_path / ".spooltop/consumers"
    (folder / ("a" * 32)).symlink_to(folder / hold.token)
    os.mkfifo(folder / ("b" * 32))
    (folder / ("c" * 32)).mkdir()
    assert {look(dirs, letter * 32).state for letter in "abc"} == {"unreadable"}
    hold.drop(dirs, remove=True)


def test_tokens_are_new_and_files_never_stand_unlocked_under_their_name(dirs: SpoolDirs) -> None:
    assert new_token() != new_token() and len(new_token()) == 32
    hold = Hold.take(dirs, now=0)
    path = Path(dirs.path, ".spooltop/consumers", hold.token)
    assert json.loads(path.read_text())["host"] == this_machine().host
    assert stat.S_ISREG(path.stat().st_mode) and os.listdir(path.parent) == [hold.token]
    hold.drop(dirs, remove=True)


@pytest.mark.parametrize(
    ("state", "boot", "network", "verdict"),
    [
        ("alive", "boot-1", False, Verdict.ALIVE),
        ("alive", "boot-0", True, Verdict.ALIVE),
        ("dead", "boot-1", False, Verdict.DEAD),
        ("dead", "boot-1", True, Verdict.DEAD),
        ("dead", "boot-0", False, Verdict.DEAD),
        ("dead", "boot-0", True, Verdict.UNKNOWN),
        ("dead", None, False, Verdict.DEAD),
        ("dead", None, True, Verdict.UNKNOWN),
        ("missing", None, False, Verdict.UNKNOWN),
        ("missing", None, True, Verdict.UNKNOWN),
        ("unreadable", None, False, Verdict.UNKNOWN),
    ],
)
def test_the_verdict(state: str, boot: str | None, network: bool, verdict: Verdict) -> None:
    found, evidence = judge(Presence(state, boot_id=boot, pid=7, command="a\x1bb"), "boot-1", network=network)
    assert found is verdict and evidence and "\x1b" not in evidence


def test_the_kind_of_file_system(tmp_path: Path) -> None:
    fd = os.open("/proc", os.O_RDONLY)
    try:
        assert file_system(fd) == "proc"
    finally:
        os.close(fd)
    assert not is_network("ext4") and not is_network("btrfs")
    assert all(is_network(kind) for kind in ("nfs4", "fuse.sshfs", "virtiofs", "9p", "not yet invented", "?"))
