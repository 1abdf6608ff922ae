"""Holds what the snapshot thread found until the screen takes it."""

from __future__ import annotations

import threading
from collections.abc import Callable

from .messages import Found, KeysRead, MatchFound

_ANSWERS = (KeysRead, MatchFound)
"""Answers to single requests about the list that precedes them."""


class Mailbox:
    """Stays small however long nothing is taken, as while a terminal does not read: a new message replaces an older one of its
    kind. May be used from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: list[Found] = []
        self._wake: Callable[[], object] | None = None

    def wake_with(self, wake: Callable[[], object]) -> None:
        """Calls ``wake`` from now on where a message is put into the empty mailbox, in the thread that puts it; at once where
        there is one already."""
        with self._lock:
            self._wake = wake
            waiting = bool(self._found)
        if waiting:
            wake()

    def put(self, found: Found) -> None:
        with self._lock:
            wake = None if self._found else self._wake
            if not isinstance(found, _ANSWERS):
                answered = max((place for place, one in enumerate(self._found) if isinstance(one, _ANSWERS)), default=-1)
                self._found = [
                    one for place, one in enumerate(self._found) if place <= answered or type(one) is not type(found)
                ]  # fmt: skip
            self._found.append(found)
        if wake is not None:
            wake()

    def take(self) -> list[Found]:
        """Returns all messages in order and empties the mailbox."""
        with self._lock:
            found, self._found = self._found, []
            return found
