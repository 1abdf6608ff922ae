"""Somebody before the terminal: presses keys one by one, looks before the next, and counts them."""

from __future__ import annotations

from collections.abc import Callable

from .terminal import Terminal

ESC = "\x1b"
ENTER = "\r"
DOWN = "\x1b[B"

Condition = str | Callable[[str], bool]


class Person:
    """Plays on ``screen``. ``keys`` is the number of keys pressed so far."""

    def __init__(self, screen: Terminal) -> None:
        self.screen = screen
        self.keys = 0

    def sees(self, what: Condition) -> str:
        """Waits until it stands there; the text of the screen."""
        return self.screen.wait_for(what)

    def press(self, key: str, then: Condition) -> str:
        """One key, and the look that follows it: waits for ``then``."""
        self.screen.type(key)
        self.keys += 1
        return self.sees(then)

    def leaves(self, key: str = "q") -> int:
        """The last key; the exit code."""
        self.screen.type(key)
        self.keys += 1
        return self.screen.wait_exit()


def all_of(*words: str) -> Callable[[str], bool]:
    """True of a screen that has all of these words."""
    return lambda text: all(word in text for word in words)


def in_one_line(words: str) -> Callable[[str], bool]:
    """True of a screen that has these words, wherever its lines are broken."""
    return lambda text: words in " ".join(text.split())
