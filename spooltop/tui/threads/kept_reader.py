"""Reads what was kept of an earlier dashboard while Textual is loaded. A home that does not answer delays the first
screen by a moment at most."""

from __future__ import annotations

import threading

from spooltop.errors import SpooltopError
from spooltop.model.protocols import KeptView

from ..control_protocol import ControlProtocol
from .worker import outcome

_PATIENCE = 0.3
"""Seconds for which a home that does not answer is waited for."""


def kept_view(control: ControlProtocol) -> KeptView:
    """Returns what was kept; the default where it cannot be read. May block."""
    found = outcome(control.kept_view)
    return KeptView() if isinstance(found, SpooltopError) else found


class KeptReader:
    """Owns the thread."""

    def __init__(self, control: ControlProtocol) -> None:
        self._control = control
        self._found: KeptView | None = None
        self._thread = threading.Thread(target=self._run, name="kept", daemon=True)
        self._thread.start()

    def take(self) -> KeptView | None:
        """Returns what was found; None where the home does not answer: nothing is kept at the end then, either."""
        self._thread.join(_PATIENCE)
        return self._found

    def _run(self) -> None:
        self._found = kept_view(self._control)
