"""Facts that a Reader collects in one look, without judging how they change.

``observe`` makes a ``Snapshot`` of them. All times are epoch seconds, sizes bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .capabilities import Capabilities
from .row import Row
from .vocabulary import DIED, Box, Json, Key

__all__ = [
    "AGE_BOUNDS",
    "AHEAD",
    "Ages",
    "BoxState",
    "Completion",
    "CursorSection",
    "CursorSource",
    "CursorVersion",
    "CursorWrite",
    "Disk",
    "Flow",
    "Lock",
    "LockHolder",
    "Observation",
    "Poll",
    "Return",
    "SourceAges",
    "Tried",
    "VerdictCounts",
    "Viewer",
    "Watch",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class BoxState:
    """A box.

    ``count`` None: not visible; ``complete`` False: ``count`` is a lower bound. ``bytes`` None: not known; ``bytes_estimated``.
    ``oldest_at``: when its oldest was put (``new``), claimed (``cur``), begun (``tmp``), set aside (others). ``error`` says why
    the box is not visible ("tmp is missing", "permission denied").
    """

    box: Box
    count: int | None = 0
    complete: bool = True
    bytes: int | None = None
    bytes_estimated: bool = False
    oldest_at: float | None = None
    error: str = ""
    as_of: float = 0.0
    retention: float | None = None
    """Seconds after which a message that was set aside here expires; None: never."""
    expired: int = 0
    """Number of expired messages; a lower bound if ``expired_is_bound``."""
    expired_is_bound: bool = False


@dataclass(frozen=True, slots=True)
class VerdictCounts:
    """Counts of claims (``alive``, ``dead``, ``unknown``) and of files in ``tmp`` (the other three)."""

    alive: int = 0
    dead: int = 0
    unknown: int = 0
    writing: int = 0
    abandoned: int = 0
    tmp_unknown: int = 0


AGE_BOUNDS = (10.0, 60.0, 600.0, 3600.0, 86400.0)
AHEAD = 10.0
"""Boundaries of the age classes in seconds: the geometric buckets of qshape(1), in steps that people say."""


@dataclass(frozen=True, slots=True)
class SourceAges:
    """A source's share of the sample: ``total``, including undated messages, and the number in each age class, the youngest
    first. ``source`` None: the name has none."""

    source: str | None
    total: int
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Ages:
    """Ages of the messages that wait in ``new``.

    ``counts`` holds one figure for each age class: younger than each of ``bounds`` seconds, then the older ones. ``looked_at`` of
    ``of`` names were read; if that is not all, they are an even sample. ``undated`` have no time. ``by_source`` are the largest
    of ``sources`` sources, largest first. ``ahead`` counts messages dated more than ``AHEAD`` seconds in the future; they are
    among the youngest. ``latest_at`` is the last such time (epoch seconds), None if there is none.
    """

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    by_source: tuple[SourceAges, ...]
    sources: int
    looked_at: int
    of: int
    undated: int = 0
    ahead: int = 0
    latest_at: float | None = None


@dataclass(frozen=True, slots=True)
class Completion:
    """A finished message: put, claimed and gone at these times, None if not known."""

    put_at: float | None
    claimed_at: float | None
    gone_at: float


@dataclass(frozen=True, slots=True)
class Return:
    """An attempt whose message was given back by its consumer. ``ended`` is how the attempt ended, None if the name does not
    say; ``delayed``: the message waits before the next attempt."""

    id: str
    at: float
    ended: str | None
    delayed: bool

    @property
    def failed(self) -> bool:
        """True if the attempt failed: neither did its consumer die, nor was the message given back for immediate delivery."""
        return _failed(self.ended, self.delayed)


@dataclass(frozen=True, slots=True)
class Tried:
    """A message in ``new`` or ``cur`` with ``attempts`` attempts without success; ``ended`` and ``delayed`` as in
    ``Return``."""

    id: str
    box: Box
    attempts: int
    ended: str | None
    delayed: bool

    @property
    def failed(self) -> bool:
        """True if the last attempt failed: neither did its consumer die, nor was the message given back for immediate
        delivery."""
        return _failed(self.ended, self.delayed)


def _failed(ended: str | None, delayed: bool) -> bool:
    return ended != DIED and (ended is not None or delayed)


@dataclass(frozen=True, slots=True)
class Flow:
    """Arrivals and departures since the last look.

    ``exact`` is False if events may be missing: counts are lower bounds then. ``measured`` is False if nothing was watched since
    (the first look). Canaries are not counted. ``done`` counts those that left during the previous flow: only one look later it
    is known that they did not come back.

    ``retried`` counts attempts whose message was returned to ``new`` by its consumer or by ``recover``, ``requeued`` those that
    an operator moved back. ``returns`` are the newest of the former; ``recovered`` are ids with such a return that are done after
    all. ``shifted`` is the change in the depth of ``new`` by operators, and by removed files: it does not count as flow.
    """

    since: float = 0.0
    until: float = 0.0
    arrived: int = 0
    claimed: int = 0
    requeued: int = 0
    done: int = 0
    arrived_by_source: Mapping[str, int] = field(default_factory=dict)
    completions: tuple[Completion, ...] = ()
    exact: bool = True
    measured: bool = False
    retried: int = 0
    returns: tuple[Return, ...] = ()
    recovered: tuple[str, ...] = ()
    shifted: int = 0


@dataclass(frozen=True, slots=True)
class Disk:
    """Free space on the file system of the spool, for the current user (statvfs f_bavail, f_favail). None: not known."""

    fs_type: str = "?"
    bytes_free: int | None = None
    bytes_total: int | None = None
    inodes_free: int | None = None
    inodes_total: int | None = None
    readonly: bool = False
    root_bytes_free: int | None = None
    apart: tuple[Box, ...] = ()
    """Boxes on another file system than ``new``: rename(2) between the two fails."""


@dataclass(frozen=True, slots=True)
class LockHolder:
    """A holder or a waiter of a lock; ``pid`` None: not visible from here. ``since`` is when it was first seen."""

    pid: int | None
    command: str | None = None
    user: str | None = None
    since: float | None = None
    alive: bool | None = None


@dataclass(frozen=True, slots=True)
class Lock:
    """A lock file.

    ``kind``: flock, posix, ofd, soft (the existing file is the lock), mkdir (a directory is the lock), ticket (a queue of
    tickets), redis, none. ``verdict``: held, free, blocked, stale, unknown.
    """

    path: str
    kind: str
    holders: tuple[LockHolder, ...] = ()
    waiters: tuple[LockHolder, ...] = ()
    verdict: str = "unknown"
    evidence: str = ""
    failed: bool = False
    """True if the lock could not be read, for example because a server does not answer; ``evidence`` says why."""


@dataclass(frozen=True, slots=True)
class CursorWrite:
    """A line of ``.cursors.journal``: a write by ``CursorFile.advance``, under its lock. ``old`` is the replaced value."""

    at: float
    source: str
    old: Json
    new: Json
    writer: LockHolder


@dataclass(frozen=True, slots=True)
class CursorVersion:
    """A content that a cursor file had between two looks.

    ``read_at``: when it was read; ``mtime``: when it was written by the file's own time. ``unread``: number of writes between the
    previous version and this one that were not read; None: not known.
    """

    read_at: float
    mtime: float
    sections: Mapping[str, Json]
    inode: int = 0
    unread: int | None = None
    writer: LockHolder | None = None


@dataclass(frozen=True, slots=True)
class CursorSource:
    """A cursor file as it was read.

    ``sections`` is source → value; None if it does not parse (``error`` says why). ``shared`` is False for one file per source.
    ``lock_holders`` are those that held its lock when it was read.
    """

    path: str
    shared: bool
    sections: Mapping[str, Json] | None
    error: str = ""
    inode: int = 0
    mtime: float = 0.0
    size: int = 0
    lock_holders: tuple[LockHolder, ...] = ()
    temp_files: tuple[str, ...] = ()
    """Temporary files beside it that an unsafe writer leaves, names as on disk."""
    journal: tuple[CursorWrite, ...] = ()
    """Writes that the journal beside it records since the previous look (at the first look: of the last hour), in their order.
    All of them were published before the file was read."""
    lock_there: bool | None = None
    """True if ``.cursors.lock`` exists beside it: without it nobody takes the lock. None: not checked."""
    writer: LockHolder | None = None
    """The process that published this content, if the kernel reported it (fanotify(7))."""
    earlier: tuple[CursorVersion, ...] = ()
    """Contents since the previous look that have been replaced, oldest first."""
    read_at: float | None = None
    """When it was read, None: at the time of the look."""
    unread: int | None = None
    """Number of writes just before this content that were not read, as for a ``CursorVersion``."""
    left_out: int = 0
    """Number of sources of this file that are not among ``sections``, because they are too many or their names too long."""
    cut: frozenset[str] = frozenset()
    """Sources whose section is too large to be kept: ``sections`` has only its short fields, or its length."""


@dataclass(frozen=True, slots=True)
class Poll:
    """A poll according to its log: ``new`` messages from the cursor ``start``, ``end`` after it, as written in ``line``."""

    source: str
    at: float
    new: int
    start: str
    end: str
    line: str = ""


@dataclass(frozen=True, slots=True)
class CursorSection:
    """A source's value in one file, as written: an entry of the history.

    ``shown`` is the cursor in it, escaped ("" if it is the value itself). ``held_by`` are those that were seen to hold the lock.
    A look comes after the write, so empty means "not seen", never "nobody", unless ``lock_there`` is False: without a lock file
    nobody held it.
    """

    at: float
    value: Json
    inode: int
    also_changed: tuple[str, ...] = ()
    held_by: tuple[LockHolder, ...] = ()
    shown: str = ""
    writer: LockHolder | None = None
    """The process that wrote it, if the journal or the kernel reported it; it is never guessed."""
    lock_there: bool | None = None
    back: bool = False
    """True if the cursor went back: to a smaller value, or to a token that it had before."""
    lost: bool = False
    """True if that was a lost update and not a rewind."""
    journaled: bool = False
    """True if the journal records it: written by ``CursorFile.advance``, under the lock."""


@dataclass(frozen=True, slots=True)
class Viewer:
    """The user who runs this, and their rights in words: ("memex", "read-write")."""

    user: str
    uid: int
    words: str = ""


@dataclass(frozen=True, slots=True)
class Watch:
    """Method by which changes are noticed.

    ``mode``: "live" (events and scans), "scan" (scans only, every ``period`` s), "once". "live" with a ``period``: not all
    changes send an event, so the boxes are scanned as well; ``reason`` is the kind of file system. ``since`` is when watching
    began.
    """

    mode: str = "once"
    reason: str = ""
    period: float | None = None
    since: float = 0.0


@dataclass(frozen=True, slots=True)
class Observation:
    """All facts of one look.

    ``claims`` and ``tmp`` are judged rows, oldest first, at most ``Reader.judged_at_most`` of each. ``counts`` covers all judged
    messages, ``judged_all`` is False if some were not judged. ``irregular`` are rows in any box that are not plain messages
    (FIFOs, names that are too long, two links).
    """

    target: str
    layout: str
    taken_at: float
    complete: bool
    boxes: Mapping[Box, BoxState]
    claims: tuple[Row, ...] = ()
    tmp: tuple[Row, ...] = ()
    counts: VerdictCounts = field(default_factory=VerdictCounts)
    judged_all: bool = True
    tried: tuple[Tried, ...] = ()
    """Messages that were tried before, according to their names; ``tried_all`` is False if there may be more. Canaries are left
    out."""
    tried_all: bool = True
    irregular: tuple[Row, ...] = ()
    conflicts: tuple[Key, ...] = ()
    flow: Flow = field(default_factory=Flow)
    disk: Disk = field(default_factory=Disk)
    cursors: tuple[CursorSource, ...] = ()
    polls: tuple[Poll, ...] = ()
    """Polls that were logged since the previous look, in the order of each log."""
    writers_watched: bool = False
    """True if the kernel reports who writes the cursor files (fanotify(7))."""
    locks: tuple[Lock, ...] = ()
    locks_had: int = 0
    """Number of times the engine's own locks were acquired in the last five minutes, as far as it is counted."""
    locks_given_up: int = 0
    """Number of times that acquiring them timed out."""
    suppressed: Mapping[str, int] = field(default_factory=dict)
    """Number of puts that were duplicates, since their ``key`` or ``id`` existed, by source ("" for none), as far as it is
    counted."""
    consumers: int | None = None
    """Number of running consumers of this engine (held presence locks); None if unknown."""
    last_claim_at: float | None = None
    ages: Ages | None = None
    """Ages of the messages that wait in ``new``; None if that is not visible or not a queue."""
    who: Viewer = field(default_factory=lambda: Viewer("?", -1))
    capabilities: Capabilities = field(default_factory=Capabilities)
    watch: Watch = field(default_factory=Watch)
    clock_jumped: float | None = None
    """Seconds by which the wall clock jumped against CLOCK_BOOTTIME since watching began, None for none over 2 s."""
    generation: int = 0
    """Changes whenever a list may have changed."""
