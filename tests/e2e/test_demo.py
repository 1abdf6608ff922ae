"""The demo as a person has it: what it shows, how it ends, and that nothing is left of it, and nothing else removed."""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import re
import resource
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
import pytest

from spooltop.control import open_control
from spooltop.engine import Spool
from spooltop.model.vocabulary import Box

from .terminal import SPOOLTOP, Dashboard, Person
from .tour import play

_SUBREAPER = 36
"""PR_SET_CHILD_SUBREAPER of prctl(2)."""

Demo = Callable[..., subprocess.Popen[str]]
ACTORS = 13
STREAM_ACTORS = 12
PREFIX = "spooltop-demo-"
SETTINGS = {"SPOOLTOP_TMP_OLD": "5s", "SPOOLTOP_CLAIM_LONG": "15s", "SPOOLTOP_LOCK_BLOCKED": "10s"}
"""Thresholds for a spool at the demo's speed."""


@pytest.fixture
def temp() -> Iterator[Path]:
    """A directory with a short name: the path of a socket has 107 bytes at most."""
    with TemporaryDirectory(prefix="t") as folder:
        yield Path(folder)


@pytest.fixture
def demo(temp: Path) -> Iterator[Demo]:
    """Starts a demo without a terminal, its directory below ``temp``."""
    started: list[subprocess.Popen[str]] = []

    def start(*args: str, seconds: str = "600") -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [*SPOOLTOP, "demo", "--headless", seconds, *args],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | {"TMPDIR": str(temp)},
        )  # fmt: skip
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def family_of(process: subprocess.Popen[str], least: int = ACTORS) -> list[psutil.Process]:
    """All that the demo started, once it has started them."""
    demo = psutil.Process(process.pid)
    end = time.monotonic() + 30
    while len(children := demo.children(recursive=True)) < least:
        assert time.monotonic() < end, children
        assert process.poll() is None
        psutil.wait_procs([demo], timeout=0.1)
    return children


def server_of(process: subprocess.Popen[str]) -> psutil.Process:
    """The server of a demo on a stream, once it runs: others that the demo starts may end at any moment."""
    demo = psutil.Process(process.pid)
    while True:
        for child in demo.children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                if child.name() in ("redis-server", "valkey-server"):
                    return child
        assert process.poll() is None


def assert_gone(processes: list[psutil.Process]) -> None:
    _, alive = psutil.wait_procs(processes, timeout=20)
    assert not alive


def chosen(text: str) -> str:
    """The line that the cursor is on."""
    return next((line for line in text.split("\n") if line.startswith("▌")), "")


@pytest.mark.long
@pytest.mark.early
def test_everything_that_it_promises_is_seen_and_the_kept_spool_is_a_good_one(demo: Demo, tmp_path: Path) -> None:
    spool = tmp_path / "kept"
    process = demo("--dir", str(spool))
    processes = family_of(process)
    wanted = {"claims-dead", "tmp-abandoned", "cursor-reverted", "lock-blocked", "claim-long", "poison"}
    told: dict[str, set[str]] = {}
    end = time.monotonic() + 90
    with open_control(str(spool), settings=SETTINGS) as control:
        while not wanted <= told.keys():
            assert time.monotonic() < end, wanted - told.keys()
            control.changes(0.5)
            snapshot = control.look()
            for problem in snapshot.problems:
                told.setdefault(problem.code, set()).add(problem.text)
        counts = snapshot.observation.counts
        assert 1 <= counts.dead <= 3 and counts.unknown == 0
        # Where the machine stalls for seconds, others come between the read and the write of the one too: any, not all.
        assert any(line.startswith("imessage reverted 89636→89632") for line in told["cursor-reverted"])
        (lock,) = [lock for lock in snapshot.observation.locks if lock.path.endswith("import.lock")]
        assert [holder.command for holder in (*lock.holders, *lock.waiters)] == ["import.py", "backup.py"]
        commands = {row.owner.command for row in snapshot.observation.claims if row.owner}
        assert commands <= {"worker-1.py", "worker-2.py", "indexer.py"}
    log = (spool / "logs" / "poll-imessage.log").read_text()
    assert "poll ok: 4 new (cursor 89632 -> 89636)\n" in log and "poll ok: 0 new (cursor=89636)\n" in log
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=20)
    assert_gone(processes)
    with open_control(str(spool), watch=False) as control:
        after = control.look().observation
    assert (after.counts.dead, after.counts.alive) == (len(after.claims), 0)  # the living gave theirs back
    assert (spool / "logs" / "demo.log").read_text() == ""
    with Spool(spool) as box:
        assert box.recover() != []


@pytest.mark.parametrize(
    ("words", "begin", "cursors", "held"),
    [
        ((), "{}/", {"imessage", "teams", "signal", "email", "messenger"}, 0),
        (("--redis",), "unix://{}/", {"workers", "archive"}, 2),
    ],
)
def test_the_status_is_printed_and_nothing_is_left(
    demo: Demo, temp: Path, words: tuple[str, ...], begin: str, cursors: set[str], held: int
) -> None:
    process = demo("--json", *words, seconds="3" if words else "1")
    server = [server_of(process)] if words else []
    assert [one.net_connections("tcp") for one in server] == [[]] * len(server)
    out, err = process.communicate(timeout=60)
    status = json.loads(out)
    assert status["spool"].startswith(f"{begin.format(temp)}{PREFIX}")
    assert (set(status["cursors"]), status["boxes"]["held"]["count"]) == (cursors, held)
    assert process.returncode == 0 and err.startswith("demo over: you requeued 0 of ")
    assert_gone(server)
    assert os.listdir(temp) == []


def test_its_processes_are_waited_for_and_not_left_to_an_init_that_may_wait_for_none(demo: Demo) -> None:
    prctl = ctypes.CDLL(None).prctl
    assert prctl(_SUBREAPER, 1) == 0  # what is left comes to this process
    try:
        process = demo(seconds="3")
        pids = {one.pid for one in family_of(process)}
        process.communicate(timeout=60)
        assert not pids & {one.pid for one in psutil.Process().children()}
    finally:
        prctl(_SUBREAPER, 0)


def test_it_runs_where_a_thousand_files_are_open(temp: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 2048:
        pytest.skip("fewer files may be open here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (2048, hard))
    fds = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    try:
        command = [*SPOOLTOP, "demo", "--headless", "1"]
        subprocess.run(command, pass_fds=fds, env=os.environ | {"TMPDIR": str(temp)}, check=True, timeout=60, capture_output=True)
    finally:
        for fd in fds:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert os.listdir(temp) == []


@pytest.mark.long
def test_all_of_a_demo_on_a_stream_is_seen(demo: Demo, temp: Path) -> None:
    process = demo("--redis")
    family_of(process, STREAM_ACTORS)
    (base,) = temp.iterdir()
    wanted = {"claims-dead", "claim-long", "claims-unknown", "poison"}
    seen: set[str] = set()
    end = time.monotonic() + 90
    with open_control(f"unix://{base}/redis.sock#memex/workers", settings=SETTINGS) as control:
        while not wanted <= seen or control.look().observation.boxes[Box.REJECTED].count == 0:
            assert time.monotonic() < end, wanted - seen
            control.changes(0.5)
            seen |= {problem.code for problem in control.look().problems}
    assert (base / "demo.log").read_text() == ""
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=20)
    assert os.listdir(temp) == []


@pytest.mark.long
@pytest.mark.parametrize(("more", "least"), [((), ACTORS), (("--redis",), STREAM_ACTORS)])
def test_nothing_runs_on_when_it_is_killed_and_the_next_one_sweeps_what_is_left_of_it_alone(
    demo: Demo, temp: Path, tmp_path: Path, more: tuple[str, ...], least: int
) -> None:
    process = demo(*more)
    processes = family_of(process, least)
    (left,) = temp.iterdir()
    process.kill()
    assert_gone(processes)
    assert (left / ("redis.sock" if more else "memex")).exists()
    (left / "link").symlink_to(tmp_path)
    (tmp_path / "letter").write_text("keep")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    number = left.name.removeprefix(PREFIX)
    (temp / f"{PREFIX}mine").mkdir()
    (temp / f"{PREFIX}{number}-2").mkdir()
    (temp / f"precious-{number}").mkdir()
    (temp / f"{PREFIX}1{number}").write_text("x")
    os.mkfifo(temp / f"{PREFIX}2{number}")
    (temp / f"{PREFIX}3{number}").symlink_to(elsewhere)
    alive = temp / f"{PREFIX}4{number}"
    alive.mkdir()
    if os.geteuid() == 0:
        (temp / f"{PREFIX}5{number}").mkdir()
        os.chown(temp / f"{PREFIX}5{number}", 65534, 65534)
    others = {*os.listdir(temp)} - {left.name}
    held = os.open(alive, os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_SH)
        demo(seconds="0").communicate(timeout=60)
    finally:
        os.close(held)
    assert {*os.listdir(temp)} == others
    assert sorted(os.listdir(tmp_path)) == ["elsewhere", "letter"] and os.listdir(elsewhere) == []


@pytest.mark.parametrize(
    ("words", "temporary", "code", "said"),
    [
        ((), ".", 2, "demo needs a terminal"),
        (("--headless", "0", "--dir", "{}"), ".", 3, "exists already"),
        (("--headless", "0", "--dir", "{}/missing/spool"), ".", 5, "its parent directory does not exist"),
        (("--headless", "0", "--redis"), "x" * 100, 3, "too long a path; set TMPDIR=/tmp"),
    ],
)
def test_a_demo_that_cannot_be_made_says_why(
    tmp_path: Path, words: tuple[str, ...], temporary: str, code: int, said: str
) -> None:
    (tmp_path / ("x" * 100)).mkdir()
    command = [*SPOOLTOP, "demo", *(word.format(tmp_path) for word in words)]
    env = {**os.environ, "TMPDIR": str(tmp_path / temporary)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=60, env=env)
    assert (done.returncode, done.stdout, said in done.stderr, done.stderr.count("\n")) == (code, "", True, 1), done.stderr
    assert os.listdir(tmp_path) == ["x" * 100]


def test_a_newcomer_requeues_the_red_line_and_leaves(dashboard: Dashboard, tmp_path: Path) -> None:
    screen = dashboard("demo", env={"TMPDIR": str(tmp_path)})
    screen.wait_for("live · as of")
    screen.wait_for("\n DEMO, deleted on exit")
    # On a slow machine more have died by the first look, and a message that was in work at each death may come first.
    dead = re.compile("claims? of (a )?dead consumers?")
    screen.wait_for(lambda text: dead.search(text) is not None)
    while dead.search(before := chosen(screen.text)) is None:
        screen.type("j")
        screen.wait_for(lambda text, before=before: chosen(text) != before)
    screen.type("r")
    screen.wait_for("y requeue ")
    asked = re.search("y requeue ([0-9]+)", screen.text)
    assert asked is not None
    screen.type("y")
    screen.wait_for(lambda text: f"Requeued {asked[1]}" in text and "Esc Close" in text)
    screen.type("\x1b")
    screen.wait_for("imessage reverted 89636→89632")
    family = psutil.Process(screen.process.pid).children(recursive=True)
    assert len(family) >= ACTORS - 3
    screen.type("qqq")
    assert screen.wait_exit() == 0
    assert_gone(family)
    assert f"demo over: you requeued {asked[1]} of ".encode() in screen.raw
    assert b"the spool is removed. Yours: spooltop PATH" in screen.raw and b"; undo: " not in screen.raw
    assert os.listdir(tmp_path) == []


@pytest.mark.long
def test_the_tour_that_its_last_line_names_works_and_works_again(dashboard: Dashboard, tmp_path: Path) -> None:
    screen = dashboard("demo", rows=24, env={"TMPDIR": str(tmp_path)})
    screen.wait_for("live · as of")
    person = Person(screen)
    for _ in range(2):
        play(person)
        assert "1Over 2New 3Claims 4Tmp 5Curs 6Locks 7Aside 8Cons" in screen.text  # the views stand above the tour
    assert person.leaves("\x03") == 0


def test_a_terminal_that_goes_away_ends_it_tidily(dashboard: Dashboard, tmp_path: Path) -> None:
    screen = dashboard("demo", env={"TMPDIR": str(tmp_path)})
    screen.wait_for("live · as of")
    family = psutil.Process(screen.process.pid).children(recursive=True)
    screen.process.send_signal(signal.SIGHUP)
    assert screen.wait_exit() == 129
    assert_gone(family)
    assert os.listdir(tmp_path) == []
