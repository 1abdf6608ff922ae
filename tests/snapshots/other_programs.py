"""Queues of other programs in the pictures: stored ones that the programs made, seen at a fixed time on a machine where none of
their workers runs."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from spooltop.backends.layouts.definition.library import SHIPPED, read_layout
from spooltop.backends.layouts.reader import LayoutReader
from spooltop.model.look.capacity import Disk
from spooltop.model.look.observation import Observation, Viewer
from spooltop.model.look.snapshot import Snapshot
from spooltop.model.row import Payload, Row
from spooltop.model.vocabulary import Box, Key
from spooltop.observe.observer import Observer

from ..backends.layouts.queues import Around
from ..programs.stored import unpacked
from ..programs.truth import rows_of

__all__ = ["SeenQueue", "queue"]

_SEEN_AFTER = 760.0
"""Seconds between the last put and the look."""
_HELD = 745.0
_WATCHED = 300


@dataclass(frozen=True)
class SeenQueue:
    """What a scene shows: the snapshot at ``at``, the rows of all boxes, and what each message is."""

    snapshot: Snapshot
    rows: tuple[Row, ...]
    payloads: dict[Key, Payload]

    @property
    def at(self) -> float:
        return self.snapshot.observation.taken_at


@cache
def queue(name: str, target: str, user: str = "ann") -> SeenQueue:
    """The stored queue ``name`` as if it lay in ``target``."""
    with tempfile.TemporaryDirectory() as folder:
        spool, made = unpacked(name, Path(folder))
        at = max(ended for _, ended in made.put.values()) + _SEEN_AFTER
        layout = read_layout(os.path.join(SHIPPED, f"{name}.toml"))
        read_only = layout.why_read_only
        reader = LayoutReader(str(spool), layout, Around(), clock=lambda: at)
        observation = reader.see()
        found = rows_of(observation, reader.listing)
        rows = tuple(_dated(row, at) for row in found)
        payloads = {row.key: reader.read(row.key, 65536) for row in found}
        reader.close()
    claims = tuple(row for row in rows if row.box is Box.CUR)
    boxes = {
        box: replace(state, oldest_at=at - _HELD if state.count and box in (Box.CUR, Box.HELD, Box.REJECTED) else state.oldest_at)
        for box, state in observation.boxes.items()
    }
    observation = replace(
        observation, target=target, boxes=boxes, claims=claims,
        locks=tuple(replace(lock, path=lock.path.replace(str(spool), target)) for lock in observation.locks),
        disk=Disk("ext4", 12_100_000_000, 30_000_000_000, 880, 1000),
        who=Viewer(user, 1000, "READ-ONLY" if read_only else "read-write"), watch=replace(observation.watch, since=at - _WATCHED),
    )  # fmt: skip
    return SeenQueue(_watched(observation), rows, payloads)


def _dated(row: Row, at: float) -> Row:
    """The row with the times that unpacking changed."""
    return row if row.box is Box.NEW else replace(row, in_box_since=at - _HELD)


def _watched(observation: Observation) -> Snapshot:
    """The last of several looks, so that rates and depths are known."""
    observer = Observer()
    for before in range(_WATCHED, 0, -15):
        observer.add(replace(observation, taken_at=observation.taken_at - before))
    return observer.add(observation)
