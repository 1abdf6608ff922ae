"""The panels on top of a view, by keys: holders of a file, a followed message, a cursor's value, an operation."""

from __future__ import annotations

from msgspec.structs import replace

from spooltop.errors import Unreadable
from spooltop.model.plan import OperationRecord, Selection, TrackedMessage
from spooltop.model.vocabulary import Action, Box, Holders

from .driving import dashboard
from .fake import NOW, FakeControl, a_cursor, claim, waiting
from .test_keys import busy


async def test_who_has_it_tells_nobody_from_nobody_visible_and_from_what_is_gone() -> None:
    fake = busy()
    fake.holding = Unreadable("it is gone")
    async with dashboard(fake) as driver:
        await driver.walk(("3", '"source"'), ("x", "it is gone"))
        fake.holding = Holders("cur/x")
        await driver.walk(("R", "no process has it open or locked"))
        fake.holding = Holders("cur/x", complete=False)
        await driver.walk(("R", "no process visible from here", "there may be others"))


async def test_who_has_it_is_asked_of_locks_and_of_cursor_files() -> None:
    fake = busy()
    async with dashboard(fake) as driver:
        await driver.walk(
            ("6", "▌STALE"), ("x", "Who has /var/spool/memex/leader.lock"),
            ("escape enter", "Who has /var/spool/memex/leader.lock"), ("escape 5", "REVERTED"),
            ("x", "Who has /opt/memex/cursors.json"),
        )  # fmt: skip
        assert fake.asked == [*["/var/spool/memex/leader.lock"] * 2, "/opt/memex/cursors.json"]


async def test_following_a_message_keeps_each_step() -> None:
    fake = FakeControl([waiting(1)])
    id = waiting(1).id
    fake.whereabouts[id] = TrackedMessage(id, Box.NEW, 1, 1)
    async with dashboard(fake) as driver:
        await driver.walk(("2", '"source"'), ("F", "waits in new, place 1 of 1"))
        assert fake.follows[-1] == ((id,), 0.0)
        fake.whereabouts[id] = TrackedMessage(id, claimed_at=NOW + 1, pid=77, gone_at=NOW + 3)
        fake.change()
        await driver.see("now  gone", "waits in new, place 1 of 1", "claimed by 77", "done after 2.0s")
        await driver.walk(("y", "copied: 3 steps"))
        assert "claimed by 77" in driver.clipboard
        await driver.press("escape")
        await driver.until(lambda: fake.follows[-1][0] == ())


async def test_a_value_is_typed_read_and_planned_for_its_own_file() -> None:
    fake = busy()
    async with dashboard(fake) as driver:
        await driver.walk(("5", "REVERTED"), ("e enter", "type the value", "89632"), ("8 9 6 4 0", "89640, an integer"))
        await driver.planned("enter")
        await driver.see("imessage: 89640 in /opt/memex/cursors.json")
        assert fake.planned[-1][0] is Action.SET_CURSOR
        assert fake.planned[-1][3] == {"source": "imessage", "value": 89640, "file": "/opt/memex/cursors.json"}
        await driver.walk(("escape", "Set the cursor of imessage", "89640█"))
        assert fake.applied == []
        await driver.planned("enter")
        await driver.walk(("y", "Set 1"), ("escape", "REVERTED", "email"))
        assert [plan.action for plan in fake.applied] == [Action.SET_CURSOR]


async def test_a_source_is_muted_for_an_hour_and_no_longer() -> None:
    fake = busy()
    async with dashboard(fake) as driver:
        await driver.walk(("5", "REVERTED", "m mute"), ("m", "imessage is muted until"))
        assert fake.muted == {"imessage": NOW + 3600}
        await driver.walk(("g", "m unmute", "its problems are not shown"), ("m", "imessage is no longer muted"))
        assert fake.muted == {}


async def test_what_may_be_poison_is_held_by_a_plan_of_its_own() -> None:
    fake = busy()
    fake.poison = 1
    async with dashboard(fake) as driver:
        await driver.planned("r")
        await driver.planned("h")
        await driver.until(lambda: len(fake.planned) == 2)
        await driver.see("Hold 1, requeue 5", "y hold 1, requeue 5")
        assert fake.planned[-1][3] == {"hold_poison": True}
        assert fake.applied == []
        await driver.walk(("h", "held already"))


async def test_emptying_takes_the_whole_trash_and_wants_its_count() -> None:
    trash = [replace(waiting(n), key=("trash", n), box=Box.TRASH, reason="purged") for n in range(3)]
    fake = FakeControl(trash)
    async with dashboard(fake) as driver:
        await driver.walk(("7", "Aside trash 3"), ("space", "1 marked"))
        await driver.planned("E")
        assert fake.planned[-1][1].box is Box.TRASH and fake.planned[-1][1].everything
        await driver.walk(("y", "type the number 3"))
        assert fake.applied == []
        await driver.walk(("3 enter", "Deleted 3"))


async def test_what_has_expired_in_the_trash_is_named_and_goes_alone() -> None:
    day = 86400.0
    trash = [
        replace(waiting(n), key=("trash", n), box=Box.TRASH, reason="purged", in_box_since=NOW - days * day,
                expires_at=NOW - days * day + 30 * day)
        for n, days in enumerate((1, 29, 31, 90))
    ]  # fmt: skip
    fake = FakeControl(trash)
    fake.retention = 30 * day
    async with dashboard(fake) as driver:
        await driver.see("trash 4, 2 expired")
        await driver.walk(("7", "Aside trash 4", "X delete 2 expired"))
        assert driver.text.count("expired · purged") == 2
        await driver.see("for 29d more, then offered")
        await driver.planned("X")
        assert fake.planned[-1][:2] == (Action.EMPTY, Selection(box=Box.TRASH, older_than=30 * day))
        await driver.see("type 2 to delete 2 for good")
        await driver.walk(
            ("2 enter", "Deleted 2"), ("escape", "Aside trash 2"), ("X", "nothing has been in the trash for 30d yet"),
        )  # fmt: skip


async def test_keys_of_what_is_set_aside_say_what_they_are_for() -> None:
    fake = busy()
    async with dashboard(fake) as driver:
        await driver.walk(
            ("7", "Aside held 1", '"source"', "release this 1"), ("E", "only the trash can be emptied"),
            ("h", "hold: only in 1 Overview, 2 New, 3 Claims"), ("7 7", "Aside trash 1", '"source"'),
            ("l", "release: only held messages; u restores those in the trash"), ("2 l", "release: only in 7 Aside"),
        )  # fmt: skip


async def test_an_operation_is_opened_and_undone_only_by_its_own_key() -> None:
    fake = busy()
    fake.records.append(OperationRecord("b1", Action.UNDO, NOW - 900, "memex", 1, 1, why_not_undo="it is an undo"))
    async with dashboard(fake) as driver:
        await driver.walk(
            ("z", "Operations 4"),
            ("enter", "Operation a0", "3 of 3 done", "1 can be undone", claim(99).id, "undo     spooltop undo"),
            ("enter", "Operation a0"), ("c", "copied: spooltop undo /var/spool/memex"),
        )  # fmt: skip
        await driver.planned("z")
        assert fake.applied == []
        await driver.walk(
            ("escape", "Operations 4"), ("G enter", "Operation b1", "no: it is an undo"), ("z", "undo: it is an undo"),
        )  # fmt: skip


async def test_a_cursor_that_went_meanwhile_is_shown_as_it_was() -> None:
    fake = busy()
    async with dashboard(fake) as driver:
        await driver.walk(("5", "REVERTED"), ("e", "now     89632"))
        fake.cursors = (replace(a_cursor(), value=89700, shown="89700"),)
        fake.change()
        await driver.see("now     89700")
        fake.cursors = ()
        fake.change()
        await driver.see("now     89632")
