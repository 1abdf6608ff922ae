"""Holds what the snapshot thread found until the screen takes it."""

from __future__ import annotations

import threading

from .messages import Found, KeysRead, MatchFound

__all__ = ["Mailbox"]

_ANSWERS = (KeysRead, MatchFound)
"""Answers to single requests about the list that precedes them."""


class Mailbox:
    """Stays small however long nothing is taken, as while a terminal does not read: a new message replaces an older one of its
    kind. May be used from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: list[Found] = []

    def put(self, found: Found) -> bool:
        """Adds a message; True where the mailbox was empty, so that the screen must be woken."""
        with self._lock:
            waiting = bool(self._found)
            if not isinstance(found, _ANSWERS):
                answered = max((place for place, one in enumerate(self._found) if isinstance(one, _ANSWERS)), default=-1)
                self._found = [
                    one for place, one in enumerate(self._found) if place <= answered or type(one) is not type(found)
                ]  # fmt: skip
            self._found.append(found)
            return not waiting

    def take(self) -> list[Found]:
        """Returns all messages in order and empties the mailbox."""
        with self._lock:
            found, self._found = self._found, []
            return found
