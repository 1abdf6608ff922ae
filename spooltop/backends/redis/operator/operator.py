"""Changes the messages of one group of a stream: pins what happens to each of a selection, and says which may not be changed, and
why. Everything is journalled before it is done, and can be undone after."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from functools import partial
from time import time
from typing import NamedTuple

from msgspec.structs import replace

from spooltop.engine.arguments import MAX_ATTEMPTS
from spooltop.engine.pausing import encode_pause, pause_from
from spooltop.errors import NotASpool, SpooltopError, Unavailable, Unreadable, UsageError
from spooltop.model import Capabilities, Pause, again_words, pause_words
from spooltop.model.plan import Batches, Candidates, Item, ItemResult, Outcome, Plan, Refusal, Request, RowItem, Selection
from spooltop.model.vocabulary import RUNNING, Action, Box, Clock, JsonObject, Owner, Row, Stop, Verdict, escape, json_object

from ...journal.item_operator import Account, EndedStep, ItemOperator
from ...journal.log_store import STATE_DIR, LogFiles, LogStore
from ...plan_options import InjectedContent, pause_reason
from ..client import Endpoint, ErrorReply, Reply, fields_of, list_of, number_of, text_of
from ..stream_names import HANDED_BACK, LATER, StreamNames
from ..streams.listing import PendingEntry, StreamFetcher, aside_row, claim_row, claims_of, heads_of, waiting_row
from ..streams.server import (
    CLAIMS,
    HEADS,
    ID,
    ZERO,
    JudgedMember,
    Looker,
    PidJudge,
    StreamServer,
    id_order,
    judged_consumers,
)
from .changes import (
    BATCHES,
    LEAVES,
    SOURCES,
    BatchChanged,
    BatchIntent,
    Changed,
    LoggedChanges,
    OperatorConnection,
    StepSender,
    StreamChange,
    StreamVerb,
    Word,
    can_change,
    change_of,
    check_master,
    inverse,
)
from .scripts import HANDED

# Ways to put a message back to work, and which of them the consumers of a group allow.

_AUTOCLAIMS = r"cmdstat_xautoclaim:calls=([0-9]+)"


class RequeueMethod(NamedTuple):
    """The way that was chosen. ``copies``: a message is put again as a new entry, else it is handed over to ``~spooltop`` with
    its id. ``words`` tell which it is, and why."""

    copies: bool
    words: str


def chosen_way(server: OperatorConnection, *, asked: bool, groups: int) -> RequeueMethod:
    """Chooses the best way that the consumers of the group allow. ``asked``: copies are wanted; ``groups`` are those of the
    stream. Raises as ``OperatorConnection.ask``."""
    if asked:
        return RequeueMethod(True, f"{_COPIED}, as --copy asks: consumers that only read new entries get it.")
    if _worker_is_running(server):
        return RequeueMethod(False, f"{_HANDED}: workers of spooltop take it first.")
    none = "no worker of spooltop is running in the group"
    taken = _last_was_taken(server)
    if taken:
        return RequeueMethod(False, f"{_HANDED}: {none}, but its consumers took what was handed over before.")
    if taken is None:
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
    if groups > 1:
        return RequeueMethod(
            False,
            f"{_HANDED}, but {why}: {_NEVER}. With --copy and --force it is put again as a new entry, which the other groups get "
            "too.",
        )
    return RequeueMethod(True, f"{_COPIED}: {why}, so its consumers only read new entries.")


def _worker_is_running(server: OperatorConnection) -> bool:
    """True if a worker of spooltop in the group has a lease."""
    at = "0"
    while True:
        after, flat = list_of(server.ask("look", ("HSCAN", server.names.consumers, at, "COUNT", 100))[0])
        known = [text_of(name) for name in list_of(flat)[::2]]
        if known and number_of(server.ask("look", ("EXISTS", *map(server.names.lease, known)))[0]):
            return True
        if (at := text_of(after)) == "0":
            return False


def _last_was_taken(server: OperatorConnection) -> bool | None:
    """True if consumers took some of what was handed over last, False if all of it waits and newer entries were delivered since;
    None where that is not known."""
    names = server.names
    try:
        found = [text_of(one) for one in list_of(server.run("look", HANDED, [names.audit, names.stream], [names.group]))]
    except (NotASpool, Unreadable):  # no such group, or nothing that it was asked for
        return None
    return {"taken": True, "passed": False}.get(found[0]) if found else None


_COPIED = "Each is replaced by a new entry with the old id in its field ~id, the last in order"
_HANDED = "Handed over to ~spooltop, with the same id and number of tries"
_NEVER = "consumers that only read new entries never get it"
_LATER_BY_COPY = "If it still waits later, --box new --copy puts it again as a new entry, as --copy does now."


def _autoclaim_was_seen(server: OperatorConnection) -> bool | None:
    """True if a client of this server has used XAUTOCLAIM since it was started; None where it does not tell."""
    try:
        (stats,) = server.try_all("look", ("INFO", "commandstats"))
    except SpooltopError:  # this user may not ask
        return None
    if isinstance(stats, ErrorReply):
        return None
    found = re.search(_AUTOCLAIMS, text_of(stats))
    return found is not None and int(found[1]) > 0


# Plans of what concerns the whole group: its pause, the messages that are put, and the place where it reads.

_MOST_BYTES = 16 << 20
_COUNTED = 10_000
_ID = r"([0-9]{1,20})(?:-([0-9]{1,20}))?\Z"


def pause_plan(server: OperatorConnection, request: Request, user: str) -> Candidates:
    """Pins that the queue is not paused, or for RESUME the record of its pause. Raises ``UsageError`` for a reason that is too
    long."""
    now, reason, pauses = request.at, pause_reason(request.options), request.action is Action.PAUSE
    (reply,) = server.ask("look", ("GET", server.names.paused))
    found = None if reply is None else text_of(reply)
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


def inject_plan(options: JsonObject, groups: int, now: float) -> Candidates:
    """Checks the options of test messages. Raises ``UsageError``."""
    content = InjectedContent(options, _MOST_BYTES)
    first = content.data(1, "", now)
    notes = content.first_notes(first, first)
    if groups > 1:
        notes += (f"All {groups:,} groups of this stream get it.",)
    effect = "Test messages are put at the end of the stream; running consumers claim them."
    return Candidates(notes=notes, effect=effect)


def set_plan(server: OperatorConnection, options: JsonObject) -> Candidates:
    """Pins the id last delivered to a group and the one that it gets. Options: ``source``, the group; ``value``, an id, ``0`` or
    ``$``. Raises ``UsageError``."""
    source, value = options.get("source"), options.get("value")
    if not isinstance(source, str) or not isinstance(value, (str, int)) or isinstance(value, bool):
        raise UsageError("set-cursor: which group, to what id?", advice="spooltop cursors URL --set GROUP=ID")
    groups = groups_of(server)
    row = Row(source, Box.CUR, source, server.address, source=source)
    if source not in groups:
        there = ", ".join(sorted(map(escape, groups)))
        return Candidates(refused=[Refusal(row, f"the stream has no group {escape(source)}; it has {there}")])
    return set_item(server, StreamChange(StreamVerb.SET, groups[source], to=_id(server, value), consumer=source))


def set_item(server: OperatorConnection, change: StreamChange) -> Candidates:
    """Pins that a group's last delivered id is set; says what would be delivered again or skipped."""
    group, before, after = change.consumer, change.id, change.to
    row = Row(group, Box.CUR, group, server.address, source=group)
    if before == after:
        return Candidates(refused=[Refusal(row, f"it is {after} already")])
    back = id_order(after) < id_order(before)
    first, last = (after, before) if back else (before, after)
    count, _ = _fetcher(server).skip(f"({first}", last, _COUNTED)
    many = f"{'≥ ' if count == _COUNTED else ''}{count:,} message{'' if count == 1 else 's'}"
    what = f"{many} would be delivered again" if back else f"{many} would be skipped"
    words = f"{escape(group)}: {before} → {after}"
    deleted = "Messages that were deleted meanwhile are not delivered again. " if back else ""
    notes = [f"{deleted}Claims stay as they are."]
    effect = "The group reads on after the new id. Nothing is deleted."
    return Candidates([RowItem(row, change, what, words, after)], notes=tuple(notes), effect=effect)


def _fetcher(server: OperatorConnection) -> StreamFetcher:
    return StreamFetcher(partial(server.ask, "look"), server.names, time)


def _id(server: OperatorConnection, value: str | int) -> str:
    if value == "$":
        return _fetcher(server).skip("-", "+", 1, back=True)[1] or ZERO
    found_id = re.match(_ID, str(value))
    if found_id is None:
        raise UsageError(f"set-cursor: {escape(json.dumps(value))} is no id", advice="write 1763900000123-0, 0 or $")
    return f"{int(found_id[1])}-{int(found_id[2] or 0)}"


# Messages of a group as rows, found in pages that the server answers fast.

_PAGE = 500
_HEADS = 100
"""Entries whose contents the server reads in one step."""
_TOGETHER = 25
"""Messages that are asked for by their ids at once: each is a script of its own, and nobody else is answered meanwhile."""


Judge = Callable[[], Mapping[str, JudgedMember]]
"""Judges the consumers of the group, by their names."""


class PinnedRow(NamedTuple):
    """A row, and the ``entry`` that pins it, in the stream of its box."""

    row: Row
    entry: PendingEntry

    @property
    def tries(self) -> int:
        return self.row.attempt or 0


def groups_of(server: OperatorConnection) -> dict[str, str]:
    """Returns the groups of the stream, with the id last delivered to each. Raises as ``OperatorConnection.ask``."""
    found: dict[str, str] = {}
    for one in list_of(server.ask("look", ("XINFO", "GROUPS", server.names.stream))[0]):
        facts = fields_of(one)
        found[text_of(facts.get("name"))] = text_of(facts.get("last-delivered-id"))
    return found


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
_LOST = "it may be done twice: its consumer may still be at work"


class GroupChooser:
    """Pins the messages of a group that are asked for. ``judge`` judges its consumers. Counts what may be ``poison``."""

    def __init__(self, server: OperatorConnection, judge: Judge, request: Request) -> None:
        self._server = server
        self._judge = judge
        self._ending: dict[str, str] = {}
        """Consumers that were met and are dead once their leases end, with the evidence."""
        self._request = request
        self._action = request.action
        self._force = request.force
        self._now = bool(request.options.get("now"))
        self._copy = False
        self._others = 0
        self.poison = 0

    def choose(self) -> Candidates:
        """Raises ``Refused`` for a box that the action does not apply to, ``UsageError`` for an invalid filter, ``Stopped``."""
        action, selection, progress = self._action, self._request.selection, self._request.progress
        boxes = self._request.boxes(SOURCES[action], self._server.address)
        copies = bool(self._request.options.get("copy"))
        if copies and action is not Action.REQUEUE:
            raise UsageError(f"{action}: --copy is for a requeue", advice="leave it out")
        again = action is Action.REQUEUE and selection.box is Box.NEW  # of what was handed back, and nobody takes
        if selection.empty:
            return Candidates()
        groups = len(groups_of(self._server))
        way = chosen_way(self._server, asked=again or copies, groups=groups)
        self._copy, self._others = way.copies, groups - 1
        items: list[Item] = []
        refused: list[Refusal] = []
        named: set[str] = set()
        unmatched: Counter[tuple[Verdict | None, str]] = Counter()
        keys = None if selection.keys is None else frozenset(map(_place, selection.keys))
        matches = replace(selection, keys=None).matcher(self._request.at)
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
        verbs = {change_of(item).verb for item in items}
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
            why = self._ending.get(consumer)
            if verdict is not None:
                counts[f"{escape(consumer)}: {why}" if why else {Verdict.ALIVE: RUNNING}.get(verdict, verdict.value)] += count
        return tuple(f"{count:,} not dead: {who}." for who, count in counts.most_common(_NAMED_WHY))

    def _pinned(self, box: Box, *, heads: bool = True, ids: Sequence[str] | None = None) -> Iterator[PinnedRow]:
        """Yields the messages of ``box``, the oldest first; those with ``ids`` in its stream, where these are given: a few of
        many are found without a search. ``heads`` False: without size and source of claims, which the server finds slowly."""
        wanted = None if ids is None else sorted((id for id in ids if ID.match(id)), key=id_order)
        if box in (Box.CUR, Box.NEW):
            yield from self._claims(wanted, heads=heads, back=box is Box.NEW)
        begin = "-"
        if box is Box.NEW:
            last = groups_of(self._server)[self._server.names.group]
            wanted = None if wanted is None else [id for id in wanted if id_order(id) > id_order(last)]
            begin = f"({last}"
        if box is not Box.CUR:
            key = self._server.names.of_box(box)
            for page in self._pages(HEADS, lambda *span: ("XRANGE", key, *span[:2], "COUNT", span[2]), begin, _HEADS, wanted):
                for one in heads_of(page):
                    row = waiting_row(one) if box is Box.NEW else aside_row(box, one)
                    by = one.notes.get("~by")  # a selection may name who set it aside
                    yield PinnedRow(row if by is None or box is Box.NEW else replace(row, owner=Owner(name=by)), one)

    def _claims(self, ids: Sequence[str] | None, *, heads: bool, back: bool) -> Iterator[PinnedRow]:
        """Yields the claims of programs, or those that were handed ``back``."""
        judged: dict[str, JudgedMember] = {}
        words = ("heads" if heads else "", "XPENDING", self._server.names.stream, self._server.names.group)
        for page in self._pages(CLAIMS, lambda *span: (*words, *span), "-", _HEADS if heads else _PAGE, ids):
            wanted = [one for one in claims_of(page) if (one.consumer in (HANDED_BACK, LATER)) is back]
            unknown = {one.consumer for one in wanted} - judged.keys()
            if unknown and not back:
                known = self._judge()
                judged |= {name: known[name] for name in unknown if name in known}
                self._ending |= {name: one.evidence for name, one in judged.items() if one.ends}
            for one in wanted:
                yield PinnedRow(waiting_row(one) if back else claim_row(one, judged.get(one.consumer)), one)

    def _pages(
        self, script: str, words: Callable[[str, str, int], Sequence[Word]], first: str, count: int, ids: Sequence[str] | None
    ) -> Iterator[list[Reply]]:
        """Yields what a script returns with the ``words`` for a range of ids and a number, in pages: all from ``first`` on, or
        those with ``ids``."""
        if ids is not None:
            for start in range(0, len(ids), _TOGETHER):
                spans = [words(id, id, 1) for id in ids[start : start + _TOGETHER]]
                pages = self._server.ask("look", *(("EVAL", script, 1, self._server.names.stream, *span) for span in spans))
                yield [one for page in pages for one in list_of(page)]
            return
        while True:
            page = list_of(self._server.run("look", script, [self._server.names.stream], words(first, "+", count)))
            if page:
                yield page
                first = f"({text_of(list_of(page[-1])[0])}"
            if len(page) < count:
                return

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
        return RowItem(row, replace(back, tries=0) if row.box is Box.REJECTED else back)


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
    verbs = {StreamVerb.COPY if one.to == "copy" else one.verb for one in map(change_of, items)}
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
AT_ONCE = 25
"""Changes in one step of the server, which answers nobody else meanwhile: some 40 µs each."""


class StreamOperator(ItemOperator[BatchIntent, BatchChanged, None]):
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
        self._endpoint = endpoint
        self._judge = judge

    def _judged(self) -> Mapping[str, JudgedMember]:
        """Judges consumers as the views do, by a look of its own. Raises ``Unavailable``."""
        server = StreamServer(self._endpoint)
        try:
            return judged_consumers(Looker(server, self._server.names).look(), self._judge)
        except Unavailable as trouble:
            raise Unavailable(f"look: {trouble.what}", path=self._path, advice=trouble.advice) from None
        finally:
            server.close()

    def capabilities(self) -> Capabilities:
        """Returns what may be done, asked of the server."""
        return can_change(self._server)

    def _choose(self, request: Request, state: None) -> Candidates:
        match request.action:
            case Action.INJECT:
                return inject_plan(request.options, len(groups_of(self._server)), self._clock())
            case Action.SET_CURSOR:
                return set_plan(self._server, request.options)
            case Action.PAUSE | Action.RESUME:
                return pause_plan(self._server, request, self._user)
        return GroupChooser(self._server, self._judged, request).choose()

    def perform(self, plan: Plan, stop: Stop = lambda: False) -> Batches:
        """Raises ``Refused`` for what was performed already and on a replica, ``AuditFailed``, and what the server refuses: then
        that batch was not done. What was sent and not answered is in the results, and raises ``Unavailable`` after them."""
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
            changes = [change_of(item) for item in items]
        reverses = tuple(one.reverses for one in changes if one.reverses is not None)
        return BatchIntent(tuple(changes), reverses)

    def _recorded(self, intent: BatchIntent) -> BatchIntent:
        return intent.checked()

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

    def _backwards(self, logged: LoggedChanges, undos: Sequence[LoggedChanges], request: Request, state: None) -> Candidates:
        over = {
            place
            for undo in undos
            for intent, outcomes in self._ended(undo)
            for place, one in zip(intent.reverses, outcomes, strict=False)
            if one.outcome is Outcome.DONE
        }
        found = [
            (change, None if (back := inverse(change, one.became)) is None else replace(back, reverses=(intent.step, place)))
            for intent, outcomes in self._ended(logged)
            for place, (change, one) in enumerate(zip(intent.changes, outcomes, strict=False))
            if one.outcome is Outcome.DONE and (intent.step, place) not in over
        ]
        notes = (f"{len(over):,} of {logged.first.count:,} undone already.",) if over else ()
        single = found[0][1] if len(found) == 1 else None
        if single is not None and single.verb in (StreamVerb.PAUSE, StreamVerb.RESUME, StreamVerb.SET):
            made = self._undo_of_one(single, request.at)
            return replace(made, notes=(*made.notes, *notes))
        copies = self._copies_only([back for _, back in found])
        forced = b"force" if request.force else b""
        items: list[Item] = []
        refused: list[Refusal] = []
        words: Counter[str] = Counter()
        request.progress.begin("messages looked at", len(found))
        for start in range(0, len(found), AT_ONCE):
            some = [
                (done, back and replace(back, data=forced, to="copy" if copies and back.verb is StreamVerb.BACK else back.to))
                for done, back in found[start : start + AT_ONCE]
            ]
            request.progress.advance(len(some))
            answers = iter(self._server.tried([back for _, back in some if back is not None]))
            for done, back in some:
                if back is None:
                    refused.append(Refusal(row_of(done), _why_not(done)))
                elif (told := next(answers)).outcome is not Outcome.DONE:
                    refused.append(Refusal(row_of(back), told.reason, "would get the copy" in told.reason))
                else:
                    words[told.reason] += 1
                    items.append(RowItem(row_of(back), back, escape(told.reason)))
        notes = (*(f"{count:,} of {len(items):,}: {why}." for why, count in words.items() if why), *notes)
        return Candidates(items, refused, notes, effect=_effect(items, _UNDO_EFFECTS))

    def _copies_only(self, changes: Sequence[StreamChange | None]) -> bool:
        """True where something was set aside that must be put again as new entries: consumers only read those."""
        if not any(change is not None and change.verb is StreamVerb.BACK for change in changes):
            return False
        return chosen_way(self._server, asked=False, groups=len(groups_of(self._server))).copies

    def _undo_of_one(self, change: StreamChange, now: float) -> Candidates:
        told = self._server.tried([change])[0]
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
