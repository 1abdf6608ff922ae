"""Snapshots and rows as JSON objects. Pure.

Times are epoch seconds, ages seconds; ``id``, ``name`` and paths are escaped (``model.text``); null is "not known", never 0.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from spooltop.model.cursors import Cursor, CursorSection, cursor_keys
from spooltop.model.filters.selection import Selection
from spooltop.model.look.locks import Holders, Lock, LockHolder
from spooltop.model.look.observation import BoxState, Capacity, Pause
from spooltop.model.look.snapshot import Problem, Snapshot
from spooltop.model.row import Payload, Row
from spooltop.model.target import full_name
from spooltop.model.text import escape, escape_text
from spooltop.model.vocabulary import ASIDE, LIVE, Box, Key

SCHEMA = 1
"""Schema version in every object."""
_BOXES = (*LIVE, *ASIDE)
"""Boxes that every target has in JSON, also where they are not visible."""


def dumps(thing: Mapping[str, Any]) -> str:
    """Encodes an object on a single line, in ASCII, so that no locale can corrupt it. Values that JSON does not have (NaN) become
    null."""
    try:
        return json.dumps(thing, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(thing), allow_nan=False)


def members(thing: object, *names: str) -> dict[str, Any]:
    """The members of an object that have the same name and value in JSON."""
    return {name: getattr(thing, name) for name in names}


def status_head(target: str) -> dict[str, Any]:
    """The first members of each object of ``status --json``: what is looked at, and on which host."""
    return {"schema": SCHEMA, "spool": escape(full_name(target)), "host": escape(os.uname().nodename)}


def status(snapshot: Snapshot, target: str) -> dict[str, Any]:
    """The complete object of ``status --json``."""
    observation = snapshot.observation
    now = snapshot.taken_at
    rates = snapshot.rates
    counts = observation.counts
    ids = {row.key: row.id for row in (*observation.claims, *observation.tmp, *observation.irregular)}
    return {
        **status_head(target),
        "layout": observation.layout,
        **({"program": observation.program} if observation.program else {}),
        "taken_at": now,
        "complete": observation.complete,
        "boxes": {str(box): _box(observation.boxes.get(box), now) for box in dict.fromkeys((*_BOXES, *observation.boxes))},
        # Of a mail folder nothing is judged, and what was not counted is not 0.
        "claims": dict.fromkeys(("alive", "dead", "unknown"))
        if observation.is_mail
        else {"alive": counts.alive, "dead": counts.dead if observation.proves_death else None, "unknown": counts.unknown},
        "tmp": {"writing": counts.writing, "abandoned": counts.abandoned, "unknown": counts.tmp_unknown},
        "judged_all": observation.judged_all,
        "rates": {
            "in": rates.in_per_s,
            "done": rates.done_per_s,
            **members(rates, "window", "retried", "requeued", "lower_bound", "new_per_s", "slope_window"),
            "waited": members(rates.waited, "samples", "p50", "p95", "p99"),
            "worked": members(rates.worked, "samples", "p50", "p95", "p99"),
        },
        "disk": None if observation.disk is None else members(
            observation.disk, "fs_type", "bytes_free", "bytes_total", "inodes_free", "inodes_total", "readonly"
        ),
        **({"resources": [*map(_resource, observation.resources)]} if observation.resources else {}),
        "cursors": dict(zip(cursor_keys(snapshot.cursors), (_cursor(cursor, now) for cursor in snapshot.cursors), strict=True)),
        "locks": [_lock(lock) for lock in observation.locks],
        "problems": [_problem(problem, ids) for problem in sorted(snapshot.problems, key=lambda problem: problem.rank)],
        "consumers": observation.consumers,
        "paused": _pause(observation.paused, now),
        "duplicates_suppressed": {escape(source): many for source, many in observation.suppressed.items()},
        "last_claim_at": observation.last_claim_at,
        "who": members(observation.who, "user", "uid", "words"),
        "refusals": {str(action): reason for action, reason in observation.capabilities.refusals.items()},
        "watch": {"mode": observation.watch.mode, "reason": observation.watch.reason, "watched_for": snapshot.watched_for},
        "not_judged": list(snapshot.not_judged_codes),
        "not_visible": list(snapshot.not_visible),
        "muted": {escape(source): end for source, end in snapshot.muted.items()},
    }


def _resource(one: Capacity) -> dict[str, Any]:
    return members(one, "name", "free", "total", "unit", "readonly")


def _pause(pause: Pause | None, now: float) -> dict[str, Any] | None:
    if pause is None:
        return None
    by = None if pause.by is None else escape(pause.by)
    return {"by": by, "at": pause.at, "age": max(0.0, now - pause.at), "reason": escape(pause.reason)}


def put(id: str, *, duplicate: bool) -> dict[str, Any]:
    """A line of ``put --json``. ``duplicate`` is True if nothing was put because the message already existed."""
    return {"schema": SCHEMA, "id": escape(id), "duplicate": duplicate}


def row(row: Row, now: float, *, complete: bool = True) -> dict[str, Any]:
    """A line of ``ls --json``. ``complete`` is False if the list is known to be incomplete."""
    line: dict[str, Any] = {
        "schema": SCHEMA,
        "id": escape(row.id),
        "name": escape(row.name),
        "box": str(row.box),
        "enqueued_at": row.enqueued_at,
        "age": row.age(now),
        "in_box_since": row.in_box_since,
        "in_box_age": row.in_box_age(now),
        "in_box_is_bound": row.since_is_bound,
        "size": row.size,
        "source": None if row.source is None else escape(row.source),
        "attempt": row.attempt,
        "last_attempt": None if row.ended is None else escape(row.ended),
        "verdict": None if row.verdict is None else str(row.verdict),
        "evidence": row.evidence,
        "not_before": row.not_before,
        "canary": row.canary,
        "note": row.note,
        "complete": complete,
    }
    if row.box is Box.CUR or row.owner is not None:
        owner = row.owner
        line["owner"] = {
            "host": None if owner is None or owner.host is None else escape(owner.host),
            "pid": None if owner is None else owner.pid,
            "start": None if owner is None else owner.start,
            "command": None if owner is None or owner.command is None else escape(owner.command),
            "user": None if owner is None else owner.user,
        }
        if owner is not None and owner.name is not None:
            line["owner"]["name"] = escape(owner.name)
    if row.written_at is not None:
        line["written_at"] = row.written_at
    if row.reason:
        line["reason"] = escape(row.reason)
    if row.expires_at is not None:
        line["expires_at"] = row.expires_at
    return line


def message(found: Row, payload: Payload, now: float) -> dict[str, Any]:
    """``show --json``: the row, the facts, and the beginning of the payload, escaped."""
    return {
        **row(found, now),
        "facts": [{"label": label, "text": text} for label, text in payload.facts],
        "payload": escape_text(payload.data),
        "payload_size": payload.size,
        "payload_truncated": payload.truncated,
    }


def cursors(snapshot: Snapshot) -> list[dict[str, Any]]:
    """Lines of ``cursors --json``, each with the writes that were seen, newest first."""
    return [
        {
            "schema": SCHEMA,
            "source": escape(cursor.source),
            **_cursor(cursor, snapshot.taken_at),
            "history": [_write(write) for write in cursor.history],
        }
        for cursor in snapshot.cursors
    ]


def _write(write: CursorSection) -> dict[str, Any]:
    """A write to a cursor as a JSON object. ``held_by`` lists the processes that were seen to hold the lock: empty if none was
    seen, null if there is no lock."""
    return {
        "at": write.at,
        "value": write.value,
        "also_changed": [escape(source) for source in write.also_changed],
        "held_by": None if write.lock_there is False and not write.held_by else [_holder(holder) for holder in write.held_by],
        "writer": None if write.writer is None else _holder(write.writer),
        "back": write.back,
        "lost_update": write.lost,
        "in_journal": write.journaled,
    }


def holders(found: Holders, row: Row | None = None) -> dict[str, Any]:
    """The object of ``show --who --json``: the processes that have the file open or locked; for a message, also its id, name and
    box."""
    return {
        "schema": SCHEMA,
        **({} if row is None else named(row)),
        "path": found.path,
        "holders": [
            {
                "pid": one.pid,
                "command": None if one.command is None else escape(one.command),
                "user": one.user,
                "how": one.how,
                "of": escape(one.of) or None,
                "since": one.since,
            }
            for one in found.processes
        ],
        "complete": found.complete,
        "notes": list(found.notes),
    }


def locks(some: Sequence[Lock]) -> list[dict[str, Any]]:
    """Lines of ``locks --json`` and ``tickets --json``."""
    return [{"schema": SCHEMA, **_lock(lock)} for lock in some]


def selection(chosen: Selection, ids: Mapping[Key, str]) -> dict[str, Any]:
    """A selection with only the conditions that it has. Messages that it names by keys are listed by their ``ids``."""
    thing: dict[str, Any] = {}
    if chosen.box is not None:
        thing["box"] = str(chosen.box)
    if chosen.named:
        named = [*(chosen.ids or ()), *(ids[key] for key in chosen.keys or () if key in ids)]
        thing["ids"] = [escape(one) for one in dict.fromkeys(named)]
    if chosen.source is not None:
        thing["source"] = escape(chosen.source)
    if chosen.verdict is not None:
        thing["verdict"] = str(chosen.verdict)
    if chosen.older_than is not None:
        thing["older_than"] = chosen.older_than
    if chosen.filter:
        thing["filter"] = chosen.filter
    if chosen.everything:
        thing["all"] = True
    return thing


def named(row: Row, words: str = "") -> dict[str, Any]:
    """Identifies a message by id, name and box. A cursor, which is in no box, is identified by its source and file, with what is
    done to it."""
    named = {"id": escape(row.id), "name": escape(row.name)}
    if os.path.isabs(row.name):
        return {**named, "words": words} if words else named
    return {**named, "box": str(row.box)}


def _box(state: BoxState | None, now: float) -> dict[str, Any]:
    if state is None:
        return {"count": None, "bytes": None, "oldest_age": None, "oldest_at": None, "complete": False, "error": "not looked at"}
    return {
        "count": state.count,
        "bytes": state.bytes,
        "bytes_estimated": state.bytes_estimated,
        "oldest_age": None if state.oldest_at is None else max(0.0, now - state.oldest_at),
        "oldest_at": state.oldest_at,
        "complete": state.complete,
        "error": state.error,
        **({"note": state.note} if state.note else {}),
        **({"retention": state.retention, "expired": state.expired} if state.retention is not None else {}),
    }


def _cursor(cursor: Cursor, now: float) -> dict[str, Any]:
    return {
        **members(cursor, "value", "verdict", "evidence"),
        "file": escape(cursor.file),
        **members(cursor, "shared", "moved_at"),
        "moved_age": None if cursor.moved_at is None else max(0.0, now - cursor.moved_at),
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


def _lock(lock: Lock) -> dict[str, Any]:
    return {
        "path": escape(lock.path),
        "kind": lock.kind,
        "holders": [_holder(holder) for holder in lock.holders],
        "waiters": [_holder(holder) for holder in lock.waiters],
        **members(lock, "verdict", "evidence"),
    }


def _holder(holder: LockHolder) -> dict[str, Any]:
    return {
        "pid": holder.pid,
        "command": None if holder.command is None else escape(holder.command),
        "user": holder.user,
        "since": holder.since,
    }


def _problem(problem: Problem, ids: Mapping[Key, str]) -> dict[str, Any]:
    return {
        "severity": str(problem.severity),
        **members(problem, "code", "text", "count"),
        "selection": None if problem.selection is None else selection(problem.selection, ids),
        "view": problem.view,
        "subject": None if problem.subject is None else escape(problem.subject),
    }


def _finite(thing: Any) -> Any:
    if isinstance(thing, float):
        return thing if thing - thing == 0 else None  # infinite and NaN are the floats for which this does not hold
    if isinstance(thing, Mapping):
        return {key: _finite(value) for key, value in thing.items()}
    if isinstance(thing, Sequence) and not isinstance(thing, str):
        return [_finite(value) for value in thing]
    return thing
