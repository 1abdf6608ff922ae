"""The findings of the snapshot thread that the main screen shows."""

from __future__ import annotations

from msgspec import Struct, field

from spooltop.model.look.consumers import ConsumerList
from spooltop.model.look.snapshot import Snapshot
from spooltop.model.protocols import ListQuery
from spooltop.model.row import Payload, Row

from ...draw.elements.apart import ALONE, Ends, common_ends
from ...draw.elements.spans import safe
from ...threads.messages import ListAdvanced, Page, PayloadRead
from ...tracking.event_log import EventLog


class Received(Struct):
    """The last finding of each kind. ``snapshot`` and ``page`` are from one look."""

    snapshot: Snapshot | None = None
    """The snapshot on the screen."""
    newest: Snapshot | None = None
    """The newest snapshot. It differs from the one on the screen while the display is frozen."""
    page: Page | None = None
    ends: Ends = ALONE
    """The parts that the ids of the list share, as far as its rows were seen."""
    advanced: ListAdvanced | None = None
    payload: PayloadRead | None = None
    consumers: ConsumerList | None = None
    """The consumers, as of the last look while their view was in front."""
    log: EventLog = field(default_factory=EventLog)
    """Events from one look to the next."""
    failed: str = ""
    """Why the last look or listing failed, empty where it did not."""

    def take_page(self, page: Page) -> None:
        """Takes a window of a list. What its ids share may become less while the list is scrolled, never more."""
        ids = [safe(row.id) for row in page.rows]
        same = self.page is not None and self.page.query == page.query
        self.ends = self.ends.narrowed(ids) if same else common_ends(ids)
        self.page = page

    def share(self, query: ListQuery | None) -> float | None:
        """The share of this list's work that is done (0 to 1); None where it is not known or the list is complete."""
        if self.page is not None and self.page.query == query:
            return self.page.share
        return self.advanced.share if self.advanced is not None and self.advanced.query == query else None

    def payload_of(self, row: Row | None) -> tuple[Payload | None, str]:
        """As much of a row's payload as was read, and why it could not be read."""
        if row is None or self.payload is None or self.payload.key != row.key:
            return None, ""
        return self.payload.payload, self.payload.error
