from __future__ import annotations

import errno
import fcntl
import inspect
import json
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from spooltop.control import open_control
from spooltop.engine import Closed, CursorFile, Spool
from spooltop.errors import CursorMismatch, CursorUnreadable, LockTimedOut, SpoolFull, UsageError
from tests.clock import Clock
from tests.engine.helpers import Interposed, failing, names_in
from tests.scratch import scratch

LOCK, JOURNAL, JOURNAL_MAX = ".cursors.lock", ".cursors.journal", 1 << 20
FILES = [JOURNAL, LOCK, "cursors.json"]


def test_a_source_is_stored_and_nothing_else_is_changed(tmp_path: Path) -> None:
    path = tmp_path / "cursors.json"
    path.write_text('{\n  "imessage" : {"cursor": 89636, "big": 1.10000},\n  "signal": 12345678901234567890\n}\n')
    file = CursorFile(path)
    assert file.advance("signal", {"cursor": 6}) == 12345678901234567890
    assert path.read_text() == '{\n  "imessage" : {"cursor": 89636, "big": 1.10000},\n  "signal": {"cursor": 6}\n}\n'
    assert file.advance("new one", None) is None
    assert file.read() == {"imessage": {"cursor": 89636, "big": 1.1}, "signal": {"cursor": 6}, "new one": None}


def test_one_file_for_each_source(tmp_path: Path) -> None:
    (tmp_path / "cursors").mkdir()
    file = CursorFile(tmp_path / "cursors/imessage.json")
    file.advance("imessage", {"cursor": 1})
    assert json.loads((tmp_path / "cursors/imessage.json").read_text()) == {"cursor": 1}
    assert file.advance("imessage", 7) == {"cursor": 1} and file.read() == {"imessage": 7}
    with pytest.raises(UsageError, match="imessage"):
        file.advance("signal", 1)


def test_a_file_is_made_and_expect_compares_and_sets(tmp_path: Path) -> None:
    file = CursorFile(tmp_path / "cursors.json")
    assert file.read() == {}
    file.advance("a", {"x": 1, "y": 2}, expect=None)
    file.advance("a", 5, expect={"y": 2, "x": 1})
    with pytest.raises(CursorMismatch) as caught:
        file.advance("a", 6, expect=4)
    assert caught.value.found == 5 and file.read() == {"a": 5} and names_in(tmp_path) == FILES


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=50)
@given(
    st.dictionaries(st.text(max_size=5), json_values, max_size=4), st.text(max_size=5), json_values,
    st.sampled_from([None, 1, "\t"]),
)  # fmt: skip
@example({"Email": 1, "email2": 2, "email": 3}, "email", 4, None)  # names that begin alike, or differ in case
def test_any_value_of_any_source_is_stored_among_any_others(
    sections: dict[str, object], source: str, value: object, indent: int | str | None
) -> None:
    with TemporaryDirectory(prefix="spooltop-test-", dir=scratch()) as folder:
        path = Path(folder, "cursors.json")
        path.write_text(json.dumps(sections, indent=indent))
        assert CursorFile(path).advance(source, value) == sections.get(source)
        assert list(json.loads(path.read_text()).items()) == list((sections | {source: value}).items())


@pytest.mark.parametrize("text", ["", "{", '{"a": 1', "[1]", "7", '{"a": 1} x', "\xff"])
def test_nothing_is_published_over_what_does_not_parse(tmp_path: Path, text: str) -> None:
    path = tmp_path / "cursors.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(CursorUnreadable):
        CursorFile(path).advance("a", 1)
    with pytest.raises(CursorUnreadable):
        CursorFile(path).read()
    assert path.read_bytes() == text.encode("latin-1")


@pytest.mark.parametrize(
    ("plant", "name", "why"),
    [
        *((Path.symlink_to, name, "") for name in ("cursors.json", LOCK)), (Path.hardlink_to, LOCK, "second name"),
        *((lambda path, _: os.mkfifo(path), name, "") for name in ("cursors.json", LOCK)),
    ],
)  # fmt: skip
def test_links_and_fifos_are_not_followed_nor_waited_for(
    tmp_path: Path, plant: Callable[[Path, Path], object], name: str, why: str
) -> None:
    precious = tmp_path / "precious"
    precious.write_text("{}")
    plant(tmp_path / name, precious)
    before = precious.stat()
    with pytest.raises(CursorUnreadable, match=f"{name}.*{why}"):
        CursorFile(tmp_path / "cursors.json").advance("a", 1)
    after = precious.stat()
    assert (before.st_mode, before.st_uid, before.st_ctime_ns) == (after.st_mode, after.st_uid, after.st_ctime_ns)


def nested(depth: int) -> object:
    value: object = 0
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (float("nan"), ""), (float("-inf"), ""), ({1, 2}, ""), (b"x", "bytes"), (nested(100_000), "recursion"),
        ({5: 1}, "a key of an object is a str, not int"), ({"a": [{None: 1}]}, "a key of an object is a str, not NoneType"),
        ("\ud83d", "half a surrogate pair"), ([{"a": {"\udc80": 1}}], "half a surrogate pair"),
    ],
    ids=["nan", "infinite", "set", "bytes", "deep", "int key", "null key", "surrogate", "surrogate key"],
)  # fmt: skip
def test_what_is_no_json_is_refused_before_anything_is_made(tmp_path: Path, value: Any, why: str) -> None:
    file = CursorFile(tmp_path / "cursors.json")
    with pytest.raises(UsageError, match=f"the value is not JSON: .*{why}"):
        file.advance("a", value)
    with pytest.raises(UsageError, match="expect is not JSON"):
        file.advance("a", 1, expect=value)
    with pytest.raises(UsageError, match="the source is not JSON: half a surrogate pair"):  # no other program could read it
        file.advance("\ud83d", 1)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("wrong", [5, True, ("a", "b"), b"a"])
@pytest.mark.parametrize("name", ["source", "field"])
def test_a_name_that_is_no_str_is_refused_before_anything_is_made(tmp_path: Path, name: str, wrong: object) -> None:
    arguments: dict[str, Any] = {"source": "a", "value": 1, name: wrong}
    with pytest.raises(TypeError, match=f"{name} takes a str, not {type(wrong).__name__}"):
        CursorFile(tmp_path / "cursors.json").advance(**arguments)
    assert os.listdir(tmp_path) == []


def test_a_key_that_stands_there_twice_is_not_published_over(tmp_path: Path) -> None:
    path = tmp_path / "cursors.json"
    text = '{"a": 1, "b": 2, "\\u0061": 3}'
    path.write_text(text)
    with pytest.raises(CursorUnreadable, match="it holds the key 'a' 2 times; take all but one out"):
        CursorFile(path).advance("a", 4)
    assert path.read_text() == text
    CursorFile(path).advance("b", 5)  # what others left twice is theirs, and stays as it is
    assert path.read_text() == text.replace("2", "5")
    path.write_text('{"a": {"n": 1, "n": 2}}')
    with pytest.raises(CursorUnreadable, match="it holds the key 'n' 2 times"):
        CursorFile(path).advance("a", 3, field="n")


@pytest.mark.parametrize("single", [False, True])
def test_a_field_is_stored_and_the_rest_of_its_section_stays(tmp_path: Path, single: bool) -> None:
    path = tmp_path / "imessage.json"
    file = CursorFile(path, single=single)

    def text(section: str) -> str:
        return section + "\n" if single else f'{{"imessage": {section}, "email": 5}}\n'

    path.write_text(text('{"big": 1.10000,  "cursor": 7}'))
    assert file.advance("imessage", 8, field="cursor", expect=7) == 7
    assert path.read_text() == text('{"big": 1.10000,  "cursor": 8}')
    assert file.advance("imessage", "now", field="at") is None
    assert path.read_text() == text('{"big": 1.10000,  "cursor": 8, "at": "now"}')
    with pytest.raises(CursorMismatch, match="cursor of imessage is not what was expected") as caught:
        file.advance("imessage", 9, field="cursor", expect=7)
    assert caught.value.found == 8
    file.advance("imessage", 6)  # the whole section, in either kind of file
    assert path.read_text() == text("6")
    with pytest.raises(CursorMismatch, match="imessage holds no object, so it has no field cursor"):
        file.advance("imessage", 9, field="cursor")
    assert path.read_text() == text("6")
    for empty in ("null", "{}"):
        path.write_text(text(empty))
        assert file.advance("imessage", 9, field="cursor") is None
        assert path.read_text() == text('{"cursor": 9}')
    assert [line["new"] for line in map(json.loads, (tmp_path / JOURNAL).read_text().splitlines())][-1] == {"cursor": 9}
    path.unlink()
    file.advance("imessage", 9, field="cursor")
    assert file.read() == {"imessage": {"cursor": 9}}


# The lock


@pytest.mark.parametrize(
    ("folder", "file", "lock"),
    [
        (0o755, None, 0o600), (0o775, None, 0o660), (0o777, None, 0o666),
        (0o1777, None, 0o666),  # the cursor file will be everybody's too
        (0o755, 0o644, 0o600), (0o755, 0o664, 0o660), (0o755, 0o666, 0o666),
        (0o775, 0o644, 0o660),  # who may write the directory may replace the file
        (0o1777, 0o644, 0o600), (0o1777, 0o664, 0o660),  # a sticky one lets nobody replace what is another's
    ],
)  # fmt: skip
def test_only_who_may_write_the_file_may_lock(tmp_path: Path, folder: int, file: int | None, lock: int) -> None:
    path = tmp_path / "in/cursors.json"
    path.parent.mkdir()
    if file is not None:
        path.write_text("{}")
        path.chmod(file)
    path.parent.chmod(folder)
    before = os.umask(0o077)  # says nothing: the lock is shared
    try:
        CursorFile(path).advance("a", 1)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "in" / LOCK).stat().st_mode) == lock and names_in(tmp_path / "in") == FILES
    (tmp_path / "in" / LOCK).chmod(0o640)  # one that is there keeps its mode
    CursorFile(path).advance("a", 2)
    assert stat.S_IMODE((tmp_path / "in" / LOCK).stat().st_mode) == 0o640


@contextmanager
def held(lock: Path) -> Iterator[None]:
    with open(lock, "r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@pytest.mark.parametrize("said", ["", "999999999", "{pid}"])
def test_a_lock_that_is_not_free_in_time_names_its_holder(tmp_path: Path, said: str) -> None:
    assert inspect.signature(CursorFile).parameters["timeout"].default == 10
    file = CursorFile(tmp_path / "cursors.json", timeout=3600)
    file.advance("a", 1)
    (tmp_path / LOCK).write_text(said.format(pid=os.getpid()))
    with held(tmp_path / LOCK), pytest.raises(LockTimedOut) as caught:
        file.advance("a", 2, timeout=0.01)
    message = str(caught.value)
    assert f"{LOCK} beside it was not free within 0.01 s: held by pid {os.getpid()} (" in message
    assert message.endswith("; end that process, or try again; nothing was stored")
    assert ("though the file names pid 999999999" in message) == (said == "999999999")
    assert ("though" in message) == (said == "999999999")
    assert file.advance("a", 2) == 1


@pytest.mark.parametrize("name", ["cursors.json", "cursors/a.json"])
def test_locks_that_were_given_up_are_a_problem_also_where_nothing_else_was_changed_yet(tmp_path: Path, name: str) -> None:
    Spool.create(tmp_path).close()
    file = CursorFile(tmp_path / name)
    Path(file.path).parent.mkdir(exist_ok=True)
    for number in range(30):
        file.advance("a", number)
    with held(Path(file.path).parent / LOCK):
        for _ in range(10):
            with pytest.raises(LockTimedOut):
                file.advance("a", 0, timeout=0)
    with open_control(str(tmp_path), watch=False) as control:
        [problem] = [one for one in control.look().problems if one.code == "lock-failures"]
    assert "10 of 40" in problem.text
    assert not (tmp_path / ".spooltop").exists()


# The end


def test_a_closed_cursor_file_says_so(tmp_path: Path) -> None:
    with CursorFile(tmp_path / "cursors.json") as file:
        file.advance("a", 1)
    file.close()
    for method in (file.read, lambda: file.advance("a", 2)):
        with pytest.raises(Closed, match=r"cursors.json: this CursorFile is closed; open it again"):
            method()
    assert CursorFile(tmp_path / "cursors.json").read() == {"a": 1}


def test_owner_and_mode_are_kept_and_lock_and_journal_have_the_same_owner(tmp_path: Path) -> None:
    path = tmp_path / "cursors.json"
    path.write_text("{}")
    path.chmod(0o640)
    if os.geteuid() == 0:
        for owned in (tmp_path, path):
            os.chown(owned, 4711, 4712)
    before = path.stat()
    CursorFile(path).advance("a", 1)
    after = path.stat()
    assert (after.st_uid, after.st_gid, stat.S_IMODE(after.st_mode)) == (before.st_uid, before.st_gid, 0o640)
    assert after.st_ino != before.st_ino
    assert {(made.stat().st_uid, made.stat().st_gid) for made in tmp_path.iterdir()} == {(before.st_uid, before.st_gid)}


def advance(path: Path, source: str) -> None:
    file = CursorFile(path)
    for number in range(200):
        file.advance(source, number + 1, expect=number or None)


def advance_by_a_helper(path: Path, source: str) -> None:
    """Advances as a poller does that has its own helper."""
    for number in range(200):
        with open(path.with_name(LOCK), "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            sections = json.loads(path.read_text())
            assert sections.get(source, 0) == number
            path.with_suffix(".helper").write_text(json.dumps(sections | {source: number + 1}))
            path.with_suffix(".helper").replace(path)


def test_four_pollers_lose_no_update(tmp_path: Path) -> None:
    path = tmp_path / "cursors.json"
    path.write_text("{}")
    work = [(advance, "a"), (advance, "b"), (advance, "c"), (advance_by_a_helper, "d")]
    pollers = [get_context("fork").Process(target=poll, args=(path, source)) for poll, source in work]
    for poller in pollers:
        poller.start()
    for poller in pollers:
        poller.join()
    assert [poller.exitcode for poller in pollers] == [0] * 4
    assert CursorFile(path).read() == {"a": 200, "b": 200, "c": 200, "d": 200}
    lines = [json.loads(line) for line in (tmp_path / JOURNAL).read_text().splitlines()]
    assert len(lines) == 600 and [line["new"] for line in lines if line["source"] == "a"] == list(range(1, 201))


def test_the_journal_keeps_its_newest_half_and_stays_below_its_limit(tmp_path: Path, clock: Clock) -> None:
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
    assert sorted(os.listdir(tmp_path)) == FILES


@pytest.mark.parametrize("operation", ["write", "sync", "replace"])
def test_a_failed_write_leaves_the_old_file_and_no_litter(tmp_path: Path, operation: str) -> None:
    path = tmp_path / "cursors.json"
    CursorFile(path).advance("a", 1)
    with pytest.raises(SpoolFull, match="no space"):
        CursorFile(path, files=failing(operation, errno.ENOSPC)).advance("a", 2)
    assert CursorFile(path).read() == {"a": 1} and names_in(tmp_path) == FILES


def test_a_full_disk_for_the_journal_does_not_unsay_the_cursor(tmp_path: Path) -> None:
    def fail(_number: int, name: str) -> None:
        if name == "write" and files.calls.count("write") == 2:
            raise OSError(errno.ENOSPC, "full")

    files = Interposed(fail)
    file = CursorFile(tmp_path / "cursors.json", files=files)
    file.advance("a", 1)
    assert file.read() == {"a": 1} and (tmp_path / JOURNAL).read_bytes() == b""
