"""A line of text being typed. It is pure: no blinking cursor costs bytes."""

from __future__ import annotations

from msgspec import Struct


class LineEdit(Struct):
    """``text`` with the cursor always at its end; ``limit`` in characters."""

    text: str = ""
    limit: int = 500
    digits: bool = False

    def key(self, key: str, character: str | None) -> bool:
        """Handles a key; True where it edits text. Ctrl-U empties the line, Ctrl-W removes the last word."""
        if key in ("backspace", "ctrl+h"):
            self.text = self.text[:-1]
        elif key == "ctrl+u":
            self.text = ""
        elif key == "ctrl+w":
            self.text = self.text.rstrip().rpartition(" ")[0]
        elif character is not None and character.isprintable() and len(character) == 1:
            if len(self.text) < self.limit and (not self.digits or character in "0123456789"):
                self.text += character
        else:
            return False
        return True

    def insert(self, text: str) -> None:
        """Inserts the first line of pasted text as if it had been typed."""
        for character in (text.splitlines() or [""])[0]:
            self.key("", character)
