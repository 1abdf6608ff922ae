"""The Consumers view: its list, its keys, and what they lead to."""

from __future__ import annotations

from dataclasses import replace

from spooltop.model.look.consumers import ConsumerList
from spooltop.model.look.observation import BoxState
from spooltop.model.look.snapshot import Snapshot
from spooltop.model.row import Row
from spooltop.model.vocabulary import Action, Box, Owner, Verdict

from .driving import dashboard
from .fake import FakeControl, claim


def token(digit: str) -> str:
    return digit * 32


def held(number: int, by: str, pid: int, verdict: Verdict = Verdict.DEAD, **changes: object) -> Row:
    """A claim of our own protocol by the consumer with the token ``by`` × 32."""
    row = claim(number, verdict, owner=Owner("vm", pid, 1.0, f"python3 /srv/worker-{by}.py", "ann"))
    return replace(row, name=f"{number:016}.P9R{number:016x}.vm,c={token(by)}.{number}:2,P{pid}", **changes)  # type: ignore[arg-type]


def control() -> FakeControl:
    """A dead consumer with two claims, a dead one with one, and one that runs."""
    return FakeControl([held(4, "a", 4312), held(2, "a", 4312), held(3, "b", 4313), held(1, "c", 5200, Verdict.ALIVE)])


async def test_dead_ones_stand_on_top_with_what_they_hold() -> None:
    async with dashboard(control()) as driver:
        await driver.walk(("8", "Consumers 3", "2 DEAD", "worker-a.py", "r requeue 2"))
        listed = [line.lstrip("▌ ").split()[:4] for line in driver.text.splitlines()[2:5]]
        assert listed == [
            ["DEAD", "4312", "worker-a.py", "2"], ["DEAD", "4313", "worker-b.py", "1"], ["running", "5200", "worker-c.py", "1"]
        ]  # fmt: skip


async def test_enter_shows_its_claims_and_esc_comes_back_to_the_same_row() -> None:
    async with dashboard(control()) as driver:
        await driver.walk(
            ("8", "Consumers 3"), ("end enter", "Claims › 5200 worker-c.py 1"), ("escape", "Consumers 3", "─ 5200 worker-c.py"),
            ("3", "Claims 4"),
        )  # fmt: skip


async def test_r_plans_for_all_claims_of_a_dead_one() -> None:
    async with dashboard(control()) as driver:
        await driver.walk(("8", "Consumers 3"), ("slash 4 3 1 2 enter r", "requeue 2"))
        [(action, selection, _, _)] = driver.control.planned
        assert (action, selection.box, selection.filter) == (Action.REQUEUE, Box.CUR, token("a"))


async def test_r_leaves_those_alone_that_run() -> None:
    async with dashboard(control()) as driver:
        await driver.walk(("8", "Consumers 3"), ("end r", "this consumer is running; Enter shows its claims"))
        assert not driver.control.planned


async def test_claims_that_name_nobody_are_not_nothing() -> None:
    nameless = FakeControl([held(1, "a", 4312), held(2, "a", 4312)])
    nameless.consumers = lambda: ConsumerList((), nameless.time, nameless=2)  # type: ignore[method-assign]
    async with dashboard(nameless) as driver:
        await driver.walk(("8", "no consumers: 2 claims name no consumer; 3 lists all claims"))
        assert "nothing is claimed" not in driver.text


async def test_claims_that_nobody_can_see_are_not_nothing() -> None:
    blind = FakeControl([])
    real = blind.look

    def look(rescan: bool = False) -> Snapshot:
        seen = real(rescan)
        boxes = {**seen.observation.boxes, Box.CUR: BoxState(Box.CUR, None, complete=False, note="huey deletes what it takes")}
        return replace(seen, observation=replace(seen.observation, boxes=boxes))

    blind.look = look  # type: ignore[method-assign]
    async with dashboard(blind) as driver:
        for key in ("3", "8"):
            await driver.press(key)
            await driver.see("not visible: huey deletes what it takes")
            assert "nothing is claimed" not in driver.text
