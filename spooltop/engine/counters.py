"""Counters shared by processes: how often the engine's own locks were acquired or timed out, and which duplicates were
suppressed.

They are kept in ``.spooltop``. The lock of cursor files is the exception: its events are counted in the journal of the cursor
files, since there may be no spool.

A counter file is a log of JSON lines, ``{"at": epoch seconds, "what": …, "of": …, "n": …}``, appended under a lock on the file
itself, which is never replaced or removed. A file that has grown is summed up in place: by the minute for the last hour, and in
one line per counter for the time before, so that totals are kept. An interruption of that step loses counts and nothing else.
"""

from __future__ import annotations

import json
import stat
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from spooltop.model import Frozen

from .atomic import drop_drafts, open_shared
from .cursors import timeouts_since
from .dirs import SpoolDirs
from .files import Files, read_small

_COUNTERS = "counters"
"""The counter file of a spool, in ``.spooltop``."""
ACQUIRED, TIMED_OUT, DUPLICATE = "lock-acquired", "lock-timed-out", "duplicate"
MAX = 128 << 10
"""Bytes from which a counter file is summed up."""
_HOUR = 3600.0
_PATIENCE = 0.2
"""Seconds that counting waits for its own file: a count is no reason to hang."""


class Count(Frozen):
    """``n`` times ``what`` happened, to ``of`` (a lock, a source; "" for none), at about ``at`` (epoch seconds; 0: long ago)."""

    at: float
    what: str
    of: str
    n: int


def add(dirs: SpoolDirs, count: Count) -> None:
    """Appends to the counter file of a spool. An error of it is not reported, as the counted event has already happened."""
    files, own = dirs.files, dirs.own_dir()
    try:
        with files.closing(open_shared(files, _COUNTERS, own, dirs.owner_model, append=True)) as fd:
            found = drop_drafts(files, fd, own, _COUNTERS)
            if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1 or not files.lock_within(fd, _PATIENCE, write=True):
                return
            if found.st_size > MAX:
                _sum_up(files, fd)
            files.write_all(fd, _line(count))
    except OSError:
        return  # counts on a full or read-only disk are lost, as said above


def read(dirs: SpoolDirs) -> list[Count]:
    """Returns the counts of the counter file of a spool; an empty list if it is missing or cannot be read. The content is
    untrusted: anyone who may write the spool may have written it. Raises ``OSError`` if ``.spooltop`` cannot be opened."""
    own = dirs.private_dir()
    try:
        return [] if own is None else _parsed(read_small(_COUNTERS, own, files=dirs.files, limit=4 * MAX, whole=True).data)
    except OSError:
        return []


def total(counts: Iterable[Count], what: str, *, since: float = 0.0) -> dict[str, int]:
    """Sums the counts of ``what`` since ``since`` (epoch seconds), by the thing it happened to.

    >>> total([Count(5.0, "duplicate", "imessage", 2), Count(9.0, "duplicate", "imessage", 1)], "duplicate", since=6.0)
    {'imessage': 1}
    """
    found: dict[str, int] = {}
    for count in counts:
        if count.what == what and count.at >= since:
            found[count.of] = found.get(count.of, 0) + count.n
    return found


def locks_used(files: Files, counts: Sequence[Count], folders: Iterable[int], *, since: float) -> tuple[int, int]:
    """Counts since ``since`` (epoch seconds) how often locks were acquired and how often a wait for them timed out. ``counts``
    are those of a spool; ``folders`` are directories with cursor files, including those in ``cursors`` below them."""
    had, given_up = (sum(total(counts, what, since=since).values()) for what in (ACQUIRED, TIMED_OUT))
    for folder in folders:
        for timed_out in chain(timeouts_since(files, folder, since), _below(files, folder, since)):
            had, given_up = had + (not timed_out), given_up + timed_out
    return had, given_up


def _below(files: Files, folder: int, since: float) -> Iterator[bool]:
    try:
        cursors = files.open_dir("cursors", folder)
    except OSError:
        return  # there is none, or it is not ours to look into
    with files.closing(cursors):
        yield from timeouts_since(files, cursors, since)


def _sum_up(files: Files, fd: int) -> None:
    counts = _parsed(files.content(fd))
    newest = max((count.at for count in counts), default=0.0)
    sums: Counter[tuple[float, str, str]] = Counter()
    for count in counts:
        minute = count.at - count.at % 60 if count.at > newest - _HOUR else 0.0
        sums[minute, count.what, count.of] += count.n
    if len(sums) > MAX // 200:  # as many sources as messages: counts by source are useless then
        merged: Counter[tuple[float, str, str]] = Counter()
        for (minute, what, _), n in sums.items():
            merged[minute, what, ""] += n
        sums = merged
    files.truncate(fd, 0)
    files.write_all(fd, b"".join(_line(Count(at, what, of, n)) for (at, what, of), n in sorted(sums.items())))


def _line(count: Count) -> bytes:
    return json.dumps({"at": round(count.at, 3), "what": count.what, "of": count.of[:80], "n": count.n}).encode() + b"\n"


def _parsed(data: bytes) -> list[Count]:
    found = []
    for line in data.splitlines():
        try:
            record = json.loads(line)
            count = Count(float(record["at"]), str(record["what"]), str(record["of"]), int(record["n"]))
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            continue  # torn, or not ours
        if count.n > 0:
            found.append(count)
    return found
