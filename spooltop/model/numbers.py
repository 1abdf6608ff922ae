"""Reads numbers from untrusted data. Pure."""

from __future__ import annotations

__all__ = ["finite"]

_MOST = 1e18
"""Larger than any time in seconds, and than any that a float holds to the second."""


def finite(value: object) -> float | None:
    """Returns a number as a float, else None: for other types, NaN, infinity, and numbers larger than any time (JSON sets no
    bound to the digits of an int, and ``float`` raises from the 309th on).

    >>> finite(7), finite(10**400), finite(float("nan")), finite(True), finite("7")
    (7.0, None, None, None, None)
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if abs(value) < _MOST else None
