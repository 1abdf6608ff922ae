"""Follows messages by their ids through the boxes, until it is left; each step that was seen stays as a line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...model.row import Row
from ..context import Scene, View
from ..draw.follow import follow_lines
from ..draw.spans import Line, line_text
from ..session import Session
from ..threads.messages import Followers
from ..tracking.timeline import Chronicle
from .scrolling import ScrollingScreen

if TYPE_CHECKING:
    from ..threads.messages import Found

__all__ = ["FollowScreen"]


class FollowScreen(ScrollingScreen[None]):
    """``since``: claims that began before it do not count (epoch seconds; 0: the one that stands counts). ``keep``: the one below
    follows the same ids and goes on with it. ``told``: what was seen of them already."""

    def __init__(
        self, session: Session, ids: Sequence[str], since: float = 0.0, *, keep: bool = False, told: Followers | None = None
    ) -> None:
        super().__init__(session)
        self.since = since
        self.keep = keep
        self.told = told
        self.chronicle = Chronicle(ids)

    def on_mount(self) -> None:
        if self.told is not None:
            self.chronicle.take(self.told, self._rows())
        if not self.keep:
            self.session.looker.follow(self.chronicle.ids, self.since)
        self.session.looker.look_again()
        self.paint()

    def on_unmount(self) -> None:
        if not self.keep:
            self.session.looker.follow(())

    def _rows(self) -> dict[str, Row]:
        """Claims and files in tmp of the last look, of those that are followed."""
        snapshot, ids = self.session.snapshot, set(self.chronicle.ids)
        if snapshot is None:
            return {}
        return {row.id: row for row in (*snapshot.sight.tmp, *snapshot.sight.claims) if row.id in ids}

    def take(self, found: Found) -> None:
        """A new look: where they are now."""
        if isinstance(found, Followers) and self.chronicle.take(found, self._rows()):
            self.paint()

    def scene(self) -> Scene:
        return Scene(View.FOLLOW, snapshot=self.session.snapshot, rows=1, depth=1, followed=len(self.chronicle.ids))

    def paint(self) -> None:
        if not self.ready:
            return
        self.show_panel(self._lines(self.window_size[0], self.room))

    def _lines(self, width: int, height: int, scroll: int | None = None) -> list[Line]:
        told = self.chronicle
        return follow_lines(
            told.ids, told.steps, told.now, width, height, since=told.began, zone=self.session.zone(),
            scroll=self.scroll_at if scroll is None else scroll,
        )  # fmt: skip

    @property
    def place(self) -> int:
        return len(self.chronicle.steps) - 1 - self.scroll_at

    @property
    def texts(self) -> list[str]:
        return [f"{step.id} {step.words}" for step in self.chronicle.steps]

    def step(self, lines: int) -> None:
        # The newest step stands last and stays in sight: going up is going back from there.
        super().step(-lines)

    def do_copy_panel(self) -> None:
        lines = self._lines(200, len(self.chronicle.steps) + len(self.chronicle.ids) + 50, scroll=0)
        self.copy_text("\n".join(line_text(line).rstrip() for line in lines))
        self.say(f"copied: {len(self.chronicle.steps):,} steps")

