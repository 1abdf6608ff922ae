"""The table of commands. Bindings, footer, help, palette and the key tables come from it and from nothing else.

A command has an id, its keys as the terminal's events name them, a label for the footer, one sentence of help, the views it
lives in, a function that says why it is not available now, and the name of its handler. The screen in front finds that handler:
``TableScreen.handler`` among its methods. ``dangerous`` commands only ever open a plan; no key changes the spool by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Set

from msgspec import Struct

from spooltop.model.filters.selection import Selection
from spooltop.model.vocabulary import Action, Box
from spooltop.operate.operations import poison_words

from . import availability as why
from .context import LISTS, CommandContext, View

_SHOWN = {
    "up": "↑", "down": "↓", "left": "←", "right": "→", "pageup": "PgUp", "pagedown": "PgDn", "home": "Home", "end": "End",
    "enter": "Enter", "escape": "Esc", "backspace": "Backspace", "tab": "Tab", "shift+tab": "Shift-Tab", "space": "Space",
    "question_mark": "?", "slash": "/", "colon": ":", "exclamation_mark": "!", "less_than_sign": "<", "greater_than_sign": ">",
    "left_square_bracket": "[", "right_square_bracket": "]",
}  # fmt: skip


def character_of(key: str) -> str | None:
    """The character that a key types; None where it types none.

    >>> character_of("y"), character_of("slash"), character_of("enter")
    ('y', '/', None)
    """
    word = shown(key)
    return word if len(word) == 1 and word.isascii() else None


def named(word: str, keys: Iterable[str]) -> str | None:
    """The key among ``keys`` that users call ``word``; None where there is none.

    >>> named("Enter", ["j", "enter"]), named("x", ["j"])
    ('enter', None)
    """
    return next((key for key in keys if shown(key) == word), None)


def shown(key: str) -> str:
    """The name of a key that users read.

    >>> shown("ctrl+f"), shown("f5"), shown("question_mark"), shown("G")
    ('Ctrl-F', 'F5', '?', 'G')
    """
    if key in _SHOWN:
        return _SHOWN[key]
    if key.startswith("ctrl+"):
        return "Ctrl-" + key[5:].upper()
    if len(key) > 1 and key[0] == "f" and key[1:].isdigit():
        return key.upper()
    return key


ROOTS = frozenset({View.OVERVIEW, View.NEW, View.CLAIMS, View.TMP, View.CURSORS, View.LOCKS, View.ASIDE, View.CONSUMERS})
PANELS = frozenset({View.OPERATIONS, View.OPERATION, View.HELP, View.PLAN, View.RESULT, View.HOLDERS, View.FOLLOW})
MOVING = ROOTS | PANELS | {View.MESSAGE, View.CURSOR, View.SPOOLS}
STEPPING = MOVING | {View.PALETTE, View.SORT}
OVER = frozenset({View.MESSAGE, View.CURSOR})
CHANGING = frozenset({View.OVERVIEW, View.MESSAGE}) | LISTS
SORTED = LISTS | {View.CONSUMERS, View.SPOOLS}
HOLDING = frozenset({View.OVERVIEW, View.NEW, View.CLAIMS, View.MESSAGE})
FROM_ASIDE = frozenset({View.ASIDE, View.MESSAGE})
SOURCES = frozenset({View.CURSORS, View.CURSOR})
UNLOCKING = frozenset({View.LOCKS, View.OVERVIEW})
WITH_FILE = LISTS | SOURCES | {View.MESSAGE, View.LOCKS}
TEXTS = PANELS - {View.PLAN, View.RESULT}
"""Panels that change nothing and may be left with the key of a view."""
GOES = ROOTS | OVER | TEXTS
"""The views from which the key of a view leads to it."""
EVERYWHERE = frozenset(View)


class KeyCommand(Struct, frozen=True):
    """A command and its keys. ``rank`` orders the footer; 0: not in the footer."""

    id: str
    keys: tuple[str, ...]
    label: str
    help: str
    views: Set[View]
    why_not: Callable[[CommandContext], str | None] = why.always
    dangerous: bool = False
    rank: int = 0
    group: str = "look"
    also: str = ""
    """Words by which the palette finds it, in addition to its own."""
    does: str = ""
    """The name of its handler, where it differs from ``do_`` and the id."""
    args: tuple[object, ...] = ()
    """The arguments that the handler gets."""

    @property
    def handler(self) -> str:
        return self.does or f"do_{self.id.replace('-', '_')}"

    @property
    def key(self) -> str:
        """Its first key, as users call it."""
        return shown(self.keys[0])

    @property
    def answers(self) -> bool:
        """True for a command that confirms a plan or makes it take more: it is typed, never clicked on."""
        return self.dangerous and View.PLAN in self.views

    @property
    def shown_keys(self) -> str:
        return " ".join(shown(key) for key in self.keys)


VIEWS = (
    ("overview", "Over", "Overview", ""), ("new", "New", "New: messages that wait", ""),
    ("claims", "Claims", "Claims: messages being processed, and whether their holders run", ""),
    ("tmp", "Tmp", "Tmp: messages being written", ""), ("cursors", "Cursors", "Cursors of the sources", ""),
    ("locks", "Locks", "Locks and who holds them", ""),
    ("aside", "Aside", "Aside: held, rejected, trash; again: the next box", ""),
    ("consumers", "Consumers", "Consumers: who works here, and what each of them holds", "workers processes busy"),
)  # fmt: skip
"""The views by number: id, label, help, and words by which the palette finds them."""

COMMANDS: tuple[KeyCommand, ...] = (
    # The answers to a plan come first: nothing else may take these keys there.
    KeyCommand("confirm-small", ("y", "Y"), "do it", "apply the plan (1 to 9 items)", {View.PLAN},
            why.confirmable("y"), dangerous=True, rank=1, group="plan", does="do_confirm"),
    KeyCommand("confirm-large", ("Y",), "do it", "apply the plan (10 to 99 items)", {View.PLAN},
            why.confirmable("Y"), dangerous=True, rank=1, group="plan", does="do_confirm"),
    KeyCommand("confirm-number", ("enter",), "do it", "apply the plan, after its count was typed",
            {View.PLAN}, why.confirmable("number"), dangerous=True, rank=1, group="plan"),
    KeyCommand("force", ("f",), "force", "in a plan: also take claims from running holders (count typed)", {View.PLAN},
            why.forceable, dangerous=True, rank=2, group="plan"),
    KeyCommand("hold-poison", ("h",), "hold",
            "in a plan: hold messages whose consumers died while processing them, requeue the others",
            {View.PLAN}, why.holdable, dangerous=True, rank=2, group="plan"),
    KeyCommand("rate", ("s",), "rate limit", "in a plan: limit the rate (50/s, 1000/m); empty: no limit",
            {View.PLAN}, why.rate_limitable, rank=3, group="plan"),
    KeyCommand("copy-command", ("c",), "copy as command", "in a plan: copy the same action as a command",
            {View.PLAN},
            why.plan_there, rank=3, group="plan"),
    KeyCommand("stop", ("escape",), "stop", "while a plan is applied: stop after the current item", {View.PLAN},
            why.applying, rank=1, group="plan"),
    KeyCommand("cancel", ("escape", "q", "backspace", "ctrl+h"), "Cancel", "leave the plan; nothing was changed",
            {View.PLAN}, why.not_applying, rank=1, group="plan"),
    KeyCommand("undo-result", ("z",), "undo", "undo what was just done", {View.RESULT}, why.undo, dangerous=True,
            rank=2,
            group="plan"),
    KeyCommand("copy-result", ("c",), "copy as text", "copy the result as text", {View.RESULT}, rank=3, group="plan"),

    KeyCommand("next-message", ("j", "n"), "next message", "in an open message: the next one of the list",
            {View.MESSAGE},
            rank=10, group="move", does="do_step_message", args=(1,)),
    KeyCommand("previous-message", ("k", "p", "N"), "previous message", "in an open message: the one before",
            {View.MESSAGE},
            group="move", does="do_step_message", args=(-1,)),
    KeyCommand("scroll-down", ("down",), "scroll", "in an open message: a line down", {View.MESSAGE}, group="move",
            does="do_step", args=(1,)),
    KeyCommand("scroll-up", ("up",), "scroll back", "in an open message: a line up", {View.MESSAGE}, group="move",
            does="do_step", args=(-1,)),
    KeyCommand("move-down", ("j", "down"), "down", "move down", STEPPING - {View.MESSAGE}, group="move", does="do_step",
            args=(1,)),
    KeyCommand("move-up", ("k", "up"), "up", "move up", STEPPING - {View.MESSAGE}, group="move", does="do_step", args=(-1,)),
    KeyCommand("page-down", ("pagedown", "ctrl+f"), "page down", "a page down", STEPPING, group="move", does="do_page",
            args=(1,)),
    KeyCommand("page-up", ("pageup", "ctrl+b"), "page up", "a page up", STEPPING, group="move", does="do_page", args=(-1,)),
    KeyCommand("half-page-down", ("ctrl+d",), "half a page down", "half a page down", MOVING, group="move",
            does="do_page", args=(0.5,)),
    KeyCommand("half-page-up", ("ctrl+u",), "half a page up", "half a page up", MOVING, group="move", does="do_page",
            args=(-0.5,)),
    KeyCommand("first", ("home", "g"), "first", "to the first line", STEPPING, group="move"),
    KeyCommand("last", ("end", "G"), "last", "to the last line", STEPPING, group="move"),

    KeyCommand("undo", ("z", "u"), "undo this one", "in the list of operations: undo the chosen one (opens a plan)",
            {View.OPERATIONS, View.OPERATION}, why.undo, dangerous=True, rank=2, group="change"),
    KeyCommand("open-operation", ("enter",), "open", "in the list of operations: what it did, and the command that undoes it",
            {View.OPERATIONS}, why.has_rows, rank=1, group="move"),
    KeyCommand("copy-operation", ("c",), "copy",
            "in the list of operations: copy its id; in one of them the command that undoes it",
            {View.OPERATIONS, View.OPERATION}, why.has_rows, rank=3),
    KeyCommand("run", ("enter",), "run", "in the palette: run the chosen action", {View.PALETTE}, why.has_rows, rank=1,
            group="move"),
    KeyCommand("make", ("enter",), "plan it", "in the inject form: open the plan", {View.INJECT},
            why.inject, rank=1, group="change"),
    KeyCommand("save-now", ("enter",), "save", "in the form of a file name: save the payload", {View.SAVING}, rank=1),
    KeyCommand("set", ("enter",), "plan it", "in the cursor form: open the plan for the typed value",
            {View.SETTING},
            why.set_cursor, rank=1, group="change"),
    KeyCommand("open", ("enter",), "open",
            "open: a problem's messages, a message, a source's history, a lock's holders, a consumer's claims",
            ROOTS, why.openable, rank=5, group="move"),
    KeyCommand("open-spool", ("enter",), "open", "Spools: open the whole dashboard of the chosen one; Esc comes back",
            {View.SPOOLS}, why.has_rows, rank=1, group="move"),
    KeyCommand("leave", ("q",), "quit", "quit, where there is nothing to go back to", {View.OVERVIEW, View.SPOOLS},
            why.at_the_top,
            rank=9, group="move", does="do_quit"),
    KeyCommand("back", ("escape", "q", "backspace", "ctrl+h"), "back", "back; q at the top quits", EVERYWHERE - {View.PLAN},
            why.can_go_back, rank=9, group="move"),

    KeyCommand("requeue", ("r",), "requeue", "requeue: move claims back to new (opens a plan)",
            CHANGING | {View.CONSUMERS}, why.requeue, dangerous=True,
            rank=1, group="change",
            also="retry redrive redeliver again", does="do_plan", args=(Action.REQUEUE,)),
    KeyCommand("purge", ("d",), "purge", "purge to the trash (opens a plan)", CHANGING, why.purge, dangerous=True, rank=3,
            group="change",
            also="delete remove kill drop discard", does="do_plan", args=(Action.PURGE,)),
    KeyCommand("hold", ("h",), "hold", "hold: set aside, where no consumer takes it (opens a plan)", HOLDING, why.hold,
            dangerous=True, rank=3, group="change",
            also="pause park stop suspend", does="do_plan", args=(Action.HOLD,)),
    KeyCommand("release", ("l",), "release", "Aside: release what is held, back to new (opens a plan)", FROM_ASIDE, why.release,
            dangerous=True, rank=1, group="change",
            also="resume unpause", does="do_plan", args=(Action.RELEASE,)),
    KeyCommand("restore", ("u",), "restore", "Aside: restore, back to where it was (opens a plan)", FROM_ASIDE, why.restore,
            dangerous=True, rank=1, group="change",
            also="undelete put back", does="do_plan", args=(Action.RESTORE,)),
    KeyCommand("empty", ("E",), "empty", "Aside: empty the trash for good (opens a plan; count typed)", {View.ASIDE},
            why.empty, dangerous=True, rank=4, group="change",
            also="delete purge", does="open_plan", args=(Action.EMPTY, Selection(box=Box.TRASH, everything=True))),
    KeyCommand("empty-expired", ("X",), "delete expired",
            "Aside: delete expired messages from the trash for good (opens a plan; count typed)",
            {View.ASIDE}, why.empty_expired, dangerous=True, rank=3, group="change"),
    KeyCommand("set-cursor", ("e",), "set value", "Cursors: set a value (opens a form, then a plan)", SOURCES, why.set_cursor,
            dangerous=True, rank=1, group="change",
            also="edit change"),
    KeyCommand("unlock", ("d",), "remove", "Locks: remove a stale lock, or tickets of exited holders at the head (opens a plan)",
            UNLOCKING, why.unlock, dangerous=True, rank=1, group="change",
            also="delete remove"),
    KeyCommand("mute", ("m",), "mute", "Cursors: mute for an hour, or unmute", SOURCES, why.on_a_source, rank=2,
            group="change",
            also="silence ack snooze"),
    KeyCommand("inject", ("i",), "inject", "put test messages into new (opens a form, then a plan)", CHANGING, why.inject,
            dangerous=True, group="change",
            also="put add create test"),
    KeyCommand("pause", ("P",), "pause", "pause the spool: no spooltop consumer claims a message, until resumed (opens a plan)",
            ROOTS, why.pause, dangerous=True, group="change",
            also="stop suspend freeze halt", does="open_plan", args=(Action.PAUSE, Selection())),
    KeyCommand("resume", ("P",), "resume", "resume a paused spool (opens a plan)", ROOTS, why.resume, dangerous=True, rank=2,
            group="change",
            also="unpause continue start", does="open_plan", args=(Action.RESUME, Selection())),
    KeyCommand("operations", ("z",), "ops", "operations, newest first: undo one", ROOTS | OVER, rank=8, group="change",
            also="undo audit history log journal"),

    KeyCommand("mark", ("space",), "mark", "mark or unmark this one", LISTS, why.has_rows, rank=2, group="mark",
            also="select"),
    KeyCommand("mark-all", ("a",), "mark all", "mark all that match the filter", LISTS, why.has_rows, rank=2, group="mark",
            also="select"),
    KeyCommand("unmark-all", ("U",), "unmark all", "unmark all", LISTS, why.anything_marked, group="mark"),

    KeyCommand("filter", ("slash", "f3", "f4"), "filter",
            "filter as you type: text, !text, *.txt, age:>10m, src: id: pid: tries: verdict: error:; on the Overview: in New",
            ROOTS | OVER | {View.OPERATIONS},
            rank=7, also="search find grep where"),
    KeyCommand("filter-spools", ("slash", "f3", "f4"), "filter", "Spools: filter by path or problem: words, !words",
            {View.SPOOLS}, rank=3, also="search find grep where", does="do_filter"),
    KeyCommand("find", ("slash", "f3", "f4"), "find", "in a panel: go to the next line with a text",
            PANELS - {View.OPERATIONS},
            also="search"),
    KeyCommand("next-match", ("n",), "next match", "next match of the filter, or of the last one set", LISTS,
            why.searchable, does="do_next_match", args=(1,)),
    KeyCommand("previous-match", ("N",), "previous match", "previous match of the filter, or of the last one set", LISTS,
            why.searchable, does="do_next_match", args=(-1,)),
    KeyCommand("sort-menu", ("s", "f6"), "sort", "choose the column to sort by", SORTED, why.sortable,
            also="order by"),
    KeyCommand("choose-sort", ("enter",), "sort by it", "in the menu of columns: sort by the chosen one", {View.SORT},
            rank=1),
    KeyCommand("sort-left", ("less_than_sign", "left"), "sort left", "sort by the column to the left", SORTED,
            why.sortable, does="do_sort", args=(-1,)),
    KeyCommand("sort-right", ("greater_than_sign", "right"), "sort right", "sort by the column to the right", SORTED,
            why.sortable, does="do_sort", args=(1,)),
    KeyCommand("sort-invert", ("I",), "invert", "invert the order", SORTED, why.sortable),
    KeyCommand("problems", ("exclamation_mark",), "problems only",
            "problems only: all problems, dead claims, abandoned files, spools with problems",
            {View.OVERVIEW, View.CLAIMS, View.TMP, View.SPOOLS}, why.has_problem_rows,
            also="errors trouble"),
    KeyCommand("freeze", ("Z",), "freeze", "freeze or unfreeze the display", ROOTS | {View.SPOOLS},
            also="pause stop display"),
    KeyCommand("times", ("t",), "times", "ages, local time, UTC", ROOTS | OVER,
            also="utc local timezone"),
    KeyCommand("copy", ("y",), "copy", "copy the id, in a message its payload (OSC 52; the text is shown, too)",
            ROOTS | OVER, why.copyable,
            also="yank clipboard"),
    KeyCommand("copy-path", ("y",), "copy", "Spools: copy the path", {View.SPOOLS}, why.has_rows,
            also="yank clipboard"),
    KeyCommand("who", ("x",), "who has it", "who has the file open or locked", WITH_FILE, why.has_file, rank=6,
            also="lsof fuser holders"),
    KeyCommand("follow", ("F",), "follow", "follow this id through the boxes", LISTS | {View.MESSAGE, View.RESULT},
            why.followable,
            rank=6,
            also="track trace"),
    KeyCommand("ask-again", ("R", "f5"), "look again", "in the panel of holders: look again", {View.HOLDERS},
            rank=2),
    KeyCommand("copy-panel", ("y",), "copy", "in the panel of holders, or of a followed message: copy as text",
            {View.HOLDERS, View.FOLLOW}, rank=3),
    KeyCommand("save", ("S",), "save", "save the payload to a new file, redacted as it is shown (asks for its name)",
            LISTS | {View.MESSAGE}, why.followable,
            also="write export download file"),
    KeyCommand("which-key", ("delete", "f9"), "delete", "say which keys purge, requeue and hold here", ROOTS | OVER,
            why.which_key, group="change", also="kill end process signal"),
    KeyCommand("look-again", ("R", "f5"), "look again", "look again at everything", ROOTS | OVER | {View.SPOOLS},
            also="refresh reload rescan"),
    KeyCommand("redraw", ("ctrl+l",), "redraw", "draw the screen again", EVERYWHERE, also="refresh repaint clear"),

    KeyCommand("spools", ("0",), "Spools", "Spools: all of them, worst first, where several were given", GOES, why.among_spools,
            group="views", also="targets list all"),
    *(KeyCommand(view, (str(number),), label, help, GOES, why.has_view(view), group="views", also=also,
            does="do_show_aside" if view == "aside" else "do_show", args=() if view == "aside" else (View(view),))
      for number, (view, label, help, also) in enumerate(VIEWS, start=1)),
    KeyCommand("next-view", ("tab", "right_square_bracket"), "next view", "next view", GOES, group="views",
            does="do_show_next", args=(1,)),
    KeyCommand("previous-view", ("shift+tab", "left_square_bracket"), "previous view", "previous view", GOES,
            group="views", does="do_show_next", args=(-1,)),

    KeyCommand("help", ("question_mark", "f1"), "keys", "help: the keys of this view, and why one is not available",
            EVERYWHERE - {View.HELP, View.PALETTE, View.INJECT, View.SETTING, View.SAVING}, rank=8, group="views"),
    KeyCommand("palette", ("colon",), "actions", "all actions by name; :q quits", ROOTS | OVER | {View.SPOOLS}, group="views"),
    KeyCommand("suspend", ("ctrl+z",), "suspend", "back to the shell; fg comes back here", EVERYWHERE, group="views"),
    KeyCommand("quit", ("ctrl+c", "f10"), "quit", "quit", EVERYWHERE, group="views",
            also="exit close leave"),
)  # fmt: skip

GROUPS = {
    "move": "Move", "change": "Change (each opens a plan that Esc leaves)", "plan": "In a plan", "mark": "Mark", "look": "Look",
    "views": "Views and the rest",
}  # fmt: skip

COUNTED = frozenset({"requeue", "purge", "hold", "release", "restore"})
"""Commands whose label includes the number of messages that they act on."""

TABS = tuple(view for view, *_ in VIEWS)

VIEW_COMMANDS = frozenset({*TABS, "spools", "next-view", "previous-view"})
"""Commands that put another view in front."""

_BY_ID = {command.id: command for command in COMMANDS}


def by_id(id: str) -> KeyCommand:
    return _BY_ID[id]


def commands_in(view: View) -> list[KeyCommand]:
    """The commands of one view, in the order of the table."""
    return [command for command in COMMANDS if view in command.views]


def command_for(key: str, context: CommandContext) -> tuple[KeyCommand | None, str | None]:
    """Returns the command of a key in this context, and why it is not available, else None. The first available command wins;
    where none is available, the first one gives the reason."""
    refused: tuple[KeyCommand, str] | None = None
    for command in COMMANDS:
        if key in command.keys and context.view in command.views:
            reason = command.why_not(context)
            if reason is None:
                return command, None
            refused = refused or (command, reason)
    return refused if refused is not None else _elsewhere(key, context)


def _elsewhere(key: str, context: CommandContext) -> tuple[KeyCommand | None, str | None]:
    """A key that has a meaning in other views says in which."""
    if context.view is View.SPOOLS:
        found = next((one for one in COMMANDS if key in one.keys and one.views & ROOTS), None)
        return found, None if found is None else only_in(found, context)
    if context.view in ROOTS | OVER | TEXTS:
        for command in COMMANDS:
            if key in command.keys and (reason := only_in(command, context)):
                return command, reason
    return None, None


def only_in(command: KeyCommand, context: CommandContext) -> str | None:
    """Says in which views a command is found that this one does not have; None where no view has it."""
    places = [_BY_ID[view] for view in TABS if View(view) in command.views]
    if context.view is View.SPOOLS and places:
        return f"{command.label}: open a spool first, with Enter"
    if command.id == "save":
        return "save: open or choose a message first, in 2 New, 3 Claims, 4 Tmp or 7 Aside"
    there = [one for one in places if one.id not in context.absent] or places
    names = ", ".join(f"{one.key} {one.id.capitalize()}" for one in there)
    return f"{command.label}: only in {names}" if places else None


# The lists that are made of the table of commands: the footer, the tabs, the help and the palette.

def footer(context: CommandContext) -> list[tuple[str, str]]:
    """(key, label) of the commands that are available now, the most important first."""
    wanted = sorted((c for c in commands_in(context.view) if c.rank and c.why_not(context) is None), key=lambda c: c.rank)
    return [(command.key, label(command, context)) for command in wanted]


def label(command: KeyCommand, context: CommandContext) -> str:
    """The label of a command, with the number of items that it acts on."""
    count = context.target_count
    if command.id in COUNTED:
        if count == 1 and not context.marked:
            return f"{command.label} this 1" if command.rank == 1 else command.label
        return f"{command.label} {count:,}"
    if command.id == "empty-expired" and (expired := context.expired):
        return f"delete {expired:,} expired"
    if command.id == "mute" and context.muted:
        return "unmute"
    if command.id == "hold-poison" and context.plan is not None:
        return poison_words(context.plan)
    if command.id == "mark-all":
        return f"mark all {context.rows:,}"
    if command.id == "open" and context.view is View.LOCKS:
        return by_id("who").label
    if command.id == "open" and context.view is View.CONSUMERS:
        return "its claims"
    if command.id.startswith("confirm-") and context.plan is not None:
        return why.plan_words(context.plan)
    return command.label


def tabs(absent: Container[str] = ()) -> list[tuple[str, str, str]]:
    """(view, key, label) of the views that this kind of queue has, in their order."""
    return [(id, by_id(id).key, by_id(id).label) for id in TABS if id not in absent]


def help_entries(context: CommandContext) -> dict[str, list[tuple[str, str, str]]]:
    """(keys, help, why not) of the commands of this view, by the titles of their groups."""
    return {
        title: [
            (command.shown_keys, command.help, command.why_not(context) or "")
            for command in commands_in(context.view)
            if command.group == group
        ]
        for group, title in GROUPS.items()
    }


def palette(context: CommandContext, text: str) -> list[tuple[KeyCommand, str]]:
    """The commands of this view whose name or help contains all words of ``text``, each with the reason why it is not available
    (or ""). Commands of other views follow, which say where they are, if ``text`` names them."""
    words = text.lower().split()
    here = [
        (command, command.why_not(context) or "")
        for command in commands_in(context.view)
        if command.group != "move" and command.id != "palette"
        if all(word in f"{command.id} {command.label} {command.help} {command.also}".lower() for word in words)
    ]
    labels = {command.label for command in commands_in(context.view)}
    there = [
        (command, reason)
        for command in COMMANDS
        if words and context.view not in command.views and command.group != "move" and command.label not in labels
        if all(word in f"{command.id} {command.label} {command.also}".lower() for word in words)
        if (reason := only_in(command, context))
    ]
    return here + there
