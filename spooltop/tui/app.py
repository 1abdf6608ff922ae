"""The application: owns the open target and the watch over several, and hands what was found to the screen in front."""

from __future__ import annotations

import asyncio
import threading
import time
from functools import partial
from typing import Any

from textual.app import App
from textual.screen import Screen

from spooltop.control import Control
from spooltop.model import Clock, KeptView
from spooltop.monitor.spools_watch import SpoolsWatch

from .options import Options
from .screens.base import AppSession
from .screens.main import STALE_AFTER, MainScreen
from .screens.spools import SpoolsScreen
from .terminal.driver import TerminalDriver
from .terminal.lifecycle import catch_signals, goodbye, terminal_gone
from .threads import Pace, SnapshotThread

MOMENT = 0.4
"""Seconds that a plan must have been shown, with no key typed that has no meaning there, before a key confirms it: a typed word
must not confirm a plan."""


class SpooltopApp(App[int], inherit_bindings=False):
    """The dashboard on one control, or on several targets, of which one is open at a time. The screens look up keys in
    ``commands``; Textual's own bindings are off."""

    CSS_PATH = "spooltop.tcss"
    TITLE = "spooltop"
    ENABLE_COMMAND_PALETTE = False
    AUTO_FOCUS = None
    ALLOW_SELECT = False  # text is selected by the terminal, with Shift where the mouse is on
    _main: MainScreen | None = None

    def __init__(
        self, control: Control | None, options: Options, *, pace: Pace | None = None,
        monotonic: Clock = time.monotonic, snapshot_thread: SnapshotThread | None = None,
        moment: float = MOMENT, spools: SpoolsWatch | None = None, kept: KeptView | None = None,
    ) -> None:
        """``kept`` is what was kept of an earlier dashboard; None: nothing is kept.
        ``snapshot_thread`` is a thread on the same control that is started already. Without a control there are ``spools``."""
        # Set here, not by the theme below: otherwise NO_COLOR would be drawn as black on black.
        super().__init__(driver_class=TerminalDriver, ansi_color=True)
        self.theme = "ansi-light" if options.light else "ansi-dark"
        self.app_session = AppSession(options, threading.Event(), self.leave, moment, self._terminal)
        self.spools_screen = None if spools is None else SpoolsScreen(self.app_session, spools, self._show)
        self._make_thread = partial(SnapshotThread, pace=pace, monotonic=monotonic)
        self._left: dict[str, dict[str, Any]] = {}
        """The choices of the user in each target when it was left."""
        if control is not None:
            self._main = MainScreen(self.app_session, control, snapshot_thread or self._make_thread(control), kept=kept)

    @property
    def main(self) -> MainScreen:
        """The main screen of the open target. Raises ``LookupError`` where none is open."""
        if self._main is None:
            raise LookupError("no target is open")
        return self._main

    def get_default_screen(self) -> Screen[None]:
        """The main screen instead of an empty one below it, which would be laid out and painted first."""
        return self.spools_screen or self.main

    def on_mount(self) -> None:
        if not self.is_headless:
            catch_signals(self.leave)
        self._check()
        self.app_resume_signal.subscribe(self, self._resumed)

    # Several targets

    def _show(self, name: str, control: Control, kept: KeptView | None) -> None:
        """Shows a target that was opened from the Spools view."""
        self._main = MainScreen(
            self.app_session, control, self._make_thread(control), kept=kept, to_spools=partial(self._to_spools, name),
            before=self._left.get(name),
        )  # fmt: skip
        self.push_screen(self._main)

    def _to_spools(self, name: str) -> None:
        """Leaves the open target for the Spools view."""
        main, self._main = self.main, None
        # Only the choices of the user, or the data of each target that was ever open would be kept.
        self._left[name] = main.choices()

        def close() -> None:
            main.stop(patience=0.0)
            main.session.control.close()

        threading.Thread(target=close, name="close", daemon=True).start()
        if self.spools_screen is not None:
            self.spools_screen.spools.calm(False)
        main.dismiss()

    def leave(self, code: int = 0) -> None:
        """Ends with this exit code; an operation under way stops after its current item."""
        self.app_session.leaving.set()
        self.exit(return_code=code)

    def finish(self) -> None:
        """Ends the threads once the terminal is restored."""
        if self._main is not None:
            self._main.stop(patience=5.0)

    def _terminal(self) -> TerminalDriver | None:
        """The terminal; None in a test without one."""
        return self._driver if isinstance(self._driver, TerminalDriver) else None

    def terminal_drained(self) -> bool:
        """False where the terminal did not take the last output."""
        return getattr(self._driver, "drained", True)

    def goodbye(self) -> list[str]:
        """The lines that are printed on leaving."""
        return goodbye(self.app_session.results)

    def _resumed(self, _: object) -> None:
        # The shell used the terminal meanwhile, and events were lost while the process was stopped.
        if (terminal := self._terminal()) is not None:
            terminal.paint_all()
        if self._main is not None:
            self._main.session.snapshot_thread.look_again()
        if self.spools_screen is not None:
            self.spools_screen.spools.look_again()

    def _check(self) -> None:
        """Notices a look that hangs, and a terminal that is gone. The event loop calls it, because a timer of Textual costs ten
        times as much."""
        if not self.is_running:
            return
        due = STALE_AFTER if self._main is None else self._main.check()
        if not self.is_headless and terminal_gone():
            self.leave(129)
        asyncio.get_running_loop().call_later(due, self._check)
