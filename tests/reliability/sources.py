"""Operators at random on what is no spool: two layouts, a cursor file and soft locks, beside their programs, killed at random."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import shutil
import tempfile
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from spooltop.control import Control
from spooltop.engine import CursorFile, CursorMismatch, Spool
from spooltop.errors import Refused
from spooltop.model.plan import Outcome, Plan, Selection
from spooltop.model.vocabulary import Action, Box
from tests.builders import World
from tests.scratch import scratch

from .figures import Figure
from .history import History, body, uid_of
from .storm import Shared, Troupe

__all__ = ["BAR", "NAME", "last", "run"]

NAME = "operators on layouts, a cursor file and soft locks: their programs killed at random, 2 operators at random"
BAR = "no message lost, doubled or torn; no cursor put back by a stale write; no lock taken from the living; nothing left open"

PROGRAMS, OPERATORS = 4, 2
DEEP = 40
"""So many waiting make producers pause."""
ENDS = 60
"""Seconds in which everybody comes to an end when told."""


@dataclass
class Found:
    """``wrong`` names what was promised and does not hold."""

    trials: int = 0
    kills: int = 0
    changed: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


class Scene(ABC):
    """A source, the ``programs`` that use it, and what has to hold of the ``lines`` that they wrote down."""

    name: ClassVar[str]
    choices: ClassVar[Mapping[tuple[Action, Box | None], int]]
    """Actions of an operator with their relative frequencies."""

    def __init__(self, folder: Path) -> None:
        self.world = World(folder)
        self.make(self.world.path)

    @abstractmethod
    def make(self, path: Path) -> None:
        """Makes it in an empty directory."""

    @abstractmethod
    def program(self, number: int, shared: Shared, history: History) -> None:
        """Works until all is over."""

    def plan(self, control: Control, action: Action, box: Box | None) -> Plan:
        """All of a box, or a few."""
        plan = control.plan(action, Selection(box=box, everything=True), force=random.random() < 0.5)
        if len(plan.items) < 2 or random.random() < 0.4:
            return plan
        few = random.sample(list(plan.items), random.randint(1, min(len(plan.items), 6)))
        return control.plan(action, Selection(keys=tuple(item.row.key for item in few)), force=plan.force)

    @abstractmethod
    def check(self, lines: Sequence[Sequence[str]]) -> Iterator[str]:
        """Says what is wrong."""


class Layout(Scene):
    """Consumers take a message as the program does, remove it, or give it up by dying."""

    registers: ClassVar[str]
    choices: ClassVar[Mapping[tuple[Action, Box | None], int]] = {
        (Action.REQUEUE, Box.CUR): 6, (Action.PURGE, Box.NEW): 2, (Action.HOLD, Box.NEW): 2,
        (Action.RESTORE, Box.TRASH): 3, (Action.RELEASE, Box.HELD): 3,
    }  # fmt: skip

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.world.options = {"as_kind": self.name}

    def program(self, number: int, shared: Shared, history: History) -> None:
        while not shared.over():
            (self._put if number % 2 else self._work)(number, shared, history)

    def _put(self, number: int, shared: Shared, history: History) -> None:
        if len(os.listdir(self.world.path / self.registers)) > DEEP:
            time.sleep(0.01)
            return
        uid = f"{number}.{shared.next(number)[0]}"
        history.tell("P?", uid)
        self.put(body(uid))
        history.tell("P!", uid)

    def _work(self, number: int, shared: Shared, history: History) -> None:
        there = os.listdir(self.world.path / self.registers)
        time.sleep(0 if there else 0.01)
        for name in random.sample(there, min(len(there), 8)):
            with suppress(FileNotFoundError, FileExistsError):  # another was quicker, or an operator
                data = self.claim(self.world.path / self.registers / name)
                if data is None:
                    continue
                time.sleep(random.random() * 0.1)
                uid = uid_of(data)
                assert uid is not None, f"{name} is torn"
                if random.random() < 0.7:  # the others were forgotten
                    history.tell("A?", uid)
                    self.remove(self.world.path / self.registers / name)
                    history.tell("A!", uid)
                    shared.confirm(number, 1)

    @abstractmethod
    def put(self, data: bytes) -> None: ...

    @abstractmethod
    def claim(self, path: Path) -> bytes | None:
        """Its content; None where ``path`` is no message that waits. Raises ``FileNotFoundError``, ``FileExistsError``."""

    @abstractmethod
    def remove(self, path: Path) -> None: ...

    def check(self, lines: Sequence[Sequence[str]]) -> Iterator[str]:
        told = {word: Counter(uid for line in lines if line[0] == word for uid in line[1:]) for word in ("P?", "P!", "A?", "A!")}
        standing = Counter[str]()
        for content, places in self.world.census().items():
            uid = uid_of(content.encode())
            if uid is not None:
                standing[uid] += len(places)
            elif content:
                yield f"torn: {places}"
        for uid in told["P?"] | standing:
            acked, perhaps, stands = told["A!"][uid], told["A?"][uid] - told["A!"][uid], standing[uid]
            if acked > 1 or stands > 1 or (acked and stands):
                yield f"{uid} was acked {acked} times and stands in {stands} places"
            if told["P!"][uid] and not acked and not perhaps and not stands:
                yield f"{uid} is lost"


class DirqSimple(Layout):
    """Directory::Queue::Simple: a hard link is the lock, the element goes before its lock."""

    name = "dirq-simple"
    registers = "6a0f4c00"

    def make(self, path: Path) -> None:
        (path / self.registers).mkdir()

    def put(self, data: bytes) -> None:
        name = self.world.path / self.registers / f"{time.time_ns() // 1000:013x}{random.randrange(16):x}"
        name.with_suffix(".tmp").write_bytes(data)
        name.with_suffix(".tmp").rename(name)

    def claim(self, path: Path) -> bytes | None:
        if path.suffix:
            return None
        os.link(path, f"{path}.lck")
        try:
            os.utime(path)
            return path.read_bytes()
        except FileNotFoundError:  # removed between listing and link: the link was to what has gone since
            Path(f"{path}.lck").unlink(missing_ok=True)
            raise

    def remove(self, path: Path) -> None:
        path.unlink()
        Path(f"{path}.lck").unlink(missing_ok=True)


class Mailman(Layout):
    """A runner of Mailman 3 renames what it works on to .bak, and unlinks that."""

    name = "mailman"
    registers = "in"

    def make(self, path: Path) -> None:
        for name in ("in", "out", "pipeline", "shunt", "bad"):
            (path / name).mkdir()

    def put(self, data: bytes) -> None:
        file = self.world.path / "in" / f"{time.time():.6f}+{random.getrandbits(160):040x}.pck"
        Path(f"{file}.tmp").write_bytes(data)
        Path(f"{file}.tmp").rename(file)

    def claim(self, path: Path) -> bytes | None:
        if path.suffix != ".pck":
            return None
        data = path.read_bytes()
        path.rename(path.with_suffix(".bak"))
        return data

    def remove(self, path: Path) -> None:
        path.with_suffix(".bak").unlink()


class Cursors(Scene):
    """Pollers advance a section each by comparing and setting. A step from one value to another is an edge: every value was
    left as often as it was reached, or a stale write has put one back."""

    name = "cursors"
    choices: ClassVar[Mapping[tuple[Action, Box | None], int]] = {(Action.SET_CURSOR, None): 1}
    SOURCES: ClassVar[tuple[str, ...]] = ("chat", "mail", "news")

    def make(self, path: Path) -> None:
        Spool.create(path, durable=False).close()
        (path / "cursors.json").write_text(json.dumps(dict.fromkeys(self.SOURCES, 0)))

    def program(self, number: int, shared: Shared, history: History) -> None:
        source = self.SOURCES[number % len(self.SOURCES)]
        file = CursorFile(self.world.path / "cursors.json")
        while not shared.over():
            before = file.read()[source]
            after = unique()
            history.tell("T?", source, before, after)
            try:
                file.advance(source, after, expect=before)
            except CursorMismatch:
                history.tell("T-", source, before, after)
            else:
                history.tell("T!", source, before, after)
                shared.confirm(number, 1)
            time.sleep(random.random() * 0.3)

    def plan(self, control: Control, action: Action, box: Box | None) -> Plan:
        return control.plan(action, Selection(), options={"source": random.choice(self.SOURCES), "value": unique()}, force=True)

    def check(self, lines: Sequence[Sequence[str]]) -> Iterator[str]:
        end = CursorFile(self.world.path / "cursors.json").read()
        for source in self.SOURCES:
            told = {
                word: Counter((line[2], line[3]) for line in lines if line[:2] == [word, source]) for word in ("T?", "T!", "T-")
            }
            balance = Counter[str]({"0": 1})
            balance[str(end[source])] -= 1
            for (before, after), count in told["T!"].items():
                balance[after] += count
                balance[before] -= count
            unsure = list((told["T?"] - told["T!"] - told["T-"]).elements())  # their writer was killed
            while taken := [(before, after) for before, after in unsure if balance[after] < 0 and before != after]:
                balance[taken[0][1]] += 1
                balance[taken[0][0]] -= 1
                unsure.remove(taken[0])
            yield from (
                f"{source}: {value} was reached {count:+} times more than left" for value, count in balance.items() if count
            )


class Locks(Scene):
    """Holders that make a file with their pid, work, and remove it, if it is theirs still; dead ones leave theirs."""

    name = "locks"
    choices: ClassVar[Mapping[tuple[Action, Box | None], int]] = {(Action.UNLOCK, None): 1}
    NAMES: ClassVar[tuple[str, ...]] = ("a.lock", "b.lock", "c.lock", "d.lock")
    HOUR = 3600.0

    def make(self, path: Path) -> None:
        Spool.create(path, durable=False).close()

    def program(self, number: int, shared: Shared, history: History) -> None:
        while not shared.over():
            path = self.world.path / random.choice(self.NAMES)
            draft = self.world.path / f".{number}"
            draft.write_text(f"{os.getpid()}\n{os.uname().nodename}\n1\n")
            os.utime(draft, (time.time() - self.HOUR,) * 2)  # so old that it counts as stuck
            mine = draft.stat().st_ino
            try:
                os.link(draft, path)
            except FileExistsError:
                time.sleep(0.005)
                continue
            draft.unlink()
            time.sleep(random.random() * 0.02)
            if not path.exists() or path.stat().st_ino != mine:
                history.tell("LOST", path.name)
                continue
            path.unlink()
            shared.confirm(number, 1)

    def check(self, lines: Sequence[Sequence[str]]) -> Iterator[str]:
        yield from (f"{line[1]} was taken from a living holder" for line in lines if line[0] == "LOST")


SCENES: tuple[type[Scene], ...] = (DirqSimple, Mailman, Cursors, Locks)


def unique() -> int:
    """A number that no other value of a cursor is."""
    return random.getrandbits(52) + 1


def operate(scene: Scene, number: int, shared: Shared, history: History) -> None:
    """Operates at random, through the same API that the dashboard and the command line use."""
    done: list[str] = []
    with scene.world.control() as control:
        while not shared.over():
            try:
                if done and random.random() < 0.4:
                    plan = control.plan(Action.UNDO, Selection(), options={"undoes": random.choice(done[-8:])})
                else:
                    plan = scene.plan(control, *random.choices(list(scene.choices), list(scene.choices.values()))[0])
            except Refused:  # as there is nothing of that kind now
                continue
            time.sleep(random.random() * 0.02)  # the world moves on while somebody reads the plan
            if not plan.items:
                continue
            steps = [_step(item) for item in plan.items] if isinstance(scene, Cursors) else []
            for step in steps:
                history.tell("T?", *step)
            result = control.apply(plan)
            for step, item in zip(steps, result.items, strict=False):
                history.tell("T!" if item.outcome is Outcome.DONE else "T-", *step)
            took = result.count(Outcome.DONE)
            history.tell("O", plan.action, took)
            done.append(plan.operation)
            shared.confirm(PROGRAMS + number, took)


def _step(item: Any) -> tuple[str, str, str]:
    """Source, value before and value after, as the plan says them."""
    source, words = item.words.split(": ", 1)
    before, after = words.partition(" in ")[0].split(" → ")
    return source, before, after


def play(kind: type[Scene], folder: str, seconds: float) -> Found:
    """Plays a scene. It forks, so the process must have no threads."""
    histories = Path(folder, "history")
    histories.mkdir(parents=True)
    scene, shared, troupe = kind(Path(folder, "world")), Shared(PROGRAMS + OPERATORS), Troupe(histories)
    for number in range(PROGRAMS):
        troupe.start(f"program{number}", partial(scene.program, number, shared))
    for number in range(OPERATORS):
        troupe.start(f"operator{number}", partial(operate, scene, number, shared))
    found, until, given_up = Found(), 0.0, time.monotonic() + ENDS
    while until == 0.0 or time.monotonic() < until:  # the time runs once every operator has changed something
        acting = all(shared.confirmed(PROGRAMS + number) for number in range(OPERATORS))
        if until == 0.0 and (acting or time.monotonic() > given_up):
            until = time.monotonic() + seconds
        time.sleep(random.random() * 0.1)
        role = "operator" if random.random() < 0.04 else "program"
        if there := [one for one in troupe.living() if one.startswith(role)]:  # who ended told why
            found.kills += troupe.kill(random.choice(there))
    shared.end()
    troupe.end(ENDS)
    found.trials = shared.total
    lines = [line.split(" ")[1:] for file in histories.iterdir() for line in file.read_text().splitlines()]
    for line in lines:
        if line[0] == "O":
            found.changed[line[1]] += int(line[2])
        elif line[0] == "X":
            found.wrong.append(" ".join(line[1:]))
    found.wrong += [f"{kind.name}: {words}" for words in scene.check(lines)]
    found.wrong += [f"{kind.name}: {words}" for words in _left_open(scene)]
    return found


def _left_open(scene: Scene) -> Iterator[str]:
    """Names operations that were cut off after a change, and that neither a later operation nor their own undo finishes."""
    with scene.world.control() as control:
        for record in control.operations():
            if record.open:
                control.apply(control.plan(Action.UNDO, Selection(), options={"undoes": record.operation}, force=True))
        yield from (
            f"{record} is left open"
            for record in control.operations()
            if record.open and not (record.undone_by or record.why_not_undo)
        )


def last(seconds: float, say: Callable[[str], None]) -> Figure:
    """All scenes at the same time."""
    folder = tempfile.mkdtemp(prefix="spooltop-sources-", dir=scratch())
    with ProcessPoolExecutor(len(SCENES), mp_context=multiprocessing.get_context("spawn")) as pool:
        played = [pool.submit(play, scene, f"{folder}/{scene.name}", seconds) for scene in SCENES]
        found = [one.result() for one in played]
    wrong = [words for one in found for words in one.wrong]
    for words in wrong[:20]:
        say(words)
    if wrong:
        say(f"the histories are kept in {folder}")
    else:
        shutil.rmtree(folder)
    explained = "; ".join(
        f"{scene.name}: {one.trials:,} trials, {one.kills:,} kills, "
        + ", ".join(f"{action} {count:,}" for action, count in sorted(one.changed.items()))
        for scene, one in zip(SCENES, found, strict=True)
    )
    return Figure(NAME, BAR, sum(one.trials for one in found), len(wrong), explained=explained)


def run(quick: bool, say: Callable[[str], None]) -> Figure:
    return last(3 if quick else 60, say)
