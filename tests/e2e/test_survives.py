"""Faults of a spool, a machine or a terminal during watching: figures stay true or are marked, and keys answer."""

from __future__ import annotations

import os
import re
import resource
import shlex
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from spooltop.engine import Spool

from .terminal import SPOOLTOP, Dashboard, Person, Terminal, all_of, in_one_line
from .test_who_lives import needs_root

pytestmark = pytest.mark.long


def depth(box: str, count: int) -> Callable[[str], bool]:
    """True of an Overview whose row of ``box`` counts so many."""
    return lambda text: re.search(rf"^│? {box} +{count:,} ".replace(",", ","), text, re.MULTILINE) is not None


def shape(text: str) -> list[str]:
    """The lines of a screen without what changes by itself: times, rates, graphs, numbers by age, free space."""
    text = re.sub(r"\S+B free \d+%(, inodes free \d+%)?", "DISK", text)
    text = re.sub(r"\d\d:\d\d:\d\d|[<≤≥]?[\d.]+(?:s|/s)(?!\w)", "T", text)
    text = re.sub(r"(?:·*[▁-█]|·{3})[·▁-█ ]*", " ", text)
    lines = (re.sub(r"\b(in|done|retried) T", r"\1", " ".join(line.split())) for line in text.split("\n"))
    return [re.sub(r"(?:\d+ ){6}\d+", "AGES", line) for line in lines]


def put(path: Path, count: int) -> None:
    with Spool(str(path), durable=False) as spool:
        spool.put_many([b"x"] * count)


def leaves(screen: Terminal) -> None:
    assert Person(screen).leaves() == 0


def through_fuse(backing: Path, *command: str) -> Terminal:
    """``command`` where ``backing`` is mounted at ``mount`` beside it."""
    mount = backing.with_name("mount")
    mount.mkdir()
    return Terminal(["unshare", "--mount", sys.executable, "-m", "tests.e2e.fusefs", str(backing), str(mount), *command])


def server_of(screen: Terminal) -> psutil.Process:
    """The program behind the mount."""
    return next(one for one in psutil.Process(screen.process.pid).children() if "tests.e2e.fusefs" in one.cmdline())


@needs_root
@pytest.mark.early
def test_through_fuse_it_lists_by_time_and_lives_and_ends_while_the_server_does_not_answer(spool_path: Path) -> None:
    mount = spool_path.with_name("mount")
    with through_fuse(spool_path, *SPOOLTOP, str(mount)) as screen:
        screen.wait_for("every 1s (fuse sends no events)")
        put(spool_path, 4)
        screen.wait_for(depth("new", 7))
        server = server_of(screen)
        (looking,) = [one for one in psutil.Process(screen.process.pid).children() if one != server]
        server.send_signal(signal.SIGUSR1)
        screen.type("2")
        screen.wait_for(all_of("STALE", "does not answer", "as of"))
        screen.type("1")
        screen.wait_for(depth("new", 7))
        leaves(screen)
        assert looking.is_running()  # out of reach of any signal, and nobody has to wait for it
        server.terminate()
        looking.wait(30)


@needs_root
def test_the_keeper_on_fuse_stops_goes_on_and_ends_as_the_dashboard_would(spool_path: Path) -> None:
    opens = shlex.join([*SPOOLTOP, str(spool_path.with_name("mount"))])
    with through_fuse(spool_path, "env", "PS1=ready> ", "bash", "--norc", "--noprofile", "-i") as shell:
        shell.wait_for("ready>")
        shell.type(f"{opens}\n")
        shell.wait_for("fuse sends no events")
        (supervisor,) = [one for one in psutil.Process(shell.process.pid).children() if one.children()]
        shell.type("\x1a")
        shell.wait_for("Stopped")
        shell.screen.reset()
        shell.type("fg\n")
        shell.wait_for("fuse sends no events")
        shell.type("2")
        shell.wait_for("New 3")
        left = len(shell.raw)
        supervisor.terminate()
        shell.wait_for(lambda _: b"ready> " in shell.raw[left:])
        shell.type("echo it was $?\n")
        shell.wait_for("it was 143")
        server_of(shell).terminate()


@needs_root
def test_what_comes_by_a_lower_layer_of_an_overlay(spool_path: Path, tmp_path: Path) -> None:
    for name in ("upper", "work", "mount"):
        (tmp_path / name).mkdir()
    layers = f"lowerdir={spool_path},upperdir={tmp_path}/upper,workdir={tmp_path}/work"
    mounted = f'mount -t overlay -o "{layers}" overlay "{tmp_path}/mount" && chmod 755 "{tmp_path}/mount/new" && exec "$@"'
    with Terminal(["unshare", "--mount", "sh", "-c", mounted, "sh", *SPOOLTOP, str(tmp_path / "mount")]) as screen:
        screen.wait_for("live, listed every 1s (overlay)")
        screen.wait_for(depth("new", 3))
        put(spool_path, 4)
        screen.wait_for(depth("new", 7))
        leaves(screen)


@pytest.mark.parametrize("limit", ["max_inotify_instances", "max_inotify_watches"])
def test_where_nothing_can_be_watched_it_scans_and_says_so(spool_path: Path, limit: str) -> None:
    script = f'echo 0 >/proc/sys/user/{limit} && exec "$@"'
    with Terminal(["unshare", "--user", "--map-root-user", "sh", "-c", script, "sh", *SPOOLTOP, str(spool_path)]) as screen:
        screen.wait_for(in_one_line("Not visible: changes between two looks (1s apart: "))
        screen.wait_for("inotify")
        screen.wait_for(depth("new", 3))
        put(spool_path, 4)
        screen.wait_for(depth("new", 7))
        leaves(screen)


def test_out_of_descriptors_for_a_while(spool_path: Path, dashboard: Dashboard) -> None:
    screen = dashboard(str(spool_path))
    screen.wait_for(depth("new", 3))
    soft, hard = resource.prlimit(screen.process.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(screen.process.pid, resource.RLIMIT_NOFILE, (3, hard))
    put(spool_path, 1)
    screen.wait_for("Too many open files")
    screen.type("3")
    screen.wait_for("Claims")
    resource.prlimit(screen.process.pid, resource.RLIMIT_NOFILE, (soft, hard))
    screen.type("q")
    screen.wait_for(depth("new", 4))
    leaves(screen)


def test_stopped_while_more_happens_than_the_queue_holds_it_is_exact_again(spool_path: Path, dashboard: Dashboard) -> None:
    queue = min(40_000, int(Path("/proc/sys/fs/inotify/max_queued_events").read_text()))
    screen = dashboard(str(spool_path))
    screen.wait_for(depth("new", 3))
    screen.process.send_signal(signal.SIGSTOP)
    with Spool(str(spool_path), durable=False) as spool:
        for _ in range(queue // 2_000 + 1):  # each message is four events
            spool.put_many([b"x"] * 500)
            spool.ack_many(spool.claims())
        spool.put_many([b"x"] * 234)
    screen.process.send_signal(signal.SIGCONT)
    screen.wait_for(depth("new", 234))
    put(spool_path, 1)
    screen.wait_for(depth("new", 235))
    leaves(screen)


def fill(screen: Terminal, frames: int) -> None:
    """Leaves no room on the way to the terminal, and draws: more than ten frames are more than may wait for some."""
    way = os.open(os.ttyname(screen.slave), os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)
    with suppress(BlockingIOError):
        while True:
            os.write(way, bytes(4096))
    os.close(way)
    for number in range(frames):
        before = worked(screen)
        screen.type("2345"[number % 4] + "\x0c")
        while screen.unread or worked(screen) < before + 0.03:  # as long as a frame of this size takes at least
            os.sched_yield()


def worked(screen: Terminal) -> float:
    """Seconds of processor time."""
    return psutil.Process(screen.process.pid).cpu_times().user


@pytest.mark.early
def test_a_terminal_that_does_not_read(spool_path: Path, dashboard: Dashboard) -> None:
    screen = dashboard(str(spool_path), cols=300, rows=80)
    screen.wait_for(depth("new", 3))
    fill(screen, 12)
    put(spool_path, 7)
    screen.type("1")
    while screen.unread:
        os.sched_yield()
    screen.wait_for(depth("new", 10))
    screen.wait_for(lambda text: re.search(r"│ +in +\S+/s .*│$", text, re.MULTILINE) is not None)  # the graph is drawn late
    while screen.pump(0.3):
        continue
    right = shape(screen.text)
    screen.type("\x0c")
    while screen.pump(0.3):
        continue
    assert shape(screen.text) == right
    screen.type("2")
    screen.wait_for("New 10")
    screen.type("q")
    screen.wait_for(depth("new", 10))
    leaves(screen)


@pytest.mark.parametrize("how", ["q", "SIGTERM", "gone"])
def test_a_terminal_that_takes_nothing_any_more_keeps_nobody(spool_path: Path, dashboard: Dashboard, how: str) -> None:
    screen = dashboard(str(spool_path), cols=300, rows=80)
    screen.wait_for(depth("new", 3))
    fill(screen, 2)
    if how == "q":
        screen.type("1q")
    elif how == "SIGTERM":
        screen.process.terminate()
    else:
        screen.hang_up()
    assert screen.process.wait(30) == {"q": 0, "SIGTERM": 143, "gone": 129}[how]


@pytest.mark.parametrize(
    ("term", "lang"),
    [("linux", "C"), ("screen", "C.UTF-8"), ("xterm", "C"), ("tmux-256color", "C.UTF-8"), ("no-such-terminal", "C")],
)
def test_any_kind_of_terminal(spool_path: Path, dashboard: Dashboard, term: str, lang: str) -> None:
    screen = dashboard(str(spool_path), env={"TERM": term, "LANG": lang, "LC_ALL": "", "LC_CTYPE": ""})
    screen.wait_for(all_of("live", "no problems detected"))
    screen.type("2")
    screen.wait_for("New 3")
    screen.type("q")
    screen.wait_for("no problems detected")
    leaves(screen)
    assert bytes(screen.raw).isascii() == (lang == "C" or term == "linux")
