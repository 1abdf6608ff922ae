"""Fresh rows for an operator: messages as found by a look made just now, never those of a screen that may be old.

It has a reader of its own, so that a plan can be made while another thread looks. Kept between two calls, it also knows which
files in ``tmp`` have grown since the plan was made.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Mapping, Sequence

from spooltop.errors import Unreadable
from spooltop.model.observation import Observation
from spooltop.model.progress import Progress
from spooltop.model.protocols import Listing, ListQuery
from spooltop.model.row import Row
from spooltop.model.vocabulary import Box, Verdict
from spooltop.records import replace

from .options import OpenOptions
from .reader import DirectoryReader
from .world import World

__all__ = ["FreshRows"]

_WINDOW = 20_000
"""Rows that are made at a time, of which there may be a million."""


class FreshRows:
    """Rows of the spool at ``path`` from a reader that does not watch and judges everything. Thread-safe."""

    def __init__(self, path: str, options: OpenOptions, world: World) -> None:
        self._path = path
        self._options = replace(options, watch=False, judged_at_most=sys.maxsize)
        self._world = world
        self._reader: DirectoryReader | None = None
        self._one_at_a_time = threading.Lock()

    def rows(self, box: Box, progress: Progress) -> Iterator[Row]:
        """All messages of ``tmp``, ``new`` or ``cur``, judged, none left out, the oldest first. Raises ``Unreadable`` where the
        box was not listed to its end: that nothing was seen in it is no word on what is there. Raises ``Stopped`` where
        ``progress`` does."""
        with self._one_at_a_time:
            reader = self._made()
            state = reader.see(rescan=True, progress=progress).boxes.get(box)
            if state is not None and state.error:
                raise Unreadable(
                    state.error if box in state.error else f"{box}: {state.error}", path=self._path,
                    advice="nothing was done; try again when it can be read",
                )  # fmt: skip
            listing = reader.listing(ListQuery(box), progress.stopped)
            progress.check()  # a list that was broken off is empty
            return self._windows(listing)

    def _windows(self, listing: Listing) -> Iterator[Row]:
        for start in range(0, len(listing), _WINDOW):
            with self._one_at_a_time:
                rows = listing.window(start, start + _WINDOW)
            yield from rows

    def again(self, box: Box, names: Sequence[str]) -> Mapping[str, tuple[Verdict | None, str]]:
        """Judges ``names`` of ``tmp`` or ``cur`` now: name → (verdict, evidence). Names that have gone are left out. Raises
        ``Unreadable``."""
        with self._one_at_a_time:
            return self._made().judge_again(box, names)

    def observation(self) -> Observation:
        """Returns the current observation. Boxes that were scanned just before are not scanned again where nothing has
        changed."""
        with self._one_at_a_time:
            return self._made().see()

    def close(self) -> None:
        with self._one_at_a_time:
            if self._reader is not None:
                self._reader.close()
                self._reader = None

    def _made(self) -> DirectoryReader:
        if self._reader is None:
            self._reader = DirectoryReader(self._path, self._options, self._world)
        return self._reader
