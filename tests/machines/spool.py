"""State machine of a directory spool: consumers in processes of their own, two operators, pauses, a clock that jumps."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from spooltop.engine import Spool, names
from spooltop.engine.arguments import MAX_ATTEMPTS
from spooltop.model.plan import Outcome, Plan, Selection
from spooltop.model.vocabulary import ASIDE, LIVE, Action, Box, Verdict

from .machine import Operation, Pin, rule
from .messages import MOST, TARGETS, Consumer, Message, MessageMachine, differences

__all__ = ["SpoolMachine"]

FOREIGN = ("job", "job2")
GONE = (1 << 22) - 1
"""A pid that no process has."""
FORGED = (
    b"null", b"[" * 2000, b'{"schema":1}', b'{"schema":1,"line":"intent","operation":"../../x","action":"purge","first":0}',
    b'{"schema":1,"line":"result","operation":"ffffffffff","first":0,"outcomes":{}}',
)  # fmt: skip
SLACK = 500_000_000
"""Nanoseconds within which a message that left and came back may count as one that stayed."""


class SpoolMachine(MessageMachine):
    """Files in the boxes and beside them."""

    RARE: ClassVar[tuple[str, ...]] = (
        *MessageMachine.RARE, "ack meets requeue between plan and apply", "claimed again between plan and apply",
        "undo after a new claim", "same id again before undo", "holder dies between plan and apply", "release into a taken name",
        "pause while working", "operation lost with its line", "file replaced under its name",
        "undo takes nothing from a living holder",
    )  # fmt: skip

    def prepare(self) -> None:
        super().prepare()
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
        assert found == expected, differences(found, expected)

    def opened(self, clock: Callable[[], float]) -> Spool:
        return Spool(self.root, False, clock=clock)

    def path(self, body: str) -> Path:
        box, path, *_ = self.pins()[body]
        return (self.root / box if box in LIVE else self.root / ".spooltop" / box) / path

    def verdict(self, message: Message) -> Verdict | None:
        if message.box is Box.TMP:
            return Verdict.UNKNOWN
        if message.box is not Box.CUR:
            return None
        if isinstance(message.holder, Consumer):
            return Verdict.ALIVE if message.holder.alive else Verdict.DEAD
        return Verdict.DEAD

    # Producers and consumers

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

    @rule(10)
    def claim(self) -> bool:
        if self.paused:
            return self.claim_paused()
        consumer = self.consumer()
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
        consumer = Consumer(self.opened)
        assert consumer.ask(self.skew, "claim") is None, "claimed from a paused spool"
        consumer.die()
        if self.held():
            self.reached("pause while working")
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
        undone = next((one for one in self.operations if one.id == plan.undoes), None)
        if undone is not None and self.is_forgotten((undone.announced | undone.moves)[key].source):
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
        return not self.is_forgotten(source) and all(pin[:2] != source[:2] for body, pin in pins.items() if body != key)

    def is_forgotten(self, source: Pin | None) -> bool:
        """Returns whether a claim was that of a consumer whose presence file has gone."""
        token = names.parse(source[1], claimed=True).token if source is not None and source[0] is Box.CUR else None
        forgotten = token is not None and not (self.root / ".spooltop" / "consumers" / token).exists()
        self.rare["holder forgotten before undo"] += forgotten
        return forgotten

    def has_left(self, before: Pin | None, now: Pin | None) -> bool:
        return before is not None and (now is None or before[:2] != now[:2])

    def since(self, body: str) -> float:
        message, path = self.messages[body], self.path(body)
        name, status = names.parse(path.name, claimed=message.box is not Box.NEW), path.stat()
        if message.box in ASIDE:
            return message.since
        if message.box is Box.CUR:
            return name.claimed_us / 1e6 if name.claimed_us else status.st_ctime
        return status.st_ctime if message.attempts else name.enqueued_us / 1e6 if name.enqueued_us else status.st_mtime

    def refused(self, plan: Plan, body: str) -> bool:
        message, action = self.messages[body], plan.action
        if super().refused(plan, body):
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
        self.producer.close()
        super().close()
