"""Requests of a screen to the snapshot thread, and its findings: frozen values with past-tense names."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from spooltop.model import Capabilities, ConsumerList, ListQuery, Observation, Rates, Snapshot, TrackedMessage
from spooltop.model.vocabulary import Frozen, Key, Payload, Row

NOTHING_SEEN = Snapshot(
    Observation("", "", 0.0, False, {}, capabilities=Capabilities.nothing("nothing has been seen yet")), Rates()
)  # fmt: skip
"""The snapshot before the first look is done."""


class Search(Frozen):
    """A search for the next row (``step`` 1, or -1: the previous one) that matches ``text``, in the requested list, from its
    anchor on. ``number`` counts up with each search."""

    number: int
    text: str
    step: int


class ListRequest(Frozen):
    """The data that the screen needs besides the snapshot: a list with a window of rows, and one payload.

    ``anchor`` is the key under the cursor, ``anchor_index`` its last place. ``all_keys`` counts up with each request for all keys
    of the list.
    """

    query: ListQuery | None = None
    start: int = 0
    stop: int = 0
    anchor: Key | None = None
    anchor_index: int = 0
    payload: Key | None = None
    all_keys: int = 0
    search: Search | None = None
    consumers: bool = False
    """The consumers are wanted."""


class Requested(Frozen):
    """All that the screens want of the snapshot thread. ``version`` counts up with each change; messages are followed from
    ``since`` on (epoch seconds). The rescan and the jobs are wanted once."""

    version: int = 0
    list: ListRequest = ListRequest()
    ids: tuple[str, ...] = ()
    since: float = 0.0
    rescan: bool = False
    jobs: tuple[Callable[[], object], ...] = ()
    stopped: bool = False


class Page(Frozen):
    """A window of a list; ``generation`` differs for each listing made. ``anchor_at`` is the place of the request's anchor in it,
    None where it is gone or none was requested. ``ordered_over`` is that of the ``Listing``."""

    query: ListQuery
    generation: int
    length: int
    complete: bool
    start: int
    rows: tuple[Row, ...]
    anchor: Key | None
    anchor_at: int | None
    share: float | None = None
    """The share of the work that is done (0 to 1) while the list is made: ``length`` match so far. None: it is complete."""
    ordered_over: int | None = None

    def differs(self, old: Page | None) -> bool:
        """True where it shows something else than ``old``."""
        return old is None or (old.query, old.length, old.start, old.rows) != (self.query, self.length, self.start, self.rows)


class SnapshotTaken(Frozen):
    """A look found something to paint; the page is from the same look."""

    snapshot: Snapshot
    page: Page | None


class ClockMoved(Frozen):
    """A look at this time (epoch seconds) found nothing to paint."""

    at: float


class RowsRead(Frozen):
    """Another window, filter or order from the last look."""

    page: Page


class ListAdvanced(Frozen):
    """The share of the work of a list that is done (0 to 1), when no rows can be shown yet."""

    query: ListQuery
    share: float


class ConsumersRead(Frozen):
    """The consumers as of the last look."""

    found: ConsumerList


class KeysRead(Frozen):
    query: ListQuery
    keys: tuple[Key, ...]


class MatchFound(Frozen):
    """The result of a search: the row's place in the list; None where there is none in that direction."""

    query: ListQuery
    search: Search
    index: int | None


class PayloadRead(Frozen):
    """A payload was read; None where it could not be, and ``error`` says why."""

    key: Key
    payload: Payload | None = None
    error: str = ""


NOT_READ = PayloadRead(())


class MessagesTracked(Frozen):
    """The places of the followed messages, by id. ``taken_at`` is the time of the look, epoch seconds."""

    taken_at: float
    found: Mapping[str, TrackedMessage]


class LookFailed(Frozen):
    """A look or a listing raised; the last data stays on the screen."""

    error: str


Found = (
    SnapshotTaken | ClockMoved | RowsRead | KeysRead | PayloadRead | ConsumersRead | MessagesTracked | MatchFound | ListAdvanced
    | LookFailed
)  # fmt: skip
