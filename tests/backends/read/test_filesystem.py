"""The file system decides whether events come and whether a missing process proves anything."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from spooltop.backends.directory.storage.filesystem import (
    Mount,
    changes_unseen,
    is_local,
    mount_of,
    parse_mountinfo,
    sends_no_events,
)
from spooltop.engine import Spool
from tests.needs import needs


def test_parse() -> None:
    assert parse_mountinfo("""\
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard
40 27 0:39 /sub /srv/a\\040b rw,noatime shared:1 master:2 - btrfs /dev/vdb rw
41 27 0:50 / /mnt/nfs rw - nfs4 server:/x ro,vers=4.2
nonsense
""") == {
        27: Mount(27, (254, 0), "/", "ext4", False),
        40: Mount(40, (0, 39), "/srv/a b", "btrfs", False),
        41: Mount(41, (0, 50), "/mnt/nfs", "nfs4", True),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "local", "silent", "unseen"),
    [
        ("ext4", True, False, False), ("tmpfs", True, False, False), ("nfs4", False, True, True), ("fuse.x", False, True, True),
        ("virtiofs", False, True, True), ("overlay", True, False, True),  # which sends events of its upper layer alone
    ],
)  # fmt: skip
def test_kinds(kind: str, local: bool, silent: bool, unseen: bool) -> None:
    mount = Mount(1, (0, 1), "/", kind, False)
    assert (is_local(mount), sends_no_events(mount), changes_unseen(mount)) == (local, silent, unseen)


def test_mount_of_a_descriptor(tmp_path: Path) -> None:
    fd = os.open(tmp_path, os.O_RDONLY)
    mount = mount_of(fd)
    assert mount is not None and str(tmp_path).startswith(mount.mountpoint)
    assert mount_of(fd, proc=str(tmp_path)) is None
    os.close(fd)
    assert not is_local(None) and not sends_no_events(None)  # what is not told is not local


@needs("root")
@pytest.mark.parametrize(("mounted", "critical"), [("--bind", False), ("-t tmpfs", True)], ids=["bind mount", "file system"])
def test_a_mount_that_is_read_only_for_us_alone_is_no_problem(tmp_path: Path, mounted: str, critical: bool) -> None:
    source, place = tmp_path / "source", tmp_path / "place"
    place.mkdir()
    Spool.create(source / "x").close()
    bound = ",bind" if mounted == "--bind" else ""
    steps = (
        f"mount {mounted} '{source}' '{place}' && cp -a '{source}/.' '{place}/' 2>/dev/null; "
        f"mount -o remount,ro{bound} '{place}' && exec '{sys.executable}' -m spooltop status '{place}/x' --json"
    )
    done = subprocess.run(["unshare", "--mount", "sh", "-c", steps], capture_output=True, text=True, check=True)
    status = json.loads(done.stdout)
    assert status["disk"]["readonly"]
    assert ("fs-readonly" in {problem["code"] for problem in status["problems"]}) is critical
