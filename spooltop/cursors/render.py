"""Cursors as JSON objects and as lines of text, those of the report on a target too. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from spooltop.cli.render.as_json import holder, members
from spooltop.cli.render.as_text import date, loud
from spooltop.model import Snapshot, cells, escape, printable, since

from .model import Cursor, CursorSection, cursors_by_key


def status_json(snapshot: Snapshot) -> dict[str, Any]:
    return {"cursors": {key: _cursor(one, snapshot.taken_at) for key, one in cursors_by_key(snapshot.cursors).items()}}


def status_lines(snapshot: Snapshot) -> Iterator[str]:
    if snapshot.cursors:
        yield from cursor_lines(snapshot)


def cursors_json(snapshot: Snapshot) -> Iterable[dict[str, Any]]:
    """Lines of ``cursors --json``, each with the writes that were seen, newest first."""
    for one in snapshot.cursors:
        yield {"source": escape(one.source), **_cursor(one, snapshot.taken_at), "history": [*map(_write, one.history)]}


def _write(write: CursorSection) -> dict[str, Any]:
    """A write to a cursor as a JSON object. ``held_by`` lists the processes that were seen to hold the lock: empty if none was
    seen, null if there is no lock."""
    return {
        **members(write, "at", "value"),
        "also_changed": [*map(escape, write.also_changed)],
        "held_by": None if write.lock_there is False and not write.held_by else [*map(holder, write.held_by)],
        "writer": None if write.writer is None else holder(write.writer),
        "back": write.back,
        "lost_update": write.lost,
        "in_journal": write.journaled,
    }


def _cursor(cursor: Cursor, now: float) -> dict[str, Any]:
    return {
        **members(cursor, "value", "verdict", "evidence"),
        "file": escape(cursor.file),
        **members(cursor, "shared", "moved_at"),
        "moved_age": since(cursor.moved_at, now),
        **members(cursor, "moved_is_bound", "every", "writes"),
        "writes_not_read": cursor.writes_unread,
        **members(cursor, "reverts", "reverts_recent", "reverts_is_bound"),
        "reverted_by": dict(cursor.reverted_by),
        "suspects": {escape(source): times for source, times in cursor.suspects},
        "unsafe": list(cursor.unsafe),
        "same_start": cursor.same_start,
        "last_poll": escape(cursor.polls[0].line) if cursor.polls else None,
        "complete": not cursor.cut,
        **members(cursor, "behind", "behind_is_bound"),
    }


def cursor_lines(snapshot: Snapshot) -> Iterator[str]:
    """Lines of cursors. A value is printed as it is in the file, never grouped or rounded."""
    now = snapshot.taken_at
    shown = [(printable(escape(one.source)), printable(one.shown or json.dumps(one.value)), one) for one in snapshot.cursors]
    first = max([6, *(cells(source) for source, _, _ in shown)])
    second = max([6, *(cells(value) for _, value, _ in shown)])
    counted = all(not one.in_file for one in snapshot.cursors)
    names = ("group", "last delivered", "     lag") if counted else ("source", "cursor", "")
    second = max(second, len(names[1]))
    yield f"{names[0]:<{first}}  {names[1]:<{second}}   moved{names[2]}  verdict"
    for source, value, one in shown:
        yield (
            f"{source}{' ' * (first - cells(source))}  {value}{' ' * (second - cells(value))}  {one.moved(now):>6}"
            f"{f'{one.lag:>8}' if counted else ''}  "
            f"{loud(one.verdict)}{printable(one.because)}"
            f"{f', muted until {date(end)}' if (end := snapshot.muted.get(one.source)) is not None else ''}"
        )
    for file in snapshot.observation.cursors:
        if file.left_out:
            yield f"{file.left_out:,} more sources in {printable(escape(file.path))} are not watched"
