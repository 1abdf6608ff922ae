"""Says why a command is not available, and what to do instead; None where it is available. Pure functions of a
``CommandContext``."""

from __future__ import annotations

from collections.abc import Callable

from spooltop.model import units
from spooltop.model.operations.plan import Plan
from spooltop.model.text import escape
from spooltop.model.vocabulary import Action, Box, Verdict
from spooltop.operate.operations import holds_poison, poison_words

from .context import CommandContext, View

READING = "the list is still being read"
WHOLE = (Action.PAUSE, Action.RESUME)
"""Actions on the spool as a whole: their plans have one item."""


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


def always(context: CommandContext) -> str | None:
    return None


def among_spools(context: CommandContext) -> str | None:
    return None if context.among_spools else "there is one spool only: give several paths, a glob in quotes, or the setting paths"


def which_key(context: CommandContext) -> str | None:
    return "d purges to the trash, r requeues, h holds; each opens a plan first. To end a process, use kill PID in a shell"


def _no_row(context: CommandContext) -> str:
    return READING if context.reading else "the list is empty"


def has_rows(context: CommandContext) -> str | None:
    return None if context.rows else _no_row(context)


def sortable(context: CommandContext) -> str | None:
    return None if context.rows > 1 else READING if context.reading else "there is nothing to sort"


def searchable(context: CommandContext) -> str | None:
    if reason := has_rows(context):
        return reason
    return None if context.filter or context.last_filter else "no filter was set yet: / sets one"


def anything_marked(context: CommandContext) -> str | None:
    return None if context.marked else "nothing is marked: Space marks"


def has_view(view: str) -> Callable[[CommandContext], str | None]:
    """Available where this kind of queue has the view."""
    return lambda context: context.absent.get(view)


def has_problem_rows(context: CommandContext) -> str | None:
    if context.view is View.OVERVIEW and context.snapshot is not None and not context.snapshot.problems:
        return "no problems detected so far"
    return None


def can_go_back(context: CommandContext) -> str | None:
    return None if context.depth else "there is nothing to go back to: q quits"


def at_the_top(context: CommandContext) -> str | None:
    return "Esc goes back first" if context.depth else None


def openable(context: CommandContext) -> str | None:
    if context.view is View.OVERVIEW:
        if context.problem is None:
            return "there are no problems to open; 2 shows what waits"
        return None if context.problem.selection or context.problem.view else "this problem has no list to open"
    if context.consumer is not None and context.consumer.exited:
        return "it has exited and holds no claim"
    return has_rows(context)


def copyable(context: CommandContext) -> str | None:
    if context.view is View.OVERVIEW:
        return None if context.problem is not None else "nothing is chosen"
    return None if context.rows or context.view in (View.MESSAGE, View.CURSOR) else f"nothing is chosen: {_no_row(context)}"


def requeue(context: CommandContext) -> str | None:
    if reason := _allowed(context, Action.REQUEUE) or _chosen(context, Action.REQUEUE):
        return reason
    if context.view is View.CONSUMERS:
        return _of_a_consumer(context)
    if context.target_box is Box.NEW and Box.NEW not in context.capabilities.boxes.get(Action.REQUEUE, ()):
        return "requeue: messages in new wait already; 3 shows the claims"
    if context.target_box is Box.TMP and Action.REQUEUE not in context.capabilities.boxes:
        return "requeue: a file in tmp is not a complete message; d purges it"
    if context.target_box is Box.TRASH:
        return "requeue: it is in the trash; u restores it"
    return _allowed_here(context, Action.REQUEUE)


def _of_a_consumer(context: CommandContext) -> str | None:
    """Only of those that run no more: a running one is asked to stop first, or its claims are taken one by one."""
    one = context.consumer
    if one is None or not one.claims:
        return "requeue: this consumer holds no claim"
    if one.verdict is Verdict.ALIVE:
        return "requeue: this consumer is running; Enter shows its claims"
    return _allowed_here(context, Action.REQUEUE)


def purge(context: CommandContext) -> str | None:
    if reason := _allowed(context, Action.PURGE):
        return reason
    if context.target_box is Box.TRASH:
        return "purge: it is in the trash already"
    return _chosen(context, Action.PURGE) or _allowed_here(context, Action.PURGE)


def hold(context: CommandContext) -> str | None:
    if reason := _allowed(context, Action.HOLD) or _chosen(context, Action.HOLD):
        return reason
    if context.target_box is Box.TMP and Action.HOLD not in context.capabilities.boxes:
        return "hold: a file in tmp is not a complete message; d purges it"
    if context.target_box is Box.HELD:
        return "hold: it is held already; l releases it"
    return "hold: it is set aside already" if context.aside else _allowed_here(context, Action.HOLD)


def release(context: CommandContext) -> str | None:
    if reason := _allowed(context, Action.RELEASE):
        return reason
    if context.target_box is not Box.HELD:
        elsewhere = {Box.REJECTED: "; r requeues rejected ones", Box.TRASH: "; u restores those in the trash"}
        return f"release: only held messages{elsewhere.get(context.target_box or Box.NEW, ', in 7 Aside')}"
    return _chosen(context, Action.RELEASE)


def restore(context: CommandContext) -> str | None:
    if reason := _allowed(context, Action.RESTORE):
        return reason
    if not context.aside:
        return "restore: only messages set aside, in 7 Aside"
    return _chosen(context, Action.RESTORE) or _allowed_here(context, Action.RESTORE)


def empty(context: CommandContext) -> str | None:
    if reason := _allowed(context, Action.EMPTY):
        return reason
    if context.target_box is not Box.TRASH:
        return "empty: only the trash can be emptied; 7 shows the next box"
    trash = context.snapshot.observation.boxes.get(Box.TRASH) if context.snapshot is not None else None
    return "empty: the trash is empty" if trash is not None and trash.count == 0 else None


def empty_expired(context: CommandContext) -> str | None:
    if reason := empty(context):
        return reason
    trash = context.trash
    if trash is None or trash.retention is None:
        return "delete expired: nothing ever expires, trash_retention is 0"
    return None if context.expired else f"delete expired: nothing has been in the trash for {units.duration(trash.retention)} yet"


def set_cursor(context: CommandContext) -> str | None:
    return _allowed(context, Action.SET_CURSOR) or on_a_source(context)


def unlock(context: CommandContext) -> str | None:
    """Only stale locks: a kernel lock ends with its holder, and a lock of a running holder is not taken away."""
    if reason := _allowed(context, Action.UNLOCK):
        return reason
    if context.view is View.OVERVIEW:
        about = context.problem is not None and context.problem.code in ("lock-stale", "ticket-orphan")
        return None if about else "remove: this line is not about a stale lock"
    lock = context.lock
    if lock is None:
        return "no lock file was found here"
    if lock.kind == "redis":
        return "remove: queues in Redis are read-only here"
    if lock.kind == "rw":
        return "remove: filelock itself evicts a holder of this lock whose heartbeat stays away"
    if lock.kind == "mkdir" or (lock.kind == "none" and lock.verdict == "unknown"):
        return f"remove: {lock.evidence}; if its holder has exited, remove it by hand"
    if lock.kind not in ("soft", "ticket"):
        return "remove: a kernel lock ends when its holder exits; without its file, two processes could hold it"
    if lock.verdict in ("held", "blocked"):
        return "remove: its holder is running; once that exits, the lock is stale"
    return "remove: nobody holds it" if lock.verdict == "free" else None


def pause(context: CommandContext) -> str | None:
    """Gives the reason for both commands on its key if neither is available."""
    if reason := _allowed(context, Action.RESUME if context.paused else Action.PAUSE):
        return reason
    return "pause: it is paused already" if context.paused else None


def resume(context: CommandContext) -> str | None:
    return _allowed(context, Action.RESUME) if context.paused else "resume: it is not paused"


def on_a_source(context: CommandContext) -> str | None:
    return None if context.cursor is not None else "no cursor was found here"


def has_file(context: CommandContext) -> str | None:
    """Holders are asked for a message, a lock or a cursor file."""
    claims = context.row is not None and context.row.box is Box.CUR
    if (reason := context.absent.get("files")) and not claims:
        return reason
    if context.view in (View.CURSORS, View.CURSOR):
        return on_a_source(context)
    if context.view is View.LOCKS:
        return None if context.lock is not None else "no lock file was found here"
    return None if context.row is not None else f"nothing is chosen: {_no_row(context)}"


def followable(context: CommandContext) -> str | None:
    if context.view is View.RESULT:
        return None if context.tracked else "none of its messages moves on by itself"
    return None if context.row is not None else f"nothing is chosen: {_no_row(context)}"


def inject(context: CommandContext) -> str | None:
    return _allowed(context, Action.INJECT)


def undo(context: CommandContext) -> str | None:
    if context.view is View.OPERATIONS and not context.rows:
        return READING if context.reading else "no operation has been done here yet"
    return _allowed(context, Action.UNDO) or (f"undo: {context.undoable}" if context.undoable else None)


def plan_there(context: CommandContext) -> str | None:
    if context.applying:
        return "the plan is being applied"
    return None if context.plan is not None else "the plan is being made"


def applying(context: CommandContext) -> str | None:
    return None if context.applying else "no plan is being applied"


def not_applying(context: CommandContext) -> str | None:
    return "the plan is being applied: Esc stops it" if context.applying else None


def confirmable(grammar: str) -> Callable[[CommandContext], str | None]:
    """Available where the plan in front is confirmed with this key (a ``Confirm``)."""

    def why_not(context: CommandContext) -> str | None:
        if reason := plan_there(context):
            return reason
        if context.plan is not None and not context.plan.count:
            return "there is nothing to do; Esc leaves"
        if context.early:
            return "the plan has only just been shown: read it, then confirm"
        if context.confirm != grammar:
            return {
                "y": f"press y to {_things(context)}",
                "Y": f"press Shift-Y to {_things(context)}",
                "number": f"type the number {context.plan.count if context.plan else ''} and Enter",
            }.get(context.confirm, "there is nothing to do; Esc leaves")
        return None

    return why_not


def forceable(context: CommandContext) -> str | None:
    if reason := plan_there(context):
        return reason
    if context.plan is not None and context.plan.force:
        return "force is on already"
    if context.plan is None or not any(refusal.forceable for refusal in context.plan.refused):
        return "no running consumer holds any of these"
    return None


def holdable(context: CommandContext) -> str | None:
    if reason := plan_there(context):
        return reason
    if context.plan is not None and context.plan.options.get("hold_poison"):
        return "messages that may kill their consumers are held already"
    if context.plan is None or context.plan.action is not Action.REQUEUE or not context.plan.poison:
        return "no consumer died often enough while processing one of these messages"
    return _allowed(context, Action.HOLD)


def rate_limitable(context: CommandContext) -> str | None:
    if reason := plan_there(context):
        return reason
    if context.plan is None or context.plan.count < 2:
        return "a rate limit needs at least 2 items"
    if context.plan.items and context.plan.items[0].words:
        return f"{context.plan.action}: has no rate limit"
    return None


def _things(context: CommandContext) -> str:
    return plan_words(context.plan) if context.plan is not None else "it"


def _allowed(context: CommandContext, action: Action) -> str | None:
    reason = context.capabilities.why_not(action)
    if reason and context.snapshot is not None and context.snapshot.observation.is_mail:
        reason = "this is a mail folder, where nothing is stuck; 1 Overview says how to open it as a job spool"
    command = own_command(context, action)
    return f"{action}: {reason}{': ' if command else ''}{command}" if reason else None


def _allowed_here(context: CommandContext, action: Action) -> str | None:
    """The reason where this kind of queue has the action, but not for the box in front."""
    reason = context.capabilities.why_not_from(action, context.target_box)
    return f"{action}: {reason}" if reason else None


def own_command(context: CommandContext, action: Action) -> str:
    """The command of the queue's own program for the chosen message, where only that program changes it; else empty."""
    return "" if context.row is None else context.capabilities.command(action, escape(context.row.id))


def _chosen(context: CommandContext, action: Action) -> str | None:
    if context.view is View.OVERVIEW:
        if context.problem is None:
            return f"{action}: choose a problem, or a message in 2, 3 or 4"
        if context.problem.selection is None:
            return f"{action}: this problem is not about messages; Enter shows its subject"
        return None
    if context.view is View.CONSUMERS:
        return None if context.consumer is not None else f"{action}: {_no_row(context)}"
    return None if context.marked or context.row is not None else f"{action}: {_no_row(context)}"
