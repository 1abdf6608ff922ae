"""The application: owns the open target, keeps its newest snapshot, and hands what was found to the screen in front."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from importlib import import_module

from textual.app import App
from textual.message import Message
from textual.screen import Screen

from .context import CommandContext
from .control_protocol import ControlProtocol
from .draw.glyphs import ASCII, UNICODE
from .open_target import OpenTarget
from .options import Options
from .screens.main.commands import OPENED
from .screens.main.screen import MainScreen
from .session import AppSession, Session, SessionState
from .terminal.driver import TerminalDriver
from .terminal.lifecycle import catch_signals, goodbye, terminal_gone
from .threads.deliver import deliver
from .threads.messages import Found, SnapshotTaken
from .threads.pace import Pace
from .threads.snapshot_thread import SnapshotThread

__all__ = ["SpooltopApp"]

MOMENT = 0.4
"""Seconds that a plan must have been shown, with no key typed that has no meaning there, before a key confirms it: a typed word
must not confirm a plan."""


def load_rest() -> None:
    """Imports what the first look did not need, so that the first key does not wait for it."""
    for name in OPENED:
        import_module(f".screens.{name}", __package__)


class SpooltopApp(App[int], inherit_bindings=False):
    """The dashboard on one control. The screens look up keys in ``commands``; Textual's own bindings are off."""

    CSS_PATH = "spooltop.tcss"
    TITLE = "spooltop"
    ENABLE_COMMAND_PALETTE = False
    AUTO_FOCUS = None
    ALLOW_SELECT = False  # text is selected by the terminal, with Shift where the mouse is on

    class Arrived(Message):
        """Something is in the mailbox."""

    def __init__(
        self, control: ControlProtocol, options: Options | None = None, *, pace: Pace | None = None,
        monotonic: Callable[[], float] = time.monotonic, snapshot_thread: SnapshotThread | None = None,
        moment: float = MOMENT,
    ) -> None:
        """``snapshot_thread`` is a thread on the same control that is started already."""
        # Set here, not by the theme below: otherwise NO_COLOR would be drawn as black on black.
        super().__init__(driver_class=TerminalDriver, ansi_color=True)
        self.options = options or Options()
        self.theme = "ansi-light" if self.options.light else "ansi-dark"
        self.app_session = AppSession(
            options=self.options, glyphs=ASCII if self.options.ascii else UNICODE, leaving=threading.Event(), leave=self.leave,
            open_help=self._open_help, moment=moment, terminal=self._terminal, state=SessionState(),
        )  # fmt: skip
        self.target = OpenTarget(control, self.app_session, pace=pace, monotonic=monotonic, snapshot_thread=snapshot_thread)
        self._loaded = False

    @property
    def main(self) -> MainScreen:
        """The main screen of the target in front."""
        return self.target.main

    @property
    def session(self) -> Session:
        """The session of the target in front."""
        return self.target.session

    def get_default_screen(self) -> Screen[None]:
        """The main screen instead of an empty one below it, which would be laid out and painted first."""
        return self.main

    def on_mount(self) -> None:
        self.target.start(lambda: deliver(self, self.Arrived()))
        self._waiting = self.set_interval(0.1, self._paint_counted)
        if not self.is_headless:
            catch_signals(self.leave)
        self._check()
        self.app_resume_signal.subscribe(self, self._resumed)

    def on_spooltop_app_arrived(self) -> None:
        for found in self.target.mailbox.take():
            self._take(found)

    def _take(self, found: Found) -> None:
        if isinstance(found, SnapshotTaken) and not self._loaded:
            self._loaded = True
            self.call_after_refresh(threading.Thread(target=load_rest, name="load", daemon=True).start)
        self.target.take(found)
        front = self.screen_stack[-1] if self.screen_stack else None  # empty while the app ends
        take = getattr(front, "take", None)
        if front is not self.main and take is not None:
            take(found)

    def leave(self, code: int = 0) -> None:
        """Ends with this exit code; an operation under way stops after its current item."""
        self.app_session.leaving.set()
        self.exit(return_code=code)

    def _open_help(self, about: CommandContext) -> None:
        from .screens.help import HelpScreen

        self.push_screen(HelpScreen(self.app_session, about))

    def finish(self) -> None:
        """Ends the threads once the terminal is restored: waits for the operation under way, but not for a look that hangs."""
        self.target.finish()

    def _terminal(self) -> TerminalDriver | None:
        """The terminal; None in a test without one."""
        return self._driver if isinstance(self._driver, TerminalDriver) else None

    def terminal_drained(self) -> bool:
        """False where the terminal did not take the last output."""
        return getattr(self._driver, "drained", True)

    def goodbye(self) -> list[str]:
        """The lines that are printed on leaving."""
        return goodbye(self.app_session.state.results)

    def _resumed(self, _: object) -> None:
        # The shell used the terminal meanwhile, and events were lost while the process was stopped.
        if (terminal := self._terminal()) is not None:
            terminal.paint_all()
        self.target.snapshot_thread.look_again()

    def _paint_counted(self) -> None:
        """Shows the messages counted so far until the first look is done."""
        if self.session.snapshot is None and self.options.counted() is None:
            return
        self._waiting.stop()
        if self.session.snapshot is None:
            self.main.paint()

    def _check(self) -> None:
        """Notices a look that hangs, and a terminal that is gone. The event loop calls it, because a timer of Textual costs ten
        times as much."""
        if not self.is_running:
            return
        due = self.target.check(self.call_next)
        if not self.is_headless and terminal_gone():
            self.leave(129)
        asyncio.get_running_loop().call_later(due, self._check)
