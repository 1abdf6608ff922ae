"""A target that is open in the dashboard: its control, the threads on it, and its main screen."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from spooltop.model.protocols import KeptView

from .context import View
from .control_protocol import ControlProtocol
from .screens.main.screen import MainScreen
from .screens.main.state import MainState
from .session import AppSession, Session
from .threads.messages import Found, SnapshotTaken
from .threads.snapshot_thread import Pace, SnapshotThread
from .threads.worker import Worker, outcome

STALE_AFTER = 5.0
"""Seconds after which a look that has not finished is called stale."""


def first_view(layout: str) -> View:
    """The first view of a target with this layout: one that has something to show."""
    return {"cursors": View.CURSORS, "tickets": View.LOCKS, "locks": View.LOCKS}.get(layout, View.OVERVIEW)


class OpenTarget:
    """Joins what belongs to one open target. ``snapshot_thread`` is a thread on the same control that is started already.
    ``to_spools`` leaves it for the Spools view, ``before`` is the state in which it was left the last time,
    ``kept`` what was kept of an earlier dashboard; None where nothing is kept at the end either."""

    def __init__(
        self, control: ControlProtocol, app: AppSession, *, pace: Pace | None = None,
        monotonic: Callable[[], float] = time.monotonic, snapshot_thread: SnapshotThread | None = None,
        to_spools: Callable[[], object] | None = None, before: MainState | None = None, kept: KeptView | None = None,
    ) -> None:  # fmt: skip
        self.control = control
        self.snapshot_thread = snapshot_thread or SnapshotThread(control, pace=pace, monotonic=monotonic)
        self.worker = Worker()
        self.mailbox = self.snapshot_thread.mailbox
        state = MainState(control.now, first_view(control.layout)) if before is None else before.again(control.now)
        self._kept = kept
        if before is None:
            if kept is not None:
                state.use(kept)
            if app.options.view:
                state.root = View(app.options.view)
            state.open_with(app.options.filter, app.options.sort)
        state.among_spools = to_spools is not None
        self.session = Session(
            options=app.options, glyphs=app.glyphs, leaving=app.leaving, leave=app.leave, open_help=app.open_help,
            moment=app.moment, terminal=app.terminal, state=app.state, control=control, snapshot_thread=self.snapshot_thread,
            worker=self.worker, now=lambda: state.now, zone=lambda: state.times.zone, to_spools=to_spools,
        )  # fmt: skip
        self.main = MainScreen(self.session, state)

    def start(self, wake: Callable[[], object]) -> None:
        """Starts the threads. ``wake`` is called in one of them where something was found."""
        self.mailbox.wake_with(wake)
        self.snapshot_thread.start()
        self.worker.start()

    def take(self, found: Found) -> None:
        """Hands what was found to the main screen."""
        if isinstance(found, SnapshotTaken):
            self.session.state.snapshot = found.snapshot
        self.main.take(found)

    def check(self, later: Callable[..., object]) -> float:
        """Notices a look that hangs, and tells the main screen by ``later(call, *arguments)``. Returns the seconds until the next
        check is due."""
        waited, shown = self.snapshot_thread.looking_for(), self.main.state.times.stale_for
        stale = waited if waited >= STALE_AFTER else None
        if stale is not None or shown is not None:
            later(self.main.stale, stale, self.snapshot_thread.looking_at())
        return 1.0 if stale else max(STALE_AFTER - waited, 0.1)

    def leave(self) -> None:
        """Ends the threads and closes the control, without waiting for a look that hangs. May be called in any thread."""
        self._keep()
        self.worker.stop(timeout=0.0)
        self.snapshot_thread.stop(timeout=0.0)
        self.control.close()

    def finish(self) -> None:
        """Ends the threads once the terminal is restored: waits for the operation under way, but not for a look that hangs."""
        keeping = threading.Thread(target=self._keep, name="keep", daemon=True)
        keeping.start()
        self.worker.stop(timeout=5.0)
        self.snapshot_thread.stop(timeout=0.2)
        keeping.join(1.0)

    def _keep(self) -> None:
        """Keeps the view and the orders, where they differ from what was kept before. May block where the home does."""
        kept = self.main.state.kept()
        if self._kept is not None and kept != self._kept:
            outcome(lambda: self.control.keep_view(kept))
