"""Templates of paths and texts: literal characters and typed pieces, ``processing/{owner}/{id}.msg``.

A piece is ``{name}``, ``{name:type}``, or ``*`` for characters that nobody asks for. A template is no regular expression: whoever
writes one cannot make a match take longer than the name is long. Each piece but the last open one takes what it can at its place
and never gives it back.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from spooltop.records import dataclass

from .units import UNITS

__all__ = ["DEEPEST", "TYPES", "InvalidTemplate", "Template"]

TYPES = {
    "": "any characters but a slash, as few as the text after it allows",
    "int": "decimal digits",
    "hex": "hexadecimal digits, small letters",
    "hexN": "exactly N hexadecimal digits: hex14",
    "sec": "10 decimal digits: epoch seconds",
    "ms": "13 decimal digits: epoch milliseconds",
    "hexsec": "8 hexadecimal digits: epoch seconds",
    "hexms": "11 or 12 hexadecimal digits: epoch milliseconds",
    "uuid": "36 characters of a UUID",
    "pfid": "6 to 20 letters and digits: an id of a Postfix queue",
    "A|B": "one of these words: queue|schedule",
}
"""The types of pieces, and the text that each takes."""

DEEPEST = 8
"""Maximum number of parts of a path."""

_CLASSES = {
    "int": "[0-9]++", "hex": "[0-9a-f]++", "sec": "[0-9]{10}", "ms": "[0-9]{13}", "hexsec": "[0-9a-f]{8}",
    "hexms": "[0-9a-f]{11,12}+",
    "uuid": "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "pfid": "[0-9A-Za-z]{6,20}+",
}  # fmt: skip
_SAMPLES = {
    "int": ("7", "12"), "hex": ("a7", "b"), "sec": ("1700000000", "1800000000"), "ms": ("1700000000000", "1800000000000"),
    "hexsec": ("6553f100", "6b49d200"), "hexms": ("18bcfe56800", "1a3185c5000"), "pfid": ("4XyZa7", "9BcDfGhJkL"),
    "uuid": ("0b0c3f6e-1c1e-4e7c-9d7e-1f3b5a7c9d0e", "1b0c3f6e-1c1e-4e7c-9d7e-1f3b5a7c9d0e"),
}  # fmt: skip
"""Two texts that each type takes."""
_PIECE = re.compile(r"\{([^{}]*)\}|\*|([^{}*]+)|(.)", re.DOTALL)
_NAME = re.compile(r"[a-z][a-z0-9_]*\Z")
_HEX = re.compile(r"hex([1-9][0-9]?)\Z")
_WORDS = re.compile(r"[A-Za-z0-9_.-]+(?:\|[A-Za-z0-9_.-]+)+\Z")


class InvalidTemplate(ValueError):
    """The template cannot be used; the text says why."""


@dataclass(frozen=True, slots=True)
class Template:
    """``text`` as it was written; ``types`` are those of its named pieces; ``depth`` is the number of slashes between its parts.
    ``directory``: it ends in a slash and matches directories only."""

    text: str
    types: Mapping[str, str]
    depth: int
    directory: bool
    pattern: re.Pattern[str]

    @classmethod
    def parse(cls, text: str) -> Template:
        """Reads the template of a path below the root of a queue. Raises ``InvalidTemplate``."""
        directory = text.endswith("/")
        parts = text.removesuffix("/").split("/")
        if text.startswith("/"):
            raise InvalidTemplate("it must lie below the directory: it begins with /")
        if any(part in ("", ".", "..") for part in parts):
            raise InvalidTemplate("it has an empty part, . or ..")
        if len(parts) > DEEPEST:
            raise InvalidTemplate(f"it has {len(parts)} parts; a queue is read {DEEPEST} deep at most")
        types: dict[str, str] = {}
        pattern = "/".join(_compile(part, types, "[^/]") for part in parts)
        return cls(text, types, len(parts) - 1, directory, re.compile(pattern + r"\Z", re.DOTALL))

    @classmethod
    def of_text(cls, text: str) -> Template:
        """Reads the template of the text in a file, of a single line. Raises ``InvalidTemplate``."""
        types: dict[str, str] = {}
        return cls(text, types, 0, False, re.compile(_compile(text, types, "[^\n]") + r"\Z"))

    def match(self, path: str) -> dict[str, str] | None:
        """The pieces of ``path`` by name; None where it does not match."""
        found = self.pattern.match(path)
        return None if found is None else found.groupdict()

    def sample(self, other: bool = False) -> str:
        """A path that matches: one of two that differ in every piece that can."""
        def piece(found: re.Match[str]) -> str:
            kind = (found[1] or "").partition(":")[2]
            if "|" in kind:
                return kind.split("|")[-1 if other else 0]
            if exact := _HEX.match(kind):
                return "ab"[other] * int(exact[1])
            return _SAMPLES.get(kind, ("x", "y7"))[other]

        return re.sub(r"\{([^{}]*)\}|\*", piece, self.text)

    def leads_through(self, folder: str) -> bool:
        """True if a path that matches may lie in ``folder``, itself a path below the root."""
        parts = folder.split("/")
        return len(parts) <= self.depth and Template.parse("/".join(self.text.split("/")[: len(parts)])).match(folder) is not None

    def time(self, fields: Mapping[str, str], name: str) -> tuple[str, str] | None:
        """The unit and the text of the piece ``name`` where its type is a time; else None."""
        unit = self.types.get(name, "")
        return (unit, fields[name]) if unit in UNITS and name in fields else None


def _compile(text: str, types: dict[str, str], any_character: str) -> str:
    """The regular expression of one part of a template; adds its named pieces to ``types``."""
    tokens = [(*found.groups(), found[0]) for found in _PIECE.finditer(text)]
    parts: list[str] = []
    open_at = max((i for i, (name, literal, other, _) in enumerate(tokens) if literal is None and _is_open(name)), default=-1)
    for place, (name, literal, other, whole) in enumerate(tokens):
        if other is not None:
            raise InvalidTemplate(f"{whole!r} opens or closes no piece: write {{name}} or {{name:type}}")
        if literal is not None:
            if not (place and _ends_atomic(tokens, place, open_at)):
                parts.append(re.escape(literal))
            continue
        body = _body(name, types, any_character, place == len(tokens) - 1)
        if _is_open(name) and place != open_at:
            following = tokens[place + 1][1] if place + 1 < len(tokens) else None
            if following is None:
                raise InvalidTemplate(f"{whole} stands beside another piece: put a character between them, or give it a type")
            # Up to the first place where the text after it stands, for good: linear however many of them there are.
            body = f"(?>{body}{re.escape(following)})"
        parts.append(body)
    return "".join(parts)


def _ends_atomic(tokens: list[tuple[str | None, ...]], place: int, open_at: int) -> bool:
    """True where the literal at ``place`` is part of the group of the open piece before it."""
    name, literal, _, _ = tokens[place - 1]
    return literal is None and _is_open(name) and place - 1 != open_at


def _is_open(name: str | None) -> bool:
    """True for ``*`` (None) and for a piece without a type: any characters."""
    return name is None or ":" not in name


def _body(piece: str | None, types: dict[str, str], any_character: str, last: bool) -> str:
    if piece is None:
        return f"{any_character}*" if last else f"{any_character}*?"
    name, _, kind = piece.partition(":")
    if not _NAME.match(name):
        raise InvalidTemplate(f"{{{piece}}}: a name is small letters, digits and _")
    if name in types:
        raise InvalidTemplate(f"{{{name}}} stands twice")
    exact = _HEX.match(kind)
    words = [re.escape(word) for word in sorted(kind.split("|"), key=len, reverse=True)] if _WORDS.match(kind) else []
    if kind and kind not in _CLASSES and not exact and not words:
        raise InvalidTemplate(f"{{{piece}}}: unknown type {kind!r}; there are {', '.join(one for one in TYPES if one)}")
    types[name] = kind
    if words:
        return f"(?P<{name}>(?>{'|'.join(words)}))"
    text = f"{any_character}+?" if not kind else f"[0-9a-f]{{{exact[1]}}}" if exact else _CLASSES[kind]
    return f"(?P<{name}>{text})"
