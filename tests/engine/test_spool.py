from __future__ import annotations

import errno
import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from spooltop.engine import Spool, names
from spooltop.engine.system.files import Files
from spooltop.errors import ClaimLost, MailFolder, NotASpool, PutUnknown, Refused, SpooltopError, Unreadable, UsageError
from tests.engine.helpers import Interposed, in_child, places
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
def test_what_is_no_spool_is_named(tmp_path: Path, missing: list[str]) -> None:
    for name in {"tmp", "new", "cur"} - set(missing):
        (tmp_path / name).mkdir()
    with pytest.raises(NotASpool, match=", ".join(missing)):
        Spool(tmp_path)
    assert sorted(os.listdir(tmp_path)) == sorted({"tmp", "new", "cur"} - set(missing))


def test_a_missing_path_a_file_and_a_linked_box_are_no_spools(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in ("nowhere", "file"):
        with pytest.raises(NotASpool):
            Spool(tmp_path / path)
    Spool.create(tmp_path / "spool").close()
    (tmp_path / "spool/cur").rmdir()
    (tmp_path / "spool/cur").symlink_to(tmp_path)
    with pytest.raises(NotASpool, match="cur"):
        Spool(tmp_path / "spool")


POSTFIX = "1795220919.Vfd00I1e240M782871.vm"


def test_mail_that_is_delivered_into_an_open_spool_is_not_claimed(tmp_path: Path) -> None:
    with Spool.create(tmp_path) as spool:
        mine = spool.put(b"a job")
        with spool.claim() as claim:
            (tmp_path / "new" / POSTFIX).write_bytes(b"mail")
            assert claim.id == mine
        for _ in range(2):
            with pytest.raises(MailFolder, match=POSTFIX):
                spool.claim()
    assert os.listdir(tmp_path / "new") == [POSTFIX]
    assert os.listdir(tmp_path / "cur") == []
    with Spool(tmp_path, as_spool=True) as spool, spool.claim() as claim:
        assert claim.data == b"mail"


def test_jobs_that_are_named_as_mail_are_claimed_where_others_claim_them(tmp_path: Path) -> None:
    with Spool.create(tmp_path) as spool:
        (tmp_path / "cur" / "1795220919.M1P1.vm:P4242").touch()
        (tmp_path / "new" / "1795220919.M2P1.vm").write_bytes(b"a job")
        with spool.claim() as claim:
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


def test_put_says_what_it_put(spool: Spool) -> None:
    id = spool.put(b"hello", source="a b")
    [name] = box(spool, "new")
    parsed = names.parse(name, claimed=False)
    assert (parsed.id, parsed.source, parsed.attempts) == (id, "a b", 0)
    assert spool.peek() == id and spool.depth() == 1 and box(spool, "tmp") == []


def test_a_short_write_is_continued(tmp_path: Path) -> None:
    class Short(Interposed):
        def write(self, fd: int, data: bytes | memoryview) -> int:
            return os.write(fd, data[:3])

    with Spool.create(tmp_path, files=Short()) as spool:
        spool.put(b"0123456789")
        [name] = box(spool, "new")
        assert (tmp_path / "new" / name).read_bytes() == b"0123456789"


def test_several_that_were_put_and_may_not_last_are_all_named(tmp_path: Path) -> None:
    def fail(_number: int, name: str) -> None:
        if name == "sync_dir":
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    Spool.create(tmp_path).close()
    with Spool(tmp_path, files=Interposed(fail)) as spool, pytest.raises(PutUnknown, match="the sync of new failed") as caught:
        spool.put_many([b"1", b"2", b"3"])
    assert len(caught.value.ids) == 3
    assert sorted(caught.value.ids) == sorted(os.listdir(tmp_path / "new"))


def test_ids_of_one_instant_stay_in_order(tmp_path: Path, clock: Callable[[], float]) -> None:
    with Spool.create(tmp_path, False, clock=clock) as spool:
        ids = [spool.put(b"") for _ in range(50)]
        assert [claim.id for claim in spool.claims() if claim.ack() is None] == ids


CHOSEN = ["order-17", "[red]x[/]", "../../etc/passwd", ".hidden", "two\nlines", os.fsdecode(b"\xff"), "a,n=5"]


def test_what_a_dead_put_left_in_tmp_does_not_count_as_delivered(spool: Spool) -> None:
    Path(spool.path, "tmp/x,n=0").write_bytes(b"hal")
    spool.put(b"whole", id="x")
    claim = spool.claim()
    assert claim is not None and claim.data == b"whole"
    claim.ack()


def test_a_foreign_message_of_that_id_counts(spool: Spool) -> None:
    drop(spool, "order-17")
    assert spool.put(b"", id="order-17") == "order-17"
    assert box(spool, "new") == ["order-17"]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"id": "x" * 130}, "the id takes 134 bytes in the name, 124 are allowed"),
        ({"id": ""}, "an id is not empty"),
        ({"source": "s" * 41}, "a source takes 1 to 40 bytes, this one 41"),
        ({"source": "é" * 21}, "a source takes 1 to 40 bytes, this one 42"),
        ({"source": "é" * 20, "id": "x" * 30}, "choose a shorter id or source .the id 30, the source 120; a byte outside"),
        ({"source": ""}, "a source takes 1 to 40 bytes, this one 0"),
        ({"not_before": -1.0}, "no time from 1970 to 5000: -1 s since the epoch"),
        ({"not_before": 1e12}, "no time from 1970 to 5000"),
    ],
)
def test_what_a_name_cannot_carry_is_refused(spool: Spool, wrong: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        spool.put(b"", **wrong)  # type: ignore[arg-type]
    assert places(Path(spool.path)) == {}


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


def test_a_key_is_put_once_even_after_the_ack_until_it_expires(tmp_path: Path, clock) -> None:  # type: ignore[no-untyped-def]
    with Spool.create(tmp_path, clock=clock, key_window=3600) as spool:
        id = spool.put(b"", key="k/../k")
        claim = spool.claim()
        assert claim is not None
        claim.ack()
        assert spool.put(b"", key="k/../k") == id and spool.depth() == 0
        assert spool.put(b"", key="other") != id
        clock.advance(3601)
        again = spool.put(b"", key="k/../k")
        assert again != id and spool.depth() == 2


def test_a_key_whose_move_was_cut_off_is_finished_by_the_retry(tmp_path: Path) -> None:
    def cut_off(number: int, name: str) -> None:
        # The second rename: the first gives the record its name.
        if name == "rename_noreplace" and files.calls.count(name) == 2:
            os.kill(os.getpid(), signal.SIGKILL)

    with Spool.create(tmp_path) as spool:
        spool.put(b"", key="prepare the directories")
        files = Interposed(cut_off)

        def work() -> None:
            with Spool(tmp_path, files=files) as other:
                other.put(b"first", key="k")

        assert in_child(work) == signal.SIGKILL
        assert spool.depth() == 1 and len(box(spool, "tmp")) == 1
        id = spool.put(b"second", key="k")
        assert spool.depth() == 2 and box(spool, "tmp") == []
        claims = list(spool.claims())
        assert [claim.data for claim in claims if claim.id == id] == [b"first"]
        spool.ack_many(claims)


def test_many_processes_with_one_key_or_one_id_give_one_message(spool: Spool) -> None:
    code = (
        "import sys; from spooltop.engine import Spool\n"
        "with Spool(sys.argv[1], False) as s: sys.stdin.readline(); print(s.put(b'x', **{sys.argv[2]: 'k'}, source=sys.argv[3]))"
    )
    for kind in ("key", "id"):
        workers = [
            subprocess.Popen(
                [sys.executable, "-c", code, spool.path, kind, f"s{n}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            for n in range(4)
        ]
        said = {worker.communicate("go\n")[0] for worker in workers}
        assert len(said) == 1, kind
        claim = spool.claim()
        assert claim is not None and spool.depth() == 0 and box(spool, "tmp") == []
        claim.ack()


def test_a_group_is_synced_once_before_the_first_is_visible(tmp_path: Path) -> None:
    files = Interposed()
    with Spool.create(tmp_path, files=files) as spool:
        files.calls.clear()
        ids = spool.put_many(b"%d" % n for n in range(40))
        syncs = [call for call in files.calls if call.startswith("sync") or call == "rename_noreplace"]
        assert syncs == ["sync_fs"] + ["rename_noreplace"] * 40 + ["sync_dir"]
        files.calls.clear()
        ids += spool.put_many([b"a", b"b"])
        syncs = [call for call in files.calls if call.startswith("sync") or call == "rename_noreplace"]
        assert syncs == ["sync", "sync", "rename_noreplace", "rename_noreplace", "sync_dir"]
        assert spool.put_many([]) == []
        assert [claim.id for claim in spool.claims() if claim.ack() is None] == ids


def test_a_durable_put_syncs_the_file_before_the_move_and_new_after_it(tmp_path: Path) -> None:
    files = Interposed()
    with Spool.create(tmp_path, files=files) as spool:
        files.calls.clear()
        spool.put(b"x")
        order = [call for call in files.calls if call in ("write", "sync", "close", "rename_noreplace", "sync_dir")]
        assert order == ["write", "sync", "close", "rename_noreplace", "sync_dir"]
        files.calls.clear()
        spool.put(b"x", durable=False)
        assert not [call for call in files.calls if call.startswith("sync")]
        claim = spool.claim()
        assert claim is not None
        files.calls.clear()
        claim.ack()
        assert files.calls[:2] == ["unlink", "sync_dir"]


@pytest.mark.parametrize("durable", [True, False])
def test_a_reject_syncs_what_is_known_before_the_move_and_both_folders_after_it(tmp_path: Path, durable: bool) -> None:
    files = Interposed()
    with Spool.create(tmp_path, durable, files=files) as spool:
        for _ in range(2):  # the first makes the folder
            spool.put(b"x")
            claim = spool.claim()
            assert claim is not None
            files.calls.clear()
            claim.reject("no")
        order = [call for call in files.calls if call.startswith("sync") or call == "rename_noreplace"]
        assert order == (["sync", "rename_noreplace", "sync_dir", "sync_dir"] if durable else ["rename_noreplace"])


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
            claim = spool.claim()
            assert claim is not None
            claim.reject("no")
    finally:
        os.umask(old)
    for folder, folders, files in os.walk(root):
        for name in folders + files:
            found = os.lstat(os.path.join(folder, name))
            assert (found.st_uid, found.st_gid) == (4711, 4712), (folder, name)
            wanted = 0o2750 if stat.S_ISDIR(found.st_mode) else 0o640
            assert stat.S_IMODE(found.st_mode) == wanted, (folder, name, oct(found.st_mode))


# Claims


def test_an_exception_gives_it_back_with_a_delay_that_grows(tmp_path: Path, clock) -> None:  # type: ignore[no-untyped-def]
    with Spool.create(tmp_path, False, clock=clock) as spool:
        id = spool.put(b"")
        for attempt, delay in ((1, 2), (2, 4), (3, 8)):
            with pytest.raises(ZeroDivisionError):
                with spool.claim() as claim:  # type: ignore[union-attr]
                    assert (claim.id, claim.attempt) == (id, attempt)
                    _ = 1 / 0
            clock.advance(delay - 0.1)
            assert spool.claim() is None
            clock.advance(0.2)
            [name] = box(spool, "new")
            assert names.parse(name, claimed=False).ended == "ZeroDivisionError"
        assert spool.peek() == id


def test_the_name_tells_how_the_last_attempt_ended_and_no_longer_than_it_was_the_last(tmp_path: Path) -> None:
    with Spool.create(tmp_path, False, max_attempts=4) as spool:
        id = spool.put(b"")
        for ended, expected in (("exit-1", ",n=1,e=exit-1"), (None, ",n=2"), ("timeout", ",n=3,e=timeout")):
            claim = spool.claim()
            assert claim is not None
            claim.release(ended=ended)
            assert box(spool, "new") == [id + expected]
        claim = spool.claim()
        assert claim is not None
        claim.release(ended="exit-2")  # the limit
        [meta] = tmp_path.glob(".spooltop/rejected/*/.*.meta")
        assert json.loads(meta.read_text())["ended"] == "exit-2"


@pytest.mark.parametrize("before", [b"1\n", b"", b"one"])
def test_the_first_claim_raises_the_format_that_stands_there(tmp_path: Path, before: bytes) -> None:
    with Spool.create(tmp_path, False) as spool:
        spool.put(b"", id="old")  # makes .spooltop
        drop(spool, "1795220920443125.P1R0123456789abcdef.vm,n=1,t=5")
        (tmp_path / ".spooltop/format").write_bytes(before)
        (tmp_path / ".spooltop/format").chmod(0o640)
    with Spool(tmp_path, False) as spool:
        claim = spool.claim()
        assert claim is not None and (claim.id, claim.attempt) == ("1795220920443125.P1R0123456789abcdef.vm", 2)
        claim.ack()
    assert (tmp_path / ".spooltop/format").read_bytes() == b"2\n"
    assert (tmp_path / ".spooltop/format").stat().st_mode & 0o777 == 0o640
    assert sorted(path.name for path in (tmp_path / ".spooltop").glob("*format*")) == ["format"]


def test_a_newer_format_is_refused_before_the_first_change_and_names_both(tmp_path: Path) -> None:
    with Spool.create(tmp_path, False) as spool:
        spool.put(b"", id="order-17")
    (tmp_path / ".spooltop/format").write_bytes(b"3\n")
    with Spool(tmp_path, False) as spool:
        for _ in range(2):
            with pytest.raises(Refused, match="its format is 3, this spooltop knows up to 2; update spooltop"):
                spool.claim()
        assert spool.depth() == 1 and (tmp_path / ".spooltop/format").read_bytes() == b"3\n"


def test_a_format_that_cannot_be_raised_stops_nobody(tmp_path: Path) -> None:
    def fail(_number: int, operation: str) -> None:
        if operation == "replace":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with Spool.create(tmp_path, False) as spool:
        spool.put(b"", id="order-17")
    (tmp_path / ".spooltop/format").write_bytes(b"1\n")
    with Spool(tmp_path, False, files=Interposed(fail)) as spool:
        claim = spool.claim()
        assert claim is not None
        claim.ack()
    assert (tmp_path / ".spooltop/format").read_bytes() == b"1\n"
    assert sorted(path.name for path in (tmp_path / ".spooltop").glob("*format*")) == ["format"]


def test_poison_is_rejected_at_the_limit_with_its_reason(tmp_path: Path, clock) -> None:  # type: ignore[no-untyped-def]
    with Spool.create(tmp_path, False, clock=clock, max_attempts=3) as spool:
        for name in ("mine,n=0", "foreign"):
            drop(spool, name)
            for attempt in (1, 2, 3):
                claim = spool.claim()
                assert claim is not None and claim.attempt == attempt
                claim.release()
            assert spool.claim() is None and spool.depth() == 0
        rejected = [name for found in places(tmp_path).values() for name in found]
        assert len(rejected) == 2 and all(name.startswith(".spooltop/rejected/") for name in rejected)
        assert sum(b"3 attempts" in meta.read_bytes() for meta in tmp_path.glob(".spooltop/rejected/*/.*.meta")) == 2


def test_a_foreign_message_keeps_its_name_and_waits_in_this_process(tmp_path: Path, clock) -> None:  # type: ignore[no-untyped-def]
    with Spool.create(tmp_path, False, clock=clock) as spool:
        drop(spool, "report: [x].txt")
        claim = spool.claim()
        assert claim is not None and claim.id == "report: [x].txt"
        claim.release(delay=60)
        assert box(spool, "new") == ["report: [x].txt"]
        assert spool.claim() is None
        clock.advance(61)
        with spool.claim() as again:  # type: ignore[union-attr]
            assert again.attempt == 2


@pytest.mark.parametrize("end", ["release", "reject", "ack"])
@pytest.mark.parametrize("name", ["foreign", "mine,n=0"])
def test_a_claim_that_was_put_back_by_force_under_its_old_name_is_lost(spool: Spool, name: str, end: str) -> None:
    drop(spool, name)
    claim = spool.claim()
    assert claim is not None
    back = names.requeued_name(claim.parsed)
    os.rename(os.path.join(spool.path, "cur", claim.name), os.path.join(spool.path, "new", back))
    with pytest.raises(ClaimLost):
        claim.reject("no") if end == "reject" else getattr(claim, end)()
    assert box(spool, "new") == [back] and claim.ended


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
def test_many_are_acked_with_one_sync_and_the_lost_are_told(tmp_path: Path, ordered: bool) -> None:
    files = Unordered(ordered)
    with Spool.create(tmp_path, files=files) as spool:
        spool.put_many([b""] * 5)
        claims = list(spool.claims())
        os.unlink(tmp_path / "cur" / claims[2].name)
        files.synced.clear()
        with pytest.raises(ClaimLost, match="1 of 5"):
            spool.ack_many(claims)
        assert files.synced == (["cur"] if ordered else ["cur", "new"]) and places(tmp_path) == {}


def test_a_durable_consumer_is_on_disk_before_its_first_claim(tmp_path: Path) -> None:
    """Else a power cut may leave a claim of which nobody can tell that its holder is dead (btrfs)."""
    files = Unordered(False)
    with Spool.create(tmp_path, files=files) as spool:
        spool.put(b"")
        files.synced.clear()
        files.calls.clear()
        claim = spool.claim()
        assert claim is not None
        assert files.synced[-1:] == ["consumers"]
        claim.ack()
        calls = [call.removesuffix("_noreplace") for call in files.calls[: files.calls.index("unlink")]]
        assert [call for call in calls if call in ("write", "sync", "sync_dir", "rename")][-5:] == [
            "write", "sync", "rename", "sync_dir", "rename",
        ]  # fmt: skip


@pytest.mark.parametrize("ordered", [True, False])
def test_an_ack_lasts_where_a_sync_of_cur_alone_would_bring_the_message_back_in_new(tmp_path: Path, ordered: bool) -> None:
    files = Unordered(ordered)
    with Spool.create(tmp_path, files=files) as spool:
        for _ in range(2):
            spool.put(b"")
            claim = spool.claim()
            assert claim is not None
            files.synced.clear()
            claim.ack()
            assert files.synced == (["cur"] if ordered else ["cur", "new"])


def test_a_move_never_replaces(spool: Spool) -> None:
    drop(spool, "same", b"one")
    claim = spool.claim()
    assert claim is not None
    drop(spool, "same", b"two")
    with pytest.raises(SpooltopError, match="another message of that name"):
        claim.release()
    assert claim.data == b"one" and Path(spool.path, "new/same").read_bytes() == b"two"
    claim.ack()


def test_closing_gives_back_what_is_held_and_removes_the_presence(tmp_path: Path) -> None:
    spool = Spool.create(tmp_path, False)
    spool.put(b"")
    claim = spool.claim()
    assert claim is not None and len(list(tmp_path.glob(".spooltop/consumers/*"))) == 1
    with pytest.warns(ResourceWarning, match="dropped"):
        spool.close()
    assert claim.ended and len(box(spool, "new")) == 1 and not list(tmp_path.glob(".spooltop/consumers/*"))
    spool.close()


def test_what_is_no_message_is_never_claimed_nor_read(spool: Spool, tmp_path: Path) -> None:
    new = Path(spool.path, "new")
    (tmp_path / "secret").write_text("secret")
    os.mkfifo(new / "1000000000000000.fifo")
    (new / "1000000000000001.link").symlink_to(tmp_path / "secret")
    (new / "1000000000000002.folder").mkdir()
    os.mkfifo(new / "fifo without a time")
    (new / ".dot").touch()
    (new / ("x" * 255)).touch()
    id = spool.put(b"")
    for _ in range(2):
        with spool.claim() as claim:  # type: ignore[union-attr]
            assert claim.id == id
        assert spool.claim() is None and spool.peek() is None
        id = spool.put(b"")
    spool.put(b"")
    claim = spool.claim()
    assert claim is not None
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
    with spool.claim() as rest:  # type: ignore[union-attr]
        assert rest.attempt == 1


HOSTILE = [
    "[red]x[@click=quit]",
    "a\x1b]52;c;x\x07",
    "two\nlines",
    os.fsdecode(b"\xff\xfe"),
    "2026-11-21T02:41:09.json",
    "a,b:c,d",
    "-rf",
    "x:2,P1",
]



def test_hostile_names_pass_and_keep_their_names(spool: Spool) -> None:
    for name in HOSTILE:
        drop(spool, name, name.encode("utf-8", "surrogateescape"))
    claims = list(spool.claims())
    assert {claim.id for claim in claims} == set(HOSTILE)
    for claim in claims:
        assert claim.data == claim.id.encode("utf-8", "surrogateescape")
        claim.release()
    assert set(os.listdir(os.path.join(spool.path, "new"))) == set(HOSTILE)


# Order


def test_order_is_by_the_time_in_the_name_or_else_of_the_file(tmp_path: Path, clock) -> None:  # type: ignore[no-untyped-def]
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


def test_a_file_from_the_future_does_not_starve(tmp_path: Path, clock) -> None:  # type: ignore[no-untyped-def]
    from spooltop.engine.consuming.backlog import Backlog

    with Spool.create(tmp_path, False, clock=clock) as spool:
        drop(spool, "ahead", mtime=clock() + 1e6)
        spool.put(b"")
        fd = os.open(tmp_path / "new", os.O_RDONLY)
        try:
            backlog = Backlog(fd, Files(), clock)
            given = [backlog.pop()]
            for _ in range(5):
                clock.advance(10)
                spool.put(b"")
                backlog.clear()
                given.append(backlog.pop())
            clock.advance(10)
            for claim in spool.claims():
                claim.ack()
                if claim.id == "ahead":
                    break
            assert "ahead" not in os.listdir(tmp_path / "new")
        finally:
            os.close(fd)


def test_a_backlog_smaller_than_the_spool_gives_all_oldest_first(tmp_path: Path, clock) -> None:  # type: ignore[no-untyped-def]
    from spooltop.engine.consuming.backlog import Backlog

    for number in range(100):
        (tmp_path / f"{1795220920443125 + (number * 37) % 100:016d}.P1R{number:016x}.h").touch()
    fd = os.open(tmp_path, os.O_RDONLY)
    try:
        backlog = Backlog(fd, Files(), clock, limit=7)
        given = []
        while (name := backlog.pop()) is not None:
            given.append(name)
            (tmp_path / name).unlink()
        assert len(given) == 100 and given == sorted(given) and backlog.listings < 20
    finally:
        os.close(fd)


def test_draining_lists_the_directory_a_few_times_and_not_per_message(tmp_path: Path) -> None:
    files = Interposed()
    with Spool.create(tmp_path, False, files=files) as spool:
        spool.put_many([b""] * 300)
        files.calls.clear()
        spool.ack_many(spool.claims())
        assert files.calls.count("regular") <= 3


def test_an_unchanged_directory_is_not_listed_again(tmp_path: Path) -> None:
    files = Interposed()
    with Spool.create(tmp_path, False, files=files) as spool:
        os.utime(tmp_path / "new", (1, 1))  # long ago: a time that a change within the same tick cannot have
        files.calls.clear()
        assert [spool.claim() for _ in range(5)] == [None] * 5 and files.calls.count("regular") == 1
        spool.put(b"")
        with spool.claim() as claim:  # type: ignore[union-attr]
            assert claim.attempt == 1


# Waiting


def test_boxes_that_were_swapped_are_told(tmp_path: Path) -> None:
    with Spool.create(tmp_path, False) as spool:
        os.rename(tmp_path / "new", tmp_path / "old")
        os.mkdir(tmp_path / "new")
        with pytest.raises(SpooltopError, match="new is now another"):
            spool.claim(timeout=0.001)


# Other processes


class GivenBack(Interposed):
    """An operator's undo puts a claim back while the presence file of its consumer is being taken away."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path, self.claim = path, ""

    def rename(self, name: str, dir_fd: int, to: str, to_fd: int) -> None:
        super().rename(name, dir_fd, to, to_fd)
        if self.claim and to.endswith(name):
            (waiting,) = os.listdir(self.path / "new")
            os.rename(self.path / "new" / waiting, self.path / "cur" / self.claim)


def test_a_presence_file_stays_where_a_claim_comes_back_meanwhile(tmp_path: Path) -> None:
    files = GivenBack(tmp_path)
    with Spool.create(tmp_path, durable=False, files=files) as spool:
        id = spool.put(b"")

        def work() -> None:
            held = Spool(tmp_path, durable=False).claim()
            assert held is not None
            os.kill(os.getpid(), signal.SIGKILL)

        assert in_child(work) == signal.SIGKILL
        (files.claim,) = os.listdir(tmp_path / "cur")
        token = files.claim.partition(",c=")[2].partition(".")[0]
        assert spool.recover() == [id] and os.listdir(tmp_path / "cur") == [files.claim]
        assert os.listdir(tmp_path / ".spooltop" / "consumers") == [token]
        files.claim = ""
        assert spool.recover() == [id]
        assert os.listdir(tmp_path / ".spooltop" / "consumers") == []
        left = tmp_path / ".spooltop" / "consumers" / f".gone-{token}"
        left.touch()  # of one that was cut off
        assert spool.recover() == [] and not left.exists()


def test_a_child_that_inherits_the_presence_keeps_the_claim_alive(spool: Spool) -> None:
    spool.put(b"")
    reading, writing = os.pipe()

    def work() -> None:
        other = Spool(spool.path)
        claim = other.claim()
        subprocess.Popen(["cat"], stdin=reading, stdout=subprocess.DEVNULL, pass_fds=[other.presence_fd()])
        assert claim is not None
        os.kill(os.getpid(), signal.SIGKILL)

    assert in_child(work) == signal.SIGKILL
    os.close(reading)
    assert spool.recover() == []
    os.close(writing)
    while not (back := spool.recover()):  # until cat has seen the end of its input
        os.sched_yield()
    assert len(back) == 1


def test_recover_counts_attempts_and_rejects_at_the_limit(tmp_path: Path) -> None:
    def work() -> None:
        with Spool(tmp_path, False) as other:
            held = other.claim()
            assert held is not None
            os.kill(os.getpid(), signal.SIGKILL)

    with Spool.create(tmp_path, False, max_attempts=3) as spool:
        spool.put(b"")
        for _ in range(2):
            in_child(work)
            assert len(spool.recover()) == 1
            [left] = box(spool, "new")
            assert names.parse(left, claimed=False).ended == "died"
        in_child(work)
        assert spool.recover() == [] and spool.depth() == 0
        [[name]] = places(tmp_path).values()
        assert name.startswith(".spooltop/rejected/")


def test_a_claim_without_a_presence_file_is_left_alone(spool: Spool) -> None:
    name = names.in_cur("x,n=0", "0" * 32, 1, 1)
    Path(spool.path, "cur", name).touch()
    Path(spool.path, "cur/foreign:2,P4242").touch()
    assert spool.recover() == [] and len(box(spool, "cur")) == 2


# File systems without RENAME_NOREPLACE


def test_the_whole_life_of_a_message_without_renameat2(tmp_path: Path) -> None:
    files = Interposed(renameat2=False)
    with Spool.create(tmp_path, files=files) as spool:
        first, second = spool.put(b"1"), spool.put(b"2", id="two")
        spool.put(b"2", id="two")
        spool.put(b"3", key="k")
        spool.put(b"3", key="k")
        claim = spool.claim()
        assert claim is not None and claim.id == first
        claim.release()
        claims = list(spool.claims())
        assert [claim.id for claim in claims][:2] == [first, second] and len(claims) == 3
        claims[0].reject("no")
        claims[1].ack()
        claims[2].ack()
        [[name]] = places(tmp_path).values()
        assert name.startswith(".spooltop/rejected")
        files.calls.clear()
        spool.put(b"")
        assert "rename_noreplace" not in files.calls  # tried once for a pair of directories


def test_one_pair_of_directories_without_renameat2_says_nothing_of_another(tmp_path: Path) -> None:
    def refuse(_number: int, name: str) -> None:
        if name == "rename_noreplace" and not refused:
            refused.append(name)
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    Spool.create(tmp_path, False).close()
    refused: list[str] = []
    files = Interposed(refuse)
    with Spool(tmp_path, False, files=files) as spool:
        spool.put(b"")
        assert "link" in files.calls
        claim = spool.claim()
        assert claim is not None
        files.calls.clear()
        claim.release()
        assert "rename_noreplace" in files.calls and "link" not in files.calls
    assert len(places(tmp_path)) == 1


def test_the_links_of_a_fallback_move_are_synced_target_first(tmp_path: Path) -> None:
    files = Interposed(renameat2=False)
    with Spool.create(tmp_path, files=files) as spool:
        files.calls.clear()
        spool.put(b"")
        start = files.calls.index("link")
        assert files.calls[start : start + 4] == ["link", "sync_dir", "unlink", "sync_dir"]


def test_without_renameat2_nothing_is_replaced_either(tmp_path: Path) -> None:
    with Spool.create(tmp_path, False, files=Interposed(renameat2=False)) as spool:
        drop(spool, "same", b"one")
        claim = spool.claim()
        assert claim is not None
        drop(spool, "same", b"two")
        with pytest.raises(SpooltopError, match="another message"):
            claim.release()
        assert (tmp_path / "new/same").read_bytes() == b"two" and claim.data == b"one"
        claim.ack()


def test_the_key_that_another_put_recorded_in_between_is_theirs(tmp_path: Path) -> None:
    theirs: list[str] = []

    def between(_number: int, name: str) -> None:
        if name == "rename_noreplace" and not theirs:
            theirs.append("")
            theirs[0] = other.put(b"theirs", key="k")

    with Spool.create(tmp_path) as other, Spool(tmp_path, files=Interposed(between)) as mine:
        other.put(b"", key="the directories stand already")
        assert mine.put(b"mine", key="k") == theirs[0]
        assert mine.depth() == 2 and os.listdir(tmp_path / "tmp") == []


def test_nobody_else_puts_the_same_id_meanwhile(tmp_path: Path) -> None:
    free: list[bool] = []

    def locked(_number: int, name: str) -> None:
        if name == "create":
            [path] = (tmp_path / ".spooltop/ids").iterdir()
            with open(path, "rb+") as file:
                free.append(Files().lock_write(file.fileno()))

    Spool.create(tmp_path).close()
    with Spool(tmp_path) as spool:
        spool.put(b"", id="x")
    with Spool(tmp_path, files=Interposed(locked)) as spool:
        claim = spool.claim()
        assert claim is not None
        claim.ack()
        free.clear()
        spool.put(b"", id="x")
    assert free == [False]


def test_where_the_kernel_makes_no_directory_a_spool_is_refused_in_one_line() -> None:
    with pytest.raises(Refused, match="no directory can be made there") as refused:
        Spool.create("/proc/spool")
    assert "choose a place on a disk" in str(refused.value)
