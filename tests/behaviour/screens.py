"""The record of the dashboard: what a terminal shows after scripted keys, in a spool in trouble, a layout and a cursor file.

    python -m tests.behaviour.screens [NAME …] [--write] [-x]

prints the difference between ``recorded/screens-NAME.txt`` and what is shown now, ``--write`` renews the record. A file holds the
screen after each line of a script, with pids, times, host and paths replaced. The clock of the dashboard stands still. A check
waits at each step until the screen is the recorded one, so that a busy machine makes no difference.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import pwd
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from tests.e2e.consumers import hold
from tests.e2e.terminal import Terminal

__all__ = ["RECORDED", "SCRIPTS", "Script", "check", "play"]

RECORDED = Path(__file__).parent / "recorded"
_ROOT = Path(__file__).parents[2]
_MODULE = "tests.behaviour.screens"
_AGO = 630
"""Seconds between the making of a scene and its clock: what was made within 50 s is 10 minutes old."""
_PATIENCE, _QUIET = 30.0, 2.5
"""Seconds for a screen to become the recorded one; seconds without a change after which an unknown screen is taken as complete:
longer than two looks are apart."""
_OPENED, _UNDER_WAY = "? keys", "making the plan"
"""Words of the footer of the first screen, and words of a screen that does not stay."""
_EARLY = ("press it again", "only just been shown")
"""Words that ask for the key of a confirmation again."""
_KEYS = {"Enter": "\r", "Esc": "\x1b", "Space": " ", "Tab": "\t", "Down": "\x1b[B", "Up": "\x1b[A", "C-l": "\x0c", "Back": "\x7f"}
_LOCKER = "import fcntl, sys; f = open(sys.argv[1], 'a'); fcntl.flock(f, 2); print('locked', flush=True); sys.stdin.read()"
_POLLER = """
import sys
from spooltop.engine import CursorFile
with CursorFile(sys.argv[1]) as cursors:
    for source, value in eval(sys.argv[2]):
        cursors.advance(source, value)
"""
_DEAD = 4194290
"""First of the pids of dead processes: higher than any that the kernel has given."""


@dataclass
class Scene:
    """What a script is played on. ``words`` follow ``spooltop``; ``names`` are replaced on its screens."""

    folder: Path
    made: int = field(default_factory=lambda: int(time.time()))
    words: list[str] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)
    stack: ExitStack = field(default_factory=ExitStack)

    def __post_init__(self) -> None:
        (self.folder / "state").mkdir(parents=True)
        self.clock.write_text(str(self.made + _AGO))

    @property
    def clock(self) -> Path:
        return self.folder / "clock"

    @property
    def env(self) -> dict[str, str]:
        own = {name: str(self.folder / "state") for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "HOME")}
        return {**own, "TZ": "UTC", "PYTHONPATH": f"{_ROOT}", "SPOOLTOP_WHOLE": ""}

    def argv(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "tests.behaviour.clocked", str(self.clock), *words]

    def spooltop(self, *words: str) -> None:
        """Runs a command by the scene's clock."""
        env = {**os.environ, **self.env}
        subprocess.run(self.argv(*words), env=env, cwd=_ROOT, check=True, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)

    def keep(self, label: str, process: subprocess.Popen[str]) -> None:
        """Kills ``process`` at the end; ``label`` stands for its pid."""
        self.stack.callback(_end, process)
        self.names[str(process.pid)] = label

    def normalise(self, text: str) -> str:
        """Replaces what differs from run to run. Runs of spaces are cut in a line that had something as wide as it likes."""
        return "\n".join(self._normal_line(line) for line in text.split("\n")).rstrip()

    def _normal_line(self, line: str) -> str:
        for pattern, put in _SAME_WIDTH:
            line = pattern.sub(put, line)
        random = self.folder.parent.name.rpartition("-")[2]
        line = line.replace(random, "x" * len(random))
        for length in range(1, len(random)):  # a name that is too long is cut on either side
            line = line.replace(f"…{random[-length:]}/", f"…{'x' * length}/")
            line = line.replace(f"spooltop-{random[:length]}…", f"spooltop-{'x' * length}…")
        before = line
        for name, label in self.names.items():
            line = re.sub(rf"(?<![\w.]){re.escape(name)}(?![\w])", label, line)
        for pattern, put in _ANY_WIDTH:
            line = pattern.sub(put, line)
        return line.rstrip() if line == before else re.sub(r" {2,}|─{2,}", "  ", line).rstrip()


_SAME_WIDTH = [(re.compile(pattern), put) for pattern, put in (
    (r"\b\d\d:\d\d:\d\d\b", "HH:MM:SS"), (r"\b\d{4}-\d\d-\d\d\b", "YYYY-MM-DD"), (r"(?<=YYYY-MM-DD )\d\d:\d\d\b", "HH:MM"),
    (r"\b\d{16}(?=\.|…)", "MICROSECONDS...."), (r"\b[0-9a-f]{10}\b(?!\.)", "OPERATION."),
    (r"(?<=…)\d{1,15}(?=\.P)", lambda cut: "MICROSECONDS..."[-len(cut[0]) :]), (r"(?<= )[0-9a-f]{3,9}(?=…)",
     lambda cut: "OPERATION"[: len(cut[0])]),
)]  # fmt: skip
_ANY_WIDTH = [(re.compile(pattern), put) for pattern, put in (
    (r"\S+ \S+ free \d+%(, inodes free \d+%)?", "DISK"), (r"(?<![\w…])\d{1,4}d\b", "DAYS"),
    (r", no CPU for \w+", ""), (r"/dev/pts/\d+", "TERMINAL"),
)]  # fmt: skip


def _end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def _poll(scene: Scene, path: Path, *values: tuple[str, object]) -> None:
    """Sets cursors as a poller does."""
    poller = subprocess.Popen([sys.executable, "-c", _POLLER, str(path), repr(values)], cwd=_ROOT)
    assert poller.wait() == 0
    scene.names[str(poller.pid)] = "POLLER"


def _lock(file: Path) -> subprocess.Popen[str]:
    """A process that takes a lock, or waits for it."""
    argv = [sys.executable, "-c", _LOCKER, str(file)]
    return subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _id(scene: Scene, number: int) -> str:
    """An id of the protocol's own form."""
    return f"{(scene.made - 600 + number) * 1_000_000:016d}.P{_DEAD}R{number:016x}.vm"


def _trouble(scene: Scene) -> None:
    """A spool with something in each view, most of it wrong."""
    from spooltop.engine import Spool

    path = scene.folder / "spool"
    scene.words = [str(path)]
    sources = ("imessage", "email", "teams")
    with Spool.create(str(path), durable=False) as spool:
        for number in range(14):
            source = sources[number % 3]
            body = json.dumps({"source": source, "rowid": 4000 + number, "text": "x" * number})  # no two of a size
            (path / "new" / f"{_id(scene, number)},s={source}").write_text(body)
        for _ in range(2):
            claim = spool.claim()
            assert claim is not None
            claim.reject("exit-1")
    (path / "new" / "report.txt").write_text("a report that another program put here\n")
    (path / "new" / ("long" * 55)).write_text("a name that leaves no room for a claim\n")
    for number, count in enumerate((2, 1)):
        _claim_and_die(path, count, _DEAD + number)
    scene.keep("CONSUMER", hold(path, 1))
    scene.keep("WRITER", _lock(path / "tmp" / _id(scene, 91)))
    waiting = sorted(name for name in os.listdir(path / "new") if name[0].isdigit())
    os.rename(path / "new" / waiting[0], path / "cur" / f"{waiting[0]}:2,P{_DEAD + 2}")
    (path / "tmp" / f"{_id(scene, 90)}").write_text("half a mess")
    (path / "tmp" / f"1700000000000000.{_DEAD + 3}.vm").write_text("half")
    (path / "cursors.json").write_text("{}")
    _poll(scene, path / "cursors.json", ("imessage", 89632), ("email", 204510), ("teams", "page-7"))
    stale = (path / "cursors.json").read_text()
    _poll(scene, path / "cursors.json", ("imessage", 89636))
    (path / "cursors.json.tmp").write_text(stale)
    os.rename(path / "cursors.json.tmp", path / "cursors.json")
    (path / "leader.lock").write_text(f"{_DEAD + 4}\n{os.uname().nodename}\n")
    locker = _lock(path / "work.lock")
    scene.keep("LOCKER", locker)
    assert locker.stdout is not None and locker.stdout.readline() == "locked\n"
    scene.keep("WAITER", _lock(path / "work.lock"))
    scene.spooltop("hold", str(path), waiting[1].split(",")[0], "--yes")
    scene.spooltop("purge", str(path), "--box", "new", waiting[2].split(",")[0], "--yes")


def _claim_and_die(path: Path, count: int, fake: int) -> None:
    """Claims of a consumer that was killed, as if its pid had been ``fake``."""
    consumer = hold(path, count)
    consumer.kill()
    consumer.communicate()
    for claim in (path / "cur").glob(f"*:2,P{consumer.pid}"):
        claim.rename(path / "cur" / claim.name.replace(f":2,P{consumer.pid}", f":2,P{fake}"))
    for presence in (path / ".spooltop" / "consumers").iterdir():
        owner = json.loads(presence.read_text())
        if owner["pid"] == consumer.pid:
            presence.write_text(json.dumps(owner | {"pid": fake, "start": 1, "command": "python worker.py"}) + "\n")


def _replace_oldest(scene: Scene) -> None:
    """Puts another file of the same size in the place of the oldest message in ``new``, as a restored backup would."""
    new = scene.folder / "spool" / "new"
    oldest = min(new.glob("[0-9]*"))
    (new.parent / "other").write_text("x" * oldest.stat().st_size)
    (new.parent / "other").rename(oldest)


def _job_queue(scene: Scene) -> None:
    """The queue of job-queue that tests/programs stores."""
    from tests.programs.stored import unpacked

    queue, _ = unpacked("job-queue", scene.folder)
    for file in sorted(queue.rglob("*")):
        os.utime(file, (scene.made, scene.made))
    scene.words = [str(queue)]


def _cursor_file(scene: Scene) -> None:
    """A cursor file alone, with journal."""
    path = scene.folder / "cursors.json"
    path.write_text('{"teams": {"page": 7, "token": "t-12"}}')
    _poll(scene, path, ("imessage", 10), ("imessage", 11), ("imessage", 12))
    scene.words = [str(path)]


def _spools(scene: Scene) -> None:
    """Three spools, one of them in trouble."""
    from spooltop.engine import Spool

    for name, count in (("alpha", 3), ("beta", 1), ("gamma", 2)):
        path = scene.folder / "queues" / name
        with Spool.create(str(path), durable=False):
            for number in range(count):
                (path / "new" / _id(scene, number)).write_text("x")
    _claim_and_die(path, 1, _DEAD)
    scene.words = [str(scene.folder / "queues")]


@dataclass(frozen=True)
class Script:
    """Keys on a scene. Each step of ``keys`` is typed, and what is shown then recorded: keys or text to type, with spaces
    between and ``;`` after it. ``+60`` sets the clock on by a minute, ``replace`` puts another file in the place of a message."""

    scene: Callable[[Scene], None]
    keys: str
    cols: int = 80
    rows: int = 24

    @property
    def steps(self) -> list[str]:
        return ["", *(step.strip() for line in self.keys.strip().splitlines() for step in line.split(";"))]


_LOOK = """
+5
2; j j; Enter; Esc; s; Down Enter; I; /; src:email; Enter; n; Space j Space; U; a; U; /
Back Back Back Back Back Back Back Back Back Enter; g; y; t; t; t; x; Esc; F; Esc
3; j; Enter; Esc; !; !
4; j; x; Esc
5; Enter; Esc
6; j; Enter; Esc
7; 7; 7; 8; Enter; Esc
1; !; !; Z; Z; ?; Esc; :; requ; Esc; Tab; [; z; Enter; Esc; Esc
"""
_CHANGE = """
+5
3; r; Esc; a; r; c; Esc; U; g; r; y; z; y; Esc; Esc
2; g; h; y; Esc; g d; replace; y; Esc
7; u; y; Esc; 7; 7; E; Esc
4; a; d; y; Esc
5; e; 5; Enter; Esc; Esc; m; m
6; d; y; Esc
2; i; Enter; Esc; Esc
1; P; y; Esc; P; Esc; r; Esc; z; j; z; Esc; Enter; Esc; Esc; +60
"""
_JOBS = """
2; 3; j; Enter; Esc; r; Esc; 6; 7; 8; ?; Esc; 1; z
"""
_CURSORS = """
j; Enter; Esc; e; 13; Enter; y; Esc; m; z; Esc; Enter; Esc; z; y; Esc; ?
"""
_SEVERAL = """
j; Enter; 2; 0; /; ga; Enter; Esc; s; Esc; ?; Esc
"""

SCRIPTS = {
    "look-80x24": Script(_trouble, _LOOK),
    "look-160x50": Script(_trouble, _LOOK, 160, 50),
    "change-80x24": Script(_trouble, _CHANGE),
    "change-160x50": Script(_trouble, _CHANGE, 160, 50),
    "job-queue-80x24": Script(_job_queue, _JOBS),
    "job-queue-160x50": Script(_job_queue, _JOBS, 160, 50),
    "cursor-file-80x24": Script(_cursor_file, _CURSORS),
    "spools-80x24": Script(_spools, _SEVERAL),
}


@contextmanager
def _played(script: Script) -> Iterator[tuple[Scene, Callable[[str], None], Terminal]]:
    folder = Path(tempfile.mkdtemp(prefix="spooltop-", dir="/tmp"))
    try:
        scene = Scene(folder / "a-folder-of-one-name")
        scene.names |= {os.uname().nodename: "HOST", pwd.getpwuid(os.geteuid()).pw_name: "USER"}
        with scene.stack:
            script.scene(scene)
            argv = scene.argv(*scene.words)
            with Terminal(argv, cols=script.cols, rows=script.rows, env=scene.env, cwd=str(_ROOT)) as terminal:
                scene.names[str(terminal.process.pid)] = "DASHBOARD"

                def type_line(step: str) -> None:
                    for word in step.split():
                        if re.fullmatch(r"\+\d+", word):
                            scene.clock.write_text(str(int(scene.clock.read_text()) + int(word)))
                        elif word == "replace":
                            _replace_oldest(scene)
                        else:
                            terminal.type(_KEYS.get(word, word))

                yield scene, type_line, terminal
    finally:
        shutil.rmtree(folder)


def play(script: Script, expected: Sequence[str] = (), *, stop: bool = False) -> list[str]:
    """Plays a script and returns its screens. Waits for each of ``expected`` while they are the ones that come; ``stop``: ends
    with the first that is another."""
    shown: list[str] = []
    with _played(script) as (scene, type_line, terminal):
        for number, step in enumerate(script.steps):
            type_line(step)
            wanted = expected[number] if [*expected[:number]] == shown and number < len(expected) else None
            head = f"=== {number} {step or 'opened'}\n"
            type_again = partial(type_line, step)
            shown.append(head + _settled(scene, terminal, wanted, type_again, first=not number) + "\n")
            if stop and expected and shown[-1] != wanted:
                break
    return shown


def _settled(scene: Scene, terminal: Terminal, wanted: str | None, type_again: Callable[[], None], *, first: bool) -> str:
    """The normalised screen once it is ``wanted``, less its heading, else once nothing changed for a while. A key that came too
    early to confirm a plan is typed again."""
    text, since, end = "", time.monotonic(), time.monotonic() + _PATIENCE
    while True:
        now, seen = time.monotonic(), scene.normalise(terminal.text)
        if seen != text:
            text, since = seen, now
            if any(words in text for words in _EARLY):
                type_again()
        stays = _UNDER_WAY not in text and (_OPENED in text or not first)
        complete = now >= end if wanted is not None else now - since > _QUIET and stays
        if complete or terminal.closed or (wanted is not None and f"{text}\n" == wanted.partition("\n")[2]):
            return text
        terminal.pump(0.1)


def _file(name: str) -> Path:
    return RECORDED / f"screens-{name}.txt"


def check(name: str, *, stop: bool = False) -> list[str]:
    """The lines of the difference between the record of the script of that name and what is shown now."""
    recorded = [f"=== {part}" for part in _file(name).read_text(encoding="utf-8").split("=== ")[1:]]
    shown = play(SCRIPTS[name], recorded, stop=stop)
    before, after = ("".join(screens).splitlines() for screens in (recorded[: len(shown)] if stop else recorded, shown))
    return list(difflib.unified_diff(before, after, _file(name).name, "now", lineterm="", n=6))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.behaviour.screens")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(SCRIPTS))
    parser.add_argument("--write", action="store_true")
    parser.add_argument("-x", dest="stop", action="store_true", help="end a script with its first difference")
    args = parser.parse_args()
    names = args.names or list(SCRIPTS)
    if os.geteuid() == 0:  # the record is that of an ordinary user; with this capability it finds Python where it is
        nobody, capability = pwd.getpwnam("nobody"), "-all,+dac_override"
        user = [f"--reuid={nobody.pw_uid}", f"--regid={nobody.pw_gid}", "--clear-groups"]
        words = ["setpriv", *user, f"--inh-caps={capability}", f"--ambient-caps={capability}", sys.executable, "-m", _MODULE]
        os.execvp(words[0], [*words, *sys.argv[1:]])
    with ThreadPoolExecutor(len(names)) as pool:
        if args.write:
            for name, screens in zip(names, pool.map(lambda name: play(SCRIPTS[name]), names), strict=True):
                _file(name).write_text("".join(screens), encoding="utf-8")
            return 0
        lines = [line for found in pool.map(lambda name: check(name, stop=args.stop), names) for line in found]
    print("\n".join(lines))
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main())
