"""What a screen asks of the thread that looks, and what that thread found: frozen values, past-tense names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from spooltop.model.protocols import ListQuery
from spooltop.model.row import Payload, Row
from spooltop.model.snapshot import Snapshot
from spooltop.model.tracked import TrackedMessage
from spooltop.model.vocabulary import Key

__all__ = [
    "Found",
    "KeysRead",
    "ListAdvanced",
    "ListRequest",
    "LookFailed",
    "MatchFound",
    "MessagesTracked",
    "Page",
    "PayloadRead",
    "RowsRead",
    "Search",
    "SnapshotTaken",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Search:
    """The next row (``step`` 1, or -1: the one before) that matches ``text``, in the list of the wish, from its anchor on.
    ``number`` counts up with each search."""

    number: int
    text: str
    step: int


@dataclass(frozen=True, slots=True)
class ListRequest:
    """What the screen wants to know besides the snapshot: a list with a window of rows, and one payload.

    ``anchor`` is the key that the cursor stands on, ``anchor_index`` where it stood. ``all_keys`` counts up each time all keys
    of the list are wanted.
    """

    query: ListQuery | None = None
    start: int = 0
    stop: int = 0
    anchor: Key | None = None
    anchor_index: int = 0
    payload: Key | None = None
    all_keys: int = 0
    search: Search | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """A window of a list; ``generation`` differs for each listing made. ``anchor_at``: where the wish's anchor stands in it,
    None where it is gone (or none was wished)."""

    query: ListQuery
    generation: int
    length: int
    complete: bool
    start: int
    rows: tuple[Row, ...]
    anchor: Key | None
    anchor_at: int | None
    share: float | None = None
    """How much of the work is done (0 to 1) where the list is still made: ``length`` match so far. None: it is whole."""


@dataclass(frozen=True, slots=True)
class SnapshotTaken:
    """A look came back; the page is of the same look."""

    snapshot: Snapshot
    page: Page | None


@dataclass(frozen=True, slots=True)
class RowsRead:
    """Another window, filter or order, out of the last look."""

    page: Page


@dataclass(frozen=True, slots=True)
class ListAdvanced:
    """How much of the work of a list is done (0 to 1), of which nothing can be shown yet."""

    query: ListQuery
    share: float


@dataclass(frozen=True, slots=True)
class KeysRead:
    query: ListQuery
    keys: tuple[Key, ...]


@dataclass(frozen=True, slots=True)
class MatchFound:
    """What a search found: the row's place in the list; None where there is none in that direction."""

    query: ListQuery
    search: Search
    index: int | None


@dataclass(frozen=True, slots=True)
class PayloadRead:
    """``payload`` None: it could not be read, ``error`` says why."""

    key: Key
    payload: Payload | None
    error: str = ""


@dataclass(frozen=True, slots=True)
class MessagesTracked:
    """Where the messages are that are followed, by id. ``taken_at``: of the look that it is of, epoch seconds."""

    taken_at: float
    found: Mapping[str, TrackedMessage]


@dataclass(frozen=True, slots=True)
class LookFailed:
    """A look or a listing raised; what was seen before stays on the screen."""

    error: str
    query: ListQuery | None = None


Found = SnapshotTaken | RowsRead | KeysRead | PayloadRead | MessagesTracked | MatchFound | ListAdvanced | LookFailed
