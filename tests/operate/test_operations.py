"""Rules for every kind of queue: what is selected, confirmed, printed and paced."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from spooltop.engine import names
from spooltop.errors import UsageError
from spooltop.model.filters.selection import Selection
from spooltop.model.operations.plan import Confirm, Item, Outcome
from spooltop.model.row import Row
from spooltop.model.text import unescape
from spooltop.model.vocabulary import Action, Box, Verdict
from spooltop.operate.confirm import accepts
from spooltop.operate.defaults import with_defaults
from spooltop.operate.shell_command import command_words, id_word, shell_lines
from tests.builders import ALL, LockWorld, SpoolWorld, message_id

NONE = Selection()
NEW = Selection(box=Box.NEW, everything=True)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[SpoolWorld]:
    with SpoolWorld(tmp_path) as world:
        yield world


@pytest.mark.parametrize(
    ("count", "confirm"),
    [
        (0, Confirm.NOTHING), (1, Confirm.SMALL), (9, Confirm.SMALL), (10, Confirm.LARGE), (99, Confirm.LARGE),
        (100, Confirm.NUMBER),
    ],
)  # fmt: skip
def test_the_confirmation_grows_with_the_count(world: SpoolWorld, count: int, confirm: Confirm) -> None:
    for number in range(count):
        world.put(f"m{number}")
    with world.control() as control:
        plan = control.plan(Action.HOLD, NEW)
    assert plan.confirm is confirm
    for typed, means in {"y": Confirm.SMALL, "Y": Confirm.LARGE, str(count): Confirm.NUMBER, "": None}.items():
        assert accepts(plan.confirm, plan.count, typed) is (means is confirm or (typed == "Y" and confirm is Confirm.SMALL))


def test_a_plan_counts_whose_holder_is_not_known_to_be_gone(world: SpoolWorld) -> None:
    """Their number is typed."""
    for number in (1, 2):
        world.put(message_id(number))
    world.claim_dead()
    world.claim_living()
    world.put(names.in_cur("unknown", "a" * 32, 1795222800000000, os.getpid()), box=Box.CUR)
    with world.control() as control:
        for selection, unproven in ((Selection(box=Box.CUR, everything=True), 2), (Selection(verdict=Verdict.DEAD), 0)):
            plan = control.plan(Action.REQUEUE, selection, force=True)
            assert (plan.unproven, plan.confirm) == (unproven, Confirm.NUMBER if unproven else Confirm.SMALL)
        done = control.plan(Action.REQUEUE, Selection(verdict=Verdict.DEAD))
        control.apply(done)
        assert control.plan(Action.UNDO, NONE, options={"undoes": done.operation}).unproven == 0


def test_the_beginning_of_an_id_that_several_operations_have_names_none(world: SpoolWorld) -> None:
    operations: list[str] = []
    while len({operation[0] for operation in operations}) == len(operations):
        world.put("m")
        operations.append(world.do(Action.PURGE, NEW)[0].operation)
    with world.control() as control, pytest.raises(UsageError):
        control.plan(Action.UNDO, NONE, options={"undoes": operations[-1][0]})


def test_what_is_stopped_or_missing_is_not_called_tried(world: SpoolWorld) -> None:
    for number in range(5):
        world.put(f"m{number}")
    ids = tuple(f"m{number}" for number in range(5))
    with world.control() as control:
        steps = iter((False, False, True))
        result = control.apply(control.plan(Action.HOLD, Selection(ids=(*ids, "lost"))), stop=lambda: next(steps, True))
        assert [one.outcome for one in result.items] == [Outcome.DONE, Outcome.DONE, Outcome.SKIPPED]
        assert (result.stopped, result.untried) == (True, 3)
        progress: list[int] = []
        result = control.apply(control.plan(Action.HOLD, Selection(ids=(*ids, "lost"))), on_progress=progress.append)
        assert (result.stopped, result.untried, result.count(Outcome.DONE), progress) == (False, 0, 3, [3])


def test_defaults_of_a_selection() -> None:
    assert with_defaults(Action.REQUEUE, Selection(verdict=Verdict.DEAD)).box is Box.CUR
    assert with_defaults(Action.REQUEUE, Selection(box=Box.HELD)).box is Box.HELD
    assert with_defaults(Action.REQUEUE, NONE).empty and with_defaults(Action.EMPTY, ALL).box is Box.TRASH
    for filter in ("", "src:mail"):
        assert with_defaults(Action.PURGE, Selection(box=Box.TMP, filter=filter)).older_than == 3600
    for untouched in (
        Selection(box=Box.TMP, everything=True), Selection(box=Box.TMP, older_than=60.0), Selection(ids=("a",)),
        Selection(keys=("k",)), Selection(box=Box.TMP, filter="src:mail age:>5m"),
    ):  # fmt: skip
        assert with_defaults(Action.PURGE, untouched) is untouched
    with pytest.raises(UsageError):
        with_defaults(Action.PURGE, ALL)


# Commands that are printed


@pytest.mark.parametrize("name", ["ALL", "-", "--force", "-rf", "a b", "\x1b[31m", "back\\slash", "\udcff"])
def test_an_id_as_a_word_is_taken_for_nothing_else_and_comes_back(name: str) -> None:
    word = id_word(name)
    assert word not in ("ALL", "-") and not word.startswith("-") and word.isprintable() and unescape(word) == name


def item(id: str, name: str) -> Item:
    return Item(Row(key=("cur", name), box=Box.CUR, id=id, name=name, verdict=Verdict.DEAD), None)


TWO = [item("id0", "0"), item("id1", "1")]
PACED = {"rate": 20.0, "undoes": "abc"}
INJECTED = {"count": 2, "text": "a\nb", "canary": True}


@pytest.mark.parametrize(
    ("action", "items", "options", "words"),
    [
        (Action.REQUEUE, TWO, {}, "requeue /spool id0 id1"), (Action.PURGE, TWO[:1], {}, "purge /spool --box cur id0"),
        (Action.REQUEUE, [item("id7", "7"), item("id7", "other")], {}, "requeue /spool 7 other"),
        (Action.REQUEUE, TWO * 200, {}, "requeue /spool -"), (Action.UNDO, TWO, {"undoes": "abc"}, "undo /spool abc"),
        (Action.REQUEUE, TWO[:1], PACED, "requeue /spool --rate 20 id0"), (Action.UNDO, TWO, PACED, "undo /spool abc --rate 20"),
        (Action.INJECT, [], INJECTED, "inject /spool --count 2 --text a\\x0ab --canary"),
    ],
)  # fmt: skip
def test_the_command_of_a_plan(action: Action, items: list[Item], options: dict[str, Any], words: str) -> None:
    assert command_words(action, "/spool", ALL, items, options=options) == ("spooltop", *words.split())


@pytest.mark.parametrize(
    ("action", "selection", "options"),
    [
        (Action.REQUEUE, ALL, {"hold_poison": True}), (Action.PURGE, Selection(box=Box.CUR, everything=True), {"now": True}),
        (Action.HOLD, ALL, {}), (Action.INJECT, NONE, {"count": 1}), (Action.PAUSE, NONE, {}),
        (Action.SET_CURSOR, NONE, {"source": "mail", "value": 7}),
    ],
)  # fmt: skip
def test_no_command_that_is_printed_forces_or_confirms(
    world: SpoolWorld, action: Action, selection: Selection, options: dict[str, Any]
) -> None:
    world.cursors()
    world.claim_foreign("job")
    with world.control() as control:
        plan = control.plan(action, selection, force=True, options=options)
        slow = control.with_rate(plan, 5.0) if selection is not NONE else plan
        result = control.apply(plan)
        back = control.plan(Action.UNDO, NONE, force=True, options={"undoes": plan.operation})
    words = [*plan.command, *slow.command, *shell_lines(plan), *result.undo, *back.command]
    assert plan.count == 1 and words and not [word for word in words if "--force" in word or "--yes" in word]


def test_a_plan_is_paced_without_another_look(world: SpoolWorld) -> None:
    for number in (1, 2):
        world.claim_foreign(f"id{number}")
    with world.control() as control:
        plan = control.plan(Action.REQUEUE, ALL, options={"hold_poison": True})
        for name in world.names(Box.CUR):
            (world.path / "cur" / name).unlink()
        slow = control.with_rate(plan, 0.5)
        assert (slow.rate, slow.command[3:]) == (0.5, ("--hold-poison", "--rate", "0.5", "id1", "id2"))
        assert control.with_rate(slow, None) == plan


def test_what_is_no_message_is_not_done_at_a_rate(tmp_path: Path) -> None:
    with LockWorld(tmp_path) as world, world.control() as control:
        world.soft_lock("x.lock")
        with pytest.raises(UsageError, match="a rate limit applies to messages only"):
            control.plan(Action.UNLOCK, ALL, force=True, options={"rate": 2.0})
