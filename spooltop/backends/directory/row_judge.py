"""Judges the claims and the files in ``tmp`` at each look, and counts the consumers that are running."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

from msgspec import Struct, field

from spooltop.engine import names, presence
from spooltop.engine.dirs import SpoolDirs
from spooltop.model.plan import Progress
from spooltop.model.proc import Mount
from spooltop.model.snapshot import BoxState, VerdictCounts
from spooltop.model.vocabulary import Box, Row, Verdict, began

from .liveness.claim_liveness import ClaimJudge
from .liveness.lock_table import LockTableCache
from .liveness.processes import BootClock, Certainty, check_pids
from .liveness.tmp_liveness import TmpJudge
from .scan import BoxScan
from .storage.disk import is_local
from .world import OpenOptions, System

_COUNTED_FOR = 1.0
"""Seconds for which a number of consumers is kept."""


class JudgedRows(Struct, frozen=True):
    """Claims and files in ``tmp`` of one look, the oldest first. ``irregular`` are the entries of the two boxes that are no
    messages or have a second name. ``sentences`` gives the evidence on the holder with a token in full."""

    claims: tuple[Row, ...] = ()
    all_claims: bool = True
    tmp: tuple[Row, ...] = ()
    all_tmp: bool = True
    irregular: tuple[Row, ...] = ()
    sentences: Mapping[str, str] = field(default_factory=dict)

    def of(self, box: Box) -> tuple[tuple[Row, ...], bool]:
        """Returns the rows of ``tmp`` or ``cur``, and whether they are all that are there."""
        return {Box.CUR: (self.claims, self.all_claims), Box.TMP: (self.tmp, self.all_tmp)}.get(box, ((), True))

    @property
    def counts(self) -> VerdictCounts:
        return VerdictCounts.of(self.claims, self.tmp)


class RowJudge:
    """Remembers from look to look what was found out about holders and writers. In a mail folder nothing is a claim. Look at
    ``boot_clock`` at the beginning of each look: it notices a jump of the wall clock."""

    def __init__(self, world: System, options: OpenOptions, table: LockTableCache) -> None:
        self._monotonic = world.monotonic
        self._processes = world.processes
        self._mail = options.layout == "mail"
        self._pids_here = check_pids(options.pids)
        self.boot_clock = BootClock(world.processes)
        self.claims = ClaimJudge(world.processes, self.boot_clock, options)
        self.tmp = TmpJudge(world.processes, at_most=options.judged_at_most)
        self._table = table
        self._consumers: tuple[float, int | None] | None = None

    def look(self, dirs: SpoolDirs, mount: Mount | None, scans: Mapping[Box, BoxScan]) -> JudgedRows:
        """Judges the names of the scans."""
        cur, progress = scans[Box.CUR], Progress()
        claims: Sequence[Row] = ()
        whole = True
        irregular: list[Row] = []
        if not self._mail:
            claims, whole = self.claims.look(dirs, cur.names, len(cur.names), cur.number, self.certainty(mount), progress)
            irregular += [*self.claims.irregular, *(row for row in claims if row.note)]
        files, all_files = self.files(dirs, mount, scans[Box.TMP], progress)
        irregular += [*self.tmp.irregular, *(row for row in files if row.note)]
        return JudgedRows(tuple(claims), whole, tuple(files), all_files, tuple(irregular), self.claims.sentences)

    def files(self, dirs: SpoolDirs, mount: Mount | None, tmp: BoxScan, progress: Progress) -> tuple[list[Row], bool]:
        """Judges the files of a scan of ``tmp``. Returns their rows, oldest first, and whether they are all. Raises ``Stopped``
        where ``progress`` does."""
        device = mount.device if mount is not None else None
        names, count = chain(tmp.names, tmp.staged), len(tmp.names) + len(tmp.staged)
        return self.tmp.look(dirs, names, count, self.certainty(mount), self._table.read, device, progress)

    def box_states(self, scans: Mapping[Box, BoxScan], judged: JudgedRows) -> dict[Box, BoxState]:
        """Returns the states of ``tmp``, ``new`` and ``cur``. In a mail folder the oldest in ``cur`` is the oldest put."""
        new, cur, tmp = scans[Box.NEW], scans[Box.CUR], scans[Box.TMP]
        return {
            Box.TMP: _state_of_rows(Box.TMP, tmp, *judged.of(Box.TMP)),
            Box.NEW: _state(Box.NEW, new, new.bytes, new.oldest_at, estimated=new.bytes_estimated),
            Box.CUR: _state(Box.CUR, cur, None, cur.oldest_at) if self._mail
            else _state_of_rows(Box.CUR, cur, *judged.of(Box.CUR)),
        }  # fmt: skip

    def judge_again(
        self, dirs: SpoolDirs, mount: Mount | None, box: Box, wanted: Sequence[str]
    ) -> Mapping[str, tuple[Verdict | None, str]]:
        """Judges the names ``wanted`` of ``tmp`` or ``cur`` now, with the help of earlier looks: name → (verdict, evidence).
        Leaves out names that have gone. Raises ``OSError``."""
        certainty = self.certainty(mount)
        if box is Box.CUR:
            return self.claims.judge_again(dirs, wanted, certainty)
        return self.tmp.judge_again(dirs, wanted, certainty, self._table.read, mount.device if mount is not None else None)

    def consumers(self, dirs: SpoolDirs, mount: Mount | None, scans: Mapping[Box, BoxScan]) -> int | None:
        """Counts the running consumers, at most once a second; None where they cannot be known."""
        if self._mail or scans[Box.CUR].error:
            return None
        at = self._monotonic()
        if self._consumers is None or at - self._consumers[0] >= _COUNTED_FOR:
            alive = self.claims.count_running(dirs, self.certainty(mount))
            if alive is None and _never_claimed(dirs, scans[Box.NEW].oldest_name):
                alive = 0
            self._consumers = (at, alive)
        return self._consumers[1]

    def certainty(self, mount: Mount | None) -> Certainty:
        """The conditions for conclusions about pids."""
        return Certainty(is_local(mount), self._processes.in_first_namespace(), self._pids_here)


def _state(box: Box, scan: BoxScan, size: int | None, oldest: float | None, *, estimated: bool = False) -> BoxState:
    if scan.error:
        return BoxState(box, None, False, None, False, None, scan.error, scan.as_of)
    return BoxState(box, len(scan.names) + len(scan.staged), scan.complete, size, estimated, oldest, "", scan.as_of)


def _state_of_rows(box: Box, scan: BoxScan, rows: Sequence[Row], whole: bool) -> BoxState:
    return _state(box, scan, sum(row.size or 0 for row in rows) if whole else None, min(began(rows), default=None))


def _never_claimed(dirs: SpoolDirs, oldest: str | None) -> bool:
    """True if messages of our own wait, the oldest under this name, and no consumer of our own was ever there."""
    try:
        return oldest is not None and names.parse(oldest, claimed=False).own and dirs.private_dir(presence.CONSUMERS) is None
    except OSError:
        return False
