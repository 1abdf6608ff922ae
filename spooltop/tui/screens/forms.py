"""The forms for test messages, for the value of a cursor, and for the name of the file that a payload is saved to. The first two
open a plan."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial

from msgspec import Struct
from textual.events import Key as KeyEvent
from textual.message import Message

from spooltop.errors import SpooltopError
from spooltop.model.cursors import Cursor, ParsedValue, parse_value
from spooltop.model.filters.selection import Selection
from spooltop.model.operations.plan import Result
from spooltop.model.text import escape
from spooltop.model.vocabulary import Action, Box, Json, Key

from ..commands import footer
from ..context import CommandContext, View
from ..draw.cursors import verdict_words
from ..draw.frame import inner_width, panel_frame
from ..draw.spans import BLANK, Line, Span, Style, clip_left, crop, join, pad, plain, safe, shown, text_width, wrap
from ..session import Session
from ..snapshot_thread import deliver
from .base import LineEdit, TableScreen, footer_line
from .plan import PlanScreen

_WIDEST, _NAME, _VALUE = 100, 8, 34


class Field(Struct, frozen=True):
    """A field of the form; ``hint`` explains it."""

    name: str
    text: str
    hint: str
    chosen: bool = False


def form_lines(fields: Sequence[Field], width: int, height: int) -> list[Line]:
    """A panel of at most ``height`` lines. A hint follows its field, on the next line where it does not fit."""
    width = min(width, _WIDEST)
    inner = inner_width(width)
    one_line = inner >= 2 + _NAME + _VALUE + 30
    room = _VALUE if one_line else max(1, inner - 2 - _NAME)
    body: list[Line] = []
    for field in fields:
        text = clip_left(shown(field.text), room - 2)  # text is typed at the end
        sign = Span("▌ " if field.chosen else "  ", Style.KEY)
        name = Span(pad(field.name, _NAME), Style.STRONG if field.chosen else Style.DIM)
        cursor = Span("█" if field.chosen else "", Style.KEY)
        gap = " " * (room - text_width(text) - len(cursor.text))
        hint = Span(field.hint, Style.DIM)
        body.append(crop(join(sign, name, text, cursor, gap, hint if one_line else ""), inner))
        if not one_line:
            body.append(crop(join(" " * (2 + _NAME), hint), inner))
    body += [BLANK, plain("They are marked as tests; consumers take them. Enter opens a plan first.", inner)]
    return panel_frame("Inject test messages into new", "", body[: max(1, height - 2)], width)[:height]


_LABEL = 8


def set_cursor_lines(cursor: Cursor, text: str, value: ParsedValue | None, width: int, height: int) -> list[Line]:
    """A panel of at most ``height`` lines. ``text`` is the raw text typed so far, ``value`` its meaning."""
    width = min(width, _WIDEST)
    inner = inner_width(width)
    room = max(1, inner - _LABEL)
    body = [
        _labelled("now", clip_left(shown(cursor.shown), room), inner),
        _labelled("new", clip_left(shown(text), room - 1), inner, Span("█", Style.KEY)),
        _labelled("stored", _stored(value, room), inner) if value is not None and cursor.in_file else BLANK,
        _labelled("file" if cursor.in_file else "stream", clip_left(safe(cursor.file), room), inner),
        crop(join(Span(f"{'verdict':<{_LABEL}}", Style.DIM), verdict_words(cursor)), inner),
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
    body += [plain(part, inner) for part in wrap(advice, inner)]
    return panel_frame(f"Set the cursor of {safe(cursor.source)}", "", body[: max(1, height - 2)], width)[:height]


def _stored(value: ParsedValue, room: int) -> str:
    """The value as it will be stored in the file, and how the text was read."""
    text = shown(json.dumps(value.value, ensure_ascii=False))
    words = f", {value.words}"
    return f"{clip_left(text, max(8, room - len(words)))}{words}"


def _labelled(label: str, text: str, inner: int, *more: Span) -> Line:
    return crop(join(Span(f"{label:<{_LABEL}}", Style.DIM), text, *more), inner)


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

    def typed(self, event: KeyEvent) -> bool:
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

    def typed(self, event: KeyEvent) -> bool:
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


_ADVICE = (
    "The whole payload, with fields redacted as they are shown. The file must not exist yet; only you may read it. "
    "A name without / is one in the directory that spooltop was started in."
)


class SaveScreen(TableScreen[str | None]):
    """Returns a notice of what was saved; None where it was left."""

    session: Session

    class Saved(Message):
        """The payload was saved to a path, with so many bytes, or could not be."""

        def __init__(self, found: tuple[str, int] | SpooltopError) -> None:
            super().__init__()
            self.found = found

    def __init__(self, session: Session, key: Key, id: str) -> None:
        super().__init__(session)
        self.key_of = key
        self.id_of = id
        self.edit = LineEdit(escape(id), limit=4000)
        self.saving = False

    def on_mount(self) -> None:
        self.paint()

    def context(self) -> CommandContext:
        return CommandContext(View.SAVING, snapshot=self.session.snapshot, depth=1)

    @property
    def edited(self) -> LineEdit:
        return self.edit

    def typed(self, event: KeyEvent) -> bool:
        if not self.edit.key(event.key, event.character):
            return False
        self.paint()
        return True

    def paint(self) -> None:
        if not self.ready:
            return
        width = min(self.window_size[0], _WIDEST)
        inner = inner_width(width)
        name = join(Span("file  ", Style.DIM), clip_left(shown(self.edit.text), inner - 7), Span("█", Style.KEY))
        body: list[Line] = [name, (), *(plain(line, inner) for line in wrap(_ADVICE, inner))]
        title = f"Save the payload of {clip_left(safe(self.id_of), max(8, width - 28))}"
        self.show_panel(panel_frame(title, "", body, width))

    def do_save_now(self) -> None:
        if not self.edit.text.strip():
            self.show_notice("type a name; Esc leaves")
        elif not self.saving:
            self.saving = True
            job = partial(self.session.control.save, self.key_of, self.edit.text)
            self.session.snapshot_thread.run(job, lambda found: deliver(self, self.Saved(found)))

    def on_save_screen_saved(self, message: Saved) -> None:
        self.saving = False
        if isinstance(message.found, SpooltopError):
            self.show_notice(f"not saved: {message.found}")
        else:
            path, size = message.found
            self.dismiss(f"saved {size:,} bytes to {escape(path)}")
