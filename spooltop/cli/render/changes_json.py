"""Plans, their results, and operations as JSON objects, by the rules of ``snapshot_json``. Pure."""

from __future__ import annotations

from typing import Any

from spooltop.model.operations.plan import ItemResult, OperationRecord, Outcome, Plan, Result
from spooltop.model.operations.results import AuditTrail
from spooltop.model.text import escape

from .snapshot_json import SCHEMA, members, named


def outcome(plan: Plan, result: Result | None, *, dry_run: bool) -> dict[str, Any]:
    """The plan of a change as a JSON object and, if it was applied, the outcome of each item."""
    thing: dict[str, Any] = {
        "schema": SCHEMA,
        "action": str(plan.action),
        "operation": plan.operation,
        "target": escape(plan.target),
        "made_at": plan.made_at,
        "dry_run": dry_run,
        "count": plan.count,
        "refused": [{**named(refusal.row), "reason": refusal.reason, "forceable": refusal.forceable} for refusal in plan.refused],
        "missing": [escape(missing) for missing in plan.missing],
        "notes": list(plan.notes),
        "command": list(plan.command),
    }
    if result is None:
        thing["items"] = [{**named(item.row, item.words), "warning": item.warning} for item in plan.items]
        return thing
    thing.update({str(one): result.count(one) for one in Outcome})
    thing["items"] = [_item(item) for item in result.items]
    thing["finished_at"] = result.finished_at
    thing["stopped"] = result.stopped
    thing["untried"] = result.untried
    thing["undo"] = list(result.undo)
    thing["notes"] = [*plan.notes, *result.notes]
    return thing


def operation(record: OperationRecord, now: float) -> dict[str, Any]:
    """A line of ``ops --json``."""
    return {
        "schema": SCHEMA,
        "operation": record.operation,
        "action": str(record.action),
        "at": record.at,
        "age": max(0.0, now - record.at),
        **members(record, "user", "count", "done", "skipped", "failed", "open", "undone_by", "why_not_undo", "words"),
    }


def audited(record: OperationRecord, trail: AuditTrail, now: float) -> dict[str, Any]:
    """The object of ``ops PATH OPERATION --json``: the operation, ``items`` with the outcome of each, ``audit`` with the lines of
    the log."""
    thing = operation(record, now)
    thing["items"] = [_item(one) for line in trail.lines for one in line.results]
    thing["audit"] = [
        {
            "time": line.at,
            **members(line, "event", "action", "user"),
            **members(line.by, "uid", "sudo_user", "ssh_connection", "tty", "pid"),
            **members(line, "count", "tried", "force"),
            "names": [escape(name) for name in line.names],
            "trusted": line.trusted,
        }
        for line in trail.lines
    ]  # fmt: skip
    thing["notes"] = list(trail.problems)
    return thing


def _item(one: ItemResult) -> dict[str, Any]:
    """The outcome of an item as a JSON object."""
    return {
        "id": escape(one.id),
        "name": escape(one.name),
        "outcome": str(one.outcome),
        "reason": one.reason,
        "became": escape(one.became),
    }
