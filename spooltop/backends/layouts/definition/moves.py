"""Moves of messages by the actions of a layout: where they lead, and the way back from a folder of held messages.

Each is tried on sample paths, since a template says which names it takes and not from where.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence

from .filling import Filling
from .layout import LayoutAction, Match, Step
from .templates import InvalidTemplate, Template

__all__ = ["lost_move", "release_of"]


def lost_move(action: LayoutAction, matches: Sequence[Match]) -> str:
    """Says where ``action`` moves a message to a folder that no match names; empty where it does not."""
    for match in _from(action, matches):
        for to in _targets(action, match):
            folder = os.path.dirname(_moved(match, to))
            if not any(_takes(one, folder) for one in matches):
                where = "a folder that no [[match]] names: nobody would see it there"
                return f"{action.name} moves {match.template.text} to {to.text}, {where}"
    return ""


def _takes(match: Match, folder: str) -> bool:
    named = os.path.dirname(match.template.text.removesuffix("/"))
    return Template.parse(named).match(folder) is not None if named and folder else named == folder


def release_of(actions: Sequence[LayoutAction], matches: Sequence[Match]) -> LayoutAction | str | None:
    """The release of messages that a hold has moved to a folder of the queue's own: the same rename, the other way round. A text
    says why there is none; None where no hold moves them so."""
    ways: dict[str, Filling] = {}
    for action in actions:
        for match in _from(action, matches) if action.name == "hold" else ():
            for to in _targets(action, match):
                if [step.verb for step in action.steps] != ["rename"]:
                    return f"no release: hold does more than the rename to {to.text}, which alone can be turned round"
                held = next((one for one in matches if one.template.match(_moved(match, to))), None)
                if held is None:
                    return f"no release: {_moved(match, to)}, as hold names a message, fits no [[match]]"
                if held.box != "held":
                    return f"no release: {to.text} is a place of {held.box} messages"
                back = next((way for way in _ways(match, held) if _leads_back(match, to, held, way)), None)
                if back is None:
                    return f"no release: the name in {to.text} does not tell its place in {match.template.text}"
                ways[back.text] = back
    if len(ways) > 1:
        return f"no release: the place of a held message may be {' or '.join(ways)}"
    path = Filling.path("{path}")
    return next((LayoutAction("release", ("held",), (Step("rename", (path, back)),)) for back in ways.values()), None)


def _from(action: LayoutAction, matches: Sequence[Match]) -> list[Match]:
    return [match for match in matches if match.box in action.boxes]


def _targets(action: LayoutAction, match: Match) -> list[Filling]:
    """The paths to which ``action`` renames a message of ``match``."""
    path = match.template.sample()
    return [
        step.words[1] for step in action.steps if step.verb == "rename" and step.words[0].fill(_fields(match, path)) == path
    ]


def _fields(match: Match, path: str) -> dict[str, str]:
    return {**(match.template.match(path) or {}), "path": path, "name": os.path.basename(path)}


def _moved(match: Match, to: Filling, *, other: bool = False) -> str:
    path = match.template.sample(other)
    return to.fill(_fields(match, path), now=1.8e9, next_number=lambda piece: 7)


def _ways(match: Match, held: Match) -> Iterator[Filling]:
    """The paths that a held message may have had: of the same pieces, or of the same name in the same folder."""
    folder = match.template.text.rpartition("/")[0]
    for text in (re.sub(r":[^{}]*\}", "}", match.template.text), f"{folder}/{{name}}" if folder else "{name}"):
        try:
            yield Filling.path(re.sub(r":[^{}]*\}", "}", text), tuple(held.template.types))
        except InvalidTemplate:
            continue  # it has a piece that the name of a held message lacks


def _leads_back(match: Match, to: Filling, held: Match, back: Filling) -> bool:
    for other in (False, True):
        path = _moved(match, to, other=other)
        if held.template.match(path) is None or back.fill(_fields(held, path)) != match.template.sample(other):
            return False
    return True
