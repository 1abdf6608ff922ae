"""Names of keys: those of the terminal's events, and those that users read."""

from __future__ import annotations

from collections.abc import Iterable

_SHOWN = {
    "up": "↑", "down": "↓", "left": "←", "right": "→", "pageup": "PgUp", "pagedown": "PgDn", "home": "Home", "end": "End",
    "enter": "Enter", "escape": "Esc", "backspace": "Backspace", "tab": "Tab", "shift+tab": "Shift-Tab", "space": "Space",
    "question_mark": "?", "slash": "/", "colon": ":", "exclamation_mark": "!", "less_than_sign": "<", "greater_than_sign": ">",
    "left_square_bracket": "[", "right_square_bracket": "]",
}  # fmt: skip


def character_of(key: str) -> str | None:
    """The character that a key types; None where it types none.

    >>> character_of("y"), character_of("slash"), character_of("enter")
    ('y', '/', None)
    """
    word = shown(key)
    return word if len(word) == 1 and word.isascii() else None


def named(word: str, keys: Iterable[str]) -> str | None:
    """The key among ``keys`` that users call ``word``; None where there is none.

    >>> named("Enter", ["j", "enter"]), named("x", ["j"])
    ('enter', None)
    """
    return next((key for key in keys if shown(key) == word), None)


def shown(key: str) -> str:
    """The name of a key that users read.

    >>> shown("ctrl+f"), shown("f5"), shown("question_mark"), shown("G")
    ('Ctrl-F', 'F5', '?', 'G')
    """
    if key in _SHOWN:
        return _SHOWN[key]
    if key.startswith("ctrl+"):
        return "Ctrl-" + key[5:].upper()
    if len(key) > 1 and key[0] == "f" and key[1:].isdigit():
        return key.upper()
    return key
