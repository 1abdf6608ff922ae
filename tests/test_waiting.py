"""Calls of which one may never return, and an event that a thread awaits together with descriptors."""

from __future__ import annotations

import select
import threading
import time

import pytest

from spooltop.errors import DoesNotAnswer
from spooltop.run_each import call_watched, is_thread_left, run_each
from spooltop.stop_event import StopEvent


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


def test_the_rest_does_not_wait_for_a_call_that_works_for_long() -> None:
    seen: list[int] = []
    rest = threading.Event()

    def call(number: int) -> int:
        while number == 0 and not rest.is_set():
            sum(range(1000))
        seen.append(number)
        if number == 2:
            rest.set()
        return number

    assert run_each(range(3), call, 30.0, longest=0.05) == [0, 1, 2]
    assert seen == [1, 2, 0]


def test_calls_that_hang_keep_so_many_threads_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spooltop.run_each._running", set())
    monkeypatch.setattr("spooltop.run_each._MOST", 3)
    called: list[int] = []
    answers = threading.Event()

    def call(number: int) -> int:
        called.append(number)
        answers.wait()
        return number

    try:
        assert run_each(range(5), call, 0.05) == [None] * 5 and called == [0, 1, 2]
        began = time.monotonic()
        assert run_each(range(5, 7), call, 0.1) == [None, None] and called == [0, 1, 2, 5]
        assert time.monotonic() - began >= 0.1, "who tries again and again does nothing else"
        assert run_each(range(7, 9), int, 30.0) == [7, 8], "what answers is called all the same"
    finally:
        answers.set()
    deadline = time.monotonic() + 30
    while is_thread_left() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert sorted(called) == list(range(7)), "those that came back took the rest"
    assert run_each(range(5, 7), call, 30.0) == [5, 6]


@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.parametrize(("threads", "expected"), [(0, [None, None, None]), (1, [0, 1, 2])])
def test_where_the_system_refuses_a_thread_those_that_run_take_the_rest(
    at_once: bool, threads: int, expected: list[int | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spooltop.run_each._running", set())
    start, left = threading.Thread.start, iter(range(threads))

    def refused(thread: threading.Thread) -> None:
        if next(left, None) is None:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refused)

    def call(number: int) -> int:
        if number == 0:
            time.sleep(0.1)  # the next thread would begin before that
        return number

    assert run_each(range(3), call, 0.5, at_once=at_once) == expected
    monkeypatch.undo()
    assert not is_thread_left()


def test_a_watched_call_raises_as_the_call_does_and_is_waited_for_while_it_works() -> None:
    def work() -> int:
        begun = time.thread_time()
        while time.thread_time() - begun < 0.5:
            sum(range(1000))
        return 7

    assert call_watched(work, 0.2, "/busy") == 7
    for call in (lambda: call_watched(lambda: 1 // 0, 30.0, "/a"), lambda: run_each([0], lambda number: 1 // number, 30.0)):
        with pytest.raises(ZeroDivisionError):
            call()


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


def test_a_thread_that_waits_wakes_when_the_event_is_set_and_not_after_it_was_cleared() -> None:
    def readable(seconds: float = 0.0) -> bool:
        return bool(select.select((event,), (), (), seconds)[0])

    event, woken = StopEvent(), threading.Event()
    waiting = threading.Thread(target=lambda: readable(60.0) and woken.set())
    assert not readable()
    waiting.start()
    event.set()
    waiting.join(20)
    event.set()
    assert woken.is_set() and event.is_set() and readable()
    event.clear()
    assert not event.is_set() and not readable()
    event.set()  # before anybody waits
    assert readable()
    event.release()
