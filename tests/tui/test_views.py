"""The views while something changes beneath them: what stays chosen, what a filter or a freeze holds, what is said of nothing.

What is painted in ordinary states is asserted by the pictures and the recorded screens."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from spooltop.cursors.model import CursorSection
from spooltop.errors import Unreadable
from spooltop.model.backend import Capabilities
from spooltop.model.snapshot import BoxState, ConsumerList, Problem, Severity, Snapshot
from spooltop.model.vocabulary import Action, Box, Verdict

from .driving import Options, dashboard
from .fake import FakeControl, a_cursor, a_lock, claim, waiting, written

NUMBERED = "1795222900000{:03}"
"""The beginning of the id of a waiting message."""


def control() -> FakeControl:
    fake = FakeControl([claim(1), claim(2), claim(3, Verdict.ALIVE), *(waiting(n) for n in range(300)), written(1)])
    fake.cursors = (a_cursor(), a_cursor("email", "advancing"))
    fake.locks = (a_lock(),)
    return fake


async def test_back_goes_one_step_at_a_time_and_q_quits_only_at_the_top() -> None:
    async with dashboard(control()) as driver:
        await driver.walk(
            ("3", '"source"'), ("enter", "watched for"), ("q", "Claims 3"), ("backspace", "PROBLEM"),
            ("escape", "nothing to go back to: q quits"),
        )  # fmt: skip
        assert not driver.leaving
        await driver.press("q")
        await driver.until(lambda: driver.leaving)
    assert driver.app.return_code == 0


async def test_the_cursor_stays_on_its_message_when_others_come_and_go() -> None:
    fake = control()
    async with dashboard(fake) as driver:
        await driver.walk(("2", "New 300"), ("j j j", "▌"))
        await driver.chooses(NUMBERED.format(3))
        fake.rows = [row for row in fake.rows if row.key not in (("new", 0), ("new", 1))]
        fake.change()
        await driver.see("New 298")
        await driver.chooses(NUMBERED.format(3))
        fake.rows = [row for row in fake.rows if row.key != ("new", 3)]
        fake.change()
        await driver.see("New 297")
        await driver.chooses(NUMBERED.format(4))  # its successor
        await driver.walk(("", f"─ {NUMBERED.format(4)}"), ("1 2", "New 297"))
        await driver.chooses(NUMBERED.format(4))


async def test_the_cursor_keeps_its_line_when_rows_come_above() -> None:
    fake = FakeControl([waiting(n) for n in range(100, 300)])
    async with dashboard(fake) as driver:
        await driver.walk(("2", "New 200"), ("pagedown pagedown k k", "▌"))
        chosen, line = driver.chosen, driver.lines.index(driver.chosen)
        fake.rows += [waiting(n) for n in range(7)]
        fake.change()
        await driver.see("New 207")
        await driver.chooses(chosen[-16:])
        assert driver.lines.index(driver.chosen) == line


async def test_a_list_whose_rows_all_went_says_so_and_opens_nothing() -> None:
    fake = FakeControl([waiting(1)])
    async with dashboard(fake) as driver:
        await driver.walk(("2", NUMBERED.format(1)))
        fake.rows.clear()
        fake.change()
        await driver.walk(("", "nothing waits in new"), ("enter", "New 0"))


async def test_the_write_that_is_chosen_stays_chosen_when_newer_ones_come() -> None:
    fake = control()
    writes = tuple(CursorSection(1000.0 + n, n, shown=f"value-{n}") for n in range(9, -1, -1))
    fake.cursors = (replace(a_cursor(), history=writes[4:]),)
    async with dashboard(fake) as driver:
        await driver.walk(("5 enter", "value-5"), ("j j", "▌"))
        fake.cursors = (replace(fake.cursors[0], history=writes),)
        fake.change()
        await driver.see("value-9")
        await driver.chooses("value-3")
        await driver.press("g")
        fake.cursors = (replace(fake.cursors[0], history=(CursorSection(2000.0, 10, shown="value-10"), *writes)),)
        fake.change()
        await driver.chooses("value-10")


async def test_enter_on_trouble_with_a_cursor_opens_that_source() -> None:
    fake = control()
    fake.problems = (Problem("cursor-reverted", Severity.CRITICAL, "email reverted", view="cursors", subject="email"),)
    async with dashboard(fake) as driver:
        await driver.walk(("enter", "Cursors 2"))
        await driver.chooses("email")


async def test_filter_narrows_as_one_types_and_says_what_makes_no_sense() -> None:
    async with dashboard(control()) as driver:
        await driver.walk(
            ("3", "Claims 3"), ("slash v e r d i c t : a l i v e", "Claims 1", "1 match"),
            ("space a g e : x", "age:x needs > or <"),
        )  # fmt: skip
        await driver.press(*["backspace"] * 6, "enter")
        await driver.see("Claims 1 of 3 match verdict:alive")
        await driver.walk(
            ("escape", "Claims 3"), ("slash v e r d i c t : d e a d", "Claims 2"), ("escape", "Claims 3"),
            ("slash x backspace", "Enter keeps"),
        )  # fmt: skip
        await driver.press("backspace")  # leaves a filter that has nothing in it
        await driver.gone("Enter keeps")


async def test_marks_are_kept_by_message_and_all_that_match_are_marked() -> None:
    async with dashboard(control()) as driver:
        await driver.walk(
            ("3", '"source"'), ("space", "1 marked", "requeue 1"), ("slash v e r d i c t : d e a d enter", "Claims 2"),
            ("U", "0 mark"), ("a", "2 mark"), ("escape", "Claims 3", "2 marked"),
        )  # fmt: skip
        assert all(("*" in line) is ("DEAD" in line) for line in driver.lines[2:5])


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
            assert driver.text.isascii(), driver.text


async def test_a_long_reason_is_shown_to_its_end() -> None:
    reason = "you are deploy, and cur belongs to memex:memex 0750 in a place of a rather long name. Try: sudo -u memex spooltop"
    async with dashboard(FakeControl([claim(1)], capabilities=Capabilities.nothing(reason))) as driver:
        for view in ("1", "3"):
            await driver.press(view, "r")
            await driver.until(lambda: "Try: sudo -u memex spooltop" in " ".join(driver.text.split()))
            assert len(driver.lines) == 23
            await driver.walk(("down", "1Over"))


@pytest.mark.parametrize(
    ("refused", "keys"), [(tuple(Action), "r d i P"), ((Action.PURGE, Action.HOLD), "d h")], ids=["read-only", "some"]
)  # fmt: skip
async def test_what_cannot_be_done_is_in_no_footer_and_its_key_says_why(refused: tuple[Action, ...], keys: str) -> None:
    fake = FakeControl([claim(1)], capabilities=Capabilities(dict.fromkeys(refused, "you are deploy, read-only")))
    names = {"r": "requeue", "d": "purge", "i": "inject", "P": "pause", "h": "hold"}
    async with dashboard(fake) as driver:
        await driver.walk(("3", '"source"'))
        assert not [key for key in keys.split() if f"{key} {names[key]}" in driver.text]
        for key in keys.split():
            await driver.walk((key, f"{names[key]}: you are deploy, read-only"))
        assert fake.planned == []


async def test_n_finds_the_next_match_with_and_without_a_filter() -> None:
    fake = FakeControl([replace(waiting(n), source="signal" if n in (3, 5, 40) else "email") for n in range(60)])
    async with dashboard(fake) as driver:
        await driver.walk(
            ("2", "New 60", NUMBERED.format(1)), ("n", "no filter was set yet: / sets one"),
            ("slash s r c : s i g n a l enter", "New 3 of 60 match src:signal"), ("n n", "▌"),
        )  # fmt: skip
        await driver.chooses(NUMBERED.format(40))
        await driver.walk(("n", "this is the last match of src:signal"), ("escape", "New 60 ·", NUMBERED.format(39)), ("g", "▌"))
        await driver.chooses(NUMBERED.format(0))
        for key, number in [("n", 3), ("n", 5), ("n", 40), ("N", 5), ("j", 6), ("N", 5), ("k", 4), ("n", 5), ("N", 3)]:
            await driver.press(key)
            await driver.chooses(NUMBERED.format(number))
        await driver.walk(("N", "nothing above matches src:signal"))


@pytest.mark.parametrize("view, key, said", [("5", "r", "requeue: only in"), ("1", "space", "mark: only in 2 New"),
                                             ("6", "I", "invert: only in 2 New, 3 Claims, 4 Tmp, 7 Aside")])  # fmt: skip
async def test_a_key_of_another_view_says_where_it_lives(view: str, key: str, said: str) -> None:
    async with dashboard(control()) as driver:
        await driver.press(view, key)
        await driver.see(said)


@pytest.mark.parametrize(
    ("layout", "words"), [("cursors", "Cursors 2"), ("tickets", "Locks 1"), ("spool", "box       depth")]
)  # fmt: skip
async def test_it_begins_where_there_is_something_to_show(layout: str, words: str) -> None:
    fake = control()
    fake.layout = layout
    async with dashboard(fake) as driver:
        await driver.see(words)


async def test_a_list_of_nothing_says_why() -> None:
    async with dashboard(FakeControl([claim(1)])) as driver:
        await driver.walk(
            ("2", "nothing waits in new"), ("4", "nothing is being written"), ("7", "nothing is held; 7 shows"),
            ("3 slash n o s u c h enter", "Claims 0 of 1 match nosuch", "nothing matches nosuch; Esc clears the filter"),
            ("r", "requeue: the list is empty"), ("escape 1 enter", "Claims › claims-dead 1"),
        )  # fmt: skip
        driver.control.rows.clear()
        driver.control.change()
        await driver.see("none of its messages are left")
        driver.control.rows.append(claim(1, Verdict.ALIVE))
        driver.control.change()
        await driver.walk(("escape 3 exclamation_mark", "nothing here is dead or abandoned; ! shows all"))


async def test_what_cannot_be_seen_is_not_nothing() -> None:
    blind = FakeControl()
    blind.errors[Box.NEW] = "you may not open new"
    real = blind.look

    def look(rescan: bool = False) -> Snapshot:
        seen = real(rescan)
        boxes = {**seen.observation.boxes, Box.CUR: BoxState(Box.CUR, None, complete=False, note="huey deletes what it takes")}
        return replace(seen, observation=replace(seen.observation, boxes=boxes))

    blind.look = look  # type: ignore[method-assign]
    async with dashboard(blind) as driver:
        await driver.walk(("2", "New ? ·", "you may not open new; there is nothing to list"))
        for key in ("3", "8"):
            await driver.walk((key, "not visible: huey deletes what it takes"))
            assert "nothing is claimed" not in driver.text
    nameless = FakeControl([claim(1), claim(2)])
    nameless.consumers = lambda: ConsumerList((), nameless.time, nameless=2)  # type: ignore[method-assign]
    async with dashboard(nameless) as driver:
        await driver.walk(("8", "no consumers: 2 claims name no consumer; 3 lists all claims"))
        assert "nothing is claimed" not in driver.text


async def test_what_matches_so_far_is_shown_while_the_filter_runs() -> None:
    async with dashboard(control()) as driver:
        await driver.walk(("2", "New 300"))
        driver.control.at_once.clear()
        await driver.press("slash", *"95222")
        await driver.see("≥150 … match")
        assert driver.lines[0].startswith(" New ≥150 … of 300 match 95222 · sorting by age ↓ 45%")
        assert NUMBERED.format(1) in driver.lines[2]
        driver.control.at_once.set()
        await driver.see("300 match · Enter keeps", "sorted by age ↓")
        await driver.chooses(NUMBERED.format(0))  # as if nothing had been shown before the end


async def test_a_cursor_that_was_moved_before_the_end_stays_on_its_row() -> None:
    async with dashboard(control()) as driver:
        await driver.walk(("2", "New 300"))
        driver.control.at_once.clear()
        await driver.walk(("slash 9 5 2 2 2 enter", "New ≥150 …"), ("j j", "▌"))
        chosen = driver.chosen[-16:]
        driver.control.at_once.set()
        await driver.see("New 300 of 300")
        await driver.chooses(chosen)


async def test_a_list_that_takes_its_time_is_come_back_to_where_it_was_left() -> None:
    async with dashboard(control()) as driver:
        await driver.walk(("2 slash 9 5 2 2 2 enter", "New 300 of 300"), (" ".join(["pagedown"] * 5), NUMBERED.format(40)))
        chosen = driver.chosen[-16:]
        await driver.press("1")
        driver.control.at_once.clear()
        await driver.walk(("2", "New ≥150 …"))
        driver.control.at_once.set()
        await driver.see("New 300 of 300")
        await driver.chooses(chosen)


async def test_the_next_key_ends_a_filter_that_runs() -> None:
    async with dashboard(control()) as driver:
        await driver.walk(("2", "New 300"))
        driver.control.at_once.clear()
        await driver.walk(("slash 9 5 2 2 2", "New ≥150 …"), ("9 x", "match 952229x · sorting by age ↓"))
        driver.control.at_once.set()
        await driver.walk(("escape", "New 300 ·", "sorted by age"))


async def test_long_names_are_told_apart_at_80_columns_and_stay_as_they_are_while_scrolling() -> None:
    fake = FakeControl([waiting(n, id=f"webserver-production-{n:06d}-of-all-the-mail.json") for n in range(200)])
    async with dashboard(fake) as driver:
        await driver.walk(
            ("2", "…000000-of-all", "…000001-of-all"), ("end", "…000199-of-all"), ("home", "…000000-of-all")
        )  # fmt: skip
