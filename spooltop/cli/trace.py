"""Tracing test messages through a spool: prints new, cur and gone as they are seen, each with its time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from spooltop.control import Control
from spooltop.model.operations.results import TrackedMessage
from spooltop.model.text import escape
from spooltop.model.units import duration
from spooltop.model.vocabulary import ASIDE, Box, Json

__all__ = ["as_json", "finished", "trace", "verdict"]

_EACH = 20
"""Maximum number of messages of which each step is printed; of more, only the summary is."""
_LOOK = 0.25
"""Maximum seconds until the next look: only a second look shows that a message is gone."""


def trace(
    control: Control, ids: Sequence[str], began: float, seconds: float, say: Callable[[str], None]
) -> Mapping[str, TrackedMessage]:
    """Follows ``ids``, put since ``began`` (epoch seconds), until all have gone through or ``seconds`` are over. Returns the
    state of each message."""
    end = control.now() + seconds
    reported: set[tuple[str, str, float | None]] = set()
    while True:
        found = control.follow(ids, began)
        for id, one in found.items() if len(ids) <= _EACH else ():
            for step, words in _steps(one, began):
                if (id, step, one.claimed_at) not in reported:
                    reported.add((id, step, one.claimed_at))
                    say(f"{escape(id)}  {step}{words}")
        left = end - control.now()
        if left <= 0 or all(finished(one) or one.box in ASIDE for one in found.values()):
            return found
        control.changes(min(left, _LOOK))
        control.look()


def finished(one: TrackedMessage) -> bool:
    """True if the message was claimed and acked."""
    return one.gone_at is not None


def verdict(found: Mapping[str, TrackedMessage], began: float, seconds: float) -> str:
    """``3 of 3 went through, after 12ms to 0.8s``, and what the others wait for."""
    took = sorted(_since(one, one.gone_at, began) for one in found.values() if one.gone_at is not None)
    words = f"{len(took):,} of {len(found):,} went through"
    if took:
        least, most = duration(took[0]), duration(took[-1])
        words += f", after {least}" + (f" to {most}" if most != least else "")
    left = [one for one in found.values() if not finished(one)]
    parts = []
    if waits := sum(1 for one in left if one.box is Box.NEW):
        parts.append(f"{waits:,} in new, not claimed")
    if taken := sum(1 for one in left if one.box is Box.CUR):
        parts.append(f"{taken:,} being processed")
    if aside := sum(1 for one in left if one.box in ASIDE):
        parts.append(f"{aside:,} set aside")
    if lost := sum(1 for one in left if one.box in (None, Box.TMP)):
        parts.append(f"{lost:,} on the way")
    return words if not parts else f"{words}; after {duration(seconds)} {', '.join(parts)}"


def as_json(found: Mapping[str, TrackedMessage], began: float) -> list[Json]:
    """Objects of the messages, with times in epoch seconds, null if not seen."""
    return [
        {
            "id": escape(id), "put_at": began if one.put_at is None else one.put_at, "claimed_at": one.claimed_at, "pid": one.pid,
            "gone_at": one.gone_at, "box": None if one.box is None else str(one.box),
        }
        for id, one in found.items()
    ]  # fmt: skip


def _steps(one: TrackedMessage, began: float) -> list[tuple[str, str]]:
    """Steps of a message since it was put, as far as they were seen, in order: each step, and the text that is printed when it is
    new."""
    claimed: list[tuple[str, str]] = []
    if one.claimed_at is not None:
        who = "a process that is not visible" if one.pid is None else one.pid
        claimed = [("cur", f", claimed by {who} after {duration(_since(one, one.claimed_at, began))}")]
    if one.gone_at is not None:
        return [*claimed, ("gone", f" after {duration(_since(one, one.gone_at, began))}")]
    if one.box is Box.CUR:
        return claimed or [("cur", "")]
    if one.box is Box.NEW:
        place = f", place {one.place:,} of {one.of:,}" if one.place is not None and one.of is not None else ""
        return [("new again", f", returned{place}") if claimed else ("new", place)]
    return [(f"set aside in {one.box}", "")] if one.box in ASIDE else []


def _since(one: TrackedMessage, at: float, began: float) -> float:
    return max(0.0, at - (began if one.put_at is None else one.put_at))
