"""Finds messages under one id: two claims, or a message that waits in ``new`` while another is to move there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from itertools import chain, islice

from spooltop.engine import names as grammar
from spooltop.engine.dirs import SpoolDirs
from spooltop.model.operations.chunked import CHUNK
from spooltop.model.operations.plan import Progress
from spooltop.model.vocabulary import Box

from ...storage.name_forms import id_starts
from .packed_items import is_claimed

__all__ = ["SameIds"]

Names = Callable[[], Iterable[tuple[Box, Sequence[str]]]]
"""Yields the names of the boxes of a plan, up to a chunk at a time."""


class SameIds:
    """``in_new`` are the messages in ``new`` under an id of the plan, id → inode; looked up only where ``to_new``.
    ``claimed_twice`` are the ids that two claims have. Of most ids only a hash is kept: of a million, few are the same."""

    def __init__(self, dirs: SpoolDirs, names: Names, progress: Progress, *, to_new: bool) -> None:
        self.claimed_twice = frozenset[str]()
        self.in_new: dict[str, int] = {}
        waiting = _chunks(dirs.files.scan(dirs.new)) if to_new and dirs.new is not None else iter(())
        first = next(waiting, None)
        seen: set[int] = set()
        claims: set[int] = set()
        twice: set[str] = set()
        progress.begin("ids compared")
        for box, chunk in names():
            if first is None and box is not Box.CUR:
                continue
            starts = id_starts(chunk, claimed=is_claimed(box))
            marks = set(map(hash, starts))
            if box is Box.CUR:
                if len(marks) < len(starts) or not claims.isdisjoint(marks):
                    counts = Counter(starts)
                    twice.update(start for start in starts if counts[start] > 1 or hash(start) in claims)
                claims |= marks
            else:
                seen |= marks
            progress.advance(len(starts))
        if twice:
            ids = (id for box, chunk in names() if box is Box.CUR for id, start in _ids(box, chunk) if start in twice)
            self.claimed_twice = frozenset(id for id, count in Counter(ids).items() if count > 1)
        if first is not None:
            self._compare(dirs, first, waiting, (seen, claims), progress)

    def __bool__(self) -> bool:
        return bool(self.claimed_twice or self.in_new)

    def __contains__(self, id: str) -> bool:
        return id in self.claimed_twice or id in self.in_new

    def _compare(
        self, dirs: SpoolDirs, first: list[str], rest: Iterable[list[str]], seen: Sequence[Set[int]], progress: Progress
    ) -> None:
        """Looks at the messages in ``new`` that may have an id of the plan."""
        assert dirs.new is not None  # there are names in it
        progress.begin("in new compared")
        for chunk in chain([first], rest):
            for name, start in zip(chunk, id_starts(chunk, claimed=False), strict=True):
                if not any(hash(start) in marks for marks in seen):
                    continue
                try:
                    self.in_new[grammar.parse(name, claimed=False).id] = dirs.files.stat(name, dirs.new).st_ino
                except FileNotFoundError:
                    continue  # claimed meanwhile
            progress.advance(len(chunk))


def _chunks(names: Iterator[str]) -> Iterator[list[str]]:
    while chunk := list(islice(names, CHUNK)):
        yield chunk


def _ids(box: Box, names: Sequence[str]) -> Iterator[tuple[str, str]]:
    claimed = is_claimed(box)
    starts = id_starts(names, claimed=claimed)
    return ((grammar.parse(name, claimed=claimed).id, start) for name, start in zip(names, starts, strict=True))
