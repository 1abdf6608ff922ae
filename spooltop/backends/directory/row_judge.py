"""Judges the files in ``tmp`` by their writers, all claims and files at each look, and counts the consumers that are running.

A file is ``writing``, ``abandoned`` or ``unknown``, never by age alone. In a staging directory it goes by the name
``FOLDER/NAME`` here. Locks are read from the kernel's table and never tried: a writer that finds its own file locked by a viewer
would fail. Only evidence that a reader cannot produce counts as writing: a write lock, or a descriptor that is open for writing.
A flock requires neither.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Callable, Iterable
from contextlib import closing
from functools import cache, partial
from itertools import chain

from msgspec import Struct

from spooltop.engine import names as grammar
from spooltop.engine import presence
from spooltop.engine.dirs import SpoolDirs
from spooltop.engine.system.host import PROC
from spooltop.model import EXITED, Box, BoxState, Frozen, Mount, Owner, Progress, Row, Verdict, VerdictCounts, began, escape

from ..access import user_name
from .liveness.claim_liveness import ClaimJudge, Idle, Rows, TokenJudge, Verdicts
from .liveness.processes import BootClock, Certainty, Descriptors, LockTable, Processes, check_pids
from .scan import BoxScan, Scans
from .storage.disk import is_local
from .storage.location import Folders
from .storage.rows import tmp_row
from .world import OpenOptions, System

_WRITER = r"(?s)[0-9]{10,17}\.(?:(?:M[0-9]+)?P)?([0-9]{1,10})(?:[A-Za-z_][A-Za-z0-9_]*)?\.(.+)\Z"
_SETTLED = 1.0
_OPENERS_FOR = 5.0
_NOT_READ = float("-inf"), frozenset[tuple[int, int]](), Descriptors({}, None)
"""When it was read who has which files open, and who that is."""


def writer_of(id: str) -> Owner:
    r"""Returns the writer in an id, ``<time>.<pid>.<host>`` (maildir(5)), which writes ``/`` and ``:`` of a host name as ``\057``
    and ``\072``; an ``Owner`` without a pid if it has none."""
    found = re.match(_WRITER, id)
    if found is None:
        return Owner()
    return Owner(found.group(2).replace("\\057", "/").replace("\\072", ":"), int(found.group(1)))


class _File(Struct):
    """A file as it is now, and the time of its last change (CLOCK_BOOTTIME). ``own``: it is named as spooltop names files."""

    status: os.stat_result
    still_since: float
    grew: bool
    row: Row
    own: bool
    writer: Owner


_Files = dict[tuple[str, int], _File]
"""Files by name and inode."""


class TmpJudge(Struct):
    """Judges the files in ``tmp``, look after look."""

    _processes: Processes
    _lock_table: Callable[[], LockTable]
    _at_most: int
    _files: _Files = {}
    _opened: tuple[float, frozenset[tuple[int, int]], Descriptors] = _NOT_READ
    irregular: Rows = ()

    def look(
        self, dirs: SpoolDirs, mount: Mount | None, tmp: BoxScan, certainty: Certainty, progress: Progress
    ) -> tuple[list[Row], bool]:
        """Judges the files of a scan of ``tmp``. Returns their rows, oldest first, and whether they are all. Raises ``Stopped``
        where ``progress`` does."""
        count = len(tmp.names) + len(tmp.staged)
        progress.begin("files in tmp found", count)
        names = progress.each(chain(tmp.names, tmp.staged))
        self._files, self.irregular = files, _ = self._looked_up(dirs, mount, names, certainty, progress)
        rows = sorted((file.row for file in files.values()), key=lambda row: (row.in_box_since or 0.0, row.name))
        return rows, count <= self._at_most

    def judge_again(
        self, dirs: SpoolDirs, mount: Mount | None, names: Iterable[str], certainty: Certainty
    ) -> Verdicts:
        """Judges ``names`` again with the help of earlier looks: name → (verdict, evidence). Leaves out names that have gone.
        Reads again who has them open: they are about to be moved."""
        self._opened = _NOT_READ
        files, _ = self._looked_up(dirs, mount, names, certainty, Progress())
        self._files.update(files)
        return {raw: (file.row.verdict, file.row.evidence) for (raw, _), file in files.items()}

    def _looked_up(
        self, dirs: SpoolDirs, mount: Mount | None, names: Iterable[str], certainty: Certainty, progress: Progress
    ) -> tuple[_Files, Rows]:
        """Returns the files among ``names`` as they are now, judged, and the irregular ones."""
        now = self._processes.boottime()
        with closing(Folders(dirs)) as folders:
            files, irregular = self._found(folders, names, now)
            if files:
                progress.begin("files in tmp judged", len(files))
                self._judge(folders, files, now, certainty, mount, progress)
        return files, tuple(irregular)

    def _found(self, folders: Folders, names: Iterable[str], now: float) -> tuple[_Files, list[Row]]:
        """Returns the files among ``names`` as they are now, and the irregular ones."""
        files: _Files = {}
        irregular: list[Row] = []
        for raw in names:
            if len(files) >= self._at_most:
                break
            try:
                status = _stat(folders, raw)
            except OSError:
                continue  # moved to new meanwhile, as it should be
            if not stat.S_ISREG(status.st_mode):
                irregular.append(tmp_row(raw, status))
                continue
            key = (raw, status.st_ino)
            file = self._files.get(key)
            if file is None or (file.status.st_size, file.status.st_mtime_ns) != (status.st_size, status.st_mtime_ns):
                row = tmp_row(raw, status)
                name = grammar.parse(row.name, claimed=False)
                # Whoever chose an id for a put did not mean the writer of the file.
                writer = Owner() if name.own and not grammar.is_own_id(name.id) else writer_of(name.id)
                file = _File(status, now, file is not None, row, name.own, writer)
            else:
                file.status = status
                file.grew = file.grew and now - file.still_since < 2 * _SETTLED
            files[key] = file
        return files, irregular

    def _judge(
        self, folders: Folders, files: _Files, now: float, certainty: Certainty, mount: Mount | None,
        progress: Progress,
    ) -> None:  # fmt: skip
        table = self._lock_table()
        locked = {
            key: line.pid for key, file in files.items() for line in table.of(file.status, mount)
            if line.kind != "flock" and line.exclusive and not line.waits
        }  # fmt: skip
        idle = [file for key, file in files.items() if key not in locked and not file.grew]
        opened = self._opened_by({(file.status.st_dev, file.status.st_ino) for file in idle}, now)
        asking = (file.writer.pid for file in idle if file.row.verdict is not Verdict.ABANDONED)
        pids = {pid for pid in asking if pid is not None}
        # Looked up all together where one is gone here, because that costs a read of every ``status`` there is.
        namesakes = cache(lambda: self._processes.namesakes(pids))

        def judged(raw: str, file: _File) -> tuple[Verdict, str, Owner]:
            """The verdict on a file that is not locked and does not grow. Once abandoned, it stays so until somebody opens it."""
            owner, lock_free = file.writer, file.own and not table.unseen  # a writer of spooltop's would hold its lock
            pid = owner.pid
            open_in = opened.by_file.get((file.status.st_dev, file.status.st_ino), ())
            unseen = opened.unseen_writers(file.status, os.geteuid(), partial(_has_acl, folders, raw))
            # Who has it not open; None: anybody may have.
            nobody = None if unseen is None else _nobody(file.status, unseen, bool(open_in))
            if unseen != "" and lock_free and pid is not None:
                nobody = "its lock is free"
            if writing := [one.pid for one in open_in if one.writing is not False]:
                owner = self._owner(writing[0])
                return Verdict.WRITING, f"{writing[0]} {escape(owner.command or '')}".rstrip() + " has it open", owner
            if file.row.verdict is Verdict.ABANDONED:
                return file.row.verdict, file.row.evidence, file.row.owner or Owner()
            if owner.host is not None and not self._is_here(owner.host):
                return Verdict.UNKNOWN, f"written on host {escape(owner.host)}, ask there", owner
            there, not_here = None if pid is None else self._processes.exists(pid), f"no pid {pid} here"
            if not certainty.local or not certainty.all_pids:
                return Verdict.UNKNOWN, not_here if there is False else "its writer is not visible from here", owner
            if nobody is None:
                words = "who has it open is not visible to you"
                if there is None:
                    return Verdict.UNKNOWN, words, owner
                if there:
                    return Verdict.UNKNOWN, f"pid {pid} is running · {words}", self._owner(pid)
                return Verdict.UNKNOWN, f"{pid} {EXITED} · {words}", owner
            if pid is not None and there is not False:
                words = ", but does not have it open" if self._processes.files_of(pid) is not None else ""
                return Verdict.UNKNOWN, f"pid {pid} is running{words}", self._owner(pid)
            if pid is None and not lock_free:
                return Verdict.UNKNOWN, f"{nobody}, no writer in its name", owner
            if pid is not None and (contained := namesakes()) is not None:
                if contained[pid]:
                    return Verdict.UNKNOWN, f"{not_here}, but a container has that pid", owner
                # Gone: it cannot be between two steps, so one look is enough.
                return Verdict.ABANDONED, f"{pid} {EXITED} · {nobody}", owner
            if not lock_free:
                return Verdict.UNKNOWN, f"{not_here}, but not all processes are visible to you", owner
            # Between its creation and its lock, and between its lock and its move, a file of our own looks left behind.
            if now - file.still_since < _SETTLED:
                return Verdict.UNKNOWN, "not watched long enough", owner
            return Verdict.ABANDONED, f"{'its lock is free' if pid is None else not_here} · {nobody}", owner

        for key, file in progress.each(list(files.items())):
            pid = file.writer.pid
            if key in locked:
                verdict, evidence, owner = Verdict.WRITING, "its writer holds its lock", self._owner(max(locked[key], 0) or pid)
            elif file.grew:
                verdict, evidence, owner = Verdict.WRITING, "growing", self._owner(pid)
            else:
                verdict, evidence, owner = judged(key[0], file)
            if verdict is Verdict.ABANDONED and not _is_there(folders, *key):
                del files[key]  # it was moved on while we looked
                continue
            file.row = file.row.judged(verdict, evidence, owner)

    def _is_here(self, host: str) -> bool:
        mine = self._processes.host()
        return host in (mine, grammar.encode_value(mine)) or (len(host) >= 25 and grammar.encode_value(mine).startswith(host))

    def _opened_by(self, wanted: set[tuple[int, int]], now: float) -> Descriptors:
        """Returns the processes that have the files open. They are read again when ``wanted`` has new files, and every few
        seconds."""
        if not wanted:
            return Descriptors({}, ())
        asked_at, known, opened = self._opened
        if not wanted <= known or now - asked_at > _OPENERS_FOR:
            opened = self._processes.descriptors(wanted)
            self._opened = (now, frozenset(wanted), opened)
        return opened

    def _owner(self, pid: int | None) -> Owner:
        """Returns the visible facts about a process; its command and user are read once."""
        process = None if pid is None else self._processes.process(pid)
        if process is None:
            return Owner(pid=pid)
        process = self._processes.describe(process)
        return Owner(None, pid, process.since, process.command, process.user)


def _nobody(found: os.stat_result, unseen: str, has_readers: bool) -> str:
    """States that nobody has a file open, as far as its writers can be seen: ``unseen`` as ``Descriptors.unseen_writers``."""
    mine = found.st_uid == os.geteuid()
    who = "nobody" if not unseen else "none of your processes" if mine else f"no process of {user_name(found.st_uid)}"
    words = f"{who} has it open for writing" if has_readers else f"{who} has it open"
    return f"{words} ({unseen} are not visible)" if unseen else words


def _has_acl(folders: Folders, raw: str) -> bool:
    """True where an access control list may give more users the right to write (acl(5))."""
    folder, _, name = raw.rpartition("/")
    try:
        os.getxattr(f"{PROC}/self/fd/{folders.of(Box.TMP, folder).fd}/{name}", "system.posix_acl_access", follow_symlinks=False)
    except OSError as error:
        return error.errno not in (errno.ENODATA, errno.ENOTSUP)
    return True


def _stat(folders: Folders, raw: str) -> os.stat_result:
    folder, _, name = raw.rpartition("/")
    return folders.files.stat(name, folders.of(Box.TMP, folder).fd)


def _is_there(folders: Folders, raw: str, ino: int) -> bool:
    """True if the file still has this name, as far as that can be seen."""
    try:
        return _stat(folders, raw).st_ino == ino
    except OSError:
        return False


# Judges the claims and the files in ``tmp`` at each look.

_COUNTED_FOR = 1.0
"""Seconds for which a number of consumers is kept."""


class JudgedRows(Frozen):
    """Claims and files in ``tmp`` of one look, the oldest first. ``irregular`` are the entries of the two boxes that are no
    messages or have a second name."""

    claims: Rows = ()
    all_claims: bool = True
    tmp: Rows = ()
    all_tmp: bool = True
    irregular: Rows = ()

    def of(self, box: Box) -> tuple[Rows, bool]:
        """Returns the rows of ``tmp`` or ``cur``, and whether they are all that are there."""
        return {Box.CUR: (self.claims, self.all_claims), Box.TMP: (self.tmp, self.all_tmp)}.get(box, ((), True))

    @property
    def counts(self) -> VerdictCounts:
        return VerdictCounts.of(self.claims, self.tmp)


class RowJudge:
    """Remembers from look to look what was found out about holders and writers. In a mail folder nothing is a claim."""

    def __init__(self, world: System, options: OpenOptions) -> None:
        self._monotonic = world.monotonic
        self._processes = world.processes
        self._mail = options.layout == "mail"
        self._pids_here = check_pids(options.pids)
        self.boot_clock = BootClock(world.processes)
        self.claims = ClaimJudge(
            world.processes, self.boot_clock, options, Idle(world.processes), TokenJudge(world.processes, options.hosts)
        )
        self.tmp = TmpJudge(world.processes, world.lock_table, options.judged_at_most)
        self._consumers: tuple[float, int | None] | None = None

    def look(self, dirs: SpoolDirs, mount: Mount | None, scans: Scans) -> JudgedRows:
        """Judges the names of the scans."""
        progress, certainty = Progress(), self.certainty(mount)
        claims, whole = ((), True) if self._mail else self.claims.look(dirs, scans[Box.CUR], certainty, progress)
        files, all_files = self.tmp.look(dirs, mount, scans[Box.TMP], certainty, progress)
        noted = (row for row in (*claims, *files) if row.note)
        irregular = (*self.claims.irregular, *self.tmp.irregular, *noted)
        return JudgedRows(claims, whole, tuple(files), all_files, irregular)

    def box_state(self, box: Box, scan: BoxScan, judged: JudgedRows) -> BoxState:
        """Returns the state of ``tmp``, ``new`` or ``cur``. In a mail folder the oldest in ``cur`` is the oldest put."""
        if scan.error:
            return BoxState(box, None, False, error=scan.error, as_of=scan.as_of)
        size, oldest = scan.bytes, scan.oldest_at
        if box is Box.TMP or (box is Box.CUR and not self._mail):
            rows, whole = judged.of(box)
            size, oldest = sum(row.size or 0 for row in rows) if whole else None, min(began(rows), default=None)
        many = len(scan.names) + len(scan.staged)
        return BoxState(box, many, scan.complete, size, scan.bytes_estimated, oldest, "", scan.as_of)

    def consumers(self, dirs: SpoolDirs, mount: Mount | None, scans: Scans) -> int | None:
        """Counts the running consumers, at most once a second; None where they cannot be known."""
        if self._mail or scans[Box.CUR].error:
            return None
        at = self._monotonic()
        if self._consumers is None or at - self._consumers[0] >= _COUNTED_FOR:
            alive = self.claims.count_running(dirs, self.certainty(mount))
            if alive is None and _never_claimed(dirs, scans[Box.NEW]):
                alive = 0
            self._consumers = (at, alive)
        return self._consumers[1]

    def certainty(self, mount: Mount | None) -> Certainty:
        """The conditions for conclusions about pids, as of now: the wall clock may have jumped."""
        self.boot_clock.look()
        return Certainty(is_local(mount), self._processes.in_first_namespace(), self._pids_here)


def _never_claimed(dirs: SpoolDirs, new: BoxScan) -> bool:
    """True if the oldest message that waits is of our own, and no consumer of our own was ever there."""
    try:
        own = new.oldest is not None and grammar.parse(new.oldest[1], claimed=False).own
        return own and dirs.private_dir(presence.CONSUMERS) is None
    except OSError:
        return False
