"""The scenes of the demo: its directory, timing and messages, the programs that play, and what starts, kills and replaces them.

The timing is faster than reality, so that everything is visible within ten seconds. All times are in seconds. The
five pollers run in rounds of six seconds. ``email`` reads the whole cursor file early in a round and writes all of it back at the
beginning of the next: what ``imessage`` saved in between is lost. The others save between that write and that read, so that only
``imessage`` is reverted.
"""

from __future__ import annotations

import fcntl
import io
import json
import math
import os
import random
import re
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from spooltop.backends.directory import trials
from spooltop.backends.log_store import STATE_DIR, state_of
from spooltop.engine import CursorFile, Spool, names
from spooltop.engine.syscalls import end_with_parent, overwrite_memory, set_process_name
from spooltop.model import DIED, ClaimLost, Frozen, Json, JsonObject, NotASpool, Queue, QueueClaim, Refused, SpooltopError
from spooltop.model.vocabulary import escape

# The directory of a demo, and the removal of directories that killed demos left behind.

_PREFIX = "spooltop-demo-"
STREAM, WORKING = "memex", "workers"
"""The stream of a demo on a server, and the group whose messages are worked on."""


@contextmanager
def scratch_dir() -> Iterator[str]:
    """Makes a new directory below that for temporary files, and removes it at the end."""
    scratch = trials.ScratchDir(tempfile.gettempdir(), _PREFIX)
    try:
        yield scratch.path
    finally:
        scratch.close()
        _remove_logs(scratch.path)


def socket_in(base: str) -> str:
    """Returns the path of the server's socket in the directory of a demo."""
    return os.path.join(base, "redis.sock")


def stream_address(base: str) -> str:
    """Returns the address of the group whose messages are worked on."""
    return f"unix://{quote(socket_in(base))}#{STREAM}/{WORKING}"


def make_kept(path: str) -> str:
    """Makes a directory at ``path`` that is kept, and returns its full path. Raises ``Refused`` if the path exists,
    ``NotASpool`` if its parent is missing."""
    full = os.path.abspath(path)
    try:
        os.mkdir(full)
    except FileExistsError:
        if not os.path.isdir(full) or os.listdir(full):
            raise Refused("demo: the directory exists already", "name a new or an empty directory", path=path) from None
    except FileNotFoundError:
        raise NotASpool(
            "demo: its parent directory does not exist", f"first: mkdir -p {escape(os.path.dirname(full))}", path=path
        ) from None
    return full


def sweep() -> None:
    """Removes the directories that killed demos of this user left."""
    above = tempfile.gettempdir()
    for name in trials.sweep(above, _PREFIX):
        _remove_logs(os.path.join(above, name))


def left_behind() -> list[str]:
    """Returns the directories that killed demos of this user left, as far as the kernel's table of locks shows. Changes
    nothing."""
    above = tempfile.gettempdir()
    return [os.path.join(above, name) for name in trials.left_behind(above, _PREFIX)]


def _remove_logs(base: str) -> None:
    """Removes what root's operations on the stream of a demo wrote elsewhere: everybody else's logs are in the directory."""
    if os.geteuid() == 0:
        shutil.rmtree(state_of(STATE_DIR, stream_address(base)), ignore_errors=True)


# Processes that end with the process that started them, however it ends.
# Three mechanisms work together: the kernel kills each child when its parent ends (prctl(2), PR_SET_PDEATHSIG); each child reads
# end-of-file from the lifeline when the demo ends; and the demo reads end-of-file from the reports when the last child has ended.

_KILLED_AFTER = 3.0


class Child(Frozen):
    """Descriptors of the two pipes, which every process of the demo holds."""

    lifeline: int
    reports: int

    def wait(self, seconds: float) -> bool:
        """Waits; False, at once, when the demo is over."""
        return not _readable(self.lifeline, seconds)

    def report(self) -> None:
        """Reports one more dead claim to the demo."""
        try:
            os.write(self.reports, b"d")
        except OSError:
            return  # the demo is over: nobody counts any more


Act = Callable[[Child], None]
"""Work of a process of the demo, until the demo is over."""


@contextmanager
def playing(act: Act, *, errors: str) -> Iterator[list[int]]:
    """Forks the first child, which starts all others, at once, so before any thread is started: it runs ``act``. At the end all
    children are ended, and the last is waited for. Yields what becomes the numbers of dead claims that occurred. Tracebacks of
    children are appended to the file ``errors``."""
    their_end, lifeline = os.pipe()
    reports, written = os.pipe()
    os.set_blocking(written, False)
    deaths: list[int] = []

    def first() -> None:
        os.close(lifeline)
        os.close(reports)
        os.setsid()  # neither Ctrl-C nor a stopped terminal is meant for them
        _own_streams(errors)
        act(Child(their_end, written))

    def gone() -> bool:
        """Reads the reports until no writer is left. False if that takes too long."""
        end = time.monotonic() + _KILLED_AFTER
        while _readable(reports, end - time.monotonic()):
            if not (part := os.read(reports, 4096)):
                return True
            deaths.append(len(part))
        return False

    sys.stdout.flush()
    sys.stderr.flush()
    pid = fork("spooltop-demo", first)
    os.close(their_end)
    os.close(written)
    try:
        yield deaths
    finally:
        os.close(lifeline)
        if not gone():
            os.kill(pid, signal.SIGKILL)  # not waited for yet, so the number is still its own
            gone()
        os.waitpid(pid, 0)
        os.close(reports)


def _readable(fd: int, seconds: float) -> bool:
    poll = select.poll()  # unlike select(2) it takes descriptors from 1024 on
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(max(0, math.ceil(seconds * 1000))))


def fork(title: str, act: Callable[[], None]) -> int:
    """Forks a child that runs ``act`` under the name ``title`` and ends; it is killed when this process ends. Returns its pid."""
    parent = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        if end_with_parent(signal.SIGKILL, parent):
            _call_it(title)
            act()
            code = 0
    except BaseException:  # noqa: BLE001  nothing may go on into the code of the parent
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _own_streams(errors: str) -> None:
    """Takes the terminal away from this process: what it writes to stderr is appended to the file ``errors``."""
    null = os.open(os.devnull, os.O_RDWR)
    log = os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    for fd, stream in ((null, 0), (null, 1), (log, 2)):
        os.dup2(fd, stream)
    os.close(null)
    os.close(log)


def _call_it(title: str) -> None:
    """Sets the process name that ``ps`` and the dashboard show: proc(5) ``comm``, and ``cmdline`` in place of the original
    arguments."""
    sys.orig_argv[:] = title.split()
    set_process_name(os.fsencode(title.split()[0]))
    try:
        with open("/proc/self/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        start, end = int(fields[45]), int(fields[46])
    except (OSError, IndexError, ValueError):
        return  # then it goes by the name of the demo
    if 0 < start < end:
        words = os.fsencode(title).replace(b" ", b"\0")[: end - start - 1]
        overwrite_memory(start, words.ljust(end - start, b"\0"))


# Timing.

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
EMAIL_READS = 1.6
EMAIL_WRITES_AFTER = 4.4
DRAFT_STANDS = 0.2
"""Time for which the unsafe writer's ``cursors.json.tmp`` is visible before it is renamed."""

FIRST_CRASH = 2.0
NEXT_CRASH = 25.0
CRASH_AGAIN = 4.0
"""Time after which a consumer is killed if no dead claim is left, so that there is always one to requeue."""
MOST_DEAD = 2
"""Number of dead claims, without that of the poison message, at which no consumer is killed until some are put back."""
POISON_WORK = 12.0
"""Time for which the poison message is processed before it kills its consumer."""
POISON_AGAIN = 60.0
"""Time after which the poison message is put again if nobody holds it, and it does not wait."""
RESTART = 1.5
LAST_WORK = 2.0
"""Time that consumers of a spool that is kept have to give their claims back when the demo is over."""

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
        piece = b"".join(json.dumps(json.loads(row("email", rowid))).encode() + b"\n" for rowid in range(_ROWS))
        self._pieces = (piece for _ in range(pieces) if child.wait(every))
        self._dies = dies

    def read(self, size: int | None = -1) -> bytes:
        piece = next(self._pieces, b"")
        if not piece and self._dies:
            os.kill(os.getpid(), signal.SIGKILL)
        return piece


def write_slowly(child: Child, spool: str) -> None:
    """Writes a message for half a minute, pauses, and starts again."""
    pause = SLOW_PAUSE / 5
    with Spool(spool, durable=False) as box:
        while child.wait(pause):
            box.put(Export(child, SLOW_CHUNKS, SLOW_CHUNK_EVERY), source="email")
            pause = SLOW_PAUSE


def die_writing(child: Child, spool: str) -> None:
    """Writes the beginning of a message and is killed, once few enough files of dead writers are in ``tmp``."""
    tmp, due = os.path.join(spool, "tmp"), time.monotonic() + NEXT_LITTER
    while left := sum(not os.path.exists(f"/proc/{pid}") for pid in re.findall(r"\.P([0-9]+)R", " ".join(os.listdir(tmp)))):
        if left < MOST_LITTER and time.monotonic() >= due:
            break
        if not child.wait(LITTER_AGAIN):
            return
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
    record: dict[str, Any] = {}
    with suppress(ValueError, TypeError):  # what a person puts into a demo need not be JSON of an object
        record.update(json.loads(claim.data))
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


def poll(
    child: Child, spool: str, source: str, first: float, arrived: Callable[[int], int], whole: bool = False, lag: float = 0.0
) -> None:  # fmt: skip
    """Polls from ``first`` (``time.monotonic``) on: puts the new rows, then saves the cursor. ``arrived`` says how many rows have
    come by a round. ``whole``: saves all that it has read before, not only its own section; ``lag`` are the seconds in between,
    of a poller that polls once in a round."""
    path, every = Path(spool, CURSORS), ROUND if lag else POLL
    cursors = CursorFile(path)
    log = Path(spool, LOGS, f"poll-{source}.log")
    with Spool(spool, durable=False) as box:
        while child.wait(every - (time.monotonic() - first) % every):
            newest = NEWEST[source] + arrived(int((time.monotonic() - first) // ROUND))
            try:
                read = cursors.read()
                if lag and not child.wait(lag):
                    return
                value = _usable(source, read, newest)
                box.put_many([row(source, rowid) for rowid in range(value + 1, newest + 1)], source=source)
                if whole:
                    draft = path.with_name(f"{CURSORS}.tmp")  # the same name for all pollers
                    draft.write_text(json.dumps({**read, source: section(source, newest)}), encoding="utf-8")
                    if lag:
                        child.wait(DRAFT_STANDS)
                    draft.replace(path)
                elif value != newest:
                    cursors.advance(source, section(source, newest))
                said = f"cursor {value} -> {newest}" if newest != value else f"cursor={value}"
                line = f"poll ok: {newest - value} new ({said})"
            except (SpooltopError, OSError) as error:
                line = f"poll failed: {error}"
            with suppress(OSError), log.open("a", encoding="utf-8") as file:  # on a full disk the poll went well all the same
                if file.tell() > _LOG_MOST:
                    log.replace(f"{log}.1")
                print(time.strftime("%H:%M:%S"), line, file=file)


def _usable(source: str, cursors: JsonObject, newest: int) -> int:
    """Returns the cursor of ``source``, or ``newest`` where what is stored is none: a person may have stored anything."""
    value = cursors.get(source)
    if isinstance(value, dict):
        value = value.get(FIELDS.get(source, ""))
    return max(value, newest - _ROWS_AT_ONCE) if isinstance(value, int) and 0 <= value <= newest else newest


# The process that starts the actors, kills some of them, and replaces those that died. It has no threads, so it may fork.

WORKERS = ("worker-1.py", "worker-2.py")

Acts = Mapping[str, tuple[Any, ...]]
"""Functions of actors, each with what it is called with after the ``Child``, by the names of their processes."""


class Scenario(ABC):
    """Running scenario on the queue that ``open_queue`` opens. ``running`` are the actors by pid, ``due`` the times
    (``time.monotonic``) at which they start again. ``poison`` is the id of the message that kills each of its consumers."""

    def __init__(self, child: Child, open_queue: OpenQueue) -> None:
        self.child = child
        self.open_queue = open_queue
        self.running: dict[int, str] = {}
        self._counted: set[str] = set()

    def run(self, *, kept: bool) -> None:
        """Plays until the demo is over. ``kept``: consumers then give their claims back; who is still at work then is killed, as
        its work is not needed."""
        self.began = time.monotonic()
        self._crash_at = self.began + FIRST_CRASH
        self._poison_at = self.began + POISON_AGAIN
        self._acts = self.acts()
        self.before()
        self.due = dict.fromkeys(self._acts, self.began)
        while True:
            now = time.monotonic()
            self._reap(now)
            for title in [title for title, at in self.due.items() if at <= now]:
                del self.due[title]
                act, *more = self._acts[title]
                self.running[fork(title, partial(act, self.child, *more))] = title
            self._casualties(now)
            if not self.child.wait(TICK):
                break
        end = time.monotonic() + (LAST_WORK if kept else 0.0)
        while self.running and time.monotonic() < end:
            time.sleep(0.02)
            self._reap(end)
        for pid in self.running:
            os.kill(pid, signal.SIGKILL)
        for pid in self.running:  # left to an init that waits for none, as in a container, each would stay as a zombie
            os.waitpid(pid, 0)

    @abstractmethod
    def acts(self) -> Acts:
        """Returns what the actors do that always run, and with what, by the names of their processes."""

    def consumers(self) -> Acts:
        """Returns the consumers, which every queue has, in the form of ``acts``."""
        return {
            WORKERS[0]: (consume, self.open_queue, 0.4, 0.8),
            WORKERS[1]: (consume, self.open_queue, 0.3, 0.6),
            "indexer.py": (consume, self.open_queue, SLOW_CLAIM, SLOW_CLAIM, SLOW_CLAIM_PAUSE),
        }

    @abstractmethod
    def held(self) -> dict[str, int]:
        """Returns the claims: their names, which begin with the id of the message, and the processes that hold them."""

    def before(self) -> None:
        """Sets up the history of the queue: a message whose two earlier consumers died, and messages that wait."""
        with self.open_queue() as box:
            self.poison = box.put(poison(), source="teams")
            for _ in range(2):
                if (claim := box.claim(timeout=_AWAKE)) is not None:
                    claim.release(ended=DIED)
            for source in ("email", "signal"):
                newest = NEWEST[source]
                box.put_many([row(source, newest - back) for back in range(6)], source=source)

    def _reap(self, now: float) -> None:
        while self.running:
            pid, _ = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            title = self.running.pop(pid)
            if title in self._acts:
                self.due[title] = now + RESTART

    def _casualties(self, now: float) -> None:
        """Counts the dead claims, and kills a worker now and then."""
        claims = self.held()
        dead = {name for name, pid in claims.items() if not os.path.exists(f"/proc/{pid}")}
        for _ in dead - self._counted:
            self.child.report()
        self._counted = dead
        if not dead:
            self._crash_at = min(self._crash_at, now + CRASH_AGAIN)
        others = [name for name in claims if not name.startswith(self.poison)]
        if len(others) < len(claims):
            self._poison_at = now + POISON_AGAIN
        elif now >= self._poison_at:
            self._poison_at = now + POISON_AGAIN
            with self.open_queue() as box:
                if box.peek() != self.poison:
                    self.poison = box.put(poison(), source="teams")
        working = [claims[name] for name in others if self.running.get(claims[name]) in WORKERS]
        if working and now >= self._crash_at and len(dead.intersection(others)) < MOST_DEAD:
            os.kill(working[0], signal.SIGKILL)
            self._crash_at = now + NEXT_CRASH


# The scenario in a directory: producers with cursors, consumers, writers that die, and programs that share a lock.


class SpoolScenario(Scenario):
    """Scenario on the directory ``spool``."""

    def __init__(self, child: Child, spool: str) -> None:
        super().__init__(child, partial(Spool, spool, durable=False))
        self.spool = spool

    def acts(self) -> Acts:
        spool, began = self.spool, self.began
        return {
            "poll_imessage.py": (poll, spool, "imessage", began + 3.9, lambda turn: 4),
            "poll_teams.py": (poll, spool, "teams", began + 0.8, lambda turn: 2 * turn + 2),
            "poll_messenger.py": (poll, spool, "messenger", began + 1.1, lambda turn: 2 * (turn // 5) + 2),
            "poll_signal.py": (poll, spool, "signal", began + 0.5, lambda turn: 3 * turn + 3 + (turn + 7) // 10 * 15, True),
            "poll_email.py": (poll, spool, "email", began + EMAIL_READS, lambda turn: 3 * turn + 3, True, EMAIL_WRITES_AFTER),
            **self.consumers(),
            "export_mail.py": (write_slowly, spool),
            "fetch_mail.py": (die_writing, spool),
            "import.py": (share_lock, spool, LOCK_HELD, 0.0, LOCK_PAUSE),
            "backup.py": (share_lock, spool, 1.0, 1.0, 1.0),
        }

    def held(self) -> dict[str, int]:
        claims = [names.parse(name, claimed=True) for name in os.listdir(os.path.join(self.spool, "cur"))]
        return {one.raw: one.pid for one in claims if one.pid is not None}
