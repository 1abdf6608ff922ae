"""Facts that a Reader collects in one look, and the frozen state of a spool that ``observe`` makes of them for the front ends.

All times are epoch seconds, sizes bytes. Counts and lists on a screen come from one snapshot.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta

from .backend import Capabilities
from .plan import Selection
from .vocabulary import (
    DIED,
    Box,
    Frozen,
    Key,
    Lock,
    Owner,
    Row,
    Verdict,
    age,
    at_most,
    count,
    duration,
    escape,
    percent,
    since,
    size,
)

if TYPE_CHECKING:
    from spooltop.cursors.model import Cursor, CursorSource, Poll

# Capacity: how much is left of what a queue needs, the space of a file system or the memory of a server.


class Capacity(Frozen):
    """Free part of a resource, in ``unit``. None: not known.

    ``name``: disk, inodes, memory, or what a backend calls its own. ``readonly``: nothing can be written to it. ``full``
    says what happens where nothing is left. ``per_user``: others may have more; ``reserved`` is what root has in all.
    """

    name: str
    free: int | None = None
    total: int | None = None
    unit: Literal["bytes", "things"] = "bytes"
    readonly: bool = False
    full: str = "puts fail"
    per_user: bool = False
    reserved: int | None = None

    @property
    def amount(self) -> str:
        """The free part in words: ``12GB``, ``880``."""
        return size(self.free) if self.unit == "bytes" else count(self.free)


class Disk(Frozen):
    """Free space on the file system of a directory, for the current user (statvfs f_bavail, f_favail). None: not known. Front
    ends and rules read ``Observation.capacities``; here is what is of a file system alone."""

    fs_type: str = "?"
    bytes_free: int | None = None
    bytes_total: int | None = None
    inodes_free: int | None = None
    inodes_total: int | None = None
    readonly: bool = False
    root_bytes_free: int | None = None
    apart: tuple[Box, ...] = ()
    """Boxes on another mount than ``new``: rename(2) between the two fails, even within a file system."""
    readonly_here: bool = False
    """Only this mount is read-only, as in a container or a hardened service; through another one others may write."""

    @property
    def capacities(self) -> tuple[Capacity, ...]:
        """The space, and the inodes where their number is fixed: btrfs tells a total of 0."""
        space = Capacity(
            "disk", self.bytes_free, self.bytes_total, "bytes", self.readonly, "puts and claims fail", True, self.root_bytes_free
        )
        inodes = Capacity("inodes", self.inodes_free, self.inodes_total, "things")
        return (space, inodes) if self.inodes_total else (space,)


def capacity_words(capacities: tuple[Capacity, ...], disk: Disk | None) -> Iterator[str]:
    """Yields the words for each capacity; those of a disk begin with the type of its file system.

    >>> disk = Disk("ext4", 12_000_000_000, 30_000_000_000, 880, 1000)
    >>> list(capacity_words((*disk.capacities, Capacity("memory", 1_200_000, 4_000_000)), disk))
    ['ext4 12GB free 40%', 'inodes free 88%', 'memory 1.2MB free 30%']
    """
    for one in capacities:
        name = disk.fs_type if disk is not None and one.name == "disk" else one.name
        free = f"{name} {one.amount} free" if one.unit == "bytes" else f"{name} free"
        yield f"{free} {percent(one.free, one.total)}"


# Messages that came and went between two looks, and how attempts on them ended. All times are epoch seconds.

class Completion(Frozen):
    """A finished message: put, claimed and gone at these times, None if not known."""

    put_at: float | None
    claimed_at: float | None
    gone_at: float


class _Attempt(Frozen):
    ended: str | None
    delayed: bool

    @property
    def failed(self) -> bool:
        """True if the attempt failed: neither did its consumer die, nor was the message given back for immediate delivery."""
        return self.ended != DIED and (self.ended is not None or self.delayed)


class Return(_Attempt):
    """An attempt whose message was given back by its consumer. ``ended`` is how the attempt ended, None if the name does not
    say; ``delayed``: the message waits before the next attempt."""

    id: str
    at: float


class Tried(_Attempt):
    """A message in ``new`` or ``cur`` with ``attempts`` attempts without success; ``ended`` and ``delayed`` as in ``Return``, of
    the last one."""

    id: str
    box: Box
    attempts: int


class HolderFlow(Frozen):
    """Messages that one consumer finished and failed at, and the time of its last claim, if it made one."""

    done: int = 0
    failed: int = 0
    last_claim_at: float | None = None


class Flow(Frozen):
    """Arrivals and departures since the last look.

    ``exact`` is False if events may be missing: counts are lower bounds then. ``measured`` is False if nothing was watched since
    (the first look). Canaries are not counted. ``done`` counts those that left during the previous flow: only one look later it
    is known that they did not come back.

    ``retried`` counts attempts whose message was returned to ``new`` by its consumer or by ``recover``, ``requeued`` those that
    an operator moved back. ``returns`` are the newest of the former; ``recovered`` are ids with such a return that are done after
    all. ``shifted`` is the change in the depth of ``new`` by operators, and by removed files: it does not count as flow.

    ``by_holder`` counts for each consumer (its token, else ``P`` and its pid) what it finished and failed at during the previous
    flow; of very many only the busiest.
    """

    since: float = 0.0
    until: float = 0.0
    arrived: int = 0
    claimed: int = 0
    requeued: int = 0
    done: int = 0
    arrived_by_source: Mapping[str, int] = {}
    completions: tuple[Completion, ...] = ()
    exact: bool = True
    measured: bool = False
    retried: int = 0
    returns: tuple[Return, ...] = ()
    recovered: tuple[str, ...] = ()
    shifted: int = 0
    by_holder: Mapping[str, HolderFlow] = {}
    holders_counted: bool = True
    """False where the queue does not tell who finished what: ``by_holder`` is empty then."""


# The pause of a spool: while it lasts, no consumer of spooltop claims a message.

REASON_AT_MOST = 200
"""Characters of a reason."""


class Pause(Frozen):
    """``by``: who paused, None if the file does not say; ``at``: when, epoch seconds; ``reason``: why, as it was given."""

    by: str | None
    at: Annotated[float, Meta(ge=0, lt=1e15)]
    reason: Annotated[str, Meta(max_length=REASON_AT_MOST)] = ""


def pause_words(pause: Pause, now: float, *, short: bool = False) -> str:
    """``by root for 2h: a schema change``, escaped. ``short``: without the reason.

    >>> pause_words(Pause("root", 100.0, "a schema change"), 7300.0), pause_words(Pause(None, 100.0), 104.0)
    ('by root for 2h: a schema change', 'for 4s')
    """
    who = "" if pause.by is None else f"by {escape(pause.by)} "
    why = f": {escape(pause.reason)}" if pause.reason and not short else ""
    return f"{who}for {age(max(0.0, now - pause.at))}{why}"


_NO_BOXES = ("cursors", "tickets", "locks")


class BoxState(Frozen):
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


class VerdictCounts(Frozen):
    """Counts of claims (``alive``, ``dead``, ``unknown``) and of files in ``tmp`` (the other three)."""

    alive: int = 0
    dead: int = 0
    unknown: int = 0
    writing: int = 0
    abandoned: int = 0
    tmp_unknown: int = 0

    @classmethod
    def of(cls, claims: Iterable[Row], tmp: Iterable[Row]) -> VerdictCounts:
        """Counts the rows of claims and of files in ``tmp`` by their verdicts."""
        held, written = [row.verdict for row in claims], [row.verdict for row in tmp]
        return cls(
            held.count(Verdict.ALIVE), held.count(Verdict.DEAD), held.count(Verdict.UNKNOWN),
            written.count(Verdict.WRITING), written.count(Verdict.ABANDONED), written.count(Verdict.UNKNOWN),
        )  # fmt: skip


AGE_BOUNDS = (10.0, 60.0, 600.0, 3600.0, 86400.0)
"""Boundaries of the age classes in seconds: the geometric buckets of qshape(1), in steps that people say."""
AHEAD = 10.0
"""Seconds in the future from which a message counts as dated ahead."""


class SourceAges(Frozen):
    """A source's share of the sample: ``total``, including undated messages, and the number in each age class, the youngest
    first. ``source`` None: the name has none."""

    source: str | None
    total: int
    counts: tuple[int, ...]


class Ages(Frozen):
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


class Viewer(Frozen):
    """The user who runs this, and their rights in words: ("memex", "read-write")."""

    user: str
    uid: int
    words: str = ""


class Watch(Frozen):
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


class QueueFinding(Frozen):
    """A problem that only this kind of queue has. ``code`` is one of ``model.snapshot.CODES``, ``text`` contains escaped
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


class Observation(Frozen):
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
    counts: VerdictCounts = VerdictCounts()
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
    flow: Flow = Flow()
    disk: Disk | None = None
    """The file system of a directory; None for a queue that lies elsewhere."""
    program: str = ""
    """The program that the queue belongs to, by the name of its layout; empty for a spool and for what is no directory."""
    absent: Mapping[str, str] = {}
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
    suppressed: Mapping[str, int] = {}
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
    who: Viewer = Viewer("?", -1)
    capabilities: Capabilities = Capabilities()
    watch: Watch = Watch()
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


# Text for messages that are in the trash for longer than it keeps them. Pure; nothing is deleted automatically.

def expired_words(state: BoxState) -> str:
    """Returns ``3 expired, kept 30d``; empty if nothing has expired.

    >>> expired_words(BoxState(Box.TRASH, 12, retention=2592000.0, expired=3))
    '3 expired, kept 30d'
    """
    if state.retention is None or not state.expired:
        return ""
    return f"{count(state.expired, complete=not state.expired_is_bound)} expired, kept {duration(state.retention)}"


def kept_words(row: Row, now: float) -> str:
    """Says how long a message is kept: ``for 12d more, then offered for deletion`` in the trash, ``for 1h more, then deleted by
    its program`` where the queue of another program says so, ``expired 5d ago``; empty if it is kept without end."""
    if row.expires_at is None:
        return ""
    left = row.expires_at - now
    if left <= 0:
        return f"expired {age(-left)} ago"
    return f"for {age(left)} more, then {'offered for deletion' if row.box is Box.TRASH else 'deleted by its program'}"


# Problems, worst first.

CODES = (
    "blind", "disk-full", "fs-readonly", "no-consumer", "poison", "failing", "claims-dead", "paused",
    "handed-back", "new-growing", "new-old",
    "cursor-unreadable", "cursor-reverted", "cursor-stalled", "cursor-stopped", "cursor-rewound", "cursor-missing",
    "lock-blocked", "lock-failures", "claim-long", "tmp-abandoned", "tmp-old", "lock-stale", "ticket-orphan",
    "unsafe-writer", "lost", "conflict", "clock-skew", "untrimmed", "claims-unknown", "muted", "settings",
)  # fmt: skip
"""All codes, worst first: the order of the list of problems."""


class Severity(StrEnum):
    CRITICAL = "critical"
    WARNING = "warning"
    NOTE = "note"


class Problem(Frozen):
    """A line of the list of problems.

    ``code`` is one of ``CODES``. ``selection`` is what ``r``, ``d`` and ``h`` on the line plan for and what Enter shows. ``view``
    is the view that Enter opens if there is no selection ("cursors", "locks"), ``subject`` the row in it (a source, a path).
    ``count`` is how many items the line is about, ``at_least`` if more were not looked at. ``text`` contains escaped names only.
    """

    code: str
    severity: Severity
    text: str
    count: int = 0
    selection: Selection | None = None
    view: str | None = None
    subject: str | None = None
    at_least: bool = False

    @property
    def rank(self) -> int:
        """Position in the order of problems, 0 is the worst."""
        return CODES.index(self.code)

    @property
    def box(self) -> Box | None:
        return self.selection.box if self.selection else None


class Percentiles(Frozen):
    """Percentiles of ``samples`` durations in seconds; None below 20 samples."""

    samples: int = 0
    p50: float | None = None
    p95: float | None = None
    p99: float | None = None


class Rates(Frozen):
    """Flow over the last ``window`` seconds (at most 60). None: not measured yet, which is not 0.

    ``arrived``, ``retried`` (by consumers) and ``requeued`` (by operators) are counts in the window. ``done`` counts over
    ``done_window`` seconds of it (None: all of it); ``lower_bound`` if events may be missing. ``new_per_s`` is the slope of the
    depth of ``new`` over ``slope_window`` seconds (at most 300), without what operators moved.
    """

    window: float = 0.0
    arrived: int | None = None
    done: int | None = None
    requeued: int | None = None
    lower_bound: bool = False
    new_per_s: float | None = None
    slope_window: float = 0.0
    waited: Percentiles = Percentiles()
    worked: Percentiles = Percentiles()
    done_window: float | None = None
    retried: int | None = None

    @property
    def in_per_s(self) -> float | None:
        return None if self.arrived is None or self.window <= 0 else self.arrived / self.window

    @property
    def done_per_s(self) -> float | None:
        window = self.window if self.done_window is None else self.done_window
        return None if self.done is None or window <= 0 else self.done / window


class RateHistory(Frozen):
    """Messages a second that came, were done, and were given back by their consumer: a figure for each cell of
    ``Snapshot.cell`` seconds, oldest first, None if not watched."""

    arrived: tuple[float | None, ...] = ()
    done: tuple[float | None, ...] = ()
    retried: tuple[float | None, ...] = ()


class Snapshot(Frozen):
    """The one value that a front end shows. ``observation`` holds the facts of the look, the rest what ``observe`` concluded.

    ``history`` is the depth of each box, oldest first, one cell of ``cell`` seconds each, None if not watched yet.
    """

    observation: Observation
    rates: Rates
    cursors: tuple[Cursor, ...] = ()
    problems: tuple[Problem, ...] = ()
    history: Mapping[Box, tuple[float | None, ...]] = {}
    cell: float = 15.0
    rate_history: RateHistory = RateHistory()
    not_judged: tuple[str, ...] = ()
    """Statements that cannot be made yet, in words ("rates (need 60s)")."""
    not_judged_codes: Mapping[str, str] = {}
    """Codes of problems that cannot be detected yet, or not from here, each with what would tell, or why nothing does."""
    not_visible: tuple[str, ...] = ()
    lock_problems: Mapping[str, str] = {}
    """Locks with a problem: path → its code."""
    muted: Mapping[str, float] = {}
    """Sources whose cursor problems are hidden, each with the end of the mute (epoch seconds)."""

    @property
    def taken_at(self) -> float:
        return self.observation.taken_at

    def not_judged_words(self) -> list[str]:
        """Says which problems were not judged, grouped by what would tell: ``new-growing (needs --watch 60s)``."""
        groups: dict[str, list[str]] = {}
        for code, why in self.not_judged_codes.items():
            groups.setdefault(why, []).append(code)
        return [f"{', '.join(group)} ({why})" for why, group in groups.items()]

    def lock_verdict(self, lock: Lock) -> str:
        """Returns ``BLOCKED`` or ``STALE`` if there is such a problem. A lock with waiters that was taken just now is held."""
        if lock.path in self.lock_problems:
            return "BLOCKED" if self.lock_problems[lock.path] == "lock-blocked" else "STALE"
        return "held" if lock.verdict == "blocked" else lock.verdict

    def cursor(self, source: str, file: str) -> Cursor | None:
        """The cursor of this source in this file; None where there is none."""
        return next((one for one in self.cursors if (one.source, one.file) == (source, file)), None)

    @property
    def watched_for(self) -> float:
        """Seconds since watching began."""
        return max(0.0, self.observation.taken_at - self.observation.watch.since) if self.observation.watch.since else 0.0


# Consumers: the processes that claim messages.

_RANKS = {"DEAD": 5, "stopped": 4, "unknown": 3, "running": 2, "exited": 0}


class Usage(Frozen):
    """Use of a processor and of memory by one process. ``cpu`` is the share of one processor since the sample before (1.0: all of
    it), None for the first sample. ``memory`` is its resident set in bytes. ``stopped``: a signal or a debugger has stopped it.
    ``command`` is its whole command line, "" where it is not visible."""

    cpu: float | None
    memory: int | None
    stopped: bool = False
    command: str = ""


class ConsumerRate(Frozen):
    """Messages a second that a consumer finished and that it failed at. None: not watched yet; ``failed`` alone None: it does not
    say."""

    done: float | None = None
    failed: float | None = None

    def words(self, kind: str) -> str:
        """Formats ``done`` or ``failed`` in at most 6 cells: ``·`` where it was not watched yet, ``?`` where it is not visible.

        >>> [ConsumerRate(rate, None).words("done") for rate in (None, 0.0, 0.001, 0.017, 9.96, 1234.5)]
        ['·', '0.0', '<0.01', '0.02', '10.0', '1,234']
        """
        value = self.failed if kind == "failed" else self.done
        if value is None:
            return "·" if self.done is None else "?"
        if 0 < value < 0.095:
            return "<0.01" if value < 0.005 else f"{value:.2f}"
        return f"{value:.1f}" if value < 99.95 else f"{value:,.0f}"


class ConsumerRow(Frozen):
    """A consumer, and the claims that it holds.

    ``token`` names its presence file, None for a consumer of another program, which is known by the pid in its claims alone, or
    by its name.
    ``verdict`` is ALIVE, DEAD or UNKNOWN, with ``evidence``. ``claimed_at`` is when it made the oldest of its ``claims`` that are
    left, an upper bound if ``claimed_is_bound``; ``ids`` are the first of them, oldest first. ``last_claim_at`` is the time of
    its last claim, as far as it is known. ``usage`` is None where its process is not visible from here.
    """

    verdict: Verdict
    evidence: str
    owner: Owner
    token: str | None = None
    claims: int = 0
    claimed_at: float | None = None
    claimed_is_bound: bool = False
    last_claim_at: float | None = None
    ids: tuple[str, ...] = ()
    rate: ConsumerRate = ConsumerRate()
    usage: Usage | None = None
    asked_at: float | None = None
    """When it last asked for a message, where a server knows that."""

    @property
    def key(self) -> str:
        """Identity from look to look. Claims of one pid that different processes made have different verdicts."""
        return self.holder if self.token or self.owner.pid is None else f"{self.holder} {self.verdict}"

    @property
    def holder(self) -> str:
        """The name under which the flow of messages counts it: its token, its own name, or its pid."""
        return self.token or self.owner.name or f"P{self.owner.pid}"

    @property
    def stopped(self) -> bool:
        return self.usage is not None and self.usage.stopped

    @property
    def gone(self) -> bool:
        """True where it is dead: it works no more, and uses nothing."""
        return self.verdict is Verdict.DEAD

    @property
    def exited(self) -> bool:
        """True where it is dead and holds nothing: its end troubles nobody."""
        return self.gone and not self.claims

    @property
    def word(self) -> str:
        """The verdict as lists show it."""
        if self.verdict is Verdict.DEAD:
            return "DEAD" if self.claims else "exited"
        if self.verdict is Verdict.ALIVE:
            return "stopped" if self.stopped else "running"
        return "unknown"

    @property
    def rank(self) -> int:
        """Its place in a list: the higher it is, the more it needs attention."""
        return _RANKS[self.word] - (0 if self.claims or self.exited else 1)

    @property
    def selection(self) -> Selection:
        """All of its claims, those to come included."""
        if self.token is not None:
            return Selection(box=Box.CUR, filter=self.token)
        if self.owner.name is not None:
            from .query import held_by  # the grammar takes 5 ms to load

            return Selection(box=Box.CUR, filter=str(held_by(escape(self.owner.name))))
        return Selection(box=Box.CUR, filter=f"pid:{self.owner.pid} !,c= verdict:{self.verdict}")

    def held(self, now: float) -> float | None:
        """Seconds for which it has held the oldest of its claims; None where it holds none, or that is not known."""
        return since(self.claimed_at, now)

    def held_words(self, now: float) -> str:
        """The same in words, ``≤`` in front of an upper bound."""
        return (at_most if self.claimed_is_bound else age)(self.held(now))


class ConsumerList(Frozen):
    """The consumers of a target as of a look at ``taken_at``. ``more`` consumers are left out because there are too many;
    ``nameless`` claims name no consumer; ``error`` says why some are not visible. ``window`` is the number of seconds that the
    rates are about, which are lower bounds if ``lower_bound``."""

    consumers: tuple[ConsumerRow, ...] = ()
    taken_at: float = 0.0
    more: int = 0
    nameless: int = 0
    error: str = ""
    window: float = 0.0
    lower_bound: bool = False
    measured: bool = True
    """False for a server that knows consumers by their names: their processes and rates are not measured."""

    def count(self, word: str) -> int:
        """The number of consumers with this ``word``."""
        return sum(one.word == word for one in self.consumers)


def nameless_words(found: ConsumerList) -> str:
    """``3 claims name no consumer``."""
    return f"{found.nameless:,} {'claim names' if found.nameless == 1 else 'claims name'} no consumer"
