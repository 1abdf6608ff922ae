"""The text of a result's panel about its messages."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spooltop.model.cursors.state import Cursor, CursorSection
from spooltop.model.filters.selection import Selection
from spooltop.model.look.locks import LockHolder
from spooltop.model.operations.plan import Item, ItemResult, Outcome, Plan, Result
from spooltop.model.operations.tracked import TrackedMessage
from spooltop.model.row import Row
from spooltop.model.vocabulary import Action, Box, Json, Verdict
from spooltop.tui.threads.messages import MessagesTracked
from spooltop.tui.tracking.status import CursorSet, cursor_set, cursor_since, followed_ids, since_then

from .driving import dashboard
from .fake import NOW, FakeControl, claim, waiting


def result(*ids: str, action: Action = Action.REQUEUE) -> Result:
    return Result("7f3a", action, "/sp", NOW, [ItemResult(id, id, Outcome.DONE) for id in ids])


def said(*found: TrackedMessage, after: float = 12.0, action: Action = Action.REQUEUE) -> tuple[str, ...]:
    tracked = MessagesTracked(NOW + after, {one.id: one for one in found})
    return since_then(result(*(one.id for one in found), action=action), tracked)


@pytest.mark.parametrize(
    "found, words",
    [
        ([TrackedMessage("a", None, claimed_at=NOW + 0.3, pid=5201, gone_at=NOW + 0.5)],
         "1 claimed by 5201 after 0.3s, done after 0.5s"),
        ([TrackedMessage("a", Box.NEW, 1, 4309)], "1 waits in new, place 1 of 4,309, nobody took it for 10s"),
        ([TrackedMessage("a", Box.NEW, 1, 9), TrackedMessage("b", Box.NEW, 3, 9)],
         "2 wait in new, place 1 to 3 of 9, nobody took them for 10s"),
        ([TrackedMessage("a", Box.CUR, claimed_at=NOW + 1, pid=7)], "1 claimed by 7 after 1.0s, being processed for 10s"),
        ([TrackedMessage("a", Box.CUR, claimed_at=NOW + 1, pid=7, verdict=Verdict.DEAD)],
         "1 claimed by 7 after 1.0s, now DEAD and still holding it"),
        ([TrackedMessage("a", Box.CUR, claimed_at=NOW + 1)],
         "1 claimed by a process that is not visible after 1.0s, being processed for 10s"),
        ([TrackedMessage("a", Box.NEW, 1, 1, claimed_at=NOW + 1, pid=7)],
         "1 claimed by 7 after 1.0s, returned, waits in new again"),
        ([TrackedMessage("a", Box.REJECTED, claimed_at=NOW + 1, pid=7)], "1 claimed by 7 after 1.0s, then set aside in rejected"),
        ([TrackedMessage("a", None, gone_at=NOW + 3)], "1 taken and gone; consumer not seen"),
        ([TrackedMessage("a", None, claimed_at=NOW + 1, pid=7)], "1 claimed by 7 after 1.0s, left its claim just now"),
        ([TrackedMessage("a")], "1 on the way, not seen in any box yet"),
        ([TrackedMessage("a", Box.TRASH)], "1 set aside in trash"),
        ([TrackedMessage("a", Box.CUR)], "1 in cur"),
        ([TrackedMessage("a", Box.TMP)], "1 in tmp"),
        ([TrackedMessage("a", Box.DELIVERED)], "1 in delivered"),
        ([TrackedMessage(id, None, claimed_at=NOW + at, pid=7, gone_at=NOW + 2 * at) for id, at in [("a", 1.0), ("b", 2.0)]],
         "2 claimed by 7 after 1.0s to 2.0s, done after 2.0s to 4.0s"),
    ],
)  # fmt: skip
def test_where_they_are_in_words(found: list[TrackedMessage], words: str) -> None:
    assert said(*found) == (words,)


def test_what_is_of_an_earlier_look_is_not_told() -> None:
    assert said(TrackedMessage("a", Box.CUR), after=-1.0) == ()
    assert since_then(result("a"), None) == ()


def test_what_was_put_aside_by_the_operation_is_not_waited_for() -> None:
    assert followed_ids(result("a", action=Action.PURGE)) == ()
    assert followed_ids(result("a", action=Action.UNDO)) == ("a",)


def test_what_is_not_followed_is_counted() -> None:
    tracked = MessagesTracked(NOW + 5, {"a": TrackedMessage("a", Box.NEW, 1, 2)})
    assert since_then(result("a", "b", "c"), tracked)[-1] == "first 1 only; 2 more are not followed"


def cursor(value: Json, *history: CursorSection, verdict: str = "advancing") -> Cursor:
    return Cursor("imessage", value, str(value), verdict, "", "/c.json", True, history=history)


SET = CursorSet("imessage", "/c.json", {"cursor": 9})
POLLER = LockHolder(4312, "python3 poll_email.py")


@pytest.mark.parametrize(
    "now, words",
    [
        (cursor({"cursor": 9}), "still {'cursor': 9}: nobody has written over it for 10s"),
        (cursor({"cursor": 5}, CursorSection(NOW + 8, {"cursor": 5}, 1), CursorSection(NOW + 4, {"cursor": 4}, 1, writer=POLLER),
                CursorSection(NOW, {"cursor": 9}, 1)), "OVERWRITTEN after 4.0s by 4312 poll_email.py: 9 → "),
        (cursor({"cursor": 12}, CursorSection(NOW + 4, {"cursor": 12}, 1)), "advanced after 4.0s: 9 → "),
        (cursor("tok", CursorSection(NOW + 4, "tok", 1)), "OVERWRITTEN after 4.0s: 9 → tok"),
        (cursor({"cursor": 9}, verdict="unreadable"), "imessage cannot be read now"),
    ],
)  # fmt: skip
def test_what_became_of_a_cursor_that_was_set(now: Cursor, words: str) -> None:
    done = replace(result("imessage", action=Action.SET_CURSOR))
    base = FakeControl().look()
    later = replace(base, observation=replace(base.observation, taken_at=NOW + 12), cursors=(now,))
    (said,) = cursor_since(done, SET, later)
    assert said.startswith(words)
    assert cursor_since(done, SET, replace(later, observation=replace(later.observation, taken_at=NOW - 1))) == ()
    assert cursor_since(done, SET, replace(later, cursors=())) == ("imessage cannot be read now: its file is gone",)


async def test_the_panel_of_a_cursor_says_when_it_is_overwritten() -> None:
    control = FakeControl()
    control.cursors = (cursor(5),)
    async with dashboard(control) as driver:
        await driver.see("no problems detected")
        await driver.press(*"5e9")
        await driver.planned("enter")
        control.cursors = (cursor(9),)
        await driver.press("y")
        control.change()
        await driver.see("operation op1", "still 9: nobody has written over it")
        control.cursors = (cursor(5, CursorSection(NOW + 4, 5, 1)),)
        control.change()
        await driver.see("OVERWRITTEN", "9 → 5")


async def test_the_panel_follows_its_messages_from_before_the_change_until_it_is_closed() -> None:
    control = FakeControl([claim(1), waiting(1)])
    id = claim(1).id
    async with dashboard(control) as driver:
        await driver.planned("r")
        assert control.follows == []
        await driver.press("y")
        control.whereabouts[id] = TrackedMessage(id, Box.NEW, 1, 2)
        await driver.see("since then", "1 waits in new, place 1 of 2", "z undo (the 1 that waits)")
        assert control.follows[0] == ((id,), NOW)
        control.whereabouts[id] = TrackedMessage(id, None, claimed_at=NOW + 0.3, pid=5201, gone_at=NOW + 0.5)
        control.change()
        await driver.see("1 claimed by 5201 after 0.3s, done after 0.5s")
        await driver.press("escape")
        await driver.until(lambda: control.follows[-1][0] == ())


@pytest.mark.parametrize(
    ("action", "undone", "known"),
    [(Action.SET_CURSOR, None, True), (Action.UNDO, Action.SET_CURSOR, True), (Action.UNDO, Action.PURGE, False)],
)
def test_the_cursor_that_a_change_or_its_undo_sets(action: Action, undone: Action | None, known: bool) -> None:
    item = Item(Row(key="/c.json", box=Box.CUR, id="imessage", name="/c.json"), 5)
    plan = Plan("op1", action, "/sp", NOW, Selection(), [item], undone=undone)
    assert (cursor_set(plan) is not None) is known
