"""Names are packed and listed whole; a scan happens when something changed and not before it is due."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spooltop.backends.directory.scan import getdents
from spooltop.backends.directory.scan.packed_names import CHUNK, PackedNames
from spooltop.backends.directory.scan.scan import BoxScan, scan_box
from spooltop.backends.directory.scan.scheduler import BoxScanner
from spooltop.backends.directory.world import World

HOSTILE = [b"[red]x[bold]", b"a\x1b[31mb", b"two\nlines", b"\xff\xfe", b"2026-11-21T02:41:09.json", b"n" * 255, b",n=1", b":2,P1",
           b"~", b" "]  # fmt: skip


class Steps:
    """A monotonic clock that is moved by hand."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def box(tmp_path: Path) -> Path:
    return tmp_path


def opened(path: Path) -> int:
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY)


def old(path: Path) -> None:
    """Makes the directory's mtime one that no coarse clock can confuse with now."""
    os.utime(path, (1_000_000_000, 1_000_000_000))


NAMES = st.binary(min_size=1, max_size=20).filter(lambda name: b"/" not in name and b"\0" not in name)


@given(st.lists(NAMES, max_size=3 * CHUNK))
def test_packed_names_come_back_as_they_were(raw: list[bytes]) -> None:
    names = PackedNames()
    for name in raw:
        names.append(os.fsdecode(name))
    assert len(names) == len(raw)
    assert [os.fsencode(name) for name in names] == raw
    assert [os.fsencode(names[place]) for place in range(len(raw))] == raw


@pytest.mark.parametrize("length", [lambda n: 3, lambda n: n % 3, lambda n: n == 300], ids=["one", "several", "one differs"])
def test_a_sample_of_packed_names_is_that_of_a_list(length: Callable[[int], int]) -> None:
    raw = [b"%04d%s" % (n, b"x" * length(n)) for n in range(3 * CHUNK - 7)]
    names = PackedNames()
    names.extend(raw)
    assert [os.fsencode(name) for name in names.sample(range(len(raw)))] == raw


@pytest.mark.parametrize(
    "names",
    [
        [], [b"a"], [b".hidden"], [b"%016d.x" % n for n in range(300)], [b"%016d.x" % n for n in range(3000)],
        [b"%016d.%s" % (n, b"x" * (1 + n % 4)) for n in range(300)],
        [b"%016d.%s" % (n, b"x" * (1 + n % 90)) for n in range(300)],
        [*(b"%016d.x" % n for n in range(300)), b"another"],
        [*(b"%016d.%s" % (n, b"x" * (1 + n % 90)) for n in range(300)), b"x\x08%016d.x" % 5, b"\x08%016d.x" % 5],
    ],
    ids=[
        "empty", "one", "hidden", "alike", "several blocks", "one length of entries", "several lengths", "one without a time",
        "like an entry inside",
    ],
)  # fmt: skip
def test_the_entries_of_a_directory_are_its_names(box: Path, names: list[bytes]) -> None:
    for name in names:
        Path(box, os.fsdecode(name)).touch()
    fd = opened(box)
    found: list[bytes] = []
    types = b""
    for block in getdents.blocks(fd):
        of_block, types_of_block, timed = getdents.entries(block)
        assert not timed or all(name[:16].isdigit() and name[16:17] == b"." and len(name) <= timed for name in of_block)
        found += of_block
        types += types_of_block
    os.close(fd)
    assert sorted(name for name in found if name not in (b".", b"..")) == sorted(names)
    assert len(types) == len(found) and set(types) <= {getdents.REGULAR, getdents.OTHER, getdents.UNKNOWN}


def test_index_beyond_the_end() -> None:
    with pytest.raises(IndexError):
        PackedNames()[0]


def test_hostile_names_are_all_listed_and_dot_files_are_not(box: Path) -> None:
    for name in [*HOSTILE, b".hidden"]:
        Path(os.fsdecode(os.path.join(os.fsencode(box), name))).write_bytes(b"x")
    fd = opened(box)
    scan = scan_box(fd)
    os.close(fd)
    assert sorted(os.fsencode(name) for name in scan.names) == sorted(HOSTILE)
    assert scan.bytes == len(HOSTILE) and not scan.bytes_estimated
    assert os.fsdecode(b"n" * 255) in scan.irregular


def test_oldest_is_by_the_time_in_the_name_else_by_mtime(box: Path) -> None:
    (box / "1795220920446548.9155.vm").touch()
    (box / "1795220919.M781490P9155Q1.vm").touch()
    (box / "report.txt").touch()
    fd = opened(box)
    assert scan_box(fd).oldest_us == 1_795_220_919_781_490
    os.utime(box / "report.txt", (1_000, 1_000))
    cache: dict[str, int] = {}
    assert scan_box(fd, untimed=cache).oldest_name == "report.txt"
    assert cache == {"report.txt": 1_000_000_000}
    os.close(fd)


def test_what_is_no_plain_file_is_strange_and_counted(box: Path) -> None:
    os.mkfifo(box / "fifo")
    (box / "folder").mkdir()
    (box / "link").symlink_to("/etc/passwd")
    fd = opened(box)
    scan = scan_box(fd)
    os.close(fd)
    assert sorted(scan.irregular) == ["fifo", "folder", "link"] == sorted(scan.names)


def test_bytes_of_many_are_estimated(box: Path) -> None:
    for number in range(300):
        (box / f"{number}").write_bytes(b"1234")
    fd = opened(box)
    scan = scan_box(fd)
    os.close(fd)
    assert (scan.bytes, scan.bytes_estimated) == (1_200, True)


def test_unchanged_directory_is_not_listed_again(box: Path) -> None:
    steps = Steps()
    scanner = BoxScanner(World(monotonic=steps))
    old(box)
    fd = opened(box)
    first = scanner.look(fd)
    steps.now += 1_000
    assert scanner.look(fd) is first and scanner.due is None
    assert scanner.look(fd, force=True) is not first
    os.close(fd)


@pytest.mark.parametrize("changes", [False, True])
def test_a_directory_that_changes_while_it_is_listed_is_due_again(box: Path, changes: bool) -> None:
    class Known(dict[str, int]):
        def get(self, name: str, default: object = None) -> None:  # type: ignore[override]
            """Asked while the listing is under way."""
            if changes:
                (box / "1795220920000001.1.vm").touch()

    def scan(fd: int, **more: Any) -> BoxScan:
        return scan_box(fd, **{**more, "untimed": Known()})

    (box / "no time in its name").touch()
    old(box)
    scanner = BoxScanner(World(monotonic=Steps()), scan=scan)
    fd = opened(box)
    scanner.look(fd)
    os.close(fd)
    assert (scanner.due is not None) is changes


def test_a_change_waits_until_it_is_due(box: Path) -> None:
    steps = Steps()
    scanner = BoxScanner(World(monotonic=steps), least=1.0)
    old(box)
    fd = opened(box)
    first = scanner.look(fd)
    (box / "a").touch()
    steps.now += 0.5
    assert scanner.look(fd) is first
    assert scanner.due == 101.0
    steps.now = scanner.due
    assert list(scanner.look(fd).names) == ["a"]
    os.close(fd)


@pytest.mark.parametrize(("unseen", "due"), [(False, 104.0), (True, 140.0)], ids=["here", "on a server"])
def test_a_listing_that_was_held_up_makes_the_next_no_later_but_where_a_server_does_the_work(
    box: Path, unseen: bool, due: float
) -> None:
    steps = Steps()
    scanner = BoxScanner(
        World(monotonic=steps), scan=lambda fd, **more: replace(scan_box(fd, **more), duration=2.0, effort=0.2)
    )
    old(box)
    fd = opened(box)
    first = scanner.look(fd, unseen=unseen)
    (box / "a").touch()
    assert scanner.look(fd, unseen=unseen) is first
    os.close(fd)
    assert scanner.due == due


def test_a_fresh_mtime_is_not_trusted_to_tell_the_next_change(box: Path) -> None:
    steps = Steps()
    scanner = BoxScanner(World(monotonic=steps))
    os.utime(box, (4_000_000_000, 4_000_000_000))
    fd = opened(box)
    scanner.look(fd)
    assert scanner.due is not None
    (box / "a").touch()
    os.utime(box, (4_000_000_000, 4_000_000_000))
    steps.now = scanner.due
    assert len(scanner.look(fd).names) == 1
    os.close(fd)


def test_where_changes_are_not_seen_time_tells_when_to_list(box: Path) -> None:
    steps = Steps()
    scanner = BoxScanner(World(monotonic=steps))
    (box / "a").touch()
    old(box)
    fd = opened(box)
    first = scanner.look(fd, unseen=True)
    steps.now += scanner.period
    again = scanner.look(fd, unseen=True)
    assert again.number == first.number and again.as_of > first.as_of
    (box / "b").touch()
    old(box)
    steps.now += scanner.period - 0.1
    assert scanner.look(fd, unseen=True) is again
    steps.now += 0.1
    assert len(scanner.look(fd, unseen=True).names) == 2
    os.close(fd)


def test_another_directory_is_listed_at_once(box: Path) -> None:
    (box / "one").mkdir()
    (box / "two").mkdir()
    (box / "two" / "m").touch()
    scanner = BoxScanner(World(monotonic=Steps()))
    one, two = opened(box / "one"), opened(box / "two")
    assert len(scanner.look(one).names) == 0
    assert len(scanner.look(two).names) == 1
    os.close(one)
    os.close(two)


def test_a_missing_box_is_a_state() -> None:
    scanner = BoxScanner(World(monotonic=Steps()))
    scan = scanner.look(None, missing="tmp is missing")
    assert (scan.error, scan.complete) == ("tmp is missing", False)
    assert scanner.look(None, missing="tmp is missing") is scan


OWN = st.from_regex(rb"\A1[0-9]{15}\.P[0-9]{1,9}R[0-9a-f]{16}\.[a-z]{1,40}(,s=[a-z]{1,9})?\Z")


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.one_of(OWN, NAMES), max_size=60, unique=True), st.lists(OWN, min_size=1, max_size=60, unique=True))
def test_listed_in_blocks_or_one_by_one_it_is_the_same(mixed: list[bytes], own: list[bytes]) -> None:
    for names in (mixed, own):
        with tempfile.TemporaryDirectory() as folder:
            for name in names:
                if name not in (b".", b".."):
                    os.close(os.open(os.path.join(os.fsencode(folder), name), os.O_CREAT))
            os.mkdir(f"{folder}/1795220919781490.directory")
            fd = opened(Path(folder))
            scan = scan_box(fd, ids={os.fsdecode(names[0]).partition(",")[0]} if names else set())
            os.close(fd)
            there = sorted(os.fsencode(name) for name in os.listdir(folder) if not name.startswith("."))
            assert sorted(map(os.fsencode, scan.names)) == there
            assert "1795220919781490.directory" in scan.irregular
            if names is own:
                first = names[0].partition(b",")[0]
                assert scan.oldest_us == min(int(name[:16]) for name in own)
                assert sorted(map(os.fsencode, scan.duplicates)) == sorted(n for n in own if n.partition(b",")[0] == first)
