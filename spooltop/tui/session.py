"""The part of the running dashboard that screens may use. Each open target has one session, which is handed to its screens."""

from __future__ import annotations

import datetime
import threading
from collections.abc import Callable

from msgspec import Struct, field

from spooltop.control import Control
from spooltop.model.plan import Result
from spooltop.model.snapshot import Snapshot

from .options import Options
from .terminal.driver import TerminalDriver
from .threads import SnapshotThread, Worker


class SessionState(Struct):
    """The values of a session that change while the dashboard runs."""

    snapshot: Snapshot | None = None
    """The newest snapshot, whatever the main screen shows."""
    results: list[Result] = field(default_factory=list)
    """The results of all operations so far, oldest first. The worker appends to it."""
    early: str = ""
    """The key that would confirm a plan and came before that plan was painted, as the last key; "" where none did."""
    next_view: str | None = None
    """The id of the command of the view for which the panels on the stack are being left."""


class AppSession(Struct, frozen=True):
    """Everything that any screen may use besides Textual: no screen knows the app.

    ``leave`` ends the dashboard with an exit code. ``moment``: seconds that a plan is shown before a key confirms it.
    ``terminal`` gives the terminal, None where frames are drawn without one.
    """

    options: Options
    leaving: threading.Event
    """Set once the dashboard is being left; an operation under way stops after its current item."""
    leave: Callable[[int], object]
    moment: float
    terminal: Callable[[], TerminalDriver | None]
    state: SessionState

    @property
    def snapshot(self) -> Snapshot | None:
        """The newest snapshot; None before the first look is done."""
        return self.state.snapshot


class Session(AppSession, frozen=True):
    """Everything that a screen on an open target may use. ``now`` gives the time that ages are shown for (epoch seconds: that of
    the snapshot on the main screen), ``zone`` the time zone that times are shown in (None: local)."""

    control: Control
    snapshot_thread: SnapshotThread
    worker: Worker
    now: Callable[[], float]
    zone: Callable[[], datetime.tzinfo | None]
    to_spools: Callable[[], object] | None = None
    """Leaves the target for the Spools view; None where it was not opened from there."""
