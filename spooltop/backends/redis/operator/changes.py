"""Changes of one message each, as a plan pins them and the journal holds them, and their inverses."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, NamedTuple, TypeAlias

from msgspec import Meta, Struct, convert
from msgspec.structs import replace

from spooltop.model.operations.plan import Item, Outcome

from ...journal.record_log import Intent, ItemOutcome, LoggedOperation, Number, RecordType, unescaped

_Pinned = Annotated[int, Meta(ge=-1, lt=1 << 53)]


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


class StreamChange(Struct, frozen=True, omit_defaults=True):
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
    tries: _Pinned = 0
    delivered: _Pinned = 0
    data: bytes = b""
    entry: str = ""
    notes: Annotated[str, Meta(pattern=r"\A(?:[0-9]{1,9} [\s\S]*)?\Z")] = ""
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


def journaled(change: StreamChange) -> StreamChange:
    """The change as an intent line holds it."""
    return replace(change, data=b"", reverses=None)


# Journal of a group: an intent line before each batch of changes, and a result line after it. intent schema line operation
# batch action time user undoes count changes reverses result schema line operation batch time outcomes A change has the members
# of ``StreamChange`` that are not empty; an outcome is ``[outcome, reason, became]``. ``reverses`` are the places of the changes
# that an undo reverses, ``[batch, place]``.


class Changed(NamedTuple):
    """The outcome of one change. ``became`` is the id that the message has after it."""

    outcome: Outcome
    reason: str = ""
    became: str = ""


class BatchIntent(Intent, frozen=True):
    """The intent to make some changes in one step of the server. The step is the place of the first."""

    changes: tuple[StreamChange, ...]
    reverses: tuple[tuple[Number, Number], ...] = ()

    def journaled(self) -> BatchIntent:
        """The intent as its line holds it."""
        return replace(self, changes=tuple(map(journaled, self.changes)))


class BatchChanged(Struct, frozen=True):
    """The ``outcomes`` of the changes of a batch."""

    outcomes: tuple[Changed, ...]

    @property
    def changed(self) -> bool:
        """True if one of them was made."""
        return any(one.outcome is Outcome.DONE for one in self.outcomes)


    def each(self) -> Iterator[ItemOutcome]:
        return (ItemOutcome(one.outcome, one.reason) for one in self.outcomes)


LoggedChanges: TypeAlias = "LoggedOperation[BatchIntent, BatchChanged]"
"""All that the journal holds of one operation on a group."""

BATCHES = RecordType(
    "messages", "the journal", "first", lambda value: convert(unescaped(value), BatchIntent).journaled(),
    lambda value: convert(unescaped(value), BatchChanged),
    lambda intent: ((change.shown, change.shown, "") for change in intent.changes),
)  # fmt: skip
"""The record type of the journal of a group."""
