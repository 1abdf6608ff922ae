"""Facts about a place: shares, limits, presence files, trials; and the hidden directory in which something is tried."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from spooltop.backends.directory.facts import trials
from spooltop.backends.directory.facts.collect import collect
from spooltop.backends.directory.facts.host_facts import inotify_use, shares
from spooltop.backends.directory.facts.trial_dir import PREFIX, TrialDir, left_behind, sweep
from spooltop.backends.directory.facts.trials import try_all
from spooltop.control import open_control
from spooltop.engine import Spool
from spooltop.engine.system.files import Files
from spooltop.engine.system.syscalls import inotify_init


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    Spool.create(str(tmp_path / "spool"), durable=False).close()
    return tmp_path / "spool"


class Broken(Files):
    """Files of a file system that cannot do what is named, or does it wrong."""

    def __init__(self, *names: str) -> None:
        super().__init__()
        for name in names:
            setattr(self, name, self._fail)

    def _fail(self, *arguments: object) -> None:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))


def test_trials_find_what_does_not_work(spool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failed(files: Files) -> dict[str, str]:
        return {name: one.error for name, one in try_all(str(spool / "tmp"), files).items() if one.error}

    assert failed(Broken("sync_dir")) == {"sync-dir": "Invalid argument"}
    assert failed(Broken("rename_noreplace", "link")) == {"noreplace": "unsupported", "link": "unsupported"}

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
    with monkeypatch.context() as patched:
        patched.setattr(trials, "_OTHER_PROCESS", "")
        assert failed(Files())["locks-flock"] == "the other process ended without a word"
    assert os.listdir(spool / "tmp") == []


def test_the_directory_is_invisible_and_gone_at_the_end(spool: Path) -> None:
    with TrialDir(str(spool / "tmp")) as trial:
        assert trial.name.startswith(".") and os.stat(trial.path).st_mode & 0o777 == 0o700
        Path(trial.path, "sub").mkdir()
        Path(trial.path, "sub", "file").touch()
        Path(trial.path, "link").symlink_to(spool)
        with open_control(str(spool), watch=False, settings={}) as control:
            seen = control.look().observation
        assert all(not state.count for state in seen.boxes.values()) and not seen.irregular and not seen.tmp
        assert left_behind(str(spool / "tmp")) == sweep(str(spool / "tmp")) == []
    assert os.listdir(spool / "tmp") == [] and (spool / "new").is_dir()
    trial.close()


def test_what_a_killed_process_left_is_seen_and_swept(spool: Path) -> None:
    code = (
        "import os, sys\nfrom spooltop.backends.directory.facts.trial_dir import TrialDir\n"
        "t = TrialDir(sys.argv[1])\nos.mkdir(t.path + '/a')\nos.kill(os.getpid(), 9)"
    )
    tmp = str(spool / "tmp")
    subprocess.run([sys.executable, "-c", code, tmp], check=False)
    (name,) = os.listdir(tmp)
    (spool / "tmp" / f"{PREFIX}file").touch()
    (spool / "tmp" / f"{PREFIX}link").symlink_to(spool / "new")
    (spool / "tmp" / ".other").mkdir()  # only own directories are swept
    assert left_behind(tmp) == [name]
    assert collect(str(spool), "spool").leftovers.trials == (name,)
    fd = os.open(os.path.join(tmp, name), os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    assert sweep(tmp) == []
    os.close(fd)
    assert sweep(tmp) == [name] and len(os.listdir(tmp)) == 3
    assert sweep(str(spool / "gone")) == left_behind(str(spool / "gone")) == []


def test_presence_files_of_the_dead_and_of_other_machines(spool: Path) -> None:
    with Spool(str(spool), durable=False) as alive:
        alive.put(b"x")
        claim = alive.claim()
        assert claim is not None
        consumers = spool / ".spooltop" / "consumers"
        (consumers / ("1" * 32)).write_text('{"lock": "ofd", "host": "be\\u001bta", "pid": 7}')
        found = collect(str(spool), "spool").presence
        assert (found.held, found.stale, found.other_hosts, found.complete) == (1, 1, ("be\x1bta",), True)
        claim.ack()


def test_shares_are_found_wherever_they_are_listed(tmp_path: Path) -> None:
    root, target = tmp_path / "root", tmp_path / "srv" / "my spool"
    target.mkdir(parents=True)
    for name in ("etc/exports.d", "etc/samba", "proc/fs/nfsd", "var/lib/nfs"):
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


def test_inotify_in_use_by_this_user_is_counted() -> None:
    before = inotify_use(os.geteuid())
    fds = [inotify_init() for _ in range(3)]
    try:
        assert inotify_use(os.geteuid()).instances >= 3
        assert before.watches_limit is not None and before.instances_limit is not None
    finally:
        for fd in fds:
            os.close(fd)
