"""A state machine over the engine: consumers, crashes, an operator, a clock that jumps, in any order; and a model of where each
message must be."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from spooltop.backends.directory.operator.operator import OperatorChain, SpoolOpener
from spooltop.backends.directory.storage import System
from spooltop.engine import Spool, names
from spooltop.engine.arguments import MAX_ATTEMPTS
from spooltop.engine.consumer import Claim
from spooltop.errors import ClaimLost
from spooltop.model.plan import Outcome, Selection
from spooltop.model.vocabulary import Action, Box, Verdict
from spooltop.operate.operations import Operations
from tests.scratch import scratch

from .figures import Figure
from .world import desk, killed_in_child

__all__ = ["BAR", "NAME", "Consumers", "run"]

NAME = "state machine: consumers, crashes, clock jumps, two operators with requeue, force and undo"
BAR = "0 steps after which a message is elsewhere than it must be"

LENGTH = 50
"""Steps of one run."""
MOST_ATTEMPTS = 5
DEAD = -1
"""The holder of a claim: its consumer was killed, or is closed."""


@dataclass
class Message:
    """Expected state of a message: ``box``; in ``cur`` the ``holder`` (0, 1, ``DEAD``) with its ``claim``; ``token``: of the last
    claim; ``until``: not claimed before, unless it was ``due`` by a clock that was set back since."""

    data: bytes
    box: Box = Box.NEW
    attempts: int = 0
    holder: int = DEAD
    claim: Claim | None = None
    until: float = 0.0
    due: bool = False
    token: str | None = None


class Consumers(RuleBasedStateMachine):
    """Two living consumers, any number of dead ones, and two operators, on one spool."""

    steps = 0
    """Steps of all runs in this process."""

    def __init__(self) -> None:
        super().__init__()
        self.base = Path(tempfile.mkdtemp(prefix="spooltop-proof-", dir=scratch()))
        self.root = self.base / "spool"
        self.now = 1_800_000_000.0
        self.spools = [self.opened(), self.opened()]
        self.messages: dict[str, Message] = {}
        self.keys: dict[str, str] = {}
        self.lost: list[Claim] = []
        self.done: list[tuple[str, dict[str, Message], dict[str, tuple[object, ...]]]] = []
        """Operations, with what each message was before, and where it stood after."""
        self.operations, self.others = self.operator("proof"), self.operator("other")

    def operator(self, user: str) -> Operations:
        spool = SpoolOpener(
            path=str(self.root), world=System(clock=self.clock), look=lambda box, _: desk(self.root).look(box), again=self.again,
            state_dir=str(self.base / "state"), user=user,
        )  # fmt: skip
        return Operations(OperatorChain(spool.opened), str(self.root), self.clock, syslog=lambda _line: None)

    def clock(self) -> float:
        self.now += 1e-4
        return self.now

    def opened(self) -> Spool:
        return Spool.create(self.root, False, clock=self.clock, max_attempts=MOST_ATTEMPTS)

    def again(self, box: Box, wanted: Sequence[str]) -> Mapping[str, tuple[Verdict | None, str]]:
        return desk(self.root).again(box, wanted)

    def held(self, who: int | None = None) -> list[str]:
        """The messages that a living consumer has a claim on."""
        return [id for id, one in self.messages.items() if one.claim is not None and who in (None, one.holder)]

    def back(self, message: Message, until: float = 0.0) -> None:
        """Records the message as back in ``new``, with another attempt."""
        message.box, message.holder, message.claim, message.until, message.due = Box.NEW, DEAD, None, until, False
        message.attempts += 1

    def ends(self, message: Message, limit: int = MOST_ATTEMPTS) -> None:
        """Given back, recovered or requeued: in ``new``, or at the limit of attempts rejected."""
        if message.attempts + 1 >= limit:
            message.box, message.claim = Box.REJECTED, None
        else:
            self.back(message)

    # What producers and consumers do

    @rule(who=st.integers(0, 1), count=st.integers(1, 3))
    def put(self, who: int, count: int) -> None:
        bodies = [b"%d" % (len(self.messages) + number) for number in range(count)]
        ids = [self.spools[who].put(bodies[0])] if count == 1 else self.spools[who].put_many(bodies)
        for id, data in zip(ids, bodies, strict=True):
            assert id not in self.messages
            self.messages[id] = Message(data)

    @rule(who=st.integers(0, 1), key=st.sampled_from("ab"))
    def put_by_key(self, who: int, key: str) -> None:
        id = self.spools[who].put(key.encode(), key=key)
        if key not in self.keys:
            self.keys[key] = id
            self.messages[id] = Message(key.encode())
        assert self.keys[key] == id  # and nothing more, wherever that message is by now

    @rule(who=st.integers(0, 1))
    def claim(self, who: int) -> None:
        claim = self.spools[who].claim()
        waiting = {id for id, one in self.messages.items() if one.box is Box.NEW}
        if claim is None:
            assert all(self.messages[id].until > self.now for id in waiting), "a message that waits is not given out"
            return
        assert claim.id in waiting, "given out while it was elsewhere"
        message = self.messages[claim.id]
        assert message.due or message.until <= self.now + 1e-3
        assert claim.data == message.data
        assert claim.attempt == message.attempts + 1
        message.box, message.holder, message.claim, message.token = Box.CUR, who, claim, claim.token

    @precondition(lambda self: self.held())
    @rule(data=st.data())
    def ack(self, data: st.DataObject) -> None:
        id = data.draw(st.sampled_from(self.held()))
        claim = self.messages.pop(id).claim
        assert claim is not None
        claim.ack()

    @precondition(lambda self: self.held())
    @rule(data=st.data(), delay=st.sampled_from((0, 60)))
    def release(self, data: st.DataObject, delay: int) -> None:
        message = self.messages[data.draw(st.sampled_from(self.held()))]
        assert message.claim is not None
        message.claim.release(delay)
        self.ends(message)
        if message.box is Box.NEW:
            message.until = self.now + delay if delay else 0.0

    @precondition(lambda self: self.held())
    @rule(data=st.data())
    def reject(self, data: st.DataObject) -> None:
        message = self.messages[data.draw(st.sampled_from(self.held()))]
        assert message.claim is not None
        message.claim.reject("on purpose")
        message.box, message.claim = Box.REJECTED, None

    @precondition(lambda self: self.lost)
    @rule(data=st.data(), end=st.sampled_from(("ack", "release", "reject")))
    def end_what_was_taken(self, data: st.DataObject, end: str) -> None:
        claim = self.lost.pop(data.draw(st.integers(0, len(self.lost) - 1)))
        try:
            {"ack": claim.ack, "release": claim.release, "reject": lambda: claim.reject("late")}[end]()
        except ClaimLost:
            return
        raise AssertionError(f"{end} of a claim that was taken away says nothing")

    @rule(who=st.integers(0, 1))
    def recover(self, who: int) -> None:
        dead = {id for id, one in self.messages.items() if one.box is Box.CUR and one.holder == DEAD}
        went = set(self.spools[who].recover())
        for id in dead:
            self.ends(self.messages[id])
        assert went == {id for id in dead if self.messages[id].box is Box.NEW}

    @rule(who=st.integers(0, 1))
    def close_and_open(self, who: int) -> None:
        held = self.held(who)
        self.lost = [claim for claim in self.lost if not claim.ended and self.spools[who]._consumer is not claim._consumer]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)  # that it gives back what is held is what is tried
            self.spools[who].close()
        for id in held:
            self.ends(self.messages[id])
        for message in self.messages.values():
            if message.box is Box.CUR and message.holder == who:
                message.holder = DEAD  # put back by an undo after its consumer had heard that it was taken
        self.spools[who] = self.opened()

    @rule(count=st.integers(1, 2))
    def crash(self, count: int) -> None:
        reading, writing = os.pipe()

        def die() -> None:
            spool = self.opened()
            claims = [claim for _ in range(count) if (claim := spool.claim()) is not None]
            os.write(writing, "\n".join(f"{claim.id} {claim.token}" for claim in claims).encode())
            os.kill(os.getpid(), signal.SIGKILL)

        assert killed_in_child(die)
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            for line in pipe.read().decode().splitlines():
                id, token = line.split()
                message = self.messages[id]
                assert message.box is Box.NEW, "given out while it was elsewhere"
                message.box, message.holder, message.token = Box.CUR, DEAD, token

    @rule(seconds=st.sampled_from((-7200.0, -61.0, 1.0, 61.0, 86400.0, 31536000.0)))
    def jump(self, seconds: float) -> None:
        for message in self.messages.values():
            message.due |= message.until <= self.now
        self.now += seconds

    # What an operator does

    def applied(self, action: Action, selection: Selection, **options: str) -> tuple[str, set[str]]:
        """The operation, and the ids that it was done to."""
        plan = self.operations.plan(action, selection, force="force" in options, options={**options})
        if not plan.items:
            return "", set()
        result = self.operations.apply(plan)
        return plan.operation, {one.id for one in result.items if one.outcome is Outcome.DONE}

    def requeued(self, operation: str, ids: set[str]) -> None:
        before = {id: Message(**vars(self.messages[id])) for id in ids}
        for id, message in self.messages.items():
            if id not in ids:
                continue  # in their order, not in that of a set of random names: what is drawn later depends on it
            if message.claim is not None:
                self.lost.append(message.claim)
            self.ends(message, MAX_ATTEMPTS)
        self.done.append((operation, before, {id: self.standing(id) for id in ids}))

    def standing(self, id: str) -> tuple[object, ...]:
        """Returns a value that changes whenever a message moves on: each claim counts an attempt when it ends."""
        message = self.messages.get(id)
        return () if message is None else (message.box, message.attempts)

    @rule()
    def requeue_the_dead(self) -> None:
        dead = {id for id, one in self.messages.items() if one.box is Box.CUR and one.holder == DEAD}
        operation, ids = self.applied(Action.REQUEUE, Selection(box=Box.CUR, verdict=Verdict.DEAD))
        assert ids == dead
        if operation:
            self.requeued(operation, ids)

    @precondition(lambda self: any(one.box is Box.CUR for one in self.messages.values()))
    @rule(force=st.booleans(), between=st.sampled_from(("nothing", "claim", "recover")))
    def two_operators_requeue_the_same(self, force: bool, between: str) -> None:
        selection = Selection(box=Box.CUR, everything=True) if force else Selection(box=Box.CUR, verdict=Verdict.DEAD)
        first, second = (one.plan(Action.REQUEUE, selection, force=force) for one in (self.operations, self.others))
        assert {item.row.id for item in first.items} == {item.row.id for item in second.items}
        if not first.items:
            return
        done = {one.id for one in self.operations.apply(first).items if one.outcome is Outcome.DONE}
        assert done == {item.row.id for item in first.items}
        self.requeued(first.operation, done)
        if between == "claim":
            self.claim(0)
        elif between == "recover":
            self.recover(1)
        late = self.others.apply(second)
        assert {one.outcome for one in late.items} == {Outcome.SKIPPED}, "done twice by two operators"

    @precondition(lambda self: self.held())
    @rule(data=st.data())
    def requeue_by_force(self, data: st.DataObject) -> None:
        id = data.draw(st.sampled_from(self.held()))
        selection = Selection(box=Box.CUR, ids=(id,))
        assert self.applied(Action.REQUEUE, selection)[1] == set(), "taken from a living consumer without force"
        plan = self.operations.plan(Action.REQUEUE, selection, force=True)
        result = self.operations.apply(plan)
        assert [one.outcome for one in result.items] == [Outcome.DONE]
        self.requeued(plan.operation, {id})

    @precondition(lambda self: self.done)
    @rule()
    def undo(self) -> None:
        operation, before, after = self.done.pop()
        untouched = {id for id, was in before.items() if self.standing(id) == after[id] and self.known(was.token)}
        _, ids = self.applied(Action.UNDO, Selection(), undoes=operation)
        assert ids == untouched, "what has not gone on is undone, and nothing else"
        for id in ids:
            message, was = self.messages[id], before[id]
            rejected = was.attempts + 1 >= MAX_ATTEMPTS
            assert message.box is (Box.REJECTED if rejected else Box.NEW), "undone, though it had gone on"
            message.box, message.attempts, message.until = Box.CUR, was.attempts, 0.0
            message.holder, message.claim = self.holder(id), None
            for claim in self.lost:
                if claim is was.claim:  # its consumer has not heard yet that it was taken: it holds it again
                    message.holder, message.claim = was.holder, claim
            self.lost = [claim for claim in self.lost if claim is not message.claim]

    def holder(self, id: str) -> int:
        """Returns the holder of the claim on ``id``, by the token in its name."""
        parsed = next(one for name in os.listdir(self.root / "cur") if (one := names.parse(name, claimed=True)).id == id)
        for who, spool in enumerate(self.spools):
            if spool._consumer.token == parsed.token:
                return who
        assert self.known(parsed.token), "given back to a consumer that is forgotten: nobody could tell that it is dead"
        return DEAD

    def known(self, token: str | None) -> bool:
        """Returns whether it can be proven that the consumer of this token is dead. Otherwise no claim goes back to it."""
        return (self.root / ".spooltop" / "consumers" / str(token)).exists()

    # What must hold after each

    @invariant()
    def each_is_where_it_must_be(self) -> None:
        Consumers.steps += 1
        for box in (Box.NEW, Box.CUR):
            found = sorted(names.parse(name, claimed=box is Box.CUR).id for name in os.listdir(self.root / box.value))
            assert found == sorted(id for id, one in self.messages.items() if one.box is box), box
        aside = self.root.glob(".spooltop/rejected/*/[!.]*")
        found = sorted(names.parse(path.name, claimed=True).id for path in aside)
        assert found == sorted(id for id, one in self.messages.items() if one.box is Box.REJECTED)
        assert os.listdir(self.root / "tmp") == []

    def teardown(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            for spool in self.spools:
                spool.close()
        for message in self.messages.values():
            if message.claim is not None:
                message.claim.end()
        self.operations.close()
        self.others.close()
        shutil.rmtree(self.base)


def walked(task: tuple[int, bool]) -> tuple[int, list[str]]:
    """(steps, what was wrong) of so many runs; ``quick`` ones are the same each time."""
    runs, quick = task
    asked = settings(
        max_examples=runs, stateful_step_count=LENGTH, derandomize=quick, database=None, deadline=None,
        suppress_health_check=list(HealthCheck), phases=(Phase.generate,), print_blob=False,
    )  # fmt: skip
    machine = Consumers if quick else seed(int.from_bytes(os.urandom(8), "big"))(Consumers)
    try:
        run_state_machine_as_test(machine, settings=asked)
    except Exception:  # noqa: BLE001  whatever it is, it is what was found
        return Consumers.steps, [traceback.format_exc()]
    return Consumers.steps, []


def run(quick: bool, say: Callable[[str], None]) -> Figure:
    wanted, runs = (5_000, 110) if quick else (300_000, 500)
    count = violations = 0
    with ProcessPoolExecutor(mp_context=get_context("spawn"), max_tasks_per_child=1) as pool:
        while count < wanted and not violations:
            for steps, wrong in pool.map(walked, [(runs, quick)] if quick else [(runs, quick)] * 4):
                count += steps
                violations += len(wrong)
                for words in wrong:
                    say(words)
            say(f"{count:,} steps")
            if quick:
                break
    explained = f"runs of up to {LENGTH} steps, 2 consumers and those that are killed, 2 operators"
    return Figure(NAME, BAR, count, violations, explained=explained)
