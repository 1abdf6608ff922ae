"""The forms for test messages, for the value of a cursor, and for the name of the file that a payload is saved to. The first two
open a plan."""

from __future__ import annotations

import json
from functools import partial

from textual.events import Key as KeyEvent
from textual.screen import ScreenResultType

from spooltop.cursors.draw import verdict_words
from spooltop.cursors.model import Cursor, ParsedValue, parse_value
from spooltop.errors import SpooltopError
from spooltop.model.plan import Result, Selection
from spooltop.model.vocabulary import Action, Box, Json, Key, escape

from ..commands import footer
from ..context import CommandContext, View
from ..draw.frame import inner_width, panel_frame
from ..draw.spans import BLANK, Line, Lines, Span, Style, fitted, join, paragraph, plain
from ..draw.text import clip_left, pad, safe, shown, text_width
from ..session import Session
from ..snapshot_thread import deliver
from .base import LineEdit, TableScreen, footer_line
from .plan import PlanScreen

_WIDEST, _NAME, _VALUE = 100, 8, 34
_LABEL = 8


def _stored(value: ParsedValue, room: int) -> str:
    """The value as it will be stored in the file, and how the text was read."""
    text = shown(json.dumps(value.value, ensure_ascii=False))
    words = f", {value.words}"
    return f"{clip_left(text, max(8, room - len(words)))}{words}"


def _labelled(label: str, text: str, inner: int, *more: Span) -> Line:
    return fitted(inner, Style.DIM(f"{label:<{_LABEL}}"), text, *more)


class FormScreen(TableScreen[ScreenResultType]):
    """Fields to be typed into, by their names; Tab and the arrows go from one to the next."""

    session: Session
    typing: LineEdit

    def __init__(self, session: Session, **fields: LineEdit) -> None:
        super().__init__(session)
        self.fields = fields
        self.chosen = next(iter(fields))
        self.typing = fields[self.chosen]

    def typed(self, event: KeyEvent) -> bool:
        names = list(self.fields)
        at = names.index(self.chosen)
        if event.key in ("down", "tab"):
            self.chosen = names[(at + 1) % len(names)]
        elif event.key in ("up", "shift+tab"):
            self.chosen = names[at - 1]
        elif not self.typing.key(event.key, event.character):
            return False
        self.typing = self.fields[self.chosen]
        self.paint()
        return True

    def form(self, inner: int) -> tuple[str, Lines]:
        """The title, and the lines in ``inner`` cells."""
        raise NotImplementedError

    def draw(self, width: int, height: int) -> Lines:
        width = min(width, _WIDEST)
        title, body = self.form(inner_width(width))
        return panel_frame(title, "", body[: max(1, height - 2)], width)

    def open_plan(self, action: Action, selection: Selection, options: dict[str, Json]) -> None:
        """Opens a plan, and leaves the form once it was applied."""
        self.open_screen(PlanScreen(self.session, action, selection, options), self._done)

    def _done(self, result: Result | None) -> None:
        if result is not None:
            self.dismiss(None)


MOST = 100_000
HINTS = {
    "count": "how many, at most 100,000",
    "text": "{n} {id} {time} are filled in",
    "file": "a file's content instead of text",
    "size": "that many bytes instead of text",
    "source": "the source, or empty for none",
    "rate": "messages per second, or empty for no limit",
}


class InjectScreen(FormScreen[None]):
    """The fields are those of ``HINTS``. A size fills the messages with that many bytes instead of text."""

    VIEW = View.INJECT

    def __init__(self, session: Session) -> None:
        super().__init__(
            session, count=LineEdit("1", limit=6, digits=True), text=LineEdit("test message of spooltop"), file=LineEdit(""),
            size=LineEdit("", limit=9, digits=True), source=LineEdit("", limit=60), rate=LineEdit("", limit=6, digits=True),
        )  # fmt: skip

    def form(self, inner: int) -> tuple[str, Lines]:
        """A hint follows its field, on the next line where it does not fit."""
        one_line = inner >= 2 + _NAME + _VALUE + 30
        room = _VALUE if one_line else max(1, inner - 2 - _NAME)
        body: Lines = []
        for field, edit in self.fields.items():
            chosen = edit is self.typing
            text = clip_left(shown(edit.text), room - 2)  # text is typed at the end
            sign = Style.KEY("▌ " if chosen else "  ")
            name = Span(pad(field, _NAME), Style.STRONG if chosen else Style.DIM)
            cursor = Style.KEY("█" if chosen else "")
            gap = " " * (room - text_width(text) - len(cursor.text))
            hint = Style.DIM(HINTS[field])
            body.append(fitted(inner, sign, name, text, cursor, gap, hint if one_line else ""))
            if not one_line:
                body.append(fitted(inner, " " * (2 + _NAME), hint))
        body += [BLANK, plain("They are marked as tests; consumers take them. Enter opens a plan first.", inner)]
        return "Inject test messages into new", body

    def keys_line(self, width: int) -> Line:
        return footer_line([("↑↓", "field"), *footer(self.context())], width)

    def do_make(self) -> None:
        texts = {name: edit.text for name, edit in self.fields.items()}
        count = int(texts["count"] or "0")
        if not 1 <= count <= MOST:
            self.show_notice(f"count: a number from 1 to {MOST:,}")
            return
        options: dict[str, Json] = {"count": count, "canary": True}  # as the form says: marked as tests
        if texts["file"] and texts["size"]:
            self.show_notice("give a file or a size, not both")
            return
        if texts["size"]:
            options["size"] = int(texts["size"])
        else:
            content = "file" if texts["file"] else "text"
            options[content] = texts[content]
        if int(texts["rate"] or "0"):
            options["rate"] = int(texts["rate"])
        if texts["source"]:
            options["source"] = texts["source"]
        self.open_plan(Action.INJECT, Selection(box=Box.NEW), options)


class SetCursorScreen(FormScreen[None]):
    """``cursor`` is the source when the form opened; the plan uses the file as it is then."""

    def __init__(self, session: Session, cursor: Cursor) -> None:
        super().__init__(session, value=LineEdit("", limit=4000))
        self.cursor_of = cursor

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
        text, present = self.typing.text, self.present
        return parse_value(text, present.value, field=present.field) if text.strip() else None

    def take(self, found: object) -> None:
        """Takes a new look: the present value may have changed."""
        self.paint()

    def form(self, inner: int) -> tuple[str, Lines]:
        cursor, value = self.present, self.value
        room = max(1, inner - _LABEL)
        body = [
            _labelled("now", clip_left(shown(cursor.shown), room), inner),
            _labelled("new", clip_left(shown(self.typing.text), room - 1), inner, Style.KEY("█")),
            _labelled("stored", _stored(value, room), inner) if value is not None and cursor.in_file else BLANK,
            _labelled("file" if cursor.in_file else "stream", clip_left(safe(cursor.file), room), inner),
            _labelled("verdict", "", inner, *verdict_words(cursor)),
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


_ADVICE = (
    "The whole payload, with fields redacted as they are shown. The file must not exist yet; only you may read it. "
    "A name without / is one in the directory that spooltop was started in."
)


class SaveScreen(FormScreen[str | None]):
    """Returns a notice of what was saved; None where it was left."""

    VIEW = View.SAVING

    def __init__(self, session: Session, key: Key, id: str) -> None:
        super().__init__(session, file=LineEdit(escape(id), limit=4000))
        self.key_of = key
        self.id_of = id
        self.saving = False

    def form(self, inner: int) -> tuple[str, Lines]:
        name = join(Style.DIM("file  "), clip_left(shown(self.typing.text), inner - 7), Style.KEY("█"))
        title = f"Save the payload of {clip_left(safe(self.id_of), max(8, inner - 24))}"
        return title, [name, BLANK, *paragraph(_ADVICE, inner)]

    def draw(self, width: int, height: int) -> Lines:
        return super().draw(width, height + 2)  # where it does not fit, the border goes first

    def do_save_now(self) -> None:
        if not self.typing.text.strip():
            self.show_notice("type a name; Esc leaves")
        elif not self.saving:
            self.saving = True
            job = partial(self.session.control.save, self.key_of, self.typing.text)
            self.session.snapshot_thread.run(job, partial(deliver, self, self._saved))

    def _saved(self, found: tuple[str, int] | SpooltopError) -> None:
        self.saving = False
        if isinstance(found, SpooltopError):
            self.show_notice(f"not saved: {found}")
        else:
            path, size = found
            self.dismiss(f"saved {size:,} bytes to {escape(path)}")
