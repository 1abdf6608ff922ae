"""A cancelled plan ends within some hundred messages, at any step, and leaves nothing behind."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from spooltop.control import Control
from spooltop.errors import Stopped
from spooltop.model.plan import EVERY, Plan, Selection
from spooltop.model.vocabulary import Action, Box, Json
from tests.builders import SpoolWorld, message_id

COUNT = 2 * EVERY


@pytest.fixture
def control(world: SpoolWorld) -> Iterator[Control]:
    for number in range(COUNT):
        world.put(message_id(number))
        world.claim_foreign(f"{1795222700000000 + number}.P77R{number:016x}.vm")
    with world.control() as opened:
        yield opened


class Impatient:
    """Cancels at the ``after``-th call."""

    def __init__(self, after: int) -> None:
        self.after, self.asked = after, 0

    def __call__(self) -> bool:
        self.asked += 1
        return self.asked >= self.after


def held(control: Control) -> str:
    return control.apply(control.plan(Action.HOLD, Selection(box=Box.NEW, everything=True))).operation


@pytest.mark.parametrize(
    ("action", "box", "rounds"),
    [(Action.REQUEUE, Box.CUR, 8), (Action.PURGE, Box.NEW, 4), (Action.RELEASE, Box.HELD, 4), (Action.UNDO, None, 4)],
)
def test_a_plan_that_is_wanted_no_longer_ends_and_the_next_is_whole(
    control: Control, world: SpoolWorld, action: Action, box: Box | None, rounds: int
) -> None:
    options: dict[str, Json] = {"undoes": held(control)} if box in (None, Box.HELD) else {}
    selection = Selection(box=box, everything=box is not None)

    def plan(stop: Impatient) -> Plan:
        return control.plan(action, selection, options=options, stop=stop, force=True)

    plan(Impatient(10**9))  # from now on it is known how the names are ordered, and is not asked about
    calm = Impatient(10**9)
    whole = plan(calm)
    assert whole.count == COUNT
    assert calm.asked >= rounds
    before = world.names(Box.CUR)
    for after in (1, *range(2, calm.asked, calm.asked // 5), calm.asked):
        impatient = Impatient(after)
        with pytest.raises(Stopped, match="nothing was changed"):
            plan(impatient)
        assert impatient.asked <= after + 1  # nobody went on after the answer
    again = plan(Impatient(10**9))
    assert [item.name for item in again.items] == [item.name for item in whole.items]
    assert world.names(Box.CUR) == before


def test_how_far_a_plan_has_come_is_told_on_the_way(control: Control) -> None:
    steps: list[str] = []
    control.plan(Action.REQUEUE, Selection(box=Box.CUR, everything=True), on_progress=steps.append)
    assert "1,000 ids compared" in steps
    assert "1,000 of 1,000 looked at" in steps


def test_the_list_of_operations_is_stopped_as_well(control: Control) -> None:
    operation = held(control)
    calm = Impatient(10**9)
    assert [record.operation for record in control.operations(calm)] == [operation]
    assert calm.asked > 4
    for after in (1, calm.asked // 2, calm.asked):
        with pytest.raises(Stopped):
            control.operations(Impatient(after))
