"""Numbers in a fixed width."""

from __future__ import annotations

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import get_character_cell_size

from spooltop.errors import UsageError
from spooltop.model import vocabulary as units
from spooltop.model.vocabulary import age, cells, clock_time, count, duration, fit, interval, parse_age, percent, rate, size, span

TIMES = st.floats(min_value=-1e6, max_value=1e18) | st.just(float("inf"))


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (None, "—"), (-5, "0s"), (0, "0s"), (0.9, "0s"), (4.9, "4s"), (9.99, "9s"), (10, "10s"), (19.9, "10s"),
        (59.9, "50s"), (60, "1m"), (3599, "59m"), (3600, "1h"), (47.9 * 3600, "47h"), (48 * 3600, "2d"),
        (999 * 86400, "999d"), (1000 * 86400, "2y"),
        (float("inf"), "999y"), (float("nan"), "—"),
    ],
)  # fmt: skip
def test_age_steps(seconds: float | None, shown: str) -> None:
    assert age(seconds) == shown


@given(TIMES, st.integers(min_value=0, max_value=1 << 70))
def test_times_fit_four_cells_and_sizes_six(seconds: float, n: int) -> None:
    assert max(cells(age(seconds)), cells(duration(seconds)), cells(interval(seconds))) <= 4 and cells(size(n)) <= 6


@given(st.floats(min_value=1, max_value=1e9))
def test_an_age_and_its_bounds_are_rounded_alike(seconds: float) -> None:
    assert {units.at_most(seconds)[1:], units.at_least(seconds)[1:]} == {age(seconds)}
    assert (units.at_most(0), units.at_most(float("inf"))) == ("≤1s", "—")  # never said to be no time


@given(st.integers(min_value=0, max_value=10**18 - 1), st.integers(min_value=0, max_value=10**18 - 1))
def test_a_larger_size_never_looks_smaller(first: int, second: int) -> None:
    def value(shown: str) -> float:
        number = shown.rstrip("BkMGTPE")
        return float(number) * 1000.0 ** "BkMGTPE".index(shown[len(number)])

    low, high = sorted((first, second))
    assert value(size(low)) <= value(size(high))


@pytest.mark.parametrize(
    ("per_s", "plain", "signed"),
    [(None, "—", "—"), (1.8, "1.8/s", "+1.8/s"), (-1.8, "-1.8/s", "-1.8/s"), (0.0, "0.0/s", "0.0/s"), (0.01, "<0.1/s", "0.0/s"),
     (99.96, "100/s", "+100/s"), (float("nan"), "—", "—")],
)  # fmt: skip
def test_rates(per_s: float | None, plain: str, signed: str) -> None:
    assert (rate(per_s), rate(per_s, signed=True)) == (plain, signed)


def test_nothing_is_rounded_to_none_or_all() -> None:
    assert [percent(1, 10**9), percent(10**9 - 1, 10**9), percent(0, 10), percent(10, 10), percent(1, 0)] == [
        "<1%", ">99%", "0%", "100%", "?",
    ]  # fmt: skip
    assert (count(310_000, complete=False), span(None), span(59.9)) == ("≥310,000", "—", "59s")


def test_times_of_day() -> None:
    zone = datetime.timezone(datetime.timedelta(hours=1))
    assert clock_time(0, zone) == "01:00:00 +0100"
    assert clock_time(0, zone, offset=False) == "01:00:00"
    assert clock_time(1e30, zone) == clock_time(None) == clock_time(float("nan"), zone) == "—"


@given(st.integers(min_value=0, max_value=10**9), st.sampled_from("smhdw"))
def test_an_age_is_read_back(number: int, unit: str) -> None:
    assert parse_age(f"{number}{unit}") == number * {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}[unit]


@pytest.mark.parametrize("text", ["", "m", "10 m", "-5", "1.2.3", "1h30", "10x", "nan", "٣m", "9" * 400, "1e5"])
def test_what_is_no_age_is_refused_with_advice(text: str) -> None:
    with pytest.raises(UsageError, match="10m"):
        parse_age(text)


@given(
    st.text(alphabet="ab日é\u0301語-…", max_size=30),
    st.integers(min_value=0, max_value=20),
    st.sampled_from(["left", "right"]),
    st.sampled_from(["…", "..", ">", ""]),
)
def test_fitted_text_has_exactly_its_width(text: str, width: int, cut: str, mark: str) -> None:
    fitted = fit(text, width, cut=cut, mark=mark)  # type: ignore[arg-type]
    assert cells(fitted) == width


def test_names_are_cut_at_the_left_and_a_control_character_takes_no_cell() -> None:
    assert units.cells("a\x1b\tb\x7f\x00") == 2
    assert fit("1795222801446548.4290.vm", 10) == "…8.4290.vm"
    assert fit("1795222801446548.4290.vm", 10, mark="..") == "...4290.vm"
    assert fit("\u0301e\u0301", 3) == "\u0301e\u0301  "


NEWER = [
    *range(0x2630, 0x2638), *range(0x268A, 0x2690), *range(0x4DC0, 0x4E00), *range(0x1D300, 0x1D357), *range(0x1D360, 0x1D377),
]  # fmt: skip
"""Wide only from Unicode 16 on, which the interpreter's table may not know yet."""
FILLERS = [0x3164, 0xFFA0]
SKIN_TONES = [*range(0x1F3FB, 0x1F400)]
"""Drawn alone they are two cells wide; behind an emoji they have none."""


def test_a_character_has_one_width_on_the_command_line_and_in_the_dashboard() -> None:
    excepted = {*NEWER, *FILLERS, *SKIN_TONES}
    characters = (chr(code) for code in range(0x110000) if code not in excepted)
    differing = [char for char in characters if char.isprintable() and cells(char) != get_character_cell_size(char)]
    assert differing == []


def test_the_highest_rate_is_a_thousand_million_a_second() -> None:
    assert units.parse_rate("1000000000") == 1e9
    with pytest.raises(UsageError, match="invalid rate"):
        units.parse_rate("1000000001")
