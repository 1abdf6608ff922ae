"""Changes the messages of one group of a stream: pins what happens to each of a selection, and says which may not be changed, and
why. Everything is journalled before it is done, and can be undone after."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager, suppress
from enum import StrEnum
from itertools import chain
from time import sleep
from typing import Annotated, NamedTuple, TypeAlias

from msgspec import Meta

from spooltop.engine.arguments import MAX_ATTEMPTS
from spooltop.engine.pausing import encode_pause, pause_from
from spooltop.errors import AnswerLost, NotASpool, Refused, SpooltopError, Unavailable, Unreadable, UsageError
from spooltop.model import RUNNING, Action, Box, Clock, Frozen, JsonObject, Owner, Row, Stop, Verdict, escape, json_object
from spooltop.model.backend import Capabilities
from spooltop.model.plan import Batches, Candidates, Item, ItemResult, Outcome, Plan, Refusal, Request, RowItem, Selection
from spooltop.model.queue import again_words
from spooltop.model.snapshot import Pause, pause_words

from ...journal import Account, EndedStep, Intent, ItemOperator, ItemOutcome, LoggedOperation, Number, RecordType, Told, ref_of
from ...log_store import STATE_DIR, LogFiles, LogStore
from ...plan_options import InjectedContent, pause_reason
from ..client import Endpoint, ErrorReply, Reply, list_of, text_of
from ..stream_names import HANDED_BACK, LATER, StreamNames
from ..streams.server import (
    ID,
    SOURCES,
    JudgedMember,
    Look,
    Looker,
    OperatorConnection,
    PendingEntry,
    PidJudge,
    StreamFetcher,
    Word,
    aside_row,
    can_change,
    check_master,
    claim_row,
    id_order,
    waiting_row,
)
from .scripts import ACT, HANDED, SETTLE

# Changes of one message each, as a plan pins them and the journal holds them.

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
        return self.replace(changes=tuple(change.replace(data=b"", reverses=None) for change in self.changes))


class BatchChanged(Frozen):
    """The ``outcomes`` of the changes of a batch."""

    outcomes: tuple[Changed, ...]

    def each(self) -> Iterator[ItemOutcome]:
        return (ItemOutcome(one.outcome, one.reason) for one in self.outcomes)


LoggedChanges: TypeAlias = "LoggedOperation[BatchIntent, BatchChanged]"
"""All that the journal holds of one operation on a group."""

BATCHES = RecordType("messages", "the journal", "first", BatchIntent, BatchChanged)
"""The record type of the journal of a group."""


# Sends a batch of changes to the server, as one step; finds out what it did where its answer was lost.

AT_ONCE = 25
"""Changes in one step of the server, which answers nobody else meanwhile: some 40 µs each."""
_PAUSES = (0.0, 0.1, 0.4, 1.0, 2.0)
"""Seconds before each time that a step is sent, which is safe to repeat."""
_NOT_DONE = Changed(Outcome.SKIPPED, "cut short before anything was changed")
_REMEMBERED = 3600
"""Seconds for which the last step of an operation that ended is remembered: a copy of it may still be on its way."""


class StepSender(OperatorConnection):
    """Makes changes in the group."""

    def perform(self, intent: BatchIntent) -> tuple[Changed, ...]:
        """Makes the changes of a batch. A step that is sent twice is done once. Raises ``Unavailable`` with ``answer_lost`` where
        it is not known if it was done; after any other error it was not."""
        step = self._step(intent.changes, intent.operation, intent.step, intent.user, str(intent.action))
        return _changed(self._answer_again(*step), len(intent.changes))

    def tried(self, changes: Sequence[StreamChange]) -> Iterator[Changed]:
        """Yields what the server would do with each of these changes now. Changes nothing."""
        for start in range(0, len(changes), AT_ONCE):
            some = changes[start : start + AT_ONCE]
            yield from _changed(self.answer(*self._step(some)), len(some))

    def settled(self, intent: BatchIntent, *, look: bool) -> tuple[Changed, ...]:
        """Returns what a batch did that was cut off. Unless it only has a ``look``, what was not done by now is never done."""
        words = (SETTLE, 1, self.names.step(intent.operation), intent.step, "look" if look else "")
        return _changed(self._answer_again("EVAL", *words), len(intent.changes))

    def ended(self, operation: str) -> None:
        """Lets the server forget the last step of an operation after a while, if it answers now: else some kilobytes stay."""
        with suppress(SpooltopError):
            self.ask(("EXPIRE", self.names.step(operation), _REMEMBERED))

    def _step(
        self, changes: Sequence[StreamChange], operation: str = "", first: int = 0, user: str = "", action: str = ""
    ) -> list[Word]:
        """Returns the command that makes these changes, or without an ``operation`` says what it would do."""
        names = self.names
        keys = (
            names.stream, names.held, names.rejected, names.trash, names.audit, names.step(operation), names.later, names.paused
        )  # fmt: skip
        dry = "" if operation else "1"
        words: list[Word] = ["EVAL", ACT, len(keys), *keys, names.group, dry, operation, first, user, action]
        for one in changes:
            tries, _, why = one.notes.partition(" ")
            words += [one.verb.value, one.id, one.box, one.to, one.consumer, one.tries, one.delivered, one.data]
            words += [tries or one.tries, why]
        return words

    def _answer_again(self, *command: Word) -> Reply:
        """Sends a command that is safe to repeat, several times where the answer is lost. Raises as ``answer`` does."""
        lost: Unavailable | None = None
        for pause in _PAUSES:
            sleep(pause)
            try:
                return self.answer(*command)
            except SpooltopError as error:
                if lost is None and not (isinstance(error, Unavailable) and error.answer_lost):
                    raise
                lost = AnswerLost(error.what, error.advice, path=self.address)
                if not isinstance(error, Unavailable):
                    break
        assert lost is not None  # else it has returned or raised
        raise lost


def _changed(reply: Reply, count: int) -> tuple[Changed, ...]:
    words = [text_of(word) for word in list_of(reply)]
    if words == ["settled"]:
        return (_NOT_DONE,) * count
    if len(words) != 3 * count:
        raise Unreadable(f"the server answered {len(words)} words for {count} changes")
    return tuple(Changed(Outcome(words[at]), words[at + 1], words[at + 2]) for at in range(0, len(words), 3))


# Ways to put a message back to work, and which of them the consumers of a group allow.

_AUTOCLAIMS = r"cmdstat_xautoclaim:calls=([0-9]+)"


class RequeueMethod(NamedTuple):
    """The way that was chosen. ``copies``: a message is put again as a new entry, else it is handed over to ``~spooltop`` with
    its id. ``words`` tell which it is, and why."""

    copies: bool
    words: str


def chosen_way(server: OperatorConnection, look: Look, *, asked: bool) -> RequeueMethod:
    """Chooses the best way that the consumers of the group allow. ``asked``: copies are wanted. Raises as
    ``OperatorConnection.answer``."""
    if asked:
        return RequeueMethod(True, f"{_COPIED}, as --copy asks: consumers that only read new entries get it.")
    _check_told(server, look, "leases", "processes of consumers")
    if any(one.lease is not None for one in look.consumers):
        return RequeueMethod(False, f"{_HANDED}: workers of spooltop take it first.")
    none = "no worker of spooltop is running in the group"
    taken = _last_was_taken(server)
    if taken == "taken":
        return RequeueMethod(False, f"{_HANDED}: {none}, but its consumers took what was handed over before.")
    if taken != "passed":
        seen = _autoclaim_was_seen(server)
        if seen:
            return RequeueMethod(
                False,
                f"{_HANDED}: consumers that use XAUTOCLAIM take it, some of them only once a new entry came. This server has "
                f"seen that command; whether from a consumer of this group is not known. {_LATER_BY_COPY}",
            )
        if seen is None:
            why = f"{none}, and the server does not tell who uses XAUTOCLAIM"
            return RequeueMethod(False, f"{_HANDED}, but {why}: {_NEVER}. {_LATER_BY_COPY}")
        why = f"{none}, and nobody was seen to use XAUTOCLAIM"
    else:
        why = f"{none}, and what was handed over before still waits while newer entries were delivered"
    if len(look.groups) > 1:
        return RequeueMethod(
            False,
            f"{_HANDED}, but {why}: {_NEVER}. With --copy and --force it is put again as a new entry, which the other groups get "
            "too.",
        )
    return RequeueMethod(True, f"{_COPIED}: {why}, so its consumers only read new entries.")


def _check_told(server: OperatorConnection, look: Look, *facts: str) -> None:
    """Raises ``Refused`` for a fact that this user may not ask for: what is not known is not taken for nothing."""
    for why in filter(None, map(look.hidden.get, facts)):
        raise Refused(why, "spooltop -h names the rights that this user needs", path=server.address)


def _last_was_taken(server: OperatorConnection) -> str:
    """``taken`` if consumers took some of what was handed over last, ``passed`` if all of it waits and newer entries were
    delivered since; else something else."""
    names = server.names
    try:
        return text_of(server.answer("EVAL", HANDED, 2, names.audit, names.stream, names.group))
    except (NotASpool, Unreadable):  # no such group, or nothing that it was asked for
        return ""


_COPIED = "Each is replaced by a new entry with the old id in its field ~id, the last in order"
_HANDED = "Handed over to ~spooltop, with the same id and number of tries"
_NEVER = "consumers that only read new entries never get it"
_LATER_BY_COPY = "If it still waits later, --box new --copy puts it again as a new entry, as --copy does now."


def _autoclaim_was_seen(server: OperatorConnection) -> bool | None:
    """True if a client of this server has used XAUTOCLAIM since it was started; None where it does not tell."""
    (stats,) = server.ask(("INFO", "commandstats"))
    if isinstance(stats, ErrorReply):  # this user may not ask
        return None
    found = re.search(_AUTOCLAIMS, text_of(stats))
    return found is not None and int(found[1]) > 0


# Plans of what concerns the whole group: its pause, the messages that are put, and the place where it reads.

_MOST_BYTES = 16 << 20
_COUNTED = 10_000
_ID = r"([0-9]{1,20})(?:-([0-9]{1,20}))?\Z"


def pause_plan(server: OperatorConnection, look: Look, request: Request, user: str) -> Candidates:
    """Pins that the queue is not paused, or for RESUME the record of its pause. Raises ``UsageError`` for a reason that is too
    long."""
    now, reason, pauses = request.at, pause_reason(request.options), request.action is Action.PAUSE
    _check_told(server, look, "a pause")
    found = None if look.paused is None else text_of(look.paused)
    if pauses is (found is not None):
        why = "it is not paused" if found is None else f"it is paused already, {pause_words(_pause(found, now), now)}"
        return Candidates(refused=[Refusal(_row(server), why)])
    if found is not None:
        return Candidates([pause_item(server, StreamChange(StreamVerb.RESUME, found), now)])
    record = encode_pause(Pause(user, now, reason)).decode()
    note = "Only workers of spooltop read this record: other consumers of the group go on."
    return Candidates([pause_item(server, StreamChange(StreamVerb.PAUSE, "", to=record), now)], notes=(note,))


def pause_item(server: OperatorConnection, change: StreamChange, now: float) -> Item:
    """The item of a plan that pauses or resumes."""
    if change.verb is StreamVerb.PAUSE:
        words = "Workers of spooltop claim no message until it is resumed"
    else:
        words = f"Workers of spooltop claim messages again. Paused {pause_words(_pause(change.id, now), now)}"
    return RowItem(_row(server), change, words=words)


def _pause(record: str, now: float) -> Pause:
    return pause_from(json_object(record.encode("utf-8", "surrogateescape")), now)


def _row(server: OperatorConnection) -> Row:
    return Row(server.address, Box.CUR, server.address, server.address)


def inject_plan(look: Look, options: JsonObject, now: float) -> Candidates:
    """Checks the options of test messages. Raises ``UsageError``."""
    content = InjectedContent(options, _MOST_BYTES)
    first = content.data(1, "", now)
    notes = content.first_notes(first, first)
    if len(look.groups) > 1:
        notes += (f"All {len(look.groups):,} groups of this stream get it.",)
    effect = "Test messages are put at the end of the stream; running consumers claim them."
    return Candidates(notes=notes, effect=effect)


def set_plan(server: OperatorConnection, look: Look, options: JsonObject) -> Candidates:
    """Pins the id last delivered to a group and the one that it gets. Options: ``source``, the group; ``value``, an id, ``0`` or
    ``$``. Raises ``UsageError``."""
    source, value = options.get("source"), options.get("value")
    if not isinstance(source, str) or not isinstance(value, (str, int)) or isinstance(value, bool):
        raise UsageError("set-cursor: which group, to what id?", "spooltop cursors URL --set GROUP=ID")
    groups = {group.name: group.last_delivered for group in look.groups}
    row = Row(source, Box.CUR, source, server.address, source=source)
    if source not in groups:
        there = ", ".join(sorted(map(escape, groups)))
        return Candidates(refused=[Refusal(row, f"the stream has no group {escape(source)}; it has {there}")])
    return set_item(server, StreamChange(StreamVerb.SET, groups[source], to=_id(look, value), consumer=source))


def set_item(server: OperatorConnection, change: StreamChange) -> Candidates:
    """Pins that a group's last delivered id is set; says what would be delivered again or skipped."""
    group, before, after = change.consumer, change.id, change.to
    row = Row(group, Box.CUR, group, server.address, source=group)
    if before == after:
        return Candidates(refused=[Refusal(row, f"it is {after} already")])
    back = id_order(after) < id_order(before)
    first, last = (after, before) if back else (before, after)
    count, _ = StreamFetcher(server.ask, server.names).skip(f"({first}", last, _COUNTED)
    many = f"{'≥ ' if count == _COUNTED else ''}{count:,} message{'' if count == 1 else 's'}"
    what = f"{many} would be delivered again" if back else f"{many} would be skipped"
    words = f"{escape(group)}: {before} → {after}"
    deleted = "Messages that were deleted meanwhile are not delivered again. " if back else ""
    notes = [f"{deleted}Claims stay as they are."]
    effect = "The group reads on after the new id. Nothing is deleted."
    return Candidates([RowItem(row, change, what, words, after)], notes=tuple(notes), effect=effect)


def _id(look: Look, value: str | int) -> str:
    if value == "$":
        return look.last
    found_id = re.match(_ID, str(value))
    if found_id is None:
        raise UsageError(f"set-cursor: {escape(json.dumps(value))} is no id", "write 1763900000123-0, 0 or $")
    return f"{int(found_id[1])}-{int(found_id[2] or 0)}"


# Messages of a group as rows, found in pages that the server answers fast.

Judge = Callable[[], Mapping[str, JudgedMember]]
"""Judges the consumers of the group, by their names."""


class PinnedRow(NamedTuple):
    """A row, and the ``entry`` that pins it, in the stream of its box."""

    row: Row
    entry: PendingEntry

    @property
    def tries(self) -> int:
        return self.row.attempt or 0


POISON = 3
"""Deliveries to consumers that died, from which on the message may be the cause."""
_NAMED_AT_MOST = 2_000
"""Messages up to which each is asked for by its id."""
_NAMED_WHY = 5
"""Reasons that are named where no claim is dead."""
_FORCEABLE = (Action.REQUEUE, Action.HOLD)
_FOR_GOOD = {
    StreamVerb.ASIDE: StreamVerb.DROP_CLAIM, StreamVerb.ASIDE_NEW: StreamVerb.DROP_NEW, StreamVerb.MOVE: StreamVerb.DROP
}  # fmt: skip
"""The verbs of a purge that skips the trash."""
_TO_ASIDE = frozenset({StreamVerb.ASIDE, StreamVerb.ASIDE_NEW, StreamVerb.MOVE})
_EFFECTS = (
    ({StreamVerb.HAND}, "It is handed back to the group with the same id; claimed next.",
     "They are handed back to the group with the same ids; claimed next."),
    ({StreamVerb.COPY}, "It is put again as a new entry, last in order.", "They are put again as new entries, last in order."),
    ({StreamVerb.BACK},
     "It goes back to the group, with the same id where the entry still stands, else as a copy, last in order.",
     "They go back to the group, with the same id where the entry still stands, else as a copy, last in order."),
)  # fmt: skip
_PURGE_EFFECT = (
    _TO_ASIDE, "It moves to the trash. Undo puts it back, as a copy where the entry is gone.",
    "They move to the trash. Undo puts them back, as copies where the entry is gone.",
)  # fmt: skip
_VERDICTS = {Verdict.ALIVE: RUNNING}
_LOST = "it may be done twice: its consumer may still be at work"


class GroupChooser:
    """Pins the messages of a group that are asked for. ``judge`` judges its consumers. Counts what may be ``poison``."""

    def __init__(self, server: OperatorConnection, look: Look, judge: Judge, request: Request) -> None:
        self._server = server
        self._fetcher = StreamFetcher(server.ask, server.names)
        self._look = look
        self._judge = judge
        self._judged: dict[str, JudgedMember] = {}
        """Consumers that were met."""
        self._request = request
        self._action = request.action
        self._force = request.force
        self._now = bool(request.options.get("now"))
        self._copy = False
        self._others = len(look.groups) - 1
        self.poison = 0

    def choose(self) -> Candidates:
        """Raises ``Refused`` for a box that the action does not apply to, ``UsageError`` for an invalid filter, ``Stopped``."""
        action, selection, progress = self._action, self._request.selection, self._request.progress
        boxes = self._request.boxes(SOURCES[action], self._server.address)
        copies = bool(self._request.options.get("copy"))
        if copies and action is not Action.REQUEUE:
            raise UsageError(f"{action}: --copy is for a requeue", "leave it out")
        again = action is Action.REQUEUE and selection.box is Box.NEW  # of what was handed back, and nobody takes
        if selection.empty:
            return Candidates()
        way = chosen_way(self._server, self._look, asked=again or copies)
        self._copy = way.copies
        items: list[Item] = []
        refused: list[Refusal] = []
        named: set[str] = set()
        unmatched: Counter[tuple[Verdict | None, str]] = Counter()
        keys = None if selection.keys is None else frozenset(map(_place, selection.keys))
        matches = selection.replace(keys=None).matcher(self._request.at)
        heads = bool(selection.filter or selection.source is not None or selection.named)
        progress.begin("messages looked at")
        for box in boxes:
            if action is Action.REQUEUE and box is Box.NEW and not again:
                continue
            for pinned in progress.each(self._pinned(box, heads=heads, ids=_named(selection, box))):
                row = pinned.row
                if (keys is not None and (row.box.value, pinned.entry.id) not in keys) or not matches(row):
                    unmatched[row.verdict, pinned.entry.consumer] += 1
                    continue
                named |= {row.id, row.name, pinned.entry.id}
                found = self._made(pinned)
                if isinstance(found, Item):
                    items.append(found)
                else:
                    refused.append(found)
            progress.found(items)
        missing = tuple(id for id in dict.fromkeys(selection.ids or ()) if id not in named)
        verbs = {ref_of(item, StreamChange).verb for item in items}
        final = bool(verbs) and verbs <= LEAVES
        notes: tuple[str, ...] = (way.words,) if verbs & {StreamVerb.HAND, StreamVerb.BACK} else ()
        if StreamVerb.COPY in verbs:
            notes = (f"{way.words} {'This' if final else 'What is put again'} has no undo.",)
        if not items and not refused and selection.verdict is Verdict.DEAD:
            notes = self._why_none_is_dead(unmatched)
        effects = (*_EFFECTS, _PURGE_EFFECT) if action is Action.PURGE else _EFFECTS
        return Candidates(items, refused, notes, missing, self.poison, _effect(items, effects), final)

    def _why_none_is_dead(self, unmatched: Mapping[tuple[Verdict | None, str], int]) -> tuple[str, ...]:
        """Says who holds the claims that are not those of the dead."""
        counts: Counter[str] = Counter()
        for (verdict, consumer), count in unmatched.items():
            one = self._judged.get(consumer)
            if verdict is not None:
                who = f"{escape(consumer)}: {one.evidence}" if one is not None and one.ends else _VERDICTS.get(verdict, verdict)
                counts[who] += count
        return tuple(f"{count:,} not dead: {who}." for who, count in counts.most_common(_NAMED_WHY))

    def _pinned(self, box: Box, *, heads: bool = True, ids: Sequence[str] | None = None) -> Iterator[PinnedRow]:
        """Yields the messages of ``box``, the oldest first; those with ``ids`` in its stream, where these are given: a few of
        many are found without a search. ``heads`` False: without size and source of claims, which the server finds slowly."""
        wanted = None if ids is None else sorted((id for id in ids if ID.match(id)), key=id_order)
        if box in (Box.CUR, Box.NEW):
            yield from self._claims(wanted, heads=heads, back=box is Box.NEW)
        begin = "-"
        if box is Box.NEW:
            last = self._look.group.last_delivered
            wanted = None if wanted is None else [id for id in wanted if id_order(id) > id_order(last)]
            begin = f"({last}"
        if box is not Box.CUR:
            for one in chain.from_iterable(self._pages(box, begin, wanted)):
                row = waiting_row(one) if box is Box.NEW else aside_row(box, one)
                by = one.notes.get("~by")  # a selection may name who set it aside
                yield PinnedRow(row if by is None or box is Box.NEW else row.replace(owner=Owner(name=by)), one)

    def _claims(self, ids: Sequence[str] | None, *, heads: bool, back: bool) -> Iterator[PinnedRow]:
        """Yields the claims of programs, or those that were handed ``back``."""
        for page in self._pages(Box.CUR, "-", ids, heads=heads):
            wanted = [one for one in page if (one.consumer in (HANDED_BACK, LATER)) is back]
            unknown = {one.consumer for one in wanted} - self._judged.keys()
            if unknown and not back:
                known = self._judge()
                self._judged |= {name: known[name] for name in unknown if name in known}
            for one in wanted:
                yield PinnedRow(waiting_row(one) if back else claim_row(one, self._judged.get(one.consumer)), one)

    def _pages(
        self, box: Box, begin: str, ids: Sequence[str] | None, *, heads: bool = True
    ) -> Iterator[list[PendingEntry]]:  # fmt: skip
        """Yields entries or claims in pages: all from ``begin`` on, or those with ``ids``."""
        if ids is None:
            yield from self._fetcher.pages(box, begin, heads=heads)
        for start in range(0, len(ids or ()), AT_ONCE):  # each is a script of its own
            spans = [self._fetcher.span(box, id, id, 1) for id in (ids or ())[start : start + AT_ONCE]]
            yield [*chain.from_iterable(self._fetcher.read(*spans, heads=heads))]

    def _made(self, pinned: PinnedRow) -> Item | Refusal:
        return {Box.CUR: self._claim, Box.NEW: self._new}.get(pinned.row.box, self._aside)(pinned)

    def _claim(self, pinned: PinnedRow) -> Item | Refusal:
        row, warning = pinned.row, ""
        if row.verdict is Verdict.ALIVE:
            forceable = self._action in _FORCEABLE
            if not (forceable and self._force):
                who = "its consumer" if row.owner is None else row.owner.label
                return Refusal(row, f"{escape(who)}: {escape(row.evidence)}", forceable)
            warning = _LOST
        elif row.owner is not None and row.owner.moves_to is not None and self._action in _FORCEABLE:
            if not self._force:
                return Refusal(row, again_words(self._server.address, row.owner.moves_to), forceable=True)
            warning = f"it may be in {escape(row.owner.moves_to)} as well"
        elif row.verdict is Verdict.UNKNOWN:
            warning = _LOST
        if self._action is not Action.REQUEUE:
            return self._away(pinned, StreamVerb.ASIDE, warning)
        died = row.verdict is Verdict.DEAD and pinned.tries >= POISON
        self.poison += died
        why = f"delivered {pinned.tries} times, and its last consumer died"
        warning = why if died else warning
        if died and self._request.options.get("hold_poison"):
            return RowItem(row, _pin(pinned, StreamVerb.ASIDE, to="held", notes=why), f"held instead: {why}")
        if row.verdict is Verdict.DEAD and pinned.tries >= MAX_ATTEMPTS:
            why = f"{pinned.tries} attempts, the limit is {MAX_ATTEMPTS}"
            return RowItem(row, _pin(pinned, StreamVerb.ASIDE, to="rejected", notes=why), f"rejected instead: {why}")
        if not self._copy:
            return RowItem(row, _pin(pinned, StreamVerb.HAND), warning)
        return self._copied(pinned, warning)

    def _copied(self, pinned: PinnedRow, warning: str) -> Item | Refusal:
        if self._others and not self._force:
            return Refusal(pinned.row, f"{_others(self._others)} would get the copy too", forceable=True)
        return RowItem(pinned.row, _pin(pinned, StreamVerb.COPY, force=self._force), warning)

    def _new(self, pinned: PinnedRow) -> Item | Refusal:
        if self._action is Action.REQUEUE:
            if pinned.entry.consumer == HANDED_BACK:
                return self._copied(pinned, "")
            delayed = pinned.entry.consumer == LATER
            why = "it waits for the end of its delay" if delayed else "it was never delivered: it waits already"
            return Refusal(pinned.row, why)
        if pinned.entry.consumer in (HANDED_BACK, LATER):
            return self._away(pinned, StreamVerb.ASIDE)
        if self._others:
            reads = "reads" if self._others == 1 else "read"
            why = f"{_others(self._others)} {reads} this stream too: an undelivered message can be taken from all of them only"
            return Refusal(pinned.row, why)
        return self._away(pinned, StreamVerb.ASIDE_NEW)

    def _away(self, pinned: PinnedRow, verb: StreamVerb, warning: str = "") -> Item:
        """Pins that a message is held, or purged: into the trash, or for good."""
        if self._action is Action.PURGE and self._now:
            return RowItem(pinned.row, _pin(pinned, _FOR_GOOD[verb]), warning)
        return RowItem(pinned.row, _pin(pinned, verb, to="held" if self._action is Action.HOLD else "trash"), warning)

    def _aside(self, pinned: PinnedRow) -> Item | Refusal:
        row, origin, why = pinned.row, pinned.entry.notes.get("~from", ""), pinned.entry.notes.get("~why", "")
        if self._action is Action.EMPTY:
            return RowItem(row, _pin(pinned, StreamVerb.DROP))
        if self._action is Action.PURGE:
            return self._away(pinned, StreamVerb.MOVE)
        if self._action is Action.RESTORE and row.box is Box.TRASH and origin in ("held", "rejected"):
            return RowItem(row, _pin(pinned, StreamVerb.MOVE, to=origin))
        back = _pin(pinned, StreamVerb.BACK, to="copy" if self._copy else "", force=self._force, notes=why)
        # Redriven, its attempts count anew: whoever rejected it may have done so at a limit that we do not know.
        return RowItem(row, back.replace(tries=0) if row.box is Box.REJECTED else back)


def _pin(pinned: PinnedRow, verb: StreamVerb, *, to: str = "", force: bool = False, notes: str = "") -> StreamChange:
    row, entry = pinned
    noted = f"{pinned.tries} {notes}" if notes or verb is StreamVerb.BACK else ""
    forced = b"force" if force else b""
    return StreamChange(
        verb, entry.id, row.box.value, to, entry.consumer, pinned.tries, entry.delivered, forced, row.id, noted
    )


def _named(selection: Selection, box: Box) -> list[str] | None:
    """Returns the ids in the stream of ``box`` that a selection names; None where it must be searched: it names none or too many,
    or a message that was set aside by the id that it had before."""
    if selection.keys is not None:
        ids = [id for at, id in map(_place, selection.keys) if at == box.value]
    elif selection.ids is not None and box in (Box.CUR, Box.NEW):
        ids = list(dict.fromkeys(selection.ids))
    else:
        return None
    return ids if len(ids) <= _NAMED_AT_MOST else None


def _place(key: object) -> tuple[str, str]:
    """The box and the id of a row by its key."""
    if isinstance(key, tuple) and len(key) >= 2:
        return str(key[0]), str(key[1])
    return "", ""


def _effect(items: Sequence[Item], effects: Sequence[tuple[Set[StreamVerb], str, str]]) -> str:
    """Says what happens, where the words for a directory would be wrong."""
    verbs = {StreamVerb.COPY if one.to == "copy" else one.verb for one in (ref_of(item, StreamChange) for item in items)}
    return next((one if len(items) == 1 else many for known, one, many in effects if verbs and verbs <= known), "")


def _others(count: int) -> str:
    return f"{count:,} other group{'' if count == 1 else 's'}"


# The operator.


def row_of(change: StreamChange) -> Row:
    """The row of a message where it lies before ``change``."""
    box = Box(change.box) if change.box else Box.NEW
    return Row((box.value, change.id), box, change.shown, change.shown, attempt=change.tries or None)


def _words(logged: LoggedChanges) -> str:
    if logged.open:
        sent = sum(len(intent.changes) for intent, found in logged.steps.values() if found is None)
        return f"{sent:,} sent and not answered: undo finds out if they were done, and reverses what was"
    one = logged.first.changes[0] if logged.first.changes else None
    if one is not None and one.verb is StreamVerb.SET:
        return f"{one.consumer}: {one.id} → {one.to}"
    if one is not None and logged.first.action is Action.UNDO and one.verb in (StreamVerb.PAUSE, StreamVerb.RESUME):
        return "paused again" if one.verb is StreamVerb.PAUSE else "resumed"
    return ""


_UNDO_EFFECTS = tuple(
    (verbs, words, words)
    for verbs, words in (
        ({StreamVerb.GIVE}, "Each claim goes back to the consumer that had it, unless it was taken since."),
        ({StreamVerb.COPY}, "Each message is put again as a new entry, last in order, unless it was changed since."),
        ({StreamVerb.BACK}, "Each message is handed back to the group, claimed next, unless it was changed since."),
        (_TO_ASIDE, "Each message is set aside again, unless it was taken since."),
    )
)
class StreamOperator(ItemOperator[BatchIntent, BatchChanged, Look]):
    """Implements ``model.backend.Operator`` for the group ``names.group``, whose address is ``shown``. ``judge`` knows which
    consumers are processes of this host, as the views do; ``state`` is the folder of this user's own state, for the journal on
    this machine: a stream can be trimmed by others. ``read_only`` says why nothing may be changed."""

    at_once = AT_ONCE

    def __init__(
        self, endpoint: Endpoint, names: StreamNames, shown: str, judge: PidJudge, *, clock: Clock,
        state: str | None, read_only: str | None,
    ) -> None:  # fmt: skip
        store = LogStore(shown, LogFiles(), state_dir=STATE_DIR if os.geteuid() == 0 else state)
        super().__init__(shown, store, BATCHES, clock=clock, read_only=read_only)
        self._server = StepSender(endpoint, shown, names)
        self._judge = judge

    def _judged(self) -> Mapping[str, JudgedMember]:
        """Judges consumers as the views do, by a look of its own. Raises ``Unavailable``."""
        return self._judge.consumers(Looker(self._server, self._server.names).look())

    @contextmanager
    def _state(self) -> Iterator[Look]:
        try:
            yield Looker(self._server, self._server.names).look()
        except Unavailable as trouble:
            trouble.path = self._path
            raise

    def capabilities(self) -> Capabilities:
        """Returns what may be done, asked of the server."""
        return can_change(self._server)

    def _choose(self, request: Request, state: Look) -> Candidates:
        match request.action:
            case Action.INJECT:
                return inject_plan(state, request.options, self._clock())
            case Action.SET_CURSOR:
                return set_plan(self._server, state, request.options)
            case Action.PAUSE | Action.RESUME:
                return pause_plan(self._server, state, request, self._user)
        return GroupChooser(self._server, state, self._judged, request).choose()

    def perform(self, plan: Plan, stop: Stop = lambda: False) -> Batches:
        """Raises ``Refused`` on a replica, ``AuditFailed``, and what the server refuses: then that batch was not done. What was
        sent and not answered is in the results, and raises ``Unavailable`` after them."""
        check_master(self._server)
        if plan.undoes is not None:
            self._settle(plan.undoes)
        yield from super().perform(plan, stop)
        self._server.ended(plan.operation)

    def _intent(self, plan: Plan, place: int, items: Sequence[Item]) -> BatchIntent:
        if plan.action is Action.INJECT:
            content, last = InjectedContent(plan.options, _MOST_BYTES), min(place + self._at_once(plan), plan.count)
            changes = [
                StreamChange(StreamVerb.PUT, "", "new", consumer=content.source or "", data=content.data(one, "", self._clock()))
                for one in range(place + 1, last + 1)
            ]
        else:
            changes = [ref_of(item, StreamChange) for item in items]
        reverses = tuple(one.reverses for one in changes if one.reverses is not None)
        return BatchIntent(tuple(changes), reverses)

    def _apply(self, items: Sequence[Item], intent: BatchIntent, stop: Stop) -> EndedStep[BatchChanged]:
        count = len(intent.changes)
        try:
            outcomes = self._server.perform(intent)
        except SpooltopError as error:
            if isinstance(error, Unavailable) and error.answer_lost:
                why = f"sent, and not answered: it is unknown if it was done; spooltop undo finds out: {error.what}"
                return EndedStep(_results(items, [Changed(Outcome.FAILED, why)] * count), None, error)
            return EndedStep((), BatchChanged((Changed(Outcome.FAILED, error.what),) * count), error)
        return EndedStep(_results(items, outcomes), BatchChanged(outcomes))

    def _fact(self, logged: LoggedChanges) -> Account:
        verbs = {change.verb for intent, _ in logged.steps.values() for change in intent.changes}
        return Account(_words(logged), "nothing of it can be reversed" if verbs and verbs <= LEAVES else None)

    # Undo

    def _settle(self, operation: str) -> None:
        """Ends the batches of an operation that were cut off: what was not done by now will not be done any more."""
        logged = self._log.read(required=True, begins=operation)[0].get(operation)
        for intent, outcome in () if logged is None else logged.steps.values():
            if outcome is None:
                self._log_result(intent, BatchChanged(self._server.settled(intent, look=False)))

    def _ended(self, logged: LoggedChanges) -> Iterator[tuple[BatchIntent, Sequence[Changed]]]:
        """Yields the batches of an operation, with what is known by now of those that were cut off."""
        for intent, outcome in logged.steps.values():
            yield intent, self._server.settled(intent, look=True) if outcome is None else outcome.outcomes

    def _backwards(self, logged: LoggedChanges, undos: Sequence[LoggedChanges], request: Request, state: Look) -> Candidates:
        over = {
            place
            for undo in undos
            for intent, outcomes in self._ended(undo)
            for place, one in zip(intent.reverses, outcomes, strict=False)
            if one.outcome is Outcome.DONE
        }
        found = [
            (change, back and back.replace(reverses=(intent.step, place), data=b"force" if request.force else b""))
            for intent, outcomes in self._ended(logged)
            for place, (change, one) in enumerate(zip(intent.changes, outcomes, strict=False))
            if one.outcome is Outcome.DONE and (intent.step, place) not in over
            for back in [inverse(change, one.became)]
        ]
        notes = (f"{len(over):,} of {logged.first.count:,} undone already.",) if over else ()
        single = found[0][1] if len(found) == 1 else None
        if single is not None and single.verb in (StreamVerb.PAUSE, StreamVerb.RESUME, StreamVerb.SET):
            made = self._undo_of_one(single, request.at)
            return made.replace(notes=(*made.notes, *notes))
        # Consumers that only read new entries get what was set aside as such.
        back_again = any(back is not None and back.verb is StreamVerb.BACK for _, back in found)
        if back_again and chosen_way(self._server, state, asked=False).copies:
            found = [(done, back.replace(to="copy") if back and back.verb is StreamVerb.BACK else back) for done, back in found]
        items: list[Item] = []
        refused: list[Refusal] = []
        words: Counter[str] = Counter()
        request.progress.begin("messages looked at", len(found))
        answers = self._server.tried([back for _, back in found if back is not None])
        for done, back in request.progress.each(found):
            if back is None:
                refused.append(Refusal(row_of(done), _why_not(done)))
            elif (told := next(answers)).outcome is not Outcome.DONE:
                refused.append(Refusal(row_of(back), told.reason, "would get the copy" in told.reason))
            else:
                words[told.reason] += 1
                items.append(RowItem(row_of(back), back, escape(told.reason)))
        notes = (*(f"{count:,} of {len(items):,}: {why}." for why, count in words.items() if why), *notes)
        return Candidates(items, refused, notes, effect=_effect(items, _UNDO_EFFECTS))

    def _undo_of_one(self, change: StreamChange, now: float) -> Candidates:
        told = next(self._server.tried([change]))
        late = f"too late: {escape(told.reason)}" if told.outcome is not Outcome.DONE else ""
        if change.verb is not StreamVerb.SET:
            item = pause_item(self._server, change, now)
            return Candidates(refused=[Refusal(item.row, late)]) if late else Candidates([item])
        if late:
            return Candidates(refused=[Refusal(row_of(change), late)])
        return set_item(self._server, change)

    def close(self) -> None:
        self._server.close()


def _results(items: Sequence[Item], outcomes: Sequence[Changed]) -> list[ItemResult]:
    # Of messages that are put, only what they became is known.
    names = [(item.id, item.name) for item in items] or [(one.became or "new",) * 2 for one in outcomes]
    return [
        ItemResult(*name, one.outcome, escape(one.reason), one.became) for name, one in zip(names, outcomes, strict=True)
    ]


def _why_not(change: StreamChange) -> str:
    return "it was put again as a new entry: purge that" if change.verb is StreamVerb.COPY else "deleted permanently"
