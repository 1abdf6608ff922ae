"""The state of the main screen: the choices of the user and the data that is shown. Knows no widget."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC

from spooltop.model.cursors import Cursor
from spooltop.model.locks import Lock
from spooltop.model.protocols import ListQuery, Sort
from spooltop.model.row import Payload, Row
from spooltop.model.snapshot import Snapshot
from spooltop.model.text import escape
from spooltop.model.vocabulary import Box

from ...change_filter import ChangeFilter
from ...context import BOX_OF, LISTS, ORDER, CommandContext, ListState, View
from ...draw.freshness import Freshness, Times
from ...draw.locks import ranked
from ...threads.messages import ListAdvanced, Page, PayloadRead, Search
from ..input import LineEdit

__all__ = ["ZONES", "FilterInput", "MainState"]

ZONES = ((Times.AGE, "ages", None), (Times.LOCAL, "local time", None), (Times.UTC, "UTC", UTC))
"""The formats of times, in the order of ``t``: the format, its name, and the time zone (None: local)."""


@dataclass(slots=True)
class FilterInput:
    """The filter while it is typed. ``error`` says which part of it cannot be parsed."""

    edit: LineEdit
    error: str = ""


@dataclass(slots=True)
class MainState:
    """``root`` is the view in front, ``overlay`` the message or source that was opened on it. ``clock`` gives the control's time
    in epoch seconds, for as long as there is no snapshot."""

    clock: Callable[[], float]
    root: View = View.OVERVIEW
    overlay: View | None = None

    snapshot: Snapshot | None = None
    """The snapshot on the screen."""
    newest: Snapshot | None = None
    """The newest snapshot. It differs from the one on the screen while the display is frozen or nothing changed."""
    page: Page | None = None
    advanced: ListAdvanced | None = None
    payload: PayloadRead | None = None
    change_filter: ChangeFilter = field(default_factory=ChangeFilter)
    failed: str = ""
    """Why the last look or listing failed, empty where it did not."""

    clock_at: float = 0.0
    """The time that the header shows, epoch seconds."""
    frozen_at: float | None = None
    stale_for: float | None = None
    stale_why: str = ""

    lists: dict[Box, ListState] = field(default_factory=lambda: {box: ListState(box, ORDER.get(box, Sort())) for box in Box})
    """The choices of the user in each list."""
    aside_box: Box = Box.HELD
    """The box that the Aside view shows."""
    chosen: dict[View, int] = field(default_factory=dict)
    """The chosen line of each view that does not list messages."""
    texts: dict[View, str] = field(default_factory=dict)
    """The filters of Cursors and Locks: a text that occurs in what is shown of them."""
    scroll: int = 0
    """The first line shown of an open message."""
    zone_index: int = 0
    """The entry of ``ZONES`` in use."""
    all_problems: bool = False
    filter_input: FilterInput | None = None
    last_filter: str = ""
    """The filter that was set last, which ``n`` goes on with."""

    search: Search | None = None
    keys_wanted: int = 0
    """Counts the requests for all keys of a list."""
    window: tuple[int, int] = (0, 60)
    """The rows of the list that are requested: the first one, and the one after the last."""

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
    def list_state(self) -> ListState | None:
        """The choices of the user in the list in front; None where the view lists no messages."""
        return self.lists[self.box] if self.box is not None else None

    @property
    def query(self) -> ListQuery | None:
        """The list in front, None where there is none."""
        chosen = self.list_state
        return None if chosen is None else ListQuery(chosen.box, chosen.filter, chosen.sort, chosen.selection)

    @property
    def filter(self) -> str:
        """The filter of the view in front."""
        return self.list_state.filter if self.list_state is not None else self.texts.get(self.root, "")

    @property
    def filtered(self) -> Snapshot | None:
        """The snapshot on the screen; where Cursors or Locks are in front, with only those that their filter matches."""
        snapshot, text = self.snapshot, self.texts.get(self.root, "").lower()
        if snapshot is None or not text:
            return snapshot
        cursors = tuple(one for one in snapshot.cursors if text in f"{escape(one.source)} {one.verdict} {one.evidence}".lower())
        locks = tuple(one for one in snapshot.observation.locks if text in f"{escape(one.path)} {one.kind} {one.verdict}".lower())
        return replace(snapshot, cursors=cursors, observation=replace(snapshot.observation, locks=locks))

    @property
    def cursors(self) -> tuple[Cursor, ...]:
        snapshot = self.filtered if self.root is View.CURSORS else self.snapshot
        return snapshot.cursors if snapshot is not None else ()

    @property
    def locks(self) -> tuple[Lock, ...]:
        """The locks in the order that they are shown in: stale ones first."""
        snapshot = self.filtered if self.root is View.LOCKS else self.snapshot
        return ranked(snapshot) if snapshot is not None else ()

    @property
    def zone(self) -> datetime.tzinfo | None:
        """The zone that times are shown in; None: the local one."""
        return ZONES[self.zone_index][2]

    @property
    def now(self) -> float:
        """The time that ages refer to: that of the snapshot on the screen."""
        return self.snapshot.taken_at if self.snapshot is not None else self.clock()

    @property
    def freshness(self) -> Freshness:
        return Freshness(self.frozen_at, self.stale_for, self.stale_why if self.stale_for else "")

    def chosen_in(self, view: View, length: int) -> int:
        return max(0, min(self.chosen.get(view, 0), length - 1))

    def payload_of(self, row: Row | None) -> tuple[Payload | None, str]:
        """As much of a row's payload as was read, and why it could not be read."""
        if row is None or self.payload is None or self.payload.key != row.key:
            return None, ""
        return self.payload.payload, self.payload.error

    def context(self, row: Row | None, length: int) -> CommandContext:
        """The context of a command. ``row`` is the one under the cursor of the list in front, ``length`` that of the list."""
        snapshot, chosen = self.snapshot, self.list_state
        problems = snapshot.problems if snapshot is not None else ()
        cursors = self.cursors
        problem = cursor = lock = None
        if self.root is View.OVERVIEW:
            length = len(problems)
            problem = problems[self.chosen_in(View.OVERVIEW, length)] if problems else None
        elif self.root is View.CURSORS:
            length = len(cursors)
            cursor = cursors[self.chosen_in(View.CURSORS, length)] if cursors else None
        elif self.root is View.LOCKS:
            locks = self.locks
            length = len(locks)
            lock = locks[self.chosen_in(View.LOCKS, length)] if locks else None
        refined = bool(self.filter) or (chosen is not None and chosen.selection is not None)
        return CommandContext(
            view=self.front,
            snapshot=snapshot,
            box=self.box,
            row=row,
            rows=length,
            marked=len(chosen.marks) if chosen is not None and self.overlay is None else 0,
            filter=self.filter,
            last_filter=self.last_filter,
            refined=refined,
            problem=problem,
            cursor=cursor,
            lock=lock,
            depth=(self.overlay is not None) + refined + (self.root is not View.OVERVIEW) + self.all_problems,
            frozen=self.frozen_at is not None,
        )
