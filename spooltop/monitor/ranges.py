"""Threshold ranges as the Nagios plugin guidelines define them: a range describes the values that do not alert."""

from __future__ import annotations

import math
import re

from spooltop.errors import UsageError
from spooltop.records import dataclass

__all__ = ["Range"]

_NUMBER = r"-?(?:[0-9]+\.?[0-9]*|\.[0-9]+)"
_RANGE = re.compile(rf"(?P<inside>@?)(?:(?P<start>~|{_NUMBER}|):)?(?P<end>{_NUMBER}|)")


@dataclass(frozen=True, slots=True)
class Range:
    """A range ``[@][start:][end]``: ``start`` is 0 where it is left out and ``~`` for minus infinity, ``end`` is infinity where
    it is left out. A value outside alerts; with ``@``, a value inside. Both ends belong to the range.

    >>> [value for value in (-1, 0, 10, 11) if Range.of("10").alerts(value)]
    [-1, 11]
    >>> [value for value in (9, 10, 20, 21) if Range.of("@10:20").alerts(value)]
    [10, 20]
    >>> [Range.of(text).alerts(8) for text in ("~:7", "8:", "9:", "@~:8")]
    [True, False, True, True]
    """

    text: str
    start: float
    end: float
    inside: bool

    @classmethod
    def of(cls, text: str) -> Range:
        """Parses a range. Raises ``UsageError`` for anything else, and where the start is above the end."""
        found = _RANGE.fullmatch(text)
        if found is None or (found["start"] is None and not found["end"]):
            raise UsageError(f"no range: {text!r}", advice="as in 10, 10:, ~:10, 10:20, @10:20")
        start = -math.inf if found["start"] == "~" else float(found["start"] or 0)
        end = float(found["end"]) if found["end"] else math.inf
        if start > end:
            raise UsageError(f"the range {text!r} starts above its end", advice="as in 10, 10:, ~:10, 10:20, @10:20")
        return cls(text, start, end, bool(found["inside"]))

    def alerts(self, value: float) -> bool:
        return bool(self.judges(value, value))

    def judges(self, low: float, high: float) -> bool | None:
        """Returns True where every value from ``low`` to ``high`` alerts, False where none does, None where some do.

        >>> [Range.of("10").judges(low, math.inf) for low in (3, 11)], Range.of("@5:9").judges(0, 4)
        ([None, True], False)
        """
        if self.start <= low and high <= self.end:
            return self.inside
        return not self.inside if high < self.start or low > self.end else None
