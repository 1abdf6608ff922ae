"""Follows messages through the boxes by their ids."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..control_protocol import ControlProtocol
from .messages import Found, MessagesTracked


class IdTracker:
    """Posts the places of the followed messages after each look."""

    def __init__(self, control: ControlProtocol, post: Callable[[Found], object]) -> None:
        self._control = control
        self._post = post
        self._tracking = False

    def track(self, ids: Sequence[str], since: float, *, looked: bool) -> None:
        """Finds the messages ``ids``. Tells the control once when there are none left."""
        if not ids and not self._tracking:
            return
        found = self._control.follow(ids, since)
        if looked and ids:
            self._post(MessagesTracked(self._control.now(), found))
        self._tracking = bool(ids)
