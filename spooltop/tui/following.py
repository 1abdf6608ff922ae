"""Where the messages of an operation are now, in words: what a look can tell of them."""

from __future__ import annotations

from ..model.plan import Outcome, Result
from ..model.snapshot import Snapshot
from ..model.units import age, duration
from ..model.words import Action

__all__ = ["since_then"]


def since_then(result: Result, snapshot: Snapshot | None) -> tuple[str, ...]:
    """Who claimed what was put back, as far as the claims of this snapshot tell. Empty before the first look after it."""
    if snapshot is None or snapshot.taken_at < result.finished_at:
        return ()
    if result.action not in (Action.REQUEUE, Action.RELEASE, Action.RESTORE, Action.INJECT):
        return ()
    ids = {item.id for item in result.items if item.outcome is Outcome.DONE}
    claims = [row for row in snapshot.sight.claims if row.id in ids]
    lines = []
    by_pid: dict[int | None, list[float]] = {}
    for row in claims:
        pid = row.owner.pid if row.owner is not None else None
        by_pid.setdefault(pid, []).append(max(0.0, (row.in_box_since or result.finished_at) - result.finished_at))
    for pid, waits in by_pid.items():
        who = f"by {pid}" if pid is not None else "by somebody who is not visible"
        lines.append(f"{len(waits)} claimed {who} after {duration(max(waits))}")
    rest = len(ids) - len(claims)
    if rest and snapshot.sight.judged_all:
        lines.append(f"{rest} in new still, or done since (looked {age(snapshot.taken_at - result.finished_at)} after it)")
    return tuple(lines)
