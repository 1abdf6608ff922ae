"""The screen that shows who has a file open or locked. It asks when it opens, and again on request."""

from __future__ import annotations

from functools import partial

from textual.message import Message

from spooltop.errors import SpooltopError
from spooltop.model.look.locks import Holders
from spooltop.model.vocabulary import Key

from ..context import CommandContext, View
from ..draw.elements.spans import Line, line_text, shown
from ..draw.holders import holders_lines
from ..session import Session
from ..threads.snapshot_thread import deliver
from .panel import TextScreen


class HoldersScreen(TextScreen[None]):
    """``key`` is a row's key, or the path of a lock or cursor file; ``name`` is what users call it."""

    class Answered(Message):
        """The holders, or why they are not known; ``at`` is the time of the answer, epoch seconds."""

        def __init__(self, holders: Holders | SpooltopError, at: float) -> None:
            super().__init__()
            self.holders = holders
            self.at = at

    session: Session

    def __init__(self, session: Session, key: Key, name: str) -> None:
        super().__init__(session)
        self.key = key
        self.about = name
        self.holders: Holders | None = None
        self.failed = ""
        self.looked_at: float | None = None

    def on_mount(self) -> None:
        self.ask()
        self.paint()

    def ask(self) -> None:
        """Looks at all processes, in the snapshot thread."""
        session = self.session
        session.snapshot_thread.run(
            partial(session.control.holders, self.key), lambda found: deliver(self, self.Answered(found, session.control.now()))
        )

    def on_holders_screen_answered(self, message: Answered) -> None:
        if isinstance(message.holders, SpooltopError):
            self.holders, self.failed = None, str(message.holders)
        else:
            self.holders, self.failed = message.holders, ""
        self.looked_at = message.at
        self.paint()

    def context(self) -> CommandContext:
        return CommandContext(View.HOLDERS, snapshot=self.session.snapshot, rows=1, depth=1)

    def text(self, width: int) -> list[Line]:
        return holders_lines(
            self.about, self.holders, width, at=self.looked_at, error=self.failed, who=self.session.control.labels.who,
            zone=self.session.zone(),
        )  # fmt: skip

    def do_ask_again(self) -> None:
        self.holders, self.failed, self.looked_at = None, "", None
        self.ask()
        self.paint()

    def do_copy_panel(self) -> None:
        text = "\n".join(line_text(line).rstrip() for line in self.text(200))
        self.copy_text(text)
        self.show_notice(f"copied: {self.session.control.labels.who} {shown(self.about)}")

