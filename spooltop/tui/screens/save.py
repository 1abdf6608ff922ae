"""A form for the name of the file that a payload is saved to."""

from __future__ import annotations

from functools import partial

from textual.events import Key as KeyEvent
from textual.message import Message

from spooltop.errors import SpooltopError
from spooltop.model.text import escape
from spooltop.model.vocabulary import Key

from ..context import CommandContext, View
from ..draw.elements.spans import Line, Span, Style, clip_left, join, plain, safe, shown, wrap
from ..draw.panels.frame import inner_width, panel_frame
from ..session import Session
from ..threads.snapshot_thread import deliver
from .base import TableScreen
from .input import LineEdit

_WIDEST = 100
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
