"""Plans, their results, and operations as JSON objects, by the rules of ``snapshot_json``. Pure."""

from __future__ import annotations

from typing import Any

from spooltop.model.operations.plan import ItemResult, OperationRecord, Outcome, Plan, Result
from spooltop.model.operations.results import AuditTrail
from spooltop.model.text import escape

from .snapshot_json import members, named


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
        "age": max(0.0, now - record.at),
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
