"""Changes the messages of one group of a stream: pins what happens to each of a selection, and says which may not be changed, and
why. Everything is journalled before it is done, and can be undone after."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager, suppress
from itertools import chain
from time import sleep
from typing import Annotated, Literal, NamedTuple, TypeAlias

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
from .scripts import ACT, HANDED

# Changes of one message each, as a plan pins them and the journal holds them.

_Pinned = Annotated[int, Meta(ge=-1, lt=1 << 53)]


StreamVerb: TypeAlias = Literal[
    "hand", "give", "copy", "aside", "aside-new", "back", "move", "drop", "drop-claim", "drop-new", "put", "pause", "resume",
    "set",
]  # fmt: skip
"""Kinds of changes, as the journal and the scripts call them.

``hand`` hands a claim over to ``~spooltop``, from where it is claimed again; ``give`` gives one that was handed over back to
the consumer ``to``; ``copy`` replaces a claim by a new entry, the last in order. ``aside`` moves a claim, and ``aside-new`` an
entry that was never delivered, into the stream of the box ``to``. ``back`` gives a message that was set aside back to the
group: its entry where that still stands, else a copy; also a copy with ``copy`` in ``to``. ``move`` moves a message from one
side stream to another. ``drop`` deletes a message that was set aside, ``drop-claim`` a claim and its message, ``drop-new`` an
entry that was never delivered. ``put`` adds an entry: ``data`` from the source ``consumer``. ``pause`` writes the record of a
pause, ``to``, and ``resume`` removes one, ``id``. ``set`` sets the last delivered id of the group ``consumer`` from ``id`` to
``to``.
"""

LEAVES = frozenset({"drop", "drop-claim", "drop-new", "copy"})
"""Changes without an inverse."""
_OPPOSITES: Mapping[StreamVerb, StreamVerb] = {"pause": "resume", "resume": "pause"}


class StreamChange(Frozen, omit_defaults=True):
    """A change of the message ``id`` in ``box``. A claim is pinned by its ``consumer``, its number of deliveries ``tries`` and
    when it was ``delivered`` (milliseconds by the clock of the server). ``data`` is that of ``put``, or ``force`` for a copy that
    other groups get too; it is in no journal. ``entry`` is the id by which people know the message, where that is another.
    ``notes`` are the tries and the reason of a message that is set aside, ``10 no good``: an undo of ``back`` writes them again.
    ``reverses`` is what an undo reverses, batch and place in it."""

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
    reverses: tuple[Number, Number] | None = None

    @property
    def shown(self) -> str:
        """Id by which people know the message."""
        return self.entry or self.id


def inverse(change: StreamChange, became: str) -> StreamChange | None:
    """Returns the change that reverses ``change``, after which the message had the id ``became``; None where there is none."""
    match verb := change.verb:
        case "hand":
            return change.replace(verb="give", box="new", to=change.consumer, consumer=HANDED_BACK)
        case "give":
            return change.replace(verb="hand", box="cur", to="", consumer=change.to)
        case "aside" | "aside-new":
            return change.replace(verb="back", id=became, box=change.to, to="", entry=change.shown)
        case "back":
            verb = "aside" if became == change.entry else "aside-new"
            return change.replace(verb=verb, id=became, box="new", to=change.box, consumer=HANDED_BACK, delivered=-1)
        case "move":
            return change.replace(id=became, box=change.to, to=change.box)
        case "put":
            return change.replace(verb="aside-new", id=became, to="trash")
        case "pause" | "resume" | "set":
            return change.replace(verb=_OPPOSITES.get(verb, verb), id=change.to, to=change.id)
        case _:
            return None


# Journal of a group: an intent line before each batch of changes, and a result line after it. A change has the members of
# ``StreamChange`` that are not empty; an outcome is ``[outcome, reason, became]``. ``reverses`` of a batch are the places of what
# its changes reverse, ``[batch, place]``.


class Changed(ItemOutcome, array_like=True):
    """The outcome of one change. ``became`` is the id that the message has after it."""

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
        return iter(self.outcomes)


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
        return _changed(self._answer_again(*self._step(intent)), len(intent.changes))

    def tried(self, changes: Sequence[StreamChange]) -> Iterator[Changed]:
        """Yields what the server would do with each of these changes now. Changes nothing."""
        for start in range(0, len(changes), AT_ONCE):
            some = BatchIntent(tuple(changes[start : start + AT_ONCE]))
            yield from _changed(self.answer(*self._step(some, "try")), len(some.changes))

    def settled(self, intent: BatchIntent, *, look: bool) -> tuple[Changed, ...]:
        """Returns what a batch did that was cut off. Unless it only has a ``look``, what was not done by now is never done."""
        step = self._step(intent.replace(changes=()), "look" if look else "settle")
        return _changed(self._answer_again(*step), len(intent.changes))

    def ended(self, operation: str) -> None:
        """Lets the server forget the last step of an operation after a while, if it answers now: else some kilobytes stay."""
        with suppress(SpooltopError):
            self.ask(("EXPIRE", self.names.step(operation), _REMEMBERED))

    def _step(self, intent: BatchIntent, mode: str = "make") -> list[Word]:
        """Returns the command that makes these changes, or what else ``ACT`` does."""
        names = self.names
        keys = (
            names.stream, names.held, names.rejected, names.trash, names.audit, names.step(intent.operation), names.later,
            names.paused,
        )  # fmt: skip
        words: list[Word] = ["EVAL", ACT, len(keys), *keys, names.group, mode]
        words += [intent.operation, intent.step, intent.user, intent.action]
        for one in intent.changes:
            tries, _, why = one.notes.partition(" ")
            words += [one.verb, one.id, one.box, one.to, one.consumer, one.tries, one.delivered, one.data]
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
                if lost is None and not error.answer_lost:
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
        return pause_item(server, StreamChange("resume", found), now)
    record = encode_pause(Pause(user, now, reason)).decode()
    note = "Only workers of spooltop read this record: other consumers of the group go on."
    return pause_item(server, StreamChange("pause", "", to=record), now).replace(notes=(note,))


def pause_item(server: OperatorConnection, change: StreamChange, now: float) -> Candidates:
    """Pins that the queue is paused or resumed."""
    if change.verb == "pause":
        words = "Workers of spooltop claim no message until it is resumed"
    else:
        words = f"Workers of spooltop claim messages again. Paused {pause_words(_pause(change.id, now), now)}"
    return Candidates([RowItem(_row(server), change, words=words)])


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
    return set_item(server, StreamChange("set", groups[source], to=_id(look, value), consumer=source))


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


POISON = 3
"""Deliveries to consumers that died, from which on the message may be the cause."""
_NAMED_AT_MOST = 2_000
"""Messages up to which each is asked for by its id."""
_NAMED_WHY = 5
"""Reasons that are named where no claim is dead."""
_FORCEABLE = (Action.REQUEUE, Action.HOLD)
_FOR_GOOD: Mapping[StreamVerb, StreamVerb] = {
    "aside": "drop-claim", "aside-new": "drop-new", "move": "drop"
}  # fmt: skip
"""The verbs of a purge that skips the trash."""
_EFFECTS = (
    ({"hand"}, "It is handed back to the group with the same id; claimed next.",
     "They are handed back to the group with the same ids; claimed next."),
    ({"copy"}, "It is put again as a new entry, last in order.", "They are put again as new entries, last in order."),
    ({"back"},
     "It goes back to the group, with the same id where the entry still stands, else as a copy, last in order.",
     "They go back to the group, with the same id where the entry still stands, else as a copy, last in order."),
    ({"trash"}, "It moves to the trash. Undo puts it back, as a copy where the entry is gone.",
     "They move to the trash. Undo puts them back, as copies where the entry is gone."),
)  # fmt: skip
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
        pin = {Box.CUR: self._claim, Box.NEW: self._new}
        for box in boxes:
            if action is Action.REQUEUE and box is Box.NEW and not again:
                continue
            for row, entry in progress.each(self._rows(box, heads=heads, ids=_named(selection, box))):
                if (keys is not None and (box.value, entry.id) not in keys) or not matches(row):
                    unmatched[row.verdict, entry.consumer] += 1
                    continue
                named |= {row.id, row.name, entry.id}
                found = pin.get(box, self._aside)(row, entry)
                if isinstance(found, Item):
                    items.append(found)
                else:
                    refused.append(found)
            progress.found(items)
        missing = tuple(id for id in dict.fromkeys(selection.ids or ()) if id not in named)
        verbs = {ref_of(item, StreamChange).verb for item in items}
        final = bool(verbs) and verbs <= LEAVES
        notes: tuple[str, ...] = (way.words,) if verbs & {"hand", "back"} else ()
        if "copy" in verbs:
            notes = (f"{way.words} {'This' if final else 'What is put again'} has no undo.",)
        if not items and not refused and selection.verdict is Verdict.DEAD:
            notes = self._why_none_is_dead(unmatched)
        return Candidates(items, refused, notes, missing, self.poison, _effect(items, _EFFECTS), final)

    def _why_none_is_dead(self, unmatched: Mapping[tuple[Verdict | None, str], int]) -> tuple[str, ...]:
        """Says who holds the claims that are not those of the dead."""
        counts: Counter[str] = Counter()
        for (verdict, consumer), count in unmatched.items():
            one = self._judged.get(consumer)
            if verdict is not None:
                who = RUNNING if verdict is Verdict.ALIVE else verdict
                counts[f"{escape(consumer)}: {one.evidence}" if one is not None and one.ends else who] += count
        return tuple(f"{count:,} not dead: {who}." for who, count in counts.most_common(_NAMED_WHY))

    def _rows(self, box: Box, *, heads: bool, ids: Sequence[str] | None) -> Iterator[tuple[Row, PendingEntry]]:
        """Yields the messages of ``box``, each with the entry that pins it in its stream, the oldest first; those with ``ids``
        there, where these are given: a few of many are found without a search. ``heads`` False: without size and source of
        claims, which the server finds slowly."""
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
                yield row if by is None or box is Box.NEW else row.replace(owner=Owner(name=by)), one

    def _claims(self, ids: Sequence[str] | None, *, heads: bool, back: bool) -> Iterator[tuple[Row, PendingEntry]]:
        """Yields the claims of programs, or those that were handed ``back``."""
        for page in self._pages(Box.CUR, "-", ids, heads=heads):
            wanted = [one for one in page if (one.consumer in (HANDED_BACK, LATER)) is back]
            unknown = {one.consumer for one in wanted} - self._judged.keys()
            if unknown and not back:
                known = self._judge()
                self._judged |= {name: known[name] for name in unknown if name in known}
            for one in wanted:
                yield waiting_row(one) if back else claim_row(one, self._judged.get(one.consumer)), one

    def _pages(
        self, box: Box, begin: str, ids: Sequence[str] | None, *, heads: bool = True
    ) -> Iterator[list[PendingEntry]]:  # fmt: skip
        """Yields entries or claims in pages: all from ``begin`` on, or those with ``ids``."""
        if ids is None:
            yield from self._fetcher.pages(box, begin, heads=heads)
        for start in range(0, len(ids or ()), AT_ONCE):  # each is a script of its own
            spans = [self._fetcher.span(box, id, id, 1) for id in (ids or ())[start : start + AT_ONCE]]
            yield [*chain.from_iterable(self._fetcher.read(*spans, heads=heads))]

    def _claim(self, row: Row, entry: PendingEntry) -> Item | Refusal:
        warning = ""
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
            return self._away(row, entry, "aside", warning)
        tries = row.attempt or 0
        died = row.verdict is Verdict.DEAD and tries >= POISON
        self.poison += died
        why = f"delivered {tries} times, and its last consumer died"
        warning = why if died else warning
        if died and self._request.options.get("hold_poison"):
            return _item(row, entry, "aside", f"held instead: {why}", to="held", why=why)
        if row.verdict is Verdict.DEAD and tries >= MAX_ATTEMPTS:
            why = f"{tries} attempts, the limit is {MAX_ATTEMPTS}"
            return _item(row, entry, "aside", f"rejected instead: {why}", to="rejected", why=why)
        return self._copied(row, entry, warning) if self._copy else _item(row, entry, "hand", warning)

    def _copied(self, row: Row, entry: PendingEntry, warning: str = "") -> Item | Refusal:
        if self._others and not self._force:
            return Refusal(row, f"{_others(self._others)} would get the copy too", forceable=True)
        return _item(row, entry, "copy", warning, force=self._force)

    def _new(self, row: Row, entry: PendingEntry) -> Item | Refusal:
        if self._action is Action.REQUEUE:
            if entry.consumer == HANDED_BACK:
                return self._copied(row, entry)
            delayed = entry.consumer == LATER
            return Refusal(row, "it waits for the end of its delay" if delayed else "it was never delivered: it waits already")
        if entry.consumer in (HANDED_BACK, LATER):
            return self._away(row, entry, "aside")
        if self._others:
            reads = "reads" if self._others == 1 else "read"
            why = f"{_others(self._others)} {reads} this stream too: an undelivered message can be taken from all of them only"
            return Refusal(row, why)
        return self._away(row, entry, "aside-new")

    def _away(self, row: Row, entry: PendingEntry, verb: StreamVerb, warning: str = "") -> Item:
        """Pins that a message is held, or purged: into the trash, or for good."""
        if self._action is Action.PURGE and self._request.options.get("now"):
            return _item(row, entry, _FOR_GOOD[verb], warning)
        return _item(row, entry, verb, warning, to="held" if self._action is Action.HOLD else "trash")

    def _aside(self, row: Row, entry: PendingEntry) -> Item | Refusal:
        origin = entry.notes.get("~from", "")
        if self._action is Action.EMPTY:
            return _item(row, entry, "drop")
        if self._action is Action.PURGE:
            return self._away(row, entry, "move")
        if self._action is Action.RESTORE and row.box is Box.TRASH and origin in ("held", "rejected"):
            return _item(row, entry, "move", to=origin)
        return _item(row, entry, "back", to="copy" if self._copy else "", force=self._force, why=entry.notes.get("~why", ""))


def _item(
    row: Row, entry: PendingEntry, verb: StreamVerb, warning: str = "", *, to: str = "", force: bool = False, why: str = ""
) -> Item:
    """Pins a message. Redriven, its attempts count anew: whoever rejected it may have done so at a limit that we do not know."""
    tries = row.attempt or 0
    notes = f"{tries} {why}" if why or verb == "back" else ""
    anew = verb == "back" and row.box is Box.REJECTED
    change = StreamChange(
        verb, entry.id, row.box.value, to, entry.consumer, 0 if anew else tries, entry.delivered, b"force" if force else b"",
        row.id, notes,
    )  # fmt: skip
    return RowItem(row, change, warning)


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


def _effect(items: Sequence[Item], effects: Sequence[tuple[Set[str], str, str]]) -> str:
    """Says what happens, where the words for a directory would be wrong."""
    changes = (ref_of(item, StreamChange) for item in items)
    verbs = {one.to if one.to in ("copy", "trash") else one.verb for one in changes}
    return next((one if len(items) == 1 else many for known, one, many in effects if verbs and verbs <= known), "")


def _others(count: int) -> str:
    return f"{count:,} other group{'' if count == 1 else 's'}"


# The operator.


def row_of(change: StreamChange) -> Row:
    """The row of a message where it lies before ``change``."""
    box = Box(change.box) if change.box else Box.NEW
    return Row((box.value, change.id), box, change.shown, change.shown, attempt=change.tries or None)


_UNDO_EFFECTS = tuple(
    (verbs, words, words)
    for verbs, words in (
        ({"give"}, "Each claim goes back to the consumer that had it, unless it was taken since."),
        ({"copy"}, "Each message is put again as a new entry, last in order, unless it was changed since."),
        ({"back"}, "Each message is handed back to the group, claimed next, unless it was changed since."),
        ({"aside", "aside-new", "move", "trash"}, "Each message is set aside again, unless it was taken since."),
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
                StreamChange("put", "", "new", consumer=content.source or "", data=content.data(one, "", self._clock()))
                for one in range(place + 1, last + 1)
            ]
        else:
            changes = [ref_of(item, StreamChange) for item in items]
        return BatchIntent(tuple(changes), tuple(one.reverses for one in changes if one.reverses is not None))

    def _apply(self, items: Sequence[Item], intent: BatchIntent, stop: Stop) -> EndedStep[BatchChanged]:
        count = len(intent.changes)
        try:
            outcomes = self._server.perform(intent)
        except SpooltopError as error:
            if error.answer_lost:
                why = f"sent, and not answered: it is unknown if it was done; spooltop undo finds out: {error.what}"
                return EndedStep(_results(items, [Changed(Outcome.FAILED, why)] * count), None, error)
            return EndedStep((), BatchChanged((Changed(Outcome.FAILED, error.what),) * count), error)
        return EndedStep(_results(items, outcomes), BatchChanged(outcomes))

    def _fact(self, logged: LoggedChanges) -> Account:
        verbs = {change.verb for intent, _ in logged.steps.values() for change in intent.changes}
        words, one = "", next(iter(logged.first.changes), None)
        if logged.open:
            sent = sum(len(intent.changes) for intent, found in logged.steps.values() if found is None)
            words = f"{sent:,} sent and not answered: undo finds out if they were done, and reverses what was"
        elif one is not None and one.verb == "set":
            words = f"{one.consumer}: {one.id} → {one.to}"
        elif one is not None and logged.first.action is Action.UNDO:
            words = {"pause": "paused again", "resume": "resumed"}.get(one.verb, "")
        return Account(words, "nothing of it can be reversed" if verbs and verbs <= LEAVES else None)

    # Undo

    def _settle(self, operation: str) -> None:
        """Ends the batches of an operation that were cut off: what was not done by now will not be done any more."""
        logged = self._log.read(required=True, begins=operation)[0].get(operation)
        for intent, outcome in () if logged is None else logged.steps.values():
            if outcome is None:
                self._log_result(intent, BatchChanged(self._server.settled(intent, look=False)))

    def _done(self, logged: LoggedChanges) -> Iterator[tuple[BatchIntent, int, str]]:
        """Yields the changes of an operation that are known by now to be done: batch, place in it, and what became the id."""
        for intent, outcome in logged.steps.values():
            outcomes = self._server.settled(intent, look=True) if outcome is None else outcome.outcomes
            for place, one in zip(range(len(intent.changes)), outcomes, strict=False):
                if one.changed:
                    yield intent, place, one.became

    def _backwards(self, logged: LoggedChanges, undos: Sequence[LoggedChanges], request: Request, state: Look) -> Candidates:
        reversed_by = (one for undo in undos for one in self._done(undo))
        over = {at for intent, place, _ in reversed_by for at in intent.reverses[place : place + 1]}
        force = b"force" if request.force else b""
        refused: list[Refusal] = []
        found: list[StreamChange] = []
        for intent, place, became in self._done(logged):
            at, change = (intent.step, place), intent.changes[place]
            if at in over:
                continue
            if (back := inverse(change.replace(reverses=at, data=force), became)) is not None:
                found.append(back)
            else:
                why = "it was put again as a new entry: purge that" if change.verb == "copy" else "deleted permanently"
                refused.append(Refusal(row_of(change), why))
        notes = (f"{len(over):,} of {logged.first.count:,} undone already.",) if over else ()
        if len(found) == 1 and found[0].verb in ("pause", "resume", "set"):
            made = self._undo_of_one(found[0], request.at)
            return made.replace(notes=(*made.notes, *notes))
        # Consumers that only read new entries get what was set aside as such.
        if any(back.verb == "back" for back in found) and chosen_way(self._server, state, asked=False).copies:
            found = [back.replace(to="copy") if back.verb == "back" else back for back in found]
        items: list[Item] = []
        words: Counter[str] = Counter()
        request.progress.begin("messages looked at", len(found))
        for back, told in request.progress.each(zip(found, self._server.tried(found), strict=True)):
            if told.changed:
                words[told.reason] += 1
                items.append(RowItem(row_of(back), back, escape(told.reason)))
            else:
                refused.append(Refusal(row_of(back), told.reason, "would get the copy" in told.reason))
        notes = (*(f"{count:,} of {len(items):,}: {why}." for why, count in words.items() if why), *notes)
        return Candidates(items, refused, notes, effect=_effect(items, _UNDO_EFFECTS))

    def _undo_of_one(self, change: StreamChange, now: float) -> Candidates:
        told = next(self._server.tried([change]))
        if not told.changed:
            row = row_of(change) if change.verb == "set" else _row(self._server)
            return Candidates(refused=[Refusal(row, f"too late: {escape(told.reason)}")])
        return set_item(self._server, change) if change.verb == "set" else pause_item(self._server, change, now)

    def close(self) -> None:
        self._server.close()


def _results(items: Sequence[Item], outcomes: Sequence[Changed]) -> list[ItemResult]:
    # Of messages that are put, only what they became is known.
    names = [(item.id, item.name) for item in items] or [(one.became or "new",) * 2 for one in outcomes]
    return [
        ItemResult(*name, one.outcome, escape(one.reason), one.became) for name, one in zip(names, outcomes, strict=True)
    ]
