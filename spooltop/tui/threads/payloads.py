"""Reads the payload of the message in front."""

from __future__ import annotations

from collections.abc import Callable

from spooltop.errors import SpooltopError
from spooltop.model.vocabulary import Key

from ..control_protocol import PAYLOAD_LIMIT, ControlProtocol
from .messages import Found, PayloadRead


class PayloadReader:
    """Reads one payload again after each look, and posts it where it differs from what was read before."""

    def __init__(self, control: ControlProtocol, post: Callable[[Found], object]) -> None:
        self._control = control
        self._post = post
        self._posted: PayloadRead | None = None

    def read(self, key: Key | None, *, looked: bool) -> None:
        """Reads the payload of ``key``, unless it was read since the last look; forgets it where ``key`` is None."""
        posted = self._posted
        if key is None:
            self._posted = None
            return
        if not looked and posted is not None and posted.key == key:
            return
        try:
            found = PayloadRead(key, self._control.read(key, PAYLOAD_LIMIT))
        except (SpooltopError, OSError) as error:
            found = PayloadRead(key, None, str(error))
        if found != posted:
            self._posted = found
            self._post(found)
