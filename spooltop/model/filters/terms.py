"""Terms of a filter: how each matches, and how it is written.

``holds(facts)`` is None if the fact is not known; ``str()`` gives a word that parses to the same term. A text with a ``*``
describes all of what it is compared with, and not a part: ``*`` stands for any characters, ``?`` for one.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from typing import TypeAlias

from spooltop.patterns import pattern
from spooltop.records import dataclass

from .facts import Facts

__all__ = ["COMPARE", "KEYED", "Age", "Error", "HeldBy", "Id", "IsVerdict", "Pid", "Source", "Term", "Text", "Tries", "Words"]

COMPARE: dict[str, Callable[[float, float], bool]] = {
    ">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le, "=": operator.eq,
}  # fmt: skip
"""Comparison operators of a term, by their sign."""
KEYED = pattern(r"([A-Za-z]+):(.*)", re.DOTALL)
"""Matches ``key:value``."""


@dataclass(frozen=True, slots=True)
class Words:
    """Text to be found. ``glob``: ``*`` and ``?`` in it have their meaning; else it occurs somewhere as it is."""

    text: str
    glob: bool = False

    @property
    def pieces(self) -> tuple[str, ...]:
        """The texts that occur in whatever matches."""
        return tuple(filter(None, re.split(r"[*?]", self.text))) if self.glob else (self.text,)

    def found_in(self, text: str) -> bool:
        return _matches_glob(self.text, text) if self.glob else self.text in text

    def quoted(self, *, always: bool = False) -> str:
        return self.text if self.glob else _quote(self.text, always=always or "*" in self.text)


@dataclass(frozen=True, slots=True)
class Text:
    """Matches text anywhere in the shown fields, or with a glob one of them in full."""

    words: Words

    def holds(self, facts: Facts) -> bool | None:
        return any(map(self.words.found_in, facts.texts))

    def __str__(self) -> str:
        text = self.words.text
        return self.words.quoted(always=bool(KEYED.fullmatch(text)) or text.startswith("!"))


@dataclass(frozen=True, slots=True)
class Age:
    """Matches by the time in the box."""

    compare: str
    text: str
    seconds: float

    def holds(self, facts: Facts) -> bool | None:
        age = facts.age
        return None if age is None else COMPARE[self.compare](age, self.seconds)

    def __str__(self) -> str:
        return f"age:{self.compare}{self.text}"


@dataclass(frozen=True, slots=True)
class Source:
    """Matches a source whose shown name contains the words, or with ``whole`` equals them. An empty name matches messages of no
    known source."""

    words: Words
    whole: bool = False

    def holds(self, facts: Facts) -> bool | None:
        return facts.source == self.words.text if self.whole else self.words.found_in(facts.source)

    def __str__(self) -> str:
        return "src:" + ("=" if self.whole and self.words.text else "") + self.words.quoted(always=not self.words.text)


@dataclass(frozen=True, slots=True)
class Id:
    """Matches an id that contains the words."""

    words: Words

    def holds(self, facts: Facts) -> bool | None:
        return any(map(self.words.found_in, facts.ids))

    def __str__(self) -> str:
        return f"id:{self.words.quoted()}"


@dataclass(frozen=True, slots=True)
class Error:
    """Matches by the end of the last attempt (``exit-1``, ``timeout``, ``died``), or the reason why it was set aside."""

    words: Words

    def holds(self, facts: Facts) -> bool | None:
        return any(error and self.words.found_in(error) for error in facts.errors)

    def __str__(self) -> str:
        return f"error:{self.words.quoted()}"


@dataclass(frozen=True, slots=True)
class Pid:
    """Matches what this process holds, waits for or writes."""

    pid: int

    def holds(self, facts: Facts) -> bool | None:
        pids = facts.pids
        return None if pids is None else self.pid in pids

    def __str__(self) -> str:
        return f"pid:{self.pid}"


@dataclass(frozen=True, slots=True)
class HeldBy:
    """Matches what the consumer of just this name holds."""

    name: str

    def holds(self, facts: Facts) -> bool | None:
        holder = facts.holder
        return None if holder is None else holder == self.name

    def __str__(self) -> str:
        return f"holder:{_quote(self.name)}"


@dataclass(frozen=True, slots=True)
class Tries:
    """Matches by the number of attempts."""

    compare: str
    number: int

    def holds(self, facts: Facts) -> bool | None:
        tries = facts.tries
        return None if tries is None else COMPARE[self.compare](tries, self.number)

    def __str__(self) -> str:
        return f"tries:{'' if self.compare == '=' else self.compare}{self.number}"


@dataclass(frozen=True, slots=True)
class IsVerdict:
    """Matches what has this verdict."""

    verdict: str

    def holds(self, facts: Facts) -> bool | None:
        verdict = facts.verdict
        return None if verdict is None else verdict == self.verdict

    def __str__(self) -> str:
        return f"verdict:{_quote(self.verdict)}"


Term: TypeAlias = Text | Age | Source | Id | Error | Pid | HeldBy | Tries | IsVerdict


def _matches_glob(glob: str, text: str) -> bool:
    """True if ``glob`` describes all of ``text``. It never goes back, so that no pattern takes long."""
    first, *rest = glob.split("*")
    if not rest:
        return _fits(first, text, 0) and len(first) == len(text)
    *between, last = rest
    end = len(text) - len(last)
    at = len(first)
    if end < at or not _fits(first, text, 0) or not _fits(last, text, end):
        return False
    for piece in between:
        found = next((place for place in range(at, end - len(piece) + 1) if _fits(piece, text, place)), None)
        if found is None:
            return False
        at = found + len(piece)
    return True


def _fits(piece: str, text: str, at: int) -> bool:
    if "?" not in piece:
        return text.startswith(piece, at)
    part = text[at : at + len(piece)]
    return len(part) == len(piece) and all(a in ("?", b) for a, b in zip(piece, part, strict=True))


def _quote(text: str, *, always: bool = False) -> str:
    if always or not text or '"' in text or any(char.isspace() for char in text):
        return '"' + text.replace('"', '""') + '"'
    return text
