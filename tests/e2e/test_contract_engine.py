"""The engine as another program's author reads its contract: nothing here looks further than the public names and the disk."""

from __future__ import annotations

import fcntl
import inspect
import json
import os
import re
import stat
import subprocess
import sys
import threading
import time
import uuid
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


def test_a_key_is_remembered_however_long_ago(path: Path) -> None:
    with Spool.create(path) as spool:
        id = spool.put(b"x", key="k")
    with Spool(path, clock=lambda: time.time() + 10 * 366 * 86400) as later:
        assert later.put(b"y", key="k") == id and later.depth() == 1
        later.put(b"z", key="another")
        assert later.put(b"y", key="k") == id and later.depth() == 2
