"""The engine as another program's author reads its contract: nothing here looks further than the public names and the disk."""

from __future__ import annotations

import ast
import fcntl
import inspect
import io
import json
import os
import re
import signal
import stat
import subprocess
import sys
import threading
import time
import uuid
import warnings
from pathlib import Path

import pytest

from spooltop import errors
from spooltop.engine import CursorFile, FileTicketQueue, Spool
from tests.needs import needs

OWN_ID = re.compile(r"\d{16}\.P\d+R[0-9a-f]{16}\.[^,:/]+\Z")
CLAIM = re.compile(r"(?P<new>.+),c=(?P<token>[0-9a-f]{32})\.(?P<us>\d+):2,P(?P<pid>\d+)\Z", re.DOTALL)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "spool"


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def dead_claim(path: Path) -> str:
    """A process claims one message and is killed; its id."""
    code = (
        "import os,sys,signal\nfrom spooltop.engine import Spool\n"
        "c = Spool(sys.argv[1]).claim()\nprint(ascii(c.id), flush=True)\nos.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    return str(ast.literal_eval(done.stdout))


def test_signatures_are_as_promised() -> None:
    def parameters(function: object) -> list[tuple[str, object, object]]:
        return [(p.name, p.kind, p.default) for p in inspect.signature(function).parameters.values()]  # type: ignore[arg-type]

    kw, empty = inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.empty
    put = parameters(Spool.put)
    assert put[1][0] == "data" and put[1][2] is empty
    assert [(n, k, d) for n, k, d in put[2:6]] == [(n, kw, None) for n in ("source", "id", "key", "durable")]
    many = parameters(Spool.put_many)
    assert [(n, k, d) for n, k, d in many[2:4]] == [(n, kw, None) for n in ("source", "durable")]
    assert [d for n, _k, d in parameters(Spool.claim) if n == "timeout"] == [0]
    assert "timeout" in [n for n, _k, _d in parameters(Spool.claims)]
    assert [d for n, _k, d in parameters(Spool.create) if n == "durable"] == [True]
    from spooltop.engine import Claim

    assert [d for n, _k, d in parameters(Claim.release) if n == "delay"] == [0]
    assert [n for n, _k, _d in parameters(Claim.reject)][1:2] == ["reason"]


def test_exceptions_are_importable_from_the_engine() -> None:
    import spooltop.engine as engine

    for name in ("ClaimLost", "PutUnknown", "NotASpool"):
        assert issubclass(getattr(engine, name), Exception)


def test_put_writes_the_bytes_under_an_own_id(path: Path) -> None:
    os.umask(old := os.umask(0))
    os.umask(old)
    with Spool.create(str(path)) as spool:
        before = int(time.time() * 1e6)
        id = spool.put(b"\x00\xffhi")
        after = int(time.time() * 1e6)
        assert OWN_ID.match(id), id
        assert before <= int(id[:16]) <= after
        assert f".P{os.getpid()}R" in id
        assert names(path / "new") == [id]
        assert (path / "new" / id).read_bytes() == b"\x00\xffhi"
        assert stat.S_IMODE((path / "new" / id).stat().st_mode) == 0o666 & ~old
        assert names(path / "tmp") == []


def test_put_takes_a_binary_file_and_a_pathlike_spool(path: Path) -> None:
    with Spool.create(path) as spool:
        a = spool.put(io.BytesIO(b"x" * 300_000))
        with open(path / "src", "wb+") as f:
            f.write(b"file")
            f.seek(0)
            b = spool.put(f)
        assert (path / "new" / a).stat().st_size == 300_000
        assert (path / "new" / b).read_bytes() == b"file"
        with pytest.raises(TypeError):
            spool.put("text")  # type: ignore[arg-type]
        assert len(names(path / "new")) == 2 and names(path / "tmp") == []


def test_source_is_an_attribute_and_percent_encoded(path: Path) -> None:
    with Spool.create(path) as spool:
        id = spool.put(b"", source="i message/ü,")
        (name,) = names(path / "new")
        assert name == f"{id},s=i%20message%2F%C3%BC%2C"
        claim = spool.claim()
        assert claim is not None and claim.source == "i message/ü," and claim.id == id
        claim.ack()
        with pytest.raises(ValueError):
            spool.put(b"", source="x" * 41)
        with pytest.raises(ValueError):
            spool.put(b"", source="")
        assert names(path / "new") == [] == names(path / "tmp")


def test_put_with_an_id_is_a_no_op_while_it_is_in_any_box(path: Path) -> None:
    with Spool.create(path) as spool:
        assert spool.put(b"1", id="order-17") == "order-17"
        assert spool.put(b"2", id="order-17") == "order-17"
        assert spool.depth() == 1
        claim = spool.claim()
        assert claim is not None and claim.data == b"1" and claim.id == "order-17" and claim.attempt == 1
        assert spool.put(b"3", id="order-17") == "order-17"
        assert spool.depth() == 0
        claim.reject("bad")
        assert spool.put(b"4", id="order-17") == "order-17"
        assert spool.depth() == 0
        assert spool.put(b"5", id="order-18", source="mail") == "order-18"
        got = spool.claim()
        assert got is not None
        got.ack()
        assert spool.put(b"6", id="order-18") == "order-18"
        assert spool.depth() == 1


@pytest.mark.parametrize("id", [".", "..", "a/b", "../../x", ".hidden", "a\0b", "/etc/passwd", "new/../../x"])
def test_an_id_leads_nowhere(path: Path, id: str) -> None:
    with Spool.create(path) as spool:
        around = names(path.parent)
        assert spool.put(b"", id=id) == id
        (name,) = names(path / "new")
        assert not name.startswith(".") and names(path.parent) == around
        claim = spool.claim()
        assert claim is not None and claim.id == id
        claim.ack()
        assert names(path / "cur") == [] == names(path / "tmp")


@pytest.mark.parametrize("wrong", [{"id": ""}, {"id": "x" * 151}, {"source": ""}, {"source": "s" * 41}])
def test_a_name_that_does_not_fit_is_a_value_error(path: Path, wrong: dict[str, str]) -> None:
    with Spool.create(path) as spool:
        with pytest.raises(ValueError):
            spool.put(b"", **wrong)  # type: ignore[arg-type]
        assert names(path / "new") == [] == names(path / "tmp")


@pytest.mark.parametrize(
    "id",
    ["a b", "a,b", "a:2,P12", "a,s=x", "a,n=3", "ü", "a\nb", "100%", "a,c=" + "0" * 32 + ".1:2,P1", "a:2,S"],
)
def test_any_id_comes_back_from_claims_and_peek(path: Path, id: str) -> None:
    with Spool.create(path) as spool:
        try:
            assert spool.put(b"d", id=id) == id
        except ValueError:
            assert names(path / "new") == [] == names(path / "tmp")
            return
        assert spool.peek() == id
        assert spool.put(b"e", id=id) == id
        assert spool.depth() == 1
        claim = spool.claim()
        assert claim is not None and (claim.id, claim.attempt) == (id, 1)
        claim.release()
        claim = spool.claim()
        assert claim is not None and (claim.id, claim.attempt) == (id, 2)
        claim.ack()
        assert names(path / "cur") == []


def test_put_with_a_key_is_a_no_op_always(path: Path) -> None:
    with Spool.create(path) as spool:
        first = spool.put(b"1", key="invoice/2026 11")
        assert spool.put(b"2", key="invoice/2026 11") == first
        claim = spool.claim()
        assert claim is not None
        claim.ack()
        assert spool.put(b"3", key="invoice/2026 11") == first
        assert spool.depth() == 0
        other = spool.put(b"4", key="other")
        assert other != first and spool.depth() == 1
    with Spool(path) as spool:
        assert spool.put(b"5", key="invoice/2026 11") == first


def test_put_many_returns_ids_in_order(path: Path) -> None:
    with Spool.create(path) as spool:
        ids = spool.put_many((b"%d" % n for n in range(70)), source="email")
        assert len(ids) == len(set(ids)) == 70
        got = []
        for claim in spool.claims():
            got.append((claim.id, claim.data, claim.source))
            claim.ack()
        assert got == [(i, b"%d" % n, "email") for n, i in enumerate(ids)]
        assert spool.put_many([]) == []


def test_not_a_spool_names_what_is_missing(path: Path) -> None:
    with pytest.raises(errors.NotASpool, match=str(path)):
        Spool(path)
    path.mkdir()
    (path / "new").mkdir()
    (path / "cur").mkdir()
    with pytest.raises(errors.NotASpool, match="tmp"):
        Spool(path)
    (path / "tmp").write_text("")
    with pytest.raises(errors.NotASpool, match="tmp"):
        Spool(path)
    assert names(path) == ["cur", "new", "tmp"]


def test_create_is_idempotent_and_keeps_messages(path: Path) -> None:
    with Spool.create(path) as spool:
        spool.put(b"1")
    with Spool.create(path) as spool:
        assert spool.depth() == 1
    assert {"tmp", "new", "cur"} <= set(names(path))


def test_opening_and_looking_writes_nothing(path: Path) -> None:
    for box in ("tmp", "new", "cur"):
        (path / box).mkdir(parents=True)
    with Spool(path) as spool:
        assert spool.depth() == 0 and spool.peek() is None
    assert names(path) == ["cur", "new", "tmp"]


MAIL = {
    "dovecot": lambda p: (p / "dovecot-uidlist").write_text(""),
    "dovecot.index": lambda p: (p / "dovecot.index.log").write_text(""),
    "courier": lambda p: (p / "courierimapuiddb").write_text(""),
    "maildirfolder": lambda p: (p / "maildirfolder").write_text(""),
    "flags": lambda p: (p / "cur" / "1600000000.1_2.host:2,RS").write_text(""),
    "no flags": lambda p: (p / "cur" / "1600000000.1_2.host:2,").write_text(""),
    "names": lambda p: (p / "new" / "1600000000.M123456P77Q1.host").write_text(""),
}


@pytest.mark.parametrize("kind", MAIL)
def test_mail_is_refused(path: Path, kind: str) -> None:
    for box in ("tmp", "new", "cur"):
        (path / box).mkdir(parents=True)
    MAIL[kind](path)
    before = sorted(str(p) for p in path.rglob("*"))
    with pytest.raises(errors.SpooltopError, match="mail"):
        Spool(path)
    with pytest.raises(errors.SpooltopError, match="mail"):
        Spool.create(path)
    assert sorted(str(p) for p in path.rglob("*")) == before


def test_a_claim_is_named_and_backed_by_a_locked_presence_file(path: Path) -> None:
    with Spool.create(path) as spool:
        id = spool.put(b"x", source="email")
        before = int(time.time() * 1e6)
        claim = spool.claim()
        assert claim is not None
        (name,) = names(path / "cur")
        found = CLAIM.match(name)
        assert found and found["new"] == f"{id},s=email" and int(found["pid"]) == os.getpid()
        assert before <= int(found["us"]) <= time.time() * 1e6
        presence = path / ".spooltop" / "consumers" / found["token"]
        assert names(presence.parent) == [found["token"]]
        lines = presence.read_text().splitlines()
        assert len(lines) == 1
        content = json.loads(lines[0])
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        assert content["pid"] == os.getpid()
        assert boot in content.values() and os.uname().nodename in content.values()
        assert any(str(os.stat("/proc/self/ns/pid").st_ino) in str(v) for v in content.values())
        assert (path / ".spooltop" / "format").read_text().strip() == "2"
        with presence.open() as f, pytest.raises(BlockingIOError):
            fcntl.flock(f, fcntl.LOCK_SH | fcntl.LOCK_NB)
        claim.ack()
        assert names(path / "cur") == []
    assert not presence.exists()


def test_claims_end_after_the_timeout_and_ack_at_the_end_of_the_block(path: Path) -> None:
    with Spool.create(path) as spool:
        ids = spool.put_many([b"a", b"b"])
        seen = []
        for claim in spool.claims(timeout=0):
            with claim:
                assert isinstance(claim.data, bytes)
                with claim.open() as f:
                    assert f.read() == claim.data
                seen.append((claim.id, claim.attempt, claim.source))
        assert seen == [(ids[0], 1, None), (ids[1], 1, None)]
        assert names(path / "cur") == [] == names(path / "new")
        assert spool.claim() is None and spool.claim(timeout=0.01) is None


def test_an_exception_in_the_block_releases_and_is_raised(path: Path) -> None:
    with Spool.create(path) as spool:
        id = spool.put(b"a")
        with pytest.raises(KeyError), next(iter(spool.claims(timeout=0))):
            raise KeyError("mine")
        (name,) = names(path / "new")
        assert re.fullmatch(re.escape(id) + r",n=1,t=\d{16},e=KeyError", name)
        wait = int(re.search(r",t=(\d{16})", name)[1]) / 1e6 - time.time()
        assert 0 < wait <= 2.1  # min(2^attempt, 300) s
        assert spool.claim() is None
        assert spool.depth() == 1


def test_release_counts_the_attempt_and_keeps_id_and_place(path: Path) -> None:
    with Spool.create(path) as spool:
        ids = spool.put_many([b"a", b"b"], source="s")
        claim = spool.claim()
        assert claim is not None
        claim.release()
        assert names(path / "new") == [f"{ids[0]},s=s,n=1", f"{ids[1]},s=s"]
        claim = spool.claim()
        assert claim is not None and (claim.id, claim.attempt) == (ids[0], 2)
        claim.release(delay=100)
        assert any(re.fullmatch(re.escape(ids[0]) + r",s=s,n=2,t=\d{16}", n) for n in names(path / "new"))
        claim = spool.claim()
        assert claim is not None and claim.id == ids[1]
        claim.ack()


def test_reject_sets_aside_with_its_reason(path: Path) -> None:
    with Spool.create(path) as spool:
        id = spool.put(b"bad one")
        claim = spool.claim()
        assert claim is not None
        claim.reject("no such user\nreally")
        rejected = [p for p in (path / ".spooltop" / "rejected").rglob("*") if p.is_file()]
        (payload,) = [p for p in rejected if not p.name.endswith(".meta")]
        (meta,) = [p for p in rejected if p.name.endswith(".meta")]
        assert payload.read_bytes() == b"bad one" and payload.name.startswith(id)
        content = json.loads(meta.read_text())
        assert "no such user\nreally" in content.values()
        assert names(path / "cur") == [] == names(path / "new")


@pytest.mark.parametrize("how", ["ack", "release", "reject"])
def test_a_claim_that_was_taken_away_is_lost(path: Path, how: str) -> None:
    with Spool.create(path) as spool:
        id = spool.put(b"a")
        claim = spool.claim()
        assert claim is not None
        (name,) = names(path / "cur")
        os.rename(path / "cur" / name, path / "new" / id)
        with pytest.raises(errors.ClaimLost, match=re.escape(id)):
            claim.reject("x") if how == "reject" else getattr(claim, how)()
        assert names(path / "new") == [id]


def test_a_finished_claim_says_so_when_used_again(path: Path) -> None:
    with Spool.create(path) as spool:
        spool.put(b"a")
        claim = spool.claim()
        assert claim is not None
        with claim:
            claim.ack()  # the block's own ack at the end is then nothing to do


def test_ack_many(path: Path) -> None:
    with Spool.create(path) as spool:
        spool.put_many([b"a"] * 5)
        claims = list(spool.claims(timeout=0))
        assert len(claims) == 5
        spool.ack_many(claims)
        assert names(path / "cur") == []


def test_a_dropped_claim_is_released_with_a_warning(path: Path) -> None:
    with Spool.create(path) as spool:
        id = spool.put(b"a")
        claim = spool.claim()
        with pytest.warns(ResourceWarning):
            del claim
            import gc

            gc.collect()
        claim = spool.claim()
        assert claim is not None and claim.id == id
        claim.ack()


def test_recover_puts_back_only_what_the_dead_held(path: Path) -> None:
    with Spool.create(path) as spool:
        ids = spool.put_many([b"a", b"b"])
        assert dead_claim(path) == ids[0]
        mine = spool.claim()
        assert mine is not None and mine.id == ids[1]
        assert spool.recover() == [ids[0]]
        assert spool.recover() == []
        back = spool.claim()
        assert back is not None and (back.id, back.attempt) == (ids[0], 2)
        back.ack()
        mine.ack()


def test_at_max_attempts_recover_and_release_reject_instead(path: Path) -> None:
    with Spool.create(path) as spool:
        id = spool.put(b"a", id="poison")
        os.rename(path / "new" / names(path / "new")[0], path / "new" / "poison,n=9")
        assert dead_claim(path) == id
        spool.recover()
        assert names(path / "new") == [] == names(path / "cur")
        assert list((path / ".spooltop" / "rejected").rglob("poison*"))
        spool.put(b"a", id="poison2")
        os.rename(path / "new" / names(path / "new")[0], path / "new" / "poison2,n=9")
        claim = spool.claim()
        assert claim is not None and claim.attempt == 10
        claim.release()
        assert names(path / "new") == [] == names(path / "cur")
        assert list((path / ".spooltop" / "rejected").rglob("poison2*"))


def test_a_foreign_name_comes_back_bare(path: Path) -> None:
    with Spool.create(path) as spool:
        for name in ("1700000000000000.1.h", "2026-11-21T02:41:09.json", "[red]x[\\]", "a\nb", "a,b:c", os.fsdecode(b"\xff\xfe")):
            (path / "new" / name).write_bytes(b"f")
            claim = spool.claim()
            assert claim is not None and claim.id == name, name
            assert CLAIM.match(names(path / "cur")[0])["new"] == name  # type: ignore[index]
            claim.release()
            assert names(path / "new") == [name]
            assert dead_claim(path) == name
            assert spool.recover() == [name]
            assert names(path / "new") == [name]
            os.unlink(path / "new" / name)


def test_claims_of_other_consumers_are_never_recovered(path: Path) -> None:
    with Spool.create(path) as spool:
        (path / "cur" / "1700000000000000.1.h:2,P99999999").write_bytes(b"f")
        (path / "cur" / "1700000000000001.1.h").write_bytes(b"f")
        assert spool.recover() == []
        assert len(names(path / "cur")) == 2


def test_dot_files_directories_and_links_are_no_messages(path: Path) -> None:
    with Spool.create(path) as spool:
        (path / "new" / ".hidden").write_text("")
        (path / "new" / "folder").mkdir()
        (path / "new" / "link").symlink_to("/etc/passwd")
        os.mkfifo(path / "new" / "fifo")
        assert spool.claim() is None
        id = spool.put(b"real")
        claim = spool.claim()
        assert claim is not None and claim.id == id
        claim.ack()
        assert names(path / "cur") == []


def test_oldest_first_among_own_and_foreign_names(path: Path) -> None:
    with Spool.create(path) as spool:
        (path / "new" / "zzz").write_text("old by mtime")
        os.utime(path / "new" / "zzz", (1_600_000_000, 1_600_000_000))
        (path / "new" / "1650000000.7.h").write_text("name in seconds")
        (path / "new" / "1660000000000000.7.h").write_text("name in us")
        id = spool.put(b"now")
        assert spool.peek() == "zzz"
        order = []
        for claim in spool.claims(timeout=0):
            order.append(claim.id)
            claim.ack()
        assert order == ["zzz", "1650000000.7.h", "1660000000000000.7.h", id]


def test_a_name_too_long_for_the_tail_is_left(path: Path) -> None:
    with Spool.create(path) as spool:
        (path / "new" / ("l" * 255)).write_text("x")
        id = spool.put(b"x")
        claim = spool.claim()
        assert claim is not None and claim.id == id
        claim.ack()
        assert spool.claim() is None


def test_two_threads_and_processes_never_hold_one_message_twice(path: Path) -> None:
    with Spool.create(path, durable=False) as spool:
        ids = spool.put_many([b"x"] * 200)
        code = (
            "import sys\nfrom spooltop.engine import Spool\n"
            "with Spool(sys.argv[1], durable=False) as s:\n"
            " for c in s.claims(timeout=0):\n  print(c.id)\n  c.ack()\n"
        )
        workers = [
            subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True) for _ in range(2)
        ]
        got: list[str] = []
        lock = threading.Lock()

        def take() -> None:
            for claim in spool.claims(timeout=0):
                with lock:
                    got.append(claim.id)
                claim.ack()

        threads = [threading.Thread(target=take) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for worker in workers:
            out, _ = worker.communicate()
            got += out.split()
            assert worker.returncode == 0
        assert sorted(got) == sorted(ids)


def test_a_forked_child_gets_a_token_of_its_own(path: Path) -> None:
    with Spool.create(path, durable=False) as spool:
        spool.put_many([b"a", b"b"])
        mine = spool.claim()
        assert mine is not None
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                theirs = spool.claim()
                status = 0 if theirs is not None else 2
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        tokens = {CLAIM.match(n)["token"] for n in names(path / "cur")}  # type: ignore[index]
        assert len(tokens) == 2
        assert len(spool.recover()) == 1
        mine.ack()
        assert spool.depth() == 1


def test_a_waiting_claim_is_woken(path: Path) -> None:
    with Spool.create(path, durable=False) as spool:
        got: list[str] = []

        def take() -> None:
            claim = spool.claim(timeout=20)
            assert claim is not None
            got.append(claim.id)
            claim.ack()

        thread = threading.Thread(target=take)
        thread.start()
        with Spool(path, durable=False) as other:
            id = other.put(b"x")
        thread.join(20)
        assert got == [id]


def test_put_never_overwrites_and_no_move_replaces(path: Path) -> None:
    with Spool.create(path) as spool:
        spool.put(b"first", id="a")
        claim = spool.claim()
        assert claim is not None
        (path / "new" / "a,n=1").write_bytes(b"in the way")
        with pytest.raises(Exception) as caught:
            claim.release()
        assert isinstance(caught.value, OSError | errors.SpooltopError)
        assert (path / "new" / "a,n=1").read_bytes() == b"in the way"
        assert len(names(path / "cur")) == 1
        os.unlink(path / "new" / "a,n=1")
        claim.ack()


def test_advance_stores_one_section_and_keeps_the_rest(tmp_path: Path) -> None:
    file = tmp_path / "cursors.json"
    file.write_text('{"email": {"uid": 9007199254740993123, "f": 1.10}, "x": [1, null]}')
    os.chmod(file, 0o640)
    CursorFile(file).advance("imessage", 89633)
    content = json.loads(file.read_text())
    assert content == {"email": {"uid": 9007199254740993123, "f": 1.10}, "x": [1, None], "imessage": 89633}
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    for value in (None, True, "s", 1.5, [1, {"a": "ü"}], {"rowid": 1, "at": "2026-01-01T00:00:00Z"}, 10**30):
        CursorFile(str(file)).advance("imessage", value)
        assert json.loads(file.read_text())["imessage"] == value
    assert names(tmp_path) == [".cursors.journal", ".cursors.lock", "cursors.json"]


def test_advance_makes_the_file(tmp_path: Path) -> None:
    CursorFile(tmp_path / "cursors.json").advance("a", 1)
    assert json.loads((tmp_path / "cursors.json").read_text()) == {"a": 1}


def test_expect_compares_and_sets(tmp_path: Path) -> None:
    file = tmp_path / "cursors.json"
    cursors = CursorFile(file)
    cursors.advance("a", 1)
    cursors.advance("a", 2, expect=1)
    with pytest.raises(errors.SpooltopError):
        cursors.advance("a", 3, expect=1)
    assert json.loads(file.read_text()) == {"a": 2}
    with pytest.raises(errors.SpooltopError):
        cursors.advance("b", 3, expect=1)
    cursors.advance("c", 1, expect=None)
    with pytest.raises(errors.SpooltopError):
        cursors.advance("c", 5, expect=True)  # True is not 1 in JSON


@pytest.mark.parametrize("content", ["", "{", "[1]", "\xff", '{"a":1} x', "null"])
def test_it_refuses_to_publish_over_what_it_cannot_parse(tmp_path: Path, content: str) -> None:
    file = tmp_path / "cursors.json"
    file.write_bytes(content.encode("latin-1"))
    with pytest.raises(errors.SpooltopError):
        CursorFile(file).advance("b", 1)
    assert file.read_bytes() == content.encode("latin-1")
    assert not [n for n in os.listdir(tmp_path) if n.endswith(".tmp")]


def test_it_waits_for_other_users_of_the_lock(tmp_path: Path) -> None:
    file = tmp_path / "cursors.json"
    file.write_text('{"a": 1}')
    code = (
        "import fcntl,json,sys\n"
        "f = open(sys.argv[1] + '/.cursors.lock', 'w')\nfcntl.flock(f, fcntl.LOCK_EX)\nprint('locked', flush=True)\n"
        "sys.stdin.readline()\np = sys.argv[1] + '/cursors.json'\nd = json.load(open(p))\nd['helper'] = 7\n"
        "import os\nopen(p + '.x', 'w').write(json.dumps(d))\nos.replace(p + '.x', p)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as helper:
        assert helper.stdout is not None and helper.stdin is not None
        assert helper.stdout.readline() == "locked\n"
        thread = threading.Thread(target=CursorFile(file).advance, args=("b", 2))
        thread.start()
        thread.join(0.2)
        assert thread.is_alive() and json.loads(file.read_text()) == {"a": 1}
        helper.stdin.write("go\n")
        helper.stdin.close()
        thread.join(20)
        assert helper.wait(20) == 0
    assert json.loads(file.read_text()) == {"a": 1, "helper": 7, "b": 2}


def test_concurrent_pollers_lose_nothing(tmp_path: Path) -> None:
    file = tmp_path / "cursors.json"
    code = (
        "import sys\nfrom spooltop.engine import CursorFile\nc = CursorFile(sys.argv[1])\n"
        "for n in range(30): c.advance(sys.argv[2], n)\n"
    )
    pollers = [subprocess.Popen([sys.executable, "-c", code, str(file), f"p{n}"]) for n in range(3)]
    assert [p.wait() for p in pollers] == [0, 0, 0]
    assert json.loads(file.read_text()) == {"p0": 29, "p1": 29, "p2": 29}


def test_one_file_per_source(tmp_path: Path) -> None:
    (tmp_path / "cursors").mkdir()
    file = tmp_path / "cursors" / "email.json"
    CursorFile(file).advance("email", 5)
    assert json.loads(file.read_text()) in (5, {"email": 5})


@needs("root")
def test_owner_and_mode_of_the_cursor_file_are_kept(tmp_path: Path) -> None:
    folder = tmp_path / "app"
    folder.mkdir()
    os.chown(folder, 65534, 65534)
    file = folder / "cursors.json"
    file.write_text("{}")
    os.chown(file, 65534, 65533)
    os.chmod(file, 0o604)
    CursorFile(file).advance("a", 1)
    now = file.stat()
    assert (now.st_uid, now.st_gid, stat.S_IMODE(now.st_mode)) == (65534, 65533, 0o604)
    for name in (".cursors.lock", ".cursors.journal"):
        assert (folder / name).stat().st_uid == 65534, name


def test_tickets_on_disk(tmp_path: Path) -> None:
    queue_dir = tmp_path / "q"
    first = FileTicketQueue(queue_dir)
    assert first.is_empty() is True
    ticket, member = first.register()
    assert isinstance(ticket, int) and isinstance(member, str)
    assert re.fullmatch(r"\d{20}\.\d+\.[0-9a-f]{32}", member)
    assert int(member[:20]) == ticket and member.split(".")[1] == str(os.getpid())
    assert names(queue_dir) == sorted([member, "seq"])
    second_ticket, second = FileTicketQueue(str(queue_dir)).register()
    assert second_ticket == ticket + 1
    assert first.is_head(ticket) and not first.is_head(second_ticket)
    assert first.is_empty() is False
    first.remove(member)
    assert first.is_head(second_ticket)
    first.remove(member)
    first.remove(second)
    assert first.is_empty() is True and names(queue_dir) == ["seq"]
    third, member = first.register()
    assert third > second_ticket
    first.remove(member)


def test_cleanup_removes_what_the_dead_left(tmp_path: Path) -> None:
    queue = FileTicketQueue(tmp_path / "q", stale_timeout=1)
    ticket, member = queue.register()
    child = subprocess.Popen([sys.executable, "-c", "pass"])
    child.wait()
    gone = tmp_path / "q" / f"{0:020d}.{child.pid}.{uuid.uuid4().hex}"
    gone.write_text("")
    os.utime(gone, (1, 1))
    assert not queue.is_head(ticket)
    queue.cleanup_stale()
    assert queue.is_head(ticket)
    queue.maybe_cleanup()
    assert member in names(tmp_path / "q")
    queue.remove(member)


def test_redis_queue_signature() -> None:
    from spooltop.engine.tickets import BaseTicketQueue, RedisTicketQueue

    assert list(inspect.signature(RedisTicketQueue).parameters)[:3] == ["name", "client", "stale_timeout"]
    assert list(inspect.signature(FileTicketQueue).parameters)[:2] == ["queue_dir", "stale_timeout"]
    for method in ("register", "is_head", "remove", "cleanup_stale", "is_empty", "maybe_cleanup"):
        for kind in (BaseTicketQueue, FileTicketQueue, RedisTicketQueue):
            assert callable(getattr(kind, method))


@pytest.fixture
def tiny(tmp_path: Path):  # type: ignore[no-untyped-def]
    folder = tmp_path / "tiny"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m,nr_inodes=400", "none", str(folder)], check=True)
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


@needs("root")
def test_a_full_disk_stops_puts_and_not_acks(tiny: Path) -> None:
    with Spool.create(tiny / "s") as spool:
        spool.put_many([b"a", b"b", b"c"])
        held = spool.claim()
        assert held is not None
        with pytest.raises((OSError, errors.SpooltopError)) as caught:
            for _ in range(100):
                spool.put(b"x" * 100_000)
        assert "space" in str(caught.value).lower() or "full" in str(caught.value).lower()
        assert names(tiny / "s" / "tmp") == []
        with open(tiny / "fill", "wb", buffering=0) as f:
            try:
                while f.write(b"z" * 4096):
                    pass
            except OSError:
                pass
        held.ack()
        assert names(tiny / "s" / "cur") == []


@needs("root")
def test_root_leaves_nothing_of_its_own_in_anothers_spool(path: Path) -> None:
    for box in ("tmp", "new", "cur"):
        (path / box).mkdir(parents=True)
        os.chown(path / box, 65534, 65533)
        os.chmod(path / box, 0o2770)
    os.chown(path, 65534, 65533)
    with Spool(path) as spool:
        spool.put(b"x")
        claim = spool.claim()
        assert claim is not None
        for p in [path, *path.rglob("*")]:
            info = p.lstat()
            assert (info.st_uid, info.st_gid) == (65534, 65533), p
            if p.is_dir() and ".spooltop" in str(p):
                assert stat.S_IMODE(info.st_mode) == 0o2770, (p, oct(info.st_mode))
        claim.reject("r")
        spool.put(b"k", key="k")
        for p in [path, *path.rglob("*")]:
            info = p.lstat()
            assert (info.st_uid, info.st_gid) == (65534, 65533), p


def test_a_replaced_spooltop_link_is_not_followed(path: Path, tmp_path: Path) -> None:
    with Spool.create(path) as spool:
        spool.put(b"x")
    (tmp_path / "elsewhere").mkdir()
    subprocess.run(["rm", "-rf", path / ".spooltop"], check=True)
    (path / ".spooltop").symlink_to(tmp_path / "elsewhere")
    with Spool(path) as spool, pytest.raises((OSError, errors.SpooltopError)):
        spool.claim()
    assert names(tmp_path / "elsewhere") == []
    assert len(names(path / "new")) == 1


def test_no_warning_escapes(path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with Spool.create(path) as spool:
            spool.put(b"x")
            for claim in spool.claims(timeout=0):
                with claim:
                    assert claim.data == b"x"


def test_a_claim_outlives_the_name_of_its_spool(path: Path) -> None:
    """A program that keeps the claim and not the spool still holds it: nobody else gets the message meanwhile."""
    with Spool.create(path) as other:
        id = other.put(b"x")
        claim = Spool(path).claim()
        assert claim is not None
        import gc

        gc.collect()
        assert other.claim() is None and other.depth() == 0
        assert claim.data == b"x" and claim.id == id
        claim.ack()
        assert names(path / "cur") == []
        other.put(b"y")
        with pytest.warns(ResourceWarning):
            claims = list(Spool(path).claims())
            assert other.claim() is None
            del claim, claims
            gc.collect()
        assert other.depth() == 1


def test_an_ended_claim_says_that_it_ended(path: Path) -> None:
    with Spool.create(path) as spool:
        spool.put(b"x")
        claim = spool.claim()
        assert claim is not None
        claim.ack()
        for step in (claim.ack, claim.release, claim.open, lambda: claim.data, lambda: claim.reject("r")):
            with pytest.raises(errors.ClaimLost, match="ended"):
                step()


def test_text_is_refused_and_leaves_nothing(path: Path) -> None:
    with Spool.create(path) as spool:
        for wrong in ("text", None, 5, io.StringIO("text")):
            with pytest.raises(TypeError):
                spool.put(wrong)  # type: ignore[arg-type]
            with pytest.raises(TypeError):
                spool.put_many([b"good", io.StringIO("text") if isinstance(wrong, io.StringIO) else wrong])  # type: ignore[list-item]
        assert names(path / "new") == [] == names(path / "tmp")
        spool.put_many([bytearray(b"a"), memoryview(b"b"), io.BytesIO(b"c")])
        assert [(path / "new" / n).read_bytes() for n in names(path / "new")] == [b"a", b"b", b"c"]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), b"x", object(), {1: {2}}])
def test_a_cursor_takes_only_json(tmp_path: Path, value: object) -> None:
    with pytest.raises((ValueError, TypeError)):
        CursorFile(tmp_path / "cursors.json").advance("a", value)  # type: ignore[arg-type]
    assert "cursors.json" not in os.listdir(tmp_path)


def test_a_key_is_remembered_however_long_ago(path: Path) -> None:
    with Spool.create(path) as spool:
        id = spool.put(b"x", key="k")
    with Spool(path, clock=lambda: time.time() + 10 * 366 * 86400) as later:
        assert later.put(b"y", key="k") == id and later.depth() == 1
        later.put(b"z", key="another")
        assert later.put(b"y", key="k") == id and later.depth() == 2
