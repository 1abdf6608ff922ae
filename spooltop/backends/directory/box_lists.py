"""Lists of the boxes and single messages, from what the last look found. The modules that make lists are loaded with the first
list: a status has none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from spooltop.errors import Unreadable
from spooltop.model.row import Payload, Row
from spooltop.model.vocabulary import ASIDE, Box, Key
from spooltop.records import dataclass, field, replace

from .row_judge import JudgedRows
from .scan.boxes import Boxes
from .scan.scan import BoxScan
from .scan.set_aside import SetAsideBoxes
from .storage.open_spool import OpenSpool
from .storage.rows import mail_row, new_row
from .world import World

if TYPE_CHECKING:
    from spooltop.model.protocols import Listing, ListProgress, ListQuery

    from .listing.listing import NameListing
    from .listing.order import Order

__all__ = ["BoxLists", "LookResult"]


@dataclass(frozen=True, slots=True)
class LookResult:
    """Result of one look, as far as lists depend on it. ``others`` are values that change with the lists of the set-aside boxes.
    ``generation`` changes when a list may have changed."""

    scans: Mapping[Box, BoxScan] = field(default_factory=dict)
    judged: JudgedRows = field(default_factory=JudgedRows)
    irregular: tuple[Row, ...] = ()
    others: tuple[object, ...] = ()
    generation: int = 0

    @property
    def state(self) -> tuple[object, ...]:
        """Values that are equal in two looks if all their lists are."""
        return [scan.number for scan in self.scans.values()], self.judged.claims, self.judged.tmp, self.others


class BoxLists:
    """Makes lists from the last look. The order of a box is kept until its next scan."""

    def __init__(self, spool: OpenSpool, boxes: Boxes, set_aside: SetAsideBoxes, world: World, *, mail: bool) -> None:
        self._spool = spool
        self._boxes = boxes
        self._set_aside = set_aside
        self._clock = world.clock
        self._by_name = {Box.NEW: new_row, Box.CUR: mail_row} if mail else {Box.NEW: new_row}
        """Boxes that are listed by name alone, because nothing in them is judged."""
        self._orders: dict[Box, tuple[int, str, Order]] = {}
        self.last = LookResult()

    def update(self, look: LookResult) -> None:
        """Makes ``look`` the last look, with the generation that follows from the look before."""
        self.last = replace(look, generation=self.last.generation + (look.state != self.last.state))

    def clear(self) -> None:
        """Forgets the last look: nothing can be seen now."""
        self.last = LookResult(generation=self.last.generation + 1)

    def listing(self, query: ListQuery, cancelled: Callable[[], bool], progress: ListProgress | None) -> Listing:
        """Lists one box as the last look saw it. The list is empty and not complete if it did not see the box."""
        last, box = self.last, query.box
        rows: list[Row] = []
        complete = False
        if (scan := last.scans.get(box)) is not None and box in self._by_name:
            return self._names(query, scan, cancelled, progress)
        if scan is not None:
            judged, complete = (
                (last.judged.claims, last.judged.all_claims) if box is Box.CUR else (last.judged.tmp, last.judged.all_tmp)
            )
            known = {row.key for row in judged} if last.irregular else set()
            rows = [*judged, *(row for row in last.irregular if row.box is box and row.key not in known)]
            complete = complete and scan.complete
        elif box in ASIDE and self._spool.dirs is not None:
            rows, complete = self._set_aside.rows(self._spool.dirs, box, cancelled)
        from ..row_listing import RowListing

        return RowListing(query, rows, now=self._clock(), complete=complete, generation=last.generation)

    def _names(
        self, query: ListQuery, scan: BoxScan, cancelled: Callable[[], bool], progress: ListProgress | None
    ) -> NameListing:
        from .listing.listing import NamedBox, NameListing

        box, column = query.box, query.sort.column
        named = NamedBox(
            scan.names, partial(self._spool.status, box), dict(self._boxes.times(box)), box, self._by_name[box],
            scan.complete and not scan.error, self.last.generation,
        )  # fmt: skip
        before = self._orders.get(box)
        known = before[2] if before is not None and before[:2] == (scan.number, column) else None
        listing = NameListing(query, named, now=self._clock(), cancelled=cancelled, known=known, progress=progress)
        if listing.order is not None:
            self._orders[box] = (scan.number, column, listing.order)
        return listing

    def read(self, key: Key, limit: int) -> Payload:
        """Returns the first ``limit`` bytes of a message, and the facts about it. Raises ``Unreadable``."""
        dirs = self._spool.dirs
        if dirs is None:
            raise Unreadable("the spool cannot be opened", path=self._spool.path)
        from .listing.message import read_message, split_key

        box, operation, name = split_key(key)
        row = self._set_aside.row(dirs, box, operation, name) if box in ASIDE else self.last.judged.find(box, key)
        return read_message(dirs, key, limit, row, self.last.judged.sentences)
