"""Why a command is not available, in words that say what to do; None where it is. Pure: a Scene in, a reason out."""

from __future__ import annotations

from collections.abc import Callable

from spooltop.model import units
from spooltop.model.vocabulary import Action, Box

from .context import Scene, View
from .draw.plan import plan_words

__all__ = [
    "always", "anything_marked", "applying", "at_the_top", "can_go_back", "confirmable", "copyable", "empty", "empty_expired",
    "followable", "forceable", "has_file", "has_problem_rows", "has_rows", "hold", "holds_poison", "inject", "not_applying",
    "on_a_source", "openable", "paceable", "plan_there", "purge", "release", "requeue", "restore", "set_cursor", "sortable",
    "sought", "undo", "unlock", "which_key",
]  # fmt: skip


def always(scene: Scene) -> str | None:
    return None


def which_key(scene: Scene) -> str | None:
    return "d purges to the trash, r requeues, h holds; each opens a plan first. A process is ended by its own means: kill PID"


def has_rows(scene: Scene) -> str | None:
    return None if scene.rows else "the list is empty"


def sortable(scene: Scene) -> str | None:
    return None if scene.rows > 1 else "there is nothing to sort"


def sought(scene: Scene) -> str | None:
    if reason := has_rows(scene):
        return reason
    return None if scene.filter or scene.sought else "there is nothing to look for yet: / sets a filter"


def anything_marked(scene: Scene) -> str | None:
    return None if scene.marked else "nothing is marked: Space marks"


def has_problem_rows(scene: Scene) -> str | None:
    if scene.view is View.OVERVIEW and scene.snapshot is not None and not scene.snapshot.problems:
        return "there are no problems in what was seen"
    return None


def can_go_back(scene: Scene) -> str | None:
    return None if scene.depth else "there is nothing to go back to: q quits"


def at_the_top(scene: Scene) -> str | None:
    return "there is something to go back to" if scene.depth else None


def openable(scene: Scene) -> str | None:
    if scene.view is View.OVERVIEW:
        if scene.problem is None:
            return "there are no problems to open; 2 shows what waits"
        return None if scene.problem.selection or scene.problem.view else "this line has no list behind it"
    return has_rows(scene)


def copyable(scene: Scene) -> str | None:
    if scene.view is View.OVERVIEW:
        return None if scene.problem is not None else "nothing is chosen"
    return None if scene.rows or scene.view in (View.MESSAGE, View.CURSOR) else "nothing is chosen: the list is empty"


def requeue(scene: Scene) -> str | None:
    if reason := _allowed(scene, Action.REQUEUE):
        return reason
    if reason := _chosen(scene, Action.REQUEUE):
        return reason
    if scene.target_box is Box.NEW:
        return "requeue: what is in new waits already; claims are in 3"
    if scene.target_box is Box.TMP:
        return "requeue: a file in tmp is not a complete message; d purges it"
    if scene.target_box is Box.TRASH:
        return "requeue: take it out of the trash by undoing its operation (z)"
    return None


def purge(scene: Scene) -> str | None:
    if reason := _allowed(scene, Action.PURGE):
        return reason
    if scene.target_box is Box.TRASH:
        return "purge: it is in the trash already"
    return _chosen(scene, Action.PURGE)


def hold(scene: Scene) -> str | None:
    if reason := _allowed(scene, Action.HOLD):
        return reason
    if reason := _chosen(scene, Action.HOLD):
        return reason
    if scene.target_box is Box.TMP:
        return "hold: a file in tmp is not a complete message; d purges it"
    if scene.target_box is Box.HELD:
        return "hold: it is held already; l releases it"
    return "hold: it is set aside already" if scene.aside else None


def release(scene: Scene) -> str | None:
    if reason := _allowed(scene, Action.RELEASE):
        return reason
    if scene.target_box is not Box.HELD:
        elsewhere = {Box.REJECTED: "; r requeues what was rejected", Box.TRASH: "; u restores what is in the trash"}
        return f"release: only what is held{elsewhere.get(scene.target_box or Box.NEW, ', in 7 Aside')}"
    return _chosen(scene, Action.RELEASE)


def restore(scene: Scene) -> str | None:
    if reason := _allowed(scene, Action.RESTORE):
        return reason
    return _chosen(scene, Action.RESTORE) if scene.aside else "restore: only what is set aside, in 7 Aside"


def empty(scene: Scene) -> str | None:
    if reason := _allowed(scene, Action.EMPTY):
        return reason
    if scene.target_box is not Box.TRASH:
        return "empty: only the trash is emptied; 7 goes on to it"
    trash = scene.snapshot.sight.boxes.get(Box.TRASH) if scene.snapshot is not None else None
    return "empty: nothing is in the trash" if trash is not None and trash.count == 0 else None


def empty_expired(scene: Scene) -> str | None:
    if reason := empty(scene):
        return reason
    trash = scene.trash
    if trash is None or trash.retention is None:
        return "delete expired: nothing ever expires, trash_retention is 0"
    return None if scene.expired else f"delete expired: nothing is in the trash for {units.duration(trash.retention)} yet"


def set_cursor(scene: Scene) -> str | None:
    return _allowed(scene, Action.SET_CURSOR) or on_a_source(scene)


def unlock(scene: Scene) -> str | None:
    """Only what is stale: a kernel lock ends with its holder, and what lives is not taken."""
    if reason := _allowed(scene, Action.UNLOCK):
        return reason
    if scene.view is View.OVERVIEW:
        about = scene.problem is not None and scene.problem.code in ("lock-stale", "ticket-orphan")
        return None if about else "remove: this line is not about a stale lock"
    lock = scene.lock
    if lock is None:
        return "no lock file was found here"
    if lock.kind == "redis":
        return "remove: a queue in Redis is only looked at"
    if lock.kind == "mkdir" or (lock.kind == "none" and lock.verdict == "unknown"):
        return f"remove: {lock.evidence}; if its holder is gone, remove it by hand"
    if lock.kind not in ("soft", "ticket"):
        return "remove: a kernel lock ends with its holder and a mere file is not held; without the file two could hold it"
    if lock.verdict in ("held", "blocked"):
        return "remove: its holder lives; end that, and it turns stale"
    return "remove: nobody holds it" if lock.verdict == "free" else None


def on_a_source(scene: Scene) -> str | None:
    return None if scene.cursor is not None else "no cursor was found here"


def has_file(scene: Scene) -> str | None:
    """Who has it is asked of a message, a lock or a cursor file."""
    if scene.view in (View.CURSORS, View.CURSOR):
        return on_a_source(scene)
    if scene.view is View.LOCKS:
        return None if scene.lock is not None else "no lock file was found here"
    return None if scene.row is not None else "nothing is chosen: the list is empty"


def followable(scene: Scene) -> str | None:
    if scene.view is View.RESULT:
        return None if scene.followed else "nothing of it goes on by itself"
    return None if scene.row is not None else "nothing is chosen: the list is empty"


def inject(scene: Scene) -> str | None:
    return _allowed(scene, Action.INJECT)


def undo(scene: Scene) -> str | None:
    if scene.view is View.OPERATIONS and not scene.rows:
        return "nothing was done here yet"
    return _allowed(scene, Action.UNDO) or (f"undo: {scene.undoable}" if scene.undoable else None)


def plan_there(scene: Scene) -> str | None:
    if scene.applying:
        return "it is being done"
    return None if scene.plan is not None else "the plan is being made"


def applying(scene: Scene) -> str | None:
    return None if scene.applying else "nothing is being done"


def not_applying(scene: Scene) -> str | None:
    return "it is being done: Esc stops it" if scene.applying else None


def confirmable(grammar: str) -> Callable[[Scene], str | None]:
    """Available where the plan in front is confirmed just so."""

    def why_not(scene: Scene) -> str | None:
        if reason := plan_there(scene):
            return reason
        if scene.plan is not None and not scene.plan.count:
            return "there is nothing to do; Esc leaves"
        if scene.early:
            return "the plan has only just been shown: read it, then confirm"
        if scene.confirm != grammar:
            return {
                "y": f"y does {_things(scene)}",
                "Y": f"Y, in capitals, does {_things(scene)}",
                "number": f"type the number {scene.plan.count if scene.plan else ''} and Enter",
            }.get(scene.confirm, "there is nothing to do; Esc leaves")
        return None

    return why_not


def forceable(scene: Scene) -> str | None:
    if reason := plan_there(scene):
        return reason
    if scene.plan is not None and scene.plan.force:
        return "force is on already"
    if scene.plan is None or not any(refusal.forceable for refusal in scene.plan.refused):
        return "nothing here is held by a live consumer"
    return None


def holds_poison(scene: Scene) -> str | None:
    if reason := plan_there(scene):
        return reason
    if scene.plan is not None and scene.plan.options.get("hold_poison"):
        return "what may be what kills is held already"
    if scene.plan is None or scene.plan.action is not Action.REQUEUE or not scene.plan.poison:
        return "nothing here was in work at so many deaths that it should be held"
    return _allowed(scene, Action.HOLD)


def paceable(scene: Scene) -> str | None:
    if reason := plan_there(scene):
        return reason
    if scene.plan is None or scene.plan.count < 2:
        return "there are not many of them to do slowly"
    if scene.plan.items and scene.plan.items[0].words:
        return f"{scene.plan.action}: it is not done at a rate"
    return None


def _things(scene: Scene) -> str:
    return plan_words(scene.plan) if scene.plan is not None else "it"


def _allowed(scene: Scene, action: Action) -> str | None:
    reason = scene.capabilities.why_not(action)
    if reason and scene.snapshot is not None and scene.snapshot.sight.layout == "mail":
        reason = "this is a mail folder, nothing in it is stuck; 1 Overview says how to open it as a job spool"
    return f"{action}: {reason}" if reason else None


def _chosen(scene: Scene, action: Action) -> str | None:
    if scene.view is View.OVERVIEW:
        if scene.problem is None:
            return f"{action}: choose a line of trouble, or a message in 2, 3 or 4"
        if scene.problem.selection is None:
            return f"{action}: this line is not about messages; Enter shows what it is about"
        return None
    return None if scene.marked or scene.row is not None else f"{action}: the list is empty"
