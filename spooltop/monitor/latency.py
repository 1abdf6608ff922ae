"""Times of operations, gathered from several processes and boiled down to percentiles. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

_BITS = 7
"""Significant bits that are kept of each time, so that a percentile is at most 1.6 % too low."""
_FEW = 20
"""Number of samples below which a percentile means nothing."""


class Latencies:
    """Counts of times in nanoseconds, each with its first bits only: small enough to be sent, and to be added up."""

    def __init__(self, counts: Mapping[int, int] | None = None) -> None:
        self.counts: Counter[int] = Counter(counts or {})

    @classmethod
    def of(cls, times: Iterable[int]) -> Latencies:
        return cls(Counter(_rounded(one) for one in times))

    def add(self, other: Latencies) -> None:
        self.counts.update(other.counts)

    def __len__(self) -> int:
        return self.counts.total()

    def percentile(self, share: float) -> float | None:
        """Returns the time, in seconds, within which ``share`` (0 to 1) of the operations ended; None of too few samples.

        >>> Latencies.of(range(0, 100_000, 1000)).percentile(0.5)
        4.9664e-05
        """
        if len(self) < _FEW:
            return None
        left = share * len(self)
        for time in sorted(self.counts):
            left -= self.counts[time]
            if left < 0:
                return time / 1e9
        return max(self.counts) / 1e9


def _rounded(time: int) -> int:
    """Keeps the first bits of a number.

    >>> [_rounded(n) for n in (5, 127, 129, 1_000_000)]
    [5, 127, 128, 999424]
    """
    cut = max(0, time.bit_length() - _BITS)
    return time >> cut << cut


def shown(seconds: float | None) -> str:
    """Formats a time with three digits at most and its unit, ``—`` for None.

    >>> [shown(s) for s in (8.2e-7, 1.24e-5, 0.000345, 0.0123, 2.0, None)]
    ['0.8 µs', '12 µs', '345 µs', '12 ms', '2.0 s', '—']
    """
    if seconds is None:
        return "—"
    for unit, factor in (("µs", 1e6), ("ms", 1e3)):
        value = seconds * factor
        if value < 9.95:
            return f"{value:.1f} {unit}"
        if value < 999.5:
            return f"{value:.0f} {unit}"
    return f"{seconds:.1f} s"
