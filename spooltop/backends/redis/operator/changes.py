"""Changes of one message each, as a plan pins them and the journal holds them, and their inverses."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from msgspec import Struct

from spooltop.model.operations.plan import Item, Outcome
from spooltop.model.text import escape, unescape
from spooltop.model.vocabulary import Json

from ...journal.record_log import Head, Intent, LoggedOperation, RecordType, encode, intent_head

_MOST = 1 << 53
_NOTES = re.compile(r"[0-9]{1,9} ")


class StreamVerb(StrEnum):
    """Kinds of changes. PENDING ones take a claim of the group, as it was pinned."""

    HAND = "hand"
    """Hands a claim over to ``~spooltop``, from where it is claimed again."""
    GIVE = "give"
    """Gives a claim that was handed over back to the consumer ``to``."""
    COPY = "copy"
    """Replaces a claim by a new entry, the last in order."""
    ASIDE = "aside"
    """Moves a claim into the stream of the box ``to``."""
    ASIDE_NEW = "aside-new"
    """Moves an entry that was never delivered into the stream of the box ``to``."""
    BACK = "back"
    """Gives a message that was set aside back to the group: its entry where that still stands, else a copy; also a copy with
    ``copy`` in ``to``."""
    MOVE = "move"
    """Moves a message from one side stream to another."""
    DROP = "drop"
    """Deletes a message that was set aside."""
    DROP_CLAIM = "drop-claim"
    """Deletes a claim and its message."""
    DROP_NEW = "drop-new"
    """Deletes an entry that was never delivered."""
    PUT = "put"
    """Adds an entry: ``data`` from ``source``."""
    PAUSE = "pause"
    """Writes the record of a pause, ``to``."""
    RESUME = "resume"
    """Removes the record of a pause, ``id``."""
    SET = "set"
    """Sets the last delivered id of the group ``consumer`` from ``id`` to ``to``."""

    __hash__ = str.__hash__


LEAVES = frozenset({StreamVerb.DROP, StreamVerb.DROP_CLAIM, StreamVerb.DROP_NEW, StreamVerb.COPY})
"""Changes without an inverse."""


class StreamChange(Struct, frozen=True):
    """A change of the message ``id`` in ``box``. A claim is pinned by its ``consumer``, its number of deliveries ``tries`` and
    when it was ``delivered`` (milliseconds by the clock of the server). ``data`` is that of PUT, or ``force`` for a copy that
    other groups get too; it is in no journal. ``entry`` is the id by which people know the message, where that is another.
    ``notes`` are the tries and the reason of a message that is set aside, ``10 no good``: BACK takes them away, and an undo of it
    writes them again. ``reverses`` is what an undo reverses, batch and place in it."""

    verb: StreamVerb
    id: str
    box: str = ""
    to: str = ""
    consumer: str = ""
    tries: int = 0
    delivered: int = 0
    data: bytes = b""
    entry: str = ""
    notes: str = ""
    reverses: tuple[int, int] | None = None

    @property
    def shown(self) -> str:
        """Id by which people know the message."""
        return self.entry or self.id


def change_of(item: Item) -> StreamChange:
    """Returns the change that an item of a plan pins."""
    if not isinstance(item.ref, StreamChange):
        raise TypeError(f"not a message that was pinned: {item.ref!r}")
    return item.ref


def inverse(change: StreamChange, became: str) -> StreamChange | None:
    """Returns the change that reverses ``change``, after which the message had the id ``became``; None where there is none."""
    verb, id = change.verb, change.id
    match verb:
        case StreamVerb.HAND:
            return StreamChange(StreamVerb.GIVE, id, "new", change.consumer, "~spooltop", change.tries, change.delivered)
        case StreamVerb.GIVE:
            return StreamChange(StreamVerb.HAND, id, "cur", "", change.to, change.tries, change.delivered)
        case StreamVerb.ASIDE | StreamVerb.ASIDE_NEW:
            return StreamChange(StreamVerb.BACK, became, change.to, tries=change.tries, entry=change.shown, notes=change.notes)
        case StreamVerb.BACK if became == change.entry:
            return StreamChange(StreamVerb.ASIDE, became, "new", change.box, "~spooltop", change.tries, -1, notes=change.notes)
        case StreamVerb.BACK:
            return StreamChange(
                StreamVerb.ASIDE_NEW, became, "new", change.box, tries=change.tries, entry=change.entry, notes=change.notes
            )
        case StreamVerb.MOVE:
            return StreamChange(StreamVerb.MOVE, became, change.to, change.box, entry=change.entry)
        case StreamVerb.PUT:
            return StreamChange(StreamVerb.ASIDE_NEW, became, "new", "trash")
        case StreamVerb.PAUSE:
            return StreamChange(StreamVerb.RESUME, change.to)
        case StreamVerb.RESUME:
            return StreamChange(StreamVerb.PAUSE, "", to=id)
        case StreamVerb.SET:
            return StreamChange(StreamVerb.SET, became, to=id, consumer=change.consumer)
        case _:
            return None


def encode_change(change: StreamChange) -> Json:
    """The change as an intent line holds it."""
    one = [change.verb.value, change.id, change.box, change.to, change.consumer, change.tries, change.delivered, change.entry]
    one += [change.notes] * bool(change.notes)
    return [escape(word) if isinstance(word, str) else word for word in one]


def decode_change(value: object) -> StreamChange:
    """Reads a change of an intent line. Raises ``ValueError``."""
    if not isinstance(value, list) or len(value) not in (8, 9):
        raise ValueError("no change")
    verb, id, box, to, consumer, tries, delivered, entry, notes = (*value, "")[:9]
    words = (verb, id, box, to, consumer, entry, notes)
    if not all(isinstance(word, str) for word in words):
        raise ValueError("a word is no text")
    if not all(type(number) is int and -1 <= number < _MOST for number in (tries, delivered)):
        raise ValueError("a pin is no number")
    verb, id, box, to, consumer, entry, notes = map(unescape, words)
    if notes and _NOTES.match(notes) is None:
        raise ValueError("no notes")
    return StreamChange(StreamVerb(verb), id, box, to, consumer, tries, delivered, entry=entry, notes=notes)


# Journal of a group: an intent line before each batch of changes, and a result line after it. intent schema line operation
# batch action time user undoes count changes reverses result schema line operation batch time outcomes A change is ``[verb, id,
# box, to, consumer, tries, delivered, entry]``, and ``notes`` where it has some; an outcome is ``[outcome, reason, became]``.
# ``reverses`` are the places of the changes that an undo reverses, ``[batch, place]``.

_MOST_ENTRIES = 1 << 32


class Changed(NamedTuple):
    """The outcome of one change. ``became`` is the id that the message has after it."""

    outcome: Outcome
    reason: str = ""
    became: str = ""


class BatchIntent(Intent, frozen=True):
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
    if type(value) is not int or not 0 <= value < _MOST_ENTRIES:
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
