"""Timing of the demo. It is faster than reality, so that everything is visible within ten seconds. All times are in seconds.

The five pollers run in rounds of six seconds. ``email`` reads the whole cursor file early in a round and writes all of it back at
the beginning of the next: what ``imessage`` saved in between is lost. The others save between that write and that read, so that
only ``imessage`` is reverted.
"""

from __future__ import annotations

import fcntl
import io
import json
import os
import random
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import BinaryIO, cast

from spooltop.engine import CursorFile, Spool
from spooltop.errors import ClaimLost, SpooltopError
from spooltop.model.queue import Queue, QueueClaim
from spooltop.model.vocabulary import Json

from .process_group import Child

SETTINGS = {
    "SPOOLTOP_TMP_OLD": "5s",
    "SPOOLTOP_CLAIM_LONG": "15s",
    "SPOOLTOP_LOCK_BLOCKED": "10s",
    "SPOOLTOP_NO_CONSUMER": "20s",
    "SPOOLTOP_NEW_OLD": "60s",
    "SPOOLTOP_CURSOR_WINDOW": "60s",
}
"""Thresholds that replace those for a spool at normal speed."""

POLL = 2.0
ROUND = 6.0
EMAIL_WRITES = 0.2
EMAIL_READS = 1.6
DRAFT_STANDS = 0.2
"""Time for which the unsafe writer's ``cursors.json.tmp`` is visible before it is renamed."""

FIRST_CRASH = 2.0
NEXT_CRASH = 25.0
CRASH_AGAIN = 4.0
"""Time after which a consumer is killed if no dead claim is left, so that there is always one to requeue."""
MOST_DEAD = 3
"""Maximum number of dead claims; at this number no consumer is killed until some are put back."""
POISON_WORK = 12.0
"""Time for which the poison message is processed before it kills its consumer."""
POISON_AGAIN = 60.0
RESTART = 1.5
LAST_WORK = 2.0
"""Time that consumers of a spool that is kept have to give their claims back when the demo is over."""

FIRST_LITTER = 0.5
NEXT_LITTER = 45.0
LITTER_AGAIN = 2.0
"""Time after which the next file is abandoned if none is left in ``tmp``, so that there is always one to purge."""
MOST_LITTER = 3
SLOW_CHUNKS = 60
SLOW_CHUNK_EVERY = 0.5
SLOW_PAUSE = 8.0

SLOW_CLAIM = 60.0
SLOW_CLAIM_PAUSE = 4.0
LOCK_HELD = 90.0
LOCK_PAUSE = 3.0

RETRY = 6.0
"""Time after which a message is tried again whose picture was missing."""
LEASE = 3.0
"""Time after which a consumer of a stream that does not renew its lease counts as dead."""
ARCHIVED_EVERY = 1.2
"""Time that the second group of a stream needs for a message: more than the producers leave it."""
REPORT = 45.0
"""Time for which the program that is not spooltop's holds a message of a stream."""

TICK = 0.25
"""Interval between two checks of the scenario."""


# Sample rows of five messengers. A row number of a source always has the same content.

SOURCES = ("imessage", "teams", "signal", "email", "messenger")
NEWEST = {"imessage": 89632, "teams": 77120, "signal": 5120, "email": 204510, "messenger": 18003}
"""Value of each cursor at the start of a demo."""
FIELDS = {"imessage": "cursor", "email": "uid"}
"""Sources whose section in the cursor file is an object, and the field of it that is the cursor."""

_WHO = {
    "imessage": ("+49 170 5550134", "+49 171 5550172", "mum"),
    "teams": ("Priya Raman", "Tom Okafor", "build bot"),
    "signal": ("Lena", "climbing group", "Jo"),
    "email": ("billing@example.com", "list@lists.example.org", "anna@example.net"),
    "messenger": ("Uncle Ray", "football parents", "Mia"),
}
_SAID = (
    "running ten minutes late, start without me",
    "did the backup finish last night?",
    "photos from sunday are in the shared folder",
    "the build is green again",
    "can you bring the long ladder?",
    "your invoice for october is attached",
    "re: re: who has the keys?",
    "train is cancelled, taking the next one",
    "happy birthday!",
    "meeting moved to 15:30, same room",
    "call me when you see this",
)


def row(source: str, rowid: int, **more: str) -> bytes:
    """The payload of one row. ``more`` are further fields: ``encoding`` makes consumers reject it, ``picture`` try it again."""
    who = _WHO[source]
    record = {"source": source, "rowid": rowid, "from": who[rowid % len(who)], "text": _SAID[rowid * 7 % len(_SAID)], **more}
    return json.dumps(record, indent=1).encode() + b"\n"


def export(source: str, count: int) -> bytes:
    """The payload of many rows in one, a line each."""
    return b"".join(json.dumps(json.loads(row(source, rowid))).encode() + b"\n" for rowid in range(count))


def poison(rowid: int) -> bytes:
    """The payload of a row that kills every worker: its attachment needs more memory than there is."""
    record = {
        "source": "teams", "rowid": rowid, "from": "Tom Okafor", "text": "the whole scan, sorry about the size",
        "attachment": {"name": "scan.tiff", "width": 200000, "height": 280000},
    }  # fmt: skip
    return json.dumps(record, indent=1).encode() + b"\n"


# Writers in ``tmp``: a slow one, and one that dies before its message is complete.

_ROWS = 400
"""Rows in each chunk of an export."""


class Export(io.RawIOBase):
    """Mailbox that arrives in chunks, each after ``every`` seconds. ``last`` is called when a chunk is requested after the last
    one."""

    def __init__(self, child: Child, pieces: int, every: float, last: Callable[[], object]) -> None:
        super().__init__()
        self._kin = child
        self._left = pieces
        self._piece = export("email", _ROWS)
        self._every = every
        self._last = last

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        if self._left == 0:
            self._last()
            return b""
        self._left -= 1
        return self._piece if self._kin.wait(self._every) else b""


def slow_writer(spool: str) -> Callable[[Child], None]:
    """Writes a message for half a minute, pauses, and starts again."""

    def act(child: Child) -> None:
        with Spool(spool, durable=False) as box:
            while child.wait(SLOW_PAUSE / 4):
                box.put(_export(child, SLOW_CHUNKS, SLOW_CHUNK_EVERY, lambda: None), source="email")
                if not child.wait(SLOW_PAUSE):
                    return

    return act


def dying_writer(spool: str) -> Callable[[Child], None]:
    """Writes the beginning of a message and is killed."""

    def act(child: Child) -> None:
        with Spool(spool, durable=False) as box:
            box.put(_export(child, 1, 0.2, lambda: os.kill(os.getpid(), signal.SIGKILL)), source="email")

    return act


def _export(child: Child, pieces: int, every: float, last: Callable[[], object]) -> BinaryIO:
    return cast("BinaryIO", Export(child, pieces, every, last))  # the engine asks for read(size) only


# Consumers: quick ones and a slow one, and the effect of a poison message on each of them.

OpenQueue = Callable[[], Queue]
"""Opens the queue in the process of the consumer."""

_MISSING = 2
"""Attempts at which a picture is missing."""
_AWAKE = 1.0
"""Seconds after which a consumer that finds nothing checks whether the demo is still running."""


def worker(queue: OpenQueue, quickest: float, slowest: float) -> Callable[[Child], None]:
    """Consumes messages, with ``quickest`` to ``slowest`` seconds for each."""

    def act(child: Child) -> None:
        with queue() as box:
            while child.wait(0):
                claim = box.claim(timeout=_AWAKE)
                if claim is not None:
                    work(child, claim, random.uniform(quickest, slowest))

    return act


def slow_worker(queue: OpenQueue) -> Callable[[Child], None]:
    """Holds a message for a minute, alive and without using the processor, then the next."""

    def act(child: Child) -> None:
        with queue() as box:
            while child.wait(SLOW_CLAIM_PAUSE):
                claim = box.claim(timeout=_AWAKE)
                if claim is not None:
                    work(child, claim, SLOW_CLAIM)

    return act


def work(child: Child, claim: QueueClaim, seconds: float, *, poison: float = POISON_WORK) -> None:
    """Acks after ``seconds``; rejects a message in an unknown encoding, and gives one back whose picture is still missing, to be
    tried again. A poison message kills the process after ``poison`` seconds. Gives the claim back if the demo ends before
    that."""
    try:
        record = _record(claim.data)
        if _kills(record):
            if child.wait(poison):
                os.kill(os.getpid(), signal.SIGKILL)  # as the kernel does with one that takes too much memory
            claim.release()
        elif not child.wait(seconds):
            claim.release()
        elif "encoding" in record:
            claim.reject(f"unknown encoding {record['encoding']}")
        elif "picture" in record and claim.attempt <= _MISSING:
            claim.release(delay=RETRY)
        else:
            claim.ack()
    except ClaimLost:
        return  # somebody took it away with f: it is theirs now


def _kills(record: dict[str, object]) -> bool:
    return isinstance(record.get("attachment"), dict)


def _record(data: bytes) -> dict[str, object]:
    try:
        record = json.loads(data)
    except ValueError:
        return {}  # what a person puts into a demo need not be JSON
    return record if isinstance(record, dict) else {}


# Two programs that share a lock file: one holds it, the other waits.

LOCK = "import.lock"


def holder(spool: str) -> Callable[[Child], None]:
    """Holds the lock for a long time, again and again."""
    return lambda child: _share(child, spool, 0.0, LOCK_HELD)


def waiter(spool: str) -> Callable[[Child], None]:
    """Needs the lock only for a moment, and so waits for it most of the time."""
    return lambda child: _share(child, spool, LOCK_PAUSE / 3, LOCK_PAUSE / 3)


def _share(child: Child, spool: str, after: float, held: float) -> None:
    fd = os.open(os.path.join(spool, LOCK), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        while child.wait(after):
            fcntl.flock(fd, fcntl.LOCK_EX)
            if not child.wait(held):
                return
            fcntl.flock(fd, fcntl.LOCK_UN)
            after = LOCK_PAUSE if held > LOCK_PAUSE else after
    finally:
        os.close(fd)


# Five pollers that share one ``cursors.json``: each asks its source, puts new rows and saves its progress. Three save only
# their own section (``CursorFile.advance``). Two read the whole file and write all of it back, which loses what others saved in
# between: ``email`` takes a long time, so ``imessage`` is reverted and delivers the same rows again.

CURSORS = "cursors.json"
LOGS = "logs"
_DRAFT = "cursors.json.tmp"
_ROWS_AT_ONCE = 50
_LOG_MOST = 64 << 10
_UNTOUCHED = 4
"""Rounds without new rows for imessage; then four new rows arrive."""

Act = Callable[[Child], None]


def begin(spool: str) -> None:
    """Creates the cursors with their values before the first poll, and the directory of the logs."""
    os.mkdir(os.path.join(spool, LOGS))
    cursors = CursorFile(os.path.join(spool, CURSORS))
    for source in SOURCES:
        cursors.advance(source, section(source, NEWEST[source]))


def section(source: str, value: int) -> Json:
    """Builds the section of ``source`` in the cursor file: some pollers save a number, some an object.

    >>> section("teams", 7), section("imessage", 7)
    (7, {'cursor': 7})
    """
    return {FIELDS[source]: value} if source in FIELDS else value


def poller_acts(spool: str, began: float) -> dict[str, Act]:
    """Returns the action of each poller by the name of its process. ``began`` is the time (``time.monotonic``) of the first
    round."""
    arrivals: dict[str, Callable[[int], int]] = {
        "teams": lambda _: 2,
        "signal": lambda turn: 18 if turn % 10 == 3 else 3,
        "email": lambda _: 3,
        "messenger": lambda turn: 2 if turn % 5 == 0 else 0,
    }
    at = {"signal": 0.5, "teams": 0.8, "messenger": 1.1, "imessage": 1.9}
    acts: dict[str, Act] = {"poll_imessage.py": lambda child: _imessage(child, Poller(spool, "imessage"), began + at["imessage"])}
    for source in ("teams", "messenger", "signal"):
        acts[f"poll_{source}.py"] = _steadily(spool, source, began + at[source], arrivals[source])
    acts["poll_email.py"] = lambda child: _email(child, Poller(spool, "email"), began, arrivals["email"])
    return acts


@dataclass
class Poller:
    """Reads a source from its cursor on. ``newest`` is the last row of the source."""

    spool: str
    source: str

    def __post_init__(self) -> None:
        self.newest = NEWEST[self.source]
        self._box = Spool(self.spool, durable=False)
        self._cursors = CursorFile(os.path.join(self.spool, CURSORS))
        self._log = Path(self.spool, LOGS, f"poll-{self.source}.log")

    def poll(self) -> int:
        """Puts the new rows, then saves the cursor, only its own section. Returns the number of rows."""
        try:
            value = self._value(self._cursors.read())
            if value != self.newest:
                self._put(value)
                self._cursors.advance(self.source, section(self.source, self.newest))
        except (SpooltopError, OSError) as error:
            self.log(f"poll failed: {error}")
            return 0
        return self._polled(value)

    def poll_whole(self, read: dict[str, object] | None, pause: Callable[[], object] = lambda: None) -> int:
        """Polls like ``poll``, but writes the whole file: ``read`` is an earlier result of ``read_whole``. ``stands`` is called
        while the draft exists, whose name is the same for all pollers."""
        if read is None:
            self.log("poll failed: cursors.json does not read")
            return 0
        try:
            value = self._value(read)
            self._put(value)
            draft = Path(self.spool, _DRAFT)
            draft.write_text(json.dumps(read | {self.source: section(self.source, self.newest)}), encoding="utf-8")
            pause()
            draft.replace(Path(self.spool, CURSORS))
        except (SpooltopError, OSError) as error:
            self.log(f"poll failed: {error}")
            return 0
        return self._polled(value)

    def read_whole(self) -> dict[str, object] | None:
        try:
            found = json.loads(Path(self.spool, CURSORS).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None  # the poll says so
        return found if isinstance(found, dict) else None

    def log(self, line: str) -> None:
        """Appends a line to the log. A log that has grown too long is renamed to ``….log.1`` first."""
        try:
            if self._log.exists() and self._log.stat().st_size > _LOG_MOST:
                self._log.replace(self._log.with_suffix(".log.1"))
            with self._log.open("a", encoding="utf-8") as file:
                file.write(f"{time.strftime('%H:%M:%S')} {line}\n")
        except OSError:
            return  # a log on a full disk: the poll went well all the same

    def _value(self, cursors: Mapping[str, object]) -> int:
        value = cursors.get(self.source)
        if isinstance(value, dict):
            value = value.get(FIELDS.get(self.source, ""))
        usable = isinstance(value, int) and 0 <= value <= self.newest
        return max(int(str(value)), self.newest - _ROWS_AT_ONCE) if usable else self.newest

    def _put(self, value: int) -> None:
        self._box.put_many([row(self.source, rowid) for rowid in range(value + 1, self.newest + 1)], source=self.source)

    def _polled(self, value: int) -> int:
        new = self.newest - value
        at = f"cursor {value} -> {self.newest}" if new else f"cursor={value}"
        self.log(f"poll ok: {new} new ({at})")
        return new


def _turns(child: Child, first: float) -> Iterator[int]:
    """Counts the polls from ``first`` on as they become due; polls that were missed are skipped."""
    for turn in count(max(0, int((time.monotonic() - first) / POLL))):
        due = first + turn * POLL
        if time.monotonic() < due + POLL:
            if not child.until(due):
                return
            yield turn


def _steadily(spool: str, source: str, first: float, arrive: Callable[[int], int]) -> Act:
    every = round(ROUND / POLL)

    def act(child: Child) -> None:
        poller = Poller(spool, source)
        for turn in _turns(child, first):
            if turn % every == 0:
                poller.newest += arrive(turn // every)
            if source == "signal":
                poller.poll_whole(poller.read_whole())
            else:
                poller.poll()

    return act


def _imessage(child: Child, poller: Poller, first: float) -> None:
    """Adds four rows once. ``email`` is the reason that they are new again and again."""
    still = 0
    for turn in _turns(child, first):
        if turn == 0:
            continue  # a look or two at the old value first
        if turn == 1 or still > _UNTOUCHED * ROUND / POLL:
            poller.newest += 4
        still = 0 if poller.poll() else still + 1


def _email(child: Child, poller: Poller, began: float, arrive: Callable[[int], int]) -> None:
    """Reads the whole file early in a round, then slowly reads the mail, and writes the whole file back."""
    turn = max(0, int((time.monotonic() - began) / ROUND))
    while child.until(began + turn * ROUND + EMAIL_READS):
        read = poller.read_whole()
        turn += 1
        if not child.until(began + turn * ROUND + EMAIL_WRITES - DRAFT_STANDS):
            return
        poller.newest += arrive(turn)
        poller.poll_whole(read, lambda: child.wait(DRAFT_STANDS))
