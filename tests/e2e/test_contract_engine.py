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
from pathlib import Path

import pytest

from spooltop import errors
from spooltop.engine import Claim, ClaimLost, CursorFile, FileTicketQueue, NotASpool, PutUnknown, Spool
from tests.needs import needs

OWN_ID = re.compile(r"\d{16}\.P\d+R[0-9a-f]{16}\.[^,:/]+\Z")
CLAIM = re.compile(r"(?P<new>.+),c=(?P<token>[0-9a-f]{32})\.(?P<us>\d+):2,P(?P<pid>\d+)\Z", re.DOTALL)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "spool"


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def parameters(function: object) -> dict[str, object]:
    """Names and defaults of the parameters that the contract names."""
    promised = ("data", "source", "id", "key", "durable", "timeout", "delay", "reason")
    given = inspect.signature(function).parameters.items()  # type: ignore[arg-type]
    return {name: None if value.default is value.empty else value.default for name, value in given if name in promised}


def test_signatures_are_as_promised() -> None:
    assert parameters(Spool.put) == dict.fromkeys(("data", "source", "id", "key", "durable"))
    assert parameters(Spool.put_many) == dict.fromkeys(("source", "durable"))
    assert (parameters(Spool.claim), parameters(Spool.create)) == ({"timeout": 0}, {"durable": True})
    assert (parameters(Claim.release)["delay"], "reason" in parameters(Claim.reject)) == (0, True)
    assert "timeout" in parameters(Spool.claims)
    assert all(issubclass(error, errors.SpooltopError) for error in (ClaimLost, PutUnknown, NotASpool))


def test_put_writes_the_bytes_under_an_own_id(path: Path) -> None:
    os.umask(mask := os.umask(0))
    os.umask(mask)
    with Spool.create(str(path)) as spool:
        before = int(time.time() * 1e6)
        id = spool.put(b"\x00\xffhi")
    assert OWN_ID.match(id) and before <= int(id[:16]) <= int(time.time() * 1e6) and f".P{os.getpid()}R" in id
    assert names(path / "new") == [id] and names(path / "tmp") == [] and (path / "new" / id).read_bytes() == b"\x00\xffhi"
    assert stat.S_IMODE((path / "new" / id).stat().st_mode) == 0o666 & ~mask


@pytest.mark.parametrize(
    "file",
    ["dovecot-uidlist", "dovecot.index.log", "courierimapuiddb", "maildirfolder", "cur/1600000000.1_2.host:2,RS",
     "cur/1600000000.1_2.host:2,", "new/1600000000.M123456P77Q1.host"],
)  # fmt: skip
def test_mail_is_refused(path: Path, file: str) -> None:
    for box in ("tmp", "new", "cur"):
        (path / box).mkdir(parents=True)
    (path / file).write_text("")
    before = sorted(path.rglob("*"))
    for opens in (Spool, Spool.create):
        with pytest.raises(errors.SpooltopError, match="mail"):
            opens(path)  # type: ignore[operator]
    assert sorted(path.rglob("*")) == before


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
    first, second = FileTicketQueue(tmp_path / "q"), FileTicketQueue(str(tmp_path / "q"))
    ticket, member = first.register()
    assert re.fullmatch(r"\d{20}\.\d+\.[0-9a-f]{32}", member)
    assert (int(member[:20]), member.split(".")[1]) == (ticket, str(os.getpid())) and names(tmp_path / "q") == [member, "seq"]
    later, other = second.register()
    assert later == ticket + 1 and first.is_head(ticket) and not first.is_head(later) and not first.is_empty()
    first.remove(member)
    assert first.is_head(later)
    first.remove(member)
    first.remove(other)
    assert first.is_empty() and names(tmp_path / "q") == ["seq"]


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
