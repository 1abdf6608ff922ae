"""Keys that come faster than screens open and close: they are for the screen in front by then, but never for a plan."""

from __future__ import annotations

import pytest
from textual.message import Message

from spooltop.model.plan import EVERY, Confirm, OperationRecord
from spooltop.model.vocabulary import Action, Verdict

from .driving import Driver, dashboard
from .fake import NOW, FakeControl, a_cursor, a_lock, claim, waiting

EARLY = "y came before the plan was painted; press it again"


@pytest.mark.parametrize(
    ("opened", "keys", "words", "ends"),
    [
        ((), ("question_mark", "q", "q"), "", True),
        ((), ("question_mark", "q", "3"), "Claims 1", False),
        (("question_mark",), ("escape", "3"), "Claims 1", False),
        ((), ("colon", *"freeze", "enter"), "FROZEN", False),
    ],
    ids=["help is left and the dashboard too", "help alone is left", "a key while help closes", "the palette keeps the order"],
)
async def test_keys_typed_at_once_are_each_for_the_screen_in_front(
    opened: tuple[str, ...], keys: tuple[str, ...], words: str, ends: bool
) -> None:
    async with dashboard(FakeControl([claim(1)])) as driver:
        await driver.press(*opened)
        driver.at_once(*keys)
        if ends:
            await driver.until(lambda: driver.leaving, "the end")
        else:
            await driver.see(words)
        assert driver.leaving is ends


@pytest.mark.parametrize("keys", [("r", "y"), ("r", "y", "y", "enter")])
async def test_nothing_typed_with_the_key_of_a_plan_confirms_it(keys: tuple[str, ...]) -> None:
    async with dashboard(FakeControl([claim(1)])) as driver:
        driver.at_once(*keys)
        await driver.planned()
        await driver.see("y requeue 1", EARLY)
        assert driver.control.applied == [] and driver.clipboard == ""
        await driver.walk(("y", "Requeued 1"))


async def hung(driver: Driver) -> None:
    """Makes the thread that reads lists wait."""
    driver.control.entered.clear()
    driver.control.hang.clear()
    driver.control.change()
    await driver.until(driver.control.entered.is_set, "a look to begin")


async def test_a_plan_and_its_y_typed_before_the_list_was_read_are_about_the_row_that_is_chosen_then() -> None:
    async with dashboard(FakeControl([claim(1)])) as driver:
        await hung(driver)
        driver.at_once("3", "r", "y")
        await driver.see("y: no plan is open yet")
        driver.control.hang.set()
        await driver.planned()
        await driver.see("y requeue 1", EARLY)
        assert driver.control.applied == [] and driver.clipboard == ""
        await driver.walk(("y", "Requeued 1"))


async def test_a_plan_that_waits_for_a_list_is_given_up_by_another_key() -> None:
    async with dashboard(FakeControl([claim(1)])) as driver:
        await hung(driver)
        driver.at_once("3", "r")
        await driver.see("requeue: the list is still being read; the plan opens then")
        await driver.press("2", "3")
        driver.control.hang.set()
        await driver.see("Claims 1", '"source"')
        await driver.pilot.pause()
        assert driver.control.planned == []


async def test_a_y_typed_with_the_key_of_a_plan_that_is_refused_copies_nothing() -> None:
    async with dashboard(FakeControl([waiting(1)])) as driver:
        await driver.walk(("2", '"source"'))
        driver.at_once("r", "y")
        await driver.see("y: no plan was opened; requeue: messages in new wait already")
        assert driver.clipboard == ""
        await driver.walk(("y", f"copied: {waiting(1).id}"))


async def test_in_the_operations_a_y_copies_nothing_and_says_so() -> None:
    control = FakeControl([claim(1)])
    control.records = [OperationRecord("a1", Action.PURGE, NOW - 60, "memex", 3, 3)]
    async with dashboard(control) as driver:
        driver.at_once("z", "y")
        await driver.see("Operations 1", "y: no plan is open; z opens the one that undoes this operation")
        await driver.walk(("enter", "Operation a1", "1 can be undone"))
        driver.at_once("z", "y")
        await driver.planned()
        await driver.see("y undo 1", EARLY)
        assert control.applied == [] and driver.clipboard == ""
        await driver.walk(("escape", "Operations 1"), ("c", "copied: a1"))


async def test_z_undoes_the_last_change_after_its_result_was_closed() -> None:
    control = FakeControl([claim(1)])
    async with dashboard(control) as driver:
        await driver.planned("r")
        await driver.walk(("y", "operation op1"))
        await driver.press("escape")
        await driver.gone("operation op1")
        driver.at_once("z", "y")
        await driver.planned()
        await driver.see("y undo 1", EARLY)
        assert control.planned[-1][3] == {"undoes": "op1"} and len(control.applied) == 1
        await driver.press("y")
        await driver.until(lambda: len(control.applied) == 2, "the undo to be done")
        await driver.see("operation op2")
        await driver.walk(("escape", "Operations 2"))
        await driver.press("escape", "z")  # the same key does not undo the undo
        await driver.see("Operations 2")
        await driver.pilot.pause()
        assert len(control.planned) == 2


async def test_z_shows_the_operations_where_somebody_else_made_the_last_change() -> None:
    control = FakeControl([claim(1)])
    async with dashboard(control) as driver:
        await driver.planned("r")
        await driver.walk(("y", "operation op1"))
        control.records.insert(0, OperationRecord("x9", Action.PURGE, NOW, "root", 3, 3))
        await driver.walk(("escape z", "Operations 2"))
        await driver.pilot.pause()
        assert len(control.planned) == 1


async def test_what_is_typed_with_the_key_that_leaves_a_plan_does_nothing_below() -> None:
    async with dashboard(FakeControl([claim(1)])) as driver:
        await driver.planned("r")
        driver.at_once("escape", "q")
        await driver.see("1 PROBLEM")
        await driver.walk(("2", "New 0"))
        assert not driver.leaving


def shown_at(driver: Driver) -> float:
    assert driver.plan_painted_at is not None
    return driver.plan_painted_at


async def test_a_plan_is_confirmed_by_no_key_that_comes_before_it_was_there_for_a_moment() -> None:
    async with dashboard(FakeControl([claim(1)]), moment=1000.0) as driver:
        await driver.planned("r")
        await driver.see("[Esc Cancel]   …")
        assert "y requeue" not in driver.text
        driver.at_once("y", at=shown_at(driver) + 999.0)
        await driver.see("only just been shown")
        for n, key in enumerate("etry"):  # a word is typed
            driver.at_once(key, at=shown_at(driver) + 5000.0 + n)
        await driver.pilot.pause()
        assert driver.control.applied == []
        driver.at_once("y", at=shown_at(driver) + 6003.0)
        await driver.see("Requeued 1")


async def test_a_key_counts_from_the_instant_at_which_the_plan_was_painted() -> None:
    control = FakeControl([claim(n) for n in range(120)])
    async with dashboard(control) as driver:
        await driver.planned("r")
        painted = shown_at(driver)
        driver.at_once("9", "enter", at=painted - 0.001)
        driver.at_once("1", "2", "0", at=painted)
        await driver.see(": 120_")
        driver.at_once("enter", at=painted)
        await driver.see("Requeued 120")


@pytest.mark.parametrize("key", ["f", "s"])
async def test_a_plan_that_is_being_replaced_cannot_be_confirmed(key: str) -> None:
    control = FakeControl([claim(1), claim(2), claim(3, Verdict.ALIVE)])
    control.confirm = Confirm.NUMBER
    async with dashboard(control) as driver:
        await driver.walk(("3", "Claims 3"), ("a", "3 marked"))
        await driver.planned("r")
        await driver.walk(("2", "2_"))
        control.gate.clear()
        await driver.press(*(["f"] if key == "f" else ["s", "5", "enter"]))
        await driver.see("making the plan")
        driver.at_once("2", "enter", "y", at=Message().time + 3600.0)
        await driver.pilot.pause()
        assert control.applied == []
        control.gate.set()
        await driver.planned()
        await driver.see(": _")  # what was typed at the old plan is no part of the number
        await driver.walk(("enter", "type the number"))
        assert control.applied == []


async def test_the_first_items_of_a_large_plan_are_scrolled_while_it_is_made_and_no_key_confirms_it() -> None:
    async with dashboard(FakeControl([claim(number) for number in range(1200)])) as driver:
        driver.control.judged = EVERY
        driver.control.gate.clear()
        await driver.walk(("r", "Requeue: making the plan", "500 of 1,500 claims judged; the first 1,000:", "more below"))
        assert "above" not in driver.text
        await driver.walk(("j j ctrl+d k", "12 above"))
        driver.at_once("y", "Y", *"1200", "enter", "s", "c", "f", at=Message().time + 3600.0)
        await driver.pilot.pause()
        driver.control.gate.set()
        await driver.see("Requeue 1,200 claims", "type 1200 to")
        assert driver.control.applied == [] and len(driver.control.planned) == 1
        await driver.walk(("escape", "1 PROBLEM"))


@pytest.mark.parametrize("view", "1234567")
async def test_a_word_typed_after_the_slash_is_text_in_every_view(view: str) -> None:
    word = "delayretry"
    control = FakeControl([claim(1)])
    control.cursors, control.locks = (a_cursor(),), (a_lock(),)
    async with dashboard(control) as driver:
        await driver.see("1 PROBLEM")
        driver.at_once(view, "slash", *word)
        await driver.see(f"/{word}")
        driver.at_once("enter")
        await driver.see(f"{word}")
        assert control.planned == [] and driver.panels == 0


async def test_the_filter_of_the_overview_is_that_of_new() -> None:
    async with dashboard(FakeControl([claim(1), waiting(1), waiting(2)])) as driver:
        await driver.see("1 PROBLEM")
        driver.at_once("slash", *waiting(2).id[-12:], "enter")
        await driver.see("New 1 of 2")


@pytest.mark.parametrize("panel", ["question_mark", "r"], ids=["help", "plan"])
async def test_a_word_typed_after_the_slash_in_a_panel_is_sought_there(panel: str) -> None:
    control = FakeControl([claim(1)])
    control.records = [OperationRecord("a1", Action.PURGE, NOW - 60, "memex", 3, 3)]
    async with dashboard(control) as driver:
        await driver.press(panel)
        if panel == "r":
            await driver.planned()
        await driver.walk(("slash d u t y", "/duty_"), ("enter", "no line has duty"))
        assert control.applied == [] and not driver.leaving
        assert [action for action, *_ in control.planned] == [Action.REQUEUE] * (panel == "r")


async def test_the_list_of_operations_is_filtered_as_one_types() -> None:
    control = FakeControl([claim(1)])
    control.records = [
        OperationRecord("a1", Action.PURGE, NOW - 60, "memex", 3, 3),
        OperationRecord("b2", Action.REQUEUE, NOW - 7200, "root", 2, 2),
    ]
    async with dashboard(control) as driver:
        await driver.walk(
            ("z", "Operations 2", "a1", "b2"), ("slash a g e : > 1 h space r e q *", "Operations 1", "1 match", "b2"),
        )  # fmt: skip
        assert "a1" not in driver.text and control.planned == []
        await driver.walk(
            ("x enter", "no operation matches age:>1h req*x; Esc clears"), ("escape", "Operations 2"),
            ("slash d u t y : 1", "keys are age: src: id:"), ("escape escape", "1 PROBLEM"),
        )  # fmt: skip
        assert control.planned == []


async def test_cursors_and_locks_take_the_whole_grammar() -> None:
    control = FakeControl()
    control.cursors, control.locks = (a_cursor(), a_cursor("email", "advancing")), (a_lock(),)
    async with dashboard(control) as driver:
        await driver.see("no problems detected")
        await driver.walk(("5 slash ! s r c : i m * space v e r d i c t : a d v a n c i n g", "1 match", "email"))
        assert "imessage" not in driver.text
        await driver.walk(("enter", "Esc clears the filter"), ("escape", "imessage", "email"))
        await driver.walk(
            ("6 slash v e r d i c t : h e l d", "1 match", ".cursors.lock"),
            ("ctrl+u f o o : 3 enter", "not filtered by all of it: unknown key foo:", ".cursors.lock"),
        )  # fmt: skip


async def test_the_part_that_a_filter_found_is_underlined_in_each_row() -> None:
    async with dashboard(FakeControl([waiting(n) for n in range(3)])) as driver:
        await driver.press("2", "slash", *"src:ma*l", "enter")
        await driver.walk(("escape slash s r c : e m * i l enter", "New 3 of 3 match src:em*il"))

        def underlined() -> list[list[str]]:
            return [[one.text for one in row if one.style is not None and one.style.underline] for row in driver.rows[2:5]]

        assert underlined() == [["em", "il"]] * 3
        await driver.press("escape")
        assert underlined() == [[]] * 3


async def test_what_is_pasted_never_acts_and_is_text_where_text_is_typed() -> None:
    control = FakeControl([claim(1), waiting(1)])
    async with dashboard(control) as driver:
        await driver.see("1 PROBLEM")
        driver.paste("ryyq\n")
        await driver.see("paste ignored")
        await driver.planned("r")
        driver.paste("y")
        await driver.see("paste ignored")
        await driver.press("escape")
        await driver.gone("Requeue 1")
        await driver.press("slash")
        driver.paste("delay\nryy")
        await driver.see("/delay█")
        assert control.applied == [] and not driver.leaving


@pytest.mark.parametrize("panel", ["z", "question_mark", "x"])
@pytest.mark.parametrize("key, there", [("2", "New 1"), ("tab", "Tmp 0")])
async def test_a_panel_is_left_for_a_view_by_its_key(panel: str, key: str, there: str) -> None:
    control = FakeControl([claim(1), waiting(1)])
    control.records = [OperationRecord("a1", Action.PURGE, NOW - 60, "memex", 3, 3)]
    async with dashboard(control) as driver:
        await driver.walk(("3", '"source"'))
        await driver.press(panel)
        await driver.until(lambda: driver.panels == 1)
        if panel == "z":
            await driver.see("a1")
            await driver.walk(("enter", "Operation a1"))
        await driver.press(key)
        await driver.see(there)
        assert driver.panels == 0


async def test_a_plan_typed_with_the_key_that_marks_all_is_about_all() -> None:
    async with dashboard(FakeControl([claim(1), claim(2), claim(3)])) as driver:
        await driver.walk(("3", "Claims 3"))
        driver.at_once("a", "r", "y")
        await driver.planned()
        await driver.see("y requeue 3", EARLY)
        assert driver.control.applied == [] and driver.clipboard == ""


async def test_a_view_that_was_left_meanwhile_opens_no_plan_for_what_was_marked_in_it() -> None:
    async with dashboard(FakeControl([claim(1), claim(2), waiting(3)])) as driver:
        await driver.walk(("3", "Claims 2"))
        driver.at_once("a", "r", "2")
        await driver.see("New 1")
        await driver.pilot.pause()
        assert driver.control.planned == []
