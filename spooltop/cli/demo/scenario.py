"""The scenes of the demo: its timing, its messages, the programs that play, and what starts, kills and replaces them.

The timing is faster than reality, so that everything is visible within ten seconds. All times are in seconds. The
five pollers run in rounds of six seconds. ``email`` reads the whole cursor file early in a round and writes all of it back at the
beginning of the next: what ``imessage`` saved in between is lost. The others save between that write and that read, so that only
``imessage`` is reverted.
"""

from __future__ import annotations

import fcntl
import io
import json
import os
import random
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import NamedTuple

from spooltop.engine import CursorFile, Spool, names
from spooltop.errors import ClaimLost, SpooltopError
from spooltop.model.queue import Queue, QueueClaim
from spooltop.model.vocabulary import Json

from .process_group import Act, Child, fork

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
SLOW_PAUSE = 10.0

SLOW_CLAIM = 60.0
SLOW_CLAIM_PAUSE = 4.0
LOCK_HELD = 90.0
LOCK_PAUSE = 3.0

RETRY = 6.0
"""Time after which a message is tried again whose picture was missing."""

TICK = 0.25
"""Interval between two checks of the scenario."""


# Sample rows of five messengers. A row number of a source always has the same content.

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


def row(source: str, rowid: int, **more: Json) -> bytes:
    """The payload of one row. ``more`` are further fields: ``encoding`` makes consumers reject it, ``picture`` try it again, and
    an ``attachment`` needs more memory than there is: it kills every worker."""
    who, said = _WHO[source], _SAID[rowid * 7 % len(_SAID)]
    record = {"source": source, "rowid": rowid, "from": who[rowid % len(who)], "text": said, **more}
    return json.dumps(record, indent=1).encode() + b"\n"


def poison() -> bytes:
    """The payload of the row that kills every worker."""
    attachment: Json = {"name": "scan.tiff", "width": 200000, "height": 280000}
    return row("teams", 77119, text="the whole scan, sorry about the size", attachment=attachment)


# Writers in ``tmp``: a slow one, and one that dies before its message is complete.

_ROWS = 400
"""Rows in each piece of an export."""


class Export(io.BytesIO):
    """Mailbox that arrives in ``pieces``, each after ``every`` seconds. ``dies``: its reader is killed as it asks for more."""

    def __init__(self, child: Child, pieces: int, every: float, *, dies: bool = False) -> None:
        super().__init__()
        self._child, self._left, self._every, self._dies = child, pieces, every, dies
        self._piece = b"".join(json.dumps(json.loads(row("email", rowid))).encode() + b"\n" for rowid in range(_ROWS))

    def read(self, size: int | None = -1) -> bytes:
        if self._left == 0:
            if self._dies:
                os.kill(os.getpid(), signal.SIGKILL)
            return b""
        self._left -= 1
        return self._piece if self._child.wait(self._every) else b""


def write_slowly(child: Child, spool: str) -> None:
    """Writes a message for half a minute, pauses, and starts again."""
    pause = SLOW_PAUSE / 5
    with Spool(spool, durable=False) as box:
        while child.wait(pause):
            box.put(Export(child, SLOW_CHUNKS, SLOW_CHUNK_EVERY), source="email")
            pause = SLOW_PAUSE


def die_writing(child: Child, spool: str) -> None:
    """Writes the beginning of a message and is killed."""
    with Spool(spool, durable=False) as box:
        box.put(Export(child, 1, 0.2, dies=True), source="email")


# Consumers: quick ones and a slow one, and the effect of a poison message on each of them.

OpenQueue = Callable[[], Queue]
"""Opens the queue in the process of the consumer."""

_MISSING = 2
"""Attempts at which a picture is missing."""
_AWAKE = 1.0
"""Seconds after which a consumer that finds nothing checks whether the demo is still running."""


def consume(child: Child, queue: OpenQueue, quickest: float, slowest: float, pause: float = 0.0) -> None:
    """Consumes messages, with ``quickest`` to ``slowest`` seconds for each, and ``pause`` before it."""
    with queue() as box:
        while child.wait(pause):
            if (claim := box.claim(timeout=_AWAKE)) is not None:
                with suppress(ClaimLost):  # somebody took it away with f: it is theirs now
                    _work(child, claim, random.uniform(quickest, slowest))


def _work(child: Child, claim: QueueClaim, seconds: float) -> None:
    """Acks after ``seconds``; rejects a message in an unknown encoding, and gives one back whose picture is still missing, to be
    tried again. A poison message kills the process after ``POISON_WORK`` seconds. Gives the claim back if the demo ends before
    that."""
    try:
        record = json.loads(claim.data)
    except ValueError:
        record = {}  # what a person puts into a demo need not be JSON
    if not isinstance(record, dict):
        record = {}
    kills = isinstance(record.get("attachment"), dict)
    if not child.wait(POISON_WORK if kills else seconds):
        claim.release()
    elif kills:
        os.kill(os.getpid(), signal.SIGKILL)  # as the kernel does with one that takes too much memory
    elif "encoding" in record:
        claim.reject(f"unknown encoding {record['encoding']}")
    elif "picture" in record and claim.attempt <= _MISSING:
        claim.release(delay=RETRY)
    else:
        claim.ack()


def share_lock(child: Child, spool: str, held: float, first: float, pause: float) -> None:
    """Holds a lock for ``held`` seconds, again and again: ``first`` and ``pause`` are the seconds before."""
    fd = os.open(os.path.join(spool, "import.lock"), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    while child.wait(first):
        fcntl.flock(fd, fcntl.LOCK_EX)
        if not child.wait(held):
            return
        fcntl.flock(fd, fcntl.LOCK_UN)
        first = pause


# Five pollers that share one ``cursors.json``: each asks its source, puts new rows and saves its progress. Three save only
# their own section (``CursorFile.advance``). Two read the whole file and write all of it back, which loses what others saved in
# between: ``email`` takes a long time, so ``imessage`` is reverted and delivers the same rows again.

CURSORS = "cursors.json"
LOGS = "logs"
_ROWS_AT_ONCE = 50
_LOG_MOST = 64 << 10
_UNTOUCHED = 4
"""Rounds without new rows for imessage; then four new rows arrive."""


def begin(spool: str) -> None:
    """Creates the cursors with their values before the first poll, and the directory of the logs."""
    os.mkdir(os.path.join(spool, LOGS))
    cursors = CursorFile(os.path.join(spool, CURSORS))
    for source, newest in NEWEST.items():
        cursors.advance(source, section(source, newest))


def section(source: str, value: int) -> Json:
    """Builds the section of ``source`` in the cursor file: some pollers save a number, some an object.

    >>> section("teams", 7), section("imessage", 7)
    (7, {'cursor': 7})
    """
    return {FIELDS[source]: value} if source in FIELDS else value


class Poller:
    """Reads a source from its cursor on. ``newest`` is the last row of the source."""

    def __init__(self, spool: str, source: str) -> None:
        self.source = source
        self.newest = NEWEST[source]
        self._box = Spool(spool, durable=False)
        self._path = Path(spool, CURSORS)
        self._cursors = CursorFile(self._path)
        self._log = Path(spool, LOGS, f"poll-{source}.log")

    def poll(self, whole: Mapping[str, Json] | None = None, pause: Callable[[], object] = lambda: None) -> int:
        """Puts the new rows, then saves the cursor, only its own section. Returns the number of rows. With ``whole``, an earlier
        result of ``read_whole``, it writes all of that back; ``pause`` is called while the draft exists, whose name is the same
        for all pollers."""
        try:
            value = self._value(self._cursors.read() if whole is None else whole)
            self._box.put_many([row(self.source, rowid) for rowid in range(value + 1, self.newest + 1)], source=self.source)
            own = section(self.source, self.newest)
            if whole is not None:
                draft = self._path.with_name(f"{CURSORS}.tmp")
                draft.write_text(json.dumps({**whole, self.source: own}), encoding="utf-8")
                pause()
                draft.replace(self._path)
            elif value != self.newest:
                self._cursors.advance(self.source, own)
        except (SpooltopError, OSError) as error:
            self._write_log(f"poll failed: {error}")
            return 0
        new = self.newest - value
        self._write_log(f"poll ok: {new} new ({f'cursor {value} -> {self.newest}' if new else f'cursor={value}'})")
        return new

    def read_whole(self) -> Mapping[str, Json] | None:
        try:
            return self._cursors.read()
        except (SpooltopError, OSError):
            return None  # the poll says so

    def _value(self, cursors: Mapping[str, Json]) -> int:
        value = cursors.get(self.source)
        if isinstance(value, dict):
            value = value.get(FIELDS.get(self.source, ""))
        usable = isinstance(value, int) and 0 <= value <= self.newest
        return max(int(str(value)), self.newest - _ROWS_AT_ONCE) if usable else self.newest

    def _write_log(self, line: str) -> None:
        """Appends a line to the log. A log that has grown too long is renamed to ``….log.1`` first."""
        with suppress(OSError):  # a log on a full disk: the poll went well all the same
            if self._log.exists() and self._log.stat().st_size > _LOG_MOST:
                self._log.replace(self._log.with_suffix(".log.1"))
            with self._log.open("a", encoding="utf-8") as file:
                file.write(f"{time.strftime('%H:%M:%S')} {line}\n")


def _turns(child: Child, first: float) -> Iterator[int]:
    """Counts the polls from ``first`` on as they become due; polls that were missed are skipped."""
    for turn in count(max(0, int((time.monotonic() - first) / POLL))):
        due = first + turn * POLL
        if time.monotonic() < due + POLL:
            if not child.until(due):
                return
            yield turn


def poll_steadily(child: Child, poller: Poller, first: float, arrive: Callable[[int], int], *, whole: bool = False) -> None:
    """Polls from ``first`` (``time.monotonic``) on. ``arrive`` says how many rows are new in a round."""
    every = round(ROUND / POLL)
    for turn in _turns(child, first):
        if turn % every == 0:
            poller.newest += arrive(turn // every)
        poller.poll(poller.read_whole() if whole else None)


def poll_imessage(child: Child, poller: Poller, first: float) -> None:
    """Adds four rows once. ``email`` is the reason that they are new again and again."""
    still = 0
    for turn in _turns(child, first):
        if turn == 0:
            continue  # a look or two at the old value first
        if turn == 1 or still > _UNTOUCHED * ROUND / POLL:
            poller.newest += 4
        still = 0 if poller.poll() else still + 1


def poll_email(child: Child, poller: Poller, began: float) -> None:
    """Reads the whole file early in a round, then slowly reads the mail, and writes the whole file back."""
    turn = max(0, int((time.monotonic() - began) / ROUND))
    while child.until(began + turn * ROUND + EMAIL_READS):
        read = poller.read_whole()
        turn += 1
        if not child.until(began + turn * ROUND + EMAIL_WRITES - DRAFT_STANDS):
            return
        poller.newest += 3
        poller.poll(read, lambda: child.wait(DRAFT_STANDS))


# The process that starts the actors, kills some of them, and replaces those that died. It has no threads, so it may fork.

WORKERS = ("worker-1.py", "worker-2.py")


class HeldMessage(NamedTuple):
    """A claim: its name, the process that holds it, and whether the message kills each of its consumers."""

    name: str
    pid: int
    poison: bool


class Scenario(ABC):
    """Running scenario on the queue that ``open_queue`` opens. ``running`` are the actors by pid, ``due`` the times
    (``time.monotonic``) at which they start again, ``dead`` the pids that ended with a claim. ``poison`` is the id of the message
    that kills each of its consumers. ``open_doomed`` opens the queue for a consumer whose death must be known soon."""

    def __init__(self, child: Child, open_queue: OpenQueue, open_doomed: OpenQueue) -> None:
        self.child = child
        self.open_queue = open_queue
        self._open_doomed = open_doomed
        self._poison_at = float("inf")
        self.running: dict[int, str] = {}
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
        """Returns what the actors do that always run, by the names of their processes."""

    @abstractmethod
    def held(self) -> Sequence[HeldMessage]:
        """Lists the claims."""

    @abstractmethod
    def poison_waits(self) -> bool:
        """True if the message that kills each of its consumers waits for the next."""

    def further(self, now: float) -> None:
        """Does what else happens now and then."""
        return

    def before(self) -> None:
        """Sets up the history of the queue: a message whose two earlier consumers were killed, and messages that wait."""
        with self.open_queue() as box:
            self.poison = box.put(poison(), source="teams")
            for _ in range(2):
                os.waitpid(fork(WORKERS[0], self._die_with_it), 0)
                while not box.recover() and self.child.wait(0.05):
                    continue
            for source in ("email", "signal"):
                newest = NEWEST[source]
                box.put_many([row(source, newest - back) for back in range(6)], source=source)

    def _die_with_it(self) -> None:
        with self._open_doomed() as box:
            claim = box.claim()  # kept: one that is dropped goes back by itself
            assert claim is not None
            os.kill(os.getpid(), signal.SIGKILL)

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
        poisoned = self._poison_lives(claims, now)
        if now < self._crash_at or len(self._counted) + poisoned >= MOST_DEAD:
            return
        for claim in claims:
            if self.running.get(claim.pid) in WORKERS and not claim.poison:
                self._crash(claim, now)
                return

    def _poison_lives(self, claims: Sequence[HeldMessage], now: float) -> bool:
        """True if that message waits or is worked on. If it is nowhere, it is put again after a while."""
        holders = {claim.pid for claim in claims if claim.poison}
        waits = not holders and self.poison_waits()
        if not holders and not waits and now >= self._poison_at:
            with self.open_queue() as box:
                self.poison = box.put(poison(), source="teams")
            waits = True
        if holders or waits:
            self._poison_at = now + POISON_AGAIN
        return waits or not holders <= self.dead

    def _count(self, gone: set[str]) -> None:
        for _ in gone - self._counted:
            self.child.report()
        self._counted = gone

    def _crash(self, claim: HeldMessage, now: float) -> None:
        """Kills a worker. A claim that it still held is counted at once, before anybody can put it back."""
        os.kill(claim.pid, signal.SIGKILL)
        os.waitid(os.P_PID, claim.pid, os.WEXITED | os.WNOWAIT)
        if any(claim.name == one.name for one in self.held()):
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


class SpoolScenario(Scenario):
    """Scenario on the directory ``spool``."""

    def __init__(self, child: Child, spool: str) -> None:
        queue = partial(Spool, spool, durable=False)
        super().__init__(child, queue, queue)
        self.spool = spool
        self._litterers: set[int] = set()

    def acts(self) -> Mapping[str, Act]:
        self._litter_at = self.began + FIRST_LITTER
        spool, began, queue = self.spool, self.began, self.open_queue

        def steadily(source: str, first: float, arrive: Callable[[int], int], *, whole: bool = False) -> Act:
            return lambda child: poll_steadily(child, Poller(spool, source), began + first, arrive, whole=whole)

        return {
            "poll_imessage.py": lambda child: poll_imessage(child, Poller(spool, "imessage"), began + 1.9),
            "poll_teams.py": steadily("teams", 0.8, lambda turn: 2),
            "poll_messenger.py": steadily("messenger", 1.1, lambda turn: 2 if turn % 5 == 0 else 0),
            "poll_signal.py": steadily("signal", 0.5, lambda turn: 18 if turn % 10 == 3 else 3, whole=True),
            "poll_email.py": lambda child: poll_email(child, Poller(spool, "email"), began),
            WORKERS[0]: lambda child: consume(child, queue, 0.4, 0.8),
            WORKERS[1]: lambda child: consume(child, queue, 0.3, 0.6),
            "indexer.py": lambda child: consume(child, queue, SLOW_CLAIM, SLOW_CLAIM, SLOW_CLAIM_PAUSE),
            "export_mail.py": lambda child: write_slowly(child, spool),
            "import.py": lambda child: share_lock(child, spool, LOCK_HELD, 0.0, LOCK_PAUSE),
            "backup.py": lambda child: share_lock(child, spool, 1.0, 1.0, 1.0),
        }

    def held(self) -> Sequence[HeldMessage]:
        claims = [names.parse(name, claimed=True) for name in os.listdir(os.path.join(self.spool, "cur"))]
        return [HeldMessage(one.raw, one.pid, one.id == self.poison) for one in claims if one.pid is not None]

    def poison_waits(self) -> bool:
        return any(raw.startswith(self.poison) for raw in os.listdir(os.path.join(self.spool, "new")))

    def further(self, now: float) -> None:
        """Has a writer die in ``tmp`` now and then."""
        files = os.listdir(os.path.join(self.spool, "tmp"))
        writing = {pid for pid, title in self.running.items() if title == LITTERER}
        left = sum(pid in writing or any(f".P{pid}R" in raw for raw in files) for pid in self._litterers)
        if not left:
            self._litter_at = min(self._litter_at, now + LITTER_AGAIN)
        if now < self._litter_at:
            return
        self._litter_at = now + NEXT_LITTER
        if left < MOST_LITTER:
            self._litterers.add(self.start(LITTERER, lambda child: die_writing(child, self.spool)))
