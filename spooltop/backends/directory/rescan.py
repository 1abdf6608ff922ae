"""Messages for an operator, as found by a look made just now, never those of a screen that may be old.

It opens the spool for itself, so that a plan can be made while another thread looks. Kept between two calls, it also knows which
files in ``tmp`` have grown since the plan was made.
"""

from __future__ import annotations

import os
import re
import sys
import threading
from array import array
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import islice

from msgspec.structs import replace

from spooltop.engine.dirs import SpoolDirs
from spooltop.errors import Unreadable
from spooltop.model.look.observation import Observation
from spooltop.model.operations.plan import BATCH, Progress
from spooltop.model.row import Row
from spooltop.model.vocabulary import Box, Verdict

from .events.flow import FlowCounter, changed_at
from .listing import by_column, time_of
from .liveness.claim_liveness import NOT_JUDGED, JudgedClaim, TokenHolder
from .locks.lock_files import LockTableCache
from .operator.planning import BoxNames, Judge
from .row_judge import RowJudge
from .scan.boxes import why_closed
from .scan.scan import BoxScan, PackedNames, generation_of, scan_box
from .scan.set_aside import StagingScanner
from .storage.open_spool import OpenSpool
from .world import OpenOptions, System

_PICKED = 16 * BATCH
"""Names that are picked at a time: in the order of the directory, they may be far apart."""
_FOR_THE_NOTE = 1_000
"""Claims that are judged to say who is at work."""
_TOKEN = re.compile(r"[0-9a-f]{32}")


class FreshLook:
    """Looks at the spool at ``path`` for plans, and judges everything. Thread-safe."""

    def __init__(self, path: str, options: OpenOptions, world: System) -> None:
        self._path = path
        self._options = replace(options, watch=False)
        self._world = world
        self._spool = OpenSpool(path, world)
        self._judge = RowJudge(world, replace(self._options, judged_at_most=sys.maxsize), LockTableCache(world))
        self._staging = StagingScanner(world)
        self._claims: BoxScan | None = None
        self._one_at_a_time = threading.Lock()

    def names(self, box: Box, progress: Progress) -> BoxNames:
        """Lists ``tmp``, ``new`` or ``cur``, the oldest first. Raises ``Unreadable`` where the box was not listed to its end:
        that nothing was seen in it is no word on what is there. Raises ``Stopped`` where ``progress`` does."""
        with self._one_at_a_time:
            self._judge.check_clock()
            dirs = self._opened(box)
            fd = {Box.TMP: dirs.tmp, Box.NEW: dirs.new, Box.CUR: dirs.cur}[box]
            if fd is None:
                raise self._unreadable(box, why_closed(dirs, box))
            times: dict[str, int] = {}
            scan = scan_box(fd, sizes=False, untimed=times)
            progress.check()
            if scan.error:
                raise self._unreadable(box, scan.error)
            if box is Box.TMP:
                scan = self._staging.add_to(scan, dirs, unseen=False)
                rows, _ = self._judge.files(dirs, self._spool.mount(dirs), scan, progress)
                return _Files([*rows, *self._judge.irregular_files])
            order = by_column(scan.names, time_of(times), None, progress.stopped)
            progress.check()  # a list that was broken off is empty
            assert order is not None  # it was not broken off
            places = order.places(reverse=False)
            if box is Box.NEW:
                return _Names(scan.names, places, lambda names, tails: [NOT_JUDGED] * len(names))
            self._claims = _shortened(scan)
            parts = {part[:32] for _, chunk in scan.names.chunks() for part in chunk.decode("latin-1").split(",c=")}
            tokens = set(filter(_TOKEN.fullmatch, parts))
            tested = self._judge.test(dirs, self._spool.mount(dirs), tokens, progress)
            return _Names(scan.names, places, partial(self._judged, tested))

    def again(self, box: Box, names: Sequence[str]) -> Mapping[str, tuple[Verdict | None, str]]:
        """Judges ``names`` of ``tmp`` or ``cur`` now: name → (verdict, evidence). Names that have gone are left out. Raises
        ``Unreadable``."""
        with self._one_at_a_time:
            self._judge.check_clock()
            dirs = self._opened(box)
            try:
                return self._judge.judge_again(dirs, self._spool.mount(dirs), box, names)
            except OSError as problem:
                raise Unreadable(f"{box} cannot be looked at: {problem.strerror}", path=self._path) from problem

    def observation(self) -> Observation:
        """Returns an observation of the claims alone, of which at most a thousand are judged. Raises ``Unreadable``."""
        with self._one_at_a_time:
            dirs = self._opened(Box.CUR)
            mount, claims = self._spool.mount(dirs), self._some_claims(dirs)
            scans = {Box.CUR: claims, Box.NEW: BoxScan(), Box.TMP: BoxScan()}
            judge = RowJudge(self._world, replace(self._options, judged_at_most=_FOR_THE_NOTE), LockTableCache(self._world))
            judge.check_clock()
            judged = judge.look(dirs, mount, scans, Progress())
            flow = FlowCounter(lambda name: False)
            flow.adopt(((row.id, row.in_box_since) for row in judged.claims), changed_at(claims))
            return Observation(
                self._path, self._options.layout or "spool", self._world.clock(), complete=False, boxes={}, claims=judged.claims,
                consumers=judge.consumers(dirs, mount, scans), last_claim_at=flow.last_claim_at,
            )  # fmt: skip

    def close(self) -> None:
        with self._one_at_a_time:
            self._spool.close()

    def _some_claims(self, dirs: SpoolDirs) -> BoxScan:
        """The scan of ``cur`` with some of its names: that of the plan where ``cur`` has not changed since."""
        if dirs.cur is None:
            return BoxScan(error=why_closed(dirs, Box.CUR))
        known = self._claims
        if known is not None and known.generation == generation_of(dirs.cur):
            return known
        return _shortened(scan_box(dirs.cur, sizes=False))

    def _judged(self, tested: Mapping[str, TokenHolder], names: Sequence[str], tails: Sequence[str]) -> Sequence[JudgedClaim]:
        with self._one_at_a_time:
            dirs = self._opened(Box.CUR)
            return self._judge.judge_names(dirs, self._spool.mount(dirs), names, tails, tested)

    def _opened(self, box: Box) -> SpoolDirs:
        try:
            return self._spool.open()[0]
        except OSError as problem:
            missing = isinstance(problem, FileNotFoundError)
            raise self._unreadable(box, f"{self._path} is missing" if missing else str(problem.strerror)) from problem

    def _unreadable(self, box: Box, why: str) -> Unreadable:
        what = why if box in why else f"{box}: {why}"
        return Unreadable(what, path=self._path, advice="nothing was done; try again when it can be read")


def _shortened(scan: BoxScan) -> BoxScan:
    names = PackedNames()
    names.extend(list(map(os.fsencode, islice(scan.names, _FOR_THE_NOTE))))
    return replace(scan, names=names)


class _Names:
    """The names of a box in the order of ``places``, each read from the packed names when its turn comes."""

    def __init__(self, names: PackedNames, places: array[int], judge: Judge) -> None:
        self._names = names
        self._places = places
        self.judge = judge

    def __len__(self) -> int:
        return len(self._places)

    def unordered(self) -> Iterator[list[str]]:
        return (os.fsdecode(chunk).split("/") for _, chunk in self._names.chunks())

    def __iter__(self) -> Iterator[list[str]]:
        for start in range(0, len(self._places), _PICKED):
            names = self._names.pick(self._places[start : start + _PICKED])
            for first in range(0, len(names), BATCH):
                yield names[first : first + BATCH]


class _Files:
    """The files of ``tmp``, which are judged all together."""

    def __init__(self, rows: Sequence[Row]) -> None:
        in_order = sorted(rows, key=lambda row: (row.enqueued_at or 0.0, row.name))
        self._rows = {str(row.key[1]): row for row in in_order if isinstance(row.key, tuple)}

    def __len__(self) -> int:
        return len(self._rows)

    def unordered(self) -> Iterator[list[str]]:
        return iter(self)

    def __iter__(self) -> Iterator[list[str]]:
        names = list(self._rows)
        return (names[start : start + BATCH] for start in range(0, len(names), BATCH))

    def judge(self, names: Sequence[str], tails: Sequence[str]) -> Sequence[JudgedClaim]:
        return [JudgedClaim.of(self._rows[name]) for name in names]
