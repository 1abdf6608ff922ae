"""How often the dashboard looks: seldom where nothing happens, and never too seldom."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from spooltop.model.snapshot import Flow, Observation, Watch
from spooltop.tui.threads import Pace, rest_after

from .fake import claim

NOTHING = Observation("/var/spool/memex", "spool", 0.0, True, {}, watch=Watch("live"))


@pytest.mark.parametrize("a_second", [0.1, 0.2, 0.28])
def test_a_stream_never_keeps_the_screen_still_for_longer_than_a_second(a_second: float) -> None:
    """A look takes ``a_second`` for each second of messages since the last one; one of the looks was delayed."""
    gap = 1.0
    for turn in range(50):
        took = 0.4 if turn == 10 else a_second * gap
        gap = took + rest_after(took, 0.25)
        assert gap <= 1.0


def test_a_large_spool_costs_a_quarter_of_a_core() -> None:
    for took in (0.5, 1.0, 3.0):
        assert took / (took + rest_after(took, 0.25)) <= 0.25


def test_a_look_comes_each_second_while_thousands_of_messages_pass() -> None:
    pace = Pace()
    rests = []
    for arrived in (200, 4000, 200, 0):
        pace.found(replace(NOTHING, flow=Flow(since=10.0, until=10.5, arrived=arrived)))
        pace.looked(10.5, 10.51)
        rests.append(round(pace.rest(10.51), 6))
    assert rests == [0.25, 0.99, 0.25, 0.25]


@pytest.mark.parametrize(
    ("changes", "quiet"),
    [({}, 4.75), ({"claims": (claim(1),)}, 1.75), ({"complete": False}, 1.75), ({"layout": "mail"}, 1.75),
     ({"watch": Watch("scan", "nfs4 sends no events", 5.0)}, 1.75)],
)  # fmt: skip
def test_looks_are_rarer_after_some_seconds_without_any_event_and_rarest_where_only_messages_wait(
    changes: dict[str, Any], quiet: float
) -> None:
    pace = Pace()
    for _ in range(5):
        pace.found(replace(NOTHING, **changes))
        assert pace.quiet == 1.0
        pace.waited(False)
    assert pace.quiet == quiet
    pace.waited(True)
    assert pace.quiet == 1.0
