"""The form for the value of a cursor, which opens a plan."""

from __future__ import annotations

import json

from spooltop.model import Action, Selection
from spooltop.tui.commands import View
from spooltop.tui.draw.elements import BLANK, Line, Lines, Span, Style, clip_left, dim, join, paragraph, safe, shown
from spooltop.tui.screens.base import Facts, LineEdit, Session
from spooltop.tui.screens.changes import FormScreen

from .draw import verdict_words
from .model import Cursor, ParsedValue, parse_value

_LABEL = 8


def _labelled(label: str, text: str, *more: Span) -> Line:
    return join(dim(f"{label:<{_LABEL}}"), text, *more)


class SetCursorScreen(FormScreen[None]):
    """``cursor`` is the source when the form opened; the plan uses the file as it is then."""

    VIEW = View.SETTING

    def __init__(self, session: Session, cursor: Cursor) -> None:
        super().__init__(session, value=LineEdit("", limit=4000))
        self.cursor_of = cursor

    def facts(self) -> Facts:
        return {"cursor": self.cursor_of}

    @property
    def present(self) -> Cursor:
        """The source as it is now, as long as it is seen."""
        was = self.cursor_of
        return self.session.snapshot.cursor(was.source, was.file) or was

    @property
    def value(self) -> ParsedValue | None:
        """The typed value as it would be stored; None where nothing is typed."""
        text, present = self.typing.text, self.present
        return parse_value(text, present.value, field=present.field) if text.strip() else None

    def take(self, found: object) -> None:
        """Takes a new look: the present value may have changed."""
        self.paint()

    def form(self, inner: int) -> tuple[str, Lines]:
        cursor, value = self.present, self.value
        room = max(1, inner - _LABEL)
        stored = BLANK
        if value is not None and cursor.in_file:  # and how the text was read
            text, words = shown(json.dumps(value.value, ensure_ascii=False)), f", {value.words}"
            stored = _labelled("stored", f"{clip_left(text, max(8, room - len(words)))}{words}")
        body = [
            _labelled("now", clip_left(shown(cursor.shown), room)),
            _labelled("new", clip_left(shown(self.typing.text), room - 1), Style.KEY("█")),
            stored,
            _labelled("file" if cursor.in_file else "stream", clip_left(safe(cursor.file), room)),
            _labelled("verdict", "", *verdict_words(cursor)),
            BLANK,
        ]
        advice = "Only this section of the file changes, under the lock next to it. Enter opens a plan first."
        if not cursor.in_file:
            advice = (
                "The id of the last entry that the group was given: 0 delivers every entry again, $ skips all that wait. "
                "Enter opens a plan first, which counts them. Claims stay as they are."
            )
        elif cursor.shared:
            advice += " Its poller may overwrite it with the value it holds in memory: stop it first."
        return f"Set the cursor of {safe(cursor.source)}", body + paragraph(advice, inner)

    def do_set(self) -> None:
        value = self.value
        if value is None:
            self.show_notice("type the value; Esc leaves")
            return
        cursor = self.cursor_of
        options = {"source": cursor.source, "value": value.value, **({"file": cursor.file} if cursor.in_file else {})}
        self.open_plan(Action.SET_CURSOR, Selection(), options)
