"""Threshold ranges of Nagios plugins."""

from __future__ import annotations

import math

import pytest

from spooltop.errors import UsageError
from spooltop.monitor.ranges import Range


@pytest.mark.parametrize(
    ("text", "quiet", "alerts"),
    [
        ("10", [0, 5, 10], [-0.1, 10.1, math.inf]), ("10:", [10, 1e9], [9.9, 0, -1]), ("~:10", [-1e9, 0, 10], [10.1]),
        ("10:20", [10, 15, 20], [9.9, 20.1]), ("@10:20", [9.9, 20.1], [10, 15, 20]), ("@5", [-1, 5.1], [0, 5]),
        (":7", [0, 7], [-1, 8]), ("@600:", [599], [600, 1e9]), ("0", [0], [1, -1]), ("-10:-5", [-10, -5], [-4, 0, -11]),
        ("1.5:2.5", [1.5, 2, 2.5], [1.4, 2.6]), (".5", [0, 0.5], [0.6]), ("@~:", [], [-1e9, 0, 1e9]), ("~:", [-1e9, 0, 1e9], []),
    ],
)  # fmt: skip
def test_what_alerts(text: str, quiet: list[float], alerts: list[float]) -> None:
    found = Range.of(text)
    assert [value for value in quiet if found.alerts(value)] == []
    assert [value for value in alerts if not found.alerts(value)] == []


@pytest.mark.parametrize(
    "text", ["", "@", "~", "@~", "x", "10;20", "20:10", "1:2:3", "1e3", "10m", "inf", "nan", "10 ", "--1", "1,5"]
)
def test_what_is_no_range_says_how_one_looks(text: str) -> None:
    with pytest.raises(UsageError, match="as in 10, 10:, ~:10, 10:20, @10:20"):
        Range.of(text)
