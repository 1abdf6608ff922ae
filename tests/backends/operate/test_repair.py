"""Only one process repairs at a time, and another that finds the repair under way goes on without it."""

from __future__ import annotations

import fcntl
import os
import stat

import pytest

from spooltop.backends.journal.log_files import LogFiles
from spooltop.errors import SpooltopError
from spooltop.model.filters.selection import Selection
from spooltop.model.operations.plan import Outcome
from spooltop.model.vocabulary import Action, Box, Verdict

ALL = Selection(everything=True)


def half_moved(desk):
    """A claim whose move back to ``new`` was cut off between link and unlink, and another claim; what the first is called."""
    [claim] = desk.claim_and_die(desk.put(desk.id(1)))
    os.link(desk.path / "cur" / claim, desk.path / "new" / f"{desk.id(1)},n=1")
    desk.claim_and_die(desk.put(desk.id(2)))
    return claim


def requeue_second(desk):
    operations = desk.operations()
    return operations.apply(operations.plan(Action.REQUEUE, Selection(ids=(desk.id(2),))))


@pytest.fixture
def lock(desk):
    (desk.path / ".spooltop").mkdir(exist_ok=True)
    return desk.path / ".spooltop" / "repair.lock"


def test_the_lock_is_made_by_the_first_repair_and_stays(desk, lock):
    requeue_second(desk)
    assert not lock.exists()
    desk.put("next:2,P4242", box=Box.CUR)
    half_moved(desk)
    os.chmod(desk.path / "new", 0o770)
    assert requeue_second(desk).count(Outcome.DONE) == 1
    assert desk.names(Box.CUR) == ["next:2,P4242"]
    assert stat.S_IMODE(lock.stat().st_mode) == 0o660
    assert lock.read_bytes() == b""


def test_who_finds_the_lock_taken_leaves_the_repair_to_the_other(desk, lock):
    claim = half_moved(desk)
    with open(lock, "wb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert requeue_second(desk).count(Outcome.DONE) == 1
        assert desk.names(Box.CUR) == [claim]
    desk.put("next:2,P4242", box=Box.CUR)
    operations = desk.operations()
    operations.apply(operations.plan(Action.REQUEUE, Selection(ids=("next",))))
    assert desk.names(Box.CUR) == []


def test_who_finds_the_lock_taken_finishes_the_half_move_that_was_asked_for(desk, lock):
    os.link(desk.path / "cur" / desk.put("job:2,P4242", box=Box.CUR), desk.path / "new" / "job")
    operations = desk.operations()
    plan = operations.plan(Action.REQUEUE, Selection(ids=("job",)))
    with open(lock, "wb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        [item] = operations.apply(plan).items
    assert (item.outcome, item.reason) == (Outcome.DONE, "")
    assert (desk.names(Box.CUR), desk.names(Box.NEW)) == ([], ["job"])


@pytest.mark.parametrize("planted", ["fifo", "link", "hard link"])
def test_something_else_in_place_of_the_lock_ends_the_change_before_it_begins(desk, lock, tmp_path, planted):
    claim = half_moved(desk)
    other = tmp_path / "other"
    other.write_text("mine")
    match planted:
        case "fifo":
            os.mkfifo(lock)
        case "link":
            lock.symlink_to(other)
        case "hard link":
            lock.hardlink_to(other)
    with pytest.raises(SpooltopError):
        requeue_second(desk)
    assert claim in desk.names(Box.CUR)
    assert other.read_text() == "mine"


def test_evidence_is_read_again_once_a_batch_and_never_where_a_lock_tells(desk):
    asked = []

    def again(box, names):
        asked.append((box, len(names)))
        return desk.again(box, names)

    desk.claim_and_die(*(desk.put(desk.id(number)) for number in range(3)))
    operations = desk.operations(again=again)
    assert operations.apply(operations.plan(Action.REQUEUE, ALL)).count(Outcome.DONE) == 3
    assert asked == []
    for number in range(5):
        desk.put(f"job{number}:2,P4242", box=Box.CUR)
    plan = operations.plan(Action.REQUEUE, ALL, options={"rate": 2})
    assert operations.apply(plan).count(Outcome.DONE) == 5
    assert asked == [(Box.CUR, 2), (Box.CUR, 2), (Box.CUR, 1)]


def test_half_moves_cost_one_look_however_many_they_are(desk):
    asked = []

    def again(box, names):
        asked.append(len(names))
        return desk.again(box, names)

    for number in range(4):
        desk.put(f"job{number}:2,P4242", box=Box.CUR)
        os.link(desk.path / "cur" / f"job{number}:2,P4242", desk.path / "new" / f"job{number}")
    desk.put("last", box=Box.NEW)
    operations = desk.operations(again=again)
    operations.apply(operations.plan(Action.PURGE, Selection(ids=("last",))))
    assert asked == [4]


@pytest.mark.parametrize("claims", [3, 100])
def test_a_half_move_is_finished_however_many_claims_stand_around_it(desk, claims):
    for number in range(claims):
        desk.put(f"job{number}:2,P4242", box=Box.CUR)
    os.link(desk.path / "cur" / "job1:2,P4242", desk.path / "new" / "job1")
    os.link(desk.path / "cur" / "job2:2,P4242", desk.path / "beside")  # a second name, but none in new
    desk.verdicts = dict.fromkeys(os.listdir(desk.path / "cur"), Verdict.DEAD)
    desk.put("last", box=Box.NEW)
    operations = desk.operations()
    operations.apply(operations.plan(Action.PURGE, Selection(ids=("last",))))
    left = desk.names(Box.CUR)
    assert "job1:2,P4242" not in left
    assert len(left) == claims - 1
    assert desk.names(Box.NEW) == ["job1"]


@pytest.mark.parametrize("verdict", [Verdict.ALIVE, Verdict.UNKNOWN])
def test_a_half_move_of_a_holder_that_may_live_is_left_alone(desk, verdict):
    """Its consumer may still be about to end it."""
    desk.verdicts["job:2,P4242"] = verdict
    desk.put("job:2,P4242", box=Box.CUR)
    os.link(desk.path / "cur" / "job:2,P4242", desk.path / "new" / "job")
    change(desk)
    assert "job:2,P4242" in desk.names(Box.CUR) and "job" in desk.names(Box.NEW)


@pytest.mark.parametrize("box", ["cur", "new"])
def test_a_half_move_that_somebody_else_went_on_with_meanwhile_is_left_alone(desk, box):
    """Its name leads to another message by now."""
    desk.verdicts["job:2,P4242"] = Verdict.DEAD
    desk.put("job:2,P4242", box=Box.CUR)
    os.link(desk.path / "cur" / "job:2,P4242", desk.path / "new" / "job")
    name = {"cur": "job:2,P4242", "new": "job"}[box]

    def again(asked, names):
        found = desk.again(asked, names)
        desk.put("another", "another")
        os.rename(desk.path / "new" / "another", desk.path / box / name)
        return found

    change(desk, again=again)
    assert (desk.path / "cur" / "job:2,P4242").exists() and (desk.path / "new" / "job").exists()


def test_a_repair_lasts_when_the_change_begins(desk):
    synced = []

    class Counted(LogFiles):
        def unlink(self, name, dir_fd):
            super().unlink(name, dir_fd)
            if name == "job:2,P4242":
                synced.append("gone")

        def sync_dir(self, fd):
            super().sync_dir(fd)
            if os.path.samestat(os.fstat(fd), os.stat(desk.path / "cur")):
                synced.append("synced")

    change(desk, files=Counted())
    assert synced == []
    desk.verdicts["job:2,P4242"] = Verdict.DEAD
    desk.put("job:2,P4242", box=Box.CUR)
    os.link(desk.path / "cur" / "job:2,P4242", desk.path / "new" / "job")
    change(desk, files=Counted())
    assert synced == ["gone", "synced"]


def cut_off(desk, torn=False):
    """The journal as it were if the last operation had been cut off before its result, or within it."""
    journal = desk.path / ".spooltop" / "journal.jsonl"
    lines = [line for line in journal.read_bytes().splitlines(keepends=True) if line.strip(b"\0")]
    result = [line for line in lines if b'"result' in line][-1]
    journal.write_bytes(b"".join(line for line in lines if line != result) + (result[: len(result) // 2] + b"\n") * torn)


def hold(desk, name):
    """Holds the message ``name`` and returns its new path."""
    desk.put(name)
    operations = desk.operations()
    assert operations.apply(operations.plan(Action.HOLD, Selection(ids=(name,), box=Box.NEW))).count(Outcome.DONE) == 1
    [held] = (desk.path / ".spooltop" / "held").glob(f"*/{name}")
    return held


@pytest.mark.parametrize("torn", [False, True])
@pytest.mark.parametrize("backed_up", [True, False])
def test_what_an_interrupted_hold_has_set_aside_stays_where_its_other_name_is_a_backup(desk, backed_up, torn, tmp_path):
    held = hold(desk, "job")
    cut_off(desk, torn)
    os.link(held, tmp_path / "backup" if backed_up else desk.path / "new" / "job")
    change(desk)
    assert held.exists() is backed_up
    assert desk.names(Box.NEW) == ([] if backed_up else ["job"])


def test_what_took_the_place_of_a_message_that_an_interrupted_hold_was_moving_stays(desk, tmp_path):
    held = hold(desk, "job")
    cut_off(desk)
    os.rename(held, desk.path / "new" / "job")
    (tmp_path / "another").write_text("another")
    os.link(tmp_path / "another", held)
    change(desk)
    assert held.read_text() == "another"
    assert desk.names(Box.NEW) == ["job"]


@pytest.mark.parametrize("moved", ["", "source", "target"])
def test_of_a_purge_of_what_was_held_that_was_cut_off_the_name_in_the_trash_goes(desk, moved, tmp_path):
    """If something else is at one of the two places by now, the other is not a second name."""
    held = hold(desk, "job")
    operations = desk.operations()
    plan = operations.plan(Action.PURGE, Selection(ids=("job",), box=Box.HELD))
    assert operations.apply(plan).count(Outcome.DONE) == 1
    [purged] = (desk.path / ".spooltop" / "trash").glob("*/job")
    cut_off(desk)
    os.makedirs(held.parent, exist_ok=True)
    os.link(purged, held)
    if moved:
        place = {"source": held, "target": purged}[moved]
        os.rename(place, tmp_path / "elsewhere")
        (tmp_path / "another").write_text("another")
        os.link(tmp_path / "another", place)
    change(desk)
    assert held.exists() and purged.exists() is bool(moved)
    assert purged.with_name(".job.meta").exists() is bool(moved)


@pytest.mark.parametrize("left", [[], ["another"]])
def test_what_was_known_in_common_goes_with_the_last_message_of_a_cut_off_emptying(desk, in_common, left):
    for name in ("job", *left):
        desk.put(name)
    operations = desk.operations()
    assert operations.apply(operations.plan(Action.PURGE, Selection(box=Box.NEW, everything=True))).count(Outcome.DONE)
    [folder] = (desk.path / ".spooltop" / "trash").glob("*/")
    before = sorted(os.listdir(folder.parent))
    kept = {name: (folder.parent / name).read_bytes() for name in before if (folder.parent / name).is_file()}
    operations.apply(operations.plan(Action.EMPTY, Selection(box=Box.TRASH, ids=("job",))))
    cut_off(desk)
    folder.mkdir(exist_ok=True)
    for name, data in kept.items():
        (folder.parent / name).write_bytes(data)
    change(desk)
    assert kept and folder.exists() is bool(left)
    assert {name for name in kept if (folder.parent / name).exists()} == (set(kept) if left else set())


def change(desk, **more):
    """Any change: before the first one, what was cut off is repaired."""
    desk.put("last")
    operations = desk.operations(**more)
    assert operations.apply(operations.plan(Action.PURGE, Selection(ids=("last",), box=Box.NEW))).count(Outcome.DONE) == 1
