"""A spool that all users may write (0777, or 1777 as /tmp), and users who have no group in common."""

from __future__ import annotations

import itertools
import json
import os
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.needs import needs

from .terminal import SPOOLTOP

pytestmark = pytest.mark.long

needs_root = needs("root")
ANN, BOB, STAFF = 65533, 65532, 65531
"""ANN owns the spool; BOB comes first; STAFF is a group."""

PUT = """
with Spool(sys.argv[1], durable=False) as spool:
    print(json.dumps([spool.put(b"order", key=key, source="shop") for key in sys.argv[2:]]))
"""
WORK = """
with Spool(sys.argv[1], durable=False) as spool:
    back, done = spool.recover(), []
    for claim in spool.claims():
        with claim:
            done.append(claim.id)
    print(json.dumps([back, done, spool.suppressed()]))
"""
DIE = """
spool = Spool(sys.argv[1], durable=False)
claim = spool.claim()
print(json.dumps(claim.id), flush=True)
os.kill(os.getpid(), 9)
"""


@pytest.fixture(params=[0o777, 0o1777], ids=["0777", "1777"])
def shared(request: pytest.FixtureRequest) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        path = Path(folder, "spool")
        for one in (path, path / "tmp", path / "new", path / "cur"):
            one.mkdir()
            os.chown(one, ANN, ANN)
            one.chmod(request.param)
        yield path


def run(user: int, command: Sequence[str], code: int = 0, groups: str = "--clear-groups") -> str:
    became = ["setpriv", f"--reuid={user}", f"--regid={user}", groups, "--", *command]
    environ = {name: value for name, value in os.environ.items() if name not in ("HOME", "XDG_CONFIG_HOME")}
    completed = subprocess.run(became, capture_output=True, text=True, check=False, timeout=60, env=environ)
    assert completed.returncode == code, (command, completed.stdout, completed.stderr)
    return completed.stdout


def engine(user: int, script: str, spool: Path, *words: str, code: int = 0, groups: str = "--clear-groups") -> object:
    head = "import json, os, sys\nfrom spooltop.engine import Spool\n"
    return json.loads(run(user, [sys.executable, "-c", head + script, str(spool), *words], code, groups))


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@needs_root
def test_the_owner_and_another_user_put_claim_and_recover(shared: Path) -> None:
    first = engine(BOB, PUT, shared, "k1", "k2")
    assert isinstance(first, list)
    assert engine(ANN, PUT, shared, "k1") == first[:1]
    assert engine(BOB, DIE, shared, code=-signal.SIGKILL) == first[0]
    assert engine(ANN, WORK, shared) == [first[:1], first, {"shop": 1}]
    second = engine(ANN, PUT, shared, "k2", "k3")
    assert isinstance(second, list) and second[0] == first[1]
    third = engine(BOB, PUT, shared, "k3", "k4")
    assert isinstance(third, list) and third[0] == second[1]
    done = engine(ANN, WORK, shared)
    assert done == [[], [second[1], third[1]], {"shop": 3}]


@needs_root
@pytest.mark.parametrize(
    ("owner", "groups", "beside"), [(ANN, f"--groups={STAFF}", (STAFF, 0o770)), (BOB, "--clear-groups", (BOB, 0o700))],
    ids=["a member of its group", "its owner, no member"],
)  # fmt: skip
def test_what_lies_beside_the_boxes_is_open_to_the_group_of_the_spool_and_to_no_other(
    shared: Path, owner: int, groups: str, beside: tuple[int, int]
) -> None:
    """A user who is not root gives a directory to a group of his own at most."""
    for one in (shared, shared / "tmp", shared / "new", shared / "cur"):
        os.chown(one, owner, STAFF)
        one.chmod(0o770)
    engine(BOB, PUT, shared, "k1", groups=groups)
    for one in (shared / ".spooltop", shared / ".spooltop" / "keys"):
        assert (one.stat().st_gid, mode(one)) == beside


@needs_root
def test_the_owner_and_another_user_operate(shared: Path) -> None:
    engine(BOB, PUT, shared, "k1", "k2")
    path = str(shared)
    for user, back in itertools.product((BOB, ANN), ("undo", "release")):
        run(user, [*SPOOLTOP, "hold", path, "ALL", "--box", "new", "--yes"])
        assert not list((shared / "new").iterdir())
        last = json.loads(run(user, [*SPOOLTOP, "ops", "--json", path]).splitlines()[0])["operation"]
        run(user, [*SPOOLTOP, back, path, last if back == "undo" else "ALL", "--yes"])
        assert len(list((shared / "new").iterdir())) == 2
    journal = [json.loads(line) for line in (shared / ".spooltop/journal.jsonl").read_text().splitlines()]
    assert {line["by"]["uid"] for line in journal if line["line"] == "intent"} == {BOB, ANN}
    assert json.loads(run(ANN, [*SPOOLTOP, "status", "--json", str(shared)]))["complete"] is True


@needs_root
def test_what_lies_beside_the_boxes_is_as_open_as_new(shared: Path) -> None:
    engine(BOB, PUT, shared, "k1", "k1")
    run(BOB, [*SPOOLTOP, "hold", str(shared), "ALL", "--box", "new", "--yes"])
    engine(BOB, PUT, shared, "k2")
    assert engine(BOB, DIE, shared, code=-signal.SIGKILL)
    own = shared / ".spooltop"
    for path in own.rglob("*"):
        if path.parent.name == "consumers":
            assert mode(path) == 0o644, path  # whoever reads new may ask for the lock, and nobody else take it
        elif path.is_dir():
            assert mode(path) == mode(shared / "new"), path
        elif path.suffix in (".jsonl", ".lock") or path.name == "counters":
            assert mode(path) == 0o666, path
    assert mode(own) == mode(shared / "new")


@needs_root
def test_another_user_moves_nothing_from_a_sticky_box(shared: Path) -> None:
    engine(ANN, PUT, shared, "k1")
    is_sticky = bool(mode(shared / "new") & stat.S_ISVTX)
    run(BOB, [*SPOOLTOP, "hold", str(shared), "ALL", "--box", "new", "--dry-run"], code=3 if is_sticky else 0)
