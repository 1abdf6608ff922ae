"""The table of commands, and the context that they are judged by, which knows nothing of drawing. Bindings, footer, help, palette
and the key tables come from the table and from nothing else.

A command has an id, its keys as the terminal's events name them, a label for the footer, one sentence of help, the views it
lives in, a function that says why it is not available now, and the name of its handler. The screen in front finds that handler:
``TableScreen.run_command`` among its methods. ``dangerous`` commands only ever open a plan; no key changes the spool by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Set
from enum import StrEnum
from functools import partial
from typing import TypeAlias

from msgspec import Struct

from spooltop.cursors.model import Cursor
from spooltop.model import BoxState, Capabilities, ConsumerRow, Plan, Problem, Selection, Snapshot, Sort
from spooltop.model.vocabulary import ASIDE, WHOLE, Action, Box, Frozen, Key, Lock, Row, Verdict, duration, escape
from spooltop.operate.operations import holds_poison, poison_words

from .messages import NOTHING_SEEN


class View(StrEnum):
    """The views and panels. SPOOLS lies below all others, where there are several targets. The next eight are reached by their
    number; the others lie on top of one of them."""

    SPOOLS = "spools"
    OVERVIEW = "overview"
    NEW = "new"
    CLAIMS = "claims"
    TMP = "tmp"
    CURSORS = "cursors"
    LOCKS = "locks"
    ASIDE = "aside"
    CONSUMERS = "consumers"
    MESSAGE = "message"
    CURSOR = "cursor"
    PLAN = "plan"
    RESULT = "result"
    OPERATIONS = "operations"
    OPERATION = "operation"
    HOLDERS = "holders"
    FOLLOW = "follow"
    SETTING = "setting"
    INJECT = "inject"
    SAVING = "saving"
    SORT = "sort"
    HELP = "help"
    PALETTE = "palette"


LISTS = frozenset({View.NEW, View.CLAIMS, View.TMP, View.ASIDE})
"""The views that list messages."""

BOX_OF = {View.NEW: Box.NEW, View.CLAIMS: Box.CUR, View.TMP: Box.TMP}


class ListState(Struct):
    """The choices of the user in one view. The cursor and the marks are kept by key, so that a refresh never moves the target."""

    box: Box | None = None
    """The box that is listed; None where the view lists no messages."""
    sort: Sort = Sort()
    filter: str = ""
    scope: Problem | ConsumerRow | None = None
    """The problem or consumer that the list was opened from, whose messages it shows."""
    problems_only: bool = False
    cursor: Key | None = None
    index: int = 0
    marks: dict[Key, None] = {}

    @property
    def selection(self) -> Selection | None:
        """The selection that limits the list in addition to the filter."""
        if self.scope is not None:
            return self.scope.selection
        if self.problems_only:
            return Selection(box=self.box, verdict=PROBLEM_VERDICTS[self.box]) if self.box in PROBLEM_VERDICTS else None
        return None


PROBLEM_VERDICTS = {Box.CUR: Verdict.DEAD, Box.TMP: Verdict.ABANDONED}
"""The verdict that "problems only" shows, by box."""


class CommandContext(Frozen):
    """The facts that the commands of the table are judged by.

    ``rows`` is the length of the list in front (messages, problems, sources, operations), ``depth`` the number of steps that
    lead back to the Overview. ``last_filter`` is the filter that was set last. ``plan`` is the plan in front; ``applying``
    while it is being applied, ``early`` while no key confirms it yet. ``undoable`` says why the chosen operation cannot be
    undone ("" where it can). ``tracked`` counts the messages that a result follows.
    """

    view: View
    snapshot: Snapshot = NOTHING_SEEN
    box: Box | None = None
    row: Row | None = None
    rows: int = 0
    marked: int = 0
    filter: str = ""
    last_filter: str = ""
    problem: Problem | None = None
    cursor: Cursor | None = None
    lock: Lock | None = None
    consumer: ConsumerRow | None = None
    plan: Plan | None = None
    applying: bool = False
    early: bool = False
    undoable: str = ""
    tracked: int = 0
    depth: int = 0
    among_spools: bool = True
    """True where the target was opened from the Spools view, or a panel does not know."""
    reading: bool = False
    """True where the list in front has not been read yet."""

    @property
    def capabilities(self) -> Capabilities:
        return self.snapshot.observation.capabilities

    @property
    def absent(self) -> Mapping[str, str]:
        """Views that this kind of queue does not have, and why."""
        return self.snapshot.observation.absent

    @property
    def paused(self) -> bool:
        """True where the spool is paused."""
        return self.snapshot.observation.paused is not None

    @property
    def target_box(self) -> Box | None:
        """The box that an operation would act on."""
        if self.view is View.OVERVIEW:
            return self.problem.box if self.problem is not None else None
        return Box.CUR if self.view is View.CONSUMERS else self.box

    @property
    def target_count(self) -> int:
        """The number of messages that an operation would act on."""
        if self.view is View.OVERVIEW:
            return self.problem.count if self.problem is not None else 0
        if self.view is View.CONSUMERS:
            return self.consumer.claims if self.consumer is not None else 0
        return self.marked or (1 if self.row is not None else 0)

    @property
    def muted(self) -> float | None:
        """The end of the mute of the chosen source, epoch seconds; None where it is not muted."""
        return self.snapshot.muted.get(self.cursor.source) if self.cursor is not None else None

    @property
    def trash(self) -> BoxState | None:
        return self.snapshot.observation.boxes.get(Box.TRASH)

    @property
    def expired(self) -> int:
        """The number of messages in the trash whose retention is over."""
        return self.trash.expired if self.trash is not None else 0


# The table of commands.

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


VIEWS = (
    ("overview", "Over", "Overview", ""), ("new", "New", "New: messages that wait", ""),
    ("claims", "Claims", "Claims: messages being processed, and whether their holders run", ""),
    ("tmp", "Tmp", "Tmp: messages being written", ""), ("cursors", "Cursors", "Cursors of the sources", ""),
    ("locks", "Locks", "Locks and who holds them", ""),
    ("aside", "Aside", "Aside: held, rejected, trash; again: the next box", ""),
    ("consumers", "Consumers", "Consumers: who works here, and what each of them holds", "workers processes busy"),
)  # fmt: skip
"""The views by number: id, label, help, and words by which the palette finds them."""

ROOTS = {View(view) for view, *_ in VIEWS}
PANELS = {View.OPERATIONS, View.OPERATION, View.HELP, View.PLAN, View.RESULT, View.HOLDERS, View.FOLLOW}
IN_PLAN, IN_MESSAGE = {View.PLAN}, {View.MESSAGE}
MOVING = ROOTS | PANELS | {View.MESSAGE, View.CURSOR, View.SPOOLS}
STEPPING = MOVING | {View.PALETTE, View.SORT}
OVER = {View.MESSAGE, View.CURSOR}
CHANGING = {View.OVERVIEW, View.MESSAGE} | LISTS
SORTED = LISTS | {View.CONSUMERS, View.SPOOLS}
HOLDING = {View.OVERVIEW, View.NEW, View.CLAIMS, View.MESSAGE}
FROM_ASIDE = {View.ASIDE, View.MESSAGE}
SOURCES = {View.CURSORS, View.CURSOR}
UNLOCKING = {View.LOCKS, View.OVERVIEW}
WITH_FILE = LISTS | SOURCES | {View.MESSAGE, View.LOCKS}
TEXTS = PANELS - {View.PLAN, View.RESULT}
"""Panels that change nothing and may be left with the key of a view."""
GOES = ROOTS | OVER | TEXTS
"""The views from which the key of a view leads to it."""
EVERYWHERE = set(View)


# The conditions: each says why a command is not available, and what to do instead. Pure functions of a ``CommandContext``.

Reason: TypeAlias = str | None
"""Why a command is not available; None where it is."""
Condition: TypeAlias = Callable[[CommandContext], Reason]

READING = "the list is still being read"
_ONE_SPOOL = "there is one spool only: give several paths, a glob in quotes, or the setting paths"
_WHICH_KEY = "d purges to the trash, r requeues, h holds; each opens a plan first. To end a process, use kill PID in a shell"


def plan_words(plan: Plan) -> str:
    """The effect of confirming: ``requeue 2``, ``delete 12 for good``."""
    if plan.action is Action.SET_CURSOR:
        return "set it"
    if plan.action is Action.UNLOCK:
        return f"remove {plan.count:,}"
    if plan.action in WHOLE:
        return f"{plan.action.value} it"
    if plan.deletes:
        return f"delete {plan.count:,} for good"
    return poison_words(plan) if holds_poison(plan) else f"{plan.action.value} {plan.count:,}"


def always(context: CommandContext) -> Reason:
    return None


def _no_row(context: CommandContext) -> str:
    return READING if context.reading else "the list is empty"


def has_rows(context: CommandContext) -> Reason:
    return None if context.rows else _no_row(context)


def sortable(context: CommandContext) -> Reason:
    return None if context.rows > 1 else READING if context.reading else "there is nothing to sort"


def searchable(context: CommandContext) -> Reason:
    if reason := has_rows(context):
        return reason
    return None if context.filter or context.last_filter else "no filter was set yet: / sets one"


def has_view(view: str) -> Condition:
    """Available where this kind of queue has the view."""
    return lambda context: context.absent.get(view)


def has_problem_rows(context: CommandContext) -> Reason:
    looked = context.view is View.OVERVIEW and context.snapshot is not NOTHING_SEEN
    return "no problems detected so far" if looked and not context.snapshot.problems else None


def openable(context: CommandContext) -> Reason:
    if context.view is View.OVERVIEW:
        if context.problem is None:
            return "there are no problems to open; 2 shows what waits"
        return None if context.problem.selection or context.problem.view else "this problem has no list to open"
    if context.consumer is not None and context.consumer.exited:
        return "it has exited and holds no claim"
    return has_rows(context)


def copyable(context: CommandContext) -> Reason:
    if context.view is View.OVERVIEW:
        return None if context.problem is not None else "nothing is chosen"
    return None if context.rows or context.view in (View.MESSAGE, View.CURSOR) else f"nothing is chosen: {_no_row(context)}"


def _acts(action: Action, *checks: Callable[[CommandContext, Action], Reason]) -> Condition:
    """Available where the queue has the action and none of ``checks`` has anything against it; the first reason counts."""
    return lambda context: next((reason for check in (_allowed, *checks) if (reason := check(context, action))), None)


_IN_VAIN: Mapping[tuple[Action, Box], str] = {
    (Action.REQUEUE, Box.TRASH): "it is in the trash; u restores it", (Action.PURGE, Box.TRASH): "it is in the trash already",
    (Action.HOLD, Box.HELD): "it is held already; l releases it",
    **{(Action.HOLD, box): "it is set aside already" for box in ASIDE if box is not Box.HELD},
}  # fmt: skip
"""Why an action is not for messages in a box, whatever kind of queue it is."""


def _of_this_box(context: CommandContext, action: Action) -> Reason:
    box = context.target_box
    if box is Box.TMP and action is not Action.PURGE and action not in context.capabilities.boxes:
        return f"{action}: a file in tmp is not a complete message; d purges it"
    reason = _IN_VAIN.get((action, box)) if box is not None else None
    return f"{action}: {reason}" if reason else None


def _given_back(context: CommandContext, action: Action) -> Reason:
    """Refuses consumers that still run: a running one is asked to stop first, or its claims are taken one by one."""
    if context.view is View.CONSUMERS:
        one = context.consumer
        if one is None or not one.claims:
            return "requeue: this consumer holds no claim"
        return "requeue: this consumer is running; Enter shows its claims" if one.verdict is Verdict.ALIVE else None
    waits = context.target_box is Box.NEW and Box.NEW not in context.capabilities.boxes.get(action, ())
    return "requeue: messages in new wait already; 3 shows the claims" if waits else None


def _held(context: CommandContext, action: Action) -> Reason:
    if context.target_box is Box.HELD:
        return None
    elsewhere = {Box.REJECTED: "; r requeues rejected ones", Box.TRASH: "; u restores those in the trash"}
    return f"release: only held messages{elsewhere.get(context.target_box or Box.NEW, ', in 7 Aside')}"


def _set_aside(context: CommandContext, action: Action) -> Reason:
    return None if context.target_box in ASIDE else "restore: only messages set aside, in 7 Aside"


def _trashed(context: CommandContext, action: Action) -> Reason:
    if context.target_box is not Box.TRASH:
        return "empty: only the trash can be emptied; 7 shows the next box"
    return "empty: the trash is empty" if context.trash is not None and context.trash.count == 0 else None


def _expired(context: CommandContext, action: Action) -> Reason:
    trash = context.trash
    if trash is None or trash.retention is None:
        return "delete expired: nothing ever expires, trash_retention is 0"
    return None if context.expired else f"delete expired: nothing has been in the trash for {duration(trash.retention)} yet"


def _stale(context: CommandContext, action: Action) -> Reason:
    """Only stale locks: a kernel lock ends with its holder, and a lock of a running holder is not taken away."""
    if context.view is View.OVERVIEW:
        about = context.problem is not None and context.problem.code in ("lock-stale", "ticket-orphan")
        return None if about else "remove: this line is not about a stale lock"
    lock = context.lock
    if lock is None:
        return "no lock file was found here"
    if lock.kind == "redis":
        return "remove: queues in Redis are read-only here"
    from spooltop.locks.operator import blocked_by  # with all that changes a spool: only where there is a lock

    why, forceable = blocked_by(lock, context.snapshot.taken_at, stale_after=0.0)
    return f"remove: {why}" if why and not forceable else None


def pause(context: CommandContext) -> Reason:
    """Gives the reason for both commands on its key if neither is available."""
    if reason := _allowed(context, Action.RESUME if context.paused else Action.PAUSE):
        return reason
    return "pause: it is paused already" if context.paused else None


def resume(context: CommandContext) -> Reason:
    return _allowed(context, Action.RESUME) if context.paused else "resume: it is not paused"


def on_a_source(context: CommandContext) -> Reason:
    return None if context.cursor is not None else "no cursor was found here"


def _row_chosen(context: CommandContext) -> Reason:
    return None if context.row is not None else f"nothing is chosen: {_no_row(context)}"


def has_file(context: CommandContext) -> Reason:
    """Holders are asked for a message, a lock or a cursor file."""
    claims = context.row is not None and context.row.box is Box.CUR
    if (reason := context.absent.get("files")) and not claims:
        return reason
    if context.view in (View.CURSORS, View.CURSOR):
        return on_a_source(context)
    if context.view is View.LOCKS:
        return None if context.lock is not None else "no lock file was found here"
    return _row_chosen(context)


def followable(context: CommandContext) -> Reason:
    if context.view is View.RESULT:
        return None if context.tracked else "none of its messages moves on by itself"
    return _row_chosen(context)


def undo(context: CommandContext) -> Reason:
    if context.view is View.OPERATIONS and not context.rows:
        return READING if context.reading else "no operation has been done here yet"
    return _allowed(context, Action.UNDO) or (f"undo: {context.undoable}" if context.undoable else None)


def _on_plan(check: Callable[[CommandContext, Plan], Reason]) -> Condition:
    """Available where a plan is in front that is not being applied, and ``check`` has nothing against it."""

    def why_not(context: CommandContext) -> Reason:
        if context.applying:
            return "the plan is being applied"
        return "the plan is being made" if context.plan is None else check(context, context.plan)

    return why_not


plan_there = _on_plan(lambda context, plan: None)


def confirmable(grammar: str) -> Condition:
    """Available where the plan in front is confirmed with this key (a ``Confirm``)."""

    @_on_plan
    def why_not(context: CommandContext, plan: Plan) -> Reason:
        if plan.count and context.early:
            return "the plan has only just been shown: read it, then confirm"
        if plan.count and plan.confirm == grammar:
            return None
        keys = {
            "y": f"press y to {plan_words(plan)}",
            "Y": f"press Shift-Y to {plan_words(plan)}",
            "number": f"type the number {plan.count} and Enter",
        }
        return keys.get(plan.confirm if plan.count else "", "there is nothing to do; Esc leaves")

    return why_not


@_on_plan
def forceable(context: CommandContext, plan: Plan) -> Reason:
    if plan.force:
        return "force is on already"
    return None if any(refusal.forceable for refusal in plan.refused) else "no running consumer holds any of these"


@_on_plan
def holdable(context: CommandContext, plan: Plan) -> Reason:
    if plan.options.get("hold_poison"):
        return "messages that may kill their consumers are held already"
    if plan.action is not Action.REQUEUE or not plan.poison:
        return "no consumer died often enough while processing one of these messages"
    return _allowed(context, Action.HOLD)


@_on_plan
def rate_limitable(context: CommandContext, plan: Plan) -> Reason:
    if plan.count < 2:
        return "a rate limit needs at least 2 items"
    return f"{plan.action}: has no rate limit" if plan.items and plan.items[0].words else None


def _allowed(context: CommandContext, action: Action) -> Reason:
    reason = context.capabilities.why_not(action)
    if reason and context.snapshot.observation.is_mail:
        reason = "this is a mail folder, where nothing is stuck; 1 Overview says how to open it as a job spool"
    command = own_command(context, action)
    return f"{action}: {reason}{': ' if command else ''}{command}" if reason else None


def _allowed_here(context: CommandContext, action: Action) -> Reason:
    """The reason where this kind of queue has the action, but not for the box in front."""
    reason = context.capabilities.why_not_from(action, context.target_box)
    return f"{action}: {reason}" if reason else None


def own_command(context: CommandContext, action: Action) -> str:
    """The command of the queue's own program for the chosen message, where only that program changes it; else empty."""
    return "" if context.row is None else context.capabilities.command(action, escape(context.row.id))


def _chosen(context: CommandContext, action: Action) -> Reason:
    if context.view is View.OVERVIEW:
        if context.problem is None:
            return f"{action}: choose a problem, or a message in 2, 3 or 4"
        if context.problem.selection is None:
            return f"{action}: this problem is not about messages; Enter shows its subject"
        return None
    if context.view is View.CONSUMERS:
        return None if context.consumer is not None else f"{action}: {_no_row(context)}"
    return None if context.marked or context.row is not None else f"{action}: {_no_row(context)}"


requeue = _acts(Action.REQUEUE, _chosen, _given_back, _of_this_box, _allowed_here)
purge = _acts(Action.PURGE, _of_this_box, _chosen, _allowed_here)
hold = _acts(Action.HOLD, _chosen, _of_this_box, _allowed_here)
release = _acts(Action.RELEASE, _held, _chosen)
restore = _acts(Action.RESTORE, _set_aside, _chosen, _allowed_here)
empty = _acts(Action.EMPTY, _trashed)
empty_expired = _acts(Action.EMPTY, _trashed, _expired)
set_cursor = _acts(Action.SET_CURSOR, lambda context, _: on_a_source(context))
unlock = _acts(Action.UNLOCK, _stale)
inject = _acts(Action.INJECT)


# The table.

class KeyCommand(Frozen):
    """A command and its keys. ``rank`` orders the footer; 0: not in the footer."""

    id: str
    bound: str
    """Its keys, with commas between them, as in Textual's ``Binding``."""
    label: str
    help: str
    views: Set[View]
    why_not: Condition = always
    dangerous: bool = False
    rank: int = 0
    also: str = ""
    """Words by which the palette finds it, in addition to its own."""
    does: tuple[object, ...] = ()
    """The name of its handler, where it differs from ``do_`` and the id, and the arguments that it gets."""
    group: str = ""

    @property
    def keys(self) -> list[str]:
        return self.bound.split(",")

    @property
    def handler(self) -> str:
        return str(self.does[0]) if self.does else f"do_{self.id.replace('-', '_')}"

    @property
    def key(self) -> str:
        """Its first key, as users call it."""
        return shown(self.keys[0])

    @property
    def shown_keys(self) -> str:
        return " ".join(shown(key) for key in self.keys)


_dangerous = partial(KeyCommand, dangerous=True)
_ALL = 10**9
"""More lines than there are."""

_TABLE: Mapping[str, tuple[KeyCommand, ...]] = {
    # The answers to a plan come first: nothing else may take these keys there.
    "plan": (
        _dangerous("confirm-small", "y,Y", "do it", "apply the plan (1 to 9 items)", IN_PLAN, confirmable("y"), rank=1,
                   does=("apply",)),
        _dangerous("confirm-large", "Y", "do it", "apply the plan (10 to 99 items)", IN_PLAN, confirmable("Y"), rank=1,
                   does=("apply",)),
        _dangerous("confirm-number", "enter", "do it", "apply the plan, after its count was typed", IN_PLAN,
                   confirmable("number"), rank=1),
        _dangerous("force", "f", "force", "in a plan: also take claims from running holders (count typed)", IN_PLAN,
                   forceable, rank=2),
        _dangerous("hold-poison", "h", "hold",
                   "in a plan: hold messages whose consumers died while processing them, requeue the others", IN_PLAN,
                   holdable, rank=2),
        KeyCommand("rate", "s", "rate limit", "in a plan: limit the rate (50/s, 1000/m); empty: no limit", IN_PLAN,
                   rate_limitable, rank=3),
        KeyCommand("copy-command", "c", "copy as command", "in a plan: copy the same action as a command", IN_PLAN,
                   plan_there, rank=3),
        KeyCommand("stop", "escape", "stop", "while a plan is applied: stop after the current item", IN_PLAN,
                   lambda context: None if context.applying else "no plan is being applied", rank=1),
        KeyCommand("cancel", "escape,q,backspace,ctrl+h", "Cancel", "leave the plan; nothing was changed", IN_PLAN,
                   lambda context: "the plan is being applied: Esc stops it" if context.applying else None, rank=1,
                   does=("dismiss",)),
        _dangerous("undo-result", "z", "undo", "undo what was just done", {View.RESULT}, undo, rank=2, does=("dismiss", True)),
        KeyCommand("copy-result", "c", "copy as text", "copy the result as text", {View.RESULT}, rank=3),
    ),
    "move": (
        KeyCommand("next-message", "j,n", "next message", "in an open message: the next one of the list", IN_MESSAGE,
                   rank=10, does=("do_step_message", 1)),
        KeyCommand("previous-message", "k,p,N", "previous message", "in an open message: the one before", IN_MESSAGE,
                   does=("do_step_message", -1)),
        KeyCommand("scroll-down", "down", "scroll", "in an open message: a line down", IN_MESSAGE, does=("do_step", 1)),
        KeyCommand("scroll-up", "up", "scroll back", "in an open message: a line up", IN_MESSAGE, does=("do_step", -1)),
        KeyCommand("move-down", "j,down", "down", "move down", STEPPING - IN_MESSAGE, does=("do_step", 1)),
        KeyCommand("move-up", "k,up", "up", "move up", STEPPING - IN_MESSAGE, does=("do_step", -1)),
        KeyCommand("page-down", "pagedown,ctrl+f", "page down", "a page down", STEPPING, does=("do_page", 1)),
        KeyCommand("page-up", "pageup,ctrl+b", "page up", "a page up", STEPPING, does=("do_page", -1)),
        KeyCommand("half-page-down", "ctrl+d", "half a page down", "half a page down", MOVING, does=("do_page", 0.5)),
        KeyCommand("half-page-up", "ctrl+u", "half a page up", "half a page up", MOVING, does=("do_page", -0.5)),
        KeyCommand("first", "home,g", "first", "to the first line", STEPPING, does=("do_step", -_ALL)),
        KeyCommand("last", "end,G", "last", "to the last line", STEPPING, does=("do_step", _ALL)),
        KeyCommand("open-operation", "enter", "open", "in the list of operations: what it did, and the command that undoes it",
                   {View.OPERATIONS}, has_rows, rank=1),
        KeyCommand("run", "enter", "run", "in the palette: run the chosen action", {View.PALETTE}, has_rows, rank=1),
        KeyCommand("open", "enter", "open",
                   "open: a problem's messages, a message, a source's history, a lock's holders, a consumer's claims", ROOTS,
                   openable, rank=5),
        KeyCommand("open-spool", "enter", "open", "Spools: open the whole dashboard of the chosen one; Esc comes back",
                   {View.SPOOLS}, has_rows, rank=1),
        KeyCommand("leave", "q", "quit", "quit, where there is nothing to go back to", {View.OVERVIEW, View.SPOOLS},
                   lambda context: "Esc goes back first" if context.depth else None,
                   rank=9, does=("do_quit",)),
        KeyCommand("back", "escape,q,backspace,ctrl+h", "back", "back; q at the top quits", EVERYWHERE - IN_PLAN,
                   lambda context: None if context.depth else "there is nothing to go back to: q quits", rank=9),
    ),
    "change": (
        _dangerous("undo", "z,u", "undo this one", "in the list of operations: undo the chosen one (opens a plan)",
                   {View.OPERATIONS, View.OPERATION}, undo, rank=2),
        KeyCommand("make", "enter", "plan it", "in the inject form: open the plan", {View.INJECT}, inject, rank=1),
        KeyCommand("set", "enter", "plan it", "in the cursor form: open the plan for the typed value", {View.SETTING},
                   set_cursor, rank=1),
        _dangerous("requeue", "r", "requeue", "requeue: move claims back to new (opens a plan)", CHANGING | {View.CONSUMERS},
                   requeue, rank=1, also="retry redrive redeliver again", does=("do_plan", Action.REQUEUE)),
        _dangerous("purge", "d", "purge", "purge to the trash (opens a plan)", CHANGING, purge, rank=3,
                   also="delete remove kill drop discard", does=("do_plan", Action.PURGE)),
        _dangerous("hold", "h", "hold", "hold: set aside, where no consumer takes it (opens a plan)", HOLDING, hold, rank=3,
                   also="pause park stop suspend", does=("do_plan", Action.HOLD)),
        _dangerous("release", "l", "release", "Aside: release what is held, back to new (opens a plan)", FROM_ASIDE, release,
                   rank=1, also="resume unpause", does=("do_plan", Action.RELEASE)),
        _dangerous("restore", "u", "restore", "Aside: restore, back to where it was (opens a plan)", FROM_ASIDE, restore,
                   rank=1, also="undelete put back", does=("do_plan", Action.RESTORE)),
        _dangerous("empty", "E", "empty", "Aside: empty the trash for good (opens a plan; count typed)", {View.ASIDE}, empty,
                   rank=4, also="delete purge",
                   does=("open_plan", Action.EMPTY, Selection(box=Box.TRASH, everything=True))),
        _dangerous("empty-expired", "X", "delete expired",
                   "Aside: delete expired messages from the trash for good (opens a plan; count typed)", {View.ASIDE},
                   empty_expired, rank=3),
        _dangerous("set-cursor", "e", "set value", "Cursors: set a value (opens a form, then a plan)", SOURCES, set_cursor,
                   rank=1, also="edit change"),
        _dangerous("unlock", "d", "remove",
                   "Locks: remove a stale lock, or tickets of exited holders at the head (opens a plan)", UNLOCKING, unlock,
                   rank=1, also="delete remove"),
        KeyCommand("mute", "m", "mute", "Cursors: mute for an hour, or unmute", SOURCES, on_a_source, rank=2,
                   also="silence ack snooze"),
        _dangerous("inject", "i", "inject", "put test messages into new (opens a form, then a plan)", CHANGING, inject,
                   also="put add create test"),
        _dangerous("pause", "P", "pause",
                   "pause the spool: no spooltop consumer claims a message, until resumed (opens a plan)", ROOTS, pause,
                   also="stop suspend freeze halt", does=("open_plan", Action.PAUSE, Selection())),
        _dangerous("resume", "P", "resume", "resume a paused spool (opens a plan)", ROOTS, resume, rank=2,
                   also="unpause continue start", does=("open_plan", Action.RESUME, Selection())),
        KeyCommand("operations", "z", "ops", "operations, newest first: undo one", ROOTS | OVER, rank=8,
                   also="undo audit history log journal"),
    ),
    "mark": (
        KeyCommand("mark", "space", "mark", "mark or unmark this one", LISTS, has_rows, rank=2, also="select"),
        KeyCommand("mark-all", "a", "mark all", "mark all that match the filter", LISTS, has_rows, rank=2, also="select"),
        KeyCommand("unmark-all", "U", "unmark all", "unmark all", LISTS,
                   lambda context: None if context.marked else "nothing is marked: Space marks"),
    ),
    "look": (
        KeyCommand("copy-operation", "c", "copy",
                   "in the list of operations: copy its id; in one of them the command that undoes it",
                   {View.OPERATIONS, View.OPERATION}, has_rows, rank=3),
        KeyCommand("save-now", "enter", "save", "in the form of a file name: save the payload", {View.SAVING}, rank=1),
        KeyCommand("filter", "slash,f3,f4", "filter",
                   "filter as you type: text, !text, *.txt, age:>10m, src: id: pid: tries: verdict: error:; on the Overview: "
                   "in New", ROOTS | OVER | {View.OPERATIONS}, rank=7, also="search find grep where"),
        KeyCommand("filter-spools", "slash,f3,f4", "filter", "Spools: filter by path or problem: words, !words", {View.SPOOLS},
                   rank=3, also="search find grep where", does=("do_filter",)),
        KeyCommand("find", "slash,f3,f4", "find", "in a panel: go to the next line with a text", PANELS - {View.OPERATIONS},
                   also="search"),
        KeyCommand("next-match", "n", "next match", "next match of the filter, or of the last one set", LISTS, searchable,
                   does=("do_next_match", 1)),
        KeyCommand("previous-match", "N", "previous match", "previous match of the filter, or of the last one set", LISTS,
                   searchable, does=("do_next_match", -1)),
        KeyCommand("sort-menu", "s,f6", "sort", "choose the column to sort by", SORTED, sortable, also="order by"),
        KeyCommand("choose-sort", "enter", "sort by it", "in the menu of columns: sort by the chosen one", {View.SORT}, rank=1),
        KeyCommand("sort-left", "less_than_sign,left", "sort left", "sort by the column to the left", SORTED, sortable,
                   does=("do_sort", -1)),
        KeyCommand("sort-right", "greater_than_sign,right", "sort right", "sort by the column to the right", SORTED, sortable,
                   does=("do_sort", 1)),
        KeyCommand("sort-invert", "I", "invert", "invert the order", SORTED, sortable),
        KeyCommand("problems", "exclamation_mark", "problems only",
                   "problems only: all problems, dead claims, abandoned files, spools with problems",
                   {View.OVERVIEW, View.CLAIMS, View.TMP, View.SPOOLS}, has_problem_rows, also="errors trouble"),
        KeyCommand("freeze", "Z", "freeze", "freeze or unfreeze the display", ROOTS | {View.SPOOLS}, also="pause stop display"),
        KeyCommand("times", "t", "times", "ages, local time, UTC", ROOTS | OVER, also="utc local timezone"),
        KeyCommand("copy", "y", "copy", "copy the id, in a message its payload (OSC 52; the text is shown, too)", ROOTS | OVER,
                   copyable, also="yank clipboard"),
        KeyCommand("copy-path", "y", "copy", "Spools: copy the path", {View.SPOOLS}, has_rows, also="yank clipboard"),
        KeyCommand("who", "x", "who has it", "who has the file open or locked", WITH_FILE, has_file, rank=6,
                   also="lsof fuser holders"),
        KeyCommand("follow", "F", "follow", "follow this id through the boxes", LISTS | {View.MESSAGE, View.RESULT}, followable,
                   rank=6, also="track trace"),
        KeyCommand("ask-again", "R,f5", "look again", "in the panel of holders: look again", {View.HOLDERS}, rank=2),
        KeyCommand("copy-panel", "y", "copy", "in the panel of holders, or of a followed message: copy as text",
                   {View.HOLDERS, View.FOLLOW}, rank=3),
        KeyCommand("save", "S", "save", "save the payload to a new file, redacted as it is shown (asks for its name)",
                   LISTS | IN_MESSAGE, followable, also="write export download file"),
        KeyCommand("which-key", "delete,f9", "delete", "say which keys purge, requeue and hold here", ROOTS | OVER,
                   lambda context: _WHICH_KEY,
                   also="kill end process signal", group="change"),
        KeyCommand("look-again", "R,f5", "look again", "look again at everything", ROOTS | OVER | {View.SPOOLS},
                   also="refresh reload rescan"),
        KeyCommand("redraw", "ctrl+l", "redraw", "draw the screen again", EVERYWHERE, also="refresh repaint clear"),
    ),
    "views": (
        KeyCommand("spools", "0", "Spools", "Spools: all of them, worst first, where several were given", GOES,
                   lambda context: None if context.among_spools else _ONE_SPOOL,
                   also="targets list all"),
        *(KeyCommand(view, str(number), label, help, GOES, has_view(view), also=also,
                     does=("do_show_aside",) if view == "aside" else ("do_show", View(view)))
          for number, (view, label, help, also) in enumerate(VIEWS, start=1)),
        KeyCommand("next-view", "tab,right_square_bracket", "next view", "next view", GOES, does=("do_show_next", 1)),
        KeyCommand("previous-view", "shift+tab,left_square_bracket", "previous view", "previous view", GOES,
                   does=("do_show_next", -1)),
        KeyCommand("help", "question_mark,f1", "keys", "help: the keys of this view, and why one is not available",
                   EVERYWHERE - {View.HELP, View.PALETTE, View.INJECT, View.SETTING, View.SAVING}, rank=8),
        KeyCommand("palette", "colon", "actions", "all actions by name; :q quits", ROOTS | OVER | {View.SPOOLS}),
        KeyCommand("suspend", "ctrl+z", "suspend", "back to the shell; fg comes back here", EVERYWHERE),
        KeyCommand("quit", "ctrl+c,f10", "quit", "quit", EVERYWHERE, also="exit close leave"),
    ),
}  # fmt: skip

"""The commands by group."""

COMMANDS = tuple(one.replace(group=one.group or group) for group, commands in _TABLE.items() for one in commands)
"""All commands: of those with the same key in a view the first one that is available gets it."""

GROUPS = {
    "move": "Move", "change": "Change (each opens a plan that Esc leaves)", "plan": "In a plan", "mark": "Mark", "look": "Look",
    "views": "Views and the rest",
}  # fmt: skip

TABS = tuple(view for view, *_ in VIEWS)

VIEW_COMMANDS = frozenset({*TABS, "spools", "next-view", "previous-view"})
"""Commands that put another view in front."""

_BY_ID = {command.id: command for command in COMMANDS}


def by_id(id: str) -> KeyCommand:
    return _BY_ID[id]


def commands_in(view: View) -> list[KeyCommand]:
    """The commands of one view, in the order of the table."""
    return [command for command in COMMANDS if view in command.views]


def command_for(key: str, context: CommandContext) -> tuple[KeyCommand | None, Reason]:
    """Returns the command of a key in this context, and why it is not available, else None. The first available command wins;
    where none is available, the first one gives the reason."""
    refused: tuple[KeyCommand, str] | None = None
    for command in COMMANDS:
        if key in command.keys and context.view in command.views:
            reason = command.why_not(context)
            if reason is None:
                return command, None
            refused = refused or (command, reason)
    if refused is None and context.view in GOES | {View.SPOOLS}:  # a key that has a meaning in other views says in which
        for command in COMMANDS:
            if key in command.keys and (reason := only_in(command, context)):
                return command, reason
    return refused or (None, None)


def only_in(command: KeyCommand, context: CommandContext) -> Reason:
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
    count, plan = context.target_count, context.plan
    match command.id:
        case "requeue" | "purge" | "hold" | "release" | "restore":
            if count == 1 and not context.marked:
                return f"{command.label} this 1" if command.rank == 1 else command.label
            return f"{command.label} {count:,}"
        case "empty-expired" if context.expired:
            return f"delete {context.expired:,} expired"
        case "mute" if context.muted:
            return "unmute"
        case "hold-poison" if plan is not None:
            return poison_words(plan)
        case "mark-all":
            return f"mark all {context.rows:,}"
        case "open" if context.view is View.LOCKS:
            return by_id("who").label
        case "open" if context.view is View.CONSUMERS:
            return "its claims"
        case "confirm-small" | "confirm-large" | "confirm-number" if plan is not None:
            return plan_words(plan)
    return command.label


def tabs(absent: Container[str] = ()) -> list[tuple[str, str, str]]:
    """(view, key, label) of the views that this kind of queue has, in their order."""
    return [(id, by_id(id).key, by_id(id).label) for id in TABS if id not in absent]


class HelpEntry(Frozen):
    """A line of help. ``why_not`` says why the command is not available now, "" where it is."""

    keys: str
    words: str
    why_not: str = ""


def help_entries(context: CommandContext) -> dict[str, list[HelpEntry]]:
    """The help of the commands of this view, by the titles of their groups."""
    found = commands_in(context.view)
    entries = {
        title: [HelpEntry(one.shown_keys, one.help, one.why_not(context) or "") for one in found if one.group == group]
        for group, title in GROUPS.items()
    }
    return {title: some for title, some in entries.items() if some}


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
