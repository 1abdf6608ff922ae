"""Actions that are allowed on a target, and why the others are not."""

from __future__ import annotations

from collections.abc import Mapping

from spooltop.records import dataclass, field

from .vocabulary import Action, Box

__all__ = ["Capabilities", "command_for"]

_NO_MESSAGES = (Action.UNDO, Action.SET_CURSOR, Action.UNLOCK, Action.PAUSE, Action.RESUME)


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The reason for each action that is not available, in words that say what to do. An action that is not named is allowed.
    ``commands`` are those of the queue's own program that do what is not available here, with ``{id}`` for the message. ``boxes``
    are those that an action takes messages from; an action that is not named takes them from where it does in a spool."""

    refusals: Mapping[Action, str] = field(default_factory=dict)
    commands: Mapping[Action, str] = field(default_factory=dict)
    boxes: Mapping[Action, tuple[Box, ...]] = field(default_factory=dict)

    def why_not(self, action: Action) -> str | None:
        """Returns the reason why ``action`` is not available, or None if it is."""
        return self.refusals.get(action)

    def why_not_from(self, action: Action, box: Box | None) -> str | None:
        """Returns the reason why ``action`` does not take messages from ``box``, or None if it does."""
        reason, boxes = self.why_not(action), self.boxes.get(action, ())
        if reason is not None or not boxes or box is None or box in boxes:
            return reason
        return f"not possible for messages in {box} here, only in {', '.join(boxes)}"

    def replaced(self, action: Action, why: str | None) -> Capabilities:
        """Returns these with another reason for ``action``; None: it is available."""
        refusals = {one: reason for one, reason in self.refusals.items() if one is not action}
        return Capabilities(refusals if why is None else {**refusals, action: why}, self.commands, self.boxes)

    def command(self, action: Action, id: str) -> str:
        """Returns the command of the queue's own program for the message ``id``, quoted for a shell; empty where it has none, or
        the action is available here."""
        return command_for(self.commands.get(action, ""), id) if action in self.refusals else ""

    @property
    def change(self) -> bool:
        """True if at least one action that moves, makes or deletes messages is available."""
        return any(action not in self.refusals for action in Action if action not in _NO_MESSAGES)

    @staticmethod
    def nothing(reason: str, commands: Mapping[Action, str] | None = None) -> Capabilities:
        """Read-only, for one reason."""
        return Capabilities(dict.fromkeys(Action, reason), commands or {})


def command_for(template: str, id: str) -> str:
    """Fills the id into a command, quoted for a shell.

    >>> command_for("postsuper -d {id}", "3F2A1"), command_for("rm {id}", "a; b")
    ('postsuper -d 3F2A1', "rm 'a; b'")
    """
    import shlex  # only where somebody asks

    return template.replace("{id}", shlex.quote(id)) if template else ""
