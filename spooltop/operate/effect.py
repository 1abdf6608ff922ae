"""Words for what a plan will do: the first sentence before a plan is confirmed, for every kind of queue."""

from __future__ import annotations

from spooltop.model.operations.plan import Plan
from spooltop.model.vocabulary import Action

__all__ = ["effect_of", "holds_poison", "poison_words"]

_WHAT = {
    Action.REQUEUE: ("moves back to new with the same id; claimed next.",
                     "move back to new with the same ids, oldest first; claimed next."),
    Action.PURGE: ("moves to the trash.", "move to the trash."),
    Action.HOLD: ("is set aside into held, where no consumer takes it, until released.",
                  "are set aside into held, where no consumer takes them, until released."),
    Action.RELEASE: ("moves back to new with the same id.", "move back to new with the same ids."),
    Action.RESTORE: ("moves back to the box it came from; a claim moves to new.",
                     "move back to the boxes they came from; claims move to new."),
    Action.EMPTY: ("is deleted permanently.", "are deleted permanently."),
}  # fmt: skip

_WHATEVER = {
    Action.INJECT: "Test messages are put into new; running consumers claim them.",
    Action.UNDO: "Each message moves back to the box it was in, unless it was changed since.",
    Action.SET_CURSOR: "The value is set in its own section; nothing else in the file changes.",
    Action.UNLOCK: "Locks of exited holders are removed; undo restores them where the path is free.",
    Action.PAUSE: "Pauses the spool: consumers of spooltop claim nothing until it is resumed. Claims that are held end as usual; "
    "messages are still put.",
    Action.RESUME: "Resumes the spool: consumers claim again, the oldest message first.",
}

_UNDONE = {
    Action.INJECT: "Each waiting test message moves to the trash.",
    Action.SET_CURSOR: "The earlier value is set again, unless it was written since.",
    Action.UNLOCK: "The lock file is restored, if its path is free.",
    Action.PAUSE: "The spool is resumed, unless it was resumed or paused again since.",
    Action.RESUME: "The spool is paused again, with who paused it, when and why.",
}


def poison_words(plan: Plan) -> str:
    """``hold 1, requeue 3``: messages whose consumers died too often are held."""
    left = plan.count - plan.poison
    return f"hold {plan.poison:,}, requeue {left:,}" if left else f"hold {plan.poison:,}"


def holds_poison(plan: Plan) -> bool:
    return bool(plan.options.get("hold_poison")) and plan.poison > 0


def effect_of(plan: Plan) -> str:
    """Returns the effect on the messages, in a sentence: the operator's own, else the one that its boxes have anywhere."""
    if plan.effect:
        return plan.effect
    if plan.action is Action.UNDO and plan.undone in _UNDONE:
        return _UNDONE[plan.undone]
    if plan.action in _WHATEVER:
        return _WHATEVER[plan.action]
    if holds_poison(plan):
        held = "1 is" if plan.poison == 1 else f"{plan.poison:,} are"
        left = plan.count - plan.poison
        goes = f"; the other {left:,} {'moves' if left == 1 else 'move'} back to new, claimed next" if left else ""
        it = "it" if plan.poison == 1 else "them"
        return f"{held} set aside into held, where no consumer takes {it}, until released{goes}."
    one, many = _WHAT[Action.EMPTY if plan.options.get("now") else plan.action]
    return f"It {one}" if plan.count == 1 else f"They {many}"
