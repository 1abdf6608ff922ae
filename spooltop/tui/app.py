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
from spooltop.model import Clock, KeptView, SpooltopError
from spooltop.monitor.spools_watch import SpoolsWatch

from .options import Options
from .screens.base import AppSession
from .screens.main import STALE_AFTER, MainScreen
from .screens.spools import SpoolsScreen
from .terminal.driver import TerminalDriver
from .terminal.lifecycle import catch_signals, goodbye, terminal_gone
from .threads import Pace, SnapshotThread, deliver, kept_view, outcome

MOMENT = 0.4
"""Seconds that a plan must have been shown, with no key typed that has no meaning there, before a key confirms it: a typed word
must not confirm a plan."""


_LONG = 0.2
"""Seconds after which the user is told that a target is being opened."""


class SpooltopApp(App[int], inherit_bindings=False):
    """The dashboard on one control, or on several targets, of which one is open at a time. The screens look up keys in
    ``commands``; Textual's own bindings are off."""

    CSS_PATH = "spooltop.tcss"
    TITLE = "spooltop"
    ENABLE_COMMAND_PALETTE = False
    AUTO_FOCUS = None
    ALLOW_SELECT = False  # text is selected by the terminal, with Shift where the mouse is on
    _main: MainScreen | None = None
    _opening = 0

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
        self.spools = spools
        self.spools_screen = None if spools is None else SpoolsScreen(self.app_session, spools, self._open)
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
        if self.spools is not None:
            self.spools.wake_with(partial(deliver, self, self._glanced))
            self.spools.start()
        else:
            self.main.start(partial(deliver, self, self._arrived))
        if not self.is_headless:
            catch_signals(self.leave)
        self._check()
        self.app_resume_signal.subscribe(self, self._resumed)

    def _arrived(self) -> None:
        main = self._main
        for found in main.session.snapshot_thread.mailbox.take() if main is not None else ():
            front = self.screen_stack[-1] if self.screen_stack else None  # empty while the app ends
            for screen in dict.fromkeys((main, front)):
                if (take := getattr(screen, "take", None)) is not None:
                    take(found)

    # Several targets

    def _glanced(self) -> None:
        if self.spools_screen is not None and self._main is None:
            self.spools_screen.update()

    def _open(self, name: str) -> None:
        """Opens a target in a thread, for as long as that takes; "" gives up the one that is being opened."""
        self._opening += 1
        spools, number = self.spools, self._opening
        if not name or spools is None:
            return

        def run() -> None:
            opened = outcome(lambda: spools.open(name))
            kept = None if isinstance(opened, SpooltopError) else kept_view(opened)
            if not deliver(self, self._opened, number, name, opened, kept) and not isinstance(opened, SpooltopError):
                opened.close()

        threading.Thread(target=run, name="open", daemon=True).start()
        if self.spools_screen is not None:
            self.set_timer(_LONG, lambda screen=self.spools_screen: screen.waiting(name))

    def _opened(self, number: int, name: str, opened: Control | SpooltopError, kept: KeptView | None) -> None:
        """Shows a target that was opened, or why it could not be. ``number`` counts the targets that were to be opened."""
        screen = self.spools_screen
        wanted = number == self._opening and screen is not None and self.screen_stack[-1:] == [screen]
        if screen is not None and number == self._opening:
            screen.opened(str(opened) if isinstance(opened, SpooltopError) else "")
        if isinstance(opened, SpooltopError):
            return
        if not wanted or self.spools is None:  # it was given up, or another screen came to the front
            threading.Thread(target=opened.close, name="close", daemon=True).start()
            return
        self.spools.calm(True)
        self._main = MainScreen(
            self.app_session, opened, self._make_thread(opened), kept=kept, to_spools=partial(self._to_spools, name),
            before=self._left.get(name),
        )  # fmt: skip
        self.push_screen(self._main)
        self._main.start(partial(deliver, self, self._arrived))

    def _to_spools(self, name: str) -> None:
        """Leaves the open target for the Spools view."""
        main, self._main = self.main, None
        # Only the choices of the user, or the data of each target that was ever open would be kept.
        self._left[name] = main.choices()

        def close() -> None:
            main.stop(patience=0.0)
            main.session.control.close()

        threading.Thread(target=close, name="close", daemon=True).start()
        if self.spools is not None:
            self.spools.calm(False)
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
        if self.spools is not None:
            self.spools.look_again()

    def _check(self) -> None:
        """Notices a look that hangs, and a terminal that is gone. The event loop calls it, because a timer of Textual costs ten
        times as much."""
        if not self.is_running:
            return
        due = STALE_AFTER if self._main is None else self._main.check()
        if not self.is_headless and terminal_gone():
            self.leave(129)
        asyncio.get_running_loop().call_later(due, self._check)
