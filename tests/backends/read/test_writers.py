"""Writers of the cursors, as reported by the kernel: exactly who published what was read, or nobody."""

from __future__ import annotations

import json
import os
import select
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from spooltop.control import Control, open_control
from spooltop.cursors.files import WriterWatch, handle_of, parse_events
from spooltop.model.vocabulary import LockHolder
from tests.needs import needs

needs_root = needs("root")

WRITE = """
import os, sys
path, draft, text = sys.argv[1:]
with open(draft, "w") as file:
    file.write(text)
os.rename(draft, path)
print(os.getpid())
"""


def other(path: Path, value: object, *, in_place: bool = False) -> int:
    """Another process replaces the file, or writes into it, ends, and is gone; its pid."""
    words = [sys.executable, "-c", WRITE, path, path if in_place else f"{path}.tmp", json.dumps(value)]
    return int(subprocess.run(words, check=True, capture_output=True, text=True).stdout)


@pytest.fixture
def control(tmp_path: Path) -> Iterator[Control]:
    (tmp_path / "cursors.json").write_text(json.dumps({"imessage": 1, "email": 1}))
    with open_control(str(tmp_path), watch=False, settings={"HOME": str(tmp_path)}, who_writes=True) as control:
        yield control


def newest(control: Control, source: str = "imessage") -> tuple[object, int | None]:
    """The value that was written last, and the pid of its writer."""
    write = next(one for one in control.look().cursors if one.source == source).history[0]
    return write.value, write.writer.pid if write.writer else None


@needs_root
@pytest.mark.parametrize("in_place", [False, True])
def test_the_pid_is_told_when_the_writer_has_gone(control: Control, tmp_path: Path, in_place: bool) -> None:
    assert newest(control) == (1, None)  # written before anybody listened
    for value in (2, 3):
        pid = other(tmp_path / "cursors.json", {"imessage": value, "email": 1}, in_place=in_place)
        assert newest(control) == (value, pid)
    for value in (4, 5):  # of two replacements between two looks the one that stands
        pid = other(tmp_path / "cursors.json", {"imessage": value, "email": 1})
    assert newest(control) == (5, pid)
    (tmp_path / "cursors").mkdir()  # a file of its own in a folder that came later
    (tmp_path / "cursors" / "teams.json").write_text("1")
    control.look()
    pid = other(tmp_path / "cursors" / "teams.json", 2)
    assert newest(control, "teams") == (2, pid)


@needs_root
def test_a_lost_update_names_its_writer(control: Control, tmp_path: Path) -> None:
    path = tmp_path / "cursors.json"
    control.look()
    pids = []
    for _ in range(2):
        other(path, {"imessage": 2, "email": 1})
        control.look()
        pids.append(other(path, {"imessage": 1, "email": 2}))
        snapshot = control.look()
    found = next(one for one in snapshot.cursors if one.source == "imessage")
    assert [write.writer.pid for write in found.history if write.lost and write.writer] == pids[::-1]
    assert found.verdict == "reverted"
    assert sum(times for _, times in found.reverted_by) == 2  # one by its command, or each by its pid where it had ended
    assert snapshot.observation.writers_watched


@needs_root
def test_of_two_that_wrote_into_the_file_itself_nobody_knows_the_last(tmp_path: Path) -> None:
    path = tmp_path / "cursors.json"
    path.write_text("{}")
    writers = WriterWatch(str(tmp_path), LockHolder)
    fd = os.open(path, os.O_RDONLY)
    try:
        with writers._lock:  # both stand in the queue at once
            other(path, {"a": 1}, in_place=True)
            other(path, {"a": 2}, in_place=True)
        assert writers.writer(handle_of(fd)) is None
        alone = other(path, {"a": 3}, in_place=True)
        assert writers.writer(handle_of(fd)) == LockHolder(alone)
    finally:
        writers.close()
        os.close(fd)


@needs_root
def test_its_queue_is_read_though_nobody_asks(tmp_path: Path) -> None:
    """Else it would fill up with events of other files, and be lost."""
    writers = WriterWatch(str(tmp_path), LockHolder)
    try:
        end = time.monotonic() + 10
        for turn in range(3):
            (tmp_path / f"message.{turn}").write_text("one")
            while select.select([writers._fd], [], [], 0)[0]:
                assert time.monotonic() < end
                time.sleep(0.01)
    finally:
        writers.close()


def test_where_the_kernel_does_not_tell_it_is_refused() -> None:
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if os.geteuid() == 0 else []
    code = "from spooltop.control import open_control\nopen_control('/', who_writes=True, locks=True, settings={})"
    done = subprocess.run([*nobody, sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "Refused: who-writes: only root hears from the kernel who writes" in done.stderr.splitlines()[-1]


def test_a_lost_queue_at_the_end_of_what_was_read_is_an_event() -> None:
    """It may stand there without anything of a file."""
    lost = struct.pack("=IBBHQii", 24, 3, 0, 24, 0x4000, -1, 0)
    assert parse_events(lost * 2) == [(0x4000, 0, "", None)] * 2
