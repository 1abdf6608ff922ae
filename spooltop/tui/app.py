"""The application: owns the two threads, keeps the newest snapshot, and hands what was found to the screen in front."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from importlib import import_module

from textual.app import App
from textual.message import Message
from textual.screen import Screen

from .context import CommandContext, View
from .control_protocol import ControlProtocol
from .draw.glyphs import ASCII, UNICODE
from .options import Options
from .screens.main.commands import OPENED
from .screens.main.screen import MainScreen
from .screens.main.state import MainState
from .session import Session
from .terminal.driver import TerminalDriver
from .terminal.lifecycle import catch_signals, goodbye, terminal_gone
from .threads.deliver import deliver
from .threads.messages import Found, SnapshotTaken
from .threads.pace import Pace
from .threads.snapshot_thread import SnapshotThread
from .threads.worker import Worker

__all__ = ["SpooltopApp"]

MOMENT = 0.4
"""Seconds that a plan must have been shown, with no key typed that has no meaning there, before a key confirms it: a typed word
must not confirm a plan."""
STALE_AFTER = 5.0
"""Seconds after which a look that has not finished is called stale."""


def first_view(layout: str) -> View:
    """The first view of a target with this layout: one that has something to show."""
    return {"cursors": View.CURSORS, "tickets": View.LOCKS, "locks": View.LOCKS}.get(layout, View.OVERVIEW)


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
        self.snapshot_thread = snapshot_thread or SnapshotThread(control, pace=pace, monotonic=monotonic)
        self.worker = Worker()
        self.mailbox = self.snapshot_thread.mailbox
        state = MainState(control.now, View(self.options.view) if self.options.view else first_view(control.layout))
        self.session = Session(
            control=control, options=self.options, glyphs=ASCII if self.options.ascii else UNICODE,
            snapshot_thread=self.snapshot_thread, worker=self.worker, leaving=threading.Event(), now=lambda: state.now,
            zone=lambda: state.times.zone, leave=self.leave, open_help=self._open_help, moment=moment,
            terminal=self._terminal,
        )  # fmt: skip
        self.main = MainScreen(self.session, state)

    def get_default_screen(self) -> Screen[None]:
        """The main screen instead of an empty one below it, which would be laid out and painted first."""
        return self.main

    def on_mount(self) -> None:
        self.mailbox.wake_with(lambda: deliver(self, self.Arrived()))
        self.snapshot_thread.start()
        self.worker.start()
        self._waiting = self.set_interval(0.1, self._paint_counted)
        if not self.is_headless:
            catch_signals(self.leave)
        self._check()
        self.app_resume_signal.subscribe(self, self._resumed)

    def on_spooltop_app_arrived(self) -> None:
        for found in self.mailbox.take():
            self._take(found)

    def _take(self, found: Found) -> None:
        if isinstance(found, SnapshotTaken):
            if self.session.snapshot is None:
                self.call_after_refresh(threading.Thread(target=load_rest, name="load", daemon=True).start)
            self.session.state.snapshot = found.snapshot
        self.main.take(found)
        front = self.screen_stack[-1] if self.screen_stack else None  # empty while the app ends
        take = getattr(front, "take", None)
        if front is not self.main and take is not None:
            take(found)

    def leave(self, code: int = 0) -> None:
        """Ends with this exit code; an operation under way stops after its current item."""
        self.session.leaving.set()
        self.exit(return_code=code)

    def _open_help(self, about: CommandContext) -> None:
        from .screens.help import HelpScreen

        self.push_screen(HelpScreen(self.session, about))

    def finish(self) -> None:
        """Ends the threads once the terminal is restored: waits for the operation under way, but not for a look that hangs."""
        self.worker.stop(timeout=5.0)
        self.snapshot_thread.stop(timeout=0.2)

    def _terminal(self) -> TerminalDriver | None:
        """The terminal; None in a test without one."""
        return self._driver if isinstance(self._driver, TerminalDriver) else None

    def terminal_drained(self) -> bool:
        """False where the terminal did not take the last output."""
        return getattr(self._driver, "drained", True)

    def goodbye(self) -> list[str]:
        """The lines that are printed on leaving."""
        return goodbye(self.session.state.results)

    def _resumed(self, _: object) -> None:
        # The shell used the terminal meanwhile, and events were lost while the process was stopped.
        if (terminal := self._terminal()) is not None:
            terminal.paint_all()
        self.snapshot_thread.look_again()

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
        waited, shown = self.snapshot_thread.looking_for(), self.main.state.times.stale_for
        stale = waited if waited >= STALE_AFTER else None
        if stale is not None or shown is not None:
            self.call_next(self.main.stale, stale, self.snapshot_thread.looking_at())
        if not self.is_headless and terminal_gone():
            self.leave(129)
        asyncio.get_running_loop().call_later(1.0 if stale else max(STALE_AFTER - waited, 0.1), self._check)
