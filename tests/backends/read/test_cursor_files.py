"""Cursor files as they are: values, why they do not parse, litter of unsafe writers; read again only when changed."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from spooltop.backends.directory.storage import System
from spooltop.control import open_control
from spooltop.cursors import files as cursor_files
from spooltop.cursors.model import CursorSource
from spooltop.engine import CursorFile, files
from spooltop.engine.files import REAL_FILES
from spooltop.model import LockHolder

from .conftest import Opened

COMMON = "common temp cursors.json.tmp seen"
Look = Callable[[], tuple[CursorSource, ...]]


@pytest.fixture
def look(spool: Path, opened: Opened) -> Look:
    """Looks at the cursor files of a spool."""
    control = opened(spool)
    return lambda: control.look().observation.cursors


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b'{"a": {"cursor": 1}}', ""),
        (b"", "it is empty"),
        *((cut, "it is cut off") for cut in (b'{"a": {"cursor": 1', b'{"a')),
        *((b'{"a": ' + cut, "it is cut off") for cut in (b"", b'"', b'"xy', b'"x\\', b'"\\u00', b"tr", b"-", b"1.", b"[1,")),
        (b'{"a": x, "b": 12345678}', "not JSON at byte 6"),
        (b'{"a": 1}}', "not JSON at byte 8"),  # the end of a longer one before it
        (b"[1]", "not an object: one section for each source is expected"),
        (b"\xff\xfe\xff", "not JSON"),
        (b"[" * 100_000, "not JSON"),
    ],
)
def test_a_file_that_does_not_parse_says_why(look: Look, spool: Path, data: bytes, error: str) -> None:
    """Each time it is replaced it is read again."""
    for content, expected in ((b'{"a": 1}', ""), (data, error)):
        (spool / "draft").write_bytes(content)
        (spool / "draft").replace(spool / "cursors.json")
        (source,) = look()
        assert (source.error, source.sections is None) == (expected, bool(expected))


@pytest.mark.parametrize("name", ["cursors.json", "cursors/imessage.json"])
def test_the_lock_of_a_file_is_the_one_that_the_engine_takes(look: Look, spool: Path, name: str) -> None:
    (spool / "cursors").mkdir()
    with CursorFile(spool / name) as file:
        file.advance("imessage", 1)
    with (spool / name).with_name(".cursors.lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        (source,) = look()
    assert [one.pid for one in source.lock_holders] == [os.getpid()]


def test_a_lock_is_held_for_as_long_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "cursors.json").write_text('{"imessage": 1}')
    sources, held = cursor_files.CursorFiles(System()), [LockHolder(7)]
    with REAL_FILES.closing(os.open(tmp_path, os.O_RDONLY)) as fd:
        for _ in range(2):
            (source,) = sources.look([(str(tmp_path), fd)], lambda *_: tuple(held))
            assert source.lock_holders == tuple(held)
            held.clear()  # the file stays as it is


def test_a_temporary_file_that_all_share_is_heard_of_though_it_stands_at_no_look(tmp_path: Path) -> None:
    def write(temporary: str) -> None:
        (tmp_path / temporary).write_text('{"imessage": 1}')
        os.replace(tmp_path / temporary, tmp_path / "cursors.json")

    write("cursors.json.tmp")
    with open_control(str(tmp_path / "cursors.json"), settings={}) as control:
        assert control.look().cursors[0].unsafe == ()  # that one was before
        write("cursors.tmp.4242")
        write("cursors.json.3fa9c1")
        CursorFile(tmp_path / "cursors.json").advance("imessage", 2)
        assert not any("seen" in label for label in control.look().cursors[0].unsafe)
        write("cursors.json.tmp")
        assert COMMON in control.look().cursors[0].unsafe
        assert COMMON in control.look().cursors[0].unsafe


@pytest.mark.parametrize("place", ["cursors.json", "cursors/imessage.json"])
def test_a_look_is_due_as_soon_as_a_cursor_file_is_replaced(spool: Path, place: str) -> None:
    (spool / "cursors").mkdir()
    (spool / place).write_text('{"imessage": 1}')
    for value, target in enumerate((spool, spool / place) if place == "cursors.json" else (spool,), 2):
        with open_control(str(target), settings={}) as control:
            control.look()
            while control.changes(0.05):  # events of the boxes and of the turn before; what is due stays due
                control.look()
            CursorFile(spool / place).advance("imessage", value)
            end = time.monotonic() + 30
            while not control.changes(0.2):
                assert time.monotonic() < end


@pytest.mark.parametrize("kind", ["fifo", "link", "folder"])
def test_what_is_no_plain_file_is_not_opened(look: Look, spool: Path, kind: str) -> None:
    path = spool / "cursors.json"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "link":
        path.symlink_to("/etc/passwd")
    else:
        path.mkdir()
    assert [source.error for source in look()] == ["not a plain file"]


def test_a_file_that_grows_while_it_is_read_is_read_in_few_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer that truncates it in place and writes: it was empty when it was opened."""
    path, pieces, read = tmp_path / "cursors.json", [], os.read
    path.touch()

    def opened_before_it_is_written(name: str, folder: int) -> tuple[int, os.stat_result]:
        found = files.open_regular(name, folder)
        path.write_bytes(b" " * 300_000 + b"{}")
        return found

    def read_piece(fd: int, size: int) -> bytes:
        pieces.append(size)
        return read(fd, size)

    monkeypatch.setattr(cursor_files, "open_regular", opened_before_it_is_written)
    monkeypatch.setattr(os, "read", read_piece)
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        version = cursor_files.read_version("cursors.json", folder, 0.0, handles=False)
    finally:
        os.close(folder)
    assert version is not None
    assert (len(version.data), version.error, len(pieces) < 50) == (300_002, "", True)
