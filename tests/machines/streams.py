"""State machine of a group of a stream on a real server: consumers in processes of their own, one of another program, two
operators behind a proxy that cuts, moves to a directory and back."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar
from unittest.mock import patch

from spooltop.engine import Spool
from spooltop.engine.arguments import MAX_ATTEMPTS
from spooltop.model.plan import Outcome, Plan
from spooltop.model.queue import Queue
from spooltop.model.vocabulary import ASIDE, Action, Box, Json, Verdict
from spooltop.queues import open_queue
from tests.builders import ROOT_STATE
from tests.cli.streams import spooltop
from tests.matrix.cutting_proxy import Cut, cutting_proxy
from tests.stream_builders import StreamWorld
from tests.stream_servers import KINDS, running

from .machine import Move, Operation, Pin, rule
from .messages import TARGETS, Consumer, Message, MessageMachine, differences

__all__ = ["StreamMachine"]

HANDED, LATER, STRANGER = "~spooltop", "~later", "stranger"
"""Consumers that are no programs: what was handed back, and what waits for its delay. A program that is not spooltop's."""
BACK, AGAIN, FINAL = "back", "again", "final"
"""Where a message goes that no box gets: back to the group, with its entry or as a new one; where no undo takes it from."""
POISON = 3
"""Deliveries from which on a message may be why its consumers die."""
SLACK = 40
"""Milliseconds by which two looks may differ in when a claim was delivered."""


class StreamMachine(MessageMachine):
    """Entries of a stream and of those beside it. In one machine of three another group reads the stream too."""

    SOURCES: ClassVar[Mapping[Action, tuple[Box, ...]]] = MessageMachine.SOURCES | {
        Action.REQUEUE: (Box.CUR, Box.REJECTED, Box.HELD, Box.NEW), Action.PURGE: (Box.CUR, Box.NEW, Box.REJECTED, Box.HELD),
    }  # fmt: skip
    RARE: ClassVar[tuple[str, ...]] = (
        *MessageMachine.RARE, "ack between plan and apply", "claimed by another between plan and apply", "connection cut",
        "copy refused for other groups", "delay ended", "entry gone while set aside", "held as poison", "idle for hours",
        "killed and its lease runs", "move cut off", "moved and back", "taken back as a copy",
        "undelivered refused for other groups", "unanswered",
    )  # fmt: skip
    SETTINGS: ClassVar[Mapping[str, str]] = {}
    CALLS: ClassVar[int] = 8
    LOOKS: ClassVar[bool] = False

    def prepare(self) -> None:
        super().prepare()
        self.stack = ExitStack()
        socket = self.stack.enter_context(running(self.pick(KINDS), self.base))
        self.proxy = self.stack.enter_context(cutting_proxy(self.base, socket))
        self.world = self.stack.enter_context(StreamWorld(self.base / "world", socket, self.proxy.path))
        self.root: Any = self.world.target
        self.producer = self.stack.enter_context(self.world.queue(durable=False))
        self.others = self.chance(0.35)
        if self.others:
            self.world.client.xgroup_create(self.world.stream, "others", "0")
        self.delivered: dict[tuple[str, str, int], int] = {}
        self.goals: dict[tuple[str, str], Box | str] = {}
        """Where each message of a plan goes."""

    def journal(self) -> Path | None:
        folders = [*Path(ROOT_STATE).glob(f"{self.world.group}-*"), self.base / "state"]
        return next((path for folder in folders for path in folder.rglob("messages.jsonl")), None)

    def opened(self, clock: Callable[[], float]) -> Queue:
        return self.world.queue(durable=False)

    # The census

    def pins(self) -> dict[str, Pin]:
        pins: dict[str, Pin] = {}
        for row in self.world.rows():
            assert row.content not in pins, f"{row.content} is in two places: {row.place} and {pins[row.content]}"
            box = Box.NEW if row.place in ("new", f"cur/{HANDED}", f"cur/{LATER}") else Box(row.place.partition("/")[0])
            known = self.delivered.get(at := (row.id, row.place, row.tries), row.delivered)
            self.delivered[at] = known if abs(known - row.delivered) <= SLACK else row.delivered
            pins[row.content] = (box, row.id, row.place, row.tries, self.delivered[at], row.known)
        return pins

    def check(self) -> None:
        found = {body: (place, known, tries) for body, (_, _, place, tries, _, known) in self.pins().items()}
        expected = {body: (self.place(one), one.id, one.attempts) for body, one in self.messages.items()}
        assert found == expected, differences(found, expected)
        entries = {id for id, _ in self.world.client.xrange(self.world.stream)}
        standing = {one.id for one in self.messages.values() if one.entry}
        assert standing <= entries and (self.others or standing == entries), f"left in the stream: {entries ^ standing}"

    @staticmethod
    def place(message: Message) -> str:
        if message.box in ASIDE:
            return str(message.box)
        holder = message.holder
        return "new" if holder is None else f"cur/{holder.token if isinstance(holder, Consumer) else holder}"

    def verdict(self, message: Message) -> Verdict | None:
        if message.box is not Box.CUR:
            return None
        if not isinstance(message.holder, Consumer):
            return Verdict.UNKNOWN
        return Verdict.ALIVE if self.is_leased(message.holder) else Verdict.DEAD

    def is_leased(self, consumer: Consumer) -> bool:
        return bool(self.world.client.exists(self.world.lease_key(consumer.token)))

    def since(self, body: str) -> float:
        box, id, _, _, delivered, _ = self.pins()[body]
        return (delivered if box is Box.CUR else int(id.partition("-")[0])) / 1000

    # Producers and consumers

    @rule(16)
    def claim(self) -> bool:
        self.end_delays()
        consumer = self.consumer()
        answer = consumer.ask(self.skew, "claim")
        [consumer.token] = self.names(consumer.pid)
        ready = [body for body in self.of(Box.NEW) if self.messages[body].holder != LATER]
        body = min(ready, key=self.order, default=None)
        if body is None:
            assert answer is None, f"{answer} was given out, and nothing waits"
            return True
        message = self.messages[body]
        self.messages[body] = replace(message, box=Box.CUR, attempts=(message.attempts or 0) + 1, holder=consumer)
        assert answer[:3] == [body, message.id, self.messages[body].attempts], (answer, body, message)
        consumer.knows.add(body)
        self.note(body)
        return True

    def order(self, body: str) -> tuple[int, ...]:
        """The place of what waits: first what was handed back, each by its id."""
        message = self.messages[body]
        return message.holder is None, *map(int, message.id.split("-"))

    def end_delays(self) -> None:
        """Maybe ends all delays, which the next claim sees."""
        for body in self.of(Box.NEW) if self.chance(0.3) else ():
            if self.messages[body].holder == LATER:
                self.world.client.zadd(self.world.key("later"), {self.messages[body].id: 1})
                self.messages[body] = replace(self.messages[body], holder=HANDED, until=0.0)
                self.reached("delay ended")

    def back(self, body: str, until: float = 0.0) -> None:
        message = self.messages[body]
        if (message.attempts or 0) >= MAX_ATTEMPTS:
            self.reached("attempts at the limit")
            self.messages[body] = self.aside(message, Box.REJECTED)
            return
        self.messages[body] = replace(message, box=Box.NEW, holder=LATER if until else HANDED, until=until)

    def aside(self, message: Message, box: Box, *, acked: bool = True) -> Message:
        """The message set aside: its entry goes where it was never delivered, or ``acked`` and no other group reads it."""
        if message.box in ASIDE:
            origins = (message.box,) if box is Box.TRASH else ()
            return replace(message, box=box, origins=origins)
        entry = message.holder is not None and (self.others or not acked)
        return replace(message, box=box, holder=None, entry=entry, origins=(), until=0.0)

    def died(self, consumer: Consumer) -> None:
        self.world.client.persist(self.world.lease_key(consumer.token))  # it runs until ``end_lease``

    @rule(10)
    def end_lease(self) -> bool:
        """The lease of a consumer that has died ends. What it held may have been delivered often."""
        dead = [one for one in self.consumers if not one.alive and self.is_leased(one)]
        if not dead:
            return False
        consumer, tries = self.pick(dead), self.pick((0, POISON, POISON, MAX_ATTEMPTS))
        self.world.client.delete(self.world.lease_key(consumer.token))
        for body, message in self.messages.items():
            if tries and message.holder is consumer:
                self.claimed(consumer.token, message, retrycount=tries, justid=True)
                self.messages[body] = replace(message, attempts=tries)
        return True

    def claimed(self, consumer: str, message: Message, **options: Any) -> None:
        self.world.client.xclaim(self.world.stream, self.world.group, consumer, 0, [message.id], **options)

    @rule(4)
    def stranger(self, body: str = "") -> bool:
        """A consumer of another program claims what others hold or wait for, acks, or seems to do nothing for hours."""
        bodies = [one for one in self.of(Box.CUR, Box.NEW) if self.messages[one].holder not in (None, LATER)]
        if not bodies:
            return False
        message = self.messages[body := body or self.pick(bodies)]
        if message.holder == STRANGER and self.chance(0.4):
            self.world.client.xack(self.world.stream, self.world.group, message.id)
            self.world.client.xdel(self.world.stream, "0-1" if self.others else message.id)
            del self.messages[body]
        elif message.holder == STRANGER and self.chance(0.4):
            self.claimed(STRANGER, message, idle=self.random.randint(2, 9) * 3_600_000, justid=True)
            self.reached("idle for hours")
        else:
            self.claimed(STRANGER, message)
            self.messages[body] = replace(message, box=Box.CUR, attempts=(message.attempts or 0) + 1, holder=STRANGER)
        return True

    @rule(3)
    def trim(self, body: str = "") -> bool:
        """Another program deletes the entry of a message that is set aside."""
        bodies = [one for one in self.of(*ASIDE) if self.messages[one].entry]
        if not bodies:
            return False
        body = body or self.pick(bodies)
        self.world.client.xdel(self.world.stream, self.messages[body].id)
        self.messages[body] = replace(self.messages[body], entry=False)
        self.reached("entry gone while set aside")
        return True

    @rule(1)
    def move(self) -> bool:
        """Moves what waits, and what the dead held, into a directory and back; maybe the first is cut off, and run again."""
        folder = self.base / f"moved {len(self.steps)}"
        Spool.create(folder, False).close()
        self.end_delays()
        dead = self.recovered()
        bodies = [body for body in self.of(Box.NEW) if self.messages[body].holder != LATER]
        if self.chance(0.4):
            self.proxy.arm(self.random.randint(4, 40), self.pick((Cut.BEFORE, Cut.AFTER)), away=self.chance(0.5))
            self.run_move(self.world.target, str(folder))
            if self.proxy.disarm():
                self.reached("move cut off")
        self.run_move(self.world.target, str(folder))
        with open_queue(str(folder)) as queue:
            assert queue.depth() == len(bodies), (bodies, dead)
        self.run_move(str(folder), self.world.target)
        for body in bodies:
            self.put_again(body)
        if bodies:
            self.reached("moved and back")
        return bool(bodies or dead)

    def run_move(self, source: str, target: str) -> None:
        with patch.object(time, "sleep", lambda seconds: None):
            done = spooltop("move", source, target, "--yes", "--no-durable", environ={})
        assert done.code in (0, 1, 4) or done.err.count("\n") == 1, done
        for mover in self.names(os.getpid()):  # one that was cut off has died
            self.world.client.delete(self.world.lease_key(mover))

    def names(self, pid: int) -> list[str]:
        """Names of the consumers of a process that hold leases."""
        return [name for name in self.world.client.hkeys(self.world.key("consumers")) if f"-{pid}-" in name]

    # Operators

    def asked(self, action: Action) -> dict[str, Json]:
        if action is Action.REQUEUE:
            return self.pick(({}, {}, {"copy": True}, {"hold_poison": True}, {"hold_poison": True}))
        return super().asked(action)

    def goal(self, plan: Plan, message: Message) -> Box | str:
        """Where a plan takes a message; not for an undo."""
        if plan.deletes:
            return FINAL
        if plan.action in TARGETS:
            return TARGETS[plan.action]
        if plan.action is Action.RESTORE and message.origins:
            return message.origins[-1]
        tries = message.attempts or 0
        if self.verdict(message) is Verdict.DEAD and tries >= POISON and plan.options.get("hold_poison"):
            return Box.HELD
        if self.verdict(message) is Verdict.DEAD and tries >= MAX_ATTEMPTS:
            return Box.REJECTED
        if not plan.options.get("copy") and message.box is not Box.NEW:
            return BACK
        return AGAIN if message.box in ASIDE else FINAL

    def refused(self, plan: Plan, body: str) -> bool:
        message = self.messages[body]
        if super().refused(plan, body):
            self.rare["killed and its lease runs"] += isinstance(message.holder, Consumer) and not message.holder.alive
            return True
        if message.box is Box.NEW and message.holder in (None, LATER) and plan.action is Action.REQUEUE:
            return True
        if message.box is Box.NEW and message.holder is None and self.others:
            self.reached("undelivered refused for other groups")
            return True
        copies = plan.action is Action.REQUEUE and self.goal(plan, message) is FINAL
        if copies and self.others and not plan.force:
            self.reached("copy refused for other groups")
        return copies and self.others and not plan.force

    def pinned(self, plan: Plan) -> dict[str, Move]:
        pinned = super().pinned(plan)
        if plan.undoes is None:
            self.goals |= {(plan.operation, body): self.goal(plan, self.messages[body]) for body in pinned}
        return pinned

    def outcomes(self, plan: Plan, key: str, pinned: Pin | None, pins: Mapping[str, Pin]) -> set[Outcome]:
        pin = pins.get(key)
        if pin is None or pinned is None or pin[:4] != pinned[:4]:
            return {Outcome.SKIPPED}
        undone = next((one for one in self.operations if one.id == plan.undoes), None)
        before = undone and (undone.announced | undone.moves)[key].before
        goal = self.goals[plan.operation, key] if undone is None else before.box if before and before.box in ASIDE else BACK
        message = self.messages[key]
        copies = message.box in ASIDE and (goal is AGAIN or (goal is BACK and not message.entry))
        if copies and self.others and not plan.force:
            return {Outcome.SKIPPED}
        if pin != pinned:  # delivered at another time: to ~spooltop, which an undo does not look at, or by XCLAIM … JUSTID
            return {Outcome.SKIPPED} | ({Outcome.DONE} if pin[0] is Box.NEW else set())
        return {Outcome.DONE}

    def put_through(self, action: Action, key: str, plan: Plan) -> None:
        message, goal = self.messages[key], self.goals[plan.operation, key]
        if plan.deletes:
            del self.messages[key]
        elif isinstance(goal, Box):
            if goal is not TARGETS.get(action) and message.box is Box.CUR:
                self.reached("held as poison" if goal is Box.HELD else "attempts at the limit")
            self.messages[key] = self.aside(message, goal, acked=goal is Box.TRASH)
        elif goal is not BACK or not message.entry:
            self.put_again(key)
        else:
            attempts = 0 if message.box is Box.REJECTED else message.attempts
            self.messages[key] = replace(message, box=Box.NEW, holder=HANDED, attempts=attempts, origins=(), until=0.0)

    def put_again(self, key: str) -> None:
        """A new entry has replaced the message: its id is adopted."""
        message, (_, id, *_) = self.messages[key], self.pins()[key]
        assert id != message.id
        self.messages[key] = Message(id, Box.NEW, 0, message.source)

    def restore(self, key: str, before: Message | None) -> None:
        message = self.messages[key]
        if before is None:  # of an injection
            self.messages[key] = self.aside(message, Box.TRASH)
        elif message.box in ASIDE and before.box in ASIDE:
            self.messages[key] = replace(before, entry=message.entry)
        elif message.box in ASIDE and not message.entry:
            self.put_again(key)
            self.reached("taken back as a copy")
        elif message.box in ASIDE:
            self.messages[key] = replace(before, box=Box.NEW, holder=HANDED, until=0.0)
        elif before.box in ASIDE:
            self.messages[key] = replace(
                self.aside(message, before.box, acked=before.box is Box.TRASH), attempts=before.attempts
            )
        else:
            self.messages[key] = before

    def same(self, operation: Operation, pin: Pin | None, after: Pin | None) -> bool | None:
        if pin is None or after is None or pin[:4] != after[:4]:
            return False
        if pin[0] is not Box.CUR or pin[4] == after[4]:
            return True
        return None if abs(pin[4] - after[4]) < 2 * SLACK else False

    def can_go_back(self, operation: Operation, key: str, pins: Mapping[str, Pin]) -> bool:
        before, message = operation.moves[key].before, self.messages.get(key)
        if message is None or self.goals.get((operation.id, key)) is FINAL:
            return False
        if message.box in ASIDE and before is not None and before.box not in ASIDE:
            return message.entry or not self.others
        if message.box is Box.NEW and message.holder is None:
            return not self.others
        if message.box is Box.NEW and before is not None and before.box is Box.CUR and not self.is_member(before):
            self.reached("holder forgotten before undo")
            return False
        return True

    def is_member(self, message: Message) -> bool:
        """Returns whether the group still knows the consumer that had the message."""
        members = self.world.client.xinfo_consumers(self.world.stream, self.world.group)
        return self.place(message).removeprefix("cur/") in {member["name"] for member in members}

    def plan_undo(self, operation: Operation) -> Plan | None:
        if self.chance(0.6):
            self.recover()
        return super().plan_undo(operation)

    def left(self, operation: Operation) -> bool:
        goals = {self.goals.get((operation.id, key)) for key in operation.moves.keys() | operation.announced.keys()}
        return not operation.undone and goals != {FINAL}

    @contextmanager
    def failing(self) -> Iterator[None]:
        """Has a file of the journal fail, or cuts the connection at a command: once, or from there on."""
        if self.chance(0.4):
            with super().failing():
                yield
            return
        away = self.chance(0.5)
        self.proxy.arm(self.random.randint(1, 6), self.pick(list(Cut)), away=away)
        try:
            with patch.object(time, "sleep", lambda seconds: None):
                yield
        finally:
            if self.proxy.disarm():
                self.reached("unanswered" if away else "connection cut")

    def happens(self, plan: Plan, key: str) -> None:
        message = self.messages[key]
        holder, way = message.holder, self.random.randrange(3)
        if way == 0 and plan.undoes is None:
            other = self.make_plan(plan.action, plan.selection, force=plan.force, **plan.options)
            self.apply(other, self.pinned(other))
            self.reached("two operators with one item")
        elif isinstance(holder, Consumer) and key in holder.knows and holder.alive and way == 1:
            self.end((holder, key), "ack")
            self.reached("ack between plan and apply")
        elif holder not in (None, LATER):
            self.stranger(key)
            self.reached("claimed by another between plan and apply")
        elif message.box is Box.NEW:
            self.claim()
        elif message.entry:
            self.trim(key)

    def close(self) -> None:
        super().close()
        self.stack.close()
