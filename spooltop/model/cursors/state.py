"""Cursors: their files as one look read them, the history of a source, and its verdict.

All times are epoch seconds.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence

from spooltop.records import dataclass, field

from ..look.locks import LockHolder
from ..text import escape
from ..vocabulary import Json

__all__ = [
    "VERDICTS", "Cursor", "CursorSection", "CursorSource", "CursorVersion", "CursorWrite", "Poll", "cursor_keys",
]  # fmt: skip

VERDICTS = (
    "advancing", "reverted", "rewound", "stalled", "stopped", "idle", "not advancing", "missing", "unreadable", "new",
)  # fmt: skip
"""All verdicts on cursors."""


@dataclass(frozen=True, slots=True)
class CursorWrite:
    """A line of ``.cursors.journal``: a write by ``CursorFile.advance``, under its lock. ``old`` is the replaced value."""

    at: float
    source: str
    old: Json
    new: Json
    writer: LockHolder


@dataclass(frozen=True, slots=True)
class CursorVersion:
    """A content that a cursor file had between two looks.

    ``read_at``: when it was read; ``mtime``: when it was written by the file's own time. ``unread``: number of writes between the
    previous version and this one that were not read; None: not known.
    """

    read_at: float
    mtime: float
    sections: Mapping[str, Json]
    inode: int = 0
    unread: int | None = None
    writer: LockHolder | None = None


@dataclass(frozen=True, slots=True)
class CursorSource:
    """A cursor file as it was read, or the cursors that a server keeps.

    ``sections`` is source → value; None if it does not parse (``error`` says why). ``shared`` is False for one file per source.
    ``lock_holders`` are those that held its lock when it was read. ``version`` changes whenever the content may have; a file
    needs none. ``in_file`` is False on a server: there ``path`` is a name, and nobody looks for locks and writers.
    """

    path: str
    shared: bool
    sections: Mapping[str, Json] | None
    error: str = ""
    inode: int = 0
    mtime: float = 0.0
    size: int = 0
    lock_holders: tuple[LockHolder, ...] = ()
    temp_files: tuple[str, ...] = ()
    """Temporary files beside it that an unsafe writer leaves, names as on disk."""
    journal: tuple[CursorWrite, ...] = ()
    """Writes that the journal beside it records since the previous look (at the first look: of the last hour), in their order.
    All of them were published before the file was read."""
    lock_there: bool | None = None
    """True if ``.cursors.lock`` exists beside it: without it nobody takes the lock. None: not checked."""
    writer: LockHolder | None = None
    """The process that published this content, if the kernel reported it (fanotify(7))."""
    earlier: tuple[CursorVersion, ...] = ()
    """Contents since the previous look that have been replaced, oldest first."""
    read_at: float | None = None
    """When it was read, None: at the time of the look."""
    unread: int | None = None
    """Number of writes just before this content that were not read, as for a ``CursorVersion``."""
    left_out: int = 0
    """Number of sources of this file that are not among ``sections``, because they are too many or their names too long."""
    cut: frozenset[str] = frozenset()
    """Sources whose section is too large to be kept: ``sections`` has only its short fields, or its length."""
    version: Hashable = None
    in_file: bool = True
    behind: Mapping[str, tuple[int, bool]] = field(default_factory=dict)
    """For each source that a server counts: how many messages come after its cursor, and whether that is exact and not only a
    lower bound."""

    @property
    def stamp(self) -> Hashable:
        """Equal for two looks where nothing was written between them, as far as it can be seen."""
        return (self.inode, self.mtime, self.size) if self.version is None else self.version


@dataclass(frozen=True, slots=True)
class Poll:
    """A poll according to its log: ``new`` messages from the cursor ``start``, ``end`` after it, as written in ``line``."""

    source: str
    at: float
    new: int
    start: str
    end: str
    line: str = ""


@dataclass(frozen=True, slots=True)
class CursorSection:
    """A source's value in one file, as written: an entry of the history.

    ``shown`` is the cursor in it, escaped ("" if it is the value itself). ``held_by`` are those that were seen to hold the lock.
    A look comes after the write, so empty means "not seen", never "nobody", unless ``lock_there`` is False: without a lock file
    nobody held it.
    """

    at: float
    value: Json
    inode: int
    also_changed: tuple[str, ...] = ()
    held_by: tuple[LockHolder, ...] = ()
    shown: str = ""
    writer: LockHolder | None = None
    """The process that wrote it, if the journal or the kernel reported it; it is never guessed."""
    lock_there: bool | None = None
    back: bool = False
    """True if the cursor went back: to a smaller value, or to a token that it had before."""
    lost: bool = False
    """True if that was a lost update and not a rewind."""
    journaled: bool = False
    """True if the journal records it: written by ``CursorFile.advance``, under the lock."""


@dataclass(frozen=True, slots=True)
class Cursor:
    """A source's cursor with its verdict, as ``observe`` derived it from many looks.

    ``value`` is the current value in the file (the last good one if it does not parse). ``verdict`` is one of ``VERDICTS``;
    "new" was seen once. ``moved_at`` is when the
    value last changed as far as known; ``moved_is_bound``: not later than that. ``every`` is the learnt interval in
    seconds, None while unknown. ``writes`` counts the writes that were seen, None in a shared file where a write of the same
    value may be another source's. ``history`` is newest first.
    """

    source: str
    value: Json
    shown: str
    verdict: str
    evidence: str
    file: str
    shared: bool
    moved_at: float | None = None
    moved_is_bound: bool = False
    every: float | None = None
    writes: int | None = None
    writes_unread: int = 0
    """Number of writes of its file, by any source, that were too fast to be read, over the same time."""
    reverts: int = 0
    """Lost updates over the time watched, and those before it according to journals and poll logs."""
    reverts_recent: int = 0
    """Lost updates of the last minutes, or, if there are none, of the last hour."""
    reverts_is_bound: bool = False
    """True if there may have been more: not all writes were read, or a poll log has more than the file."""
    history: tuple[CursorSection, ...] = ()
    lock_holders: tuple[LockHolder, ...] = ()
    suspects: tuple[tuple[str, int], ...] = ()
    """Other sources that advanced in the same writes that reverted it: (source, in how many of ``reverts_recent``), most
    first."""
    unsafe: tuple[str, ...] = ()
    """Evidence that this file is written unsafely, in words; names are escaped."""
    polls: tuple[Poll, ...] = ()
    """Entries of its poll log, newest first; empty if none was named."""
    field: str | None = None
    """The field of its section that is the cursor, if a setting names it."""
    reverted_by: tuple[tuple[str, int], ...] = ()
    """Writers of those reverting writes, if they were seen: (command or pid, how many), most first; escaped."""
    same_start: int = 0
    """Number of the last polls that found something new from the same start: from 2 on none of it was saved."""
    cut: bool = False
    """True if its section is too large to be kept: ``value`` has its short fields, or says how long it is."""
    in_file: bool = True
    """False for a cursor that a server keeps: no locks and no writers are looked for."""
    behind: int | None = None
    """Number of messages that come after it; None where nobody counts them."""
    behind_is_bound: bool = False
    """True if there may be more."""


def cursor_keys(cursors: Sequence[Cursor]) -> list[str]:
    """Returns a unique, escaped name of each cursor: its source or, if several files have that source, the source and the file,
    ``imessage@cursors/imessage.json``."""
    often = Counter(cursor.source for cursor in cursors)
    files = [cursor.file for cursor in cursors]
    above = os.path.commonpath([os.path.dirname(file) for file in files]) if files else ""
    return [
        escape(cursor.source if often[cursor.source] == 1 else f"{cursor.source}@{os.path.relpath(cursor.file, above)}")
        for cursor in cursors
    ]
