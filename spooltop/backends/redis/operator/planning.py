"""Pins the messages of a selection: what happens to each, which may not be changed, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from spooltop.engine.arguments import MAX_ATTEMPTS
from spooltop.errors import Refused, UsageError
from spooltop.model.filters.selection import Selection
from spooltop.model.operations.plan import Candidates, Item, Progress, Refusal
from spooltop.model.queue import again_words
from spooltop.model.text import escape
from spooltop.model.vocabulary import RUNNING, Action, Box, Json, Verdict
from spooltop.records import replace

from ..stream_names import StreamNames
from .changes import LEAVES, StreamChange, StreamVerb
from .connection import OperatorConnection
from .handing import Way, chosen_way
from .permission import SOURCES
from .rows import HANDED_BACK, WAITING, GroupRows, PinnedRow, groups_of

__all__ = ["GroupChooser"]

POISON = 3
"""Deliveries to consumers that died, from which on the message may be the cause."""
_NAMED_AT_MOST = 2_000
"""Messages up to which each is asked for by its id."""
_NAMED_WHY = 5
"""Reasons that are named where no claim is dead."""
_FORCEABLE = (Action.REQUEUE, Action.HOLD)
_LOST = "it may be done twice: its consumer may still be at work"


class GroupChooser:
    """Pins messages of a group for one plan, made at ``at``."""

    def __init__(self, server: OperatorConnection, names: StreamNames, rows: GroupRows, *, at: float) -> None:
        self._server = server
        self._names = names
        self._rows = rows
        self._at = at

    def choose(
        self, action: Action, selection: Selection, *, force: bool, options: Mapping[str, Json], progress: Progress
    ) -> Candidates:
        """Raises ``Refused`` for a box that ``action`` does not apply to, ``UsageError`` for an invalid filter, ``Stopped``."""
        sources = SOURCES[action]
        if selection.box is not None and selection.box not in sources:
            advice = f"choose {', '.join(sorted(sources))}"
            raise Refused(f"{action} is not possible for messages in {selection.box}", path=self._server.address, advice=advice)
        if options.get("copy") and action is not Action.REQUEUE:
            raise UsageError(f"{action}: --copy is for a requeue", advice="leave it out")
        again = action is Action.REQUEUE and selection.box is Box.NEW  # of what was handed back, and nobody takes
        if selection.empty:
            return Candidates(())
        groups = len(groups_of(self._server, self._names))
        way = chosen_way(self._server, self._names, asked=again or bool(options.get("copy")), groups=groups)
        maker = _ChangeMaker(self._server.address, action, force=force, options=options, groups=groups, way=way)
        items: list[Item] = []
        refused: list[Refusal] = []
        named: set[str] = set()
        unmatched: Counter[tuple[Verdict | None, str]] = Counter()
        wanted = replace(selection, keys=None)
        keys = None if selection.keys is None else frozenset(map(_place, selection.keys))
        matches = wanted.matcher(self._at)
        heads = bool(selection.filter or selection.source is not None or selection.named)
        progress.begin("messages looked at")
        unnamed = tuple(box for box in sources if not (action is Action.REQUEUE and box is Box.NEW))
        for box in unnamed if selection.box is None else (selection.box,):
            for pinned in progress.each(self._rows.of(box, heads=heads, ids=_named(selection, box))):
                row = pinned.row
                if (keys is not None and (row.box.value, pinned.id) not in keys) or not matches(row):
                    unmatched[row.verdict, pinned.consumer] += 1
                    continue
                named |= {row.id, row.name, pinned.id}
                found = maker.made(pinned)
                if isinstance(found, Item):
                    items.append(found)
                else:
                    refused.append(found)
            progress.found(items)
        missing = tuple(id for id in dict.fromkeys(selection.ids or ()) if id not in named)
        verbs = {_change_of(item).verb for item in items}
        final = bool(verbs) and verbs <= LEAVES
        to_work = bool(verbs & {StreamVerb.HAND, StreamVerb.COPY, StreamVerb.BACK})
        notes: tuple[str, ...] = (way.words,) if to_work else ()
        if StreamVerb.COPY in verbs:
            notes = (f"{way.words} {'This' if final else 'What is put again'} has no undo.",)
        if not items and not refused and selection.verdict is Verdict.DEAD:
            notes = self._why_none_is_dead(unmatched)
        return Candidates(items, refused, notes, missing, maker.poison, _effect(action, items, options), final)


    def _why_none_is_dead(self, unmatched: Mapping[tuple[Verdict | None, str], int]) -> tuple[str, ...]:
        """Says who holds the claims that are not those of the dead."""
        counts: Counter[str] = Counter()
        for (verdict, consumer), count in unmatched.items():
            why = self._rows.ending.get(consumer)
            if verdict is not None:
                counts[f"{escape(consumer)}: {why}" if why else {Verdict.ALIVE: RUNNING}.get(verdict, verdict.value)] += count
        return tuple(f"{count:,} not dead: {who}." for who, count in counts.most_common(_NAMED_WHY))


class _ChangeMaker:
    """Makes the change of each message of the queue ``address``. ``groups`` are those of the stream; ``way`` is how it goes back
    to work. Counts what may be ``poison``."""

    def __init__(self, address: str, action: Action, *, force: bool, options: Mapping[str, Json], groups: int, way: Way) -> None:
        self._address = address
        self._action = action
        self._force = force
        self._now = bool(options.get("now"))
        self._copy = way.copies
        self._hold_poison = bool(options.get("hold_poison"))
        self._others = groups - 1
        self.poison = 0

    def made(self, pinned: PinnedRow) -> Item | Refusal:
        row = pinned.row
        if row.box is Box.CUR:
            return self._claim(pinned)
        if row.box is Box.NEW:
            return self._new(pinned)
        return self._aside(pinned)

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
                return Refusal(row, again_words(self._address, row.owner.moves_to), forceable=True)
            warning = f"it may be in {escape(row.owner.moves_to)} as well"
        elif row.verdict is Verdict.UNKNOWN:
            warning = _LOST
        if self._action is not Action.REQUEUE:
            return Item(row, self._away(pinned), warning)
        died = row.verdict is Verdict.DEAD and pinned.tries >= POISON
        self.poison += died
        why = f"delivered {pinned.tries} times, and its last consumer died"
        warning = why if died else warning
        if died and self._hold_poison:
            return Item(row, _pin(pinned, StreamVerb.ASIDE, to="held", notes=why), f"held instead: {why}")
        if row.verdict is Verdict.DEAD and pinned.tries >= MAX_ATTEMPTS:
            why = f"{pinned.tries} attempts, the limit is {MAX_ATTEMPTS}"
            return Item(row, _pin(pinned, StreamVerb.ASIDE, to="rejected", notes=why), f"rejected instead: {why}")
        if not self._copy:
            return Item(row, _pin(pinned, StreamVerb.HAND), warning)
        return self._copied(pinned, warning)

    def _copied(self, pinned: PinnedRow, warning: str) -> Item | Refusal:
        if self._others and not self._force:
            return Refusal(pinned.row, f"{_others(self._others)} would get the copy too", forceable=True)
        return Item(pinned.row, _pin(pinned, StreamVerb.COPY, force=self._force), warning)

    def _new(self, pinned: PinnedRow) -> Item | Refusal:
        if self._action is Action.REQUEUE:
            if pinned.consumer == HANDED_BACK:
                return self._copied(pinned, "")
            delayed = pinned.consumer == WAITING
            why = "it waits for the end of its delay" if delayed else "it was never delivered: it waits already"
            return Refusal(pinned.row, why)
        if pinned.consumer in (HANDED_BACK, WAITING):
            return Item(pinned.row, self._away(pinned))
        if self._others:
            reads = "reads" if self._others == 1 else "read"
            why = f"{_others(self._others)} {reads} this stream too: an undelivered message can be taken from all of them only"
            return Refusal(pinned.row, why)
        verb = StreamVerb.DROP_NEW if self._now and self._action is Action.PURGE else StreamVerb.ASIDE_NEW
        return Item(pinned.row, _pin(pinned, verb, to="" if verb is StreamVerb.DROP_NEW else self._box()))

    def _away(self, pinned: PinnedRow) -> StreamChange:
        if self._action is Action.PURGE and self._now:
            return _pin(pinned, StreamVerb.DROP_CLAIM)
        return _pin(pinned, StreamVerb.ASIDE, to=self._box())

    def _box(self) -> str:
        return "held" if self._action is Action.HOLD else "trash"

    def _aside(self, pinned: PinnedRow) -> Item | Refusal:
        row = pinned.row
        if self._action is Action.EMPTY or (self._action is Action.PURGE and self._now):
            return Item(row, _pin(pinned, StreamVerb.DROP))
        if self._action is Action.PURGE:
            return Item(row, _pin(pinned, StreamVerb.MOVE, to="trash"))
        if self._action is Action.RESTORE and row.box is Box.TRASH and pinned.origin in ("held", "rejected"):
            return Item(row, _pin(pinned, StreamVerb.MOVE, to=pinned.origin))
        back = _pin(pinned, StreamVerb.BACK, to="copy" if self._copy else "", force=self._force, notes=row.reason)
        # Redriven, its attempts count anew: whoever rejected it may have done so at a limit that we do not know.
        return Item(row, replace(back, tries=0) if row.box is Box.REJECTED else back)


def _pin(pinned: PinnedRow, verb: StreamVerb, *, to: str = "", force: bool = False, notes: str = "") -> StreamChange:
    row, forced = pinned.row, b"force" if force else b""
    noted = f"{pinned.tries} {notes}" if notes or verb is StreamVerb.BACK else ""
    return StreamChange(
        verb, pinned.id, row.box.value, to, pinned.consumer, pinned.tries, pinned.delivered, forced, row.id, noted
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


def _change_of(item: Item) -> StreamChange:
    if not isinstance(item.ref, StreamChange):
        raise TypeError(f"not a message that was pinned: {item.ref!r}")
    return item.ref


def _copies(change: StreamChange) -> bool:
    return change.verb is StreamVerb.COPY or change.to == "copy"


def _others(count: int) -> str:
    return f"{count:,} other group{'' if count == 1 else 's'}"


def _effect(action: Action, items: list[Item], options: Mapping[str, Json]) -> str:
    """Says what happens, where the words for a directory would be wrong."""
    if not items:
        return ""
    verbs = {_change_of(item).verb for item in items}
    one = len(items) == 1
    if verbs == {StreamVerb.HAND}:
        return f"{'It is' if one else 'They are'} handed back to the group with the same id{'' if one else 's'}; claimed next."
    if verbs <= {StreamVerb.COPY, StreamVerb.BACK} and all(_copies(_change_of(item)) for item in items):
        return f"{'It is' if one else 'They are'} put again as {'a new entry' if one else 'new entries'}, last in order."
    if verbs == {StreamVerb.BACK}:
        goes = "It goes" if one else "They go"
        return f"{goes} back to the group, with the same id where the entry still stands, else as a copy, last in order."
    if action is Action.PURGE and not options.get("now") and verbs <= {StreamVerb.ASIDE, StreamVerb.ASIDE_NEW, StreamVerb.MOVE}:
        goes = "It moves" if one else "They move"
        back = "it back, as a copy" if one else "them back, as copies"
        return f"{goes} to the trash. Undo puts {back} where the entry is gone."
    return ""
