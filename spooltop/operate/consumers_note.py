"""Note about the consumers that would take requeued or released messages; the last line of such a plan."""

from __future__ import annotations

from spooltop.model.look.observation import Observation
from spooltop.model.text import escape
from spooltop.model.units import age
from spooltop.model.vocabulary import Verdict

__all__ = ["RECENT", "at_work"]

RECENT = 60.0
"""Seconds after a claim during which a consumer of which there is no other sign may still be running."""
_NAMED_AT_MOST = 3


def at_work(observation: Observation, now: float, last_claim_at: float | None = None) -> str:
    """Builds the note: ``At work now: 1 consumer (5201), last claim 4s ago.`` ``now`` and ``last_claim_at`` (from an observer
    that has watched for longer) are epoch seconds. Consumers that are visible only by their claims count while they hold one."""
    claimed = max((at for at in (observation.last_claim_at, last_claim_at) if at is not None), default=None)
    last = "" if claimed is None else f", last claim {age(max(0.0, now - claimed))} ago"
    living = [row.owner for row in observation.claims if row.verdict is Verdict.ALIVE and row.owner is not None]
    processes = list(dict.fromkeys((one.host, one.pid or one.name) for one in living if one.pid or one.name))
    count = max(observation.consumers or 0, len(processes))
    if count:
        pids = ", ".join(str(pid) for _, pid in processes)
        named = f" ({escape(pids)})" if processes and len(processes) == count <= _NAMED_AT_MOST else ""
        return f"At work now: {count:,} {'consumer' if count == 1 else 'consumers'}{named}{last or ', last claim not known'}."
    if claimed is not None and now - claimed <= RECENT:
        return f"Nobody is seen at work now{last}."
    return f"Nobody is at work now{last}: they will wait in new."
