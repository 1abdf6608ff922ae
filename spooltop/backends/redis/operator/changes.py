"""Changes of one message each, as a plan pins them and the journal holds them, and their inverses."""

from __future__ import annotations

from enum import StrEnum

from spooltop.model.text import escape, unescape
from spooltop.model.vocabulary import Json
from spooltop.patterns import pattern
from spooltop.records import dataclass

__all__ = ["LEAVES", "StreamChange", "StreamVerb", "decode_change", "encode_change", "inverse"]

_MOST = 1 << 53
_NOTES = pattern(r"[0-9]{1,9} ")


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


@dataclass(frozen=True, slots=True)
class StreamChange:
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
