"""Interfaces of a backend, which identifies the targets of its kinds, and of what it opens: a Reader, and an Operator if the
target can be changed.

``backends.registry`` finds the backend of a target; ``control`` uses it. A further backend implements ``Backend`` and calls
``registry.register``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Protocol

from msgspec import Meta, field

from spooltop.errors import SpooltopError

from .plan import AuditTrail, Batches, Candidates, OperationRecord, Plan, Progress, Request, Selection, TrackedMessage
from .queue import Queue, QueueOptions
from .redact import Redactor
from .target import Target
from .vocabulary import Action, Box, Clock, Environ, Frozen, Holders, Key, Lock, Payload, Row, Stop

if TYPE_CHECKING:
    from .snapshot import ConsumerList, Observation


# Actions that are allowed on a target, and why the others are not.

_NO_MESSAGES = (Action.UNDO, Action.SET_CURSOR, Action.UNLOCK, Action.PAUSE, Action.RESUME)


class Capabilities(Frozen):
    """The reason for each action that is not available, in words that say what to do. An action that is not named is allowed.
    ``commands`` are those of the queue's own program that do what is not available here, with ``{id}`` for the message. ``boxes``
    are those that an action takes messages from; an action that is not named takes them from where it does in a spool."""

    refusals: Mapping[Action, str] = {}
    commands: Mapping[Action, str] = {}
    boxes: Mapping[Action, tuple[Box, ...]] = {}

    def why_not(self, action: Action) -> str | None:
        """Returns the reason why ``action`` is not available, or None if it is."""
        return self.refusals.get(action)

    def why_not_from(self, action: Action, box: Box | None) -> str | None:
        """Returns the reason why ``action`` does not take messages from ``box``, or None if it does."""
        reason, boxes = self.why_not(action), self.boxes.get(action, ())
        if reason is not None or not boxes or box is None or box in boxes:
            return reason
        return f"not possible for messages in {box} here, only in {', '.join(boxes)}"

    def replaced(self, why: str | None, *actions: Action) -> Capabilities:
        """Returns these with another reason for ``actions``; None: they are available."""
        refusals = {one: reason for one, reason in self.refusals.items() if one not in actions}
        refusals |= {} if why is None else dict.fromkeys(actions, why)
        return Capabilities(refusals, self.commands, self.boxes)

    def command(self, action: Action, id: str) -> str:
        """Returns the command of the queue's own program for the message ``id``, quoted for a shell; empty where it has none, or
        the action is available here."""
        return command_for(self.commands.get(action, ""), id) if action in self.refusals else ""

    @property
    def change(self) -> bool:
        """True if at least one action that moves, makes or deletes messages is available."""
        return any(action not in self.refusals for action in Action if action not in _NO_MESSAGES)

    @staticmethod
    def nothing(reason: str, commands: Mapping[Action, str] | None = None) -> Capabilities:
        """Read-only, for one reason."""
        return Capabilities(dict.fromkeys(Action, reason), commands or {})


def command_for(template: str, id: str) -> str:
    """Fills the id into a command, quoted for a shell.

    >>> command_for("postsuper -d {id}", "3F2A1"), command_for("rm {id}", "a; b")
    ('postsuper -d 3F2A1', "rm 'a; b'")
    """
    import shlex  # only where somebody asks

    return template.replace("{id}", shlex.quote(id)) if template else ""


class Sort(Frozen):
    """Order of a list. ``column``: age (time since put), held (time in the box), size, source, tries, verdict, name."""

    column: str = "age"
    descending: bool = True


FIRST_SORT: Mapping[str, Sort] = {"cur": Sort("verdict"), "tmp": Sort("verdict")}
"""The order in which a box is listed first, where it is not by age: the worst verdict, then who has it for the longest time."""


LONGEST_FILTER = 1000
"""Characters of a filter that is kept."""


class KeptView(Frozen):
    """The choices that are kept. ``view`` is the one in front ("": none is kept), ``sorts`` the orders of lists by their boxes
    and "consumers". No filter is kept in force, because it would hide trouble from somebody who has forgotten it:
    ``last_filter`` is only what ``n`` goes on with."""

    view: str = ""
    sorts: Mapping[str, Sort] = {}
    last_filter: Annotated[str, Meta(max_length=LONGEST_FILTER)] = ""


class ListQuery(Frozen):
    """A box to list, narrowed by a filter (grammar: ``model.query``) and by a selection, in an order."""

    box: Box
    filter: str = ""
    sort: Sort = Sort()
    selection: Selection | None = None


class Listing(Protocol):
    """A list that has a length and gives windows, without an object for each row.

    It never changes; a later look gives a new one. Every method may block on I/O and is called off the event loop.
    """

    query: ListQuery
    complete: bool
    generation: int
    timed: bool
    """True if time alone may change its contents."""
    ordered_over: int | None
    """Number of messages, the first ones, that the filter and the order looked at; None if they looked at all."""

    def __len__(self) -> int: ...

    def window(self, start: int, stop: int) -> Sequence[Row]:
        """Returns rows ``start`` to ``stop`` (cut at the end). A row whose message is gone keeps its place; ``note`` says so."""

    def find(self, key: Key) -> int | None:
        """Returns the position of the row with this key, or None."""

    def keys(self) -> Iterator[Key]:
        """Yields all keys, in order: what "mark all that match" takes."""


class ListProgress(Protocol):
    """Shows the progress of a list to whoever waits for it."""

    def due(self) -> bool:
        """True if it is time for the next report: called often, and answered fast."""

    def advanced(self, share: float, rows: Sequence[Row], count: int) -> None:
        """``share`` (0 to 1) of the work is done. ``count`` of the messages looked at so far match, and ``rows`` sort before all
        others of them by name; both are empty if nothing is known before the end."""


class Reader(Protocol):
    """Looks at one spool. Only ``changes`` and ``wake`` are thread-safe: one thread looks."""

    def see(self, *, rescan: bool = False) -> Observation:
        """Looks once. Scans what may have changed (everything with ``rescan``). Never raises for the state of the spool: the
        observation says what is not visible."""

    def listing(
        self, query: ListQuery, cancelled: Stop = lambda: False, progress: ListProgress | None = None
    ) -> Listing:
        """Returns a list from the last look's scan, and reports to ``progress`` meanwhile. Once ``cancelled`` returned True it
        keeps doing so, and the list is not ``complete``."""

    def read(self, key: Key, limit: int) -> Payload:
        """Returns the first ``limit`` bytes of a message and facts for its detail. Raises ``Unreadable`` if it is gone or not a
        file."""

    def follow(self, ids: Sequence[str], since: float) -> Mapping[str, TrackedMessage]:
        """Returns the locations of the messages with these ids as of the last look, by id; at most 1,000 of them. Tracks them
        until other ids are given (none: an empty list). Claims before ``since`` (epoch seconds) do not count."""

    def consumers(self) -> ConsumerList:
        """Returns the consumers and what they hold, as of the last look, without rates."""

    def holders(self, key: Key) -> Holders:
        """Finds the processes that have a file open or locked: by the key of a row, or the path of a lock or a cursor file of the
        last look. Raises ``Unreadable`` if it is gone or not part of this target."""

    def current_step(self) -> str:
        """Describes the current step of a running look ("readdir of new"): called from another thread if the look does not
        return."""

    def changes(self, timeout: float) -> bool:
        """Waits until something may have changed (True) or ``timeout`` seconds passed (False). Thread-safe."""

    def wake(self) -> None:
        """Makes ``changes`` return at once. Thread-safe."""

    def close(self) -> None: ...


class Operator(Protocol):
    """Changes one spool. Only ``perform`` changes anything."""

    def why_not(self, action: Action) -> str | None:
        """Returns the reason why ``action`` is not available, None if it is."""

    def candidates(self, request: Request) -> Candidates:
        """Pins what is asked for, and gives the reason for each refusal. Changes nothing. Checks the progress every few hundred
        items, which raises ``Stopped``."""

    def perform(self, plan: Plan, stop: Stop = lambda: False) -> Batches:
        """Performs the plan in batches of up to 1,000: intent line synced, each item re-checked and done, synced, result line."""

    def trail(self, operation: str) -> AuditTrail:
        """Returns who did ``operation``, a complete id, from where, and what became of each item. Raises ``Unreadable``."""

    def operations(self, progress: Progress, *, begins: str = "", most: int | None = None) -> list[OperationRecord]:
        """Lists the operations of the journal whose id ``begins`` so, newest first, ``most`` of them. ``progress`` as in
        ``candidates``."""

    def close(self) -> None: ...


SPOOL = "spool"
"""The word for a job spool, where others name a layout."""


class OpenAs(Frozen):
    """Options that decide what a path is. ``as_kind`` names it: ``spool`` treats a mail folder as a job spool, any other word is
    the layout of a directory. ``locks`` treats any other directory as one of lock files. ``cursor_files`` make a target of any
    directory. ``environ`` says where the user's own layouts are."""

    as_kind: str = ""
    locks: bool = False
    cursor_files: tuple[str, ...] = ()
    environ: Environ = field(default_factory=dict)

    @property
    def as_spool(self) -> bool:
        """True if a mail folder is a job spool."""
        return self.as_kind == SPOOL


class OpenSettings(Frozen):
    """Options and settings with which a target is opened.

    ``read_only`` says why nothing may be changed. With ``watch`` the reader listens for changes. ``words`` are all settings as
    the environment writes them; ``hosts`` and ``pids`` are ``claims.hosts`` and ``claims.pids``. Messages in the trash expire
    after ``retention`` seconds (0: never), a lock without a holder is stale after ``stale_after`` seconds, and the holders of
    claims are described once they hold one for ``described_after`` seconds. ``redactor`` hides values. ``who_writes`` asks who
    writes the cursors. ``state`` is the folder of this user's own state, None without one. A change of the ``side_files`` (paths
    and globs) is a reason to look again.
    """

    read_only: str | None = None
    asked: OpenAs = OpenAs()
    watch: bool = True
    clock: Clock = time.time
    words: Environ = field(default_factory=dict)
    hosts: str = "any"
    pids: str = "any"
    retention: float = 0.0
    stale_after: float = 300.0
    described_after: float = 0.0
    redactor: Redactor = Redactor()
    who_writes: bool = False
    state: str | None = None
    side_files: tuple[str, ...] = ()


class OpenedOperator(Frozen):
    """Operator of a target. ``flags`` are the options that a command needs to open the target again. ``consumers`` looks at who
    takes what is moved to ``new``: the observation may be of the claims alone. ``keeps_trash``: what is purged goes to a trash
    that expires."""

    operator: Operator
    flags: tuple[str, ...] = ()
    consumers: Callable[[], Observation] | None = None
    keeps_trash: bool = False


class SideWatch(Protocol):
    """Thread that wakes the reader when something beside the queue changes."""

    def start(self) -> None: ...

    def stop(self) -> None:
        """Asks the thread to end."""

    def close(self) -> None:
        """Ends the thread and waits for it."""


class OpenedTarget(Frozen):
    """Opened target. ``operator`` opens what changes it, on first use: reading does not wait for that; None for a target that
    has nothing to change."""

    reader: Reader
    operator: Callable[[], OpenedOperator] | None = None
    beside: SideWatch | None = None


class Backend(Protocol):
    """Kinds of queues that are read and changed by the same code."""

    name: str

    def identify(self, spec: str, asked: OpenAs) -> Target | None:
        """Identifies what ``spec`` (a path or a URL, as typed) names. None if it is none of this backend's; raises ``NotASpool``
        with the hint that fits, ``Unreadable``, ``UsageError`` for an invalid URL. Changes nothing."""

    def open(self, target: Target, settings: OpenSettings) -> OpenedTarget:
        """Opens a target that this backend identified. Raises ``SpooltopError``."""

    def queue(self, target: Target, options: QueueOptions) -> Queue:
        """Opens a target to put and to work, one that is not read-only. Raises ``Refused`` or ``NotASpool`` for what has no
        messages, or is served by its own program alone."""


class LockSource(Protocol):
    """Locks that lie elsewhere than the target and are shown among its own: the ticket queues of a server."""

    def look(self) -> tuple[Lock, ...]: ...

    def why_not(self, action: Action | None, key: Key) -> SpooltopError | None:
        """Returns why ``action`` (None: finding the holders) is not possible for the lock ``key``; None for a lock that is not
        of this source."""

    def close(self) -> None: ...
