"""Follows messages by their ids through the boxes; each step that was seen stays as a line."""

from __future__ import annotations

from collections.abc import Sequence

from spooltop.model.row import Row

from ..context import CommandContext, View
from ..draw.elements.spans import Line, line_text
from ..draw.follow import follow_lines
from ..session import Session
from ..threads.messages import Found, MessagesTracked
from ..tracking.timeline import Timeline
from .scrolling import ScrollingScreen


class FollowScreen(ScrollingScreen[None]):
    """``since``: claims that began before it do not count (epoch seconds; 0: a present claim counts). ``keep``: the screen below
    follows the same ids and continues to. ``seen``: what is known of the messages already."""

    session: Session

    def __init__(
        self, session: Session, ids: Sequence[str], since: float = 0.0, *, keep: bool = False, seen: MessagesTracked | None = None
    ) -> None:
        super().__init__(session)
        self.since = since
        self.keep = keep
        self.seen = seen
        self.timeline = Timeline(ids)

    def on_mount(self) -> None:
        if self.seen is not None:
            self.timeline.take(self.seen, self._rows())
        if not self.keep:
            self.session.snapshot_thread.follow(self.timeline.ids, self.since)
        self.session.snapshot_thread.look_again()
        self.paint()

    def on_unmount(self) -> None:
        if not self.keep:
            self.session.snapshot_thread.follow(())

    def _rows(self) -> dict[str, Row]:
        """Claims and files in tmp of the last look that are followed."""
        snapshot, ids = self.session.snapshot, set(self.timeline.ids)
        if snapshot is None:
            return {}
        return {row.id: row for row in (*snapshot.observation.tmp, *snapshot.observation.claims) if row.id in ids}

    def take(self, found: Found) -> None:
        """Takes the places of the messages at a new look."""
        if isinstance(found, MessagesTracked) and self.timeline.take(found, self._rows()):
            self.paint()

    def context(self) -> CommandContext:
        return CommandContext(View.FOLLOW, snapshot=self.session.snapshot, rows=1, depth=1, tracked=len(self.timeline.ids))

    def paint(self) -> None:
        if not self.ready:
            return
        self.show_panel(self._lines(self.window_size[0], self.panel_height))

    def _lines(self, width: int, height: int, scroll: int | None = None) -> list[Line]:
        seen = self.timeline
        return follow_lines(
            seen.ids, seen.steps, seen.now, width, height, since=seen.began, zone=self.session.zone(),
            scroll=self.scroll_at if scroll is None else scroll,
        )  # fmt: skip

    @property
    def place(self) -> int:
        return len(self.timeline.steps) - 1 - self.scroll_at

    @property
    def texts(self) -> list[str]:
        return [f"{step.id} {step.words}" for step in self.timeline.steps]

    def step(self, lines: int) -> None:
        # The newest step is last and stays visible: moving up scrolls back from there.
        super().step(-lines)

    def do_copy_panel(self) -> None:
        lines = self._lines(200, len(self.timeline.steps) + len(self.timeline.ids) + 50, scroll=0)
        self.copy_text("\n".join(line_text(line).rstrip() for line in lines))
        self.show_notice(f"copied: {len(self.timeline.steps):,} steps")

