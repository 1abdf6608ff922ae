"""The process that starts the actors, kills some of them, and replaces those that died. It has no threads, so it may fork."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from spooltop.engine import Spool, names

from . import consumers, lockers, pollers, sample_messages, speed, writers
from .process_group import Child, fork

__all__ = ["Scenario", "play"]

WORKERS = ("worker-1.py", "worker-2.py")
CONSUMERS = (*WORKERS, "indexer.py")
LITTERER = "fetch_mail.py"

Act = Callable[[Child], None]


def play(spool: str, *, kept: bool) -> Act:
    """Runs the whole demo on ``spool`` until it is over. ``kept``: consumers then give their claims back."""
    return lambda child: Scenario(child, spool).run(kept=kept)


@dataclass
class Scenario:
    """Running scenario. ``running`` are the actors by pid, ``due`` the times (``time.monotonic``) at which they start again,
    ``dead`` the pids that ended with a claim, ``poison`` is the id of the message that kills each of its consumers."""

    child: Child
    spool: str
    running: dict[int, str] = field(default_factory=dict)
    due: dict[str, float] = field(default_factory=dict)
    dead: set[int] = field(default_factory=set)
    poison: str = ""

    def run(self, *, kept: bool) -> None:
        self.began = time.monotonic()
        self._counted: set[str] = set()
        self._crash_at = self.began + speed.FIRST_CRASH
        self._litterers: set[int] = set()
        self._litter_at = self.began + speed.FIRST_LITTER
        self._poison_at = float("inf")
        self._acts: dict[str, Act] = {
            **pollers.pollers(self.spool, self.began),
            WORKERS[0]: consumers.worker(self.spool, 0.4, 0.8),
            WORKERS[1]: consumers.worker(self.spool, 0.3, 0.6),
            "indexer.py": consumers.slow(self.spool),
            "export_mail.py": writers.slow(self.spool),
            "import.py": lockers.holder(self.spool),
            "backup.py": lockers.waiter(self.spool),
        }
        self._before_we_looked()
        self.due = dict.fromkeys(self._acts, self.began)
        while True:
            now = time.monotonic()
            self._reap(now)
            for title in [title for title, at in self.due.items() if at <= now]:
                del self.due[title]
                self._start(title, self._acts[title])
            self._casualties(now)
            self._litter(now)
            if not self.child.wait(speed.TICK):
                break
        self._end(gently=kept)

    def _before_we_looked(self) -> None:
        """Sets up the history of the spool: a message whose two earlier consumers were killed and recovered, and messages that
        wait."""
        with Spool(self.spool, durable=False) as box:
            self.poison = box.put(sample_messages.poison(77119), source="teams")
            for _ in range(2):
                os.waitpid(fork(WORKERS[0], self._die_with_it), 0)
                box.recover()
            for source in ("email", "signal"):
                newest = sample_messages.NEWEST[source]
                box.put_many([sample_messages.row(source, newest - back) for back in range(6)], source=source)

    def _die_with_it(self) -> None:
        with Spool(self.spool, durable=False) as box:
            box.claim()
            os.kill(os.getpid(), signal.SIGKILL)

    def _start(self, title: str, act: Act) -> int:
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
                self.due[title] = now + speed.RESTART

    def _casualties(self, now: float) -> None:
        claims = [(name, name.pid) for name in map(_claim, os.listdir(os.path.join(self.spool, "cur"))) if name.pid is not None]
        self.dead.intersection_update(pid for _, pid in claims)
        self._count({name.raw for name, pid in claims if pid in self.dead})
        if not self._counted:
            self._crash_at = min(self._crash_at, now + speed.CRASH_AGAIN)
        poisoned = any(name.id == self.poison for name, pid in claims if pid not in self.dead) or self._poison_waits(now)
        if now < self._crash_at or len(self._counted) + poisoned >= speed.MOST_DEAD:
            return
        for name, pid in claims:
            if self.running.get(pid) in WORKERS and name.id != self.poison:
                self._crash(name.raw, pid, now)
                return

    def _count(self, gone: set[str]) -> None:
        for _ in gone - self._counted:
            self.child.report()
        self._counted = gone

    def _crash(self, claimed: str, pid: int, now: float) -> None:
        """Kills a worker. A claim that it still held is counted at once, before anybody can put it back."""
        os.kill(pid, signal.SIGKILL)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        if os.path.lexists(os.path.join(self.spool, "cur", claimed)):
            self._count(self._counted | {claimed})
            self._crash_at = now + speed.NEXT_CRASH
        self._reap(now)

    def _poison_waits(self, now: float) -> bool:
        """True if the poison message waits in ``new``. If it is in no box, it is put again after a while."""
        boxes = [set(os.listdir(os.path.join(self.spool, box))) for box in ("new", "cur")]
        waits, claimed = (any(raw.startswith(self.poison) for raw in box) for box in boxes)
        if waits or claimed:
            self._poison_at = now + speed.POISON_AGAIN
        elif now >= self._poison_at:
            with Spool(self.spool, durable=False) as box:
                self.poison = box.put(sample_messages.poison(77119), source="teams")
            return True
        return waits

    def _litter(self, now: float) -> None:
        files = os.listdir(os.path.join(self.spool, "tmp"))
        writing = {pid for pid, title in self.running.items() if title == LITTERER}
        left = sum(pid in writing or any(f".P{pid}R" in raw for raw in files) for pid in self._litterers)
        if not left:
            self._litter_at = min(self._litter_at, now + speed.LITTER_AGAIN)
        if now < self._litter_at:
            return
        self._litter_at = now + speed.NEXT_LITTER
        if left < speed.MOST_LITTER:
            self._litterers.add(self._start(LITTERER, writers.dying(self.spool)))

    def _end(self, *, gently: bool) -> None:
        """Waits for the actors, which have all read the end of the demo from the lifeline. If the spool is not kept, they are
        killed at once, as their work is not needed."""
        end = time.monotonic() + (speed.LAST_WORK if gently else 0.0)
        while self.running:
            if time.monotonic() >= end:
                for pid in self.running:
                    os.kill(pid, signal.SIGKILL)
            pid, _ = os.waitpid(-1, os.WNOHANG if time.monotonic() < end else 0)
            if pid:
                del self.running[pid]
            else:
                time.sleep(0.02)


def _claim(raw: str) -> names.Name:
    return names.parse(raw, claimed=True)
