"""The Consumers view: its keys, and what they lead to."""

from __future__ import annotations

from msgspec.structs import replace

from spooltop.model.vocabulary import Action, Box, Owner, Row, Verdict

from .driving import dashboard
from .fake import FakeControl, claim


def held(number: int, by: str, pid: int, verdict: Verdict = Verdict.DEAD) -> Row:
    """A claim of our own protocol by the consumer with the token ``by`` × 32."""
    row = claim(number, verdict, owner=Owner("vm", pid, 1.0, f"python3 /srv/worker-{by}.py", "ann"))
    return replace(row, name=f"{number:016}.P9R{number:016x}.vm,c={by * 32}.{number}:2,P{pid}")


def control() -> FakeControl:
    """A dead consumer with two claims, a dead one with one, and one that runs."""
    return FakeControl([held(4, "a", 4312), held(2, "a", 4312), held(3, "b", 4313), held(1, "c", 5200, Verdict.ALIVE)])


async def test_enter_shows_its_claims_and_esc_comes_back_to_the_same_row() -> None:
    async with dashboard(control()) as driver:
        await driver.walk(
            ("8", "Consumers 3", "2 DEAD", "r requeue 2"), ("end enter", "Claims › 5200 worker-c.py 1"),
            ("escape", "Consumers 3", "─ 5200 worker-c.py"), ("3", "Claims 4"),
        )  # fmt: skip


async def test_r_plans_for_all_claims_of_a_dead_one_and_leaves_those_alone_that_run() -> None:
    async with dashboard(control()) as driver:
        await driver.walk(
            ("8", "Consumers 3"), ("end r", "this consumer is running; Enter shows its claims"),
            ("slash 4 3 1 2 enter r", "requeue 2"),
        )  # fmt: skip
        [(action, selection, _, _)] = driver.control.planned
        assert (action, selection.box, selection.filter) == (Action.REQUEUE, Box.CUR, "a" * 32)


async def test_a_copied_name_is_escaped() -> None:
    by = Owner(name="a\udcff\n")
    async with dashboard(FakeControl([claim(1, owner=by, name="x")])) as driver:
        await driver.walk(("8", "a\\xff"), ("y", "copied: a\\xff\\x0a"))
        assert driver.clipboard == "a\\xff\\x0a"
