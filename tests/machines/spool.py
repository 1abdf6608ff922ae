"""State machine of a directory spool: consumers in processes of their own, two operators, pauses, a clock that jumps."""

from __future__ import annotations

import json
import os
import signal
import time
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from spooltop.engine import Spool, names
from spooltop.engine.limits import MAX_ATTEMPTS
from spooltop.errors import ClaimLost, Refused
from spooltop.model.filters.selection import Selection
from spooltop.model.operations.plan import Confirm, Outcome, Plan
from spooltop.model.vocabulary import ASIDE, LIVE, Action, Box, Verdict

from .machine import Machine, Move, Operation, Pin, rule

__all__ = ["SpoolMachine"]

SOURCES: Mapping[Action, tuple[Box, ...]] = {
    Action.REQUEUE: (Box.CUR, Box.REJECTED, Box.HELD),
    Action.PURGE: (Box.CUR, Box.NEW, Box.TMP, Box.REJECTED, Box.HELD),
    Action.HOLD: (Box.CUR, Box.NEW),
    Action.RELEASE: (Box.HELD,),
    Action.RESTORE: (Box.TRASH, Box.HELD, Box.REJECTED),
    Action.EMPTY: (Box.TRASH,),
}
FOREIGN = ("job", "job2")
GONE = (1 << 22) - 1
"""A pid that no process has."""
FORGED = (
    b"null", b"[" * 2000, b'{"schema":1}', b'{"schema":1,"line":"intent","operation":"../../x","action":"purge","batch":0}',
    b'{"schema":1,"line":"result","operation":"ffffffffff","batch":0,"outcomes":{}}',
)  # fmt: skip
TARGETS = {Action.PURGE: Box.TRASH, Action.HOLD: Box.HELD}
SLACK = 500_000_000
"""Nanoseconds within which a message that left and came back may count as one that stayed."""
MOST = 14
"""Messages above which no more are put."""


class Consumer:
    """A consumer in a process of its own that obeys one command a line. ``knows`` are the messages that it believes to hold."""

    def __init__(self, root: str) -> None:
        commands, self._commands = os.pipe()
        self._answers, answers = os.pipe()
        self.alive = True
        self.knows: set[str] = set()
        self.token = ""
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.close(self._commands), os.close(self._answers)
                self._obey(root, os.fdopen(commands), answers)
            finally:
                os._exit(1)
        os.close(commands), os.close(answers)
        self._read = os.fdopen(self._answers)

    @staticmethod
    def _obey(root: str, commands: Iterator[str], answers: int) -> None:
        skew = 0.0
        warnings.simplefilter("ignore", ResourceWarning)
        spool = Spool(root, False, clock=lambda: time.time() + skew)
        claims: dict[str, Any] = {}
        for line in commands:
            skew, command, body, more = json.loads(line)
            answer: Any = "ok"
            try:
                if command == "claim":
                    claim = spool.claim()
                    answer = claim and [claim.data.decode(), claim.id, claim.attempt, claim.token]
                    if claim is not None:
                        claims[claim.data.decode()] = claim
                elif command == "recover":
                    answer = spool.recover()
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
    """Expected state: ``attempts`` is None for a foreign message; ``holder`` of a claim is a consumer, or the pid in a foreign
    name; ``origins`` are the boxes from which it was set aside, the last one on top."""

    id: str
    box: Box
    attempts: int | None
    source: str | None = None
    holder: Consumer | int | None = None
    origins: tuple[Box, ...] = ()
    until: float = 0.0
    since: float = 0.0
    """Time at which it was set aside."""


class SpoolMachine(Machine):
    """Messages by their bodies, which are never put twice."""

    RARE: ClassVar[tuple[str, ...]] = (
        *Machine.RARE, "undo of part", "undo of an undo", "ack meets requeue between plan and apply",
        "claimed again between plan and apply", "undo after a new claim", "same id again before undo",
        "two operators with one item", "holder dies between plan and apply", "ack of what was taken away",
        "holder proven dead judged again", "trash expired", "hold of held", "release into a taken name",
        "attempts at the limit", "pause while working", "operation lost with its line", "file replaced under its name",
        "living holder refused", "claim taken by force", "holder forgotten before undo",
        "undo takes nothing from a living holder",
    )  # fmt: skip

    def prepare(self) -> None:
        self.messages: dict[str, Message] = {}
        self.consumers: list[Consumer] = []
        self.bodies = 0
        self.producer = Spool.create(self.root, False, clock=self.clock)
        self.paused = False

    # The census

    def pins(self) -> dict[str, Pin]:
        pins: dict[str, Pin] = {}
        folders = [(box, self.root / box) for box in LIVE]
        folders += [(box, path) for box in ASIDE for path in (self.root / ".spooltop" / box).glob("*") if path.is_dir()]
        for box, folder in folders:
            for entry in os.scandir(folder):
                if entry.name.startswith("."):
                    continue
                with open(entry.path) as file:
                    body = file.read()
                status = entry.stat(follow_symlinks=False)
                assert body not in pins, f"{body} is in two places: {entry.path} and {pins[body]}"
                path = os.path.relpath(entry.path, folder if box in LIVE else folder.parent)
                pins[body] = (box, path, status.st_ino, status.st_ctime_ns)
        return pins

    def check(self) -> None:
        pins = self.pins()
        found = {}
        for body, (box, path, *_) in pins.items():
            name = names.parse(os.path.basename(path), claimed=box is not Box.NEW)
            found[body] = (name.id if box is not Box.TMP else "", box, name.attempts if name.own else None)
        expected = {
            body: (one.id if one.box is not Box.TMP else "", one.box, one.attempts) for body, one in self.messages.items()
        }
        assert found == expected, {
            body: (found.get(body), expected.get(body)) for body in found.keys() | expected.keys()
            if found.get(body) != expected.get(body)
        }  # fmt: skip

    def path(self, body: str) -> Path:
        box, path, *_ = self.pins()[body]
        return (self.root / box if box in LIVE else self.root / ".spooltop" / box) / path

    def of(self, *boxes: Box) -> list[str]:
        return [body for body, one in self.messages.items() if one.box in boxes]

    def verdict(self, message: Message) -> Verdict | None:
        if message.box is Box.TMP:
            return Verdict.UNKNOWN
        if message.box is not Box.CUR:
            return None
        if isinstance(message.holder, Consumer):
            return Verdict.ALIVE if message.holder.alive else Verdict.DEAD
        return Verdict.DEAD

    # Producers and consumers

    def body(self) -> str:
        self.bodies += 1
        return f"message {self.bodies}"

    @rule(10)
    def put(self) -> bool:
        if len(self.messages) >= MOST:
            return False
        for _ in range(self.random.randint(1, 3)):
            body, source = self.body(), self.pick((None, "mail", "chat"))
            self.messages[body] = Message(self.producer.put(body.encode(), source=source), Box.NEW, 0, source)
        return True

    @rule(6)
    def put_tried_often(self) -> bool:
        """A message near the limit of attempts."""
        if len(self.messages) >= MOST:
            return False
        body, attempts = self.body(), MAX_ATTEMPTS - self.random.randint(1, 2)
        id = self.producer.put(body.encode())
        new = self.root / "new"
        [name] = [name for name in os.listdir(new) if name.startswith(id)]
        os.rename(new / name, new / f"{id},n={attempts}")
        self.messages[body] = Message(id, Box.NEW, attempts)
        return True

    @rule(9)
    def put_foreign(self) -> bool:
        """A message of another program, whose names come again."""
        held = [self.messages[body].id for body in self.of(Box.HELD) if self.messages[body].attempts is None]
        id = self.pick(held or ("job", "job2"))
        if len(self.messages) >= MOST or any(one.id == id and one.box in (Box.NEW, Box.CUR) for one in self.messages.values()):
            return False
        body = self.body()
        if self.chance(0.3):
            self.write(f"cur/{id}:2,P{GONE}", body)
            self.messages[body] = Message(id, Box.CUR, None, holder=GONE)
        else:
            self.write(f"new/{id}", body)
            self.messages[body] = Message(id, Box.NEW, None)
        if any(move.before and move.before.id == id for one in self.operations for move in one.moves.values()):
            self.reached("same id again before undo")
        return True

    def write(self, name: str, body: str) -> None:
        (self.base / "draft").write_text(body)
        os.rename(self.base / "draft", self.root / name)

    def living(self) -> list[Consumer]:
        return [one for one in self.consumers if one.alive]

    def held(self) -> list[tuple[Consumer, str]]:
        return [(one, body) for one in self.living() for body in sorted(one.knows)]

    @rule(10)
    def claim(self) -> bool:
        if self.paused:
            return self.claim_paused()
        if not self.living() or (len(self.living()) < 3 and self.chance(0.2)):
            self.consumers.append(Consumer(str(self.root)))
        consumer = self.pick(self.living())
        answer = consumer.ask(self.skew, "claim")
        waiting = self.of(Box.NEW)
        if answer is None:
            assert all(self.messages[body].until > self.clock() for body in waiting), "a message that waits is not given out"
            return True
        body, id, attempt, consumer.token = answer
        message = self.messages[body]
        assert (body in waiting, id) == (True, message.id)
        assert attempt == (message.attempts or 0) + 1 or (message.attempts is None and attempt > 1), (attempt, message)
        consumer.knows.add(body)
        self.messages[body] = replace(message, box=Box.CUR, holder=consumer, until=0.0)
        self.note(body)
        return True

    def claim_paused(self) -> bool:
        """A consumer that comes to a paused spool gets nothing; one that was there looks only four times a second."""
        consumer = Consumer(str(self.root))
        assert consumer.ask(self.skew, "claim") is None, "claimed from a paused spool"
        consumer.die()
        if self.held():
            self.reached("pause while working")
        return True

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

    def aside(self, message: Message, box: Box) -> Message:
        origins = (*message.origins, message.box) if message.box in ASIDE else (message.box,)
        return replace(message, box=box, origins=origins, since=self.clock())

    @staticmethod
    def next_attempt(message: Message) -> int | None:
        """The attempts of a claim that is given back; those of a foreign message are not counted."""
        return None if message.attempts is None else message.attempts + 1

    def back(self, body: str, until: float = 0.0) -> None:
        """Gives a claim back: to ``new`` with an attempt more, or at the limit to ``rejected``."""
        message = self.messages[body]
        attempts = self.next_attempt(message)
        if attempts is not None and attempts >= MAX_ATTEMPTS:
            self.messages[body] = self.aside(message, Box.REJECTED)
            self.reached("attempts at the limit")
            return
        self.messages[body] = replace(message, box=Box.NEW, attempts=attempts, holder=None, until=until)

    @rule(5)
    def die(self, consumer: Consumer | None = None) -> bool:
        if not self.living():
            return False
        (consumer or self.pick(self.living())).die()
        return True

    @rule(2)
    def recover(self) -> bool:
        if not self.living():
            return False
        dead = [body for body in self.of(Box.CUR) if isinstance(one := self.messages[body].holder, Consumer) and not one.alive]
        ids = set(self.pick(self.living()).ask(self.skew, "recover"))
        for body in dead:
            self.back(body)
        assert ids == {self.messages[body].id for body in dead if self.messages[body].box is Box.NEW}
        return True

    @rule(2)
    def foreign_acts(self) -> bool:
        """A consumer of another program claims or acknowledges."""
        bodies = [body for body in self.of(Box.NEW, Box.CUR) if self.messages[body].attempts is None]
        if not bodies:
            return False
        body = self.pick(bodies)
        path = self.path(body)
        if self.messages[body].box is Box.CUR:
            os.unlink(path)
            del self.messages[body]
        else:
            claim = self.root / "cur" / f"{self.messages[body].id}:2,P{GONE}"
            if claim.exists():
                return False
            os.rename(path, claim)
            self.messages[body] = replace(self.messages[body], box=Box.CUR, holder=GONE)
        return True

    @rule(2)
    def jump(self) -> None:
        self.skew += self.pick((-7200.0, 61.0, 7200.0, 86400.0))

    @rule(2)
    def replace_file(self, body: str = "") -> bool:
        """Another file comes under the name of a message: its content is another message with that id."""
        bodies = [body for body in self.of(Box.NEW, Box.HELD, Box.TRASH) if not body.startswith("injected")]
        if not bodies:
            return False
        body = body or self.pick(bodies)
        path, other = self.path(body), self.body()
        (self.base / "draft").write_text(other)
        os.replace(self.base / "draft", path)
        self.messages[other] = self.messages.pop(body)
        self.reached("file replaced under its name")
        return True

    # Operators

    def key(self, item: Any) -> str:
        keys = {(box, path): body for body, (box, path, *_) in self.pins().items()}
        return keys[item.row.key]

    def state(self, key: str) -> Message | None:
        return self.messages.get(key)

    def restore(self, key: str, before: Message | None) -> None:
        if before is None:  # of an injection
            self.messages[key] = self.aside(self.messages[key], Box.TRASH)
        else:
            self.messages[key] = before

    def put_through(self, action: Action, key: str, plan: Plan) -> None:
        message = self.messages[key]
        if plan.deletes:
            del self.messages[key]
        elif action in TARGETS:
            self.messages[key] = self.aside(message, TARGETS[action])
        elif message.box is Box.CUR:
            self.back(key)
        else:
            self.messages[key] = self.taken_out(action, message)

    def taken_out(self, action: Action, message: Message) -> Message:
        """The state of a message that was set aside once it is requeued, released or restored."""
        *origins, origin = message.origins
        if action is Action.RESTORE and (origin is Box.TMP or (message.box is Box.TRASH and origin in ASIDE)):
            return replace(message, box=origin, origins=tuple(origins))
        attempts = message.attempts
        if message.box is Box.REJECTED and attempts is not None:
            attempts = 0
        elif origin is Box.CUR:
            attempts = self.next_attempt(message)
        return replace(message, box=Box.NEW, origins=(), attempts=attempts, holder=None)

    def outcomes(self, plan: Plan, key: str, pinned: Pin | None, pins: Mapping[str, Pin]) -> set[Outcome]:
        if pins.get(key) != pinned:
            return {Outcome.SKIPPED}
        message = self.messages[key]
        rivals = [one for body, one in self.messages.items() if body != key and one.id == message.id and one.id in FOREIGN]
        return {Outcome.DONE, Outcome.FAILED} if rivals else {Outcome.DONE}

    def same(self, operation: Operation, pin: Pin | None, after: Pin | None) -> bool | None:
        if pin is None or after is None or pin[:3] != after[:3]:
            return False
        if pin[0] in ASIDE or pin[3] == after[3]:
            return True
        return None if operation.action is Action.INJECT or pin[3] - after[3] < SLACK else False

    def can_go_back(self, operation: Operation, key: str, pins: Mapping[str, Pin]) -> bool:
        source, message = operation.moves[key].source, self.messages.get(key)
        if message is not None and self.verdict(message) is Verdict.ALIVE:
            if self.same(operation, pins[key], operation.moves[key].after):
                self.reached("undo takes nothing from a living holder")
            return False
        if source is None:
            return True
        box, path, *_ = source
        token = names.parse(path, claimed=True).token if box is Box.CUR else None
        if token is not None and not (self.root / ".spooltop" / "consumers" / token).exists():
            self.reached("holder forgotten before undo")
            return False
        return all((pin[0], pin[1]) != (box, path) for body, pin in pins.items() if body != key)

    def has_left(self, before: Pin | None, now: Pin | None) -> bool:
        return before is not None and (now is None or before[:2] != now[:2])

    def choose(self) -> tuple[Action, Selection, bool]:
        """Draws an action, a selection that it is possible for, and whether it is forced."""
        action = self.pick((Action.REQUEUE, Action.REQUEUE, *SOURCES))
        box = self.pick((SOURCES[action][0], *SOURCES[action]))
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

    def since(self, body: str) -> float:
        """Returns the time at which a message came into its box, as far as its file and its name tell."""
        message, path = self.messages[body], self.path(body)
        name, status = names.parse(path.name, claimed=message.box is not Box.NEW), path.stat()
        if message.box in ASIDE:
            return message.since
        if message.box is Box.CUR:
            return name.claimed_us / 1e6 if name.claimed_us else status.st_ctime
        return status.st_ctime if message.attempts else name.enqueued_us / 1e6 if name.enqueued_us else status.st_mtime

    def refused(self, action: Action, body: str, *, force: bool) -> bool:
        """Returns whether a plan must refuse the message, by the model."""
        message = self.messages[body]
        if self.verdict(message) is Verdict.ALIVE:
            forced = force and action in (Action.REQUEUE, Action.HOLD)
            self.reached("claim taken by force" if forced else "living holder refused")
            if not forced:
                return True
        twins = {one.box for other, one in self.messages.items() if other != body and one.id == message.id}
        rejects = message.box is Box.CUR and (self.next_attempt(message) or 0) >= MAX_ATTEMPTS
        to_new = action in (Action.REQUEUE, Action.RELEASE) and not rejects
        if action is Action.RESTORE:
            to_new = self.taken_out(action, message).box is Box.NEW
        if to_new and Box.NEW in twins:
            self.reached("release into a taken name")
            return True
        return message.box is Box.CUR and Box.CUR in twins

    def plan(self) -> tuple[Plan, dict[str, Move]] | None:
        """Plans a random action and compares items and refusals with the model."""
        action, selection, force = self.choose()
        now = action is Action.PURGE and self.chance(0.1)
        self.note(action, *selection.words(), selection.ids or "", "force" if force else "")
        plan = self.make_plan(action, selection, force=force, **({"now": True} if now else {}))
        wanted = self.selected(action, selection)
        refused = {body for body in wanted if self.refused(action, body, force=force)}
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

    def happens(self, plan: Plan, body: str) -> None:
        """Something happens to one item between plan and apply."""
        message = self.messages[body]
        holder = message.holder if message.box is Box.CUR else None
        if isinstance(holder, Consumer) and holder.alive:
            if self.chance(0.6) and body in holder.knows:
                self.end((holder, body), "ack")
                self.reached("ack meets requeue between plan and apply")
            else:
                self.die(holder)
                self.reached("holder dies between plan and apply")
        elif message.box is Box.CUR and self.chance(0.7):
            other = self.make_plan(Action.REQUEUE, Selection(box=Box.CUR, ids=(message.id,)))
            if other.items:
                self.apply(other, self.pinned(other))
                self.reached("two operators with one item")
                if self.claim() and self.messages[body].box is Box.CUR:
                    self.reached("claimed again between plan and apply")
        elif message.box in ASIDE and self.chance(0.5):
            self.replace_file(body)
        elif message.box is Box.NEW:
            self.claim()
        else:
            self.put_foreign()

    def plan_undo(self, operation: Operation) -> Plan | None:
        new = [body for body in operation.moves if body in self.messages and self.messages[body].box is Box.NEW]
        if new and self.chance(0.3) and self.claim() and any(self.messages[body].box is Box.CUR for body in new):
            self.reached("undo after a new claim")
        return super().plan_undo(operation)

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
        bodies = [self.body() for _ in range(count)]
        (self.base / "text").write_text(bodies[0])
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

    @rule(2)
    def pause(self) -> None:
        plan = self.make_plan(Action.PAUSE, Selection(), reason="maintenance")
        assert bool(plan.items) != self.paused
        if self.paused:
            plan = self.make_plan(Action.RESUME, Selection())
        result = self.pick(self.operators).apply(plan)
        assert [item.outcome for item in result.items] == [Outcome.DONE]
        self.paused = not self.paused
        if self.chance(0.3):
            undo = self.make_plan(Action.UNDO, Selection(), undoes=plan.operation)
            assert self.pick(self.operators).apply(undo).count(Outcome.DONE) == 1
            self.paused = not self.paused
        if self.paused and self.chance(0.5):
            self.claim_paused()

    # The journal

    @rule(2)
    def lose_line(self) -> bool:
        """The intent of an operation becomes unreadable."""
        journal = self.root / self.JOURNAL
        if not self.operations or not journal.exists():
            return False
        operation = self.pick(self.operations[-6:])
        data = journal.read_bytes()
        lines = [line for line in data.splitlines() if b'"intent"' in line and f'"operation":"{operation.id}"'.encode() in line]
        if operation.undoes is not None or operation.last_undo is not None or len(lines) != 1:
            return False
        with open(journal, "r+b") as file:
            file.seek(data.index(lines[0]))
            file.write(b"{" * len(lines[0]))
        operation.forgotten = True
        self.check_listed(operation)
        return True

    @rule(2)
    def forge_line(self) -> bool:
        """Somebody writes nonsense at the end of the journal, which changes nothing in the list."""
        journal = self.root / self.JOURNAL
        if not journal.exists():
            return False
        data = journal.read_bytes()
        line = self.pick(FORGED)
        before = self.operators[0].operations()
        with open(journal, "r+b") as file:
            file.seek(len(data.rstrip(b"\0")))
            file.write(line + b"\n")
        assert self.operators[0].operations() == before
        return True

    def close(self) -> None:
        for consumer in self.living():
            consumer.die()
        self.producer.close()
        super().close()
