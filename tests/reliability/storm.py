"""Producers, consumers and operators on one spool, any of them killed at any moment, a million messages long."""

from __future__ import annotations

import mmap
import multiprocessing
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from spooltop.control import Control, open_control
from spooltop.engine import Claim, ClaimLost, Spool
from spooltop.model.plan import Outcome, Plan, Selection
from spooltop.model.vocabulary import Action, Box
from tests.scratch import scratch

from .figures import Figure
from .history import Found, History, body, check, key_of, uid_of

__all__ = [
    "BAR", "CHILDREN", "NAME", "Shared", "Troupe", "consume", "drained", "figured", "fork_child", "operate", "produce",
    "run", "standing", "storm",
]  # fmt: skip

NAME = "storm: 8 producers, 8 consumers, 2 operators, killed at random"
BAR = "0 lost, 0 held by two at once, every redelivery explained"

PRODUCERS, CONSUMERS, OPERATORS = 8, 8, 2
DEEP = 4000
"""So many waiting make producers pause."""
FORKS = 400
"""Children of consumers in one storm."""
DRAIN = 120
"""Seconds for the rest to come out when no more is put."""


class Shared:
    """Counters that outlive whoever counts, one writer each: attempted and confirmed puts; and whether all shall end."""

    def __init__(self, writers: int, fd: int = -1) -> None:
        """``fd`` of a file, for processes that are no children of one another."""
        self._writers = writers
        size = 8 * (2 * writers + 1)
        if fd >= 0:
            os.ftruncate(fd, size)
        # A store by an index is one move of the machine; ``struct.pack_into`` writes zeros first, and a kill may come between.
        self._cells = memoryview(mmap.mmap(fd, size)).cast("Q")

    def next(self, writer: int, count: int = 1) -> range:
        """Numbers never given before."""
        first = self._cells[writer]
        self._cells[writer] = first + count
        return range(first, first + count)

    def confirm(self, writer: int, count: int) -> None:
        self._cells[self._writers + writer] += count

    def confirmed(self, writer: int) -> int:
        return self._cells[self._writers + writer]

    @property
    def total(self) -> int:
        return sum(self.confirmed(writer) for writer in range(self._writers))

    def over(self) -> bool:
        return bool(self._cells[2 * self._writers])

    def end(self) -> None:
        self._cells[2 * self._writers] = 1


def produce(path: Path, history: History, shared: Shared, writer: int, quota: int) -> None:
    """Puts until ``quota`` were confirmed, one by one, and every so often a group."""
    with Spool(path, durable=False) as spool:
        while (left := quota - shared.confirmed(writer)) > 0:
            numbers = shared.next(writer, min(left, 8) if random.random() < 0.01 else 1)
            uids = [f"{writer}.{number}" for number in numbers]
            if numbers[0] % 256 == 0:
                while spool.depth() > DEEP:
                    time.sleep(0.1)
            history.tell("P?", *uids)
            bodies = [body(uid) for uid in uids]
            ids = [spool.put(*bodies)] if len(bodies) == 1 else spool.put_many(bodies)
            history.tell("P!", *(word for pair in zip(uids, ids, strict=True) for word in pair))
            shared.confirm(writer, len(uids))


def _leaves_normally(spool: Spool, claim: Claim) -> None:
    with spool, claim:
        return


def _leaves_by_an_error(spool: Spool, claim: Claim) -> None:
    try:
        with spool, claim:
            raise ValueError
    except ValueError:
        return


def _leaves_by_exit(spool: Spool, claim: Claim) -> None:
    try:
        with spool, claim:
            sys.exit()
    except SystemExit:
        return


def _acks(_spool: Spool, claim: Claim) -> None:
    try:
        claim.ack()
    except ClaimLost:
        return
    raise AssertionError("a child has acked its parent's claim")


CHILDREN: dict[str, Callable[[Spool, Claim], None]] = {
    "normally": _leaves_normally, "by-error": _leaves_by_an_error, "by-exit": _leaves_by_exit, "acking": _acks,
}  # fmt: skip
"""How a child ends that was forked beside a claim: none of it ends the claim."""
def fork_child(work: Callable[[], object], *, wait: bool = True) -> int:
    """Does ``work`` in a forked child; returns its wait status, 0 where it is not waited for."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    return os.waitpid(pid, 0)[1] if wait else 0


ORPHANED = "orphaned"
"""One that acks when its parent has been killed."""


class Children:
    """Forks children of a consumer. One at a time outlives it."""

    def __init__(self, spool: Spool, history: History) -> None:
        self._spool, self._history = spool, history
        self._alive = -1
        """A pipe that this process holds open as long as it lives."""

    def fork(self, claim: Claim) -> None:
        ending = random.choice([*CHILDREN, *([ORPHANED] if self._alive < 0 else [])])
        self._history.tell("D", ending)
        if ending != ORPHANED:
            if (status := fork_child(partial(CHILDREN[ending], self._spool, claim))) != 0:
                self._history.tell("D!", ending, status)
            return
        dead, alive = os.pipe()

        def outlive() -> None:
            os.close(alive)
            os.read(dead, 1)
            _acks(self._spool, claim)

        fork_child(outlive, wait=False)
        os.close(dead)
        self._alive = alive


def consume(
    path: Path, history: History, over: Callable[[], bool], *, recover: bool, between: Callable[[], object] = int,
    rejects: float = 0.0, forks: float = 0.0,
) -> None:
    """Claims and acks; now and then slowly, now and then several with one sync, now and then a release. ``between`` is called
    while a claim is held; a part of ``rejects`` is rejected, and beside a part of ``forks`` a child is forked."""
    number = 0

    def begin() -> tuple[int, Claim] | None:
        nonlocal number
        history.tell("C?")
        claim = spool.claim(timeout=0.05)
        if claim is None:
            return None
        number += 1
        try:
            uid = uid_of(claim.data)
        except ClaimLost:
            history.tell("B", number, "-", claim.id, claim.attempt, key_of(claim.name))
            history.tell("L", number)
            return None
        if uid is None:
            raise AssertionError(f"an incomplete message was given out: {claim!r}")
        history.tell("B", number, uid, claim.id, claim.attempt, key_of(claim.name))
        return number, claim

    def end(numbers: Iterable[int], do: Callable[[], None], word: str) -> None:
        asked = list(numbers)
        history.tell(f"{word}?", *asked)
        try:
            do()
        except ClaimLost:
            history.tell("L", *asked)
        else:
            history.tell(f"{word}!", *asked)

    with Spool(path, durable=False, max_attempts=1000) as spool:
        children = Children(spool, history)
        if recover:
            history.tell("V?")
            history.tell("V!", *spool.recover())
        while not over():
            found = begin()
            if found is None:
                continue
            mine, claim = found
            chance = random.random()
            between()
            if random.random() < forks:
                children.fork(claim)
            if chance < 0.05:
                time.sleep(random.random() * (0.5 if chance < 0.003 else 0.04))  # at work
            if random.random() < rejects:
                end([mine], partial(claim.reject, "as it came"), "J")
            elif chance < 0.98:
                end([mine], claim.ack, "A")
            elif chance < 0.99:
                end([mine], claim.release, "R")
            else:
                end_together(spool, history, [found, *(one for _ in range(4) if (one := begin()) is not None)])


def end_together(spool: Spool, history: History, held: list[tuple[int, Claim]]) -> None:
    """``ack_many``, whose error tells at the end which were lost. All of them have ended."""
    history.tell("A?", *(number for number, _ in held))
    lost: set[int] = set()
    try:
        spool.ack_many([claim for _, claim in held])
    except ClaimLost as error:
        lost = {number for number, claim in held if claim.name in error.names}
        history.tell("L", *sorted(lost))
    history.tell("A!", *(number for number, _ in held if number not in lost))


def operate(path: Path, history: History, over: Callable[[], bool], *, forces: float = 0.3) -> None:
    """Requeues what no living consumer holds, through the one door that the dashboard and the command line use; undoes some of
    it; and now and then takes a claim from a living holder."""
    with open_control(str(path), watch=False) as control:
        while not over():
            time.sleep(0.05)
            plan = control.plan(Action.REQUEUE, Selection(box=Box.CUR, everything=True))
            if plan.items:
                apply_recorded(control, history, plan, "Q")
                if random.random() < 0.1:
                    undo(control, history, plan)
            living = [one.row.id for one in plan.refused if one.forceable]
            if living and random.random() < forces:
                forced = control.plan(Action.REQUEUE, Selection(box=Box.CUR, ids=(random.choice(living),)), force=True)
                if forced.items:
                    apply_recorded(control, history, forced, "F")
                    if random.random() < 0.3:
                        undo(control, history, forced)


def apply_recorded(control: Control, history: History, plan: Plan, word: str) -> None:
    """Applies a plan and writes down what it was to take, and what it took."""
    history.tell(f"{word}?", *(key_of(item.row.name) for item in plan.items))
    result = control.apply(plan)
    history.tell(f"{word}!", *(key_of(item.name) for item in result.items if item.outcome is Outcome.DONE))


def undo(control: Control, history: History, done: Plan) -> None:
    plan = control.plan(Action.UNDO, Selection(), options={"undoes": done.operation})
    if plan.items:
        history.tell("U?")
        control.apply(plan)
        history.tell("U!")


class Troupe:
    """The actors, each a fork, started again when it is killed."""

    def __init__(self, folder: Path, prefix: str = "") -> None:
        self._folder, self._prefix = folder, prefix
        self._parts: dict[str, Callable[[History], None]] = {}
        self._born: Counter[str] = Counter()
        self._pids: dict[str, int] = {}
        self.history = History(folder, f"{prefix}killer")

    def start(self, role: str, part: Callable[[History], None]) -> None:
        self._parts[role] = part
        self._born[role] += 1
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                random.seed()
                History(self._folder, self._name(role)).follow(part)
                status = 0
            finally:
                os._exit(status)
        self._pids[role] = pid

    def _name(self, role: str) -> str:
        return f"{self._prefix}{role}-{self._born[role]}."

    def kill(self, role: str) -> bool:
        """Kills an actor and starts it again. False where it had come to its end already."""
        alive = time.monotonic_ns()
        pid = self._pids.pop(role)
        if os.waitpid(pid, os.WNOHANG)[0]:
            return False
        os.kill(pid, signal.SIGKILL)
        status = os.waitpid(pid, 0)[1]
        if not os.WIFSIGNALED(status):
            return False  # it ended on its own in between
        self.history.tell("K", self._name(role), alive)
        self.start(role, self._parts[role])
        return True

    def living(self) -> list[str]:
        """Returns the roles that have not come to their end."""
        for role, pid in list(self._pids.items()):
            if os.waitpid(pid, os.WNOHANG)[0]:
                del self._pids[role]
        return list(self._pids)

    def end(self, seconds: float) -> None:
        """Waits for all; whoever has not ended then is killed, which the history shows as nobody's kill."""
        deadline = time.monotonic() + seconds
        while self.living() and time.monotonic() < deadline:
            time.sleep(0.01)
        for pid in self._pids.values():
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        self.history.tell("END")


def standing(path: Path) -> list[str]:
    """Returns the uids of the messages that are still in a spool, in any box but ``tmp``."""
    found = [*(path / "new").iterdir(), *(path / "cur").iterdir()]
    for box in ("held", "rejected", "trash"):
        found += [one for one in (path / ".spooltop" / box).glob("*/*") if not one.name.startswith(".")]
    return [uid_of(one.read_bytes()) or one.name for one in found]


def storm(folder: Path, messages: int, kills: int, say: Callable[[str], None] = print) -> Found:
    """Runs the storm. It forks, so the process must have no threads."""
    path, histories = folder / "spool", folder / "history"
    histories.mkdir()
    Spool.create(path, durable=False).close()
    shared = Shared(PRODUCERS)
    troupe = Troupe(histories)
    quota = messages // PRODUCERS
    forks = FORKS / messages
    for number in range(PRODUCERS):
        troupe.start(f"producer{number}", partial(produce, path, shared=shared, writer=number, quota=quota))
    for number in range(CONSUMERS):
        troupe.start(f"consumer{number}", partial(consume, path, over=shared.over, recover=number % 4 == 0, forks=forks))
    for number in range(OPERATORS):
        troupe.start(f"operator{number}", partial(operate, path, over=shared.over))
    killed = 0
    whole = quota * PRODUCERS
    told_at = time.monotonic()
    while (total := shared.total) < whole:
        if killed * whole <= total * kills:
            killed += troupe.kill(random.choice(troupe.living()))
        time.sleep(random.random() * 0.005)
        if time.monotonic() - told_at > 30:
            told_at = time.monotonic()
            say(f"{total:,} of {whole:,} messages put, {killed:,} kills")
    drained(path, DRAIN)  # what is left over then is found by the check
    shared.end()
    troupe.end(DRAIN)
    found = check(histories, standing(path))
    found.wrong += [f"no child ended {ending}" for ending in (*CHILDREN, ORPHANED) if not found.children[ending]]
    return found


def drained(path: Path, seconds: float) -> bool:
    """Waits until nothing waits and nothing is claimed."""
    deadline = time.monotonic() + seconds
    while os.listdir(path / "cur") or os.listdir(path / "new"):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def alone(folder: str, messages: int, kills: int) -> Found:
    return storm(Path(folder), messages, kills)


def run(quick: bool, say: Callable[[str], None]) -> Figure:
    messages, kills = (20_000, 60) if quick else (1_000_000, 2_200)
    folder = tempfile.mkdtemp(prefix="spooltop-storm-", dir=scratch())
    return figured(NAME, BAR, folder, alone, (folder, messages, kills), say)


def figured(
    name: str, bar: str, folder: str, work: Callable[..., Found], arguments: tuple[object, ...], say: Callable[[str], None]
) -> Figure:
    """Does ``work`` in a process of its own. Where something is wrong the histories in ``folder`` are kept, else it goes."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        found = pool.submit(work, *arguments).result()
    for words in found.wrong[:20]:
        say(words)
    if found.wrong:
        say(f"the histories are kept in {folder}/history")
    else:
        shutil.rmtree(folder)
    again = ", ".join(f"{count:,} after {what}" for what, count in sorted(found.redelivered.items()) if count)
    operated = ", ".join(f"{what} {count:,}" for what, count in found.operated.most_common())
    explained = f"{found.kills:,} kills; {found.requeued:,} requeued; redelivered: {again or 'none'}"
    explained += f"; operators: {operated}" if operated else ""
    forked = ", ".join(f"{count:,} {ending}" for ending, count in sorted(found.children.items()))
    explained += f"; children forked beside a claim ended: {forked}" if forked else ""
    return Figure(name, bar, found.messages, len(found.wrong), explained=explained)
