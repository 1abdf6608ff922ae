"""Judges the claims and the files in ``tmp`` at each look, and counts the consumers that are running."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import chain

from msgspec import Struct, field

from spooltop.engine import names, presence
from spooltop.engine.dirs import SpoolDirs
from spooltop.model.look.observation import BoxState
from spooltop.model.operations.plan import Progress
from spooltop.model.row import Row
from spooltop.model.vocabulary import Box, Key, Verdict

from .liveness.claim_liveness import ClaimJudge, JudgedClaim, TokenHolder
from .liveness.processes import BootClock, Certainty, check_pids
from .liveness.tmp_liveness import TmpJudge
from .locks.lock_files import LockTableCache
from .scan.boxes import state_of_cur, state_of_new, state_of_tmp
from .scan.scan import BoxScan
from .storage.disk import Mount, is_local
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

    @property
    def complete(self) -> bool:
        """True if everything was judged."""
        return self.all_claims and self.all_tmp

    def find(self, box: Box, key: Key) -> Row | None:
        """Returns the row of a claim or of a file in ``tmp``; None if it was not judged."""
        rows = {Box.CUR: self.claims, Box.TMP: self.tmp}.get(box, ())
        return next((row for row in rows if row.key == key), None)


class RowJudge:
    """Remembers from look to look what was found out about holders and writers. In a mail folder nothing is a claim."""

    def __init__(self, world: System, options: OpenOptions, table: LockTableCache) -> None:
        self._monotonic = world.monotonic
        self._processes = world.processes
        self._mail = options.layout == "mail"
        self._pids_here = check_pids(options.pids)
        self._boot_clock = BootClock(world.processes)
        self._claims = ClaimJudge(
            world.processes, self._boot_clock, at_most=options.judged_at_most, hosts=options.hosts, watch=options.watch,
            described_after=options.described_after,
        )  # fmt: skip
        self._tmp = TmpJudge(world.processes, at_most=options.judged_at_most)
        self._table = table
        self._consumers: tuple[float, int | None] | None = None

    @property
    def clock_jumped(self) -> float | None:
        """Seconds by which the wall clock has jumped since the first look; None if it has not."""
        return self._boot_clock.jumped

    def check_clock(self) -> None:
        """Notices a jump of the wall clock. Call it at the beginning of each look."""
        self._boot_clock.look()

    def look(self, dirs: SpoolDirs, mount: Mount | None, scans: Mapping[Box, BoxScan], progress: Progress) -> JudgedRows:
        """Judges the names of the scans. Raises ``Stopped`` where ``progress`` does."""
        cur, tmp = scans[Box.CUR], scans[Box.TMP]
        certainty = self.certainty(mount)
        claims: Sequence[Row] = ()
        whole = True
        irregular: list[Row] = []
        if not self._mail:
            claims, whole = self._claims.look(dirs, cur.names, len(cur.names), cur.number, certainty, progress)
            irregular += [*self._claims.irregular, *(row for row in claims if row.note)]
        files, all_files = self.files(dirs, mount, tmp, progress)
        irregular += [*self._tmp.irregular, *(row for row in files if row.note)]
        return JudgedRows(tuple(claims), whole, tuple(files), all_files, tuple(irregular), self._claims.sentences)

    def files(self, dirs: SpoolDirs, mount: Mount | None, tmp: BoxScan, progress: Progress) -> tuple[list[Row], bool]:
        """Judges the files of a scan of ``tmp``. Returns their rows, oldest first, and whether they are all."""
        device = mount.device if mount is not None else None
        names, count = chain(tmp.names, tmp.staged), len(tmp.names) + len(tmp.staged)
        return self._tmp.look(dirs, names, count, self.certainty(mount), self._table.read, device, progress)

    @property
    def irregular_files(self) -> tuple[Row, ...]:
        """The entries of ``tmp`` at the last look that are no files."""
        return self._tmp.irregular

    def test(self, dirs: SpoolDirs, mount: Mount | None, tokens: Collection[str], progress: Progress) -> dict[str, TokenHolder]:
        """Tests the holders of claims, each once. Raises ``Stopped`` where ``progress`` does."""
        return self._claims.test(dirs, tokens, self.certainty(mount), progress)

    def judge_names(
        self, dirs: SpoolDirs, mount: Mount | None, names: Sequence[str], tails: Sequence[str], tested: Mapping[str, TokenHolder]
    ) -> list[JudgedClaim]:
        """Judges the claims ``names``, which end in ``tails``, after their holders were tested."""
        return self._claims.judge_names(dirs, names, tails, tested, self.certainty(mount))

    def box_states(self, scans: Mapping[Box, BoxScan], judged: JudgedRows) -> dict[Box, BoxState]:
        """Returns the states of ``tmp``, ``new`` and ``cur``."""
        return {
            Box.TMP: state_of_tmp(scans[Box.TMP], judged.tmp, whole=judged.all_tmp),
            Box.NEW: state_of_new(scans[Box.NEW]),
            Box.CUR: state_of_cur(scans[Box.CUR], None if self._mail else judged.claims, whole=judged.all_claims),
        }

    def judge_again(
        self, dirs: SpoolDirs, mount: Mount | None, box: Box, wanted: Sequence[str]
    ) -> Mapping[str, tuple[Verdict | None, str]]:
        """Judges the names ``wanted`` of ``tmp`` or ``cur`` now, with the help of earlier looks: name → (verdict, evidence).
        Leaves out names that have gone. Raises ``OSError``."""
        certainty = self.certainty(mount)
        if box is Box.CUR:
            return self._claims.judge_again(dirs, wanted, certainty)
        return self._tmp.judge_again(dirs, wanted, certainty, self._table.read, mount.device if mount is not None else None)

    def consumers(self, dirs: SpoolDirs, mount: Mount | None, scans: Mapping[Box, BoxScan]) -> int | None:
        """Counts the running consumers, at most once a second; None where they cannot be known."""
        if self._mail or scans[Box.CUR].error:
            return None
        at = self._monotonic()
        if self._consumers is None or at - self._consumers[0] >= _COUNTED_FOR:
            alive = self._claims.count_running(dirs, self.certainty(mount))
            if alive is None and _never_claimed(dirs, scans[Box.NEW].oldest_name):
                alive = 0
            self._consumers = (at, alive)
        return self._consumers[1]

    def certainty(self, mount: Mount | None) -> Certainty:
        """The conditions for conclusions about pids."""
        return Certainty(is_local(mount), self._processes.in_first_namespace(), self._pids_here)


def _never_claimed(dirs: SpoolDirs, oldest: str | None) -> bool:
    """True if messages of our own wait, the oldest under this name, and no consumer of our own was ever there."""
    try:
        return oldest is not None and names.parse(oldest, claimed=False).own and dirs.private_dir(presence.CONSUMERS) is None
    except OSError:
        return False
