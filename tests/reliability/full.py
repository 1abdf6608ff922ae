"""A disk filled to the last block or inode: what goes on, what stops with a clear error, and that everything comes out again."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from spooltop.control import Control, open_control
from spooltop.engine import Spool, SpoolFull
from spooltop.errors import AuditFailed
from spooltop.model.plan import Outcome, Selection
from spooltop.model.vocabulary import Action, Box
from tests.scratch import scratch

from .disks import Disk, mount_tmpfs, unmount
from .figures import Figure
from .history import body, uid_of

__all__ = ["BAR", "NAME", "PLACES", "Life", "run"]

NAME = "disk full: fill, operate, free, drain"
BAR = "every confirmed message comes out; acks and what frees space go on"

PLACES = ("ext4 with 1k blocks", "tmpfs by bytes", "tmpfs by inodes")
TINY = b"."


@dataclass(frozen=True)
class Place:
    """A mounted file system that is soon full."""

    at: Path
    unmount: Callable[[], None]


def mounted(name: str, folder: Path, large: bool) -> Place:
    """Raises ``OSError`` where this user may not."""
    if name == "ext4 with 1k blocks":
        inodes = "8000" if large else "2000"
        disk = Disk("ext4", folder, size=(16 if large else 4) << 20, options=("-b", "1024", "-m", "0", "-N", inodes))
        disk.mount()
        return Place(disk.at, disk.unmount)
    at = folder / "mnt"
    mount_tmpfs(at, f"size={8 if large else 2}M" if name == "tmpfs by bytes" else f"size=64M,nr_inodes={2000 if large else 500}")
    return Place(at, lambda: unmount(at))


class Life:
    """Life of one spool on a disk that fills up. ``wrong`` names everything that should not have happened."""

    def __init__(self, path: Path, *, durable: bool) -> None:
        self.path, self.durable = path, durable
        self.wrong: list[str] = []
        self.confirmed: dict[str, str] = {}
        """Messages that must come out, each once: uid → id."""
        self.put = 0

    def live(self, *, early: bool) -> None:
        """``early``: an operator was there before the disk was full, and left something in the trash."""
        with Spool.create(self.path, self.durable) as spool:
            self._some(spool, 60)
            held = [claim for _ in range(20) if (claim := spool.claim()) is not None]
            if early:
                with open_control(str(self.path), watch=False) as control:
                    self._operate(control, Action.PURGE, self._newest(15))
            self._fill(spool)
            self._claims_stop_clearly()
            with open_control(str(self.path), watch=False) as control:
                self._purge_to_trash(control)
                if early:
                    trash = control.plan(Action.EMPTY, Selection(box=Box.TRASH, everything=True))
                    self._expect(control.apply(trash).count(Outcome.DONE) == len(trash.items) > 0, "the trash was not emptied")
                    self._fill(spool)
                self._operate(control, Action.PURGE, self._newest(10), now=True)
            self._fill(spool)
            for claim in held:
                claim.ack()
                self.confirmed = {uid: id for uid, id in self.confirmed.items() if id != claim.id}
            spool.put(body("last"))
            self.confirmed["last"] = ""
            for claim in spool.claims():
                self._check_drained(uid_of(claim.data))
                claim.ack()
        self.wrong += [f"{uid} is lost" for uid in self.confirmed]
        self.wrong += [f"{box} holds {name}" for box in ("tmp", "new", "cur") for name in os.listdir(self.path / box)]

    def _expect(self, holds: bool, words: str) -> None:
        if not holds:
            self.wrong.append(words)

    def _some(self, spool: Spool, count: int) -> None:
        for _ in range(count):
            uid = f"m{self.put}"
            self.put += 1
            self.confirmed[uid] = spool.put(body(uid))

    def _fill(self, spool: Spool) -> None:
        """Puts until that is refused, then the smallest there are until these are."""
        for small in (False, True):
            while True:
                uid = f"m{self.put}"
                self.put += 1
                try:
                    id = spool.put(body(uid) if not small else TINY)
                except SpoolFull:
                    break
                if small:
                    self.confirmed[f"tiny {id}"] = id
                else:
                    self.confirmed[uid] = id
        self._expect(not os.listdir(self.path / "tmp"), "a put that was refused left something in tmp")

    def _claims_stop_clearly(self) -> None:
        """A new consumer on a full disk: it gets claims, which it gives back, or is told why not."""
        try:
            with Spool(self.path, self.durable) as late:
                claim = late.claim()
                if claim is not None:
                    claim.release()
        except SpoolFull:
            return

    def _newest(self, count: int) -> list[str]:
        return [id for id in self.confirmed.values() if id][-count:]

    def _purge_to_trash(self, control: Control) -> None:
        """Frees nothing; done or refused, the messages are kept."""
        plan = control.plan(Action.PURGE, Selection(box=Box.NEW, ids=tuple(self._newest(3))))
        try:
            done = [item.id for item in control.apply(plan).items if item.outcome is Outcome.DONE]
        except AuditFailed:
            return
        self.confirmed = {uid: id for uid, id in self.confirmed.items() if id not in done}

    def _operate(self, control: Control, action: Action, ids: list[str], *, now: bool = False) -> None:
        plan = control.plan(action, Selection(box=Box.NEW, ids=tuple(ids)), options={"now": True} if now else {})
        result = control.apply(plan)
        for item in result.items:
            if item.outcome is not Outcome.DONE:
                self.wrong.append(f"{action} of {item.id}: {item.outcome}, {item.reason}")
        self._expect(len(plan.items) == len(ids), f"{action} found {len(plan.items)} of {len(ids)}")
        self.confirmed = {uid: id for uid, id in self.confirmed.items() if id not in ids}

    def _check_drained(self, uid: str | None) -> None:
        if uid is None:  # one of the tiny ones, which do not say which
            uid = next((one for one in self.confirmed if one.startswith("tiny ")), None)
        if uid is None or self.confirmed.pop(uid, None) is None:
            self.wrong.append(f"{uid or 'a tiny message'} came and should not")


def run(quick: bool, say: Callable[[str], None]) -> Figure:
    trials, skipped = 0, 0
    wrong: list[str] = []
    for name in PLACES:
        for early in (False, True):
            with tempfile.TemporaryDirectory(prefix="spooltop-full-", dir=scratch()) as folder:
                try:
                    place = mounted(name, Path(folder), not quick)
                except OSError as error:
                    say(f"{name}: {error}")
                    skipped += 1
                    continue
                try:
                    life = Life(place.at / "spool", durable=name.startswith("ext4"))
                    life.live(early=early)
                finally:
                    place.unmount()
            trials += life.put
            say(f"{name}{', an operator there before' if early else ''}: {life.put:,} puts")
            wrong += [f"{name}: {words}" for words in life.wrong]
    for words in wrong[:20]:
        say(words)
    return Figure(NAME, BAR, trials, len(wrong), skipped, explained=f"messages; {', '.join(PLACES)}")
