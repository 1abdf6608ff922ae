"""The time in tests: a moment, and a clock that stands at it."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["NOW", "Clock"]

NOW = 1_795_222_869.0
"""A night in November 2026, in epoch seconds."""


@dataclass
class Clock:
    """A clock that stands still until it is moved; epoch seconds."""

    now: float = NOW

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds
