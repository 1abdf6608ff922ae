"""Terms of a filter: how each matches a row, and how it is written.

``holds(row, now)`` (epoch seconds) is None if the row does not say; ``str()`` gives a word that parses to the same term.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator
from typing import TypeAlias

from spooltop.patterns import pattern
from spooltop.records import dataclass

from .row import Row
from .text import escape
from .vocabulary import Box, Verdict

__all__ = ["COMPARE", "KEYED", "Age", "IsVerdict", "Pid", "Source", "Term", "Text", "Tries"]

COMPARE: dict[str, Callable[[float, float], bool]] = {
    ">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le, "=": operator.eq,
}  # fmt: skip
"""Comparison operators of a term, by their sign."""
KEYED = pattern(r"([A-Za-z]+):(.*)", re.DOTALL)
"""Matches ``key:value``."""


@dataclass(frozen=True, slots=True)
class Text:
    """Matches text anywhere in the shown fields."""

    needle: str

    def holds(self, row: Row, now: float) -> bool | None:
        return any(self.needle in part for part in _shown(row))

    def __str__(self) -> str:
        return _quote(self.needle, always=bool(KEYED.fullmatch(self.needle)) or self.needle.startswith("!"))


@dataclass(frozen=True, slots=True)
class Age:
    """Matches by the time in the box."""

    compare: str
    text: str
    seconds: float

    def holds(self, row: Row, now: float) -> bool | None:
        age = row.in_box_age(now)
        return None if age is None else COMPARE[self.compare](age, self.seconds)

    def __str__(self) -> str:
        return f"age:{self.compare}{self.text}"


@dataclass(frozen=True, slots=True)
class Source:
    """Matches a source whose shown name contains ``name``, or with ``whole`` equals it. An empty name matches messages of no
    known source."""

    name: str
    whole: bool = False

    def holds(self, row: Row, now: float) -> bool | None:
        source = escape(row.source or "")
        return source == self.name if self.whole else self.name in source

    def __str__(self) -> str:
        return "src:" + ("=" if self.whole and self.name else "") + _quote(self.name, always=not self.name)


@dataclass(frozen=True, slots=True)
class Pid:
    """Matches messages that this process holds or writes."""

    pid: int

    def holds(self, row: Row, now: float) -> bool | None:
        pid = row.owner.pid if row.owner else None
        return None if pid is None and _judged(row) else pid == self.pid

    def __str__(self) -> str:
        return f"pid:{self.pid}"


@dataclass(frozen=True, slots=True)
class Tries:
    """Matches by the number of attempts."""

    compare: str
    number: int

    def holds(self, row: Row, now: float) -> bool | None:
        return None if row.attempt is None else COMPARE[self.compare](row.attempt, self.number)

    def __str__(self) -> str:
        return f"tries:{'' if self.compare == '=' else self.compare}{self.number}"


@dataclass(frozen=True, slots=True)
class IsVerdict:
    """Matches messages with this verdict."""

    verdict: Verdict

    def holds(self, row: Row, now: float) -> bool | None:
        return None if row.verdict is None and _judged(row) else row.verdict == self.verdict

    def __str__(self) -> str:
        return f"verdict:{self.verdict}"


def _shown(row: Row) -> Iterator[str]:
    yield escape(row.name)
    yield escape(row.id)
    yield escape(row.source or "")
    yield escape((row.owner.command if row.owner else None) or "")
    yield row.evidence
    yield row.note
    yield row.reason


def _judged(row: Row) -> bool:
    """True if a row without a verdict or an owner means "not known" rather than "none"."""
    return row.box in (Box.CUR, Box.TMP)


Term: TypeAlias = Text | Age | Source | Pid | Tries | IsVerdict


def _quote(text: str, *, always: bool = False) -> str:
    if always or not text or '"' in text or any(char.isspace() for char in text):
        return '"' + text.replace('"', '""') + '"'
    return text
