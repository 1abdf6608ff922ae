"""Journal of a group: an intent line before each batch of changes, and a result line after it.

intent  schema line operation batch action time user undoes count changes reverses
result  schema line operation batch time outcomes

A change is ``[verb, id, box, to, consumer, tries, delivered, entry]``, and ``notes`` where it has some; an outcome is
``[outcome, reason, became]``. ``reverses`` are the places of the changes that an undo reverses, ``[batch, place]``.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from spooltop.model.operations.plan import Outcome
from spooltop.model.text import escape, unescape
from spooltop.model.vocabulary import Json
from spooltop.records import dataclass

from ...journal.record_log import Head, Intent, LoggedOperation, RecordType, encode, intent_head
from .changes import StreamChange, decode_change, encode_change

__all__ = ["BATCHES", "BatchIntent", "Changed", "LoggedChanges", "encode_result"]

_MOST = 1 << 32


class Changed(NamedTuple):
    """The outcome of one change. ``became`` is the id that the message has after it."""

    outcome: Outcome
    reason: str = ""
    became: str = ""


@dataclass(frozen=True, slots=True)
class BatchIntent(Intent):
    """The intent to make some changes in one step of the server. ``count`` are in the whole operation."""

    count: int
    changes: tuple[StreamChange, ...]
    reverses: tuple[tuple[int, int], ...] = ()

    def encode(self) -> bytes:
        members: dict[str, Json] = {
            "action": str(self.action), "batch": self.step, "time": self.at, "user": escape(self.user), "undoes": self.undoes,
            "count": self.count, "changes": [encode_change(one) for one in self.changes],
            "reverses": [list(place) for place in self.reverses],
        }  # fmt: skip
        return encode("intent", self.operation, members)

    @classmethod
    def decode(cls, head: Head) -> BatchIntent:
        action, undoes = intent_head(head)
        user, changes, reverses = (head.value.get(name) for name in ("user", "changes", "reverses"))
        if not isinstance(user, str) or not isinstance(changes, list) or not isinstance(reverses, list):
            raise ValueError("a member is missing")
        count = _number(head.value.get("count"))
        places = tuple(_place(one) for one in reverses)
        made = tuple(decode_change(one) for one in changes)
        return cls(head.operation, head.step, action, head.at, unescape(user), undoes, count, made, places)


def _number(value: object) -> int:
    if type(value) is not int or not 0 <= value < _MOST:
        raise ValueError("no number")
    return value


def _place(value: object) -> tuple[int, int]:
    if not isinstance(value, list) or len(value) != 2:
        raise ValueError("no place")
    return _number(value[0]), _number(value[1])


def encode_result(intent: BatchIntent, outcomes: tuple[Changed, ...], at: float) -> bytes:
    """The result line of the batch that ``intent`` announced."""
    told: list[Json] = [[one.outcome.value, escape(one.reason), escape(one.became)] for one in outcomes]
    return encode("result", intent.operation, {"batch": intent.step, "time": at, "outcomes": told})


def _outcomes(head: Head) -> tuple[Changed, ...]:
    told = head.value.get("outcomes")
    if not isinstance(told, list):
        raise ValueError("no outcomes")
    return tuple(_outcome(one) for one in told)


def _outcome(value: object) -> Changed:
    if not isinstance(value, list) or len(value) != 3 or not all(isinstance(word, str) for word in value):
        raise ValueError("no outcome")
    return Changed(Outcome(value[0]), unescape(value[1]), unescape(value[2]))


LoggedChanges: TypeAlias = "LoggedOperation[BatchIntent, tuple[Changed, ...]]"
"""All that the journal holds of one operation on a group."""

BATCHES: RecordType[BatchIntent, tuple[Changed, ...]] = RecordType(
    "messages", "the journal", "batch", BatchIntent.decode, _outcomes
)
"""The record type of the journal of a group."""
