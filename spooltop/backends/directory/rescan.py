"""Messages for an operator, as found by a look made just now, never those of a screen that may be old.

It opens the spool for itself, so that a plan can be made while another thread looks. Kept between two calls, it also knows which
files in ``tmp`` have grown since the plan was made.
"""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Sequence

from spooltop.engine.dirs import SpoolDirs
from spooltop.model import Box, Observation, Progress, Unreadable

from .flow import last_claim
from .judges import NOT_JUDGED, JudgedClaim, RowJudge, Verdicts
from .listing import by_column, time_of
from .operator.planning import BoxNames, Judge
from .scan import BoxScan, StagingScanner, pieces, scan_box, why_closed
from .storage import OpenOptions, OpenSpool, System

_FOR_THE_NOTE = 1_000
"""Claims that are judged to say who is at work."""
_TOKEN = re.compile(r"[0-9a-f]{32}")


class FreshLook:
    """Looks at the spool at ``path`` for plans, and judges everything. Thread-safe."""

    def __init__(self, path: str, options: OpenOptions, world: System) -> None:
        self._path = path
        self._options = options.replace(watch=False)
        self._world = world
        self._spool = OpenSpool(path, world)
        self._judge = RowJudge(world, self._options.replace(judged_at_most=sys.maxsize))
        self._staging = StagingScanner(world.clock)
        self._one_at_a_time = threading.Lock()

    def names(self, box: Box, progress: Progress) -> BoxNames:
        """Lists ``tmp``, ``new`` or ``cur``, the oldest first. Raises ``Unreadable`` where the box was not listed to its end:
        that nothing was seen in it is no word on what is there. Raises ``Stopped`` where ``progress`` does."""
        with self._one_at_a_time:
            dirs = self._opened(box)
            scan = _scan(dirs, box)
            progress.check()
            if scan.error:
                raise self._unreadable(box, scan.error)
            mount = self._spool.mount
            if box is Box.TMP:
                staged = self._staging.add_to(scan, dirs, unseen=False)
                files, _ = self._judge.tmp.look(dirs, mount, staged, self._judge.certainty(mount), progress)
                files = sorted([*files, *self._judge.tmp.irregular], key=lambda row: (row.enqueued_at or 0.0, row.name))
                rows = {str(row.key[1]): row for row in files if isinstance(row.key, tuple)}
                names = list(rows)
                return BoxNames(
                    len(names), lambda part: names[part], lambda: iter([names]),
                    lambda names, tails: [JudgedClaim.of(rows[name]) for name in names],
                )  # fmt: skip
            order = by_column(scan.names, time_of(scan), None, lambda share: progress.stopped())
            progress.check()  # a list that was broken off is empty
            assert order is not None  # it was not broken off
            places = order.places(reverse=False)
            judge: Judge = lambda names, tails: [NOT_JUDGED] * len(names)  # noqa: E731
            if box is Box.CUR:
                parts = {part[:32] for name in scan.names for part in name.split(",c=")}
                tokens = set(filter(_TOKEN.fullmatch, parts))
                tested = self._judge.claims.test(dirs, tokens, self._judge.certainty(mount), progress)

                def judged(names: Sequence[str], tails: Sequence[str]) -> Sequence[JudgedClaim]:
                    with self._one_at_a_time:
                        dirs = self._opened(Box.CUR)
                        certainty = self._judge.certainty(self._spool.mount)
                        return self._judge.claims.judge_names(dirs, names, tails, tested, certainty)

                judge = judged
            return BoxNames(
                len(places), lambda part: [scan.names[place] for place in places[part]],
                lambda: (piece for _, piece in pieces(scan.names)), judge,
            )  # fmt: skip

    def again(self, box: Box, names: Sequence[str]) -> Verdicts:
        """Judges ``names`` of ``tmp`` or ``cur`` now: name → (verdict, evidence). Names that have gone are left out. Raises
        ``Unreadable``."""
        with self._one_at_a_time:
            dirs = self._opened(box)
            mount = self._spool.mount
            certainty = self._judge.certainty(mount)
            try:
                if box is Box.CUR:
                    return self._judge.claims.judge_again(dirs, names, certainty)
                return self._judge.tmp.judge_again(dirs, mount, names, certainty)
            except OSError as problem:
                raise Unreadable(f"{box} cannot be looked at: {problem.strerror}", path=self._path) from problem

    def observation(self) -> Observation:
        """Returns an observation of the claims alone, of which at most a thousand are judged. Raises ``Unreadable``."""
        with self._one_at_a_time:
            dirs = self._opened(Box.CUR)
            mount, claims = self._spool.mount, _scan(dirs, Box.CUR, _FOR_THE_NOTE)
            scans = {Box.CUR: claims, Box.NEW: BoxScan(), Box.TMP: BoxScan()}
            judge = RowJudge(self._world, self._options)
            judged = judge.look(dirs, mount, scans)
            return Observation(
                self._path, self._options.layout, self._world.clock(), complete=False, boxes={}, claims=judged.claims,
                consumers=judge.consumers(dirs, mount, scans), last_claim_at=last_claim(judged.claims, claims),
            )  # fmt: skip

    def close(self) -> None:
        with self._one_at_a_time:
            self._spool.close()

    def _opened(self, box: Box) -> SpoolDirs:
        try:
            return self._spool.open()[0]
        except OSError as problem:
            missing = isinstance(problem, FileNotFoundError)
            raise self._unreadable(box, f"{self._path} is missing" if missing else str(problem.strerror)) from problem

    def _unreadable(self, box: Box, why: str) -> Unreadable:
        what = why if box in why else f"{box}: {why}"
        return Unreadable(what, "nothing was done; try again when it can be read", path=self._path)


def _scan(dirs: SpoolDirs, box: Box, at_most: int | None = None) -> BoxScan:
    try:
        return scan_box(dirs.box(box), sizes=False, at_most=at_most)
    except OSError:
        return BoxScan(complete=False, error=why_closed(dirs, box))
