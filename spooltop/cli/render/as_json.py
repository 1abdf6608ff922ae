"""Snapshots, rows, plans and their results as JSON objects. Pure.

Times are epoch seconds, ages seconds; ids, names and paths are escaped (``model.vocabulary``); null is "not known", never 0.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from spooltop.features import parts
from spooltop.model import BoxState, Pause, Problem, Snapshot, full_name
from spooltop.model.plan import AuditTrail, ItemResult, OperationRecord, Outcome, Plan, Result, Selection
from spooltop.model.vocabulary import ASIDE, LIVE, Box, Holders, Key, LockHolder, Owner, Payload, Row, escape, escape_text, since

_BOXES = (*LIVE, *ASIDE)
"""Boxes that every target has in JSON, also where they are not visible."""


def members(thing: object, *names: str) -> dict[str, Any]:
    """The members of an object that have the same name and value in JSON."""
    return {name: getattr(thing, name) for name in names}


def known(**members: object) -> dict[str, Any]:
    """Leaves out the members that are not known: those that are None."""
    return {name: value for name, value in members.items() if value is not None}


def escaped(name: str | None) -> str | None:
    """A name that may not be known."""
    return None if name is None else escape(name)


def status_head(target: str) -> dict[str, Any]:
    """The first members of each object of ``status --json``: what is looked at, and on which host."""
    return {"spool": escape(full_name(target)), "host": escape(os.uname().nodename)}


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
        **known(program=observation.program or None),
        "taken_at": now,
        "complete": observation.complete,
        "boxes": {box: _box(observation.boxes.get(box), now) for box in dict.fromkeys((*_BOXES, *observation.boxes))},
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
        **known(resources=[members(one, "name", "free", "total", "unit", "readonly") for one in observation.resources] or None),
        **{name: shown for part in parts("render") for name, shown in part.status_json(snapshot).items()},
        "problems": [_problem(problem, ids) for problem in sorted(snapshot.problems, key=lambda problem: problem.rank)],
        "consumers": observation.consumers,
        "paused": _pause(observation.paused, now),
        "duplicates_suppressed": {escape(source): many for source, many in observation.suppressed.items()},
        "last_claim_at": observation.last_claim_at,
        "who": members(observation.who, "user", "uid", "words"),
        "refusals": dict(observation.capabilities.refusals),
        "watch": {**members(observation.watch, "mode", "reason"), "watched_for": snapshot.watched_for},
        "not_judged": list(snapshot.not_judged_codes),
        "not_visible": list(snapshot.not_visible),
        "muted": {escape(source): end for source, end in snapshot.muted.items()},
    }


def _pause(pause: Pause | None, now: float) -> dict[str, Any] | None:
    if pause is None:
        return None
    return {"by": escaped(pause.by), "at": pause.at, "age": since(pause.at, now), "reason": escape(pause.reason)}


def row(row: Row, now: float, *, complete: bool = True) -> dict[str, Any]:
    """A line of ``ls --json``. ``complete`` is False if the list is known to be incomplete."""
    line: dict[str, Any] = {
        "id": escape(row.id),
        "name": escape(row.name),
        **members(row, "box", "enqueued_at"),
        "age": row.age(now),
        "in_box_since": row.in_box_since,
        "in_box_age": row.in_box_age(now),
        "in_box_is_bound": row.since_is_bound,
        "size": row.size,
        "source": escaped(row.source),
        "attempt": row.attempt,
        "last_attempt": escaped(row.ended),
        **members(row, "verdict", "evidence", "not_before", "canary", "note"),
        "complete": complete,
    }
    if row.box is Box.CUR or row.owner is not None:
        owner = row.owner or Owner()
        line["owner"] = {
            "host": escaped(owner.host), **members(owner, "pid", "start"), "command": escaped(owner.command), "user": owner.user,
            **known(name=escaped(owner.name)),
        }  # fmt: skip
    return line | known(written_at=row.written_at, reason=escape(row.reason) or None, expires_at=row.expires_at)


def message(found: Row, payload: Payload, now: float) -> dict[str, Any]:
    """``show --json``: the row, the facts, and the beginning of the payload, escaped."""
    return {
        **row(found, now),
        "facts": [{"label": label, "text": text} for label, text in payload.facts],
        "payload": escape_text(payload.data),
        "payload_size": payload.size,
        "payload_truncated": payload.truncated,
    }


def holders(found: Holders, row: Row) -> dict[str, Any]:
    """The object of ``show --who --json``: the processes that have the file of a message open or locked."""
    return {
        **named(row),
        "path": found.path,
        "holders": [
            {
                "pid": one.pid, "command": escaped(one.command), **members(one, "user", "how"), "of": escape(one.of) or None,
                "since": one.since,
            }
            for one in found.processes
        ],
        **members(found, "complete", "notes"),
    }  # fmt: skip


def selection(chosen: Selection, ids: Mapping[Key, str]) -> dict[str, Any]:
    """A selection with only the conditions that it has. Messages that it names by keys are listed by their ``ids``."""
    named = [*(chosen.ids or ()), *(ids[key] for key in chosen.keys or () if key in ids)]
    return known(
        box=chosen.box,
        ids=[*map(escape, dict.fromkeys(named))] if chosen.named else None,
        source=escaped(chosen.source),
        **members(chosen, "verdict", "older_than"),
        filter=chosen.filter or None,
        all=chosen.everything or None,
    )


def named(row: Row, words: str = "") -> dict[str, Any]:
    """Identifies a message by id, name and box. A cursor, which is in no box, is identified by its source and file, with what is
    done to it."""
    named = {"id": escape(row.id), "name": escape(row.name)}
    if os.path.isabs(row.name):
        return {**named, "words": words} if words else named
    return {**named, "box": row.box}


def _box(state: BoxState | None, now: float) -> dict[str, Any]:
    if state is None:
        return {"count": None, "bytes": None, "oldest_age": None, "oldest_at": None, "complete": False, "error": "not looked at"}
    return {
        **members(state, "count", "bytes", "bytes_estimated"),
        "oldest_age": since(state.oldest_at, now),
        **members(state, "oldest_at", "complete", "error"),
        **known(note=state.note or None),
        **(members(state, "retention", "expired") if state.retention is not None else {}),
    }


def holder(holder: LockHolder) -> dict[str, Any]:
    return {"pid": holder.pid, "command": escaped(holder.command), **members(holder, "user", "since")}


def _problem(problem: Problem, ids: Mapping[Key, str]) -> dict[str, Any]:
    return {
        **members(problem, "severity", "code", "text", "count"),
        "selection": None if problem.selection is None else selection(problem.selection, ids),
        "view": problem.view,
        "subject": escaped(problem.subject),
    }


# Plans, their results, and operations.

def outcome(plan: Plan, result: Result | None, *, dry_run: bool) -> dict[str, Any]:
    """The plan of a change as a JSON object and, if it was applied, the outcome of each item."""
    thing: dict[str, Any] = {
        **members(plan, "action", "operation"),
        "target": escape(plan.target),
        "made_at": plan.made_at,
        "dry_run": dry_run,
        "count": plan.count,
        "refused": [{**named(refusal.row), "reason": refusal.reason, "forceable": refusal.forceable} for refusal in plan.refused],
        "missing": [*map(escape, plan.missing)],
        **members(plan, "notes", "command"),
    }
    if result is None:
        thing["items"] = [{**named(item.row, item.words), "warning": item.warning} for item in plan.items]
        return thing
    return {
        **thing,
        **{one: result.count(one) for one in Outcome},
        "items": [*map(_item, result.items)],
        **members(result, "finished_at", "stopped", "untried", "undo"),
        "notes": (*plan.notes, *result.notes),
    }


def operation(record: OperationRecord, now: float) -> dict[str, Any]:
    """A line of ``ops --json``."""
    return {
        **members(record, "operation", "action", "at"),
        "age": since(record.at, now),
        **members(record, "user", "count", "done", "skipped", "failed", "open", "undone_by", "why_not_undo", "words"),
    }


def audited(record: OperationRecord, trail: AuditTrail, now: float) -> dict[str, Any]:
    """The object of ``ops PATH OPERATION --json``: the operation, ``items`` with the outcome of each, ``audit`` with the lines of
    the log."""
    return {
        **operation(record, now),
        "items": [_item(one) for line in trail.lines for one in line.results],
        "audit": [
            {
                "time": line.at,
                **members(line, "event", "action", "user"),
                **members(line.by, "uid", "sudo_user", "ssh_connection", "tty", "pid"),
                **members(line, "count", "tried", "force"),
                "names": [*map(escape, line.names)],
                "trusted": line.trusted,
            }
            for line in trail.lines
        ],
        "notes": trail.problems,
    }


def _item(one: ItemResult) -> dict[str, Any]:
    """The outcome of an item as a JSON object."""
    return {
        "id": escape(one.id),
        "name": escape(one.name),
        **members(one, "outcome", "reason"),
        "became": escape(one.became),
    }
