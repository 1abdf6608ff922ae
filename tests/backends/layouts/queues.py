"""Actions of the layouts that ship, and operators on such queues beside processes that a test makes up."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from spooltop.backends.layouts.definition.library import SHIPPED, read_layout
from spooltop.backends.layouts.operator.operator import LayoutOperator
from spooltop.model.operations.plan import Result
from spooltop.model.vocabulary import Action, Box
from spooltop.operate.operations import Operations
from tests.backends.layouts.test_reader import Around
from tests.matrix.scenes import BY_LAYOUT

_layout = cache(read_layout)

FORCED = {
    ("dirq-simple", Action.REQUEUE), ("dirq-simple", Action.PURGE, Box.TMP), ("dirq-normal", Action.REQUEUE),
    ("kombu", Action.REQUEUE), ("kombu-out", Action.REQUEUE), ("mailman", Action.REQUEUE),
}  # fmt: skip
ACTIONS: Sequence[tuple[str, Action, Box, bool]] = [
    (layout, action, box, not FORCED.isdisjoint([(layout, action), (layout, action, box)]))
    for layout, actions in BY_LAYOUT.items() for action, box in actions
]  # fmt: skip
"""Every action of the layouts that ship: the layout, the action, the box, and whether it needs force."""


def operations(path: Path, layout: str, around: Around | None = None, **more: Any) -> Operations:
    """Operations on a queue. ``around`` are the processes of the machine, of which none touches the queue without it."""
    definition = _layout(os.path.join(SHIPPED, f"{layout}.toml"))
    more = {"user": "ann", "wait": lambda seconds: None, "state_dir": str(path.parent / "state"), **more}
    return Operations(LayoutOperator(str(path), definition, around or Around(), **more), str(path), time.time)


def outcomes(result: Result) -> list[tuple[str, str]]:
    return [(one.outcome.value, one.reason) for one in result.items]
