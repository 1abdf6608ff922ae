"""What a Reader saw in one look: facts, no judgement on how they move.

``observe`` makes a ``Snapshot`` of it. All times are epoch seconds, sizes bytes.
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
    "Poll",
    "Return",
    "Sight",
    "SourceAges",
    "Tried",
    "VerdictCounts",
    "Viewer",
    "Watch",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class BoxState:
    """One box. ``count`` None: not visible; ``complete`` False: a lower bound. ``bytes`` None: not known; ``bytes_estimated``.
    ``oldest_at``: when its oldest was put (``new``), claimed (``cur``), begun (``tmp``), set aside (others).
    ``error`` says why it is not visible ("tmp is missing", "you may not list it").
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
    """Seconds after which what was set aside here has expired; None: never."""
    expired: int = 0
    """How many have; ``expired_is_bound``: at least so many."""
    expired_is_bound: bool = False


@dataclass(frozen=True, slots=True)
class VerdictCounts:
    """How many claims (``alive``, ``dead``, ``unknown``) and how many files in ``tmp`` (the other three)."""

    alive: int = 0
    dead: int = 0
    unknown: int = 0
    writing: int = 0
    abandoned: int = 0
    tmp_unknown: int = 0


AGE_BOUNDS = (10.0, 60.0, 600.0, 3600.0, 86400.0)
AHEAD = 10.0
"""Seconds: where one class of age ends and the next begins (the geometric buckets of qshape(1), in steps that people say)."""


@dataclass(frozen=True, slots=True)
class SourceAges:
    """One source's share of what was looked at: how many (``total``, undated ones too), and how many in each class of age, the
    youngest first. ``source`` None: the name tells none."""

    source: str | None
    total: int
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Ages:
    """How long what waits in ``new`` has been there. ``counts`` holds one figure for each class of age: younger than each of
    ``bounds`` seconds, then what is older. ``looked_at`` names of ``of`` were looked at; where that is fewer than all, they are
    an even sample. ``undated`` have no time. ``by_source`` are the largest of ``sources`` sources, largest first. ``ahead`` of
    those looked at, put over ``AHEAD`` seconds in the future by their time, stand among the youngest; ``latest_at`` is the last
    such time (epoch seconds), None where there is none.
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
    """One message that was finished: put, claimed and gone at these times, None where not known."""

    put_at: float | None
    claimed_at: float | None
    gone_at: float


@dataclass(frozen=True, slots=True)
class Return:
    """One attempt whose message a consumer gave back. ``ended`` is how it ended, None where the name does not tell; ``delayed``:
    the message has to wait before the next one."""

    id: str
    at: float
    ended: str | None
    delayed: bool

    @property
    def failed(self) -> bool:
        """True where the attempt ended by itself: no death, and not given back to be taken at once."""
        return _failed(self.ended, self.delayed)


@dataclass(frozen=True, slots=True)
class Tried:
    """One message in ``new`` or ``cur`` that has been tried in vain ``attempts`` times; ``ended`` and ``delayed`` as in
    ``Return``."""

    id: str
    box: Box
    attempts: int
    ended: str | None
    delayed: bool

    @property
    def failed(self) -> bool:
        """True where the last attempt ended by itself: no death, and not given back to be taken at once."""
        return _failed(self.ended, self.delayed)


def _failed(ended: str | None, delayed: bool) -> bool:
    return ended != DIED and (ended is not None or delayed)


@dataclass(frozen=True, slots=True)
class Flow:
    """What came and went since the last look. ``exact`` is False where events may be missing: counts are lower bounds then.
    ``measured`` is False where nothing was watched since (the first look). Canaries are not counted. ``done`` are those that left
    in the time of the flow before: only a look later it is known that they came back nowhere.

    ``retried`` counts attempts whose message went back to ``new`` by its consumer or by ``recover``, ``requeued`` those that an
    operator put back. ``returns`` are the newest of the former; ``recovered`` are ids with such a return that are done after all.
    ``shifted`` is by how much operators changed the depth of ``new``, and whoever removed files there: that is no flow.
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
    """Room on the file system of the spool, for the user who runs this (statvfs f_bavail, f_favail). None: not told."""

    fs_type: str = "?"
    bytes_free: int | None = None
    bytes_total: int | None = None
    inodes_free: int | None = None
    inodes_total: int | None = None
    readonly: bool = False
    root_bytes_free: int | None = None
    apart: tuple[Box, ...] = ()
    """Boxes that are on another file system than ``new``: no rename(2) leads from one to the other."""


@dataclass(frozen=True, slots=True)
class LockHolder:
    """A holder or a waiter of a lock; ``pid`` None: not visible from here. ``since`` is when this was first seen."""

    pid: int | None
    command: str | None = None
    user: str | None = None
    since: float | None = None
    alive: bool | None = None


@dataclass(frozen=True, slots=True)
class Lock:
    """One lock file. ``kind``: flock, posix, ofd, soft (its existing is the lock), mkdir (a directory that is one), ticket (a
    queue of them), redis, none. ``verdict``: held, free, blocked, stale, unknown."""

    path: str
    kind: str
    holders: tuple[LockHolder, ...] = ()
    waiters: tuple[LockHolder, ...] = ()
    verdict: str = "unknown"
    evidence: str = ""
    failed: bool = False
    """True where it could not be looked at, as a server that does not answer; ``evidence`` says why."""


@dataclass(frozen=True, slots=True)
class CursorWrite:
    """One line of ``.cursors.journal``: a write by ``CursorFile.advance``, under its lock. ``old`` is what it replaced."""

    at: float
    source: str
    old: Json
    new: Json
    writer: LockHolder


@dataclass(frozen=True, slots=True)
class CursorVersion:
    """A content that a cursor file had between two looks. ``read_at``: when it was read; ``mtime``: when it was written by the
    file's own time. ``unread``: how many writes between the version before and this one were not read; None: not known.
    """

    read_at: float
    mtime: float
    sections: Mapping[str, Json]
    inode: int = 0
    unread: int | None = None
    writer: LockHolder | None = None


@dataclass(frozen=True, slots=True)
class CursorSource:
    """One cursor file as it was read. ``sections`` is source → value; None where it does not parse (``error`` says why).
    ``shared`` is False for one file per source. ``lock_holders`` are those seen on its lock when it was read.
    """

    path: str
    shared: bool
    sections: Mapping[str, Json] | None
    error: str = ""
    inode: int = 0
    mtime: float = 0.0
    size: int = 0
    lock_holders: tuple[LockHolder, ...] = ()
    litter: tuple[str, ...] = ()
    """Temporary files beside it that tell of an unsafe writer, names as on disk."""
    journal: tuple[CursorWrite, ...] = ()
    """Writes that the journal beside it tells of since the look before (at the first look: of the last hour), in their order. All
    of them were published before the file was read."""
    lock_there: bool | None = None
    """Whether ``.cursors.lock`` stands beside it: without it nobody locks by it. None: not looked."""
    writer: LockHolder | None = None
    """Who published what was read, where the kernel was asked to tell (fanotify(7)) and did."""
    earlier: tuple[CursorVersion, ...] = ()
    """What it held since the look before and holds no more, oldest first."""
    read_at: float | None = None
    """When it was read, None: at the time of the look."""
    unread: int | None = None
    """As of a ``CursorVersion``: how many writes just before this content were not read."""
    left_out: int = 0
    """Sources of this file that are not among ``sections``, because they are too many or their names too long."""
    cut: frozenset[str] = frozenset()
    """Sources whose section is too large to be kept: its short fields alone, or how long it is, stand in ``sections``."""


@dataclass(frozen=True, slots=True)
class Poll:
    """One poll as its log tells: ``new`` messages from the cursor ``start`` on, ``end`` after it, as they stand in ``line``."""

    source: str
    at: float
    new: int
    start: str
    end: str
    line: str = ""


@dataclass(frozen=True, slots=True)
class CursorSection:
    """One source's value in one file, as written: what the history keeps. ``shown`` is the cursor in it, escaped ("" where it
    is the value itself). ``held_by`` are those who were seen to hold the lock: a look comes after the write, so that empty is
    "not seen" and never "nobody", unless ``lock_there`` is False: without a lock file nobody held it."""

    at: float
    value: Json
    inode: int
    also_changed: tuple[str, ...] = ()
    held_by: tuple[LockHolder, ...] = ()
    shown: str = ""
    writer: LockHolder | None = None
    """Who wrote it, where the journal or the kernel tells; nobody is guessed."""
    lock_there: bool | None = None
    back: bool = False
    """True where the cursor went back: to a smaller value, or to a token that it had before."""
    lost: bool = False
    """True where that was a lost update and no rewind."""
    journaled: bool = False
    """True where the journal tells of it: written by ``CursorFile.advance``, under the lock."""


@dataclass(frozen=True, slots=True)
class Viewer:
    """Who runs this, and what they may do, in words: ("memex", "read-write")."""

    user: str
    uid: int
    words: str = ""


@dataclass(frozen=True, slots=True)
class Watch:
    """How changes are noticed. ``mode``: "live" (events and scans), "scan" (scans only, every ``period`` s), "once".
    Live with a ``period``: not all changes send an event, so it is scanned besides; ``reason`` is the kind of file system.
    ``since`` is when watching began.
    """

    mode: str = "once"
    reason: str = ""
    period: float | None = None
    since: float = 0.0


@dataclass(frozen=True, slots=True)
class Sight:
    """All that one look saw. ``claims`` and ``tmp`` are judged rows, oldest first, at most ``Reader.judged_at_most`` of each;
    ``counts`` is over all that was judged, ``judged_all`` False where it was not all of them.
    ``strange`` are rows in any box that are not plain messages (fifos, too long names, two links).
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
    """Messages that were tried before, as their names tell; ``tried_all`` False where there may be more. Canaries left out."""
    tried_all: bool = True
    strange: tuple[Row, ...] = ()
    conflicts: tuple[Key, ...] = ()
    flow: Flow = field(default_factory=Flow)
    disk: Disk = field(default_factory=Disk)
    cursors: tuple[CursorSource, ...] = ()
    polls: tuple[Poll, ...] = ()
    """Polls that logs told of since the look before, in the order of each log."""
    writers_watched: bool = False
    """True where the kernel tells who writes the cursor files (fanotify(7))."""
    locks: tuple[Lock, ...] = ()
    locks_had: int = 0
    """How often the engine's own locks were had in the last five minutes, as far as it counts."""
    locks_given_up: int = 0
    """How often they were waited for in vain."""
    suppressed: Mapping[str, int] = field(default_factory=dict)
    """How many puts were none, since their ``key`` or ``id`` was there, by source ("" for none), as far as it is counted."""
    consumers: int | None = None
    """Living consumers of the protocol's own kind (presence locks held); None where it cannot be told."""
    last_claim_at: float | None = None
    ages: Ages | None = None
    """Of what waits in ``new``; None where that is not visible or is no queue."""
    who: Viewer = field(default_factory=lambda: Viewer("?", -1))
    capabilities: Capabilities = field(default_factory=Capabilities)
    watch: Watch = field(default_factory=Watch)
    clock_jumped: float | None = None
    """Seconds by which the wall clock jumped against CLOCK_BOOTTIME since watching began, None for none over 2 s."""
    generation: int = 0
    """Changes whenever a list may have changed."""
