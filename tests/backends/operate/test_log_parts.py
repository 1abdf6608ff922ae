"""A journal that has become large continues in a new part, whatever ends the process or fails on the way."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from spooltop.backends.directory.events.operator_moves import OperatorMoves
from spooltop.backends.directory.operator.ended_parts import ended_parts
from spooltop.backends.directory.storage import folders
from spooltop.backends.journal import log_parts
from spooltop.backends.journal.append_log import AppendLog
from spooltop.backends.journal.log_files import LogFiles
from spooltop.backends.journal.log_lines import LogLines
from spooltop.backends.journal.log_parts import NextPart
from spooltop.backends.journal.log_store import SpoolLogs
from spooltop.engine.dirs import SpoolDirs
from spooltop.model.filters.selection import Selection
from spooltop.model.operations.plan import Outcome, Result
from spooltop.model.operations.progress import BATCH
from spooltop.model.vocabulary import Action, Box
from tests.bench.operations import write_journal
from tests.desk import Desk

from .tripwire import Tripwire, failed, killed

LOG = "journal.jsonl"
PARTS = ["journal.000001.jsonl", "journal.000002.jsonl"]


class Small(LogFiles):
    """Begins a part once there is a line."""

    rotate_at = 1


class SmallTrip(Tripwire):
    rotate_at = 1


class NoSwap(Small):
    def swap(self, name: str, dir_fd: int, to: str, to_fd: int) -> None:  # type: ignore[override]
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[int]:
    fd = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    yield fd
    os.close(fd)


def append(files: LogFiles, folder: int, line: bytes, carried: bytes | None = b"") -> None:
    log = AppendLog(files, folder, LOG, os.fstat(folder))
    log.append(line, following=None if carried is None else NextPart(lambda: carried))


def lines(folder: int, **more: Any) -> list[bytes]:
    return list(LogLines(LogFiles(), lambda: folder, LOG, **more))


def kept(path: Path) -> list[str]:
    return sorted(name for name in os.listdir(path) if not name.startswith("."))


def hold(desk: Desk, files: LogFiles, *names: str) -> Result:
    operations = desk.operations(files)
    return operations.apply(operations.plan(Action.HOLD, Selection(box=Box.NEW, ids=names)))


def undo(desk: Desk, operation: str, files: LogFiles | None = None) -> Result:
    operations = desk.operations(files)
    return operations.apply(operations.plan(Action.UNDO, Selection(), options={"undoes": operation}))


@pytest.mark.parametrize("files", [Small(), NoSwap()], ids=["swap", "rename"])
def test_the_parts_of_a_log_are_read_as_one_newest_first(tmp_path: Path, folder: int, files: LogFiles) -> None:
    for line in (b"1\n", b"2\n", b"3\n"):
        append(files, folder, line)
    assert kept(tmp_path) == [*PARTS, LOG]
    assert lines(folder) == [b"3", b"2", b"1"]
    assert lines(folder, latest=2) == [b"3", b"2"]


def test_a_part_begins_with_what_is_carried_into_it(tmp_path: Path, folder: int) -> None:
    append(Small(), folder, b"1\n")
    append(Small(), folder, b"2\n", b"carried\n")
    assert (tmp_path / LOG).read_bytes() == b"carried\n2\n" and (tmp_path / PARTS[0]).read_bytes() == b"1\n"
    append(Small(), folder, b"3\n", None)
    assert kept(tmp_path) == [PARTS[0], LOG]


def test_a_part_has_owner_and_mode_of_the_log(tmp_path: Path, folder: int) -> None:
    os.chmod(tmp_path, 0o750)
    for line in (b"1\n", b"2\n"):
        append(Small(), folder, line)
    assert {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in kept(tmp_path)} == {0o640}


def test_a_line_that_was_written_to_a_part_is_written_to_the_newest_as_well(tmp_path: Path, folder: int) -> None:
    class Between(Small):
        """Another operator begins a part after this one has opened the log."""

        others = 1

        def write(self, fd: int, data: bytes) -> int:  # type: ignore[override]
            while self.others:
                self.others -= 1
                append(Small(), folder, b"other\n")
            return os.write(fd, data)

    append(Small(), folder, b"1\n")
    append(Between(), folder, b"2\n", None)
    assert (tmp_path / PARTS[0]).read_bytes() == b"1\n2\n"
    assert (tmp_path / LOG).read_bytes() == b"other\n2\n"


def test_of_two_that_begin_a_part_one_does(tmp_path: Path, folder: int) -> None:
    class Late(Small):
        """Another operator has begun a part when this one gets the lock."""

        def lock_write(self, fd: int, *, wait: bool = False) -> bool:
            append(Small(), folder, b"other\n")
            return super().lock_write(fd, wait=wait)

    class Busy(Small):
        def lock_write(self, fd: int, *, wait: bool = False) -> bool:
            return False

    append(Small(), folder, b"1\n")
    append(Late(), folder, b"2\n")
    assert lines(folder) == [b"2", b"other", b"1"] and kept(tmp_path) == [PARTS[0], LOG]
    append(Busy(), folder, b"3\n")
    assert lines(folder) == [b"3", b"2", b"other", b"1"] and kept(tmp_path) == [PARTS[0], LOG]


def test_what_begins_while_it_is_read_is_not_mixed_with_what_is_older(folder: int) -> None:
    class Slow(LogFiles):
        def list(self, dir_fd: int) -> list[str]:
            append(Small(), folder, b"3\n")
            append(Small(), folder, b"4\n")
            return super().list(dir_fd)

    for line in (b"1\n", b"2\n"):
        append(Small(), folder, line)
    assert list(LogLines(Slow(), lambda: folder, LOG)) == [b"2", b"1"]


@pytest.mark.parametrize("operation", ["create", "reserve", "swap", "sync_dir", "unlink", "lock_write"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EDQUOT, errno.EPERM, errno.ENOLCK])
def test_a_log_whose_part_cannot_begin_goes_on_as_it_is(folder: int, operation: str, code: int) -> None:
    append(Small(), folder, b"1\n")

    class Fails(Small):
        pass

    def fail(*_arguments: object, **_options: object) -> None:
        raise OSError(code, os.strerror(code))

    setattr(Fails, operation, staticmethod(fail))
    append(Fails(), folder, b"2\n")
    assert lines(folder) == [b"2", b"1"]


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_a_swap_that_is_done_and_yet_reported_as_failed_loses_no_line(folder: int, code: int) -> None:
    class Server(Small):
        def swap(self, name: str, dir_fd: int, to: str, to_fd: int) -> None:
            super().swap(name, dir_fd, to, to_fd)
            raise OSError(code, os.strerror(code))

    append(Small(), folder, b"1\n")
    with suppress(OSError):
        append(Server(), folder, b"2\n")
    assert lines(folder)[-1] == b"1"
    append(LogFiles(), folder, b"3\n")
    assert lines(folder)[0] == b"3" and lines(folder)[-1] == b"1"


def test_only_so_many_parts_are_kept(tmp_path: Path, folder: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_parts, "MOST_PARTS", 2)
    for number in range(6):
        append(Small(), folder, b"%d\n" % number)
    assert lines(folder) == [b"5", b"4", b"3"]
    assert kept(tmp_path) == ["journal.000004.jsonl", "journal.000005.jsonl", LOG]


@pytest.mark.parametrize("swaps", [True, False], ids=["swap", "rename"])
def test_killed_at_any_call_a_log_that_continues_loses_no_line(tmp_path: Path, folder: int, swaps: bool) -> None:
    class Cut(SmallTrip):
        def swap(self, *names: Any) -> None:
            if not swaps:
                raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
            LogFiles.swap(*names)

    def run(trip: Tripwire) -> None:
        files = Cut(trip.at, trip.act, seen=trip.seen)
        files.armed = True
        append(files, folder, b"2\n", b"carried\n")

    ended, at = False, 0
    while not ended:
        at += 1
        for name in os.listdir(tmp_path):
            (tmp_path / name).unlink()
        append(LogFiles(), folder, b"1\n", None)
        ended = killed(at, run, old=False)
        written = lines(folder)
        assert written[-1] == b"1" or written[-1:] == [b"carried"], (at, written)
        assert b"1" in written and set(written) <= {b"1", b"2", b"carried"}, (at, written)
        append(Small(), folder, b"3\n", b"")
        assert lines(folder)[0] == b"3" and b"1" in lines(folder)
    assert at > 8 and b"2" in written


def test_operations_are_listed_and_undone_across_parts(desk: Desk) -> None:
    for name in "abc":
        desk.put(name)
    done = [hold(desk, Small(), name).operation for name in "abc"]
    assert sorted(path.name for path in (desk.path / ".spooltop").glob("journal*")) == [*PARTS, LOG]
    assert [record.operation for record in desk.operations().records()] == done[::-1]
    back = undo(desk, done[0], Small())
    assert back.count(Outcome.DONE) == 1 and desk.names(Box.NEW) == ["a"]
    records = {record.operation: record for record in desk.operations().records()}
    assert [records[one].undone_by for one in done] == [back.operation, None, None]


def test_moves_that_were_announced_before_a_part_began_are_no_flow(desk: Desk) -> None:
    for name in "abcde":
        desk.put(name)
    moves = OperatorMoves(str(desk.state))
    hold(desk, LogFiles(), "a")
    with SpoolDirs(desk.path) as dirs:
        moves.look(dirs)
        hold(desk, LogFiles(), "b")
        for name in "cd":
            hold(desk, Small(), name)
        moves.look(dirs)
        hold(desk, LogFiles(), "e")
        moves.look(dirs)
    assert moves.out_of_new == dict.fromkeys("bcde", 1)


def test_of_many_moves_the_newest_are_remembered(desk: Desk) -> None:
    moves = OperatorMoves(str(desk.state))
    with SpoolDirs(desk.path) as dirs:
        moves.look(dirs)
        write_journal(desk.path, 1, 102_500)
        moves.look(dirs)
    assert len(moves.out_of_new) == 100_000
    assert [name[:16] for name in (next(iter(moves.out_of_new)), next(reversed(moves.out_of_new)))] == [
        f"{1795222800000000 + number:016d}" for number in (2_500, 102_499)
    ]


def test_a_line_that_nests_too_deep_announces_no_moves(desk: Desk) -> None:
    desk.put("a")
    hold(desk, LogFiles(), "a")
    moves = OperatorMoves(str(desk.state))
    with SpoolDirs(desk.path) as dirs:
        moves.look(dirs)
        with open(desk.path / ".spooltop" / LOG, "ab") as log:
            log.write(b'{"line":"intent","moves":' + b"[" * 100_000 + b"\n")
        moves.look(dirs)
    assert moves.out_of_new == {}


@pytest.mark.parametrize("small", [Small, NoSwap], ids=["swapped", "renamed"])
def test_an_interrupted_batch_is_found_however_many_parts_have_begun_since(desk: Desk, small: type[Small]) -> None:
    for name in "abcd":
        desk.put(name)
    hold(desk, small(), "a")
    journal = desk.path / ".spooltop" / LOG
    intent, _ = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(intent)
    [held] = (desk.path / ".spooltop" / "held").glob("*/a")
    os.link(held, desk.path / "new" / "a")  # it was made by link and unlink, and killed between the two
    busy = desk.operator(small())
    busy._interrupted = lambda dirs: []  # it began before that
    for name in "bcd":
        operations = desk.operations(small())
        operations._operator = busy
        operations.apply(operations.plan(Action.HOLD, Selection(box=Box.NEW, ids=(name,))))
    assert len(list((desk.path / ".spooltop").glob("journal*"))) == 4
    desk.put("e")
    hold(desk, LogFiles(), "e")
    assert not held.exists() and desk.names(Box.NEW) == ["a"]


def journals(desk: Desk) -> list[str]:
    return sorted(path.name for path in (desk.path / ".spooltop").glob("journal*"))


def test_a_part_goes_once_nothing_in_it_can_be_undone(desk: Desk) -> None:
    for name in "abcdef":
        desk.put(name)
    done = [hold(desk, Small(), name).operation for name in "abcd"]
    assert len(journals(desk)) == 4
    (desk.path / ".spooltop" / "held" / done[1] / "b").unlink()
    hold(desk, Small(), "e")
    assert journals(desk) == ["journal.000001.jsonl", "journal.000003.jsonl", "journal.000004.jsonl", LOG]
    listed = [record.operation for record in desk.operations().records()]
    assert done[1] not in listed and {done[0], done[2], done[3]} < set(listed)
    assert undo(desk, done[0], Small()).count(Outcome.DONE) == 1
    hold(desk, Small(), "f")
    assert journals(desk)[0] == "journal.000003.jsonl"  # of the first nothing is left to undo


def test_looking_for_parts_that_may_go_closes_no_folder_of_the_operation_in_progress(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A descriptor that is closed meanwhile is given to another folder, and messages would go there."""
    monkeypatch.setattr(folders, "_KEPT", 1)
    for name in "abc":
        desk.put(name)
    done = [hold(desk, Small(), name).operation for name in "abc"]
    held = desk.path / ".spooltop" / "held"
    for operation, name in zip(done, "ab", strict=False):
        (held / operation / name).unlink()
    with SpoolDirs(desk.path) as dirs, closing(SpoolLogs(dirs, LogFiles())) as logs:
        in_use = {operation: dirs.private_dir("held", operation) for operation in done}
        assert list(ended_parts(dirs, logs, PARTS)) == PARTS
        for operation, fd in in_use.items():
            assert fd is not None and os.path.samestat(os.fstat(fd), os.stat(held / operation))


def test_an_operation_of_which_a_part_went_is_not_called_interrupted(desk: Desk) -> None:
    for number in range(BATCH + 1):
        desk.put(f"m{number:05}")
    done = hold(desk, Small(), *(f"m{number:05}" for number in range(BATCH + 1))).operation
    assert journals(desk) == [PARTS[0], LOG]
    for number in range(BATCH):
        (desk.path / ".spooltop" / "held" / done / f"m{number:05}").unlink()
    for name in "ab":
        desk.put(name)
        hold(desk, Small(), name)
    assert journals(desk) == ["journal.000002.jsonl", "journal.000003.jsonl", LOG]
    record = next(record for record in desk.operations().records() if record.operation == done)
    assert (record.open, record.done, record.count, record.why_not_undo) == (False, 1, BATCH + 1, None)
    assert record.words == "hold 1001; 1,000 of them can no longer be undone"
    assert undo(desk, done).count(Outcome.DONE) == 1


@pytest.mark.parametrize("code", [errno.EIO, errno.EACCES, errno.EMFILE])
def test_a_part_whose_messages_cannot_be_seen_stays(desk: Desk, code: int) -> None:
    class Blind(Small):
        def open_dir(self, name: str, dir_fd: int | None = None, *, follow: bool = False) -> int:
            if name == held:
                raise OSError(code, os.strerror(code))
            return super().open_dir(name, dir_fd, follow=follow)

    for name in "abcd":
        desk.put(name)
    held = hold(desk, Small(), "a").operation
    for name in "bcd":
        hold(desk, Blind(), name)
    assert PARTS[0] in journals(desk)


def test_a_part_that_undoes_what_an_earlier_one_did_stays_with_it(desk: Desk) -> None:
    for name in "abcd":
        desk.put(name)
    held = hold(desk, Small(), "a", "b").operation
    (desk.path / ".spooltop" / "held" / held / "b").rename(desk.path / "kept")
    undone = undo(desk, held, Small()).operation
    (desk.path / "kept").rename(desk.path / ".spooltop" / "held" / held / "b")
    (desk.path / "new" / "a").unlink()
    hold(desk, Small(), "c")
    hold(desk, Small(), "d")
    assert journals(desk) == [*PARTS, "journal.000003.jsonl", LOG]
    plan = desk.operations().plan(Action.UNDO, Selection(), options={"undoes": held})
    assert plan.notes[0] == "1 of 2 undone already." and [item.name for item in plan.items] == ["b"]
    (desk.path / ".spooltop" / "held" / held / "b").unlink()
    desk.put("e")
    hold(desk, Small(), "e")
    assert undone not in [record.operation for record in desk.operations().records()]


@pytest.mark.parametrize("place", ["new", "cur", "gone"])
def test_a_part_with_a_requeue_is_kept_while_its_message_waits(desk: Desk, place: str) -> None:
    for name in "cde":
        desk.put(name)
    desk.put("a:2,P1", box=Box.CUR)
    operations = desk.operations(Small())
    operations.apply(operations.plan(Action.REQUEUE, Selection(box=Box.CUR, everything=True), force=True))
    waiting = desk.path / "new" / "a"
    if place == "cur":
        waiting.rename(desk.path / "cur" / "a:2,P2")
    elif place == "gone":
        waiting.unlink()
    for name in "cde":
        hold(desk, Small(), name)
    assert (PARTS[0] in journals(desk)) is (place == "new")


@pytest.mark.parametrize("refused", [errno.EACCES, errno.EPERM])
def test_a_part_of_another_user_in_a_sticky_directory_stays(
    tmp_path: Path, folder: int, refused: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_parts, "MOST_PARTS", 1)

    class Sticky(Small):
        def unlink(self, name: str, dir_fd: int) -> None:
            if name == PARTS[0]:
                raise OSError(refused, os.strerror(refused))
            super().unlink(name, dir_fd)

    for line in (b"1\n", b"2\n", b"3\n"):
        append(Sticky(), folder, line)
    assert lines(folder) == [b"3", b"2", b"1"]


def three_parts(desk: Desk) -> list[str]:
    """Holds that are in a part each, of which the second is no longer needed."""
    for name in "abcd":
        desk.put(name, name)
    done = [hold(desk, Small(), name).operation for name in "abc"]
    (desk.path / ".spooltop" / "held" / done[1] / "b").unlink()
    (desk.path / ".spooltop" / "held" / done[1] / ".b.meta").unlink()
    return done


def can_undo(desk: Desk, operation: str) -> bool:
    """True where a plan to undo it has its message; the copy that a sweep works on is another file."""
    plan = desk.operations().plan(Action.UNDO, Selection(), options={"undoes": operation})
    return [refusal.reason for refusal in plan.refused] == ["held has another file of that name now"]


def small(trip: Tripwire) -> Tripwire:
    files = SmallTrip(trip.at, trip.act, seen=trip.seen)
    files.armed = True
    return files


def test_killed_at_any_call_an_operation_that_begins_a_part_can_be_finished(desks: Any) -> None:
    made, at, ended = desks(three_parts), 0, False
    while not ended:
        at += 1
        desk = made.another()
        ended = killed(at, lambda trip, desk=desk: hold(desk, small(trip), "d"), old=False)
        records = {record.operation: record for record in desk.operations().records()}
        assert {made.prepared[0], made.prepared[2]} <= set(records), at
        assert len(desk.census()["d"]) == 1, at
        if desk.names(Box.NEW) == ["d"]:
            hold(desk, Small(), "d")
        assert desk.names(Box.NEW) == [] and len(desk.census()["d"]) == 1, at
        newest = desk.operations().records()[0]
        assert (newest.action, newest.count) == (Action.HOLD, 1)
        assert can_undo(desk, made.prepared[0]), at
    assert at > 15


@pytest.mark.parametrize("code", [errno.ENOSPC, pytest.param(errno.EIO, marks=pytest.mark.long)])
def test_whatever_fails_while_a_part_begins_no_operation_is_lost(desks: Any, code: int) -> None:
    def run(files: Tripwire, tell: object) -> Result:
        files.count = 0
        trip = SmallTrip(files.at, files.act, seen=files.seen)
        trip.armed = True
        try:
            return hold(desk, trip, "d")
        finally:
            files.count = trip.count

    made, at, over = desks(three_parts), 0, False
    while not over:
        at += 1
        desk = made.another()
        _, over = failed(at, code, run)
        records = {record.operation for record in desk.operations().records()}
        assert {made.prepared[0], made.prepared[2]} <= records and len(desk.census()["d"]) == 1, at
        assert can_undo(desk, made.prepared[0]), at
    assert at > 15
