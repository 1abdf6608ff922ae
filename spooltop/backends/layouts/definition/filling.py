"""Paths and texts that are filled in from the pieces of a message: ``jobs/{id}.state``, ``queued:{now:ms}``.

The pieces come from names that anybody may have put into the queue. A path that would lead out of it is never made.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from spooltop.records import dataclass

from .templates import DEEPEST, InvalidTemplate

__all__ = ["Filling"]

_PIECE = re.compile(r"\{([^{}]*)\}|([^{}]+)|(.)", re.DOTALL)
_NOW = {"sec": 1, "ms": 1000, "us": 1_000_000}
ALWAYS = ("path", "name", "now")
"""Pieces that every message has: its path below the root, its file name, the time."""


@dataclass(frozen=True, slots=True)
class Filling:
    """``text`` as it was written. ``parts`` are its literals and pieces: (literal, name, format), two of them empty."""

    text: str
    parts: tuple[tuple[str, str, str], ...]

    @classmethod
    def parse(cls, text: str, known: tuple[str, ...] = ()) -> Filling:
        """Reads it; ``known`` are the pieces that may stand in it besides those that every message has. Raises
        ``InvalidTemplate``."""
        parts: list[tuple[str, str, str]] = []
        for found in _PIECE.finditer(text):
            piece, literal, other = found.groups()
            if other is not None:
                raise InvalidTemplate(f"{other!r} opens or closes no piece")
            if literal is not None:
                parts.append((literal, "", ""))
                continue
            name, _, form = piece.partition(":")
            _check(piece, name, form, known)
            parts.append(("", name, form))
        return cls(text, tuple(parts))

    @classmethod
    def path(cls, text: str, known: tuple[str, ...] = ()) -> Filling:
        """Reads the filling of a path below the root. Raises ``InvalidTemplate``."""
        if text.startswith("/") or any(part in (".", "..") for part in text.split("/")):
            raise InvalidTemplate("it must lie below the directory: no / at the beginning, no . or .. in it")
        if text.count("/") >= DEEPEST:
            raise InvalidTemplate(f"it has {text.count('/') + 1} parts; a queue is read {DEEPEST} deep at most")
        return cls.parse(text, known)

    def fill(self, fields: Mapping[str, str], *, now: float = 0.0, next_number: Callable[[str], int] | None = None) -> str:
        """Returns the text for a message with these pieces. ``now`` in epoch seconds; ``next_number`` gives the number after the
        highest one that a piece has in the queue."""
        out: list[str] = []
        for literal, name, form in self.parts:
            if literal:
                out.append(literal)
            elif name == "now":
                out.append(str(int(now * _NOW[form or "sec"])))
            elif form.startswith("next") and next_number is not None:
                out.append(f"{next_number(name):{form.partition(':')[2] or '0'}d}")
            else:
                out.append(fields[name])
        return "".join(out)

    def path_of(self, fields: Mapping[str, str], **more: object) -> str | None:
        """Returns the path for a message, relative to the root; None where its pieces would lead elsewhere."""
        path = self.fill(fields, **more)  # type: ignore[arg-type]
        parts = path.removesuffix("/").split("/")
        return None if "\0" in path or any(part in ("", ".", "..") for part in parts) else path


def _check(piece: str, name: str, form: str, known: tuple[str, ...]) -> None:
    if name == "now":
        if form not in ("", *_NOW):
            raise InvalidTemplate(f"{{{piece}}}: the time is written as {', '.join(_NOW)}")
    elif name not in (*ALWAYS, *known):
        raise InvalidTemplate(f"{{{piece}}}: no such piece; there are {', '.join((*ALWAYS, *known))}")
    elif form and not re.fullmatch(r"next(:0?[0-9]{1,2})?", form):
        raise InvalidTemplate(f"{{{piece}}}: after the name only next or next:WIDTH may stand")
