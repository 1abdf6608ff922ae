"""The run without what only Linux has: everything starts, and what cannot be seen there is said."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from spooltop.engine import Spool

from .terminal import Terminal

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
ELSEWHERE = (sys.executable, "-m", "tests.e2e.elsewhere")

_CONSUMER = """
import sys, time
from spooltop.engine import Spool

spool = Spool(sys.argv[1])
first, began = spool.claim(timeout=5), time.monotonic()
print(first.data.decode(), spool.claim(timeout=0.3), time.monotonic() - began >= 0.3, flush=True)
came = spool.claim(timeout=60)
text = came.data.decode()
came.ack()
print(text, flush=True)
sys.stdin.read()
"""

_COMMANDS = """
import contextlib, io, json, sys
from spooltop.__main__ import main

for words in json.loads(sys.argv[1]):
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        code = main(words)
    print(json.dumps([code, out.getvalue() + err.getvalue()]))
"""


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    path = tmp_path / "spool"
    Spool.create(str(path), durable=False).close()
    return path


def run(code: str, *words: str) -> str:
    done = subprocess.run([*ELSEWHERE, "-c", code, *words], cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    return done.stdout


def commands(*commands: tuple[str, ...]) -> list[tuple[int, str]]:
    """Exit code and output of each command of ``spooltop``, all in one process."""
    return [(code, text) for code, text in map(json.loads, run(_COMMANDS, json.dumps(commands)).splitlines())]


@contextmanager
def running(code: str, *words: str) -> Iterator[subprocess.Popen[str]]:
    command = [*ELSEWHERE, "-c", code, *words]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def test_the_names_are_hidden() -> None:
    """Fails if the other tests of this module prove nothing."""
    code = (
        "import os, time, spooltop.engine.files, spooltop.engine.syscalls as calls\n"
        "names = [hasattr(os, 'eventfd'), hasattr(os, 'O_PATH'), hasattr(time, 'CLOCK_BOOTTIME'), os.path.exists('/proc/self')]\n"
        "print(names, calls.HAS_INOTIFY, spooltop.engine.files.OFD_LOCKS)"
    )
    assert run(code) == "[False, False, False, False] False False\n"


def test_put_claim_and_work(tmp_path: Path) -> None:
    file, path = tmp_path / "one", str(tmp_path / "new spool")
    file.write_text("one")
    put = ("put", path, str(file), "--source", "bot")
    work = ("work", path, "--drain", "--", "sh", "-c", 'test "$(cat)" = one')
    made, one, done, two = commands(("init", path), put, work, put)
    assert made == (0, f"made {path} with tmp, new, cur\n")
    assert (one[0], done[0], two[0]) == (0, 0, 0) and "bot attempt 1 done after" in done[1]
    with running(_CONSUMER, path) as consumer:
        assert line(consumer) == "one None True\n"
        with Spool(path, durable=False) as spool:
            spool.put(b"came while it waited")
        assert line(consumer) == "came while it waited\n"
    shown, dead, all_of_them, listed = commands(
        ("status", path, "--json"), ("requeue", path, "--verdict", "dead", "--yes"),
        ("requeue", path, "ALL", "--force", "--yes"), ("ls", path, "--box", "new", "--json"),
    )  # fmt: skip
    (problem,) = json.loads(shown[1])["problems"]
    assert problem["code"] == "claims-unknown" and "cannot be told from a process of another machine" in problem["text"]
    assert dead[0] == 4 and "requeued 1 · skipped 0 · failed 0" in all_of_them[1]
    assert [json.loads(row)["id"] for row in listed[1].splitlines()] == [two[1].strip()]


def test_what_cannot_be_seen_is_said(spool: Path) -> None:
    (spool / "cur" / "1234567890.M1P4194303.here:2,P4194303").touch()
    (spool / "tmp" / f"1234567890.M1P4194303.{os.uname().nodename}").touch()
    (spool / "soft.lock").write_text(f"4194303\n{os.uname().nodename}\n\n")
    (spool / "some.lock").touch()
    path = str(spool)
    with Spool(path, durable=False) as here:
        here.put(b"one")
        held = here.claim()
        assert held is not None
        claims, draft, locks, status, holders = commands(
            ("ls", path, "--box", "cur", "--json"), ("ls", path, "--box", "tmp", "--json"), ("locks", path), ("status", path),
            ("show", path, "1234567890.M1P4194303.here", "--who"),
        )  # fmt: skip
        held.ack()
    foreign, own = sorted(map(json.loads, claims[1].splitlines()), key=lambda row: row["id"] == held.id)
    for row in (foreign, json.loads(draft[1])):
        assert (row["verdict"], row["evidence"]) == ("unknown", "no pid 4194303 here")
    assert own["verdict"] == "unknown" and "this system cannot tell whether" in own["evidence"]
    assert "no pid 4194303 here" in locks[1] and "this system does not show who holds a lock" in locks[1]
    assert "not visible: holders of 2 locks" in status[1]
    assert "this system does not show who holds a lock" in holders[1]


def test_the_dashboard_shows_what_comes(spool: Path) -> None:
    (spool / "some.lock").touch()
    screen = Terminal([*ELSEWHERE, "-m", "spooltop", str(spool)], cwd=str(ROOT))
    try:
        screen.wait_for(shows("live · as of", "no problems detected", "some.lock", "not visible"))
        with Spool(str(spool), durable=False) as here:
            here.put(b"one")
        screen.wait_for(lambda text: re.search(r"^ new +1 ", text, re.MULTILINE) is not None)
        screen.type("q")
        assert screen.wait_exit() == 0
    finally:
        screen.close()


def shows(*words: str) -> Callable[[str], bool]:
    return lambda text: all(word in text for word in words)
