"""State machines over plan, apply and undo, one for each kind of source."""

from __future__ import annotations

from .layout import LayoutMachine
from .machine import Machine
from .sides import CursorMachine, LockMachine, PauseMachine
from .spool import SpoolMachine
from .streams import StreamMachine

__all__ = ["MACHINES"]

MACHINES: dict[str, type[Machine]] = {
    "directory": SpoolMachine, "cursors": CursorMachine, "locks": LockMachine, "pause": PauseMachine, "layouts": LayoutMachine,
    "streams": StreamMachine,
}  # fmt: skip
