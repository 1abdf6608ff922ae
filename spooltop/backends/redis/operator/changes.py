"""Changes of one message each, as a plan pins them and the journal holds them; and the connection that makes them on a server,
bounded in time and in bytes, with errors in one clear line."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Annotated, NamedTuple, TypeAlias

from msgspec import Meta
from msgspec.structs import replace
from redis.exceptions import RedisError

from spooltop.errors import AnswerLost, Refused, SpooltopError, Unavailable, Unreadable
from spooltop.model import Action, Box, Capabilities, Frozen, Item, Outcome

from ...journal.record_log import Intent, ItemOutcome, LoggedOperation, Number, RecordType, Told
from ..client import Endpoint, ErrorReply, Nonsense, RedisClient, Reply, error_of, list_of, text_of, trouble_of
from ..stream_names import StreamNames
from . import scripts

_Pinned = Annotated[int, Meta(ge=-1, lt=1 << 53)]


class StreamVerb(StrEnum):
    """Kinds of changes.

    ``HAND`` hands a claim over to ``~spooltop``, from where it is claimed again; ``GIVE`` gives one that was handed over back to
    the consumer ``to``; ``COPY`` replaces a claim by a new entry, the last in order. ``ASIDE`` moves a claim, and ``ASIDE_NEW``
    an entry that was never delivered, into the stream of the box ``to``. ``BACK`` gives a message that was set aside back to the
    group: its entry where that still stands, else a copy; also a copy with ``copy`` in ``to``. ``MOVE`` moves a message from one
    side stream to another. ``DROP`` deletes a message that was set aside, ``DROP_CLAIM`` a claim and its message, ``DROP_NEW`` an
    entry that was never delivered. ``PUT`` adds an entry: ``data`` from the source ``consumer``. ``PAUSE`` writes the record of a
    pause, ``to``, and ``RESUME`` removes one, ``id``. ``SET`` sets the last delivered id of the group ``consumer`` from ``id`` to
    ``to``.
    """

    HAND = "hand"
    GIVE = "give"
    COPY = "copy"
    ASIDE = "aside"
    ASIDE_NEW = "aside-new"
    BACK = "back"
    MOVE = "move"
    DROP = "drop"
    DROP_CLAIM = "drop-claim"
    DROP_NEW = "drop-new"
    PUT = "put"
    PAUSE = "pause"
    RESUME = "resume"
    SET = "set"

    __hash__ = str.__hash__


LEAVES = frozenset({StreamVerb.DROP, StreamVerb.DROP_CLAIM, StreamVerb.DROP_NEW, StreamVerb.COPY})
"""Changes without an inverse."""


class StreamChange(Frozen, omit_defaults=True):
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


class BatchIntent(Intent):
    """The intent to make some changes in one step of the server. The step is the place of the first."""

    changes: tuple[StreamChange, ...]
    reverses: tuple[tuple[Number, Number], ...] = ()

    def told(self) -> Iterator[Told]:
        return ((change.shown, change.shown, "") for change in self.changes)

    def checked(self) -> BatchIntent:
        """The intent as its line holds it."""
        return replace(self, changes=tuple(map(journaled, self.changes)))


class BatchChanged(Frozen):
    """The ``outcomes`` of the changes of a batch."""

    outcomes: tuple[Changed, ...]

    def each(self) -> Iterator[ItemOutcome]:
        return (ItemOutcome(one.outcome, one.reason) for one in self.outcomes)


LoggedChanges: TypeAlias = "LoggedOperation[BatchIntent, BatchChanged]"
"""All that the journal holds of one operation on a group."""

BATCHES = RecordType("messages", "the journal", "first", BatchIntent, BatchChanged)
"""The record type of the journal of a group."""


# Connection of an operator to its server.

Word: TypeAlias = "str | bytes | int"

_SECONDS = 5.0
_BYTES = 256 << 20
_PAUSES = (0.0, 0.1, 0.4, 1.0, 2.0)
"""Seconds before each time that a step is sent, which is safe to repeat."""


class OperatorConnection:
    """Server of one group, connected with the first command. ``address`` names the group in errors, without a password."""

    def __init__(self, endpoint: Endpoint, address: str, names: StreamNames) -> None:
        self._client = RedisClient(endpoint)
        self.address = address
        self.names = names

    def ask(self, what: str, *commands: Sequence[Word]) -> list[Reply]:
        """Returns the answers to these commands. Raises ``Unavailable`` (``answer_lost``: they may have been done), ``Refused``,
        ``SpoolFull``, ``Unreadable``, about the step ``what``; also for an error among the answers."""
        replies = self.try_all(what, *commands)
        for reply in replies:
            if isinstance(reply, ErrorReply):
                error = error_of(reply, self.address, what)
                if self._client.sent_before:  # it may have been done then, whatever the server says now
                    raise AnswerLost(error.what, path=self.address, advice=error.advice)
                raise error
        return replies

    def try_all(self, what: str, *commands: Sequence[Word]) -> list[Reply]:
        """Returns the answers, with the errors among them. Raises as ``ask`` does for what is no answer. All commands here are
        safe to repeat."""
        client = self._client
        client.begin(_SECONDS, _BYTES)
        try:
            return client.ask(*commands)
        except (RedisError, Nonsense) as error:
            raise error_of(error, self.address, what, answer_lost=client.sent_before or client.sent) from None

    def run(self, what: str, script: str, keys: Sequence[Word], words: Sequence[Word]) -> Reply:
        """Runs a script, which is sent whole: nobody can have flushed it. Raises as ``ask`` does."""
        return self.ask(what, ("EVAL", script, len(keys), *keys, *words))[0]

    def run_again(self, what: str, script: str, keys: Sequence[Word], words: Sequence[Word]) -> Reply:
        """Runs a script that is safe to repeat, several times where the answer is lost. Raises as ``ask`` does."""
        lost: Unavailable | None = None
        for pause in _PAUSES:
            if lost is not None:
                time.sleep(pause)
            try:
                return self.run(what, script, keys, words)
            except SpooltopError as error:
                if not isinstance(error, Unavailable) or not (error.answer_lost or lost is not None):
                    if lost is None:
                        raise
                    raise _unknown(error, lost) from None
                lost = error if lost is None else _unknown(error, lost)
        assert lost is not None  # else it has returned or raised
        raise lost

    def close(self) -> None:
        self._client.close()


def _unknown(error: SpooltopError, lost: Unavailable) -> Unavailable:
    """The error of a command that was sent before without an answer, and now fails for another reason."""
    return AnswerLost(error.what, path=lost.path, advice=error.advice)


# Actions that a user of the server may do, found out without changing anything.

SOURCES: Mapping[Action, tuple[Box, ...]] = {
    Action.REQUEUE: (Box.CUR, Box.REJECTED, Box.HELD, Box.NEW),
    Action.PURGE: (Box.CUR, Box.NEW, Box.REJECTED, Box.HELD),
    Action.HOLD: (Box.CUR, Box.NEW),
    Action.RELEASE: (Box.HELD,),
    Action.RESTORE: (Box.TRASH, Box.HELD, Box.REJECTED),
    Action.EMPTY: (Box.TRASH,),
}
"""Boxes that each action takes from. Undo is not among them: it reverses what the journal says."""

_DENIED = """
-- KEYS stream; ARGV group. Returns the commands that this user may not send, without trying one: the server logs what it refuses.
local denied = {}
for _, words in ipairs({{'XACK', KEYS[1], ARGV[1], '0-0'}, {'XDEL', KEYS[1], '0-0'}, {'EVAL', 'return 1', '0'}, {'ROLE'}}) do
  if not redis.acl_check_cmd(unpack(words)) then denied[#denied + 1] = words[1] end
end
return denied
"""
_NO_LOCKS = "a stream has no locks"
_REPLICA = "the server is a replica: it is changed on its master"


def can_change(server: OperatorConnection) -> Capabilities:
    """Returns what may be done to a group. The commands that it tries name the id 0-0, which no entry has. Raises
    ``Unavailable``."""
    names = server.names
    probes = {
        ("XACK", names.stream, names.group, "0-0"): "acknowledge messages",
        ("XDEL", names.stream, "0-0"): "delete messages",
        ("EVAL", "return 1", "0"): "run scripts",
    }
    refusals = {probe[0]: f"this user of the server may not {what} ({probe[0]})" for probe, what in probes.items()}
    try:
        denied = _denied(server)
        if "ROLE" not in denied:
            check_master(server)
        if (first := next((refusals[command] for command in refusals if command in denied), None)) is not None:
            return Capabilities.nothing(first)
        for refused, reply in zip(refusals.values(), server.try_all("look", *probes), strict=True):
            if isinstance(reply, ErrorReply):
                if str(reply).startswith(("READONLY", "NOPERM")):
                    return Capabilities.nothing(_REPLICA if str(reply).startswith("READONLY") else refused)
                trouble = trouble_of(reply)
                if isinstance(trouble, Unavailable):
                    raise error_of(reply, server.address, "look")
                return Capabilities.nothing(str(trouble))
    except Refused as error:
        advice = f"; {error.advice}" if error.advice else ""
        return Capabilities.nothing(f"{error.what.removeprefix('look: ')}{advice}")
    return Capabilities({Action.UNLOCK: _NO_LOCKS}, boxes=SOURCES)


def _denied(server: OperatorConnection) -> frozenset[str]:
    """Returns which of the commands below this user may not send; none where the server does not tell (before 7.0)."""
    (reply,) = server.try_all("look", ("EVAL_RO", _DENIED, 1, server.names.stream, server.names.group))
    return frozenset() if isinstance(reply, ErrorReply) else frozenset(map(text_of, list_of(reply)))


def check_master(server: OperatorConnection) -> None:
    """Raises ``Refused`` on a replica, ``Unavailable``. Where this user may not ask, the change itself finds out."""
    try:
        (reply,) = server.try_all("look", ("ROLE",))
    except Unavailable:
        raise
    except SpooltopError:
        return
    if not isinstance(reply, ErrorReply) and text_of(list_of(reply)[0]) != "master":
        advice = "open its master instead"
        raise Refused(_REPLICA, path=server.address, advice=advice)


# Sends a batch of changes to the server, as one step; finds out what it did where its answer was lost.

_NOT_DONE = Changed(Outcome.SKIPPED, "cut short before anything was changed")
_REMEMBERED = 3600
"""Seconds for which the last step of an operation that ended is remembered: a copy of it may still be on its way."""


class StepSender(OperatorConnection):
    """Makes changes in the group."""

    def perform(self, intent: BatchIntent) -> tuple[Changed, ...]:
        """Makes the changes of a batch. A step that is sent twice is done once. Raises ``Unavailable`` with ``answer_lost`` where
        it is not known if it was done; after any other error it was not."""
        keys, words = self._keys(intent.operation), self._words(intent.changes, "", intent)
        reply = self.run_again(str(intent.action), scripts.ACT, keys, words)
        return _changed(reply, len(intent.changes))

    def tried(self, changes: Sequence[StreamChange]) -> tuple[Changed, ...]:
        """Asks the server what it would do with these changes now. Changes nothing."""
        if not changes:
            return ()
        reply = self.run("look", scripts.ACT, self._keys(""), self._words(changes, "1", None))
        return _changed(reply, len(changes))

    def settled(self, intent: BatchIntent, *, look: bool) -> tuple[Changed, ...]:
        """Returns what a batch did that was cut off. Unless it only has a ``look``, what was not done by now is never done."""
        keys, words = [self.names.step(intent.operation)], [intent.step, "look" if look else ""]
        return _changed(self.run_again("undo", scripts.SETTLE, keys, words), len(intent.changes))

    def ended(self, operation: str) -> None:
        """Lets the server forget the last step of an operation after a while, if it answers now."""
        try:
            self.try_all("end", ("EXPIRE", self.names.step(operation), _REMEMBERED))
        except SpooltopError:
            return  # some kilobytes stay on the server

    def _keys(self, operation: str) -> list[Word]:
        names = self.names
        marker = names.step(operation)
        return [names.stream, names.held, names.rejected, names.trash, names.audit, marker, names.later, names.paused]

    def _words(self, changes: Sequence[StreamChange], dry: str, intent: BatchIntent | None) -> list[Word]:
        head: list[Word] = ["", 0, "", ""]
        if intent is not None:
            head = [intent.operation, intent.step, intent.user, str(intent.action)]
        words: list[Word] = [self.names.group, dry, *head]
        for one in changes:
            tries, _, why = one.notes.partition(" ")
            words += [one.verb.value, one.id, one.box, one.to, one.consumer, one.tries, one.delivered, one.data]
            words += [tries or one.tries, why]
        return words


def _changed(reply: Reply, count: int) -> tuple[Changed, ...]:
    words = [text_of(word) for word in list_of(reply)]
    if words == ["settled"]:
        return (_NOT_DONE,) * count
    if len(words) != 3 * count:
        raise Unreadable(f"the server answered {len(words)} words for {count} changes")
    return tuple(Changed(Outcome(words[at]), words[at + 1], words[at + 2]) for at in range(0, len(words), 3))
