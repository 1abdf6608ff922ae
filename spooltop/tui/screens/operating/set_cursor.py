"""A form for one cursor: its present value, and the new one being typed. It opens a plan."""

from __future__ import annotations

from textual.events import Key

from spooltop.model.cursors import Cursor, ParsedValue, parse_value
from spooltop.model.filters.selection import Selection
from spooltop.model.operations.plan import Result
from spooltop.model.vocabulary import Action

from ...context import CommandContext, View
from ...draw.operating.set_cursor import set_cursor_lines
from ...session import Session
from ..base import TableScreen
from ..input import LineEdit
from .plan import PlanScreen


class SetCursorScreen(TableScreen[None]):
    """``cursor`` is the source when the form opened; the plan uses the file as it is then."""

    session: Session

    def __init__(self, session: Session, cursor: Cursor) -> None:
        super().__init__(session)
        self.cursor_of = cursor
        self.edit = LineEdit("", limit=4000)

    def on_mount(self) -> None:
        self.paint()

    def context(self) -> CommandContext:
        return CommandContext(View.SETTING, snapshot=self.session.snapshot, cursor=self.cursor_of, depth=1)

    @property
    def present(self) -> Cursor:
        """The source as it is now, as long as it is seen."""
        snapshot, was = self.session.snapshot, self.cursor_of
        cursors = snapshot.cursors if snapshot is not None else ()
        return next((one for one in cursors if (one.source, one.file) == (was.source, was.file)), was)

    @property
    def value(self) -> ParsedValue | None:
        """The typed value as it would be stored; None where nothing is typed."""
        return parse_value(self.edit.text, self.present.value, field=self.present.field) if self.edit.text.strip() else None

    @property
    def edited(self) -> LineEdit:
        return self.edit

    def typed(self, event: Key) -> bool:
        if not self.edit.key(event.key, event.character):
            return False
        self.paint()
        return True

    def take(self, found: object) -> None:
        """Takes a new look: the present value may have changed."""
        self.paint()

    def paint(self) -> None:
        if not self.ready:
            return
        self.show_panel(set_cursor_lines(self.present, self.edit.text, self.value, self.window_size[0], self.panel_height))

    def do_set(self) -> None:
        value = self.value
        if value is None:
            self.show_notice("type the value; Esc leaves")
            return
        cursor = self.cursor_of
        options = {"source": cursor.source, "value": value.value, **({"file": cursor.file} if cursor.in_file else {})}
        self.open_screen(PlanScreen(self.session, Action.SET_CURSOR, Selection(), options), self._done)

    def _done(self, result: Result | None) -> None:
        if result is not None:
            self.dismiss(None)

