"""The state of the main screen: the choices of the user and the data that is shown. Knows no widget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC
from functools import lru_cache, partial
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from spooltop.cursors.draw import cursor_facts
from spooltop.cursors.model import VERDICTS as CURSOR_VERDICTS
from spooltop.cursors.model import Cursor
from spooltop.locks.draw import lock_facts, ranked
from spooltop.model import FIRST_SORT, ConsumerList, ConsumerRow, KeptView, ListQuery, Snapshot, Sort
from spooltop.model import query as filters
from spooltop.model.vocabulary import Box, Clock, Lock, Row, Verdict

from ..commands import BOX_OF, LISTS, ROOTS, CommandContext, ListState, View
from ..draw.elements import ALONE, Ends, Moment, Times, common_ends, safe, within
from ..draw.lists import COLUMNS, CONSUMER_COLUMNS, Column, ranked_consumers
from ..event_log import EventLog
from ..messages import NOT_READ, NOTHING_SEEN, ListAdvanced, ListRequest, Page, PayloadRead, Search

FORMATS = ((Times.AGE, "ages", None), (Times.LOCAL, "local time", None), (Times.UTC, "UTC", UTC))
"""The formats of times, in the order of ``t``: the format, its name, and the time zone (None: local)."""

VERDICTS = {
    View.CURSORS: CURSOR_VERDICTS, View.LOCKS: ("held", "blocked", "stale", "free", "unknown"),
    View.CONSUMERS: ("dead", "running", "stopped", "exited", "unknown"),
}  # fmt: skip
"""The words that a filter knows as verdicts, where they are not those on messages."""
MESSAGE_VERDICTS = tuple(Verdict)
_FIRST_SORT: Mapping[str, Sort] = {**FIRST_SORT, View.CONSUMERS: Sort("verdict")}
_COLUMNS: Mapping[Any, tuple[Column, ...]] = {**COLUMNS, View.CONSUMERS: CONSUMER_COLUMNS}


def _first_lists() -> dict[Box | View, ListState]:
    views = (View.OVERVIEW, View.CURSORS, View.CURSOR, View.LOCKS, View.CONSUMERS)
    return {
        name: ListState(name if isinstance(name, Box) else None, _FIRST_SORT.get(name, Sort())) for name in (*Box, *views)
    }  # fmt: skip


_parse = lru_cache(maxsize=8)(partial(filters.parse, lenient=True))


class MainState(Struct):
    """``root`` is the view in front, ``overlay`` the message or source that was opened on it. ``clock`` gives the control's time
    in epoch seconds, for as long as there is no snapshot."""

    clock: Clock
    root: View = View.OVERVIEW
    overlay: View | None = None

    # The last finding of each kind; ``snapshot`` and ``page`` are from one look

    snapshot: Snapshot = NOTHING_SEEN
    """The snapshot on the screen: the newest, unless the display is frozen."""
    page: Page | None = None
    ends: Ends = ALONE
    """The parts that the ids of the list share, as far as its rows were seen."""
    advanced: ListAdvanced | None = None
    payload: PayloadRead = NOT_READ
    consumer_list: ConsumerList | None = None
    """The consumers, as of the last look while their view was in front."""
    log: EventLog = field(default_factory=EventLog)
    """Events from one look to the next."""
    failed: str = ""
    """Why the last look or listing failed, empty where it did not."""

    # The times, and how fresh they are

    format: int = 0
    """The place in ``FORMATS``."""
    frozen_at: float | None = None
    """The time of the display since it was frozen, epoch seconds."""
    moved_to: float = 0.0
    """The time of the last look that found nothing new, epoch seconds."""
    stale_for: float | None = None
    """Seconds for which a look has not finished, for the reason ``stale_why``."""
    stale_why: str = ""

    # The part of the list in front that is requested from the snapshot thread

    window: tuple[int, int] = (0, 60)
    """The first row, and the one after the last."""
    all_keys: int = 0
    """Counts the requests for all keys of a list."""
    marking: ListQuery | None = None
    """The list whose keys are requested, to mark all, and are not there yet."""
    then: str = ""
    """Id of the command that was typed meanwhile: it is about all of them."""
    once_read: str = ""
    """Id of the command for a plan that was typed before the list was read: it is about the row that is chosen then."""
    search: Search | None = None

    # The choices of the user

    lists: dict[Box | View, ListState] = field(default_factory=_first_lists)
    """The choices of the user, by the box that is listed, else by the view."""
    aside_box: Box = Box.HELD
    """The box that the Aside view shows."""
    scroll: int = 0
    """The first line shown of an open message."""
    all_problems: bool = False
    among_spools: bool = False
    """True where the target was opened from the Spools view."""
    last_filter: str = ""
    """The filter that was set last, which ``n`` goes on with."""
    _ordered: tuple[ConsumerList, tuple[Sort, str], tuple[ConsumerRow, ...]] | None = None

    @property
    def share(self) -> float | None:
        """The share of the work of the list in front that is done (0 to 1); None where that is not known or it is complete."""
        return next((one.share for one in (self.page, self.advanced) if one is not None and one.query == self.query), None)

    def take_page(self, page: Page) -> None:
        """Takes a window of a list. What its ids share may become less while the list is scrolled, never more."""
        ids = [safe(row.id) for row in page.rows]
        same = self.page is not None and self.page.query == page.query
        self.ends = self.ends.narrowed(ids) if same else common_ends(ids)
        self.page, self.advanced = page, None

    def payload_of(self, row: Row | None) -> PayloadRead:
        """As much of a row's payload as was read, and why it could not be read."""
        return self.payload if row is not None and self.payload.key == row.key else NOT_READ

    @property
    def moment(self) -> Moment:
        times, _, zone = FORMATS[self.format]
        return Moment(self.now, zone, times, self.frozen_at, self.stale_for, self.stale_why if self.stale_for else "")

    def request(self, row: Row | None) -> ListRequest:
        """The request for the list in front, with the cursor as it was chosen and the payload of ``row``."""
        query, chosen = self.query, self.here
        if query is None:
            return ListRequest(all_keys=self.all_keys, consumers=self.root is View.CONSUMERS)
        payload = row.key if row is not None else None
        return ListRequest(query, *self.window, chosen.cursor, chosen.index, payload, self.all_keys, self.search)

    @property
    def front(self) -> View:
        return self.overlay or self.root

    @property
    def listed(self) -> bool:
        """True where a list of messages is in front, with nothing opened on it."""
        return self.overlay is None and self.root in LISTS

    @property
    def box(self) -> Box | None:
        return self.aside_box if self.root is View.ASIDE else BOX_OF.get(self.root)

    @property
    def panelled(self) -> Box | None:
        """The box in front, where its list has panels around it: not of mail, nor before the first look."""
        return self.box if self.snapshot is not NOTHING_SEEN and not self.snapshot.observation.is_mail else None

    @property
    def here(self) -> ListState:
        """The choices of the user in the view in front, whatever was opened on it."""
        return self.lists[self.box or self.root]

    @property
    def query(self) -> ListQuery | None:
        """The list in front, None where there is none."""
        chosen = self.here
        return None if chosen.box is None else ListQuery(chosen.box, chosen.filter, chosen.sort, chosen.selection)

    @property
    def filter(self) -> str:
        """The filter of the view in front."""
        return self.here.filter

    @property
    def filtered(self) -> Snapshot:
        """The snapshot on the screen; where Cursors or Locks are in front, with only those that their filter matches."""
        snapshot = self.snapshot
        if not self.filter:
            return snapshot
        wanted, now = self.parse(self.filter), self.now
        if self.root is View.CURSORS:
            cursors = tuple(one for one in snapshot.cursors if wanted.holds(cursor_facts(one, now)))
            return snapshot.replace(cursors=cursors)
        locks = snapshot.observation.locks
        left = tuple(one for one in locks if wanted.holds(lock_facts(one, snapshot.lock_verdict(one), now)))
        return snapshot.replace(observation=snapshot.observation.replace(locks=left))

    @property
    def filter_texts(self) -> tuple[str, ...]:
        """The texts of the filter in front, to be pointed out in what matches."""
        return self.parse(self.filter).texts

    def parse(self, text: str, root: View | None = None) -> filters.Query:
        """The parts of a filter that can be parsed, of the view ``root`` (None: the one in front)."""
        return _parse(text, verdicts=VERDICTS.get(root or self.root, MESSAGE_VERDICTS))

    @property
    def cursors(self) -> tuple[Cursor, ...]:
        return (self.filtered if self.root is View.CURSORS else self.snapshot).cursors

    @property
    def locks(self) -> tuple[Lock, ...]:
        """The locks in the order that they are shown in: stale ones first."""
        return ranked(self.filtered if self.root is View.LOCKS else self.snapshot)

    @property
    def consumers(self) -> tuple[ConsumerRow, ...]:
        """The consumers in the order that they are shown in, those alone that the filter matches."""
        found, chosen = self.consumer_list, self.lists[View.CONSUMERS]
        if found is None:
            return ()
        order, key = self._ordered, (chosen.sort, chosen.filter)
        if order is None or order[0] is not found or order[1] != key:
            wanted = self.parse(chosen.filter, View.CONSUMERS)
            taken = tuple(one for one in found.consumers if wanted.holds(filters.consumer_facts(one, found.taken_at)))
            order = self._ordered = (found, key, ranked_consumers(taken, chosen.sort))
        return order[2]

    @property
    def consumer_place(self) -> int:
        """The place of the chosen consumer, which it keeps when others come and go; that of the one that went where it has."""
        listed, chosen = self.consumers, self.lists[View.CONSUMERS]
        found = (at for at, one in enumerate(listed) if one.key == chosen.cursor)
        return within(next(found, chosen.index), len(listed))

    @property
    def now(self) -> float:
        """The time that ages refer to: that of the snapshot on the screen."""
        return self.snapshot.taken_at or self.clock()

    def place(self, length: int) -> int:
        """The place of the chosen line of the view in front, which has so many."""
        if self.root is View.CONSUMERS:
            return self.consumer_place
        return within(self.here.index, length)

    def open_with(self, filter: str, sort: Sort | None) -> None:
        """Sets the filter of the first view, and the order of the lists that have such a column."""
        self._sort_lists(dict.fromkeys(Box, sort))
        self.here.filter = filter or self.here.filter
        if self.box is not None:
            self.last_filter = filter or self.last_filter

    def _sort_lists(self, sorts: Mapping[str, Sort | None]) -> None:
        """Orders the lists that have such a column."""
        for name, one in self.lists.items():
            sort = sorts.get(name)
            if sort is not None and any(column.sort == sort.column for column in _COLUMNS.get(name, ())):
                one.sort = sort

    def kept(self) -> KeptView:
        """The choices that are kept for the next dashboard on this target: the orders that are not the first ones, too."""
        sorts = {name.value: one.sort for name, one in self.lists.items() if one.sort != _FIRST_SORT.get(name, Sort())}
        return KeptView(self.root.value, sorts, self.last_filter)

    def use(self, kept: KeptView) -> None:
        """Takes up the choices that were kept, as far as they exist."""
        if kept.view in ROOTS:
            self.root = View(kept.view)
        self._sort_lists(kept.sorts)
        self.last_filter = kept.last_filter

    def again(self, clock: Clock) -> MainState:
        """The state of the same target when it is opened again: the choices of the user, without marks, and no data."""
        lists = {name: replace(one, marks={}, scope=None) for name, one in self.lists.items()}
        return MainState(clock, self.root, lists=lists, aside_box=self.aside_box, last_filter=self.last_filter)

    def context(self, row: Row | None, length: int) -> CommandContext:
        """The context of a command. ``row`` is the one under the cursor of the list in front, ``length`` that of the list."""
        snapshot, name = self.snapshot, ""
        subjects: Sequence[Any] = ()
        match self.root:  # the field that holds what is chosen, where that is no message
            case View.OVERVIEW:
                name, subjects = "problem", snapshot.problems
            case View.CURSORS:
                name, subjects = "cursor", self.cursors
            case View.LOCKS:
                name, subjects = "lock", self.locks
            case View.CONSUMERS:
                name, subjects = "consumer", self.consumers
        if name:
            length = len(subjects)
        subject = {name: subjects[self.place(length)]} if subjects else {}
        unread = self.page is None or self.page.query != self.query or length > 0
        reading = self.consumer_list is None if self.root is View.CONSUMERS else self.root in LISTS and row is None and unread
        refined = bool(self.filter) or self.here.selection is not None
        return CommandContext(
            view=self.front,
            snapshot=snapshot,
            box=self.box,
            row=row,
            rows=length,
            marked=len(self.here.marks) if self.overlay is None else 0,
            filter=self.filter,
            last_filter=self.last_filter,
            **subject,
            depth=(self.overlay is not None) + refined + (self.root is not View.OVERVIEW) + self.all_problems
            + self.among_spools,
            among_spools=self.among_spools,
            reading=reading and not self.failed,
        )
