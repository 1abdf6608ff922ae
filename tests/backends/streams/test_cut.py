"""Cuts each operation off, and its undo: at each command that it sends, and at each line of its journal.

A connection that comes back is no trouble: the operation finishes by itself. Where the server stays away, or the process is
killed, the same operation again finishes, or an undo does. No message is lost, none is in two places.
"""

from __future__ import annotations

import os
import signal
import socket as sockets
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from spooltop.backends.journal.log_store import StateLogs
from spooltop.backends.redis.client import Endpoint, RedisClient, Reply
from spooltop.backends.redis.operator import operator
from spooltop.errors import SpooltopError
from spooltop.model.operations.plan import Outcome, Plan
from spooltop.model.vocabulary import Action, Box, Json
from spooltop.operate.operations import Operations

from .conftest import NAMES
from .cutting_proxy import Cut, CuttingProxy, cutting_proxy
from .group import Group, done, plan


@dataclass(frozen=True)
class Case:
    """What is ``prepared``, and what is done then: to the messages in ``box``, or an undo of the operation that ``prepared``
    returns. ``lasting``: an undo has nothing to reverse. ``repeats``: the same again would do it twice."""

    prepared: Callable[[Group], str]
    action: Action
    box: Box | None = None
    options: dict[str, Json] | None = None
    lasting: bool = False
    repeats: bool = False

    def plan(self, operations: Operations, undoes: str) -> Plan:
        options = dict(self.options or {}) | ({"undoes": undoes} if undoes else {})
        if options.get("source") == "work":
            options["value"] = "0"
        return plan(operations, self.action, self.box, **options)


def _claims(group: Group) -> str:
    group.put(5)
    group.claim("dead", 3)
    return ""


def _delivered(times: int) -> Callable[[Group], str]:
    def prepare(group: Group) -> str:
        _claims(group)
        for id in group.pending():
            for _ in range(times - 1):
                group.take("dead", id)
        return ""

    return prepare


def _after(action: Action, box: Box | None = None, *, first: Callable[[Group], str] = _claims, **options: Json) -> Case:
    """The case in which ``action`` was done and is undone."""

    def prepare(group: Group) -> str:
        first(group)
        return done(group.operations(), action, box, **options).operation

    return Case(prepare, Action.UNDO)


def _aside(action: Action, box: Box | None = None, **options: Json) -> Callable[[Group], str]:
    """Does ``action``, and has nothing undone."""

    def prepare(group: Group) -> str:
        _claims(group)
        done(group.operations(), action, box, **options)
        return ""

    return prepare


def _held_for_plain_consumers(group: Group) -> str:
    group.only_plain_consumers()
    return _aside(Action.HOLD, Box.CUR)(group)


def _acked(group: Group) -> str:
    group.put(4)
    for id in group.claim("alive", 4):
        group.ack(id)
    return ""


CASES: dict[str, Case] = {
    "requeue": Case(_claims, Action.REQUEUE, Box.CUR),
    "requeue as copies": Case(_claims, Action.REQUEUE, Box.CUR, {"copy": True}, lasting=True),
    "requeue what is rejected": Case(_delivered(10), Action.REQUEUE, Box.CUR),
    "requeue what is held": Case(_delivered(3), Action.REQUEUE, Box.CUR, {"hold_poison": True}),
    "purge claims": Case(_claims, Action.PURGE, Box.CUR),
    "purge new": Case(_claims, Action.PURGE, Box.NEW),
    "purge held": Case(_aside(Action.HOLD, Box.CUR), Action.PURGE, Box.HELD),
    "purge claims for good": Case(_claims, Action.PURGE, Box.CUR, {"now": True}, lasting=True),
    "purge new for good": Case(_claims, Action.PURGE, Box.NEW, {"now": True}, lasting=True),
    "hold claims": Case(_claims, Action.HOLD, Box.CUR),
    "hold new": Case(_claims, Action.HOLD, Box.NEW),
    "release": Case(_aside(Action.HOLD, Box.CUR), Action.RELEASE),
    "release as copies": Case(_held_for_plain_consumers, Action.RELEASE),
    "restore": Case(_aside(Action.PURGE, Box.CUR), Action.RESTORE, Box.TRASH),
    "empty": Case(_aside(Action.PURGE, Box.CUR), Action.EMPTY, lasting=True),
    "inject": Case(_claims, Action.INJECT, options={"count": 3, "text": "put {n}"}, repeats=True),
    "pause": Case(_claims, Action.PAUSE),
    "resume": Case(_aside(Action.PAUSE), Action.RESUME),
    "set the cursor": Case(_acked, Action.SET_CURSOR, options={"source": "work"}),
    "undo a requeue": _after(Action.REQUEUE, Box.CUR),
    "undo a purge of claims": _after(Action.PURGE, Box.CUR),
    "undo a purge of new": _after(Action.PURGE, Box.NEW),
    "undo a hold": _after(Action.HOLD, Box.CUR),
    "undo a release": _after(Action.RELEASE, first=_aside(Action.HOLD, Box.CUR)),
    "undo a restore": _after(Action.RESTORE, Box.TRASH, first=_aside(Action.PURGE, Box.CUR)),
    "undo an inject": _after(Action.INJECT, count=3, text="put {n}"),
    "undo a pause": _after(Action.PAUSE),
    "undo a resume": _after(Action.RESUME, first=_aside(Action.PAUSE)),
    "undo a cursor": _after(Action.SET_CURSOR, first=_acked, source="work", value="0"),
}

EACH_CASE = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in ("requeue", "undo a hold") else pytest.mark.long) for name in CASES]
)

State = dict[str, str]
"""Where each message is, and whether the queue is paused."""


def _state(group: Group) -> State:
    """Demands that each message is in one place."""
    found = group.where()
    assert all(len(places) == 1 for places in found.values()), found
    return {data: places[0] for data, places in found.items()} | {"": f"paused: {group.ask('EXISTS', NAMES.paused)}"}


@dataclass
class Trial:
    """A group that is prepared for ``case``, and the states between which it must stay: ``before`` the operation, ``after`` it,
    and when it was ``undone``. ``undoes`` is the operation that the case undoes."""

    case: Case
    group: Group
    undoes: str
    before: State
    after: State
    undone: State

    def planned(self) -> Plan:
        return self.case.plan(self.group.operations(), self.undoes)

    def finish(self) -> str:
        """Does the same again, which must come to the end of it. Returns its operation."""
        found = self.planned()
        if found.items:
            assert self.group.operations().apply(found).count(Outcome.DONE) == len(found.items)
        assert _state(self.group) == self.after
        return found.operation

    def undo(self, operation: str) -> None:
        """Undoes what was done of ``operation``."""
        ops = self.group.operations()
        if operation in {one.operation for one in ops.records()}:
            ops.apply(plan(ops, Action.UNDO, undoes=operation))
            (record,) = [one for one in ops.records() if one.operation == operation]
            assert not record.open, record

    def check_whole(self) -> None:
        """Demands that each message is where it was, where the operation moves it, or where an undo puts it."""
        self._check(self.before, self.after, self.undone)

    def check_back(self) -> None:
        """Demands that each message is where it was, or where an undo puts it."""
        self._check(self.before, self.undone)

    def _check(self, *states: State) -> None:
        found = _state(self.group)
        for data in {*found, *self.before, *self.after, *self.undone}:
            assert found.get(data) in {state.get(data) for state in states}, (data, found, states)


class Trials:
    """Prepares the case ``name`` again and again."""

    def __init__(self, name: str, socket: str, folder: Path) -> None:
        self._case = CASES[name]
        self._socket = socket
        self._folder = folder
        self._made = 0

    @contextmanager
    def group(self) -> Iterator[tuple[Group, str]]:
        """Prepares a group, and gives what is to be undone in it."""
        self._made += 1
        with closing(Group(self._socket, self._folder / str(self._made))) as group:
            yield group, self._case.prepared(group)

    def each(self, points: Callable[[Group, Plan], Sequence[str]]) -> Iterator[tuple[int, Trial]]:
        """Lets ``points`` apply the plan, and list the points at which it could end. Yields each, with a fresh trial."""
        case = self._case
        with self.group() as (group, undoes):
            before = undone = _state(group)
            found = case.plan(group.operations(), undoes)
            named = points(group, found)
            after = _state(group)
            assert before != after
            if not case.lasting:
                done(group.operations(), Action.UNDO, undoes=found.operation)
                undone = _state(group)
        begins = len(named) - named[::-1].index("ROLE")  # what comes before only asks what may be done
        assert "EVAL" in named[begins:]
        for at in (2, *range(begins, len(named) + 1)):
            with self.group() as (group, undoes):
                yield at, Trial(case, group, undoes, before, after, undone)


@pytest.fixture(autouse=True)
def two_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets an operation on three messages send two batches."""
    monkeypatch.setattr(operator, "AT_ONCE", 2)


@pytest.fixture
def proxy(socket: str) -> Iterator[CuttingProxy]:
    with TemporaryDirectory(prefix="spooltop-cut-") as folder, cutting_proxy(Path(folder), socket) as made:
        yield made


def _commands(proxy: CuttingProxy) -> Callable[[Group, Plan], Sequence[str]]:
    """Applies a plan through ``proxy``, and names the commands."""

    def applied(group: Group, found: Plan) -> Sequence[str]:
        with closing(RedisClient(Endpoint(path=proxy.path))) as client:
            proxy.disarm()
            group.operations(client).apply(found)
            return list(proxy.commands)

    return applied


@pytest.mark.parametrize("side", Cut)
@EACH_CASE
def test_a_connection_that_comes_back(name: str, side: Cut, socket: str, memory: Path, proxy: CuttingProxy) -> None:
    for at, trial in Trials(name, socket, memory).each(_commands(proxy)):
        found = trial.planned()
        proxy.arm(at, side)
        result = trial.group.operations(RedisClient(Endpoint(path=proxy.path))).apply(found)
        assert proxy.disarm()
        assert result.count(Outcome.DONE) == len(result.items) and _state(trial.group) == trial.after, (at, result)


@pytest.mark.parametrize("side", Cut)
@EACH_CASE
def test_a_server_that_stays_away(name: str, side: Cut, socket: str, memory: Path, proxy: CuttingProxy) -> None:
    for at, trial in Trials(name, socket, memory).each(_commands(proxy)):
        found = trial.planned()
        proxy.arm(at, side, for_good=True)
        try:
            result = trial.group.operations(RedisClient(Endpoint(path=proxy.path))).apply(found)
            assert result.count(Outcome.DONE) <= len(result.items)
        except SpooltopError:
            assert _state(trial.group) == trial.before
        assert proxy.disarm()
        trial.check_whole()
        if trial.case.lasting:
            trial.finish()
        else:
            trial.undo(found.operation)
            trial.check_back()


class Steps:
    """Kills this process with SIGKILL at the ``at``-th step, if there is one; ``names`` are those that were done."""

    def __init__(self, at: int = 0) -> None:
        self._at = at
        self.names: list[str] = []

    def step(self, name: str) -> None:
        self.names.append(name)
        if len(self.names) == self._at:
            os.kill(os.getpid(), signal.SIGKILL)


class SteppedClient(RedisClient):
    """A connection whose exchanges are steps."""

    def __init__(self, path: str, steps: Steps) -> None:
        super().__init__(Endpoint(path=path))
        self._steps = steps

    def ask(self, *commands: Sequence[str | bytes | int]) -> list[Reply]:
        self._steps.step(str(commands[0][0]))
        return super().ask(*commands)


class SteppedLogs:
    """Logs in which each line is a step."""

    def __init__(self, logs: StateLogs, steps: Steps) -> None:
        self._logs = logs
        self._steps = steps

    def __getattr__(self, name: str) -> Any:
        return getattr(self._logs, name)

    def append(self, name: str, *words: Any, **named: Any) -> None:
        self._steps.step(name)
        self._logs.append(name, *words, **named)


def _applied_in_steps(group: Group, found: Plan, socket: str, steps: Steps) -> Sequence[str]:
    logs: Any = SteppedLogs(group.logs(), steps)
    group.operations(SteppedClient(socket, steps), logs).apply(found)
    return steps.names


def _killed(group: Group, found: Plan, socket: str, at: int) -> bool:
    """Applies a plan in a process of its own, which is killed at its ``at``-th step; False if it has fewer."""
    child = os.fork()
    if child == 0:
        try:
            _applied_in_steps(group, found, socket, Steps(at))
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


@EACH_CASE
def test_a_killed_process(name: str, socket: str, memory: Path) -> None:
    for at, trial in Trials(name, socket, memory).each(lambda group, found: _applied_in_steps(group, found, socket, Steps())):
        found = trial.planned()
        assert _killed(trial.group, found, socket, at)
        trial.check_whole()
        again = None if trial.case.repeats else trial.finish()
        if not trial.case.lasting:
            trial.undo(found.operation)
            trial.check_whole()
            if again is not None:
                trial.undo(again)
            trial.check_back()


def test_what_an_undo_found_undone_is_never_done_later(proxy: CuttingProxy, socket: str, memory: Path) -> None:
    trials = Trials("purge claims", socket, memory)
    with trials.group() as (group, _):
        at = 1 + _commands(proxy)(group, plan(group.operations(), Action.PURGE, Box.CUR)).index("EVAL", 5)
    with trials.group() as (group, _):
        found = plan(group.operations(), Action.PURGE, Box.CUR)
        proxy.arm(at, Cut.BEFORE, for_good=True)
        sent = group.operations(RedisClient(Endpoint(path=proxy.path))).apply(found)
        assert proxy.disarm() and b"aside" in proxy.withheld
        assert [one.outcome for one in sent.items] == [Outcome.FAILED] * 2 and "unknown" in sent.items[0].reason
        again = group.operations()
        (record,) = again.records()
        assert record.open and "sent and not answered" in record.words
        undo = plan(again, Action.UNDO, undoes=found.operation)
        assert not undo.items
        again.apply(undo)
        (record,) = again.records()
        assert not record.open
        before = _state(group)
        with sockets.socket(sockets.AF_UNIX) as late:  # a network may hand the command over only now
            late.connect(socket)
            late.sendall(proxy.withheld)
            assert b"settled" in late.recv(100)
        assert _state(group) == before and group.data(NAMES.trash) == []
