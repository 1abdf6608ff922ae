"""Facts about a place: trials of what it can do, what was left there, who works there, who shares it, who may write."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from spooltop.backends.directory import trials
from spooltop.backends.directory.facts import shares
from spooltop.backends.directory.trials import try_all
from spooltop.engine import Spool
from spooltop.engine.files import Files
from tests.cli.streams import spooltop
from tests.needs import needs


def broken(*names: str) -> Files:
    """Files of a file system that cannot do what is named."""

    def fail(*arguments: object) -> None:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    files = Files()
    for name in names:
        setattr(files, name, fail)
    return files


def test_trials_find_what_does_not_work(spool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failed(files: Files) -> dict[str, str]:
        return {name: one.error for name, one in try_all(str(spool / "tmp"), files).items() if one.error}

    assert failed(broken("sync_dir")) == {"sync-dir": "Invalid argument"}
    assert failed(broken("rename_noreplace", "link")) == {"noreplace": "unsupported", "link": "unsupported"}

    class Replaces(Files):
        def link(self, name: str, dir_fd: int, to: str, to_fd: int) -> None:
            if to == "two":
                os.unlink(to, dir_fd=to_fd)
            super().link(name, dir_fd, to, to_fd)

        def lock(self, fd: int, *, shared: bool = False, wait: bool = False) -> bool:
            return True  # what a mount without locks does

    replaces = Replaces()
    replaces.rename_noreplace = replaces.rename  # type: ignore[method-assign]
    found = failed(replaces)
    assert found["noreplace"] == found["link"] == "it replaced a file that it must not replace"
    assert found["locks-flock"] == "another process got the same lock"
    monkeypatch.setattr(trials, "_OTHER_PROCESS", "")
    assert failed(Files())["locks-flock"] == "the other process ended without a word"
    assert os.listdir(spool / "tmp") == []


def doctor(spool: Path, check: str, *more: str) -> list[str]:
    """Texts of the findings of one check."""
    lines: list[dict[str, Any]] = [json.loads(line) for line in spooltop("doctor", spool, "--json", *more).out.splitlines()]
    return [line["text"] for line in lines if line["check"] == check]


def test_what_a_killed_doctor_left_is_told_and_swept_by_the_next_that_writes(spool: Path) -> None:
    left = spool / "tmp" / ".spooltop-trial-1-0123456789ab"
    (left / "folder").mkdir(parents=True)
    (left / "link").symlink_to(spool)
    (spool / "tmp" / ".spooltop-trial-file").touch()
    (spool / "tmp" / ".spooltop-trial-link").symlink_to(spool / "new")
    (spool / "tmp" / ".other").mkdir()  # only own directories are swept
    assert "1 directories of a doctor" in doctor(spool, "leftovers")[0]
    fd = os.open(left, os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)  # as the one that made it has it as long as it lives
    assert "directories" not in "".join(doctor(spool, "leftovers", "--write")) and left.exists()
    os.close(fd)
    doctor(spool, "leftovers", "--write")
    assert not left.exists() and len(os.listdir(spool / "tmp")) == 3 and (spool / "new").is_dir()


def test_presence_files_of_the_dead_and_of_other_machines(spool: Path) -> None:
    with Spool(str(spool), durable=False) as alive:
        alive.put(b"x")
        claim = alive.claim()
        assert claim is not None
        stale = spool / ".spooltop" / "consumers" / ("1" * 32)
        stale.write_text('{"lock": "ofd", "host": "be\\u001bta", "pid": 7}')
        assert "worked here: be\\x1bta;" in doctor(spool, "machines")[0]
        assert "1 presence files of consumers that have exited" in doctor(spool, "leftovers")[0]
        claim.ack()


def test_shares_are_found_wherever_they_are_listed(tmp_path: Path) -> None:
    root, target = tmp_path / "root", tmp_path / "srv" / "my spool"
    target.mkdir(parents=True)
    for name in ("etc/exports.d", "etc/samba"):
        (root / name).mkdir(parents=True)
    blank = str(target).replace(" ", "\\040")
    (root / "etc/exports").write_text(f"# {target}\n{tmp_path}/srv \\\n  10.0.0.0/8(rw)\n/elsewhere *(ro)\n'unclosed\n")
    (root / "etc/exports.d/a.exports").write_text(f"{blank} *(rw)\n")
    (root / "etc/exports.d/b.bak").write_text("/ *(rw)\n")
    (root / "etc/samba/smb.conf").write_text(f"[a]\n  path = {target}/tmp\n[b]\npath=/elsewhere\n; path = /\n")
    found, unread = shares(str(target), str(root))
    assert [(one.service, one.path) for one in found] == [
        ("NFS", f"{tmp_path}/srv"), ("NFS", str(target)), ("Samba", f"{target}/tmp")
    ]  # fmt: skip
    assert unread == ()
    (root / "etc/exports").unlink()
    (root / "etc/exports").symlink_to(root / "etc/exports")
    assert shares(str(target), str(root))[1] == (f"{root}/etc/exports",)


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
