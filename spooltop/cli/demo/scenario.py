"""The process that starts the actors, kills some of them, and replaces those that died. It has no threads, so it may fork."""

from __future__ import annotations

import os
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from spooltop.engine import Spool, names
from spooltop.model.vocabulary import Box

from .actors import (
    CRASH_AGAIN,
    FIRST_CRASH,
    FIRST_LITTER,
    LAST_WORK,
    LITTER_AGAIN,
    MOST_DEAD,
    MOST_LITTER,
    NEWEST,
    NEXT_CRASH,
    NEXT_LITTER,
    POISON_AGAIN,
    RESTART,
    TICK,
    OpenQueue,
    dying_writer,
    holder,
    poison,
    poller_acts,
    row,
    slow_worker,
    slow_writer,
    waiter,
    worker,
)
from .process_group import Child, fork

WORKERS = ("worker-1.py", "worker-2.py")
_RECOVER_AGAIN = 0.05

Act = Callable[[Child], None]


class HeldMessage(NamedTuple):
    """A claim: its name, the process that holds it, and whether the message kills each of its consumers."""

    name: str
    pid: int
    poison: bool


class Scenario(ABC):
    """Running scenario on the queue that ``open_queue`` opens. ``running`` are the actors by pid, ``due`` the times
    (``time.monotonic``) at which they start again, ``dead`` the pids that ended with a claim. ``poison`` is the id of the message
    that kills each of its consumers. ``open_doomed`` opens the queue for a consumer whose death must be known soon."""

    def __init__(self, child: Child, open_queue: OpenQueue, open_doomed: OpenQueue | None = None) -> None:
        self.child = child
        self.open_queue = open_queue
        self._open_doomed = open_doomed or open_queue
        self.poison = ""
        self._poison_at = float("inf")
        self.running: dict[int, str] = {}
        self.due: dict[str, float] = {}
        self.dead: set[int] = set()
        self._counted: set[str] = set()

    def run(self, *, kept: bool) -> None:
        """Plays until the demo is over. ``kept``: consumers then give their claims back."""
        self.began = time.monotonic()
        self._crash_at = self.began + FIRST_CRASH
        self._acts = self.acts()
        self.before()
        self.due = dict.fromkeys(self._acts, self.began)
        while True:
            now = time.monotonic()
            self._reap(now)
            for title in [title for title, at in self.due.items() if at <= now]:
                del self.due[title]
                self.start(title, self._acts[title])
            self._casualties(now)
            self.further(now)
            if not self.child.wait(TICK):
                break
        self._end(gently=kept)

    @abstractmethod
    def acts(self) -> Mapping[str, Act]:
        """Returns the actors that always run, by the names of their processes."""

    def before(self) -> None:
        """Sets up the history of the queue: a message whose two earlier consumers were killed, and messages that wait."""
        with self.open_queue() as box:
            self.poison = box.put(poison(77119), source="teams")
            for _ in range(2):
                os.waitpid(fork(WORKERS[0], self._die_with_it), 0)
                while not box.recover() and self.child.wait(_RECOVER_AGAIN):
                    continue
            for source in ("email", "signal"):
                newest = NEWEST[source]
                box.put_many([row(source, newest - back) for back in range(6)], source=source)

    def _die_with_it(self) -> None:
        with self._open_doomed() as box:
            claim = box.claim()  # kept: one that is dropped goes back by itself
            assert claim is not None
            os.kill(os.getpid(), signal.SIGKILL)

    @abstractmethod
    def held(self) -> Sequence[HeldMessage]:
        """Lists the claims."""

    @abstractmethod
    def is_held(self, name: str) -> bool:
        """True while this claim stands."""

    @abstractmethod
    def poison_box(self) -> Box | None:
        """Returns ``NEW`` or ``CUR`` if the message that kills each of its consumers is there."""

    def _poison_waits(self, now: float) -> bool:
        """True if that message waits. If it is nowhere, it is put again after a while."""
        box = self.poison_box()
        if box is not None:
            self._poison_at = now + POISON_AGAIN
        elif now >= self._poison_at:
            with self.open_queue() as queue:
                self.poison = queue.put(poison(77119), source="teams")
            return True
        return box is Box.NEW

    def further(self, now: float) -> None:
        """Does what else happens now and then."""
        return

    def start(self, title: str, act: Act) -> int:
        """Starts an actor and returns its pid."""
        pid = fork(title, lambda: act(self.child))
        self.dead.discard(pid)  # the number is used again
        self.running[pid] = title
        return pid

    def _reap(self, now: float) -> None:
        while self.running:
            pid, _ = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            title = self.running.pop(pid)
            self.dead.add(pid)
            if title in self._acts:
                self.due[title] = now + RESTART

    def _casualties(self, now: float) -> None:
        claims = self.held()
        self.dead.intersection_update(claim.pid for claim in claims)
        self._count({claim.name for claim in claims if claim.pid in self.dead})
        if not self._counted:
            self._crash_at = min(self._crash_at, now + CRASH_AGAIN)
        poisoned = any(claim.poison for claim in claims if claim.pid not in self.dead) or self._poison_waits(now)
        if now < self._crash_at or len(self._counted) + poisoned >= MOST_DEAD:
            return
        for claim in claims:
            if self.running.get(claim.pid) in WORKERS and not claim.poison:
                self._crash(claim, now)
                return

    def _count(self, gone: set[str]) -> None:
        for _ in gone - self._counted:
            self.child.report()
        self._counted = gone

    def _crash(self, claim: HeldMessage, now: float) -> None:
        """Kills a worker. A claim that it still held is counted at once, before anybody can put it back."""
        os.kill(claim.pid, signal.SIGKILL)
        os.waitid(os.P_PID, claim.pid, os.WEXITED | os.WNOWAIT)
        if self.is_held(claim.name):
            self._count(self._counted | {claim.name})
            self._crash_at = now + NEXT_CRASH
        self._reap(now)

    def _end(self, *, gently: bool) -> None:
        """Waits for the actors, which have all read the end of the demo from the lifeline. If the queue is not kept, they are
        killed at once, as their work is not needed."""
        end = time.monotonic() + (LAST_WORK if gently else 0.0)
        while self.running:
            if time.monotonic() >= end:
                for pid in self.running:
                    os.kill(pid, signal.SIGKILL)
            pid, _ = os.waitpid(-1, os.WNOHANG if time.monotonic() < end else 0)
            if pid:
                del self.running[pid]
            else:
                time.sleep(0.02)


# The scenario in a directory: producers with cursors, consumers, writers that die, and programs that share a lock.

LITTERER = "fetch_mail.py"


def play_on_spool(spool: str, *, kept: bool) -> Act:
    """Runs the whole demo on ``spool`` until it is over. ``kept``: consumers then give their claims back."""
    return lambda child: SpoolScenario(child, spool).run(kept=kept)


class SpoolScenario(Scenario):
    """Scenario on the directory ``spool``."""

    def __init__(self, child: Child, spool: str) -> None:
        super().__init__(child, partial(Spool, spool, durable=False))
        self.spool = spool
        self._litterers: set[int] = set()

    def acts(self) -> Mapping[str, Act]:
        self._litter_at = self.began + FIRST_LITTER
        queue = self.open_queue
        return {
            **poller_acts(self.spool, self.began),
            WORKERS[0]: worker(queue, 0.4, 0.8),
            WORKERS[1]: worker(queue, 0.3, 0.6),
            "indexer.py": slow_worker(queue),
            "export_mail.py": slow_writer(self.spool),
            "import.py": holder(self.spool),
            "backup.py": waiter(self.spool),
        }

    def held(self) -> Sequence[HeldMessage]:
        claims = [names.parse(name, claimed=True) for name in os.listdir(os.path.join(self.spool, "cur"))]
        return [HeldMessage(one.raw, one.pid, one.id == self.poison) for one in claims if one.pid is not None]

    def is_held(self, name: str) -> bool:
        return os.path.lexists(os.path.join(self.spool, "cur", name))

    def poison_box(self) -> Box | None:
        for box in (Box.NEW, Box.CUR):
            if any(raw.startswith(self.poison) for raw in os.listdir(os.path.join(self.spool, box))):
                return box
        return None

    def further(self, now: float) -> None:
        files = os.listdir(os.path.join(self.spool, "tmp"))
        writing = {pid for pid, title in self.running.items() if title == LITTERER}
        left = sum(pid in writing or any(f".P{pid}R" in raw for raw in files) for pid in self._litterers)
        if not left:
            self._litter_at = min(self._litter_at, now + LITTER_AGAIN)
        if now < self._litter_at:
            return
        self._litter_at = now + NEXT_LITTER
        if left < MOST_LITTER:
            self._litterers.add(self.start(LITTERER, dying_writer(self.spool)))
