"""The views, by keys: what is shown, what is chosen, and how to get there and back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spooltop.errors import Unreadable
from spooltop.model.capabilities import Capabilities
from spooltop.model.cursors.state import CursorSection
from spooltop.model.look.problem import Problem, Severity
from spooltop.model.vocabulary import Box, Verdict

from .driving import Options, dashboard
from .fake import FakeControl, a_cursor, a_lock, claim, waiting, written


def control(**changes: object) -> FakeControl:
    fake = FakeControl([claim(1), claim(2), claim(3, Verdict.ALIVE), *(waiting(n) for n in range(300)), written(1)])
    fake.cursors = (a_cursor(), a_cursor("email", "advancing"))
    fake.locks = (a_lock(),)
    return fake


async def test_aside_begins_where_something_is_and_goes_round() -> None:
    trashed = replace(waiting(1), key=("trash", 1), box=Box.TRASH, reason="purged")
    async with dashboard(FakeControl([trashed])) as driver:
        await driver.walk(("7", "Aside trash 1"), ("7", "Aside held 0"), ("7", "Aside rejected 0"))


async def test_back_goes_one_step_at_a_time_and_q_quits_only_at_the_top() -> None:
    async with dashboard(control()) as driver:
        await driver.walk(("3", "Claims 3"))
        await driver.until(lambda: driver.app.main.row is not None)
        await driver.walk(
            ("enter", "watched for"), ("q", "Claims 3"), ("backspace", "PROBLEM"), ("escape", "nothing to go back to: q quits"),
        )  # fmt: skip
        assert driver.app.is_running and not driver.app.session.leaving.is_set()
        await driver.press("q")
        await driver.until(driver.app.session.leaving.is_set)
    assert driver.app.return_code == 0


async def test_the_cursor_stays_on_its_message_when_others_come_and_go() -> None:
    fake = control()
    async with dashboard(fake) as driver:
        await driver.walk(("2", "New 300"))
        await driver.press("j", "j", "j")
        await driver.until(lambda: driver.app.main.rows.cursor_key == ("new", 3))
        fake.rows = [row for row in fake.rows if row.key not in (("new", 0), ("new", 1))]
        fake.change()
        await driver.see("New 298")
        assert driver.app.main.rows.cursor_key == ("new", 3)
        assert driver.app.main.rows.cursor_index == 1
        await driver.walk(("1 2", "New 298"))
        await driver.until(lambda: driver.app.main.rows.cursor_key == ("new", 3))


async def test_enter_on_a_line_of_trouble_shows_exactly_those() -> None:
    async with dashboard(control()) as driver:
        await driver.press("enter")
        text = await driver.see("Claims › claims-dead 2")
        assert "alive" not in text.replace("1 alive", "")
        await driver.walk(("escape", "1 PROBLEM"), ("3", "Claims 3"))


async def test_the_write_that_is_chosen_stays_chosen_when_newer_ones_come() -> None:
    fake = control()
    writes = tuple(CursorSection(1000.0 + n, n, 7, shown=f"value-{n}") for n in range(9, -1, -1))
    fake.cursors = (replace(a_cursor(), history=writes[4:]),)
    async with dashboard(fake) as driver:
        await driver.walk(("5 enter", "value-5"))
        await driver.press("j", "j")
        fake.cursors = (replace(fake.cursors[0], history=writes),)
        fake.change()
        await driver.see("value-9")
        assert any(line.startswith("▌") and "value-3" in line for line in driver.text.splitlines())
        await driver.press("g")
        fake.cursors = (replace(fake.cursors[0], history=(CursorSection(2000.0, 10, 7, shown="value-10"), *writes)),)
        fake.change()
        await driver.see("value-10")
        assert any(line.startswith("▌") and "value-10" in line for line in driver.text.splitlines())


async def test_enter_on_trouble_with_a_cursor_opens_that_source() -> None:
    fake = control()
    fake.problems = (Problem("cursor-reverted", Severity.CRITICAL, "email reverted", view="cursors", subject="email"),)
    async with dashboard(fake) as driver:
        await driver.press("enter")
        await driver.until(lambda: driver.app.main.context().cursor is not None)
        cursor = driver.app.main.context().cursor
        assert cursor is not None and cursor.source == "email"
        await driver.walk(("enter", "Cursors › email"))


async def test_filter_narrows_as_one_types_and_says_what_makes_no_sense() -> None:
    async with dashboard(control()) as driver:
        await driver.walk(("3", "Claims 3"), ("slash v e r d i c t : a l i v e", "Claims 1", "1 match"))
        await driver.press(*" age:x")
        await driver.until(lambda: driver.app.main.state.filter_input is not None and driver.app.main.state.filter_input.error)
        await driver.press(*["backspace"] * 6, "enter")
        text = await driver.see("Claims 1")
        assert "verdict:alive" in text.split("\n")[0]
        await driver.walk(
            ("escape", "Claims 3"), ("slash v e r d i c t : d e a d", "Claims 2"), ("escape", "Claims 3"),
            ("slash x backspace", "Enter keeps"),
        )  # fmt: skip
        await driver.press("backspace")  # leaves a filter that has nothing in it
        await driver.gone("Enter keeps")


async def test_marks_are_kept_by_message_and_all_that_match_are_marked() -> None:
    async with dashboard(control()) as driver:
        await driver.walk(("3", "Claims 3"))
        await driver.until(lambda: driver.app.main.row is not None)
        await driver.walk(("space", "1 marked", "requeue 1"), ("slash v e r d i c t : d e a d enter", "Claims 2"))
        state = driver.app.main.state.list_state
        assert state is not None
        await driver.press("U")
        await driver.until(lambda: not state.marks)
        await driver.walk(("a", "2 marked"))
        assert set(state.marks) == {("cur", 1), ("cur", 2)}
        await driver.walk(("escape", "Claims 3"))
        assert len(state.marks) == 2


async def test_frozen_nothing_moves_until_it_goes_on() -> None:
    fake = control()
    async with dashboard(fake, quiet=0.01) as driver:
        await driver.walk(("3", "Claims 3"), ("Z", "FROZEN"))
        fake.rows = [row for row in fake.rows if row.key != ("cur", 1)]
        fake.change()
        looks = fake.looks
        await driver.until(lambda: fake.looks > looks + 2)
        assert "Claims 3" in driver.text
        await driver.walk(("Z", "Claims 2"))


async def test_copying_shows_what_was_copied() -> None:
    async with dashboard(control()) as driver:
        await driver.press("3")
        await driver.until(lambda: driver.app.main.row is not None)
        row = driver.app.main.row
        assert row is not None
        await driver.walk(("y", f"copied: {row.id}"))
        assert driver.app.clipboard == row.id
        await driver.walk(("enter", '"source"'), ("y", 'copied: {"source": "imessage"}'))


async def test_an_empty_spool() -> None:
    async with dashboard(FakeControl()) as driver:
        await driver.see("no problems detected")
        for key in "234567":
            await driver.press(key)
            await driver.pilot.pause()
        await driver.walk(("3 j enter space G r", "requeue: the list is empty"))


async def test_a_payload_that_cannot_be_read_says_why() -> None:
    fake = control()

    def read(key: object, limit: int = 0) -> object:
        raise Unreadable("a fifo is no message")

    fake.read = read  # type: ignore[method-assign, assignment]
    async with dashboard(fake) as driver:
        await driver.walk(("3", "a fifo is no message"))


async def test_ascii_has_no_other_signs() -> None:
    async with dashboard(control(), options=Options(ascii=True)) as driver:
        for key in "1234567":
            await driver.press(key)
            await driver.pilot.pause()
            assert driver.text.isascii(), driver.text


async def test_a_long_reason_is_shown_to_its_end() -> None:
    reason = "you are deploy, and cur belongs to memex:memex 0750 in a place of a rather long name. Try: sudo -u memex spooltop"
    async with dashboard(FakeControl([claim(1)], capabilities=Capabilities.nothing(reason))) as driver:
        for view in ("1", "3"):
            await driver.press(view, "r")
            await driver.until(lambda: "Try: sudo -u memex spooltop" in " ".join(driver.text.split()))
            assert len(driver.lines) == 23
            await driver.walk(("down", "1Over"))


async def test_read_only_says_so_at_every_key_that_would_change_something() -> None:
    fake = FakeControl([claim(1)], capabilities=Capabilities.nothing("you are deploy, read-only"))
    async with dashboard(fake) as driver:
        await driver.walk(("3", "Claims 1"))
        for key, action in [("r", "requeue"), ("d", "purge"), ("i", "inject")]:
            await driver.press(key)
            await driver.see(f"{action}: you are deploy, read-only")
        assert fake.planned == []


async def test_n_finds_the_next_match_with_and_without_a_filter() -> None:
    fake = FakeControl([replace(waiting(n), source="signal" if n in (3, 5, 40) else "email") for n in range(60)])
    async with dashboard(fake) as driver:
        rows = driver.app.main.rows
        await driver.press("2")
        await driver.until(lambda: len(rows) == 60, "the whole list")  # the header has its length before
        await driver.walk(
            ("n", "no filter was set yet: / sets one"), ("slash s r c : s i g n a l enter", "New 3 of 60 match src:signal"),
        )  # fmt: skip
        await driver.press("n", "n")
        await driver.until(lambda: rows.cursor_key == ("new", 40))
        await driver.walk(("n", "this is the last match of src:signal"))
        await driver.press("escape")
        await driver.until(lambda: len(rows) == 60, "the whole list")
        await driver.press("g")
        for key, number in [("n", 3), ("n", 5), ("n", 40), ("N", 5), ("j", 6), ("N", 5), ("k", 4), ("n", 5), ("N", 3)]:
            await driver.press(key)
            await driver.until(lambda number=number: rows.cursor_key == ("new", number), f"{key} to {number}")
        await driver.walk(("N", "nothing above matches src:signal"))


@pytest.mark.parametrize("view, key, said", [("5", "r", "requeue: only in"), ("1", "space", "mark: only in 2 New"),
                                             ("6", "I", "invert: only in 2 New, 3 Claims, 4 Tmp, 7 Aside")])  # fmt: skip
async def test_a_key_of_another_view_says_where_it_lives(view: str, key: str, said: str) -> None:
    async with dashboard(control()) as driver:
        await driver.press(view, key)
        await driver.see(said)


@pytest.mark.parametrize("layout, words", [("cursors", "imessage"), ("tickets", "flock"), ("spool", "box       depth")])
async def test_it_begins_where_there_is_something_to_show(layout: str, words: str) -> None:
    fake = control()
    fake.layout = layout
    async with dashboard(fake) as driver:
        await driver.see(words)
        assert driver.app.main.state.root == {"cursors": "cursors", "tickets": "locks"}.get(layout, "overview")


async def test_a_list_of_nothing_says_why() -> None:
    async with dashboard(FakeControl([claim(1)])) as driver:
        for key, words in [("2", "nothing waits in new"), ("4", "nothing is being written"), ("7", "nothing is held; 7 shows")]:
            await driver.press(key)
            await driver.see(words)
        await driver.walk(
            ("3 slash n o s u c h enter", "Claims 0 of 1 match nosuch", "nothing matches nosuch; Esc clears the filter"),
            ("escape 1 enter", "Claims › claims-dead 1"),
        )  # fmt: skip
        driver.control.rows.clear()
        driver.control.change()
        await driver.see("none of its messages are left")


async def test_a_box_that_cannot_be_seen_says_why_it_lists_nothing() -> None:
    fake = FakeControl()
    fake.errors[Box.NEW] = "you may not open new"
    async with dashboard(fake) as driver:
        await driver.walk(("2", "New ? ·", "you may not open new; there is nothing to list"))


async def test_what_matches_so_far_is_shown_while_the_filter_runs() -> None:
    async with dashboard(control()) as driver:
        await driver.walk(("2", "New 300"))
        driver.control.at_once.clear()
        await driver.press("slash", *"95222")
        text = await driver.see("≥150 … match")
        assert text.split("\n")[0].startswith(" New ≥150 … of 300 match 95222 · sorting by age ↓ 45%")
        first = waiting(1).id.partition(".")[0]
        assert first in text.split("\n")[2]
        driver.control.at_once.set()
        await driver.see("300 match · Enter keeps", "sorted by age ↓")
        assert driver.app.main.rows.cursor_index == 0  # as if nothing had been shown before the end
        assert driver.app.main.row == waiting(0)


async def test_a_cursor_that_was_moved_before_the_end_stays_on_its_row() -> None:
    async with dashboard(control()) as driver:
        await driver.walk(("2", "New 300"))
        driver.control.at_once.clear()
        await driver.walk(("slash 9 5 2 2 2 enter", "New ≥150 …"))
        await driver.press("j", "j")
        chosen = driver.app.main.row
        assert chosen is not None
        driver.control.at_once.set()
        await driver.see("New 300 of 300")
        assert driver.app.main.row == chosen


async def test_a_list_that_takes_its_time_is_come_back_to_where_it_was_left() -> None:
    async with dashboard(control()) as driver:
        rows = driver.app.main.rows
        await driver.walk(("2 slash 9 5 2 2 2 enter", "New 300 of 300"))
        await driver.press(*["pagedown"] * 5)
        await driver.until(lambda: driver.app.main.row is not None)
        left = rows.cursor_key
        await driver.press("1")
        driver.control.at_once.clear()
        await driver.walk(("2", "New ≥150 …"))
        driver.control.at_once.set()
        await driver.see("New 300 of 300")
        await driver.until(lambda: driver.app.main.row is not None)
        assert rows.cursor_key == left


async def test_the_next_key_ends_a_filter_that_runs() -> None:
    async with dashboard(control()) as driver:
        await driver.walk(("2", "New 300"))
        driver.control.at_once.clear()
        await driver.walk(("slash 9 5 2 2 2", "New ≥150 …"))
        await driver.press("9", "x")  # matches nothing
        await driver.see("match 952229x · sorting by age ↓")
        driver.control.at_once.set()
        await driver.walk(("escape", "New 300 ·", "sorted by age"))


async def test_a_click_chooses_a_lock_and_another_one_opens_it() -> None:
    fake = control()
    fake.locks = (a_lock(), replace(a_lock(), path="/var/spool/memex/leader.lock"))
    async with dashboard(fake) as driver:
        await driver.press("6")
        text = await driver.see("Locks 2", "leader.lock")
        other = next(line for line in text.split("\n") if ".lock" in line and "▌" not in line)
        place = (12, text.split("\n").index(other))
        await driver.pilot.click("#page", offset=(place[0], place[1] - 2))
        await driver.until(lambda: driver.lines[place[1]].startswith("▌"), "the other lock to be chosen")
        await driver.pilot.click("#page", offset=(place[0], place[1] - 2))
        await driver.see("Who has")


async def test_a_list_that_is_empty_without_trouble_says_which_key_shows_all() -> None:
    async with dashboard(FakeControl([claim(1, Verdict.ALIVE)])) as driver:
        await driver.press("3", "exclamation_mark")
        await driver.see("nothing here is dead or abandoned; ! shows all")
