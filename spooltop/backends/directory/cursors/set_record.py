"""The log of cursors, one JSON object a line; an operation sets one cursor, so its lines have no step number.

intent  schema line operation action time user undoes file source had before after
result  schema line operation time outcome reason
"""

from __future__ import annotations

from spooltop.model.text import escape, unescape
from spooltop.model.vocabulary import Action, Json
from spooltop.records import dataclass

from ...journal.item_operator import ItemIntent
from ...journal.record_log import Head, ItemOutcome, RecordType, encode, intent_head

__all__ = ["CURSORS", "CursorSetIntent"]

_TEXTS = ("file", "source", "user")


@dataclass(frozen=True, slots=True)
class CursorSetIntent(ItemIntent):
    """The intent to set one cursor. ``had`` is False if the source had no section."""

    file: str
    source: str
    had: bool
    before: Json
    after: Json

    def encode(self) -> bytes:
        members: dict[str, Json] = {
            "action": str(self.action), "time": self.at, "user": escape(self.user), "undoes": self.undoes,
            "file": escape(self.file), "source": escape(self.source), "had": self.had, "before": self.before, "after": self.after,
        }  # fmt: skip
        return encode("intent", self.operation, members)

    @classmethod
    def decode(cls, head: Head) -> CursorSetIntent:
        action, undoes = intent_head(head, Action.SET_CURSOR, Action.UNDO)
        value = head.value
        if not all(isinstance(value.get(name), str) for name in _TEXTS) or not isinstance(value.get("had"), bool):
            raise ValueError("a field is missing")
        file, source, user = (unescape(value[name]) for name in _TEXTS)
        return cls(
            head.operation, head.step, action, head.at, user, undoes, file, source, value["had"], value.get("before"),
            value.get("after"),
        )  # fmt: skip


CURSORS = RecordType("cursors", "the journal of cursors", "", CursorSetIntent.decode, ItemOutcome.decode)
"""The record type of the log of cursors."""
