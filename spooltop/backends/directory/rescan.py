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
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, islice

from msgspec import Struct, field
from msgspec.structs import replace

from spooltop.engine import names, presence
from spooltop.engine.dirs import SpoolDirs
from spooltop.errors import Unreadable
from spooltop.model.look.observation import BoxState, Observation
from spooltop.model.operations.chunked import CHUNK, columns_of
from spooltop.model.operations.plan import Progress
from spooltop.model.row import Row
from spooltop.model.vocabulary import Box, Key, Verdict

from .events.flow import FlowCounter, changed_at
from .listing import Values, by_column
from .liveness.claim_liveness import ClaimJudge, JudgedClaim, TestedTokens
from .liveness.processes import BootClock, Certainty, check_pids
from .liveness.tmp_liveness import TmpJudge
from .locks.lock_files import LockTableCache
from .operator.planning import BoxNames, Judged
from .scan.boxes import state_of_cur, state_of_new, state_of_tmp, why_closed
from .scan.scan import BoxScan, PackedNames, generation_of, quick_enqueued_us, scan_box
from .scan.set_aside import StagingScanner
from .storage.disk import Mount, is_local
from .storage.open_spool import OpenSpool
from .world import OpenOptions, World

# Judges the claims and the files in ``tmp`` at each look, and counts the consumers that are running.

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

    def __init__(self, world: World, options: OpenOptions, table: LockTableCache) -> None:
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

    def test(self, dirs: SpoolDirs, mount: Mount | None, tokens: Collection[str], progress: Progress) -> TestedTokens:
        """Tests the holders of claims, each once. Raises ``Stopped`` where ``progress`` does."""
        return self._claims.test(dirs, tokens, self.certainty(mount), progress)

    def judge_names(
        self, dirs: SpoolDirs, mount: Mount | None, names: Sequence[str], tails: Sequence[str], tested: TestedTokens
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


_PICKED = 16 * CHUNK
"""Names that are picked at a time: in the order of the directory, they may be far apart."""
_FOR_THE_NOTE = 1_000
"""Claims that are judged to say who is at work."""
_TOKEN = re.compile(r"[0-9a-f]{32}")


class FreshLook:
    """Looks at the spool at ``path`` for plans, and judges everything. Thread-safe."""

    def __init__(self, path: str, options: OpenOptions, world: World) -> None:
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
            order = by_column("age", scan.names, None, Values(quick_enqueued_us, times, lambda name: None), progress.stopped)
            progress.check()  # a list that was broken off is empty
            assert order is not None  # it was not broken off
            places = order.places(reverse=False)
            if box is Box.NEW:
                return _Names(scan.names, places, lambda names, tails: Judged())
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

    def _judged(self, tested: TestedTokens, names: Sequence[str], tails: Sequence[str]) -> Judged:
        with self._one_at_a_time:
            dirs = self._opened(Box.CUR)
            found = self._judge.judge_names(dirs, self._spool.mount(dirs), names, tails, tested)
        return _columns(found)

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

    def __init__(self, names: PackedNames, places: array[int], judge: Callable[[Sequence[str], Sequence[str]], Judged]) -> None:
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
            for first in range(0, len(names), CHUNK):
                yield names[first : first + CHUNK]


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
        return (names[start : start + CHUNK] for start in range(0, len(names), CHUNK))

    def judge(self, names: Sequence[str], tails: Sequence[str]) -> Judged:
        return _columns([JudgedClaim.of(self._rows[name]) for name in names])


def _columns(judged: Sequence[JudgedClaim]) -> Judged:
    verdict, evidence, owner = columns_of(judged)
    return Judged(verdict, evidence, owner)
