"""The screen of a result. It stays until it is closed, and follows the messages that were moved."""

from __future__ import annotations

from spooltop.model.operations.plan import Outcome, Result
from spooltop.model.text import escape

from ...context import CommandContext, View
from ...draw.elements.spans import Line, line_text
from ...draw.operating.operation import result_lines
from ...session import Session
from ...threads.messages import Found, MessagesTracked, SnapshotTaken
from ...tracking.status import CursorSet, cursor_since, followed_ids, since_then, waiting
from ..follow import FollowScreen
from ..scrolling import ScrollingScreen


class ResultScreen(ScrollingScreen[bool]):
    """Returns True where it is to be undone. ``since``: when the change began, epoch seconds; claims after it count. ``cursor``:
    the cursor that it set."""

    session: Session

    def __init__(self, session: Session, result: Result, since: float, cursor: CursorSet | None = None) -> None:
        super().__init__(session)
        self.result = result
        self.since = since
        self.cursor = cursor
        self.ids = () if cursor is not None else followed_ids(result)
        self.tracked: MessagesTracked | None = None

    def on_mount(self) -> None:
        if self.ids:
            self.session.snapshot_thread.follow(self.ids, self.since)
        self.paint()

    def on_unmount(self) -> None:
        self.session.snapshot_thread.follow(())

    def context(self) -> CommandContext:
        why = "" if self.result.undo else "nothing can be undone"
        return CommandContext(View.RESULT, snapshot=self.session.snapshot, rows=1, depth=1, undoable=why, tracked=len(self.ids))

    def take(self, found: Found) -> None:
        """Takes the places of the messages at a new look."""
        if isinstance(found, MessagesTracked):
            self.tracked = found
            self.paint()
        elif self.cursor is not None and isinstance(found, SnapshotTaken):
            self.paint()

    def paint(self) -> None:
        if self.ready:
            self.show_panel(self._lines(self.window_size[0], self.panel_height))

    def _lines(self, width: int, height: int) -> list[Line]:
        since = since_then(self.result, self.tracked, self.ids)
        if self.cursor is not None:
            since = cursor_since(self.result, self.cursor, self.session.snapshot)
        left = waiting(self.result, self.tracked, self.ids)
        return result_lines(self.result, width, height, since=since, waiting=left or None, scroll=self.scroll_at)

    def do_undo_result(self) -> None:
        self.dismiss(True)

    def do_follow(self) -> None:
        self.open_screen(FollowScreen(self.session, self.ids, self.since, keep=True, seen=self.tracked))

    def do_copy_result(self) -> None:
        lines = self._lines(200, len(self.result.items) + 50)
        text = "\n".join(line_text(line).rstrip() for line in lines)
        self.copy_text(text)
        self.show_notice(f"copied: the result of {self.result.operation}, {self.result.count(Outcome.DONE):,} done")

    @property
    def texts(self) -> list[str]:
        return [f"{escape(item.id)} {item.outcome} {item.reason}" for item in self.result.items]

    @property
    def length(self) -> int:
        return len(self.result.items)
