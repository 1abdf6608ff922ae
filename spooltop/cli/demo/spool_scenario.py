"""The scenario in a directory: producers with cursors, consumers, writers that die, and programs that share a lock."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence
from functools import partial

from spooltop.engine import Spool, names

from . import consumers, lockers, pollers, sample_messages, speed, writers
from .process_group import Child, fork
from .scenario import WORKERS, Act, HeldMessage, Scenario

__all__ = ["SpoolScenario", "play"]

LITTERER = "fetch_mail.py"


def play(spool: str, *, kept: bool) -> Act:
    """Runs the whole demo on ``spool`` until it is over. ``kept``: consumers then give their claims back."""
    return lambda child: SpoolScenario(child, spool).run(kept=kept)


class SpoolScenario(Scenario):
    """Scenario on the directory ``spool``. ``poison`` is the id of the message that kills each of its consumers."""

    def __init__(self, child: Child, spool: str) -> None:
        super().__init__(child)
        self.spool = spool
        self.poison = ""
        self._poison_at = float("inf")
        self._litterers: set[int] = set()

    def acts(self) -> Mapping[str, Act]:
        self._litter_at = self.began + speed.FIRST_LITTER
        queue = partial(Spool, self.spool, durable=False)
        return {
            **pollers.pollers(self.spool, self.began),
            WORKERS[0]: consumers.worker(queue, 0.4, 0.8),
            WORKERS[1]: consumers.worker(queue, 0.3, 0.6),
            "indexer.py": consumers.slow(queue),
            "export_mail.py": writers.slow(self.spool),
            "import.py": lockers.holder(self.spool),
            "backup.py": lockers.waiter(self.spool),
        }

    def before(self) -> None:
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

    def held(self) -> Sequence[HeldMessage]:
        claims = [names.parse(name, claimed=True) for name in os.listdir(os.path.join(self.spool, "cur"))]
        return [HeldMessage(one.raw, one.pid, one.id == self.poison) for one in claims if one.pid is not None]

    def is_held(self, name: str) -> bool:
        return os.path.lexists(os.path.join(self.spool, "cur", name))

    def poison_waits(self, now: float) -> bool:
        boxes = [set(os.listdir(os.path.join(self.spool, box))) for box in ("new", "cur")]
        waits, claimed = (any(raw.startswith(self.poison) for raw in box) for box in boxes)
        if waits or claimed:
            self._poison_at = now + speed.POISON_AGAIN
        elif now >= self._poison_at:
            with Spool(self.spool, durable=False) as box:
                self.poison = box.put(sample_messages.poison(77119), source="teams")
            return True
        return waits

    def further(self, now: float) -> None:
        files = os.listdir(os.path.join(self.spool, "tmp"))
        writing = {pid for pid, title in self.running.items() if title == LITTERER}
        left = sum(pid in writing or any(f".P{pid}R" in raw for raw in files) for pid in self._litterers)
        if not left:
            self._litter_at = min(self._litter_at, now + speed.LITTER_AGAIN)
        if now < self._litter_at:
            return
        self._litter_at = now + speed.NEXT_LITTER
        if left < speed.MOST_LITTER:
            self._litterers.add(self.start(LITTERER, writers.dying(self.spool)))
