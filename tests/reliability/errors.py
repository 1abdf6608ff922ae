"""Each file operation of each step fails: by each error, once and for good, done and yet reported as failed, or written short.

What was confirmed is there, once; what was refused is told by a ``SpooltopError``, and nothing is doubled or in two places.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from spooltop.engine import CursorFile, Spool
from spooltop.errors import ClaimLost, PutUnknown, Refused, SpooltopError
from tests.engine.helpers import LOOKING, NEVER_FULL
from tests.scratch import scratch

from .figures import Figure
from .seam import OPENING, Around, Seam
from .world import CURSORS, body, build, drain, requeue_dead

__all__ = ["BAR", "NAME", "STEPS", "Trouble", "run"]

NAME = "each errno at each file operation; short writes; done, yet reported as failed"
BAR = "0 confirmed and missing, 0 doubled, a clear error each time"

ERRORS = ("ENOSPC", "EDQUOT", "EIO", "EACCES", "EROFS", "EMFILE", "ESTALE", "EINTR")
QUICK = ("ENOSPC", "EIO")
FEWEST = 2
"""File operations that the shortest step has; less, and the seam has missed some."""


@dataclass(frozen=True)
class Trouble:
    """Fault injected from the file operation number ``at`` on. ``kind`` is "once", "for good", "done" (and yet an error), "short"
    (only ``error`` bytes of a write, once) or "short for good"."""

    at: int
    kind: str
    error: str | int

    def around(self) -> Around:
        def once(number: int, name: str, do: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
            here = number == self.at or (number > self.at and self.kind.endswith("for good"))
            if not here:
                return do(*arguments)
            if self.kind.startswith("short"):
                return do(arguments[0], bytes(arguments[1])[: int(self.error)]) if name == "write" else do(*arguments)
            if self.kind == "done" or name == "close":  # a close that fails has closed all the same, as close(2) says
                result = do(*arguments)
                if name in OPENING:
                    os.close(result)  # nobody will have it
            code = getattr(errno, str(self.error))
            raise OSError(code, os.strerror(code))

        return once

    def __str__(self) -> str:
        return f"{self.error} {self.kind} at {self.at}"


class Steps:
    """Attempt at one step: the operations it does, and what it has confirmed."""

    def __init__(self, root: Path, files: Seam) -> None:
        self.root, self.files = root, files
        self.spool: Spool | None = None

    def opened(self) -> Spool:
        """Opens the spool before anything goes wrong."""
        self.spool = Spool(self.root, files=self.files)
        self.files.armed = True
        return self.spool

    def open(self) -> None:
        self.files.armed = True
        self.spool = Spool(self.root, files=self.files)

    def create(self) -> None:
        self.files.armed = True
        self.spool = Spool.create(self.root, files=self.files)

    def look(self) -> None:
        spool = self.opened()
        spool.depth()
        spool.peek()

    def put(self) -> None:
        self.opened().put(body("p1"), source="s")

    def put_by_id(self) -> None:
        self.opened().put(body("p1"), id="chosen")

    def put_by_key(self) -> None:
        self.opened().put(body("p1"), key="key")

    def put_many(self) -> None:
        self.opened().put_many([body("p1"), body("p2"), body("p3")])

    def put_group(self) -> None:
        self.opened().put_many([body(f"p{number}") for number in range(1, 33)])

    def claim(self) -> None:
        claim = self.opened().claim()
        if claim is not None:
            claim.end()  # as if the process died with it

    def _claimed(self, do: Callable[[Any], object]) -> None:
        spool = self.opened()
        self.files.armed = False
        claim = spool.claim()
        assert claim is not None
        self.files.armed = True
        try:
            do(claim)
        finally:
            self.files.armed = False
            claim.end()

    def read(self) -> None:
        def both(claim: Any) -> None:
            data = claim.data
            with claim.open() as file:
                assert file.read() == data

        self._claimed(both)

    def ack(self) -> None:
        self._claimed(lambda claim: claim.ack())

    def ack_many(self) -> None:
        self._claimed(lambda claim: self.spool and self.spool.ack_many([claim]))

    def release(self) -> None:
        self._claimed(lambda claim: claim.release())

    def reject(self) -> None:
        self._claimed(lambda claim: claim.reject("on purpose"))

    def recover(self) -> None:
        self.opened().recover()

    def requeue(self) -> int:
        self.files.armed = True
        return requeue_dead(self.root, self.files)

    def cursor(self) -> None:
        self.files.armed = True
        CursorFile(self.root / "cursors.json", files=self.files).advance("imessage", 2)


STEPS = (
    "open", "create", "look", "put", "put_by_id", "put_by_key", "put_many", "put_group", "claim", "read", "ack", "ack_many",
    "release", "reject", "recover", "requeue", "cursor",
)  # fmt: skip
PUTS = {"put": 1, "put_by_id": 1, "put_by_key": 1, "put_many": 3, "put_group": 32}


def tried(root: Path, step: str, files: Seam) -> Exception | None:
    """The error that the step ended in. The process then gives up, without giving back what it holds."""
    steps = Steps(root, files)
    try:
        getattr(steps, step)()
    except Exception as error:  # noqa: BLE001  whatever comes out is what is looked at
        return error
    finally:
        files.armed = False
        if steps.spool is not None:
            steps.spool.close()
    return None


def wrong_after(root: Path, step: str, error: Exception | None, *, first: str) -> list[str]:
    """Returns what is wrong with the spool and with what was reported. ``first`` is the message that a claim takes. Takes
    everything out."""
    wrong = []
    if error is not None and not isinstance(error, SpooltopError):
        wrong.append(f"{type(error).__name__} came out: {error}")
    # A refusal of an operator says in its words what to do, where there is anything to be done.
    if isinstance(error, SpooltopError) and not (error.path and (error.advice or isinstance(error, Refused))):
        wrong.append(f"without path or advice: {error!r}")
    if isinstance(error, ClaimLost):
        wrong.append(f"nobody took the claim away: {error}")
    for box in ("new", "cur"):
        for path in (root / box).iterdir():
            data = path.read_bytes()
            if data != body(data.decode().partition(":")[0] or "?"):
                wrong.append(f"{box} shows {len(data)} bytes of a message")
    if step in ("put_by_id", "put_by_key") and error is not None:
        with Spool(root) as spool:  # tried again it is one message, whatever came of the first
            spool.put(body("p1"), id="chosen") if step == "put_by_id" else spool.put(body("p1"), key="key")
    rejected = list(root.glob(".spooltop/rejected/*/[!.]*"))
    out, two = drain(root)
    wrong += [f"{path} has two names after recovery" for path in two]
    got = Counter(data.decode().partition(":")[0] for data in out)
    aside = Counter(path.read_bytes().decode().partition(":")[0] for path in rejected)
    got += aside
    wrong += [f"{label} came {count} times" for label, count in got.items() if count > 1]
    expected = {"d1", "m1", "m2"}
    if step in ("ack", "ack_many"):
        if error is None and first in got:
            wrong.append(f"{first} came back after its ack")
        expected.discard(first)
    wrong += [f"{label} is lost" for label in sorted(expected - set(got))]
    if step == "reject" and error is None and first not in aside:
        wrong.append(f"{first} is not among the rejected")
    labels = {f"p{number}" for number in range(1, PUTS.get(step, 0) + 1)}
    if labels and (error is None or step in ("put_by_id", "put_by_key")):
        wrong += [f"{label} is confirmed and missing" for label in sorted(labels - set(got))]
    elif labels & set(got) and not isinstance(error, PutUnknown):
        wrong.append(f"refused ({error}), and {len(labels & set(got))} were delivered all the same")
    cursors = json.loads((root / "cursors.json").read_text())
    allowed = {2} if step == "cursor" and error is None else {1, 2} if step == "cursor" else {1}
    if cursors.get("email") != CURSORS["email"] or cursors.get("imessage") not in allowed:
        wrong.append(f"the cursors are {cursors}")
    return wrong + [f"{path.name} is left in cur" for path in (root / "cur").iterdir()]


def troubles(calls: Sequence[str], errors: Sequence[str], *, every: bool) -> Iterator[Trouble]:
    """All that can go wrong in a step of these file operations. Without ``every`` no look runs out of space, and none is done
    and yet fails, which leaves what a failed one leaves."""
    for at, name in enumerate(calls, 1):
        for error in errors:
            if every or error != "ENOSPC" or name not in NEVER_FULL:
                yield Trouble(at, "once", error)
                yield Trouble(at, "for good", error)
        if every or name not in LOOKING:
            yield Trouble(at, "done", "EIO")
        if name == "write":
            for count in (0, 1, 100):
                yield Trouble(at, "short", count)
            yield Trouble(at, "short for good", 0)
            yield Trouble(at, "short for good", 100)


def step_tried(task: tuple[str, bool, bool]) -> tuple[int, list[str]]:
    """(trials, what was wrong) of one step, each file operation of it failing in all ways."""
    step, old, quick = task
    count, wrong = 0, []
    with tempfile.TemporaryDirectory(prefix="spooltop-proof-", dir=scratch()) as folder:
        base = Path(folder)
        build(base / "template", False)
        with Spool(base / "template", False) as spool:
            first = spool.claim()
            assert first is not None
            label = first.data.decode().partition(":")[0]
            first.release()
        shutil.copytree(base / "template", base / "clean")
        clean = Seam(old=old)
        if (error := tried(base / "clean", step, clean)) is not None:
            return 1, [f"{step} does not work at all: {error!r}"]
        if len(clean.calls) < FEWEST:
            return 1, [f"{step} has {len(clean.calls)} file operations only"]
        for trouble in troubles(clean.calls, QUICK if quick else ERRORS, every=not quick):
            count += 1
            root = base / str(count)
            shutil.copytree(base / "template", root)
            error = tried(root, step, Seam(trouble.around(), old=old))
            found = wrong_after(root, step, error, first=label)
            where = f"{step}{' without renameat2' if old else ''}, {trouble} ({clean.calls[trouble.at - 1]})"
            wrong += [f"{where}: {words}" for words in found]
            shutil.rmtree(root)
            shutil.rmtree(f"{root}.state", ignore_errors=True)
    return count, wrong


def run(quick: bool, say: Callable[[str], None]) -> Figure:
    steps = [step for step in STEPS if not quick or step != "requeue"]  # tests.matrix fails each call of that
    tasks = [(step, old, quick) for old in ((False,) if quick else (False, True)) for step in steps]
    count = violations = 0
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        for number, (trials, wrong) in enumerate(pool.map(step_tried, tasks), 1):
            count += trials
            violations += len(wrong)
            for words in wrong:
                say(words)
            if number % 8 == 0:
                say(f"{number} of {len(tasks)}, {count:,} trials")
    kinds = QUICK if quick else ERRORS
    explained = f"{len(steps)} steps; {', '.join(kinds)}, once and for good; writes of 0, 1, 100 bytes"
    return Figure(NAME, BAR, count, violations, explained=explained)
