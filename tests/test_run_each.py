"""Calls of which one may never return."""

from __future__ import annotations

import threading

import pytest

from spooltop.run_each import run_each


@pytest.mark.parametrize("at_once", [False, True])
def test_results_are_in_order(at_once: bool) -> None:
    assert run_each(["a", "b", "c"], str.upper, 30.0, at_once=at_once) == ["A", "B", "C"]
    assert run_each([], str.upper, 30.0, at_once=at_once) == []


@pytest.mark.parametrize("at_once", [False, True])
def test_one_that_hangs_keeps_no_other_back(at_once: bool) -> None:
    never = threading.Event()

    def call(number: int) -> int:
        if number % 2:
            never.wait()
        return number

    try:
        assert run_each(range(6), call, 0.05, at_once=at_once) == [0, None, 2, None, 4, None]
    finally:
        never.set()


def test_quick_calls_are_made_in_one_thread() -> None:
    seen = run_each(range(50), lambda number: threading.get_ident(), 30.0)
    assert len(set(seen)) == 1
