"""The record of one message whose change is about to begin, as the journal of a queue holds it."""

from __future__ import annotations

from collections.abc import Mapping

from spooltop.model.text import escape, unescape
from spooltop.model.vocabulary import Json
from spooltop.records import dataclass

from ...journal.item_operator import ItemIntent
from ...journal.record_log import Head, ItemOutcome, RecordType, encode, intent_head
from ..queue_dirs import is_location
from .changes import FileChange, Pin, decode_changes, decode_pins, encode_changes, encode_pins

__all__ = ["MESSAGES", "MessageIntent"]

_MOST = 1 << 32


@dataclass(frozen=True, slots=True)
class MessageIntent(ItemIntent):
    """The intent to change one message. ``count`` messages are in the whole operation; ``id`` is that of the message, and
    ``message`` its location before the first change. ``reverses`` is the step of the operation ``undoes`` that it reverses."""

    count: int
    id: str
    message: str
    changes: tuple[FileChange, ...]
    pins: Mapping[str, Pin]
    reverses: int | None = None

    def encode(self) -> bytes:
        members: dict[str, Json] = {
            "action": str(self.action), "item": self.step, "time": self.at, "user": escape(self.user), "undoes": self.undoes,
            "count": self.count, "id": escape(self.id), "message": escape(self.message), "changes": encode_changes(self.changes),
            "pins": encode_pins(self.pins), "reverses": self.reverses,
        }  # fmt: skip
        return encode("intent", self.operation, members)

    @classmethod
    def decode(cls, head: Head) -> MessageIntent:
        action, undoes = intent_head(head)
        value = head.value
        user, id, message = (unescape(_text(value, key)) for key in ("user", "id", "message"))
        if not is_location(message):
            raise ValueError("the message lies outside")
        reverses = None if value.get("reverses") is None else _number(value, "reverses")
        return cls(
            head.operation, head.step, action, head.at, user, undoes, _number(value, "count"), id, message,
            decode_changes(value.get("changes")), decode_pins(value.get("pins")), reverses,
        )  # fmt: skip


def _text(value: Mapping[str, object], key: str) -> str:
    found = value.get(key)
    if not isinstance(found, str):
        raise ValueError(f"{key} is no text")
    return found


def _number(value: Mapping[str, object], key: str) -> int:
    found = value.get(key)
    if type(found) is not int or not 0 <= found < _MOST:
        raise ValueError(f"{key} is no number")
    return found


MESSAGES = RecordType("messages", "the journal", "item", MessageIntent.decode, ItemOutcome.decode)
"""The record type of the journal of another program's queue."""
