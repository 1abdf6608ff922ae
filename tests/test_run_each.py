"""Calls of which one may never return."""

from __future__ import annotations

import math
import threading
import time
from pathlib import Path

import pytest

from spooltop.control import open_control
from spooltop.engine import Spool
from spooltop.errors import DoesNotAnswer
from spooltop.run_each import call_watched, is_thread_left, run_each

from .cli.streams import spooltop


@pytest.mark.parametrize("at_once", [False, True])
def test_results_are_in_order_and_one_that_hangs_keeps_no_other_back(at_once: bool) -> None:
    never = threading.Event()

    def call(number: int) -> int:
        if number % 2:
            never.wait()
        return number

    try:
        assert run_each(range(6), call, 0.05, at_once=at_once) == [0, None, 2, None, 4, None]
    finally:
        never.set()
    assert run_each(["a", "b", "c"], str.upper, 30.0, at_once=at_once) == ["A", "B", "C"]
    assert run_each([], str.upper, 30.0, at_once=at_once) == []


def test_quick_calls_are_made_in_one_thread() -> None:
    seen = run_each(range(50), lambda number: threading.get_ident(), 30.0)
    assert len(set(seen)) == 1


def test_a_stalled_call_is_waited_for_beside_the_rest() -> None:
    seen: list[int] = []
    rest = threading.Event()

    def call(number: int) -> int:
        if number == 0:
            rest.wait()
        seen.append(number)
        if number == 3:
            rest.set()
        return number

    assert run_each(range(4), call, 30.0) == [0, 1, 2, 3]
    assert seen[:3] == [1, 2, 3]


def test_a_watched_call_returns_or_raises_as_the_call_does() -> None:
    assert call_watched(lambda: 7, 30.0, "/a") == 7
    assert call_watched(threading.get_ident, math.inf, "/a") == threading.get_ident()
    for call in (lambda: call_watched(lambda: 1 // 0, 30.0, "/a"), lambda: run_each([0], lambda number: 1 // number, 30.0)):
        with pytest.raises(ZeroDivisionError):
            call()


def test_a_call_that_works_for_longer_than_the_patience_is_waited_for() -> None:
    def work() -> int:
        begun = time.thread_time()
        while time.thread_time() - begun < 0.5:
            sum(range(1000))
        return 7

    assert call_watched(work, 0.2, "/busy") == 7


def test_a_path_whose_call_hangs_is_not_called_again_until_it_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spooltop.run_each._running", set())
    answers = threading.Event()
    calls: list[int] = []

    def call() -> int:
        calls.append(1)
        answers.wait()
        return 7

    try:
        for _ in range(2):
            with pytest.raises(DoesNotAnswer, match=r"^/far: does not answer: readdir of new takes over 0\.05s; "):
                call_watched(call, 0.05, "/far", lambda: "readdir of new")
        assert calls == [1] and is_thread_left()
        assert call_watched(lambda: 8, 30.0, "/near") == 8
    finally:
        answers.set()
    assert call_watched(call, 30.0, "/far") == 7
    assert not is_thread_left()


def test_a_control_with_patience_leaves_what_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Spool.create(tmp_path).close()
    answers = threading.Event()
    with open_control(str(tmp_path), watch=False, patience=0.2) as control:
        assert control.look().observation.complete
        monkeypatch.setattr(control._reader, "see", lambda rescan: answers.wait())
        monkeypatch.setattr(control._calls, "step", lambda: "readdir of new")
        try:
            with pytest.raises(DoesNotAnswer, match="readdir of new"):
                control.look()
        finally:
            answers.set()


def test_a_path_that_does_not_answer_is_a_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Spool.create(tmp_path).close()
    answers = threading.Event()
    monkeypatch.setattr("spooltop.targets.is_spool_at", lambda path: answers.wait())
    monkeypatch.setattr("spooltop.cli.context._FIRST", 0.05)
    try:
        assert spooltop("status", tmp_path).out.startswith(f"spooltop {tmp_path}\n")
    finally:
        answers.set()
