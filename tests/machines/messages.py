"""Common part of the machines whose things are messages: consumers in processes of their own, what operators select, plan and
undo. A directory and a stream say where a message goes and what is refused."""

from __future__ import annotations

import json
import os
import signal
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from spooltop.errors import ClaimLost, Refused
from spooltop.model.plan import Confirm, Outcome, Plan, Selection
from spooltop.model.vocabulary import Action, Box, Json, Verdict

from .machine import Machine, Move, Operation, rule

__all__ = ["MOST", "TARGETS", "Consumer", "Message", "MessageMachine", "differences"]

TARGETS = {Action.PURGE: Box.TRASH, Action.HOLD: Box.HELD}
MOST = 14
"""Messages above which no more are put."""


class Consumer:
    """A consumer in a process of its own that obeys one command a line. ``opened`` opens its queue, by a clock. ``knows`` are the
    messages that it believes to hold."""

    def __init__(self, opened: Callable[[Callable[[], float]], Any]) -> None:
        commands, self._commands = os.pipe()
        self._answers, answers = os.pipe()
        self.alive = True
        self.knows: set[str] = set()
        self.token = ""
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.close(self._commands), os.close(self._answers)
                self._obey(opened, os.fdopen(commands), answers)
            finally:
                os._exit(1)
        os.close(commands), os.close(answers)
        self._read = os.fdopen(self._answers)

    @staticmethod
    def _obey(opened: Callable[[Callable[[], float]], Any], commands: Iterator[str], answers: int) -> None:
        skew = 0.0
        warnings.simplefilter("ignore", ResourceWarning)
        queue = opened(lambda: time.time() + skew)
        claims: dict[str, Any] = {}
        for line in commands:
            skew, command, body, more = json.loads(line)
            answer: Any = "ok"
            try:
                if command == "claim":
                    claim = queue.claim()
                    answer = claim and [claim.data.decode(), claim.id, claim.attempt, claim.token]
                    if claim is not None:
                        claims[claim.data.decode()] = claim
                elif command == "recover":
                    answer = queue.recover()
                else:
                    getattr(claims.pop(body), command)(*more)
            except ClaimLost:
                answer = "lost"
            os.write(answers, json.dumps(answer).encode() + b"\n")

    def ask(self, skew: float, command: str, body: str = "", *more: Any) -> Any:
        os.write(self._commands, json.dumps([skew, command, body, more]).encode() + b"\n")
        return json.loads(self._read.readline())

    def die(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self._commands)
        self._read.close()
        self.alive = False


@dataclass(frozen=True)
class Message:
    """Expected state: ``attempts`` is None for a foreign message in a directory; ``holder`` of a claim is a consumer, or that of
    another program by its pid or name; ``origins`` are the boxes from which it was set aside, the last one on top. ``entry``: its
    entry of a stream still stands while it is set aside."""

    id: str
    box: Box
    attempts: int | None
    source: str | None = None
    holder: Consumer | int | str | None = None
    origins: tuple[Box, ...] = ()
    until: float = 0.0
    since: float = 0.0
    """Time at which it was set aside."""
    entry: bool = True


def differences(found: Mapping[str, Any], expected: Mapping[str, Any]) -> dict[str, Any]:
    keys = found.keys() | expected.keys()
    return {key: (found.get(key), expected.get(key)) for key in keys if found.get(key) != expected.get(key)}


class MessageMachine(Machine):
    """Messages by their bodies, which are never put twice."""

    SOURCES: ClassVar[Mapping[Action, tuple[Box, ...]]] = {
        Action.REQUEUE: (Box.CUR, Box.REJECTED, Box.HELD),
        Action.PURGE: (Box.CUR, Box.NEW, Box.TMP, Box.REJECTED, Box.HELD),
        Action.HOLD: (Box.CUR, Box.NEW),
        Action.RELEASE: (Box.HELD,),
        Action.RESTORE: (Box.TRASH, Box.HELD, Box.REJECTED),
        Action.EMPTY: (Box.TRASH,),
    }
    RARE: ClassVar[tuple[str, ...]] = (
        *Machine.RARE, "undo of part", "undo of an undo", "two operators with one item", "ack of what was taken away",
        "holder proven dead judged again", "trash expired", "hold of held", "attempts at the limit", "living holder refused",
        "claim taken by force", "holder forgotten before undo", "put again with its key",
    )  # fmt: skip

    producer: Any

    def prepare(self) -> None:
        self.messages: dict[str, Message] = {}
        self.consumers: list[Consumer] = []
        self.bodies = 0

    # What a source defines

    def verdict(self, message: Message) -> Verdict | None:
        raise NotImplementedError

    def since(self, body: str) -> float:
        """Returns the time at which a message came into its box, as far as it is known."""
        raise NotImplementedError

    def refused(self, plan: Plan, body: str) -> bool:
        """Returns whether a plan must refuse the message, by the model: here, because its holder is running."""
        if self.verdict(self.messages[body]) is not Verdict.ALIVE:
            return False
        forced = plan.force and plan.action in (Action.REQUEUE, Action.HOLD)
        self.reached("claim taken by force" if forced else "living holder refused")
        return not forced

    def aside(self, message: Message, box: Box) -> Message:
        raise NotImplementedError

    def back(self, body: str, until: float = 0.0) -> None:
        """Sets the model's state of a claim that is given back."""
        raise NotImplementedError

    def opened(self, clock: Callable[[], float]) -> Any:
        """Opens the queue for a consumer."""
        raise NotImplementedError

    def asked(self, action: Action) -> dict[str, Json]:
        """Draws options of an action."""
        return {"now": True} if action is Action.PURGE and self.chance(0.1) else {}

    # Messages and consumers

    def of(self, *boxes: Box) -> list[str]:
        return [body for body, one in self.messages.items() if one.box in boxes]

    def body(self) -> str:
        self.bodies += 1
        return f"message {self.bodies}"

    def living(self) -> list[Consumer]:
        return [one for one in self.consumers if one.alive]

    def held(self) -> list[tuple[Consumer, str]]:
        return [(one, body) for one in self.living() for body in sorted(one.knows)]

    @rule(10)
    def put(self) -> bool:
        if len(self.messages) >= MOST:
            return False
        for _ in range(self.random.randint(1, 3)):
            body, source, key = self.body(), self.pick((None, "mail", "chat")), self.pick((None, f"key {self.bodies}"))
            id = str(self.producer.put(body.encode(), source=source, key=key))
            self.messages[body] = Message(id, Box.NEW, 0, source)
            if key is not None and self.chance(0.5):
                self.reached("put again with its key")
                assert self.producer.put(b"another", key=key) == id
        return True

    def consumer(self) -> Consumer:
        """Returns a consumer that claims: one of at most three, or a new one."""
        if not self.living() or (len(self.living()) < 3 and self.chance(0.2)):
            self.consumers.append(Consumer(self.opened))
        consumer: Consumer = self.pick(self.living())
        return consumer

    @rule(6)
    def end(self, which: tuple[Consumer, str] | None = None, how: str = "") -> bool:
        if not self.held():
            return False
        consumer, body = which or self.pick(self.held())
        how = how or self.pick(("ack", "ack", "release", "reject"))
        if how == "release" and body in self.messages and self.messages[body].attempts is None:
            how = "ack"  # a consumer counts the attempts of foreign messages by itself, up to the limit
        more = {"ack": (), "release": (self.pick((0, 0, 60)),), "reject": ("on purpose",)}[how]
        self.note(how, body)
        consumer.knows.discard(body)
        answer = consumer.ask(self.skew, how, body, *more)
        message = self.messages.get(body)
        if message is None or message.box is not Box.CUR or message.holder is not consumer:
            assert answer == "lost", "the end of a claim that was taken away says nothing"
            self.reached("ack of what was taken away")
            return True
        assert answer == "ok"
        if how == "ack":
            del self.messages[body]
        elif how == "reject":
            self.messages[body] = self.aside(message, Box.REJECTED)
        else:
            self.back(body, until=self.clock() + more[0] if more[0] else 0.0)
        return True

    @rule(5)
    def die(self, consumer: Consumer | None = None) -> bool:
        if not self.living():
            return False
        consumer = consumer or self.pick(self.living())
        consumer.die()
        self.died(consumer)
        return True

    def died(self, consumer: Consumer) -> None:
        """Does what a source needs to do when a consumer has died."""

    @rule(2)
    def recover(self) -> bool:
        if not self.living():
            return False
        ids = self.pick(self.living()).ask(self.skew, "recover")
        assert set(ids) == {self.messages[body].id for body in self.recovered() if self.messages[body].box is Box.NEW}
        return True

    def recovered(self) -> list[str]:
        """Gives back the claims of consumers that are dead, and returns them."""
        claims = [body for body in self.of(Box.CUR) if isinstance(self.messages[body].holder, Consumer)]
        dead = [body for body in claims if self.verdict(self.messages[body]) is Verdict.DEAD]
        for body in dead:
            self.back(body)
        return dead

    # Operators

    def key(self, item: Any) -> str:
        keys = {(box, path): body for body, (box, path, *_) in self.pins().items()}
        return keys[item.row.key[:2]]  # that of a claim in a stream goes on with its consumer and deliveries

    def state(self, key: str) -> Message | None:
        return self.messages.get(key)

    def choose(self) -> tuple[Action, Selection, bool]:
        """Draws an action, a selection that it is possible for, and whether it is forced."""
        action = self.pick((Action.REQUEUE, Action.REQUEUE, *self.SOURCES))
        box = self.pick((self.SOURCES[action][0], *self.SOURCES[action]))
        force, bodies = self.chance(0.5 if box is Box.CUR else 0.2), self.of(box)
        kind = self.random.randrange(7)
        if kind < 5 and action is Action.EMPTY:
            self.skew += 7200.0
            return action, Selection(box=box, filter="!nothing"), force
        if kind == 0 and bodies:
            ids = {self.messages[body].id for body in self.random.sample(bodies, min(len(bodies), 2))}
            return action, Selection(box=box, ids=(*sorted(ids), "nobody")), force
        if kind == 1 and box is Box.CUR:
            return action, Selection(box=box, verdict=self.pick((Verdict.DEAD, Verdict.ALIVE))), force
        if kind == 2:
            return action, Selection(box=box, filter="src:mail", everything=True), force
        if kind == 3:
            return action, Selection(box=box, source="chat", everything=True), force
        if kind == 4:
            return action, Selection(box=box, older_than=3600.0), force
        return action, Selection(box=box, everything=True), force

    def selected(self, action: Action, selection: Selection) -> set[str]:
        """The messages that a selection means, by the model."""
        defaults = action in (Action.PURGE, Action.EMPTY) and selection.ids is None and not selection.everything
        older = 3600.0 if defaults else selection.older_than
        source = "mail" if selection.filter == "src:mail" else selection.source
        return {
            body for body, one in self.messages.items()
            if one.box is selection.box and (selection.ids is None or one.id in selection.ids)
            and (source is None or one.source == source) and (selection.verdict in (None, self.verdict(one)))
            and (older is None or self.clock() - self.since(body) >= older)
        }  # fmt: skip

    def plan(self) -> tuple[Plan, dict[str, Move]] | None:
        """Plans a random action and compares items and refusals with the model."""
        action, selection, force = self.choose()
        options = self.asked(action)
        self.note(action, *selection.words(), selection.ids or "", "force" if force else "", *options)
        plan = self.make_plan(action, selection, force=force, **options)
        wanted = self.selected(action, selection)
        refused = {body for body in wanted if self.refused(plan, body)}
        pinned = self.pinned(plan)
        assert set(pinned) == wanted - refused, (pinned.keys() ^ (wanted - refused), plan.refused)
        assert {self.key(refusal) for refusal in plan.refused} == refused
        assert plan.missing == (("nobody",) if selection.ids else ())
        verdicts = {item.verdict for item in plan.items}
        for item, body in zip(plan.items, pinned, strict=True):
            expected = self.verdict(self.messages[body])
            assert item.box is Box.TMP or item.verdict is expected, (item, expected)
            if expected is Verdict.DEAD and isinstance(self.messages[body].holder, Consumer):
                self.reached("holder proven dead judged again")
        number = plan.deletes or not verdicts.isdisjoint({Verdict.ALIVE, Verdict.UNKNOWN}) or (force and action is Action.RESTORE)
        assert plan.confirm is (Confirm.NOTHING if not pinned else Confirm.NUMBER if number else
                                Confirm.LARGE if len(pinned) > 9 else Confirm.SMALL)  # fmt: skip
        if action is Action.EMPTY and not selection.everything and pinned:
            self.reached("trash expired")
        return (plan, pinned) if pinned else None

    @rule(2)
    def hold_of_held(self) -> bool:
        if not self.of(Box.HELD):
            return False
        self.reached("hold of held")
        id = self.messages[self.pick(self.of(Box.HELD))].id
        if any(one.id == id and one.box is not Box.HELD for one in self.messages.values()):
            return False
        plan = self.make_plan(Action.HOLD, Selection(ids=(id,)))
        assert (plan.count, plan.missing) == (0, (id,))
        try:
            self.make_plan(Action.HOLD, Selection(box=Box.HELD, everything=True))
        except Refused:
            return True
        raise AssertionError("what is held was held again")

    @rule(3)
    def inject(self) -> bool:
        if len(self.messages) >= MOST:
            return False
        count, before = self.random.randint(1, 3), self.pins()
        self.body()
        plan = self.make_plan(Action.INJECT, Selection(), count=count, text=f"injected {self.bodies} {{n}}")
        result = self.pick(self.operators).apply(plan)
        assert [item.outcome for item in result.items] == [Outcome.DONE] * count
        bodies = sorted(self.pins().keys() - before.keys())
        assert len(bodies) == count
        for body in bodies:
            [id] = [item.id for item in result.items if item.name == self.pins()[body][1]]
            self.messages[body] = Message(id, Box.NEW, 0)
        operation = Operation(plan.operation, Action.INJECT, {body: Move(None, None, self.pins()[body]) for body in bodies})
        self.operations.append(operation)
        self.check_listed(operation)
        return True

    def close(self) -> None:
        for consumer in self.living():
            consumer.die()
        super().close()
