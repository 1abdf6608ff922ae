"""Finds what boxes alone do not show: a state without its message, a message without its state, one id twice, a lock alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from spooltop.model.look.observation import QueueFinding
from spooltop.model.text import escape
from spooltop.model.vocabulary import Box

from .definition.layout import CrossCheck, Layout, ProblemRule
from .inside import exists, read, status
from .sort_files import QueueFile

__all__ = ["LostEntries", "findings", "locks_alone", "lost_ids", "notes_of", "read_states"]

LOCK_STALE = "lock-stale"
"""Code of the rules about locks, which are shown among the locks."""
_SMALL = 4096
_NAMED = 3
"""Ids that a sentence names."""
_SETTLED = 5.0
"""Seconds after which an entry counts: a program writes it and then its message."""


class LostEntries:
    """Entries of the registers whose messages are nowhere, look after look. A message that is moved while the directories are
    read may be in none of them, so what is missing for the first time is looked for twice."""

    def __init__(self, layout: Layout, root: int) -> None:
        self._layout = layout
        self._root = root
        self._known: dict[str, str] = {}

    def look(
        self, files: Sequence[QueueFile], states: Mapping[str, str], now: float,
        again: Callable[[], tuple[Sequence[QueueFile], Mapping[str, str]]],
    ) -> dict[str, str]:  # fmt: skip
        """Returns their texts by path. ``again`` reads the queue once more."""
        lost = {path: text for path, text in _lost(self._layout, files, states).items() if self._is_settled(path, text, now)}
        if any(self._known.get(path) != text for path, text in lost.items()):
            then = _lost(self._layout, *again())
            lost = {path: text for path, text in lost.items() if then.get(path) == text}
        self._known = lost
        return lost

    def _is_settled(self, path: str, text: str, now: float) -> bool:
        if self._known.get(path) == text:
            return True
        try:
            return abs(now - status(self._root, path).st_mtime) > _SETTLED
        except OSError:
            return False


def lost_ids(layout: Layout, lost: Mapping[str, str]) -> dict[str, str]:
    """The entries of the registers whose messages are nowhere: their paths by the id of the message."""
    return {
        fields["id"]: path for check in layout.checks for path in lost if (fields := check.template.match(path)) is not None
    }


def findings(
    layout: Layout, root: int, files: Sequence[QueueFile], lost: Mapping[str, str]
) -> tuple[QueueFinding, ...]:
    """Returns the problems of the layout, one for each rule that finds something. ``lost`` are the entries of the registers whose
    messages are nowhere, as ``LostEntries`` returns them."""
    found: list[QueueFinding] = []
    for check in layout.checks:
        found += _told(check, lost)
    for rule in layout.problems:
        if rule.same:
            found += _same(rule, files)
        elif rule.code != LOCK_STALE:
            found += _alone(rule, root, files)
    return tuple(found)


def read_states(layout: Layout, root: int, files: Sequence[QueueFile]) -> dict[str, str]:
    """Reads the registers: texts by path. What cannot be read is left out: it was removed meanwhile, or is not ours to read."""
    states = {}
    for file in files:
        if file.match is None and any(check.template.match(file.path) for check in layout.checks):
            try:
                states[file.path] = read(root, file.path, _SMALL).decode("utf-8", "replace").strip()
            except OSError:
                continue
    return states


def notes_of(layout: Layout, files: Sequence[QueueFile], states: Mapping[str, str]) -> dict[str, str]:
    """Notes on messages, by path: that their register has no entry of them."""
    notes = {}
    for check in layout.checks:
        if not check.without:
            continue
        known = {fields["id"] for path in states if (fields := check.template.match(path)) is not None}
        for file in files:
            if file.match is not None and file.match.box in ("new", "cur") and file.id not in known:
                notes[file.path] = check.without
    return notes


def _lost(layout: Layout, files: Sequence[QueueFile], states: Mapping[str, str]) -> dict[str, str]:
    """Entries whose message lies in none of the boxes that they want: their texts by path."""
    boxes = defaultdict(set)
    for file in files:
        if file.match is not None:
            boxes[file.id].add(file.match.box)
    lost = {}
    for check in layout.checks:
        for path, text in states.items():
            fields, state = check.template.match(path), _state(check, text)
            wanted = check.wants.get(state, ())
            if fields is not None and wanted and not boxes[fields["id"]].intersection(wanted):
                lost[path] = text
    return lost


def _state(check: CrossCheck, text: str) -> str:
    said = next((found for one in check.says if (found := one.match(text)) is not None), None)
    return "" if said is None else said["state"]


def _told(check: CrossCheck, lost: Mapping[str, str]) -> list[QueueFinding]:
    missing: dict[str, list[str]] = {}
    for path, text in lost.items():
        if (fields := check.template.match(path)) is not None:
            missing.setdefault(_state(check, text), []).append(fields["id"])
    return [
        QueueFinding("lost", _sentence(ids, check.missing.replace("{state}", escape(state))), len(ids), tuple(ids))
        for state, ids in missing.items()
    ]


def _same(rule: ProblemRule, files: Sequence[QueueFile]) -> list[QueueFinding]:
    seen: dict[str, list[str]] = {}
    for file in files:
        if file.match is not None and file.match.box == "new" and rule.same in file.fields:
            seen.setdefault(file.fields[rule.same], []).append(file.path)
    twice = {value: paths for value, paths in seen.items() if len(paths) > 1}
    if not twice:
        return []
    paths = [path for those in twice.values() for path in those]
    return [QueueFinding(rule.code, _sentence(list(twice), rule.text), len(twice), tuple(twice), Box.NEW, tuple(paths))]


def locks_alone(layout: Layout, root: int, files: Sequence[QueueFile]) -> dict[str, tuple[str, str]]:
    """Locks whose message is not there, by path: the path of the message, and what that means."""
    return {
        path: (beside, rule.text)
        for rule in layout.problems
        if rule.code == LOCK_STALE
        for path, beside in _left_over(rule, root, files).items()
    }


def _left_over(rule: ProblemRule, root: int, files: Sequence[QueueFile]) -> dict[str, str]:
    """Files without the one that belongs to them, whose path is the value."""
    alone = {}
    for file in files:
        fields = rule.alone.match(file.path) if rule.alone is not None else None
        if fields is None or rule.beside is None:
            continue
        beside = rule.beside.path_of(fields)
        if beside is not None and not exists(root, beside):
            alone[file.path] = beside
    return alone


def _alone(rule: ProblemRule, root: int, files: Sequence[QueueFile]) -> list[QueueFinding]:
    alone = list(_left_over(rule, root, files))
    return [QueueFinding(rule.code, _sentence(alone, rule.text), len(alone), tuple(alone))] if alone else []


def _sentence(ids: Sequence[str], text: str) -> str:
    named = ", ".join(escape(one) for one in ids[:_NAMED])
    more = f" and {len(ids) - _NAMED:,} more" if len(ids) > _NAMED else ""
    return f"{named}{more}: {text}"
