"""How often the dashboard looks: seldom where nothing happens, and never too seldom."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from spooltop.model.cursors.state import CursorSource
from spooltop.model.look.flow import Flow
from spooltop.model.look.observation import Observation, Watch
from spooltop.tui.change_filter import CLOCK
from spooltop.tui.threads.pace import BUSY, CALM, CALM_QUIET, FRESH, ONLY_MESSAGES, ORDINARY, QUIET, Pace, rest_after

from .fake import a_lock, claim, written

NOTHING = Observation("/var/spool/memex", "spool", 0.0, True, {}, watch=Watch("live"))


@pytest.mark.parametrize("a_second", [0.1, 0.2, 0.28])
def test_a_stream_never_keeps_the_screen_still_for_longer_than_a_second(a_second: float) -> None:
    """A look takes ``a_second`` for each second of messages since the last one; one of the looks was delayed."""
    gap = FRESH
    for turn in range(50):
        took = ORDINARY if turn == 10 else a_second * gap
        gap = took + rest_after(took, 0.25)
        assert gap <= FRESH


def test_a_large_spool_costs_a_quarter_of_a_core() -> None:
    for took in (0.5, 1.0, 3.0):
        assert took / (took + rest_after(took, 0.25)) <= 0.25


def test_a_look_comes_each_second_while_thousands_of_messages_pass() -> None:
    pace = Pace()
    periods = []
    for arrived in (200, 4000, 200, 0):
        pace.found(replace(NOTHING, flow=Flow(since=10.0, until=10.5, arrived=arrived)))
        pace.looked(10.5, 10.51)
        periods.append(round(0.01 + pace.rest(10.51), 6))
    assert periods == [0.01 + BUSY, FRESH, 0.01 + BUSY, 0.01 + BUSY]


def test_looks_are_rarer_after_some_seconds_without_any_event() -> None:
    pace = Pace()
    waits = []
    for changed in (*[False] * (CALM + 1), True, False):
        waits.append(pace.quiet)
        pace.waited(changed)
    assert waits == [QUIET] * CALM + [CALM_QUIET, CALM_QUIET, QUIET]
    assert BUSY + CALM_QUIET == 2.0


@pytest.mark.parametrize(
    ("changes", "quiet"),
    [
        ({}, ONLY_MESSAGES), ({"claims": (claim(1),)}, CALM_QUIET), ({"tmp": (written(1),)}, CALM_QUIET),
        ({"consumers": 1}, CALM_QUIET), ({"locks": (a_lock(),)}, CALM_QUIET), ({"complete": False}, CALM_QUIET),
        ({"layout": "mail"}, CALM_QUIET), ({"watch": Watch("scan", "nfs4 sends no events", 5.0)}, CALM_QUIET),
        ({"watch": Watch("live", "overlay", 5.0)}, CALM_QUIET),
        ({"cursors": (CursorSource("/opt/memex/cursors.json", True, None, ""),)}, CALM_QUIET),
    ],
)  # fmt: skip
def test_looks_are_rarest_where_only_messages_wait(changes: dict[str, Any], quiet: float) -> None:
    pace = Pace()
    for _ in range(CALM):
        pace.found(replace(NOTHING, **changes))
        assert pace.quiet == QUIET
        pace.waited(False)
    assert pace.quiet == quiet
    assert BUSY + ONLY_MESSAGES == CLOCK
