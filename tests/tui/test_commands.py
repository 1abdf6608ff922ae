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


def context(view: View, control: FakeControl | None = None, **changes: object) -> CommandContext:
    control = control or FakeControl([claim(1), waiting(1)])
    return CommandContext(view, snapshot=control.look(), **changes)  # type: ignore[arg-type]


def claims_scene(**changes: object) -> CommandContext:
    return context(View.CLAIMS, box=Box.CUR, row=claim(1), rows=1, depth=1, **changes)


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


def test_help_has_every_command_of_the_view_and_no_other() -> None:
    for view in View:
        here = context(view, rows=1)
        keys = [keys for keys, _, _ in help_lines(here) if keys]
        assert sorted(keys) == sorted(c.shown_keys for c in COMMANDS if view in c.views)


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


def test_a_file_in_tmp_is_purged_and_not_held() -> None:
    control = FakeControl([replace(waiting(1), key=("tmp", 1), box=Box.TMP)])
    here = context(View.MESSAGE, control, box=Box.TMP, row=control.rows[0], rows=1)
    assert command_for("h", here)[1] == "hold: a file in tmp is not a complete message; d purges it"


def test_a_list_without_problems_is_filtered_by_them_all_the_same() -> None:
    problems = by_id("problems")
    assert problems.why_not(context(View.OVERVIEW, FakeControl([waiting(1)]))) == "no problems detected so far"
    assert problems.why_not(context(View.CLAIMS, FakeControl([waiting(1)]))) is None
