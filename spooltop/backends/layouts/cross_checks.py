"""Finds what boxes alone do not show: a state without its message, a message without its state, one id twice, a lock alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from spooltop.model.look.observation import QueueFinding
from spooltop.model.text import escape
from spooltop.model.vocabulary import Box

from .definition.layout import CrossCheck, Layout, ProblemRule
from .inside import exists, read
from .sort_files import QueueFile

__all__ = ["findings", "notes_of", "read_states"]

_SMALL = 4096
_NAMED = 3
"""Ids that a sentence names."""


def findings(layout: Layout, root: int, files: Sequence[QueueFile], states: Mapping[str, str]) -> tuple[QueueFinding, ...]:
    """Returns the problems of the layout, one for each rule that finds something. ``states`` are the texts of the registers by
    path, as ``read_states`` reads them."""
    found: list[QueueFinding] = []
    for check in layout.checks:
        found += _lost(check, files, states)
    for rule in layout.problems:
        found += _same(rule, files) if rule.same else _alone(rule, root, files)
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


def _lost(check: CrossCheck, files: Sequence[QueueFile], states: Mapping[str, str]) -> list[QueueFinding]:
    """Entries of the register whose message lies in none of the boxes that they want."""
    boxes = defaultdict(set)
    for file in files:
        if file.match is not None:
            boxes[file.id].add(file.match.box)
    missing: dict[str, list[str]] = {}
    for path, text in states.items():
        fields = check.template.match(path)
        said = next((found for one in check.says if (found := one.match(text)) is not None), None)
        if fields is None or said is None:
            continue
        wanted = check.wants.get(said["state"], ())
        if wanted and not boxes[fields["id"]].intersection(wanted):
            missing.setdefault(said["state"], []).append(fields["id"])
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


def _alone(rule: ProblemRule, root: int, files: Sequence[QueueFile]) -> list[QueueFinding]:
    alone = []
    for file in files:
        fields = rule.alone.match(file.path) if rule.alone is not None else None
        if fields is None or rule.beside is None:
            continue
        beside = rule.beside.path_of(fields)
        if beside is not None and not exists(root, beside):
            alone.append(file.path)
    return [QueueFinding(rule.code, _sentence(alone, rule.text), len(alone), tuple(alone))] if alone else []


def _sentence(ids: Sequence[str], text: str) -> str:
    named = ", ".join(escape(one) for one in ids[:_NAMED])
    more = f" and {len(ids) - _NAMED:,} more" if len(ids) > _NAMED else ""
    return f"{named}{more}: {text}"
