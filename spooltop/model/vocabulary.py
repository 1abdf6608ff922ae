"""Boxes, verdicts, owners, actions: the words every floor uses."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

__all__ = ["ASIDE", "DIED", "LIVE", "Action", "Box", "Json", "Key", "Owner", "Ref", "Verdict"]

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

Key: TypeAlias = Hashable
"""What stays the same while a message is listed: marks and the cursor are kept by it. Opaque above the backends."""

Ref: TypeAlias = Hashable
"""A message pinned by identity in a plan (in a directory box: name, inode, size, ctime). Opaque above the backends."""


class Box(StrEnum):
    """Where a message stands."""

    TMP = "tmp"
    NEW = "new"
    CUR = "cur"
    HELD = "held"
    REJECTED = "rejected"
    TRASH = "trash"

    __hash__ = str.__hash__  # equal to its word, and found by it; and without a call into Python


DIED = "died"
"""How an attempt ended whose consumer did not end it: ``recover`` or an operator took the claim away."""
LIVE = (Box.TMP, Box.NEW, Box.CUR)
ASIDE = (Box.HELD, Box.REJECTED, Box.TRASH)


class Verdict(StrEnum):
    """Of a claim ALIVE, DEAD or UNKNOWN; of a file in ``tmp`` WRITING, ABANDONED or UNKNOWN. Never by age alone."""

    ALIVE = "alive"
    DEAD = "dead"
    UNKNOWN = "unknown"
    WRITING = "writing"
    ABANDONED = "abandoned"

    __hash__ = str.__hash__


class Action(StrEnum):
    """What an operation does. A kind of spool says by ``Capabilities`` which of them it has."""

    REQUEUE = "requeue"
    PURGE = "purge"
    INJECT = "inject"
    HOLD = "hold"
    RELEASE = "release"
    RESTORE = "restore"
    EMPTY = "empty"
    UNDO = "undo"
    SET_CURSOR = "set-cursor"
    UNLOCK = "unlock"

    __hash__ = str.__hash__


@dataclass(frozen=True, slots=True)
class Owner:
    """Who holds a claim or writes a file, as far as its name or its presence file tells; ``start`` in epoch seconds."""

    host: str | None = None
    pid: int | None = None
    start: float | None = None
    command: str | None = None
    user: str | None = None
