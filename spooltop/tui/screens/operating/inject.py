"""A form for test messages: their number, their content and their source. It opens a plan."""

from __future__ import annotations

from textual.events import Key

from spooltop.model.filters.selection import Selection
from spooltop.model.operations.plan import Result
from spooltop.model.vocabulary import Action, Box, Json

from ...commands import footer
from ...context import CommandContext, View
from ...draw.elements.spans import Line
from ...draw.operating.inject import Field, form_lines
from ...session import Session
from ..base import TableScreen, footer_line
from ..input import LineEdit
from .plan import PlanScreen

MOST = 100_000
HINTS = {
    "count": "how many, at most 100,000",
    "text": "{n} {id} {time} are filled in",
    "file": "a file's content instead of text",
    "size": "that many bytes instead of text",
    "source": "the source, or empty for none",
    "rate": "messages per second, or empty for no limit",
}


class InjectScreen(TableScreen[None]):
    """The fields are those of ``HINTS``. A size fills the messages with that many bytes instead of text."""

    session: Session

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.fields = {
            "count": LineEdit("1", limit=6, digits=True),
            "text": LineEdit("test message of spooltop"),
            "file": LineEdit(""),
            "size": LineEdit("", limit=9, digits=True),
            "source": LineEdit("", limit=60),
            "rate": LineEdit("", limit=6, digits=True),
        }
        self.chosen = "count"

    def on_mount(self) -> None:
        self.paint()

    def context(self) -> CommandContext:
        return CommandContext(View.INJECT, snapshot=self.session.snapshot, depth=1)

    @property
    def edited(self) -> LineEdit:
        return self.fields[self.chosen]

    def typed(self, event: Key) -> bool:
        names = list(self.fields)
        at = names.index(self.chosen)
        if event.key in ("down", "tab"):
            self.chosen = names[(at + 1) % len(names)]
        elif event.key in ("up", "shift+tab"):
            self.chosen = names[at - 1]
        elif not self.fields[self.chosen].key(event.key, event.character):
            return False
        self.paint()
        return True

    def paint(self) -> None:
        if not self.ready:
            return
        fields = [Field(name, edit.text, HINTS[name], name == self.chosen) for name, edit in self.fields.items()]
        self.show_panel(form_lines(fields, self.window_size[0], self.panel_height))

    def keys_line(self, width: int) -> Line:
        return footer_line([("↑↓", "field"), *footer(self.context())], width)

    def do_make(self) -> None:
        count = int(self.fields["count"].text or "0")
        if not 1 <= count <= MOST:
            self.show_notice(f"count: a number from 1 to {MOST:,}")
            return
        options: dict[str, Json] = {"count": count, "canary": True}  # as the form says: marked as tests
        if self.fields["file"].text and self.fields["size"].text:
            self.show_notice("give a file or a size, not both")
            return
        if self.fields["size"].text:
            options["size"] = int(self.fields["size"].text)
        elif self.fields["file"].text:
            options["file"] = self.fields["file"].text
        else:
            options["text"] = self.fields["text"].text
        if int(self.fields["rate"].text or "0"):
            options["rate"] = int(self.fields["rate"].text)
        if self.fields["source"].text:
            options["source"] = self.fields["source"].text
        self.open_screen(PlanScreen(self.session, Action.INJECT, Selection(box=Box.NEW), options), self._done)

    def _done(self, result: Result | None) -> None:
        if result is not None:
            self.dismiss(None)

