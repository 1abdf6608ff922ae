"""Interfaces of a kind of spool: a Reader, and an Operator if it can be changed. ``control`` combines them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct, field

from .plan import AuditTrail, Batches, Candidates, OperationRecord, Plan, Progress, Selection, TrackedMessage
from .vocabulary import Action, Box, Holders, Json, Key, Payload, Row

if TYPE_CHECKING:
    from .consumers import ConsumerList
    from .snapshot import Observation


class Sort(Struct, frozen=True):
    """Order of a list. ``column``: age (time since put), held (time in the box), size, source, tries, verdict, name."""

    column: str = "age"
    descending: bool = True


FIRST_SORT: Mapping[str, Sort] = {"cur": Sort("verdict"), "tmp": Sort("verdict")}
"""The order in which a box is listed first, where it is not by age: the worst verdict, then who has it for the longest time."""


class KeptView(Struct, frozen=True):
    """The choices that are kept. ``view`` is the one in front ("": none is kept), ``sorts`` the orders of lists by their boxes
    and "consumers". No filter is kept in force, because it would hide trouble from somebody who has forgotten it:
    ``last_filter`` is only what ``n`` goes on with."""

    view: str = ""
    sorts: Mapping[str, Sort] = field(default_factory=dict)
    last_filter: str = ""


class ListQuery(Struct, frozen=True):
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
        self, query: ListQuery, cancelled: Callable[[], bool] = lambda: False, progress: ListProgress | None = None
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

    def candidates(
        self, action: Action, selection: Selection, *, force: bool, options: Mapping[str, Json], now: float, progress: Progress
    ) -> Candidates:
        """Pins what ``selection`` names, and gives the reason for each refusal.

        ``action`` UNDO takes ``options["undoes"]``. Changes nothing. Checks ``progress`` every few hundred items, which raises
        ``Stopped``.
        """

    def perform(self, plan: Plan, stop: Callable[[], bool] = lambda: False) -> Batches:
        """Performs the plan in batches of up to 1,000: intent line synced, each item re-checked and done, synced, result line."""

    def trail(self, operation: str) -> AuditTrail:
        """Returns who did ``operation``, a complete id, from where, and what became of each item. Raises ``Unreadable``."""

    def operations(self, progress: Progress, *, begins: str = "", most: int | None = None) -> list[OperationRecord]:
        """Lists the operations of the journal whose id ``begins`` so, newest first, ``most`` of them. ``progress`` as in
        ``candidates``."""

    def close(self) -> None: ...
