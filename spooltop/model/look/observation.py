"""Facts that a Reader collects in one look, without judging how they change.

``observe`` makes a ``Snapshot`` of them. All times are epoch seconds, sizes bytes.
"""

from __future__ import annotations

from collections.abc import Mapping

from spooltop.records import dataclass, field

from ..capabilities import Capabilities
from ..cursors.state import CursorSource, Poll
from ..row import Row
from ..vocabulary import Box, Key
from .capacity import Capacity, Disk
from .flow import Flow, Tried
from .locks import Lock
from .pause import Pause

__all__ = [
    "AGE_BOUNDS",
    "AHEAD",
    "Ages",
    "BoxState",
    "Observation",
    "QueueFinding",
    "SourceAges",
    "VerdictCounts",
    "Viewer",
    "Watch",
]  # fmt: skip


_NO_BOXES = ("cursors", "tickets", "locks")


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
    note: str = ""
    """Why a queue of this kind never shows this box, though nothing is wrong."""
    due: int | None = None
    """Number of messages in ``new`` that may be taken now, where others are scheduled for later; None: all. ``oldest_at`` is then
    that of those."""


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
"""Boundaries of the age classes in seconds: the geometric buckets of qshape(1), in steps that people say."""
AHEAD = 10.0
"""Seconds in the future from which a message counts as dated ahead."""


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

    "away": the queue does not answer, ``reason`` says why and ``advice`` what to do, and what is shown was seen at ``seen_at``,
    None: never. ``lag`` is
    the number of seconds by which what is seen may be behind the queue itself: a replica; else None.
    """

    mode: str = "once"
    reason: str = ""
    period: float | None = None
    since: float = 0.0
    advice: str = ""
    seen_at: float | None = None
    lag: float | None = None

    @property
    def away(self) -> bool:
        return self.mode == "away"


@dataclass(frozen=True, slots=True)
class QueueFinding:
    """A problem that only this kind of queue has. ``code`` is one of ``model.look.problem.CODES``, ``text`` contains escaped
    names only. It is about ``count`` messages, ``ids``; ``paths`` are their keys' names where they lie in ``box``, or ``filter``
    is the query that finds them there."""

    code: str
    text: str
    count: int
    ids: tuple[str, ...] = ()
    box: Box | None = None
    paths: tuple[str, ...] = ()
    filter: str = ""
    is_note: bool = False


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
    claims_all: bool = True
    """False if ``claims`` are only some of those that ``counts`` has: a queue that counts them itself lists no more."""
    claim_long: float | None = None
    """Seconds from which on a claim in this kind of queue has been held for long; None: as the setting says."""
    proves_death: bool = True
    """False where nothing in this kind of queue can show that the holder of a claim is dead."""
    tried: tuple[Tried, ...] = ()
    """Messages that were tried before, according to their names; ``tried_all`` is False if there may be more. Canaries are left
    out."""
    tried_all: bool = True
    irregular: tuple[Row, ...] = ()
    conflicts: tuple[Key, ...] = ()
    findings: tuple[QueueFinding, ...] = ()
    flow: Flow = field(default_factory=Flow)
    disk: Disk | None = None
    """The file system of a directory; None for a queue that lies elsewhere."""
    program: str = ""
    """The program that the queue belongs to, by the name of its layout; empty for a spool and for what is no directory."""
    absent: Mapping[str, str] = field(default_factory=dict)
    """Views that this kind of queue does not have (tmp, cursors, locks, aside, consumers), and why; and ``files``, where nobody
    can have a file of it open."""
    resources: tuple[Capacity, ...] = ()
    """Capacities of a queue that lies elsewhere: the memory of a server."""
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
    lock_timeouts: int = 0
    """Number of times ever that a wait for one of the spool's own locks timed out, as far as it is counted."""
    paused: Pause | None = None
    """The pause of the spool: no consumer of this engine claims meanwhile. None if it is not paused."""
    consumers: int | None = None
    """Number of running consumers of this engine (held presence locks); None if unknown."""
    consumers_seen: int = 0
    """Number of consumers that are known to run where there may be others: ``consumers`` is None then."""
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
    hidden: tuple[str, ...] = ()
    """Facts that this user may not ask for, in words, each with what hides it."""

    @property
    def as_of(self) -> float | None:
        """Time at which what is shown was true (epoch seconds); None where nothing was ever seen."""
        return self.watch.seen_at if self.watch.away else self.taken_at - (self.watch.lag or 0.0)

    @property
    def capacities(self) -> tuple[Capacity, ...]:
        """How much is left of all that the queue needs."""
        return self.resources if self.disk is None else (*self.disk.capacities, *self.resources)

    @property
    def judges_claims(self) -> bool:
        """True where ``cur`` holds claims that have verdicts: not read mail, not a target without boxes."""
        return self.has_boxes and not self.is_mail

    @property
    def has_boxes(self) -> bool:
        """False for cursors, tickets or lock files alone: there are no messages."""
        return self.layout not in _NO_BOXES

    @property
    def is_mail(self) -> bool:
        """True for a mail folder: its ``cur`` is read mail and nothing in it is stuck (maildir(5))."""
        return self.layout == "mail"

    @property
    def only_messages_wait(self) -> bool:
        """True where an event, or the time of a directory, tells every change: no process, lock or cursor is seen, and the kernel
        reports all changes."""
        live = self.watch.mode == "live" and self.watch.period is None
        judged = self.claims or self.tmp or self.cursors or self.locks or self.consumers or self.paused
        return self.layout == "spool" and self.complete and live and not judged
