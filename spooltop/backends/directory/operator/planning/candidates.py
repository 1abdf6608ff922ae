"""Makes a pinned list of a selection: the messages that are meant, which of them may go, and why the others may not.

It works by columns of a thousand messages. Messages whose names have one form, with one verdict, go the same way, which is
decided once; a message with anything unusual about its file or its id is decided by itself.
"""

from __future__ import annotations

import stat
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

from spooltop.engine.dirs import SpoolDirs
from spooltop.errors import Refused
from spooltop.model.filters.selection import Selection
from spooltop.model.operations.chunked import column_of, columns_of, expand
from spooltop.model.operations.plan import Candidates, Progress, Refusal
from spooltop.model.vocabulary import Action, Box, Json, Verdict

from ..rules import RULES
from .chunks import Selected
from .decision import Decider, Decision, Remark
from .packed_items import KEEP, Message, PackedItems, TargetColumns
from .plan_notes import Tally, notes_of
from .same_ids import SameIds
from .selected import Look, SelectedMessages

__all__ = ["find_candidates"]

_HELD = frozenset({Verdict.ALIVE.value, Verdict.WRITING.value})
_ASKED = _HELD | {Verdict.UNKNOWN.value}
"""Verdicts with which it may depend on the holder what is done."""


def find_candidates(
    dirs: SpoolDirs,
    look: Look,
    action: Action,
    selection: Selection,
    *,
    force: bool,
    now: float,
    options: Mapping[str, Json],
    half_moved: frozenset[int],
    process_here: Callable[[int, str | None, float], str],
    progress: Progress,
) -> Candidates:
    """Pins the messages of ``selection``. ``half_moved`` are inodes that may have a second name, which the first change takes
    away; ``process_here`` as in ``Decider``.

    Raises ``Refused`` for a box that ``action`` does not apply to, ``UsageError`` for a filter that makes no sense,
    ``Unreadable`` where nothing was found and a box could not be read, ``Stopped``.
    """
    rule = RULES[action]
    if selection.box is not None and selection.box not in rule.sources:
        advice = f"choose {', '.join(sorted(rule.sources))}"
        raise Refused(f"{action} is not possible for messages in {selection.box}", path=dirs.path, advice=advice)
    if selection.empty:
        return Candidates(())
    selected = SelectedMessages(dirs, look, selection, rule.sources, now=now, progress=progress)
    to_new = action is Action.RESTORE or rule.target is Box.NEW
    same_ids = SameIds(dirs, selected.names, progress, to_new=to_new)
    by_now = bool(options.get("now"))
    decider = Decider(dirs.path, action, by_now, bool(options.get("hold_poison")), same_ids, half_moved, process_here)
    items = PackedItems()
    refused: list[Refusal] = []
    remarks: Counter[Remark] = Counter()
    disk_bytes = 0
    for found in selected:
        keys = _classes(found, same_ids)
        decided = {key: _decide(decider, found, place) for key, place in _first(keys)}
        kept = {key: not one.blocked_by or (one.forceable and force) for key, one in decided.items()}
        if not all(kept.values()):
            mask = [kept[key] for key in keys]
            for place in (place for place, goes in enumerate(mask) if not goes):
                decision = _decide(decider, found, place)
                refused.append(Refusal(found.messages.message(place).row, decision.blocked_by, decision.forceable))
            found, keys = found.only(mask), [key for key in keys if kept[key]]
            if not keys:
                continue
        for key, count in Counter(keys).items():
            remarks.update(dict.fromkeys(decided[key].remarks, count))
        moves = {key: _move(found.messages.message(place), decided[key]) for key, place in _first(keys)}
        items.add(found.messages, TargetColumns._make(columns_of([moves[key] for key in keys])), found.since)
        progress.found(items)
        disk_bytes += sum(found.blocks) * 512
    deletes = rule.target is None or by_now
    refused += selected.refused
    notes = notes_of(Tally(action, selection.box, deletes, len(items), disk_bytes, selected.without_age, remarks))
    notes += tuple(f"{error.what}: its messages are not in this plan." for error in selected.unread)
    return Candidates(items.as_list(), refused, notes, selected.missing, remarks[Remark.POISON])


def _classes(found: Selected, same_ids: SameIds) -> Sequence[Hashable]:
    """A key for each message: messages with one key go the same way, each from and to its own name. A message with anything
    unusual about it has its place as its key."""
    messages, forms = found.messages, found.forms
    count = messages.length
    has_token = [tail[:1] for tail in forms.tails]
    metadata = list(map(id, found.metadata))
    moves_to = [owner and owner[-1] for owner in messages.owner]
    columns = (
        forms.id_ends, forms.attributes, has_token, messages.box, messages.verdict, messages.folder, metadata, moves_to,
    )  # fmt: skip
    varying = [column for column in map(column_of, columns) if isinstance(column, list)]
    keys: list[Hashable] = list(zip(*varying, strict=True)) if varying else [()] * count
    regular = all(map(stat.S_ISREG, set(messages.mode)))
    if regular and messages.nlink == (1,) and 0 not in forms.id_ends and _ASKED.isdisjoint(messages.verdict) and not same_ids:
        return keys
    modes, links, verdicts = (expand(column, count) for column in (messages.mode, messages.nlink, messages.verdict))
    rows = zip(modes, links, verdicts, forms.id_ends, messages.ids, forms.tails, strict=True)
    for place, (mode, nlink, verdict, id_end, of_message, tail) in enumerate(rows):
        if verdict == Verdict.UNKNOWN.value and tail[:1] == ",":
            keys[place] = keys[place], tail.partition(".")[0]  # each consumer for itself
        if not (stat.S_ISREG(mode) and nlink == 1 and id_end) or verdict in _HELD or of_message in same_ids:
            keys[place] = place
    return keys


def _first(keys: Sequence[Hashable]) -> Iterable[tuple[Hashable, int]]:
    """Returns each key with the place of the first message that has it."""
    return dict(zip(reversed(keys), range(len(keys) - 1, -1, -1), strict=True)).items()


def _decide(decider: Decider, found: Selected, place: int) -> Decision:
    message = found.messages.message(place)
    metadata: Mapping[str, Any] = found.metadata[place if isinstance(found.metadata, list) else 0]
    return decider.decide(message.row, message.parsed, metadata, message.found)


def _move(message: Message, decision: Decision) -> tuple[Any, ...]:
    """The members of ``TargetColumns`` for a message, and for all others that are decided with it."""
    box, name, _, _, meta = decision.destination
    target, to, kept, suffix = None, None if box is None else box.value, 0, ""
    if box is not None and name is not None:
        target, to = to, None
        if name == message.name:
            kept = KEEP
        elif message.id_end and name.startswith(message.name[: message.id_end]):
            kept, suffix = message.id_end, name[message.id_end :]
        else:
            suffix = name
    return target, "", kept, suffix, None if meta is None else dict(meta), to, decision.warning
