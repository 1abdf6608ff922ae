"""The record of the dashboard: what a terminal shows after scripted keys, in a spool in trouble, a layout and a cursor file.

    python -m tests.behaviour.screens [NAME …] [--write] [-x]

prints the difference between ``recorded/screens-NAME.txt`` and what is shown now, ``--write`` renews the record. A file holds the
screen after each step of a script, with pids, times, host and paths replaced. The clock of the dashboard stands still. A screen
is complete once the dashboard looked at the spool twice since it changed, and sleeps: a busy machine makes no difference.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
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
_AGO = 19_800
"""Seconds between the making of a scene and its clock: what was made within half an hour is 5 hours old."""
_OLDER = 7_200
"""Seconds between the putting of the messages, as their ids have it, and the making of the scene."""
_LOOKS, _PATIENCE = 2, 120.0
"""Looks at the spool after which a screen stays as it is, and seconds after which a dashboard hangs."""
_NOT_YET = "[Esc Cancel]   …"
_EARLY = ("press it again", "only just been shown")
"""Words that ask for the key of a confirmation again."""
_KEYS = {"Enter": "\r", "Esc": "\x1b", "Space": " ", "Tab": "\t", "Down": "\x1b[B", "Up": "\x1b[A", "C-l": "\x0c", "Back": "\x7f"}
_LOCKER = "import fcntl, sys; f = open(sys.argv[1], 'a'); fcntl.flock(f, 2); print('locked', flush=True); sys.stdin.read()"
_POLLER = """
import os, sys
from spooltop.engine import CursorFile
path, values, now = sys.argv[1], eval(sys.argv[2]), float(sys.argv[3])
with CursorFile(path, clock=lambda: now) as cursors:
    for source, value in values:
        cursors.advance(source, value)
os.utime(path, (now, now))
"""
_DEAD = 4194290
"""First of the pids of dead processes: higher than any that the kernel has given."""


@dataclass
class Scene:
    """What a script is played on. ``words`` follow ``spooltop``; ``names`` are replaced on its screens."""

    folder: Path
    made: int = field(default_factory=lambda: int(time.time()) // 60 * 60)  # 15 s are a cell
    words: list[str] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)
    stack: ExitStack = field(default_factory=ExitStack)

    def __post_init__(self) -> None:
        (self.folder / "state").mkdir(parents=True)
        self.clock.write_text(str(self.made + _AGO))
        self.readings.touch()

    @property
    def clock(self) -> Path:
        return self.folder / "clock"

    @property
    def readings(self) -> Path:
        """The file that grows with each reading of the clock by a thread that looks at a spool."""
        return self.folder / "readings"

    @property
    def env(self) -> dict[str, str]:
        own = {name: str(self.folder / "state") for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "HOME")}
        to_noon = time.gmtime(self.made + _AGO).tm_hour - 12  # or it would be another day where messages were put
        return {**own, "TZ": f"ZONE{to_noon:+d}", "LC_ALL": "C.UTF-8", "SPOOLTOP_WHOLE": ""}

    def argv(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "tests.behaviour.clocked", str(self.clock), *words]

    def spooltop(self, *words: str) -> None:
        """Runs a command by the scene's clock."""
        env, null = {**os.environ, **self.env}, subprocess.DEVNULL
        process = subprocess.Popen(self.argv(*words), env=env, cwd=_ROOT, stdout=null, stdin=null)
        assert process.wait() == 0
        self.names[str(process.pid)] = "COMMAND"

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
        if line != before:
            line = re.sub(r" *│ *", " │ ", re.sub(r" {2,}|─{2,}", "  ", line))
        return line.rstrip()


_SAME_WIDTH = [(re.compile(pattern), put) for pattern, put in (
    (r"\b\d\d:\d\d:\d\d(?!\d)", "HH:MM:SS"), (r"\b\d{4}-\d\d-\d\d\b", "YYYY-MM-DD"), (r"(?<![\d:])\d\d:\d\d(?![\d:])", "HH:MM"),
    (r"(?<=muted to )\d\d:…", "HH:…"), (r"(?<=:SS )[+-]\d{4}\b", "+ZONE"), (r"≥(?=\d\.\d/s)|≥(?=0   waited)", " "),
    (r"\b\d{16}(?=\.|…)", "MICROSECONDS...."), (r"\b[0-9a-f]{10}\b(?!\.)", "OPERATION."),
    (r"(?<=…)\d{1,15}(?=\.P)", lambda cut: "MICROSECONDS..."[-len(cut[0]) :]), (r"(?<= )[0-9a-f]{3,9}(?=…)",
     lambda cut: "OPERATION"[: len(cut[0])]),
)]  # fmt: skip
_ANY_WIDTH = [(re.compile(pattern), put) for pattern, put in (
    (r"\S+ \S+ free \d+%(, inodes free \d+%)?", "DISK"), (r"(?<![\w…])\d{1,4}d\b", "DAYS"),
    (r", no CPU for \w+", ""), (r"/dev/pts/\d+", "TERMINAL"), (r"\b\d+MB\b", "MEMORY"),
    (r"\bpython3[\d.]*(?![\w.])", "python"), (r"· waits: (?! )(?:[^\s│]+ ?)+", "· waits: …"),
    (r"\b(WRITER|WAITER|DASHBOARD)\b(?: [^\s│]+)+", r"\1 …"),  # it may be cut off, as the pid is long
    (r"(rates over \w+)(?:, at \S+)? +", r"\1  "),
)]  # fmt: skip


def _end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def _poll(scene: Scene, path: Path, *values: tuple[str, object]) -> None:
    """Sets cursors as a poller did ten minutes ago."""
    argv = [sys.executable, "-c", _POLLER, str(path), repr(values), str(scene.made + _AGO - 630)]
    poller = subprocess.Popen(argv, cwd=_ROOT)
    assert poller.wait() == 0
    scene.names[str(poller.pid)] = "POLLER"


def _lock(file: Path) -> subprocess.Popen[str]:
    """A process that takes a lock, or waits for it."""
    argv = [sys.executable, "-c", _LOCKER, str(file)]
    return subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _id(scene: Scene, number: int) -> str:
    """An id of the protocol's own form."""
    return f"{(scene.made - _OLDER + number) * 1_000_000:016d}.P{_DEAD}R{number:016x}.vm"


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
    (path / "cursors.json").write_text("{}")
    _poll(scene, path / "cursors.json", ("imessage", 89632), ("email", 204510), ("teams", "page-7"))
    stale = (path / "cursors.json").read_text()
    _poll(scene, path / "cursors.json", ("imessage", 89636))
    (path / "cursors.json.tmp").write_text(stale)
    os.utime(path / "cursors.json.tmp", (scene.made + _AGO - 630,) * 2)
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
Back; Back; Back; Back; Back; Back; Back; Back; Back; Enter; g; y; t; t t; x; Esc; F; Esc
3; j; Enter; Esc; !; !
4; j; x; Esc
5; Enter; Esc
6; j; Enter; Esc
7; 7; 7; 8; Enter; Esc
1; !; !; Z; Z; ?; Esc; :; requ; Esc; Tab; [; z; Enter; Esc; Esc
"""
_CHANGE = """
3; r; Esc; a; r; c; Esc; U; g; r; y; z; y; Esc; Esc
2; g; h; y; Esc; g d; replace; y; Esc
7; u; y; Esc; 7; 7; E; Esc
4; a; d; y; Esc
5; e; 5; Enter; Esc; Esc; m; m
6; d; y; Esc
2; i; Enter; Esc; Esc
1; P; y; Esc; P; Esc; r; Esc; z; j; z; Esc; Enter; Esc; Esc
"""
_WIDE = """
2; Enter; Esc; 3; r; Esc; h; y; Esc; 4; x; Esc; 5; Enter; e; Esc; Esc; 6; Enter; Esc; 7; 8; 1; ?; Esc; :; Esc; z; Enter
"""
"""Each view and each dialog once."""
_JOBS = """
2; 3; j; Enter; Esc; r; Esc; 6; 7; 8; ?; Esc; 1; z
"""
_CURSORS = """
j; Enter; Esc; e; 13; Enter; y; Esc; m; z; Esc; z; y; Esc; ?
"""
_SEVERAL = """
j; Enter; 2; 0; /; ga; Enter; Esc; s; Esc; ?; Esc
"""

SCRIPTS = {
    "look-80x24": Script(_trouble, _LOOK),
    "change-80x24": Script(_trouble, _CHANGE),
    "wide-160x50": Script(_trouble, _WIDE, 160, 50),
    "job-queue-80x24": Script(_job_queue, _JOBS),
    "cursor-file-80x24": Script(_cursor_file, _CURSORS),
    "spools-80x24": Script(_spools, _SEVERAL),
}


@contextmanager
def _played(script: Script) -> Iterator[tuple[Scene, Callable[[str], None], Terminal]]:
    folder = Path(tempfile.mkdtemp(prefix="spooltop-", dir="/tmp"))
    try:
        scene = Scene(folder / "a-folder-of-one-name")
        scene.names |= {os.uname().nodename: "HOST", str(os.getpid()): "MAKER"}
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
    """Plays a script and returns its screens. Goes on where ``expected`` comes; ``stop``: ends with the first other screen."""
    shown: list[str] = []
    with _played(script) as (scene, type_line, terminal):
        for number, step in enumerate(script.steps):
            type_line(step)
            wanted = expected[number] if number < len(expected) else ""
            shown.append(_settled(scene, terminal, wanted, partial(type_line, step)))
            if stop and shown[-1] != wanted:
                break
    return shown


def _settled(scene: Scene, terminal: Terminal, wanted: str, type_again: Callable[[], None]) -> str:
    """Returns the normalised screen once it is ``wanted``, or is complete. A key that came too early to confirm a plan is typed
    again."""
    raw, text, looks, readings, end = "", "", 0, 0, time.monotonic() + _PATIENCE
    while terminal.process.poll() is None:
        if terminal.text != raw:
            raw, looks = terminal.text, 0
            text = scene.normalise(raw)
            if any(words in text for words in _EARLY):
                type_again()
        if text and text == wanted:
            break
        if not terminal.unread and _sleeps(terminal.process.pid):
            before, readings = readings, scene.readings.stat().st_size
            looks += readings > before
            # The first look may have begun before the change; a plan that cannot be confirmed yet will say how.
            if text and looks > _LOOKS and _NOT_YET not in text:
                break
        if time.monotonic() > end:
            raise TimeoutError(f"the dashboard does not come to rest:\n{text}")
        terminal.pump(0.1)
    return text


def _sleeps(pid: int) -> bool:
    """True if no thread of the process runs, is about to run, or waits for a disk."""
    try:
        stats = [task.joinpath("stat").read_text() for task in Path(f"/proc/{pid}/task").iterdir()]
    except (FileNotFoundError, ProcessLookupError):  # a thread ended meanwhile
        return False
    return all(stat.rpartition(")")[2].split()[0] == "S" for stat in stats)


def _file(name: str) -> Path:
    return RECORDED / f"screens-{name}.txt"


def _written(script: Script, screens: Sequence[str]) -> str:
    """The screens as a file has them: a screen that was there before is named by the number of its step."""
    parts = [
        f"=== {number} {step or 'opened'}\n" + (f"as after {screens.index(screen)}" if screen in screens[:number] else screen)
        for number, (step, screen) in enumerate(zip(script.steps, screens, strict=False))
    ]  # fmt: skip
    return "\n".join(parts) + "\n"


def _recorded(name: str) -> list[str]:
    screens: list[str] = []
    for part in _file(name).read_text(encoding="utf-8").removeprefix("=== ").removesuffix("\n").split("\n=== "):
        screen = part.partition("\n")[2]
        screens.append(screens[int(screen.split()[-1])] if screen.startswith("as after ") else screen)
    return screens


def check(name: str, *, stop: bool = False) -> list[str]:
    """The lines of the difference between the record of the script of that name and what is shown now."""
    recorded = _recorded(name)
    shown = play(SCRIPTS[name], recorded, stop=stop)
    if stop and shown == recorded[: len(shown)]:
        return []
    before, after = _file(name).read_text(encoding="utf-8"), _written(SCRIPTS[name], [*shown, *recorded[len(shown) :]])
    return list(difflib.unified_diff(before.splitlines(), after.splitlines(), _file(name).name, "now", lineterm="", n=6))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.behaviour.screens")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(SCRIPTS))
    parser.add_argument("--write", action="store_true")
    parser.add_argument("-x", dest="stop", action="store_true", help="end a script with its first difference")
    args = parser.parse_args()
    os.umask(0o022)
    names = args.names or list(SCRIPTS)
    if os.geteuid() == 0:  # the record is that of an ordinary user; with this capability it finds Python where it is
        uid = 20_000 + os.getpid() % 40_000  # a user without other processes, which might be hidden
        capability = "-all,+dac_override"
        user = [f"--reuid={uid}", f"--regid={uid}", "--clear-groups"]
        words = ["setpriv", *user, f"--inh-caps={capability}", f"--ambient-caps={capability}", sys.executable, "-m", _MODULE]
        os.execvp(words[0], [*words, *sys.argv[1:]])
    with ThreadPoolExecutor(len(names)) as pool:
        if args.write:
            for name, screens in zip(names, pool.map(lambda name: play(SCRIPTS[name]), names), strict=True):
                _file(name).write_text(_written(SCRIPTS[name], screens), encoding="utf-8")
            return 0
        lines = [line for found in pool.map(lambda name: check(name, stop=args.stop), names) for line in found]
    print("\n".join(lines))
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main())
