"""The streams' part of the crash matrix: each action on a stream, cut at each command that it sends and at each line of its
journal.

A connection that comes back is no trouble: the operation finishes by itself. Where the server refuses or stays away, or the
process is killed, the same operation again finishes, or an undo does. The census is the oracle: no message is lost or doubled.
"""

from __future__ import annotations

import errno
import importlib
import os
import re
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from hashlib import sha1
from itertools import count
from pathlib import Path
from socket import socketpair
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import spooltop
from spooltop.control import Control
from spooltop.engine.files import Files
from spooltop.errors import SpooltopError
from spooltop.model.plan import Outcome, Plan, Result, Selection
from spooltop.model.vocabulary import Action, Box, Json
from tests.builders import ROOT_STATE
from tests.matrix.cutting_proxy import Cut, CuttingProxy, cutting_proxy
from tests.scratch import scratch
from tests.stream_builders import StreamWorld
from tests.stream_servers import running

__all__ = ["CASES", "FEW", "MANY", "Case", "Sweep", "Trial", "died", "lua_sites", "prepared_proxy", "scripts", "sites_of"]

FEW, MANY = 3, 27
"""Numbers of claims: ``MANY`` need two batches."""


@dataclass(frozen=True)
class Case:
    """An action on what ``prepare`` has made, or the undo of the operation whose id it returns. ``lasting``: an undo has nothing
    to reverse. ``repeats``: the same again would do it twice."""

    prepare: Callable[[StreamWorld], str]
    action: Action
    box: Box | None = None
    options: Mapping[str, Json] = field(default_factory=dict)
    lasting: bool = False
    repeats: bool = False

    def plan(self, control: Control, world: StreamWorld, undoes: str) -> Plan:
        options = dict(self.options) | ({"undoes": undoes} if undoes else {})
        if self.action is Action.SET_CURSOR:
            options["source"] = world.group
        return control.plan(self.action, Selection(box=self.box, everything=True), options=options)


def claims(world: StreamWorld, number: int = FEW) -> str:
    world.put_many(number + 2)
    world.claim_dead(number)
    return ""


def many_claims(world: StreamWorld) -> str:
    return claims(world, MANY)


def delivered(times: int) -> Callable[[StreamWorld], str]:
    def prepare(world: StreamWorld) -> str:
        claims(world)
        for id in world.pending():
            for _ in range(times - 1):
                world.take("dead", id)
        return ""

    return prepare


def acked(world: StreamWorld) -> str:
    world.put_many(4)
    world.client.xack(world.stream, world.group, *world.deliver("alive", 4))
    return ""


def undone_later(
    action: Action, box: Box | None = None, *, first: Callable[[StreamWorld], str] = claims, **options: Json
) -> Case:
    """Returns the case in which ``action`` was done and is undone."""

    def prepare(world: StreamWorld) -> str:
        first(world)
        return done(world, action, box, **options)

    return Case(prepare, Action.UNDO)


def after(
    action: Action, box: Box | None = None, *, first: Callable[[StreamWorld], str] = claims
) -> Callable[[StreamWorld], str]:
    """Does ``action``, and has nothing undone."""

    def prepare(world: StreamWorld) -> str:
        first(world)
        done(world, action, box)
        return ""

    return prepare


def held_for_plain_consumers(world: StreamWorld) -> str:
    """Holds messages in a group in which no worker of spooltop has ever been."""
    world.client.delete(world.key("consumers"), "{jobs}:lease:" + world.group + ":worker")
    claims(world)
    done(world, Action.HOLD, Box.CUR)
    world.client.delete(world.key("consumers"))
    return ""


def done(world: StreamWorld, action: Action, box: Box | None = None, **options: Json) -> str:
    """Plans and applies; every message of the plan must be done. Returns the operation."""
    with world.control() as control, Journal(world):
        plan = Case(claims, action, box, options).plan(control, world, "")
        check_done(control.apply(plan))
        return plan.operation


def check_done(result: Result) -> None:
    assert result.count(Outcome.DONE) == len(result.items) > 0, result


def cut_off(world: StreamWorld) -> str:
    """Requeues claims in a process that is killed as soon as the server has done a batch: its journal has no result of it."""
    before = claims(world, MANY) or world.census()
    for at in count(1):
        with world.control() as control:
            plan = CASES["requeue"].plan(control, world, "")
            assert died(lambda: Journal(world, at, "killed").__enter__() and control.apply(plan))  # noqa: B023
        if world.census() != before:
            return plan.operation
    raise AssertionError("no batch was done")


CASES: dict[str, Case] = {
    "requeue": Case(many_claims, Action.REQUEUE, Box.CUR),
    "requeue as copies": Case(claims, Action.REQUEUE, Box.CUR, {"copy": True}, lasting=True),
    "requeue what is rejected": Case(delivered(10), Action.REQUEUE, Box.CUR),
    "requeue what is held": Case(delivered(3), Action.REQUEUE, Box.CUR, {"hold_poison": True}),
    "purge claims": Case(many_claims, Action.PURGE, Box.CUR),
    "purge new": Case(claims, Action.PURGE, Box.NEW),
    "purge held": Case(after(Action.HOLD, Box.CUR), Action.PURGE, Box.HELD),
    "purge claims for good": Case(claims, Action.PURGE, Box.CUR, {"now": True}, lasting=True),
    "purge new for good": Case(claims, Action.PURGE, Box.NEW, {"now": True}, lasting=True),
    "hold claims": Case(claims, Action.HOLD, Box.CUR),
    "hold new": Case(claims, Action.HOLD, Box.NEW),
    "release": Case(after(Action.HOLD, Box.CUR), Action.RELEASE),
    "release as copies": Case(held_for_plain_consumers, Action.RELEASE),
    "restore": Case(after(Action.PURGE, Box.CUR), Action.RESTORE, Box.TRASH),
    "empty": Case(after(Action.PURGE, Box.CUR), Action.EMPTY, lasting=True),
    "inject": Case(claims, Action.INJECT, options={"count": 3, "text": "put {n}"}, repeats=True),
    "pause": Case(claims, Action.PAUSE),
    "resume": Case(after(Action.PAUSE), Action.RESUME),
    "set the cursor": Case(acked, Action.SET_CURSOR, options={"value": "0"}),
    "undo a requeue": undone_later(Action.REQUEUE, Box.CUR, first=many_claims),
    "undo a purge of claims": undone_later(Action.PURGE, Box.CUR),
    "undo a purge of new": undone_later(Action.PURGE, Box.NEW),
    "undo a hold": undone_later(Action.HOLD, Box.CUR),
    "undo a release": undone_later(Action.RELEASE, first=after(Action.HOLD, Box.CUR)),
    "undo a restore": undone_later(Action.RESTORE, Box.TRASH, first=after(Action.PURGE, Box.CUR)),
    "undo an inject": undone_later(Action.INJECT, count=3, text="put {n}"),
    "undo a pause": undone_later(Action.PAUSE),
    "undo a resume": undone_later(Action.RESUME, first=after(Action.PAUSE)),
    "undo what was cut off": Case(cut_off, Action.UNDO),
    "undo a cursor": undone_later(Action.SET_CURSOR, first=acked, value="0"),
}


class Journal:
    """Counts the writes and syncs of this user's own files about ``world``. The ``at``-th ends the process (``killed``; ``torn``:
    with half of it written), or it and all later ones fail (``full``)."""

    FAULTS = ("killed", "torn", "full")

    def __init__(self, world: StreamWorld, at: int = 0, fault: str = "") -> None:
        self._below = (str(world.state), f"{ROOT_STATE}/{world.group}-")
        self._at, self._fault = at, fault
        self._stack = ExitStack()
        self.steps: list[str] = []

    def __enter__(self) -> Journal:
        for name, replaced in (("write", self._written), ("sync", self._synced), ("sync_dir", self._synced)):
            self._stack.enter_context(patch.object(Files, name, staticmethod(replaced)))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _written(self, fd: int, data: Any) -> int:
        if self._step(fd, "write", data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return os.write(fd, data)

    def _synced(self, fd: int) -> None:
        """Syncs nothing: no test here cuts the power."""
        if self._step(fd, "sync", b""):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _step(self, fd: int, name: str, data: Any) -> bool:
        """Counts a step; True if it fails."""
        if not os.readlink(f"/proc/self/fd/{fd}").startswith(self._below):
            return False
        self.steps.append(name)
        if len(self.steps) == self._at and self._fault in ("killed", "torn"):
            if self._fault == "torn" and data:
                os.write(fd, data[: len(data) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        return self._fault == "full" and len(self.steps) >= self._at


Work = Callable[[], object]
State = dict[str, str]
"""Place of each message, and whether the queue is paused."""


def state_of(world: StreamWorld) -> State:
    """Demands that each message is in one place."""
    census = world.census()
    assert all(len(places) == 1 for places in census.values()), census
    return {content: places[0] for content, places in census.items()} | {"": f"paused: {world.client.exists(world.paused)}"}


@dataclass
class Trial:
    """A world that is prepared for ``case``, and the states between which it must stay: ``before`` the operation, ``after`` it,
    and when it was ``undone``. ``undoes`` is the operation that the case undoes."""

    case: Case
    world: StreamWorld
    undoes: str
    before: State
    after: State
    undone: State
    operation: str = ""

    def apply(self, apply: Callable[[Control, Plan], Result | None]) -> Result | None:
        """Plans, and applies by ``apply``. Returns the result; None where the process died or an error was raised."""
        with self.world.control() as control:
            plan = self.case.plan(control, self.world, self.undoes)
            self.operation = plan.operation
            try:
                return apply(control, plan)
            except SpooltopError as error:
                assert "\n" not in str(error)
                return None

    def finish(self) -> str:
        """Does the same again, which must come to the end of it. Returns its operation."""
        with self.world.control() as control, Journal(self.world):
            plan = self.case.plan(control, self.world, self.undoes)
            if plan.items:
                check_done(control.apply(plan))
        assert state_of(self.world) == self.after
        return plan.operation

    def undo(self, operation: str) -> None:
        """Undoes what was done of ``operation``."""
        with self.world.control() as control, Journal(self.world):
            if operation in {record.operation for record in control.operations()}:
                control.apply(control.plan(Action.UNDO, Selection(everything=True), options={"undoes": operation}))
                (record,) = control.operations(begins=operation)
                assert not record.open, record

    def settle(self, *, again: bool) -> None:
        """Demands that the state is whole, that the same operation ``again`` finishes, and that an undo puts all back."""
        self.check(self.before, self.after, self.undone)
        later = self.finish() if (again and not self.case.repeats) or self.case.lasting else ""
        if not self.case.lasting:
            self.undo(self.operation)
            self.check(self.before, self.after, self.undone)
            self.undo(later or self.operation)
            self.check(self.before, self.undone)

    def check(self, *states: State) -> None:
        """Demands that each message is where it is in one of ``states``."""
        found = state_of(self.world)
        for content in {*found, *self.before, *self.after, *self.undone}:
            assert found.get(content) in {state.get(content) for state in states}, (content, found, states)


class Sweep:
    """Prepares the case ``name`` again and again on the server behind ``proxy``; ``commands`` are those that it sends where
    nothing is cut, ``steps`` the writes and syncs of its journal."""

    def __init__(self, name: str, socket: str, proxy: CuttingProxy, folder: Path) -> None:
        self.case, self._socket, self._proxy, self._folder = CASES[name], socket, proxy, folder
        self._numbers = count(1)
        with self._world() as (world, undoes), world.control() as control:
            self._before = state_of(world)
            plan = self.case.plan(control, world, undoes)
            proxy.disarm()
            with Journal(world) as journal:
                check_done(control.apply(plan))
            self.commands, self.steps = list(proxy.commands), journal.steps
            self._after = self._undone = state_of(world)
            if not self.case.lasting:
                done(world, Action.UNDO, undoes=plan.operation)
                self._undone = state_of(world)
        assert self._before != self._after and any(map(sites_of, self.commands)) and "write" in self.steps

    @contextmanager
    def _world(self) -> Iterator[tuple[StreamWorld, str]]:
        folder = self._folder / str(next(self._numbers))
        with StreamWorld(folder, self._socket, self._proxy.path) as world:
            yield world, self.case.prepare(world)

    @contextmanager
    def trial(self) -> Iterator[Trial]:
        with self._world() as (world, undoes):
            yield Trial(self.case, world, undoes, self._before, self._after, self._undone)

    def cut(self, at: int, cut: Cut, *, away: bool = False, kill: bool = False) -> None:
        """Cuts the ``at``-th command, and demands what must hold then."""

        def apply(control: Control, plan: Plan) -> Result | None:
            with Journal(trial.world):
                if kill:
                    assert died(lambda: control.apply(plan), lambda pid: self._proxy.arm(at, cut, victim=pid))
                    return None
                self._proxy.arm(at, cut, away=away)
                return control.apply(plan)

        with self.trial() as trial:
            try:
                result = trial.apply(apply)
            finally:
                assert self._proxy.disarm()
            if cut is Cut.REFUSED or away or kill:
                trial.settle(again=not away)
            else:
                assert result is not None and state_of(trial.world) == trial.after, (at, cut, result)
                check_done(result)

    def break_journal(self, at: int, fault: str) -> None:
        """Lets the ``at``-th step of the journal fail, and demands what must hold then."""

        def apply(control: Control, plan: Plan) -> Result | None:
            with Journal(trial.world, at, fault):
                if fault == "full":
                    return control.apply(plan)
                assert died(lambda: control.apply(plan))
                return None

        with self.trial() as trial:
            trial.apply(apply)
            trial.settle(again=True)


def died(work: Work, started: Callable[[int], object] = lambda pid: None, prepare: Work = bool) -> bool:
    """Runs ``prepare`` and ``work`` in a child, and between both ``started`` here, with its pid. Returns whether it was killed.
    """
    here, there = socketpair()
    pid = os.fork()
    if pid == 0:
        try:
            here.close()
            prepare()
            there.send(b"prepared")
            there.recv(1)
            work()
        finally:
            os._exit(0)
    there.close()
    with here:
        assert here.recv(9), "the child failed before it began"
        started(pid)
        here.send(b"!")
        return os.WIFSIGNALED(os.waitpid(pid, 0)[1])


# What can be cut

_WRITES = re.compile(r"redis\.p?call\('(X(ADD|ACK|DEL|CLAIM|GROUP|READGROUP)|SET|DEL|H(SET|DEL)|Z(ADD|REM))'")
_VERBS = re.compile(r"(?:function verbs\.(\w+)|^verbs\['([\w-]+)'\])", re.MULTILINE)
_PLAIN = frozenset({b"XADD", b"SET", b"HSET", b"DEL", b"HDEL", b"EXPIRE", b"XGROUP", b"XREADGROUP"})


def scripts() -> dict[str, tuple[str, list[str]]]:
    """Digest of each Lua script of a queue that changes something → its name, and the verbs of changes that it knows."""
    root = Path(spooltop.__file__).parent
    found: dict[str, tuple[str, list[str]]] = {}
    for path in sorted(root.rglob("*.py")):
        if "redis.call(" not in path.read_text() or path.stem == "tickets":
            continue
        module = importlib.import_module(".".join(path.relative_to(root.parent).with_suffix("").parts))
        for name, text in vars(module).items():
            if isinstance(text, str) and not name.startswith("_") and _WRITES.search(text):
                verbs = [match[1] or match[2] for match in _VERBS.finditer(text)]
                found[sha1(text.encode()).hexdigest()] = f"{path.parent.name}/{name}", verbs
    return found


_SCRIPTS = scripts()


def sites_of(command: Sequence[bytes]) -> set[str]:
    """The sites that a command runs: a script, or each verb of it, or the name of a plain command that changes something."""
    name = command[0].upper()
    if name not in (b"EVAL", b"EVALSHA"):
        return {name.decode()} if name in _PLAIN else set()
    digest = command[1].decode() if name == b"EVALSHA" else sha1(command[1]).hexdigest()
    if digest not in _SCRIPTS:
        return set()
    script, verbs = _SCRIPTS[digest]
    return {f"{script}:{verb}" for verb in verbs if verb.encode() in command[2:]} if verbs else {script}


@contextmanager
def prepared_proxy(socket: str) -> Iterator[tuple[CuttingProxy, Path]]:
    """Runs a proxy before the server at ``socket``. Yields it, and a folder in memory."""
    with TemporaryDirectory(prefix="spooltop-cut-", dir=scratch()) as folder, cutting_proxy(Path(folder), socket) as proxy:
        yield proxy, Path(folder)


def lua_sites(kind: str = "redis") -> tuple[set[str], set[str]]:
    """Cuts each site once, before its command, and has it refused once, on a server of its own, with all that ``Sweep`` demands.
    Returns the sites that were cut and refused, and all there are."""
    from tests.matrix.stream_queues import OPERATIONS, QueueSweep

    every = {f"{name}:{verb}" for name, verbs in _SCRIPTS.values() for verb in verbs}
    every |= {name for name, verbs in _SCRIPTS.values() if not verbs}
    hit: set[str] = set()
    with TemporaryDirectory() as folder, running(kind, Path(folder)) as socket, prepared_proxy(socket) as (proxy, memory):
        sweeps = [(Sweep, name) for name in CASES] + [(QueueSweep, name) for name in OPERATIONS]
        for number, (sweep_class, name) in enumerate(sweeps):
            sweep: Any = sweep_class(name, socket, proxy, memory / str(number))
            for at, command in enumerate(sweep.commands, start=1):
                sites = sites_of(command)
                every |= sites
                if not sites <= hit:
                    sweep.cut(at, Cut.BEFORE)
                    if command[0].startswith(b"EVAL"):
                        sweep.cut(at, Cut.REFUSED)
                    hit |= sites
    return hit, every
