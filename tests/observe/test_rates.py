"""Rates, percentiles, trend and bars: each over what was really watched."""

from __future__ import annotations

import pytest

from spooltop.model.look.flow import Completion, Flow
from spooltop.model.look.observation import BoxState
from spooltop.model.vocabulary import Box
from spooltop.observe import Observer
from spooltop.observe.flow.depth import CELL, DepthHistory, TrendWatch

from .observations import T0, flow, look

Step = tuple[float, float, int, int, bool]
"""A flow: when it began and ended, arrived, done, and whether it was told exactly."""


def steady(since: int, until: int, step: int, arrived: int, done: int = 0) -> list[Step]:
    return [(at, at + step, arrived, done, True) for at in range(since, until, step)]


@pytest.mark.parametrize(
    ("flows", "window", "in_per_s", "done_per_s", "bound"),
    [
        ([(0, 10, 20, 5, True)], 10.0, 2.0, 0.5, False),
        ([(0, 10, 20, 5, True), *steady(10, 180, 10, 10), (180, 190, 10, 0, False)], 60.0, 1.0, 0.0, True),
        ([(0, 1, 3, 0, False)], 1.0, 3.0, 0.0, True),
        ([(0, 1, 3, 0, False), (1, 6, 10, 0, True)], 6.0, 13 / 6, 0.0, True),
        ([(0, 1, 3, 0, False), (1, 6, 10, 0, True), (6, 11, 10, 0, True)], 10.0, 2.0, 0.0, False),
        ([(0, 1, 3, 0, False), (1, 6, 10, 0, True), (6, 11, 10, 0, True), (11, 13, 1, 0, False)], 12.0, 1.75, 0.0, True),
        ([(0, 20, 2000, 0, False), (20, 21, 100, 2000, True), *steady(21, 32, 1, 100, 100)], 12.0, 100.0, 100.0, False),
        ([(0, 1, 100, 0, False), (1, 61.5, 6050, 100, False)], 60.5, 100.0, 100.0, True),
        ([(0, 1, 100, 0, False), (1, 61.5, 6050, 100, False), (61.5, 62.5, 100, 6050, True)], 1.0, 100.0, 100.0, False),
    ],
    ids=["one look", "the last minute", "in part", "too short to be exact", "exact and long enough", "a gap again",
         "what left before the window", "nobody read for a minute", "after that"],
)  # fmt: skip
def test_rates_are_over_a_window_that_was_watched(
    flows: list[Step], window: float, in_per_s: float, done_per_s: float, bound: bool
) -> None:
    """The longest up to a minute that was told exactly, if it is long enough."""
    observer = Observer()
    observer.add(look(0))
    for since, until, arrived, done, exact in flows:
        rates = observer.add(look(until, flow=flow(since, until, arrived=arrived, done=done, exact=exact))).rates
    assert (rates.window, rates.in_per_s, rates.done_per_s) == (window, pytest.approx(in_per_s), done_per_s)
    assert rates.lower_bound is bound


def test_no_window_reaches_across_a_gap() -> None:
    observer = Observer()
    observer.add(look(10, flow=flow(0, 10, arrived=1000)))
    assert observer.add(look(40, flow=Flow(T0 + 10, T0 + 40))).rates.arrived is None
    assert observer.add(look(50, flow=flow(40, 50, arrived=1))).rates.in_per_s == pytest.approx(0.1)


def test_two_looks_at_one_instant_do_not_begin_anew() -> None:
    observer = Observer()
    observer.add(look(0))
    before = observer.add(look(100, 5))
    again = observer.add(look(100, 5))
    assert (again.rates.slope_window, again.history) == (before.rates.slope_window, before.history)
    assert before.rates.slope_window == 100.0


def test_a_clock_set_back_begins_anew() -> None:
    observer = Observer()
    observer.add(look(0))
    observer.add(look(100, 5, flow=flow(0, 100, arrived=1000)))
    snapshot = observer.add(look(-7200, 5, flow=flow(-7210, -7200, arrived=1)))
    assert snapshot.rates.arrived == 1
    assert [cell for cell in snapshot.history[Box.NEW] if cell is not None] == [5.0]
    assert set(snapshot.rate_history.arrived) <= {None, 0.1}


def test_percentiles_need_twenty_samples_and_say_how_many() -> None:
    observer = Observer()
    completions = tuple(Completion(T0, T0 + n, T0 + n + 0.5) for n in range(1, 20))
    few = observer.add(look(25, flow=flow(15, 25, done=19, completions=completions))).rates
    assert (few.waited.samples, few.waited.p50) == (19, None)
    more = observer.add(look(26, flow=flow(25, 26, done=1, completions=(Completion(T0, T0 + 20, T0 + 20.5),)))).rates
    assert (more.waited.samples, more.waited.p50, more.waited.p99) == (20, 10.0, 20.0)
    assert more.worked.p95 == 0.5


def test_passages_of_two_clocks_are_no_samples() -> None:
    backward = [Completion(T0 + 50, T0, T0 + 1), Completion(None, None, T0 + 1), Completion(None, T0, T0 + 1)]
    rates = Observer().add(look(1, flow=flow(0, 1, done=3, completions=tuple(backward)))).rates
    assert (rates.waited.samples, rates.worked.samples) == (0, 2)


def test_a_slow_spool_tells_of_its_last_twenty() -> None:
    observer = Observer()
    for n in range(30):
        at = 60.0 * n
        passage = Completion(T0 + at - 300, T0 + at - 200, T0 + at)
        rates = observer.add(look(at, flow=flow(at - 60, at, done=1, completions=(passage,)))).rates
    assert (rates.waited.samples, rates.waited.p50, rates.worked.p50) == (20, 100.0, 200.0)
    assert observer.add(look(9000, flow=flow(8990, 9000))).rates.waited.samples == 0


def test_a_slope_needs_half_a_minute() -> None:
    observer = Observer()
    for at in range(0, 30, 5):
        assert observer.add(look(at, 2 * at)).rates.new_per_s is None
    rates = observer.add(look(30, 60)).rates
    assert rates.new_per_s == pytest.approx(2.0)
    assert rates.slope_window == 30.0


@pytest.mark.parametrize(
    ("name", "depths", "growing"),
    [
        ("grows", [100 + 2 * n for n in range(60)], True),
        ("stands", [4000] * 60, False),
        ("falls", [4000 - n for n in range(60)], False),
        ("swings", [100 + (40 if n % 2 else 0) for n in range(60)], False),
        ("one big put stands", [0] * 30 + [1000] * 30, False),
        ("one big put is worked off", [0] * 10 + [1000 - 20 * n for n in range(50)], False),
        ("grows by three", [n // 20 for n in range(60)], False),
        ("grows with noise", [100 + 2 * n + 7 * (n % 3) for n in range(60)], True),
    ],
)
def test_growth_stands_out_of_noise_and_goes_on(name: str, depths: list[int], growing: bool) -> None:
    watch = TrendWatch()
    for n, depth_then in enumerate(depths):
        watch.add(T0 + 5 * n, depth_then)
    assert watch.trend().growing is growing


def test_a_depth_that_was_not_seen_breaks_the_slope() -> None:
    observer = Observer()
    for at in range(0, 60, 5):
        observer.add(look(at, 10))
    observer.add(look(60, None, states=[BoxState(Box.NEW, None, error="permission denied")]))
    assert observer.add(look(65, 5000)).rates.new_per_s is None


def test_bars_keep_the_highest_and_show_what_was_not_watched() -> None:
    history = DepthHistory()
    for at, count in ((0, 3), (5, 9), (10, 2), (20, 4), (50, 1)):
        history.add(T0 + at, count)
    assert history.cells(T0 + 50)[-5:] == (None, 9.0, 4.0, 4.0, 1.0)
    assert len(history.cells(T0 + 50)) == 20
    history.add(T0 + 200, 7)  # too long without a look to say what was in between
    assert history.cells(T0 + 200)[-11:] == (1.0, *[None] * 9, 7.0)
    history.add(T0 + 1000, None)
    assert set(history.cells(T0 + 1000)) == {None}


def test_rates_of_each_cell_are_over_what_was_watched_of_it() -> None:
    observer = Observer()
    assert set(observer.add(look(0)).rate_history.arrived) == {None}
    start = -T0 % CELL  # the first edge of a cell
    history = observer.add(look(start + 30, flow=flow(start, start + 30, arrived=60, retried=15))).rate_history
    assert history.arrived[-3:] == (2.0, 2.0, None) and history.retried[-3:] == (0.5, 0.5, None)
    assert set(history.done) == {None}, "what left in this flow is told by the next one"
    history = observer.add(look(start + 35, flow=flow(start + 30, start + 35, arrived=0, done=30))).rate_history
    assert history.arrived[-3:] == (2.0, 2.0, 0.0)
    assert history.done[-3:] == (1.0, 1.0, None)
    history = observer.add(look(start + 65, flow=Flow())).rate_history
    assert history.arrived[-5:] == (2.0, 2.0, 0.0, None, None), "a gap is not watched, which is not 0"
