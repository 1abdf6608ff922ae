"""Cancellation between and within the phases of long work."""

from __future__ import annotations

import pytest

from spooltop.errors import Stopped
from spooltop.model.operations.progress import Progress


def test_work_that_is_cancelled_stops_where_its_next_phase_begins() -> None:
    progress = Progress(lambda: True)
    with pytest.raises(Stopped):
        progress.begin("looked at", 3)


def test_work_that_is_cancelled_stops_at_the_next_check_of_a_phase() -> None:
    cancelled: list[bool] = []
    progress = Progress(lambda: bool(cancelled))
    progress.begin("looked at", every=2)
    cancelled.append(True)
    progress.step()
    with pytest.raises(Stopped):
        progress.step()
