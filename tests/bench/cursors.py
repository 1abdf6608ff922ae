"""Lost updates of cursors: how many of those that happened the dashboard tells, beside a bare inotify loop in the same run.

    python -m tests.bench.cursors [ticks, default 40] [--only NAME …] [--dir PATH]

Pollers are real processes that share one ``cursors.json``, without a lock but where the run is an honest one. Each notes what it
published in a log outside, in the order in which it was published: a source that went down in the write of another lost an
update. The dashboard runs on a terminal and draws; it is asked what its own snapshots reported.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path

from tests.e2e.terminal import Terminal

from .directories import arguments

SOURCES = ("imessage", "signal", "email", "teams", "messenger")
GAPS = (1.0, 0.5, 0.3, 0.2, 0.1, 0.05, 0.02, 0.005)
"""Seconds after its save at which a cursor is overwritten."""
EACH = 12

PUBLISH = """
import fcntl, json, os, random, sys, time
def publish(path, log, source, sections):
    "Replaces the file; the log has what was published, in that order."
    draft = f"{path}.{os.getpid()}"
    with open(draft, "w") as file:
        file.write(json.dumps(sections))
    with open(log, "a") as truth:
        fcntl.flock(truth, fcntl.LOCK_EX)
        os.rename(draft, path)
        truth.write(json.dumps([source, sections]) + "\\n")
def sleep_until(at):
    time.sleep(max(0.0, at - time.monotonic()))
"""
POLLER = PUBLISH + """
path, log, source, began, ticks, jitter, work, polls = sys.argv[1:]
chance = random.Random(source)
for tick in range(int(ticks)):
    sleep_until(float(began) + tick + chance.uniform(0, float(jitter)))
    sections = json.load(open(path))
    start = sections[source]
    time.sleep(chance.uniform(0, float(work)))
    sections[source] = start + 1
    publish(path, log, source, sections)
    if polls:
        with open(f"{polls}/{source}.log", "a") as file:
            file.write(f"poll ok: 1 new (cursor {start} -> {start + 1})\\n")
"""
ALONE = PUBLISH + """
path, log, gaps, each = sys.argv[1:]
chance = random.Random(1)
sections = json.load(open(path))
for gap in json.loads(gaps):
    for turn in range(int(each)):
        stale = dict(sections)
        sections["imessage"] += 1
        publish(path, log, "imessage", sections)
        time.sleep(gap)
        sections = stale
        sections["email"] += 1
        publish(path, log, "email", sections)
        time.sleep(chance.uniform(0.3, 0.9))
        sections["imessage"] += 2
        publish(path, log, "imessage", sections)
        time.sleep(chance.uniform(0.3, 0.9))
"""
HONEST = PUBLISH + """
from spooltop.engine import CursorFile
path, log, source, began, writes = sys.argv[1:]
folder, chance = os.path.dirname(path), random.Random(source)
for turn in range(int(writes)):
    time.sleep(chance.uniform(0, 0.1))
    if source == "imessage":
        CursorFile(path).advance(source, CursorFile(path).read().get(source, 0) + 1)
        continue
    if source == "alone":
        own = f"{folder}/cursors/alone.json"
        value = json.load(open(own))
        back = chance.choice([1, 2, 9]) if turn % 20 == 19 else 0
        with open(own + ".new", "w") as file:
            file.write(json.dumps(max(0, value - back) if back else value + 1))
        os.rename(own + ".new", own)
        continue
    with open(f"{folder}/.cursors.lock", "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        sections = json.load(open(path))
        if source != "operator":
            sections[source] = sections.get(source, 0) + 1
        elif turn % 10 == 9:
            sections = dict.fromkeys(sections, 0)
        else:
            of = chance.choice(sorted(sections))
            sections[of] = chance.randrange(sections[of] + 1)
        publish(path, log, source, sections)
"""
BARE = """
import json, os, signal, sys
from spooltop.backends.directory.watcher import listening
import ctypes, select
path, out = sys.argv[1:]
fd = listening()
ctypes.CDLL(None).inotify_add_watch(fd, os.fsencode(os.path.dirname(path)), 0x80)
versions = [json.load(open(path))]
ready = select.poll()
ready.register(fd, select.POLLIN)
end = []
signal.signal(signal.SIGTERM, lambda *_: end.append(1))
print("ready", flush=True)
while not end:
    if ready.poll(100):
        os.read(fd, 1 << 16)
        versions.append(json.load(open(path)))
json.dump(versions, open(out, "w"))
"""
DASHBOARD = """
import json, os, sys
from spooltop import tui
from spooltop.control import open_control
path, out, logs, who = sys.argv[1:]
class CountingControl:
    "The control, which keeps how many lost updates each snapshot reported for each source."
    def __init__(self, control):
        self.control, self.reverts, self.verdicts = control, {}, set()
    def __getattr__(self, name):
        return getattr(self.control, name)
    def look(self, rescan=False):
        snapshot = self.control.look(rescan)
        for one in snapshot.cursors:
            self.reverts[one.source] = max(one.reverts, self.reverts.get(one.source, 0))
            self.verdicts.add(f"{one.source} {one.verdict}")
        return snapshot
with open_control(path, poll_logs=[logs] if logs else (), who_writes=bool(who)) as control:
    counting = CountingControl(control)
    code = tui.run(counting, tui.Options.of(os.environ), lambda: None)
    counting.look()
json.dump([counting.reverts, sorted(counting.verdicts)], open(out, "w"))
sys.exit(code)
"""


def lost(log: Path, first: Mapping[str, int]) -> Counter[str]:
    """Source → its updates that another's write undid, as the log tells."""
    found: Counter[str] = Counter()
    before = first
    for line in log.read_text().splitlines():
        writer, after = json.loads(line)
        found.update(source for source in before if source != writer and after[source] < before[source])
        before = after
    return found


def stepped_back(versions: Sequence[Mapping[str, int]]) -> Counter[str]:
    """Source → how often it went down from one version to the next."""
    found: Counter[str] = Counter()
    for before, after in pairwise(versions):
        found.update(source for source in after if after[source] < before.get(source, 0))
    return found


def reported(reverts: Mapping[str, int], happened: Mapping[str, int]) -> int:
    """Counts the events that happened and were reported. A report too many for one source does not count for another."""
    return sum(min(count, happened.get(source, 0)) for source, count in reverts.items())


class Run:
    """Folder with cursors, watched by the dashboard and by a bare loop inside ``watched``."""

    def __init__(self, folder: Path, *, polls: bool = False, who: bool = False) -> None:
        self.folder = folder / "watched"
        self.folder.mkdir()
        self.path = self.folder / "cursors.json"
        self.log = folder / "truth"
        self.log.touch()
        self.polls = folder / "polls" if polls else None
        if self.polls is not None:
            self.polls.mkdir()
        self.first = dict.fromkeys(SOURCES, 100)
        self.path.write_text(json.dumps(self.first))
        self._who = who
        self._outs = (folder / "dashboard", folder / "bare")
        self.reverts: dict[str, int] = {}
        self.verdicts: list[str] = []
        self.bare: list[dict[str, int]] = []

    @contextmanager
    def watched(self) -> Iterator[None]:
        logs = f"{self.polls}/*.log" if self.polls is not None else ""
        screen, bare = map(str, self._outs)
        loop = subprocess.Popen([sys.executable, "-c", BARE, self.path, bare], stdout=subprocess.PIPE, text=True)
        drawing = (sys.executable, "-c", DASHBOARD, str(self.folder), screen, logs, "who" if self._who else "")
        with Terminal(drawing, cols=120, rows=35) as terminal:
            assert loop.stdout is not None
            loop.stdout.readline()
            terminal.wait_for("imessage")
            terminal.collect(1.5)
            self._terminal = terminal
            yield
            terminal.collect(2.0)
            terminal.process.terminate()
            terminal.wait_exit()
        loop.terminate()
        with loop:
            loop.wait()
        self.reverts, self.verdicts = json.loads(self._outs[0].read_text())
        self.bare = json.loads(self._outs[1].read_text())

    def play(self, scripts: Sequence[Sequence[object]]) -> None:
        """Runs these at once until each has ended."""
        with ExitStack() as stack:
            players = [
                stack.enter_context(subprocess.Popen([sys.executable, "-c", *map(str, script)], cwd=os.getcwd()))
                for script in scripts
            ]
            while any(player.poll() is None for player in players):
                self._terminal.pump(0.2)
            if any(player.returncode for player in players):
                sys.exit("a poller failed")


def five(folder: Path, ticks: int, jitter: float, work: float, *, polls: bool = False, who: bool = False) -> Run:
    run = Run(folder, polls=polls, who=who)
    with run.watched():
        began = time.monotonic() + 2.0
        run.play([(POLLER, run.path, run.log, source, began, ticks, jitter, work, run.polls or "") for source in SOURCES])
    return run


def alone(folder: Path, *, who: bool = False) -> Run:
    run = Run(folder, who=who)
    with run.watched():
        run.play([(ALONE, run.path, run.log, json.dumps(GAPS), EACH)])
    return run


def honest(folder: Path) -> Run:
    run = Run(folder)
    (run.folder / "cursors").mkdir()
    (run.folder / "cursors" / "alone.json").write_text("0")
    with run.watched():
        each = {"alone": 200, "operator": 60}
        names = (*SOURCES, "alone", "operator")
        run.play([(HONEST, run.path, run.log, name, 0, each.get(name, 160)) for name in names])
    return run


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("ticks", nargs="?", type=int, default=40)
    parser.add_argument("--only", nargs="+", metavar="NAME", default=())
    args = parser.parse_args()
    runs = {
        "jitter 150": lambda at: five(at, args.ticks, 0.15, 0.12),
        "jitter 1000": lambda at: five(at, args.ticks, 1.0, 0.5),
        "polls": lambda at: five(at, args.ticks, 0.03, 0.05, polls=True),
        "alone": alone,
        "honest": honest,
    }
    if os.geteuid() == 0:
        runs["jitter 150 who"] = lambda at: five(at, args.ticks, 0.15, 0.12, who=True)
        runs["alone who"] = lambda at: alone(at, who=True)
    print(f"| {'|'.join(('', 'writes', 'lost', 'bare loop told', 'told', 'ratio', 'false'))} |")
    print("|---|---|---|---|---|---|---|")
    for name, start in runs.items():
        if args.only and name not in args.only:
            continue
        folder = Path(tempfile.mkdtemp(prefix="spooltop-bench-", dir=args.dir))
        try:
            run = start(folder)
            happened = lost(run.log, run.first) if name != "honest" else Counter()
            found, floor = reported(run.reverts, happened), reported(stepped_back(run.bare), happened)
            more = sum(run.reverts.values()) - found
            writes = len(run.log.read_text().splitlines())
            ratio = f"{found / floor:.2f}" if floor else "—"
            print(f"| {name} | {writes} | {sum(happened.values())} | {floor} | {found} | {ratio} | {more} |", flush=True)
            print(run.reverts, run.verdicts, file=sys.stderr)
        finally:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
