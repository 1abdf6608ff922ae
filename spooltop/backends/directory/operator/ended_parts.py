"""Finds the parts of the journal by which nothing can be undone any more, so that they can go.

A part is kept while a message is still where an operation in it has moved it. When all were claimed, moved on or deleted since,
it goes. A part that ends or undoes what an earlier part began stays as long as any earlier part does. The two newest files stay
in any case, and ``log_parts.MOST_PARTS`` bounds the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing

from spooltop.engine.dirs import SpoolDirs
from spooltop.engine.system.files import is_inode

from ...journal.log_store import SpoolLogs
from ...journal.record_log import decode, step_of
from ..journal.journal import MOVES, MoveIntent
from ..journal.moves import MoveColumns
from ..storage.location import folders_dir

__all__ = ["ended_parts"]


def ended_parts(dirs: SpoolDirs, logs: SpoolLogs, parts: Sequence[str]) -> Iterator[str]:
    """Yields those of ``parts`` of the journal, the oldest first, that nothing needs."""
    earlier = False
    for part in parts:
        try:
            with closing(iter(logs.part(part))) as lines:
                needed = _is_needed(dirs, lines, earlier)
        except OSError:
            needed = True  # what cannot be read or looked at may be needed
        if needed:
            earlier = True
        else:
            yield part


def _is_needed(dirs: SpoolDirs, lines: Iterable[bytes], earlier: bool) -> bool:
    """Tells of a part by its lines, the newest first. ``earlier``: an earlier part is kept."""
    ended: set[tuple[str, int]] = set()
    for line in lines:
        try:
            is_result, operation, step = step_of(line, MOVES)
            record = None if is_result else decode(line, MOVES)
        except (ValueError, RecursionError):
            continue  # what is no line cannot be undone
        if not isinstance(record, MoveIntent):
            ended.add((operation, step))
            continue
        ended.discard((operation, step))
        if (earlier and record.undoes is not None) or any(_is_there(dirs, run) for run in record.runs):
            return True
    return earlier and bool(ended)


def _is_there(dirs: SpoolDirs, run: MoveColumns) -> bool:
    """True where a message is still at its target. Raises ``OSError`` where that cannot be seen."""
    if run.target is None:
        return False
    box, folder = run.target
    if not folder:
        return _any_of(run.to_names, dirs, dirs.box(box))
    above = dirs.private_dir(folders_dir(box))
    if above is None:
        return False
    try:
        fd = dirs.files.open_dir(folder, above)  # apart from those that the operation in progress has open in ``dirs``
    except FileNotFoundError:
        return False
    try:
        return _any_of(run.to_names, dirs, fd)
    finally:
        dirs.files.close(fd)


def _any_of(names: Iterable[str], dirs: SpoolDirs, fd: int) -> bool:
    return any(is_inode(dirs.files, name, fd, None, unseen=True) for name in names)
