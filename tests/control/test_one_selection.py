"""A list with a selection shows the messages that an operation with the same selection acts on."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from spooltop.control import Control
from spooltop.model.backend import ListQuery
from spooltop.model.plan import Selection
from spooltop.model.vocabulary import Action, Box, Verdict
from tests.builders import SpoolWorld, message_id

FIRST, SECOND, THIRD = map(message_id, range(3))
NAMES = [FIRST, f"{SECOND},s=imessage,n=2", f"{THIRD},s=mail,n=4", "order-17,s=imessage,n=0", "foreign"]
with subprocess.Popen(["true"]) as exited:
    TAIL = f":2,P{exited.pid}"
    """The claim of a process that has exited."""


@pytest.fixture
def control(world: SpoolWorld) -> Iterator[Control]:
    for name in NAMES:
        world.put(name)
        world.put(f"{name}{TAIL}", box=Box.CUR)
    with world.control() as opened:
        opened.look()
        yield opened


@pytest.mark.parametrize("box", [Box.NEW, Box.CUR])
@pytest.mark.parametrize(
    ("selection", "taken"),
    [
        (Selection(everything=True), {0, 1, 2, 3, 4}),
        (Selection(ids=(FIRST, "order-17")), {0, 3}),
        (Selection(ids=(THIRD, "none")), {2}),
        (Selection(source="imessage"), {1, 3}),
        (Selection(source="imessage", filter="order"), {3}),
        (Selection(filter="!src:imessage"), {0, 2, 4}),
        (Selection(verdict=Verdict.ALIVE), set()),
        (Selection(box=Box.CUR, verdict=Verdict.DEAD), {0, 1, 2, 3, 4}),
        (Selection(box=Box.NEW, ids=(NAMES[2],)), {2}),  # by its whole name
    ],
    ids=lambda value: str(value) if isinstance(value, set) else " ".join(value.words()) or "ids",
)
def test_a_list_shows_what_an_operation_takes(control: Control, box: Box, selection: Selection, taken: set[int]) -> None:
    box = selection.box or box
    tail = "" if box is Box.NEW else TAIL
    chosen = replace(selection, box=box)
    listing = control.listing(ListQuery(box, selection=chosen))
    plan = control.plan(Action.HOLD, chosen)
    planned = {item.name for item in plan.items} | {refusal.row.name for refusal in plan.refused}
    expected = {f"{NAMES[place]}{tail}" for place in taken}
    assert {row.name for row in listing.window(0, len(listing))} == planned == expected
