"""Rights of a user of the server, asked now and then and kept meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable

from spooltop.errors import SpooltopError
from spooltop.model.capabilities import Capabilities

from .client import Endpoint
from .operator.connection import connection_to
from .operator.permission import can_change
from .stream_names import StreamNames

__all__ = ["PermissionProbe"]

_KEPT = 30.0
"""Seconds for which the rights of a user are not asked again."""


class PermissionProbe:
    """Finds out now and then what a user of the server may do to a group. For one thread."""

    def __init__(
        self, endpoint: Endpoint, names: StreamNames, shown: str, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._server = connection_to(endpoint, shown)
        self._names = names
        self._monotonic = monotonic
        self._found: Capabilities | None = None
        self._until = 0.0

    def found(self) -> Capabilities:
        """Returns what may be done, as of some seconds ago."""
        if self._found is not None and self._monotonic() < self._until:
            return self._found
        self._found = None
        try:
            self._found = can_change(self._server, self._names)
            self._until = self._monotonic() + _KEPT
            return self._found
        except SpooltopError as error:  # that passes: it is asked again at the next look
            return Capabilities.nothing(f"{error.what.removeprefix('look: ')}; {error.advice}")
        finally:
            self._server.close()
