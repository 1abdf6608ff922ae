"""The table of commands, from which all text about keys is derived."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spooltop.model.capabilities import Capabilities
from spooltop.model.filters.selection import Selection
from spooltop.model.look.problem import Problem, Severity
from spooltop.model.vocabulary import Action, Box, Verdict
from spooltop.tui.command_lists import footer, help_lines, palette
from spooltop.tui.commands import COMMANDS, by_id, command_for
from spooltop.tui.context import LISTS, CommandContext, View
from spooltop.tui.draw.problems import problem_hint

from .fake import FakeControl, claim, waiting

NEVER_A_CHANGE = {"ctrl+d", "ctrl+k", "ctrl+r", "ctrl+q", "backspace", "ctrl+s"}


def context(view: View, control: FakeControl | None = None, **changes: object) -> CommandContext:
    control = control or FakeControl([claim(1), waiting(1)])
    return CommandContext(view, snapshot=control.look(), **changes)  # type: ignore[arg-type]


def claims_scene(**changes: object) -> CommandContext:
    return context(View.CLAIMS, box=Box.CUR, row=claim(1), rows=1, depth=1, **changes)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.id)
def test_no_change_hangs_on_a_key_that_slips(command) -> None:
    if command.dangerous:
        assert not NEVER_A_CHANGE & set(command.keys)


def test_a_bare_enter_in_a_list_never_changes_anything() -> None:
    for view in LISTS | {View.OVERVIEW}:
        found, _ = command_for("enter", context(view, row=claim(1), rows=1))
        assert found is not None and found.id == "open" and not found.dangerous


def test_a_key_means_one_thing_where_it_is_available() -> None:
    control = FakeControl([claim(1)])
    plan = control.plan(Action.REQUEUE, Selection(box=Box.CUR, verdict=Verdict.DEAD))
    for view in View:
        here = context(view, row=claim(1), rows=2, box=Box.CUR, plan=plan, depth=1)
        for key in {key for command in COMMANDS if view in command.views for key in command.keys}:
            able = [c.id for c in COMMANDS if key in c.keys and view in c.views and c.why_not(here) is None]
            assert len(able) <= 1, (view, key, able)


def test_without_an_end_of_retention_nothing_expires() -> None:
    trash = replace(waiting(1), key=("trash", 1), box=Box.TRASH)
    control = FakeControl([trash])
    here = context(View.ASIDE, control, box=Box.TRASH, row=trash, rows=1)
    assert command_for("X", here)[1] == "delete expired: nothing ever expires, trash_retention is 0"
    assert "X" not in [key for key, _ in footer(here)]


def test_what_is_not_available_is_gone_from_the_footer_and_says_why() -> None:
    reason = "you are deploy, cur belongs to memex 0750. Try: sudo -u memex spooltop /var/spool/memex"
    locked = claims_scene(control=FakeControl([claim(1)], capabilities=Capabilities.nothing(reason)))
    assert "r" not in [key for key, _ in footer(locked)]
    command, why = command_for("r", locked)
    assert command is not None and command.id == "requeue"
    assert why == f"requeue: {reason}"
    assert ("r", "requeue: move claims back to new (opens a plan)", why) in help_lines(locked)
    assert "r" in [key for key, _ in footer(claims_scene())]


@pytest.mark.parametrize(
    "view, box, said",
    [(View.NEW, Box.NEW, "wait already"), (View.TMP, Box.TMP, "not a complete message")],
)
def test_requeue_says_what_it_is_for(view: View, box: Box, said: str) -> None:
    _, why = command_for("r", context(view, box=box, row=waiting(1), rows=1))
    assert why is not None and said in why


def test_on_the_overview_the_chosen_line_of_trouble_is_what_r_is_about() -> None:
    about = Problem("claims-dead", Severity.CRITICAL, "2 claims", 2, Selection(box=Box.CUR, verdict=Verdict.DEAD))
    here = context(View.OVERVIEW, problem=about, rows=1)
    assert ("r", "requeue 2") in footer(here)
    other = Problem("cursor-reverted", Severity.CRITICAL, "reverted", view="cursors", subject="imessage")
    _, why = command_for("r", context(View.OVERVIEW, problem=other, rows=1))
    assert why == "requeue: this problem is not about messages; Enter shows its subject"
    _, why = command_for("r", context(View.OVERVIEW))
    assert why is not None and why.startswith("requeue: choose a problem")


def test_the_shape_of_a_footer() -> None:
    assert footer(claims_scene()) == [
        ("r", "requeue this 1"), ("Space", "mark"), ("a", "mark all 1"), ("d", "purge"), ("h", "hold"), ("Enter", "open"),
        ("x", "who has it"), ("F", "follow"), ("/", "filter"), ("z", "ops"), ("?", "keys"), ("Esc", "back"),
    ]  # fmt: skip
    assert footer(claims_scene(marked=1200))[0] == ("r", "requeue 1,200")
    assert footer(context(View.OVERVIEW))[-1] == ("q", "quit")


def test_help_has_every_command_of_the_view_and_no_other() -> None:
    for view in View:
        here = context(view, rows=1)
        keys = [keys for keys, _, _ in help_lines(here) if keys]
        assert sorted(keys) == sorted(c.shown_keys for c in COMMANDS if view in c.views)


def test_the_palette_finds_by_words() -> None:
    assert [command.id for command, _ in palette(claims_scene(), "trash purge")] == ["purge"]
    assert palette(claims_scene(), "no such thing") == []


FOUND = {
    "delete": "purge", "retry": "requeue", "pause": "pause", "search": "filter", "kill": "purge", "quit": "quit", "exit": "quit",
    "log": "operations", "history": "operations", "sort": "sort-menu", "who": "who", "lsof": "who", "save": "save",
    "export": "save", "resume": "resume", "unpause": "resume", "cursor": "cursors", "undo": "operations", "help": "help",
    "filter": "filter", "refresh": "look-again", "redraw": "redraw", "mute": "mute",
}  # fmt: skip
"""Words that users of other programs type, and the command that each expects."""


@pytest.mark.parametrize("view", [View.OVERVIEW, View.NEW, View.CLAIMS, View.CURSORS, View.LOCKS])
@pytest.mark.parametrize("word", FOUND)
def test_the_palette_knows_the_words_of_other_programs_in_every_view(view: View, word: str) -> None:
    found = {command.id: reason for command, reason in palette(context(view, row=waiting(1), rows=2, depth=1), word)}
    wanted = FOUND[word]
    if view is View.LOCKS and word == "delete":
        wanted = "unlock"
    assert wanted in found
    if view not in by_id(wanted).views:
        assert "only in" in found[wanted] or "first" in found[wanted]
    elif wanted in ("filter", "operations", "quit", "help", "look-again", "redraw", "cursors", "sort-menu"):
        assert found[wanted] == ""


@pytest.mark.parametrize("view", View)
def test_a_key_of_other_programs_that_slips_says_nothing_of_a_change(view: View) -> None:
    for key in ("ctrl+k", "ctrl+r", "ctrl+s"):
        assert command_for(key, context(view, row=waiting(1), rows=2, depth=1)) == (None, None)


def test_saving_says_where_there_are_messages() -> None:
    for view in (View.OVERVIEW, View.CURSORS, View.CURSOR, View.LOCKS, View.CONSUMERS, View.OPERATIONS, View.HOLDERS):
        assert (command_for("S", context(view, rows=1))[1] or "").startswith("save: open or choose a message first")
    assert command_for("S", context(View.SPOOLS, rows=1))[1] == "save: open a spool first, with Enter"
    assert command_for("S", context(View.NEW))[1] == "nothing is chosen: the list is empty"


def test_sorting_needs_something_to_sort() -> None:
    _, why = command_for("I", claims_scene())
    assert why == "there is nothing to sort"


@pytest.mark.parametrize(
    ("view", "box", "offered"),
    [
        (View.CLAIMS, Box.CUR, {"r"}),
        (View.NEW, Box.NEW, {"d", "h"}),
        (View.TMP, Box.TMP, {"r"}),
        (View.ASIDE, Box.REJECTED, set()),
        (View.ASIDE, Box.HELD, {"u"}),
    ],
)
def test_an_action_is_offered_only_for_the_boxes_that_it_takes_from(view: View, box: Box, offered: set[str]) -> None:
    boxes = {
        Action.REQUEUE: (Box.CUR, Box.TMP),
        Action.PURGE: (Box.NEW,),
        Action.HOLD: (Box.NEW,),
        Action.RESTORE: (Box.TRASH, Box.HELD),
    }
    row = replace(claim(1), key=(box.value, 1), box=box)
    here = context(view, FakeControl([row], capabilities=Capabilities(boxes=boxes)), box=box, row=row, rows=1, depth=1)
    assert {key for key, _ in footer(here)} & {"r", "d", "h", "u"} == offered
    keys = {"r": "requeue", "d": "purge", "h": "hold"}
    refused = {key: reason for key in keys.keys() - offered if (reason := command_for(key, here)[1])}
    assert refused.keys() == keys.keys() - offered
    if box is Box.CUR:
        assert refused == {key: f"{keys[key]}: not possible for messages in cur here, only in new" for key in ("d", "h")}


def test_a_problem_offers_no_key_that_its_box_refuses() -> None:
    dead = Problem("claims-dead", Severity.CRITICAL, "1 dead", 1, Selection(box=Box.CUR))
    assert problem_hint(dead, Capabilities(boxes={Action.REQUEUE: (Box.CUR,)})) == ("r", "requeue 1")
    assert problem_hint(dead, Capabilities(boxes={Action.REQUEUE: (Box.REJECTED,)})) == ("Enter", "")
