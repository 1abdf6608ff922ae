"""The log of pauses, one JSON object a line; an operation sets or removes one file, so its lines have no step number.

intent  schema line operation action time user undoes before after
result  schema line operation time outcome reason

``before`` and ``after`` are the pause that the spool had and the one that it gets, an object with ``by``, ``at`` and ``reason``,
or null while it is not paused.
"""

from __future__ import annotations

from spooltop.model.look.observation import REASON_AT_MOST, Pause
from spooltop.model.text import escape, unescape
from spooltop.model.vocabulary import Action, Json
from spooltop.records import dataclass

from ...journal.item_operator import ItemIntent
from ...journal.record_log import Head, ItemOutcome, RecordType, encode, intent_head, is_time

__all__ = ["PAUSES", "PauseIntent"]


@dataclass(frozen=True, slots=True)
class PauseIntent(ItemIntent):
    """The intent to pause a spool or to resume it. None: not paused."""

    before: Pause | None
    after: Pause | None

    @property
    def words(self) -> str:
        """The change in words, in the list of operations."""
        if self.after is None:
            return f"resumed; it was paused{_reason(self.before)}"
        return f"paused{_reason(self.after)}"

    def encode(self) -> bytes:
        members: dict[str, Json] = {
            "action": str(self.action), "time": self.at, "user": escape(self.user), "undoes": self.undoes,
            "before": _as_json(self.before), "after": _as_json(self.after),
        }  # fmt: skip
        return encode("intent", self.operation, members)

    @classmethod
    def decode(cls, head: Head) -> PauseIntent:
        action, undoes = intent_head(head, Action.PAUSE, Action.RESUME, Action.UNDO)
        user = head.value.get("user")
        if not isinstance(user, str):
            raise ValueError("no user")
        before, after = (_from_json(head.value[name]) if name in head.value else None for name in ("before", "after"))
        return cls(head.operation, head.step, action, head.at, unescape(user), undoes, before, after)


PAUSES = RecordType("pauses", "the journal of pauses", "", PauseIntent.decode, ItemOutcome.decode)
"""The record type of the log of pauses."""


def _reason(pause: Pause | None) -> str:
    if pause is None:
        return ""
    by = f" by {escape(pause.by)}" if pause.by is not None else ""
    return by + (f": {escape(pause.reason)}" if pause.reason else "")


def _as_json(pause: Pause | None) -> Json:
    if pause is None:
        return None
    return {"by": None if pause.by is None else escape(pause.by), "at": pause.at, "reason": escape(pause.reason)}


def _from_json(value: object) -> Pause | None:
    """Raises ``ValueError``."""
    if value is None:
        return None
    if not isinstance(value, dict):
        raise ValueError("no pause")
    by, at, reason = value.get("by"), value.get("at"), value.get("reason")
    if not (by is None or isinstance(by, str)) or not is_time(at) or not isinstance(reason, str):
        raise ValueError("a field of the pause is missing")
    reason = unescape(reason)
    if len(reason) > REASON_AT_MOST:
        raise ValueError("a longer reason than any")
    return Pause(None if by is None else unescape(by), float(at), reason)
