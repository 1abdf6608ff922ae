"""What the looker found and the screen has not taken yet."""

from __future__ import annotations

import threading

from .messages import Found, KeysRead, MatchFound

__all__ = ["Mailbox"]

_ANSWERS = (KeysRead, MatchFound)
"""What was asked for once, about the list that stands before it."""


class Mailbox:
    """Stays small however long nobody takes anything, as while a terminal does not read: what was found anew takes the place of
    what was found before of its kind. May be used from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: list[Found] = []

    def put(self, found: Found) -> bool:
        """True where nothing waited before: somebody has to be told."""
        with self._lock:
            told = bool(self._found)
            if not isinstance(found, _ANSWERS):
                answered = max((place for place, one in enumerate(self._found) if isinstance(one, _ANSWERS)), default=-1)
                self._found = [
                    one for place, one in enumerate(self._found) if place <= answered or type(one) is not type(found)
                ]  # fmt: skip
            self._found.append(found)
            return not told

    def take(self) -> list[Found]:
        """All that waits, in its order."""
        with self._lock:
            found, self._found = self._found, []
            return found
