"""Destinations of messages: the box that a move leads to, and the name there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from spooltop.engine import names
from spooltop.engine.arguments import MAX_ATTEMPTS
from spooltop.model.vocabulary import ASIDE, Action, Box, Json

from ..rules import RULES

__all__ = ["Destination", "destination_of", "requeue_name"]


def requeue_name(name: names.Name, ended: str | None) -> str:
    """The name in ``new`` of a claim, or of a message that was set aside. A name without the tail of a claim stays as it is:
    flags of mail (``:2,S``) are a tail in a mail folder only. ``ended`` says how the attempt ended, None where nobody knows."""
    if name.token is None and name.pid is None:
        return name.raw
    return names.requeued_name(name, ended=ended)


class Destination(NamedTuple):
    """The target of one message. ``box`` None: it is deleted. ``name`` is its name in ``tmp`` or ``new``; a message that is set
    aside keeps its name, in a folder of the operation's own. ``blocked_by`` refuses the move, unless it is forced."""

    box: Box | None
    name: str | None = None
    warning: str = ""
    blocked_by: str = ""
    meta: Mapping[str, Json] | None = None
    """The metadata that go beside the message; None: those of the action."""


def destination_of(
    action: Action, box: Box, name: names.Name, metadata: Mapping[str, Json], *, ended: str | None, poison: str, now: bool
) -> Destination:
    """The destination of a message that is called ``name`` in ``box``. ``metadata`` are those beside it where it was set
    aside, which anybody may have written. ``ended`` says how the attempt of a claim ended, None where nobody knows. ``poison``
    says why it is held instead of requeued; ``now`` deletes what would go to the trash. A claim at the limit of attempts is
    rejected instead of requeued, as a release or a recover would do."""
    if action is Action.RESTORE:
        return _origin(box, name, metadata, ended)
    target = RULES[action].target
    if target is Box.TRASH and now:
        return Destination(None)
    if target is not Box.NEW:
        return Destination(target)
    if poison:
        return Destination(Box.HELD, warning=f"held instead: {poison}")
    if box is Box.CUR and name.own and (attempt := (name.attempts or 0) + 1) >= MAX_ATTEMPTS:
        return Destination(Box.REJECTED, warning=f"rejected instead: {attempt} attempts, the limit is {MAX_ATTEMPTS}")
    return Destination(Box.NEW, _in_new(box, name, metadata.get("origin"), ended))


def _origin(box: Box, name: names.Name, metadata: Mapping[str, Json], ended: str | None) -> Destination:
    origin = metadata.get("origin")
    if origin == Box.TMP:
        return Destination(Box.TMP, name.raw)
    if origin in (Box.NEW, Box.CUR):
        return Destination(Box.NEW, _in_new(box, name, origin, ended))
    was = metadata.get("was")
    if box is Box.TRASH and origin in (Box.HELD, Box.REJECTED):
        return Destination(Box(origin), meta=was if isinstance(was, dict) else None)
    warning = "its original box is not known: moves to new"
    # A file out of tmp may be half a message.
    blocked_by = "its original box is not known; it may be an incomplete file from tmp" if box is Box.TRASH else ""
    return Destination(Box.NEW, _in_new(box, name, None, ended), warning, blocked_by)


def _in_new(box: Box, name: names.Name, origin: Json, ended: str | None) -> str:
    if name.token is not None:
        origin = Box.CUR  # whatever lies beside it: no message in new is called as a claim
    if box is not Box.REJECTED:
        return name.raw if origin == Box.NEW and box in ASIDE else requeue_name(name, ended)
    # Redriven, its attempts count anew: whoever rejected it may have done so at a limit that we do not know.
    return names.reset_attempts(names.parse(name.raw, claimed=False) if origin == Box.NEW else name)
