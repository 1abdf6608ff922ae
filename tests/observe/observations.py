"""Observations made by hand: a spool in a few words, at a given time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spooltop.cursors.model import CursorSource
from spooltop.model.snapshot import BoxState, Disk, Flow, Observation, VerdictCounts, Watch
from spooltop.model.vocabulary import Box, Json, Owner, Row, Verdict

T0 = 1_795_222_800.0
"""A full quarter of a minute, so that cells of histories begin with the watch."""


def look(at: float, new: int | None = 0, *, layout: str = "spool", **rest: Any) -> Observation:
    """A quiet, wholly visible spool at ``T0 + at`` with ``new`` messages waiting."""
    now = T0 + at
    boxes = {box: BoxState(box, 0, as_of=now) for box in Box}
    oldest = now - rest.pop("oldest", 1.0) if new else None
    boxes[Box.NEW] = BoxState(Box.NEW, new, complete=rest.get("complete", True), oldest_at=oldest, as_of=now)
    for state in rest.pop("states", ()):
        boxes[state.box] = state
    claims: tuple[Row, ...] = rest.get("claims", ())
    tmp: tuple[Row, ...] = rest.get("tmp", ())
    rest.setdefault("counts", counts(claims, tmp))
    rest.setdefault("complete", True)
    rest.setdefault("disk", Disk())
    rest.setdefault("watch", Watch("live", since=T0))
    return Observation(target="/var/spool/memex", layout=layout, taken_at=now, boxes=boxes, **rest)


def counts(claims: tuple[Row, ...], tmp: tuple[Row, ...]) -> VerdictCounts:
    def many(rows: tuple[Row, ...], verdict: Verdict) -> int:
        return sum(1 for row in rows if row.verdict is verdict)

    return VerdictCounts(
        many(claims, Verdict.ALIVE), many(claims, Verdict.DEAD), many(claims, Verdict.UNKNOWN),
        many(tmp, Verdict.WRITING), many(tmp, Verdict.ABANDONED), many(tmp, Verdict.UNKNOWN),
    )  # fmt: skip


def claim(name: str, verdict: Verdict, since: float, *, pid: int | None = None, command: str | None = None, **rest: Any) -> Row:
    """A claim since ``T0 + since``."""
    owner = None if pid is None else Owner(pid=pid, command=command)
    rest.setdefault("attempt", 1)
    return Row(key=name, box=Box.CUR, id=name, name=name, in_box_since=T0 + since, verdict=verdict, owner=owner, **rest)


def temporary(name: str, verdict: Verdict, since: float) -> Row:
    return Row(key=name, box=Box.TMP, id=name, name=name, in_box_since=T0 + since, verdict=verdict)


def flow(since: float, until: float, arrived: int = 0, claimed: int = 0, done: int = 0, **rest: Any) -> Flow:
    return Flow(T0 + since, T0 + until, arrived, claimed, done=done, measured=True, **rest)


class CursorDisk:
    """A cursor file that is written by ``put`` and read by ``read``."""

    def __init__(self, path: str = "/opt/memex/cursors.json", *, shared: bool = True) -> None:
        self.path = path
        self.shared = shared
        self.sections: dict[str, Json] | None = None
        self.inode = 100
        self.mtime = T0
        self.error = ""

    def put(self, at: float, sections: Mapping[str, Json]) -> None:
        """Replaces sections, as one atomic write at ``T0 + at``."""
        self.sections = {**(self.sections or {}), **sections}
        self.inode += 1
        self.mtime = T0 + at

    def read(self, **rest: Any) -> CursorSource:
        sections = None if self.error or self.sections is None else dict(self.sections)
        return CursorSource(self.path, self.shared, sections, self.error, self.mtime, (self.inode, self.mtime), **rest)
