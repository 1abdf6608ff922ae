"""``doctor`` in places that are really so: memory, a full disk, boxes on two mounts, no journal, an overlay, FUSE, few inotify
instances. Each needs a mount namespace of its own, as root has it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from spooltop.engine import Spool
from tests.needs import needs

from .terminal import SPOOLTOP

pytestmark = [
    pytest.mark.long,
    needs("root", "unshare"),
]
ROOT = Path(__file__).parents[2]
Found = dict[str, dict[str, str]]


def doctor(script: str, place: Path, *words: str, unshare: tuple[str, ...] = ("--mount",)) -> tuple[int, Found]:
    """Runs ``script`` with the spool ``$1`` in a namespace, then the doctor. The findings by their checks, the worst of each."""
    command = f'set -e; cd "$0"; {script}\nshift; set +e; exec "$@"'
    given = [*SPOOLTOP, "doctor", str(place), "--json", *words]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        ["unshare", *unshare, "sh", "-c", command, str(place.parent), str(place), *given],
        capture_output=True, text=True, env=env, check=False,
    )  # fmt: skip
    assert done.stderr == "", done.stderr
    found: Found = {}
    for line in done.stdout.splitlines():
        one = json.loads(line)
        if one["status"] != "ok" or one["check"] not in found:
            found[one["check"]] = one
    return done.returncode, found


MAKE = f"{sys.executable} -m spooltop init s >/dev/null"


def test_a_tmpfs_that_is_full(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    place = tmp_path / "m" / "s"
    mount = f"cd ..; mount -t tmpfs -o size=1m none m; cd m; {MAKE}"
    code, found = doctor(mount, place, "--write")
    assert found["file-system"]["status"] == "warning" and "memory" in found["file-system"]["text"]
    assert found["rename"]["text"].startswith("tried: moves work") and found["locks"]["status"] == "ok"
    assert code == 1
    code, found = doctor(f"{mount}; dd if=/dev/zero of=fill bs=4k 2>/dev/null || :", place, "--write")
    assert code == 2 and found["write"]["text"].endswith("No space left on device")
    assert found["space"]["status"] == "problem" and "purge" in found["space"]["remedy"]
    assert "file-times" not in found
    code, found = doctor(f"{mount}; mount -o remount,ro .", place, "--write")
    assert code == 2 and "remount,rw" in found["writable"]["remedy"] and "tried" not in found
    code, found = doctor(f"{mount}; mount -o remount,noexec .", place, "--write")
    assert code == 1 and "tried" not in found and found["write" if "write" in found else "rename"]["status"] == "ok"


def test_boxes_on_two_mounts(tmp_path: Path) -> None:
    Spool.create(str(tmp_path / "s")).close()
    (tmp_path / "other").mkdir()
    code, found = doctor("mount --bind other s/cur", tmp_path / "s")
    assert code == 2 and "even of the same file system" in found["one-device"]["text"]
    assert f"umount {tmp_path}/s/cur" in found["one-device"]["remedy"]


@needs("mkfs.ext4")
def test_an_ext4_without_a_journal_and_one_without_barriers(tmp_path: Path) -> None:
    (tmp_path / "e").mkdir()
    place = tmp_path / "e" / "s"
    for options, mounting, check, health in (
        ("-O ^has_journal", "loop", "journal", "warning"), ("", "loop,nobarrier", "barriers", "problem"),
    ):  # fmt: skip
        make = f"cd ..; truncate -s 24m i; mkfs.ext4 -q -F {options} i; mount -o {mounting} i e; cd e; {MAKE}"
        _, found = doctor(make, place)
        assert found[check]["status"] == health
        assert found["file-system"]["status"] == "ok" and f"ext4 at {tmp_path}/e" in found["file-system"]["text"]


def test_few_inotify_instances(tmp_path: Path) -> None:
    Spool.create(str(tmp_path / "s")).close()
    few = "echo 2 > /proc/sys/user/max_inotify_instances"
    code, found = doctor(few, tmp_path / "s", unshare=("--user", "--map-root-user"))
    assert code == 2 and found["inotify-instances"]["status"] == "problem"
    assert "of 2 instances" in found["inotify-instances"]["text"]


def test_a_pid_namespace(tmp_path: Path) -> None:
    Spool.create(str(tmp_path / "s")).close()
    _, found = doctor("", tmp_path / "s", unshare=("--mount", "--pid", "--fork", "--mount-proc"))
    assert found["processes"]["status"] == "warning" and "container" in found["processes"]["text"]


def test_a_fuse_file_system(tmp_path: Path) -> None:
    Spool.create(str(tmp_path / "s")).close()
    (tmp_path / "f").mkdir()
    program = [sys.executable, "-m", "tests.e2e.fusefs", str(tmp_path / "s"), str(tmp_path / "f")]
    done = subprocess.run(
        ["unshare", "--mount", *program, *SPOOLTOP, "doctor", str(tmp_path / "f"), "--write"], capture_output=True, text=True,
        cwd=ROOT, check=False,
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert "warning file-system: fuse at" in done.stdout and "problem tried: nothing could be tried" in done.stdout
    assert "warning rename: it is not known whether fuse has RENAME_NOREPLACE" in done.stdout
