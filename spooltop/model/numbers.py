"""Numbers out of what anybody may have written. Pure."""

from __future__ import annotations

__all__ = ["finite"]

_MOST = 1e18
"""Beyond any time in seconds, and any that a float holds to the second."""


def finite(value: object) -> float | None:
    """A number as a float; None where it is none, not a number, infinite or larger than any time (JSON sets no bound to the
    digits of an int, and ``float`` raises from the 309th on).

    >>> finite(7), finite(10**400), finite(float("nan")), finite(True), finite("7")
    (7.0, None, None, None, None)
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if abs(value) < _MOST else None
