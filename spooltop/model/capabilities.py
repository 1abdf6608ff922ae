"""Actions that are allowed on a target, and why the others are not."""

from __future__ import annotations

from collections.abc import Mapping

from spooltop.records import dataclass, field

from .vocabulary import Action

__all__ = ["Capabilities"]

_NO_MESSAGES = (Action.UNDO, Action.SET_CURSOR, Action.UNLOCK, Action.PAUSE, Action.RESUME)


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The reason for each action that is not available, in words that say what to do. An action that is not named is allowed."""

    refusals: Mapping[Action, str] = field(default_factory=dict)

    def why_not(self, action: Action) -> str | None:
        """Returns the reason why ``action`` is not available, or None if it is."""
        return self.refusals.get(action)

    def replaced(self, action: Action, why: str | None) -> Capabilities:
        """Returns these with another reason for ``action``; None: it is available."""
        refusals = {one: reason for one, reason in self.refusals.items() if one is not action}
        return Capabilities(refusals if why is None else {**refusals, action: why})

    @property
    def change(self) -> bool:
        """True if at least one action that moves, makes or deletes messages is available."""
        return any(action not in self.refusals for action in Action if action not in _NO_MESSAGES)

    @staticmethod
    def nothing(reason: str) -> Capabilities:
        """Read-only, for one reason."""
        return Capabilities(dict.fromkeys(Action, reason))
