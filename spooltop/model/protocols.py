"""What a kind of spool offers: a Reader, and if it can be changed, an Operator. ``control`` puts them together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from .audit import AuditLog
from .capabilities import Capabilities
from .holders import Holders
from .observation import Sight
from .plan import Candidates, ItemResult, OperationRecord, Plan
from .progress import Progress
from .row import Payload, Row
from .selection import Selection
from .tracked import TrackedMessage
from .vocabulary import Action, Box, Json, Key

__all__ = ["BATCH", "ListProgress", "ListQuery", "Listing", "Operator", "Reader", "Sort"]

BATCH = 1_000
"""Most items that one intent line, one sync and one result line stand for."""


@dataclass(frozen=True, slots=True)
class Sort:
    """Order of a list. ``column``: age (time since put), held (time in the box), size, source, tries, verdict, name."""

    column: str = "age"
    descending: bool = True


@dataclass(frozen=True, slots=True)
class ListQuery:
    """What to list: one box, narrowed by a filter (grammar: ``model.query``) and by a selection, in an order."""

    box: Box
    filter: str = ""
    sort: Sort = Sort()
    selection: Selection | None = None


class Listing(Protocol):
    """A list that is not a list of objects: it has a length and gives windows. It never changes; a later look gives a new one.
    Every method may block on I/O and is called off the event loop."""

    query: ListQuery
    complete: bool
    generation: int
    timed: bool
    """Whether time alone may bring it something else, though nothing has changed."""

    def __len__(self) -> int: ...

    def window(self, start: int, stop: int) -> Sequence[Row]:
        """Rows ``start`` to ``stop`` (cut at the end). A row that has gone since keeps its place, with ``note`` saying so."""
        ...

    def find(self, key: Key) -> int | None:
        """Where the row with this key stands, or None."""
        ...

    def keys(self) -> Iterator[Key]:
        """All keys, in order: what "mark all that match" takes."""
        ...


class ListProgress(Protocol):
    """Whoever waits for a list and shows how far it has come."""

    def due(self) -> bool:
        """Whether it is time to hear of it again: asked often, and answered fast."""
        ...

    def advanced(self, share: float, rows: Sequence[Row], count: int) -> None:
        """``share`` (0 to 1) of the work is done. ``count`` of the messages looked at so far match, and ``rows`` stand before all
        others of them by name; both empty where nothing is known before the end."""
        ...


class Reader(Protocol):
    """Looks at one spool. Not thread-safe but for ``changes`` and ``wake``: one thread looks."""

    def see(self, *, rescan: bool = False) -> Sight:
        """One look. Scans what may have changed (everything with ``rescan``); never raises for what the spool does:
        the Observation says what is not visible."""
        ...

    def listing(
        self, query: ListQuery, cancelled: Callable[[], bool] = lambda: False, progress: ListProgress | None = None
    ) -> Listing:
        """A list out of the last look's scan. ``progress`` hears of it while it is made. Once ``cancelled`` was true it stays
        so, and what was listed until then is not ``complete``."""
        ...

    def read(self, key: Key, limit: int) -> Payload:
        """The first ``limit`` bytes of a message and facts for its detail. Raises ``Unreadable`` where it is gone or no file."""
        ...

    def follow(self, ids: Sequence[str], since: float) -> Mapping[str, TrackedMessage]:
        """Where the messages with these ids are as of the last look, by id; at most 1,000 of them. Keeps an eye on them until
        asked for others (none: an empty list). Claims before ``since`` (epoch seconds) do not count."""
        ...

    def holders(self, key: Key) -> Holders:
        """Who has a file open or locked: of a row by its key, of a lock or a cursor file of the last look by its path. Raises
        ``Unreadable`` where it is gone or none of this target."""
        ...

    def current_step(self) -> str:
        """What the look under way is at, in words ("readdir of new"): asked, from another thread, when it does not come back."""
        ...

    def changes(self, timeout: float) -> bool:
        """Waits until something may have changed (True) or ``timeout`` seconds went by (False). Thread-safe."""
        ...

    def wake(self) -> None:
        """Makes ``changes`` return at once. Thread-safe."""
        ...

    def close(self) -> None: ...


class Operator(Protocol):
    """Changes one spool. ``perform`` is the only thing that changes anything."""

    def capabilities(self) -> Capabilities: ...

    def candidates(
        self, action: Action, selection: Selection, *, force: bool, options: Mapping[str, Json], now: float, progress: Progress
    ) -> Candidates:
        """Pins what ``selection`` names, and says of each what is refused and why. ``action`` UNDO takes ``options["undoes"]``.
        Changes nothing; asks ``progress`` every few hundred, which raises ``Stopped``."""
        ...

    def perform(self, plan: Plan, stop: Callable[[], bool] = lambda: False) -> Iterator[Sequence[ItemResult]]:
        """Does it, in batches of up to 1,000: intent line synced, each item re-checked and done, synced, result line."""
        ...

    def audit(self, line: bytes, *, sync: bool = True) -> None:
        """Appends one line, which ends with a newline, to the audit log, synced, unless the next line will be. Raises
        ``AuditFailed``."""
        ...

    def audit_logs(self) -> list[AuditLog]:
        """The audit log, read back: that of this user first, then what stands in a spool of somebody else. Raises
        ``Unreadable``."""
        ...

    def operations(self, progress: Progress) -> list[OperationRecord]:
        """All operations of the journal, newest first. ``progress`` as in ``candidates``."""
        ...

    def close(self) -> None: ...
