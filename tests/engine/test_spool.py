from __future__ import annotations

import errno
import json
import os
import stat
from functools import partial
from pathlib import Path

import pytest

from spooltop.engine import Claim, Spool
from spooltop.engine.waiting import Backlog
from spooltop.errors import ClaimLost, MailFolder, NotASpool, PutUnknown, Refused, SpooltopError, Unreadable
from tests.clock import Clock
from tests.engine.helpers import Interposed, claimed, die_holding, failing, in_child, meanwhile, places
from tests.needs import needs


def box(spool: Spool, name: str) -> list[str]:
    return sorted(os.listdir(os.path.join(spool.path, name)))


def drop(spool: Spool, name: str, data: bytes = b"foreign", mtime: float | None = None) -> None:
    """Leaves a message in ``new`` as a producer without spooltop does."""
    path = os.path.join(spool.path, "new", name)
    with open(os.fsencode(path), "wb") as file:
        file.write(data)
    if mtime is not None:
        os.utime(os.fsencode(path), (mtime, mtime))


# Opening


@pytest.mark.parametrize("missing", [["tmp"], ["new", "cur"], ["tmp", "new", "cur"]])
def test_what_is_no_spool_is_named_and_nothing_is_made(tmp_path: Path, missing: list[str]) -> None:
    boxes = sorted({"tmp", "new", "cur"} - set(missing))
    for name in boxes:
        (tmp_path / name).mkdir()
    with pytest.raises(NotASpool, match=rf"{', '.join(missing)}.*make it: Spool.create\('{tmp_path}'\)"):
        Spool(tmp_path)
    assert sorted(os.listdir(tmp_path)) == boxes
    (tmp_path / "file").touch()
    for path in ("nowhere", "file"):
        with pytest.raises(NotASpool):
            Spool(tmp_path / path)
    (tmp_path / missing[0]).symlink_to(tmp_path)
    with pytest.raises(NotASpool, match=missing[0]):
        Spool(tmp_path)


@pytest.mark.parametrize(
    "mail", ["1795220919.Vfd00I1e240M782871.vm", "1795220919.H782871P9155.vm", "1795220919.M781490P9155Q1.vm"]
)
def test_mail_that_is_delivered_into_an_open_spool_is_not_claimed(tmp_path: Path, mail: str) -> None:
    with Spool.create(tmp_path) as spool:
        mine = spool.put(b"a job")
        with claimed(spool) as claim:
            (tmp_path / "new" / mail).write_bytes(b"mail")
            assert claim.id == mine
        for _ in range(2):
            with pytest.raises(MailFolder, match=mail):
                spool.claim()
    assert os.listdir(tmp_path / "new") == [mail] and os.listdir(tmp_path / "cur") == []
    with Spool(tmp_path, as_spool=True) as spool, claimed(spool) as claim:
        assert claim.data == b"mail"


def test_jobs_that_are_named_as_mail_are_claimed_where_others_claim_them(tmp_path: Path) -> None:
    with Spool.create(tmp_path) as spool:
        (tmp_path / "cur" / "1795220919.M1P1.vm:P4242").touch()
        (tmp_path / "new" / "1795220919.M2P1.vm").write_bytes(b"a job")
        with claimed(spool) as claim:
            assert claim.data == b"a job"


def test_real_spools_open_and_their_mail_folder_does_not(real_spools: Path) -> None:
    with pytest.raises(MailFolder):
        Spool(real_spools / "maildir_stdlib")
    for folder in ("seed_maildirqueue", "seed_atomicfilequeue"):
        with Spool(real_spools / folder) as spool:
            assert spool.depth() == 3
            assert spool.recover() == []
            assert [claim.ack() for claim in spool.claims()] == [None] * 3


# Putting


@pytest.mark.parametrize(
    ("times", "stands"), [((5e9, 5e9, 5e9 - 0.5, 5e9 - 1.9, 5e9 + 1), None), ((7e9, 6e9), 6_000_000_000_000_000)],
    ids=["adjusted", "set right"],
)  # fmt: skip
def test_ids_are_in_order_while_the_clock_is_adjusted_and_right_when_it_is_set(
    spool: Spool, times: tuple[float, ...], stands: int | None
) -> None:
    now = [times[0]]
    with Spool(spool.path, False, clock=lambda: now[0]) as other:
        ids = []
        for now[0] in times:
            ids.append(other.put(b""))
    assert stands == int(ids[-1][:16]) if stands else ids == sorted(ids) and len(set(ids)) == len(times)


def test_parent_and_child_share_no_random_bits(spool: Spool) -> None:
    before = spool.put(b"")
    assert in_child(lambda: spool.put_many([b""] * 200) and None) == 0
    spool.put_many([b""] * 200)
    bits = [name.split("R")[1] for name in box(spool, "new")]
    assert before.split("R")[1] in bits and len(bits) == len(set(bits)) == 401


def test_several_that_were_put_and_may_not_last_are_all_named(tmp_path: Path) -> None:
    Spool.create(tmp_path).close()
    with Spool(tmp_path, files=failing("sync_dir")) as spool, pytest.raises(PutUnknown, match="the sync of new failed") as caught:
        spool.put_many([b"1", b"2", b"3"])
    assert len(caught.value.ids) == 3
    assert sorted(caught.value.ids) == sorted(os.listdir(tmp_path / "new"))


def test_a_long_source_of_another_program_goes_back_to_new(spool: Spool) -> None:
    drop(spool, f"order,s={'x' * 60}")
    drop(spool, f"p{'x' * 170},s=it")  # 176 bytes: with its attempts and a time it could not be claimed again
    for _ in range(2):
        for claim in list(spool.claims()):
            claim.release()
    assert box(spool, "new") == [f"order,s={'x' * 60},n=2", f"p{'x' * 170},s=it,n=2"]
    for claim in list(spool.claims()):
        claim.release(delay=1)
    assert box(spool, "new")[1] == f"p{'x' * 170},s=it,n=2"


@needs("root")
def test_root_leaves_nothing_that_locks_the_owner_out(tmp_path: Path) -> None:
    root = tmp_path / "spool"
    Spool.create(root).close()
    for path in (root, *root.iterdir()):
        os.chown(path, 4711, 4712)
        path.chmod(0o2750)
    old = os.umask(0o077)
    try:
        with Spool(root) as spool:
            spool.put(b"", key="k")
            spool.put(b"", id="x")
            claimed(spool).reject("no")
    finally:
        os.umask(old)
    for folder, folders, files in os.walk(root):
        for name in folders + files:
            found = os.lstat(os.path.join(folder, name))
            assert (found.st_uid, found.st_gid) == (4711, 4712), (folder, name)
            wanted = 0o2750 if stat.S_ISDIR(found.st_mode) else 0o640
            assert stat.S_IMODE(found.st_mode) == wanted, (folder, name, oct(found.st_mode))


# Claims


def test_an_exception_gives_it_back_with_a_delay_that_grows(tmp_path: Path, clock: Clock) -> None:
    with Spool.create(tmp_path, False, clock=clock) as spool:
        id = spool.put(b"")
        for attempt, delay in ((1, 2), (2, 4), (3, 8)):
            with pytest.raises(ZeroDivisionError):
                with claimed(spool) as claim:
                    assert (claim.id, claim.attempt) == (id, attempt)
                    _ = 1 / 0
            clock.advance(delay - 0.1)
            assert spool.claim() is None
            clock.advance(0.2)
            assert box(spool, "new")[0].endswith(",e=ZeroDivisionError")
        assert spool.peek() == id


def test_a_newer_format_is_refused_before_the_first_change_and_names_both(tmp_path: Path) -> None:
    with Spool.create(tmp_path, False) as spool:
        spool.put(b"", id="order-17")
    (tmp_path / ".spooltop/format").write_bytes(b"3\n")
    with Spool(tmp_path, False) as spool:
        for _ in range(2):
            with pytest.raises(Refused, match="its format is 3, this spooltop knows up to 2; update spooltop"):
                spool.claim()
        assert spool.depth() == 1 and (tmp_path / ".spooltop/format").read_bytes() == b"3\n"


def test_poison_is_rejected_with_its_reason_and_how_the_last_attempt_ended(tmp_path: Path) -> None:
    with Spool.create(tmp_path, False, max_attempts=3) as spool:
        for name, ended, stands in (("foreign", (None, None), "foreign"), ("mine,n=0", ("exit-1", None), "mine,n=2")):
            drop(spool, name)
            for attempt, how in enumerate((*ended, "exit-2"), 1):
                claim = claimed(spool)
                assert claim.attempt == attempt
                claim.release(ended=how)
                assert attempt != 2 or box(spool, "new") == [stands]  # the name says how the last one ended, and no earlier one
            assert spool.claim() is None and spool.depth() == 0
    metas = [json.loads(meta.read_text()) for meta in tmp_path.glob(".spooltop/rejected/*/.*.meta")]
    assert [(meta["ended"], "3 attempts" in meta["reason"]) for meta in metas] == [("exit-2", True)] * 2


class Unordered(Interposed):
    """A file system as btrfs is, or unlike it."""

    def __init__(self, ordered: bool) -> None:
        super().__init__()
        self.is_ordered, self.synced = ordered, list[str]()

    def ordered(self, fd: int) -> bool:
        return self.is_ordered

    def sync_dir(self, fd: int) -> None:
        self.synced.append(os.path.basename(os.readlink(f"/proc/self/fd/{fd}")))
        super().sync_dir(fd)


@pytest.mark.parametrize("ordered", [True, False])
def test_an_ack_lasts_where_a_sync_of_cur_alone_would_bring_the_message_back_in_new(tmp_path: Path, ordered: bool) -> None:
    files = Unordered(ordered)
    synced = ["cur"] if ordered else ["cur", "new"]
    with Spool.create(tmp_path, files=files) as spool:
        spool.put_many([b""] * 6)
        first, *claims = spool.claims()
        assert "consumers" in files.synced  # before a claim: else nobody could tell after a power cut that its holder is dead
        files.synced.clear()
        first.ack()
        assert files.synced == synced
        os.unlink(tmp_path / "cur" / claims[2].name)
        files.synced.clear()
        with pytest.raises(ClaimLost, match="1 of 5"):
            spool.ack_many(claims)
        assert files.synced == synced and places(tmp_path) == {}


@pytest.mark.parametrize("renameat2", [True, False])
def test_a_move_never_replaces(tmp_path: Path, renameat2: bool) -> None:
    with Spool.create(tmp_path, files=Interposed(renameat2=renameat2)) as spool:
        drop(spool, "same", b"one")
        claim = claimed(spool)
        drop(spool, "same", b"two")
        with pytest.raises(SpooltopError, match="another message of that name"):
            claim.release()
        assert claim.data == b"one" and (tmp_path / "new/same").read_bytes() == b"two"
        claim.ack()


def test_what_is_no_message_is_never_claimed_nor_read(spool: Spool, tmp_path: Path) -> None:
    new = Path(spool.path, "new")
    (tmp_path / "secret").write_text("secret")
    os.mkfifo(new / "1000000000000000.fifo")
    (new / "1000000000000001.link").symlink_to(tmp_path / "secret")
    (new / "1000000000000002.folder").mkdir()
    os.mkfifo(new / "fifo without a time")
    (new / ".dot").touch()
    (new / ("x" * 255)).touch()
    for _ in range(2):
        id = spool.put(b"")
        claim = claimed(spool)
        assert claim.id == id and spool.claim() is None and spool.peek() is None
        path = Path(spool.path, "cur", claim.name)
        path.unlink()
        path.symlink_to(tmp_path / "secret")
        with pytest.raises(Unreadable):
            _ = claim.data
        path.unlink()
        os.mkfifo(path)
        with pytest.raises(SpooltopError, match="regular"):
            _ = claim.data
        claim.ack()


# Order


def test_order_is_by_the_time_in_the_name_or_else_of_the_file(tmp_path: Path, clock: Clock) -> None:
    with Spool.create(tmp_path, False, clock=clock) as spool:
        now = clock()
        drop(spool, "zzz", mtime=now - 50)
        drop(spool, "aaa", mtime=now - 10)
        drop(spool, f"{int(now - 40)}.x", mtime=now)
        drop(spool, f"{int((now - 30) * 1e6)}.1.h", mtime=now)
        drop(spool, "9999999999999999.future", mtime=now - 20)
        drop(spool, "ahead", mtime=now + 1e6)
        mine = spool.put(b"")
        order = [claim.id for claim in spool.claims() if claim.ack() is None]
        assert order[:5] == ["zzz", f"{int(now - 40)}.x", f"{int((now - 30) * 1e6)}.1.h", "9999999999999999.future", "aaa"]
        assert set(order[5:]) == {mine, "ahead"}


def test_more_messages_than_are_remembered_come_oldest_first(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spooltop.engine.consumer.Backlog", partial(Backlog, limit=7))
    files, times = Interposed(), dict[str, int]()
    with Spool.create(tmp_path, False, clock=clock, files=files) as spool:
        for number in range(100):
            us = 1_795_220_920_443_125 + (number * 37) % 100 * 1000
            name = f"{us:016d}.P1R{number:016x}.h" if number % 2 else f"foreign {number}"
            drop(spool, name, mtime=us / 1e6)
            times[name] = us
        files.calls.clear()
        assert [claim.id for claim in spool.claims() if claim.ack() is None] == sorted(times, key=times.__getitem__)
        assert files.calls.count("regular") < 25


def test_boxes_that_were_swapped_are_told(tmp_path: Path) -> None:
    with Spool.create(tmp_path, False) as spool:
        os.rename(tmp_path / "new", tmp_path / "old")
        os.mkdir(tmp_path / "new")
        with pytest.raises(SpooltopError, match="new is now another"):
            spool.claim(timeout=0.001)


def test_a_presence_file_stays_where_a_claim_comes_back_while_it_is_taken_away(tmp_path: Path) -> None:
    consumers, cur, new = tmp_path / ".spooltop/consumers", tmp_path / "cur", tmp_path / "new"
    put_back: list[str] = []

    def undo(_number: int, name: str) -> None:
        """As an operator who undoes the requeue."""
        if name == "rename" and put_back and list(consumers.glob(".gone-*")):
            (waiting,) = new.iterdir()
            waiting.rename(cur / put_back.pop())

    with Spool.create(tmp_path, durable=False, files=Interposed(after=undo)) as spool:
        id = spool.put(b"")
        die_holding(tmp_path)
        (claim,), (token,) = os.listdir(cur), os.listdir(consumers)
        put_back.append(claim)
        assert spool.recover() == [id] and os.listdir(cur) == [claim] and os.listdir(consumers) == [token]
        assert spool.recover() == [id] and os.listdir(consumers) == []
        (consumers / f".gone-{token}").touch()  # of one that was cut off
        assert spool.recover() == [] and os.listdir(consumers) == []


def test_the_key_that_another_put_recorded_in_between_is_theirs(tmp_path: Path) -> None:
    theirs: list[str] = []
    files = meanwhile("rename_noreplace", lambda: theirs.append(other.put(b"theirs", key="k")))
    with Spool.create(tmp_path) as other, Spool(tmp_path, files=files) as mine:
        other.put(b"", key="the directories stand already")
        assert [mine.put(b"mine", key="k")] == theirs
        assert mine.depth() == 2 and os.listdir(tmp_path / "tmp") == []


def test_two_that_make_the_directory_of_our_own_at_once_get_the_same(tmp_path: Path) -> None:
    files = meanwhile("rename_noreplace", lambda: other.put(b"other", key="k"))
    with Spool.create(tmp_path, False) as other, Spool(tmp_path, False, files=files) as spool:
        assert spool.put(b"mine", key="k").duplicate and spool.depth() == 1
    assert sorted(os.listdir(tmp_path)) == [".spooltop", "cur", "new", "tmp"]
    assert (tmp_path / ".spooltop/format").read_bytes() == b"2\n"


def test_where_the_kernel_makes_no_directory_a_spool_is_refused_in_one_line() -> None:
    with pytest.raises(Refused, match="no directory can be made there") as refused:
        Spool.create("/proc/spool")
    assert "choose a place on a disk" in str(refused.value)


# A release that changes the content of its message

DATA, CHANGED = b"whole " * 1000, b"what is left " * 1000


def test_a_changed_release_where_files_cannot_be_swapped_is_refused_and_changes_nothing(memory: Path) -> None:
    with Spool.create(memory, False, files=failing("swap", errno.EINVAL)) as spool:
        spool.put(DATA)
        claim = claimed(spool)
        with pytest.raises(Refused, match="cannot swap two files in one step, which changed content needs; put the new content"):
            claim.release(data=CHANGED)
        assert claim.data == DATA and os.listdir(memory / "tmp") == []
        claim.ack()


@pytest.mark.parametrize("operation", ["create", "swap"])
def test_a_changed_release_of_a_claim_that_was_taken_away_is_lost_and_changes_nothing(memory: Path, operation: str) -> None:
    claims: list[Claim] = []

    def take_away() -> None:
        """As an operator, with force."""
        os.rename(memory / "cur" / claims[0].name, memory / "new" / claims[0].base)

    files = meanwhile(operation, take_away)
    files.armed = False
    with Spool.create(memory, False, files=files) as spool:
        spool.put(DATA)
        claims.append(claimed(spool))
        files.armed = True
        with pytest.raises(ClaimLost):
            claims[0].release(data=CHANGED)
        with claimed(spool) as again:
            assert again.data == DATA and os.listdir(memory / "tmp") == []


def test_a_changed_release_keeps_age_source_and_place_and_takes_files_and_what_is_empty(memory: Path) -> None:
    with Spool.create(memory, False) as spool:
        (memory / "new/foreign").write_bytes(b"old")
        os.utime(memory / "new/foreign", (1_700_000_000, 1_700_000_000))
        spool.put(b"second", source="s")
        for expected in (b"old", b"from a file"):
            claim = claimed(spool)
            assert (claim.id, claim.data) == ("foreign", expected)
            with open(memory / "file", "w+b") as file:
                file.write(b"from a file")
                file.seek(0)
                claim.release(data=file)
            assert (memory / "new/foreign").stat().st_mtime == 1_700_000_000
        (memory / "new/foreign").unlink()
        claimed(spool).release(data=b"")
        with claimed(spool) as claim:
            assert (claim.source, claim.data, claim.attempt) == ("s", b"", 2)


def test_at_the_limit_of_attempts_a_changed_release_rejects_what_was_changed(memory: Path) -> None:
    with Spool.create(memory, False, max_attempts=1) as spool:
        spool.put(DATA)
        claimed(spool).release(data=CHANGED)
        [path] = (memory / ".spooltop/rejected").glob("*/[!.]*")
        assert path.read_bytes() == CHANGED
