"""What all screens share: a key is looked up in the table of commands; what is not available says why."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Generic

from textual.app import ComposeResult
from textual.await_complete import AwaitComplete
from textual.events import Key, Resize
from textual.screen import Screen, ScreenResultType

from ..commands import command_for, footer
from ..draw.said import said_lines
from ..draw.spans import Line, plain, wrap
from ..scene import Scene, View
from ..widgets import LinesView
from .footer import footer_line

if TYPE_CHECKING:
    from ..app import SpooltopApp

__all__ = ["LEAST", "LEAVING", "TableScreen", "too_small"]

LEAST = (40, 10)
"""The least window that anything is drawn in, columns and lines."""
LEAVING = ("escape", "q", "ctrl+c", "f10", "ctrl+z")
"""Keys that go back or end: what is not seen can be left, and nothing else."""
WAY_OUT = ("ctrl+c", "f10")
ANYWHERE = (*WAY_OUT, "ctrl+z", "ctrl+l")
"""Keys that mean the same whatever is being typed."""


def too_small(width: int, height: int) -> list[Line]:
    """What is said where there is no room."""
    words = f"spooltop needs {LEAST[0]}×{LEAST[1]}, this is {width}×{height}. q leaves."
    return [plain(line, width) for line in wrap(words, max(1, width))][:height]


class TableScreen(Screen[ScreenResultType], Generic[ScreenResultType], inherit_bindings=False):
    """A screen whose keys come from the table. For a command ``page-down`` it has a method ``do_page_down(key)``."""

    AUTO_FOCUS = ""
    PINNED = False
    """True where no key counts that was typed at another screen, nor one of this at another."""

    def __init__(self) -> None:
        super().__init__()
        self.message = ""
        self.left = False
        """True from the moment it is dismissed: it stays on the stack for a while yet."""

    def dismiss(self, result: ScreenResultType | None = None) -> AwaitComplete:
        self.left = True
        return super().dismiss(result)

    def body(self) -> ComposeResult:
        """The widgets of this screen: one of lines, where it says nothing else."""
        yield LinesView(glyphs=self.owner.glyphs, colour=self.owner.options.colour, id="panel")

    def compose(self) -> ComposeResult:
        yield from self.body()
        yield LinesView(too_small, glyphs=self.owner.glyphs, colour=self.owner.options.colour, id="small")

    def unwanted(self) -> Callable[[], bool]:
        """To be asked by the thread that works for this screen: whether nobody waits for it any more."""
        leaving = self.owner.leaving
        return lambda: self.left or leaving.is_set()

    def on_unmount(self) -> None:
        self.refresh()  # lets go of what it had drawn, as LinesView does

    @property
    def small(self) -> bool:
        """True where there is no room for anything: nothing of this screen can be seen."""
        width, height = self.app.size
        return width < LEAST[0] or height < LEAST[1]

    @property
    def owner(self) -> SpooltopApp:
        from ..app import SpooltopApp

        assert isinstance(self.app, SpooltopApp)
        return self.app

    @property
    def ready(self) -> bool:
        """True while there is something to paint on: looks arrive before a screen is composed and after it was left."""
        return self.is_mounted and bool(self.query(LinesView))

    def scene(self) -> Scene:
        raise NotImplementedError

    def paint(self) -> None:
        raise NotImplementedError

    def typed(self, event: Key) -> bool:
        """Takes a key where text is being typed; True where it was taken."""
        return False

    def ignores(self, event: Key) -> bool:
        """True for a key that must not count here (typed before this screen was seen)."""
        return False

    def show_panel(self, lines: Sequence[Line]) -> None:
        """``lines`` above the keys, or above what is to be said instead; those that do not fit are left out."""
        room = self.room
        self.query_one(LinesView).show([*lines[:room], *[()] * (room - len(lines)), *self._said_or_keys()])

    @property
    def room(self) -> int:
        """Lines of a panel above the keys, or above what is said."""
        return max(1, self.app.size.height - len(self._said_or_keys()))

    def _said_or_keys(self) -> list[Line]:
        width = self.app.size.width
        return said_lines(self.message, width) if self.message else [self.keys_line(width)]

    def keys_line(self, width: int) -> Line:
        """The keys that do something here."""
        return footer_line(footer(self.scene()), width)

    def say(self, message: str) -> None:
        """One line for the person, until the next key."""
        self.message = message
        self.paint()

    def on_key(self, event: Key) -> None:
        event.stop()
        event.prevent_default()
        stack = self.app.screen_stack  # not is_current: that is true of what shines through, too
        front = stack[-1] if stack else None
        if self.left or front is not self:
            self._pass_on(event, front)
            return
        if (self.small and event.key not in LEAVING) or self.ignores(event):
            return
        said, self.message = self.message, ""
        if not self.typed(event):
            self.command(event.key)
        elif said and not self.message:
            self.paint()
        if said and not self.message:
            self.paint()

    def _pass_on(self, event: Key, front: object) -> None:
        """What was under way when another screen came to the front was typed for that one; but nothing of it gets into a plan, or
        out of one to what is below: a plan counts what was typed at the plan."""
        if event.key in WAY_OUT:
            self.do_quit(event.key)
            return
        if front is self or not isinstance(front, TableScreen) or self.PINNED or front.PINNED:
            return
        again = Key(event.key, event.character)
        again.time = event.time
        front.post_message(again)

    def command(self, key: str) -> None:
        """Does what a key means here, or says why not."""
        command, reason = command_for(key, self.scene())
        if command is None:
            return
        if reason is not None:
            self.say(reason)
            return
        self.run_command(command.id, key)

    def run_command(self, id: str, key: str = "") -> None:
        getattr(self, "do_" + id.replace("-", "_"))(key)

    def on_resize(self, event: Resize) -> None:
        self.set_class(self.small, "-small")
        self.call_after_refresh(self.paint)

    def on_screen_resume(self) -> None:
        self.paint()

    # What every screen can do

    def do_quit(self, key: str) -> None:
        self.owner.leave(0)

    def do_suspend(self, key: str) -> None:
        self.app.action_suspend_process()

    def do_redraw(self, key: str) -> None:
        self.refresh(layout=True)
        for widget in self.query("*"):
            widget.refresh()

    def do_help(self, key: str) -> None:
        from .help import HelpScreen

        self.app.push_screen(HelpScreen(self.scene()))

    @property
    def view(self) -> View:
        return self.scene().view
