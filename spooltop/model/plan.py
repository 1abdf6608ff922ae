"""Selections of messages, plans, which pin a list of things to do, their results, and where the messages are afterwards."""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any, TypeVar

from msgspec import Meta, Struct, field
from msgspec.structs import force_setattr

from spooltop.errors import Refused, Stopped

from .vocabulary import Action, Box, Frozen, Json, JsonObject, Key, Ref, Row, Stop, Verdict, duration, escape, rate_limit


class Selection(Frozen):
    """A choice of messages; all conditions hold together.

    ``ids`` are unescaped ids or whole names; ``keys`` are rows as listed (marks). ``older_than`` is seconds in the box.
    ``filter`` is the grammar of ``model.query``. ``everything`` is ALL. A selection that names nothing selects nothing.
    """

    box: Box | None = None
    ids: tuple[str, ...] | None = None
    keys: tuple[Key, ...] | None = None
    source: str | None = None
    older_than: float | None = None
    verdict: Verdict | None = None
    filter: str = ""
    everything: bool = False

    def matcher(self, now: float) -> Callable[[Row], bool]:
        """The test if all conditions hold for a row at ``now`` (epoch seconds); True for each row where there is no condition.
        Raises ``UsageError`` for a filter that does not parse.

        >>> row = Row(("cur", "7"), Box.CUR, "7", "7,n=1", source="mail", in_box_since=100.0)
        >>> chosen = Selection(box=Box.CUR, source="mail", older_than=60)
        >>> (chosen.matcher(170.0)(row), chosen.matcher(150.0)(row), Selection(ids=("8",)).matcher(170.0)(row))
        (True, False, False)
        """
        box, source, verdict, older_than = self.box, self.source, self.verdict, self.older_than
        ids = None if self.ids is None else frozenset(self.ids)
        keys = None if self.keys is None else frozenset(self.keys)
        wanted = None
        if self.filter:
            from .query import parse  # the grammar takes 5 ms to load, and most selections have no filter

            wanted = parse(self.filter)

        def matches(row: Row) -> bool:
            return (
                (box is None or row.box is box)
                and (keys is None or row.key in keys)
                and (ids is None or row.id in ids or row.name in ids)
                and (source is None or row.source == source)
                and (verdict is None or row.verdict is verdict)
                and (older_than is None or self.old_enough(row.in_box_age(now)))
                and (wanted is None or wanted.match(row, now))
            )

        return matches

    def old_enough(self, in_box_age: float | None) -> bool:
        """True if ``in_box_age`` is ``older_than`` or more; False if the age is unknown."""
        return self.older_than is None or (in_box_age is not None and in_box_age >= self.older_than)

    @property
    def named(self) -> bool:
        """True if the messages are named one by one."""
        return self.ids is not None or self.keys is not None

    @property
    def empty(self) -> bool:
        """True if no condition was given at all."""
        return not (
            self.named or self.source or self.older_than is not None or self.verdict or self.filter or self.everything
        )

    def words(self) -> list[str]:
        """Returns the same selection as words of the command line, without ids of single rows."""
        options = {
            "--box": self.box,
            "--source": None if self.source is None else escape(self.source),
            "--verdict": self.verdict,
            "--older-than": None if self.older_than is None else f"{self.older_than:.12g}s",
            "--filter": self.filter or None,
        }
        words = [word for option, value in options.items() if value is not None for word in (option, str(value))]
        return [*words, "ALL"] if self.everything else words


# Progress and cancellation of long work: reported and checked now and then, not for each of a million items.

BATCH = 1_000
"""Most items that one intent line, one sync and one result line cover."""
EVERY = 500
"""Steps between two checks: some hundredths of a second."""

T = TypeVar("T")


class Progress(Struct):
    """Checks ``stop``, which ends the work with ``Stopped``, and passes words to ``tell`` ("230,000 of 300,000 claims looked
    at"). ``show`` receives the first of many items. For one thread."""

    stop: Stop | None = None
    tell: Callable[[str], object] | None = None
    show: Callable[[Sequence[Any]], object] | None = None
    _words: str = ""
    _of: int = 0
    _every: int = EVERY
    _done: int = 0

    def begin(self, words: str, of: int = 0, *, every: int = EVERY) -> None:
        """Starts a phase: ``words`` name the items, ``of`` is their number (0: not known); ``every`` is the number of steps
        between checks."""
        self._words, self._of, self._every, self._done = words, of, every, 0
        self.check()

    def advance(self, steps: int) -> None:
        """Counts ``steps`` more items, which were done together. Raises ``Stopped``."""
        before, self._done = self._done, self._done + steps
        if self._done // self._every > before // self._every:
            self.check()
            if self.tell is not None:
                of = f" of {self._of:,}" if self._of >= self._done else ""
                self.tell(f"{self._done:,}{of} {self._words}")

    def each(self, things: Iterable[T]) -> Iterator[T]:
        """Yields ``things``, a step each."""
        for one in things:
            self.advance(1)
            yield one

    def found(self, items: Sequence[Any]) -> None:
        """Passes the first of the items found so far on, once there is a whole chunk of them."""
        if self.show is not None and len(items) >= BATCH:
            self.show(items[:BATCH])
            self.show = None

    def stopped(self) -> bool:
        return self.stop is not None and self.stop()

    def check(self) -> None:
        """Raises ``Stopped`` if the work was cancelled."""
        if self.stopped():
            raise Stopped("stopped on the way; nothing was changed")


class Item:
    """A thing to do: the ``row`` as it was shown and the identity that pins it, ``ref``.

    ``warning`` is shown with ``!``. ``words`` describe the change if it does not move a message ("imessage: 89632 → 89640 in
    /opt/memex/cursors.json"). ``row`` then has the source as its id and the file as its name, and its box means nothing.
    ``value`` is the new value of a cursor, as a snapshot shows it.
    """

    __slots__ = ()
    words: str = ""
    value: Json = None

    @property
    def row(self) -> Row:
        raise NotImplementedError

    @property
    def ref(self) -> Ref:
        return self

    @property
    def warning(self) -> str:
        return ""

    @property
    def id(self) -> str:
        return self.row.id

    @property
    def name(self) -> str:
        return self.row.name

    @property
    def box(self) -> Box:
        return self.row.box

    @property
    def verdict(self) -> Verdict | None:
        return self.row.verdict

    @property
    def since(self) -> float | None:
        """When it came into its box, epoch seconds."""
        return self.row.in_box_since

    @property
    def to_name(self) -> str:
        """The name of a message once it is moved."""
        return ""


class RowItem(Item, Frozen):
    """An item that holds its row. Those of which there may be a million make it when it is asked for."""

    row: Row
    ref: Ref
    warning: str = ""
    words: str = ""
    value: Json = None


class Request(Frozen):
    """A change that is asked for ``at`` epoch seconds. ``force`` does what is refused otherwise; ``options`` are those of the
    action. ``progress`` is told how far the search for its items has come."""

    action: Action
    selection: Selection
    force: bool = False
    options: JsonObject = field(default_factory=dict)
    at: float = 0.0
    progress: Progress = field(default_factory=Progress)

    @property
    def undoes(self) -> str:
        """The id of the operation that an undo reverses."""
        return str(self.options.get("undoes", ""))

    def boxes(self, sources: Sequence[Box], path: str) -> Sequence[Box]:
        """The boxes to search, out of those that the action takes from. Raises ``Refused`` for another one; ``path`` is named."""
        box = self.selection.box
        if box is None:
            return sources
        if box not in sources:
            advice = f"choose {', '.join(sorted(sources))}"
            raise Refused(f"{self.action} is not possible for messages in {box}", advice, path=path)
        return (box,)


class Refusal(Frozen):
    """A thing that will not be done. ``forceable``: ``--force`` (``f`` in the plan) does it anyway."""

    row: Row
    reason: str
    forceable: bool = False


class Candidates(Frozen):
    """Items and refusals that a backend finds for a request.

    ``notes`` are sentences for the person who decides. ``missing`` are named ids that no message here has (not escaped).
    ``poison`` counts the items that so many consumers died on that they may be the cause: a requeue with ``hold_poison`` holds
    these and requeues the others. ``effect`` says what happens to the messages, in a sentence, where that differs from what
    ``operate.operations`` says of a directory. ``has_no_undo``: nothing of it can be reversed.
    """

    items: Sequence[Item] = ()
    refused: Sequence[Refusal] = ()
    notes: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    poison: int = 0
    effect: str = ""
    has_no_undo: bool = False


class Confirm(StrEnum):
    """Confirmation of a plan: ``y`` for 1–9 items, ``Y`` for 10–99; the number is typed from 100 items, or with any
    ``unknown``."""

    SMALL = "y"
    LARGE = "Y"
    NUMBER = "number"
    NOTHING = ""


class Plan(Candidates, kw_only=True):
    """Pinned list of changes: it stays as it is while the spool changes.

    ``operation`` is the id under which it is journalled, audited and undone. ``command`` is the same action as words of a shell,
    with ids. ``options`` are those of the action (inject: ``count``, ``text`` …; undo: ``undoes``; requeue: ``hold_poison``;
    purge: ``now``). ``undone`` is the action that an undo reverses. ``unproven`` counts the items whose holder or writer is not
    known to be gone, ``warnings`` those with each warning.
    """

    operation: str
    action: Action
    target: str
    made_at: float
    selection: Selection
    confirm: Confirm = Confirm.NOTHING
    force: bool = False
    command: tuple[str, ...] = ()
    options: JsonObject = field(default_factory=dict)
    undone: Action | None = None
    unproven: int = 0
    warnings: Mapping[str, int] = {}

    @property
    def deletes(self) -> bool:
        """True if it cannot be undone: emptying the trash, a purge ``now``."""
        return self.action is Action.EMPTY or (self.action is Action.PURGE and bool(self.options.get("now")))

    @property
    def works_when_full(self) -> bool:
        """True if a full disk does not stop it: it continues without its lines in the logs. It frees space, or ends a pause."""
        ends_pause = self.action is Action.RESUME or (self.action is Action.UNDO and self.undone is Action.PAUSE)
        return self.deletes or ends_pause

    @property
    def undoes(self) -> str | None:
        """The operation that an undo reverses."""
        operation = self.options.get("undoes") if self.action is Action.UNDO else None
        return operation if isinstance(operation, str) else None

    @property
    def rate(self) -> float | None:
        """Rate limit in items a second; None: unlimited."""
        rate = self.options.get("rate")
        return float(rate) if isinstance(rate, (int, float)) and not isinstance(rate, bool) and rate > 0 else None

    @property
    def rate_text(self) -> str:
        """Describes the rate limit: ``rate limit 50/s: takes 6m or longer``; empty without one."""
        if self.rate is None:
            return ""
        return f"rate limit {rate_limit(self.rate)}: takes {duration(self.count / self.rate)} or longer"

    @property
    def count(self) -> int:
        """Number of items it acts on. For inject: the number of messages it will put."""
        wanted = self.options.get("count")
        return wanted if self.action is Action.INJECT and isinstance(wanted, int) else len(self.items)


class Outcome(StrEnum):
    DONE = "done"
    SKIPPED = "skipped"
    FAILED = "failed"

    __hash__ = str.__hash__


class ItemResult(Frozen):
    """Result of one item. ``reason`` says why it was skipped or failed, or adds a remark to one that is done. ``became`` is its
    new name, if moved."""

    id: str
    name: str
    outcome: Outcome
    reason: str = ""
    became: str = ""


def done(item: Item) -> ItemResult:
    """The result of an item that was moved as planned."""
    return ItemResult(item.id, item.name, Outcome.DONE, "", item.to_name)


Results = Sequence[ItemResult | None]
"""Results of items in their order; None for ``done``: a million of them are not kept."""
Batches = Generator[Results, None, None]
"""The results of an operation as it goes on. To close it ends the operation."""


class NotDone(dict[tuple[Outcome, str], "array[int]"]):
    """Places of the results of items that were not done, by outcome and reason."""

    @property
    def total(self) -> int:
        """The number of items that were not done."""
        return sum(map(len, self.values()))

    def note(self, place: int, result: ItemResult) -> None:
        """Adds the result at ``place``, if it was not done."""
        if result.outcome is not Outcome.DONE:
            self.setdefault((result.outcome, result.reason), array("Q")).append(place)


class Result(Frozen):
    """Result of a plan. ``stopped`` if it ended early; ``untried`` counts the items that were not reached."""

    operation: str
    action: Action
    target: str
    finished_at: float
    items: Sequence[ItemResult]
    stopped: bool = False
    untried: int = 0
    undo: tuple[str, ...] = ()
    """The command that undoes it, as words of a shell; empty if nothing can be undone."""
    notes: tuple[str, ...] = ()
    not_done: NotDone = field(default_factory=NotDone)

    def __post_init__(self) -> None:
        known, others = NotDone(), getattr(self.items, "others", None)  # a million are not made to find that there is none
        for place, item in enumerate(self.items) if others is None else others.items():
            known.note(place, item)
        force_setattr(self, "not_done", known)

    def count(self, outcome: Outcome) -> int:
        if outcome is Outcome.DONE:
            return len(self.items) - self.not_done.total
        return sum(len(places) for (one, _), places in self.not_done.items() if one is outcome)


class OperationRecord(Frozen):
    """A line of the list of operations. ``open``: the intent was journalled but no result (a crash in between)."""

    operation: str
    action: Action
    at: float
    user: str
    count: int
    done: int
    skipped: int = 0
    failed: int = 0
    open: bool = False
    undone_by: str | None = None
    why_not_undo: str | None = None
    words: str = ""


# Locations of messages that are tracked by id.


class TrackedMessage(Frozen):
    """Location of the message with one id, as far as it was seen. Times are epoch seconds.

    ``box`` is its current box; None if it is in no box (``gone_at`` says since when at the latest) or not found yet. ``place`` in
    ``new``: 1 is the oldest of the ``of`` messages that wait there. ``claimed_at`` and ``pid`` belong to its last claim since
    tracking began (for a canary: since it was put), None if none was seen; ``verdict`` is that of the claim while it lasts.
    ``put_at`` is when it was put, according to its id.
    """

    id: str
    box: Box | None = None
    place: int | None = None
    of: int | None = None
    claimed_at: float | None = None
    pid: int | None = None
    gone_at: float | None = None
    verdict: Verdict | None = None
    put_at: float | None = None


# The audit trail of an operation, as its journal tells it.


def _terminal() -> str | None:
    try:
        return os.ttyname(2)
    except OSError:
        return None  # cron, a pipe: no terminal is a fact and no failure


_Id = Annotated[int, Meta(ge=0, lt=1 << 32)]


class Actor(Frozen):
    """The process of the user who makes a change, and where that user is: the environment and the terminal say so, None if they
    do not."""

    uid: _Id | None = None
    pid: _Id | None = None
    sudo_user: str | None = None
    ssh_connection: str | None = None
    tty: str | None = None

    @staticmethod
    def here() -> Actor:
        """Returns the actor of this process."""
        get = os.environ.get
        return Actor(os.geteuid(), os.getpid(), get("SUDO_USER"), get("SSH_CONNECTION"), _terminal())


class AuditLine(Frozen):
    """A step of an operation.

    ``event`` is ``before`` (no result was written: these ``names`` were about to be changed) or ``after`` (``results``, after
    which ``tried`` of ``count`` had been attempted). ``user`` and ``by`` are as that process wrote them. Nothing is escaped, and
    a line that is not ``trusted`` may contain anything.
    """

    at: float
    event: str
    action: str
    user: str
    by: Actor = Actor()
    count: int = 0
    tried: int | None = None
    force: bool = False
    names: tuple[str, ...] = ()
    results: tuple[ItemResult, ...] = ()
    trusted: bool = True


class AuditTrail(Frozen):
    """The steps of one operation in their order, and the faults of the journal, in words."""

    lines: tuple[AuditLine, ...] = ()
    problems: tuple[str, ...] = ()


def said(line: AuditLine) -> str:
    """Describes one line, escaped: the actor, the origin, and what was about to happen or the result.

    >>> said(AuditLine(0.0, "after", "purge", "root", Actor(pid=77, sudo_user="ann", tty="/dev/pts/3"), count=2, tried=1))
    'root (sudo by ann) on /dev/pts/3, pid 77: purge, 1 of 2 attempted'
    """
    by = line.by
    who = escape(line.user) + (f" (sudo by {escape(by.sudo_user)})" if by.sudo_user else "")
    if by.ssh_connection:
        who += f" from {escape(by.ssh_connection.partition(' ')[0])}"
    if by.tty:
        who += f" on {escape(by.tty)}"
    if by.pid is not None:
        who += f", pid {by.pid}"
    what = escape(line.action) + (" by force" if line.force else "")
    if line.event == "before":
        what += f" of {line.count:,} started"
    else:
        what += f", {line.tried or 0:,} of {line.count:,} attempted"
    return f"{who}: {what}" + ("" if line.trusted else " (from the log in the spool, which its owner can write)")
