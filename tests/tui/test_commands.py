"""The table of commands in help, palette and footer: what is offered where, and what is said of the rest."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from spooltop.model.backend import Capabilities
from spooltop.model.vocabulary import Action, Box
from tests.keys import COMMANDS

from .driving import dashboard
from .fake import FakeControl, claim, waiting
from .test_keys import busy

VIEWS = ("overview", "new", "claims", "tmp", "cursors", "locks", "aside", "consumers")


async def test_help_has_every_command_of_the_view_and_no_other() -> None:
    async with dashboard(busy(), (300, 100)) as driver:
        for number, view in enumerate(VIEWS, 1):
            await driver.walk((f"{number} question_mark", "Signs"))
            text = " ".join(driver.text.split())
            here = {command.help for command in COMMANDS if view in map(str, command.views)}
            assert {command.help for command in COMMANDS if command.help in text} == here
            await driver.press("escape")


FOUND = {
    "delete": "purge", "retry": "requeue", "pause": "pause", "search": "filter", "kill": "purge", "exit": "quit",
    "log": "operations", "history": "operations", "sort": "sort-menu", "who": "who", "lsof": "who", "export": "save",
    "unpause": "resume", "cursor": "cursors", "undo": "operations", "refresh": "look-again", "redraw": "redraw", "mute": "mute",
}  # fmt: skip
"""Words that users of other programs type, and the command that each expects."""


@pytest.mark.parametrize("view", "1256")
async def test_the_palette_knows_the_words_of_other_programs_in_every_view(view: str) -> None:
    async with dashboard(busy(), (120, 30)) as driver:
        await driver.press(view)
        for word, id in FOUND.items():
            wanted = next(command for command in COMMANDS if command.id == id)
            await driver.walk((" ".join(("colon", *word)), f":{word}█", f"{wanted.id} "))
            line = next(line for line in driver.lines if line.lstrip("▌ ").startswith(f"{wanted.id} "))
            assert ("only in" in line or "first, in" in line) is (VIEWS[int(view) - 1] not in map(str, wanted.views)), line
            await driver.press("escape")


@pytest.mark.parametrize("key", ["ctrl+d", "ctrl+k", "ctrl+r", "ctrl+q", "ctrl+s", "backspace", "enter"])
async def test_keys_that_slip_plan_nothing(key: str) -> None:
    async with dashboard(busy()) as driver:
        for view in "12345678":
            await driver.press(view, key)
            await driver.pilot.pause()
        assert driver.control.planned == [] and not driver.leaving


@pytest.mark.parametrize(
    ("view", "box", "offered"),
    [("3", Box.CUR, "r"), ("2", Box.NEW, "d h"), ("4", Box.TMP, "r"), ("7", Box.REJECTED, ""), ("7", Box.HELD, "u")],
)  # fmt: skip
async def test_an_action_is_offered_only_for_the_boxes_that_it_takes_from(view: str, box: Box, offered: str) -> None:
    boxes = {
        Action.REQUEUE: (Box.CUR, Box.TMP),
        Action.PURGE: (Box.NEW,),
        Action.HOLD: (Box.NEW,),
        Action.RESTORE: (Box.TRASH, Box.HELD),
    }
    names = {"r": "requeue", "d": "purge", "h": "hold", "u": "restore"}
    control = FakeControl([replace(claim(1), key=(box.value, 1), box=box)], capabilities=Capabilities(boxes=boxes))
    async with dashboard(control, (120, 30)) as driver:
        await driver.walk((view, '"source"'))
        assert [key for key in names if f"{key} {names[key]}" in driver.lines[-2]] == offered.split()
        for key in names.keys() - set(offered.split()):
            await driver.walk((key, f"{names[key]}: "))
        if box is Box.CUR:
            await driver.walk(("d", "purge: not possible for messages in cur here, only in new"))
        assert control.planned == []


@pytest.mark.parametrize(("box", "hint"), [(Box.CUR, "r requeue 1"), (Box.REJECTED, "Enter")])
async def test_a_problem_offers_no_key_that_its_box_refuses(box: Box, hint: str) -> None:
    control = FakeControl([claim(1)], capabilities=Capabilities(boxes={Action.REQUEUE: (box,)}))
    async with dashboard(control) as driver:
        await driver.chooses("1 claims of dead consumers", hint)


async def test_keys_without_anything_to_act_on_say_why() -> None:
    trash = replace(waiting(1), key=("trash", 1), box=Box.TRASH)
    tmp = replace(waiting(2), key=("tmp", 1), box=Box.TMP)
    async with dashboard(FakeControl([trash, tmp])) as driver:
        await driver.walk(
            ("exclamation_mark", "no problems detected so far"), ("7", '"source"'),
            ("X", "delete expired: nothing ever expires, trash_retention is 0"),
            ("4", "Tmp 1", "0000002"), ("enter", "watched for"),
            ("h", "hold: a file in tmp is not a complete message; d purges it"),
        )  # fmt: skip


async def test_a_key_that_is_refused_gives_the_command_of_the_queues_own_program_and_copies_it() -> None:
    one = waiting(1)
    commands = {Action.PURGE: "postsuper -d {id}"}
    control = FakeControl([one], capabilities=Capabilities.nothing("Postfix changes its own queue", commands))
    async with dashboard(control) as driver:
        await driver.walk(("2", one.id[-6:]), ("d", "purge: Postfix changes its own queue: postsuper -d"))
        assert driver.clipboard == f"postsuper -d {one.id}"
        await driver.walk(("h", "hold: Postfix changes its own queue"))
        assert "(copied)" not in driver.text and driver.clipboard == f"postsuper -d {one.id}"
