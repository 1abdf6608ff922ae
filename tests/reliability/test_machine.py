"""The state machine finds an operator that does less than it says."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from spooltop.model.plan import Selection
from spooltop.model.vocabulary import Action

from .machine import Consumers


class UndoesNothing(Consumers):
    def applied(self, action: Action, selection: Selection, **options: str) -> tuple[str, set[str]]:
        return ("", set()) if action is Action.UNDO else super().applied(action, selection, **options)


def test_an_undo_that_does_nothing_is_found() -> None:
    asked = settings(
        max_examples=60, stateful_step_count=30, derandomize=True, database=None, deadline=None,
        suppress_health_check=list(HealthCheck), phases=(Phase.generate,), print_blob=False,
    )  # fmt: skip
    with pytest.raises(AssertionError, match="what has not gone on is undone"):
        run_state_machine_as_test(UndoesNothing, settings=asked)
