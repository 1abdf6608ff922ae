from __future__ import annotations

import errno
import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spooltop.engine import CursorFile
from spooltop.engine.cursors import JOURNAL, JOURNAL_MAX, LOCK, section_span
from spooltop.errors import CursorMismatch, CursorUnreadable, SpoolFull, UsageError
from tests.engine.helpers import Interposed, in_child, killed_at


def test_a_source_is_stored_and_nothing_else_is_changed(tmp_path: Path) -> None:
    path = tmp_path / "cursors.json"
    path.write_text('{\n  "imessage" : {"cursor": 89636, "big": 1.10000},\n  "signal": 12345678901234567890\n}\n')
    file = CursorFile(path)
    assert file.advance("signal", {"cursor": 6}) == 12345678901234567890
    assert path.read_text() == '{\n  "imessage" : {"cursor": 89636, "big": 1.10000},\n  "signal": {"cursor": 6}\n}\n'
    assert file.advance("new one", None) is None
    assert file.read() == {"imessage": {"cursor": 89636, "big": 1.1}, "signal": {"cursor": 6}, "new one": None}


def test_a_file_that_is_not_there_is_made(tmp_path: Path) -> None:
    file = CursorFile(tmp_path / "cursors.json")
    assert file.read() == {}
    file.advance("a", [1])
    assert json.loads((tmp_path / "cursors.json").read_text()) == {"a": [1]}
    assert sorted(os.listdir(tmp_path)) == [JOURNAL, LOCK, "cursors.json"]


def test_one_file_for_each_source(tmp_path: Path) -> None:
    (tmp_path / "cursors").mkdir()
    file = CursorFile(tmp_path / "cursors/imessage.json")
    file.advance("imessage", {"cursor": 1})
    assert json.loads((tmp_path / "cursors/imessage.json").read_text()) == {"cursor": 1}
    assert file.advance("imessage", 7) == {"cursor": 1} and file.read() == {"imessage": 7}
    with pytest.raises(UsageError, match="imessage"):
        file.advance("signal", 1)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.text(max_size=5), json_values, max_size=4), st.text(max_size=5), st.sampled_from([None, 1, "\t"]))
def test_the_span_of_a_section_is_its_value(sections: dict[str, object], source: str, indent: int | str | None) -> None:
    text = json.dumps(sections, indent=indent)
    start, end, found = section_span(text, source)
    assert found == (source in sections)
    if found:
        assert json.loads(text[start:end]) == sections[source]
    else:
        assert text[start] == "}"


@pytest.mark.parametrize("text", ["", "{", '{"a": 1', "[1]", "7", '{"a": 1} x', "\xff"])
def test_nothing_is_published_over_what_does_not_parse(tmp_path: Path, text: str) -> None:
    path = tmp_path / "cursors.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(CursorUnreadable):
        CursorFile(path).advance("a", 1)
    with pytest.raises(CursorUnreadable):
        CursorFile(path).read()
    assert path.read_bytes() == text.encode("latin-1")


def test_links_and_fifos_are_not_followed_nor_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "cursors.json"
    (tmp_path / "precious").write_text("{}")
    path.symlink_to(tmp_path / "precious")
    with pytest.raises(CursorUnreadable):
        CursorFile(path).advance("a", 1)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(CursorUnreadable):
        CursorFile(path).advance("a", 1)
    path.unlink()
    (tmp_path / LOCK).unlink()
    (tmp_path / LOCK).symlink_to(tmp_path / "precious")
    with pytest.raises(CursorUnreadable, match="lock"):
        CursorFile(path).advance("a", 1)
    assert (tmp_path / "precious").read_text() == "{}"


@pytest.mark.parametrize("value", [float("nan"), {1, 2}, b"x"])
def test_what_is_no_json_is_refused(tmp_path: Path, value: object) -> None:
    with pytest.raises(UsageError):
        CursorFile(tmp_path / "cursors.json").advance("a", value)  # type: ignore[arg-type]
    assert os.listdir(tmp_path) == []


def test_expect_compares_and_sets(tmp_path: Path) -> None:
    file = CursorFile(tmp_path / "cursors.json")
    file.advance("a", {"x": 1, "y": 2}, expect=None)
    file.advance("a", 5, expect={"y": 2, "x": 1})
    with pytest.raises(CursorMismatch) as caught:
        file.advance("a", 6, expect=4)
    assert caught.value.found == 5 and file.read() == {"a": 5}


def test_owner_and_mode_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "cursors.json"
    path.write_text("{}")
    path.chmod(0o640)
    if os.geteuid() == 0:
        os.chown(path, 4711, 4712)
    before = path.stat()
    CursorFile(path).advance("a", 1)
    after = path.stat()
    assert (after.st_uid, after.st_gid, stat.S_IMODE(after.st_mode)) == (before.st_uid, before.st_gid, 0o640)
    assert after.st_ino != before.st_ino


def test_root_makes_lock_and_journal_for_the_owner_of_the_directory(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give files away")
    os.chown(tmp_path, 4711, 4712)
    CursorFile(tmp_path / "cursors.json").advance("a", 1)
    assert {(path.stat().st_uid, path.stat().st_gid) for path in tmp_path.iterdir()} == {(4711, 4712)}


WORK = """
import fcntl, json, os, sys
path, source, how, count = sys.argv[1:]
sys.stdin.readline()
if how == "engine":
    from spooltop.engine import CursorFile
    file = CursorFile(path)
    for n in range(int(count)):
        file.advance(source, n + 1, expect=n or None)
else:  # a poller's own helper
    for n in range(int(count)):
        with open(os.path.join(os.path.dirname(path), ".cursors.lock"), "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            with open(path) as file:
                sections = json.load(file)
            assert sections.get(source, 0) == n, (source, n, sections)
            sections[source] = n + 1
            with open(path + ".helper", "w") as file:
                json.dump(sections, file)
            os.replace(path + ".helper", path)
"""


def test_four_pollers_lose_no_update(tmp_path: Path) -> None:
    path = tmp_path / "cursors.json"
    path.write_text("{}")
    workers = [
        subprocess.Popen([sys.executable, "-c", WORK, str(path), source, how, "200"], stdin=subprocess.PIPE)
        for source, how in (("a", "engine"), ("b", "engine"), ("c", "engine"), ("d", "helper"))
    ]
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write(b"go\n")
        worker.stdin.flush()
    for worker in workers:
        worker.communicate()
        assert worker.returncode == 0
    assert CursorFile(path).read() == {"a": 200, "b": 200, "c": 200, "d": 200}
    lines = [json.loads(line) for line in (tmp_path / JOURNAL).read_text().splitlines()]
    assert len(lines) == 600 and [line["new"] for line in lines if line["source"] == "a"] == list(range(1, 201))


def test_the_journal_keeps_its_newest_half_and_stays_below_its_limit(tmp_path: Path, clock) -> None:  # type: ignore[no-untyped-def]
    file = CursorFile(tmp_path / "cursors.json", clock=clock)
    file.advance("a", 0)
    line = (tmp_path / JOURNAL).read_bytes()
    (tmp_path / JOURNAL).write_bytes(line * (JOURNAL_MAX // len(line)))
    file.advance("a", "the newest")
    file.advance("b", "x" * 200_000)
    lines = [json.loads(part) for part in (tmp_path / JOURNAL).read_text().splitlines()]
    assert JOURNAL_MAX * 0.4 < (tmp_path / JOURNAL).stat().st_size <= JOURNAL_MAX
    assert lines[-2]["new"] == "the newest" and lines[-2]["time"] == clock() and lines[-1]["cut"]
    assert {"time", "source", "old", "new", "pid", "command", "file"} <= set(lines[0])
    assert sorted(os.listdir(tmp_path)) == [JOURNAL, LOCK, "cursors.json"]


def test_killed_at_every_call_the_file_holds_the_old_or_the_new_value(tmp_path: Path) -> None:
    for k in range(1, 200):
        path = tmp_path / str(k) / "cursors.json"
        path.parent.mkdir()
        CursorFile(path).advance("other", {"cursor": 5})

        def work(path: Path = path, k: int = k) -> None:
            CursorFile(path, files=killed_at(k)).advance("a", 1)

        status = in_child(work)
        assert CursorFile(path).read() in ({"other": {"cursor": 5}}, {"other": {"cursor": 5}, "a": 1}), k
        CursorFile(path).advance("a", 2)
        if status == 0:
            return
        assert status == signal.SIGKILL
    raise AssertionError("it never passes")


@pytest.mark.parametrize("operation", ["write", "sync", "replace"])
def test_a_failed_write_leaves_the_old_file_and_no_litter(tmp_path: Path, operation: str) -> None:
    path = tmp_path / "cursors.json"
    CursorFile(path).advance("a", 1)

    def fail(_number: int, name: str) -> None:
        if name == operation:
            raise OSError(errno.ENOSPC, "full")

    with pytest.raises(SpoolFull, match="no space"):
        CursorFile(path, files=Interposed(fail)).advance("a", 2)
    assert CursorFile(path).read() == {"a": 1}
    assert sorted(os.listdir(tmp_path)) == [JOURNAL, LOCK, "cursors.json"]


def test_a_full_disk_for_the_journal_does_not_unsay_the_cursor(tmp_path: Path) -> None:
    def fail(_number: int, name: str) -> None:
        if name == "write" and files.calls.count("write") == 2:
            raise OSError(errno.ENOSPC, "full")

    files = Interposed(fail)
    file = CursorFile(tmp_path / "cursors.json", files=files)
    file.advance("a", 1)
    assert file.read() == {"a": 1} and (tmp_path / JOURNAL).read_bytes() == b""


def test_the_file_is_synced_before_it_is_published_and_the_directory_after(tmp_path: Path) -> None:
    files = Interposed()
    CursorFile(tmp_path / "cursors.json", files=files).advance("a", 1)
    order = [call for call in files.calls if call in ("lock", "write", "sync", "replace", "sync_dir")]
    assert order == ["lock", "write", "sync", "replace", "sync_dir", "write"]


def test_by_an_open_directory_no_link_leads_elsewhere(tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / "memex", tmp_path / "elsewhere"
    for path in (folder, elsewhere):
        path.mkdir()
        (path / "cursors.json").write_text('{"imessage": 5}')
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        file = CursorFile(folder / "cursors.json", folder=fd)
        folder.rename(tmp_path / "moved")
        folder.symlink_to(elsewhere)
        file.advance("imessage", 6)
    finally:
        os.close(fd)
    assert json.loads((tmp_path / "moved" / "cursors.json").read_text()) == {"imessage": 6}
    assert os.listdir(elsewhere) == ["cursors.json"]
    assert json.loads((elsewhere / "cursors.json").read_text()) == {"imessage": 5}
