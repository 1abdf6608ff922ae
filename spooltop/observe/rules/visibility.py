"""Lists the judgements not made yet and the facts not visible, without which "no problems detected" would mean nothing."""

from __future__ import annotations

from collections.abc import Iterator

from spooltop.model.look.problem import CODES
from spooltop.model.text import escape
from spooltop.model.vocabulary import Box

from ..cursors.verdict import NOT_ADVANCING
from ..flow.rates import WINDOW
from .rule_input import RuleInput

__all__ = ["not_judged", "not_judged_codes", "not_visible"]

_NAMED = 4


def not_judged(seen: RuleInput) -> Iterator[str]:
    if seen.has_boxes and not seen.mail and (seen.rates.arrived is None or seen.watched < WINDOW):
        yield f"rates (need {WINDOW:.0f}s)"
    waiting = [(cursor, seen.cursor_watch.moves(cursor.file, cursor.source)) for cursor in seen.cursors]
    few = [
        (escape(cursor.source), moves)
        for cursor, moves in waiting
        if moves < 2 and cursor.verdict in ("new", "advancing", NOT_ADVANCING)
    ]
    if few:
        names = ", ".join(f"{name} {moves}" for name, moves in few[:_NAMED])
        more = f", {len(few) - _NAMED} more" if len(few) > _NAMED else ""
        yield f"cursors (need 2 writes of each source; {names}{more})"


def not_judged_codes(seen: RuleInput) -> Iterator[str]:
    """Yields the codes of problems that cannot be detected yet, or not from here, in the order of the codes."""
    found = set(_codes(seen))
    return (code for code in CODES if code in found)


def _codes(seen: RuleInput) -> Iterator[str]:
    observation, limits = seen.observation, seen.thresholds
    if seen.has_boxes and not seen.mail:
        boxes = observation.boxes
        new = boxes.get(Box.NEW)
        if new is None or new.count is None:
            yield from ("no-consumer", "failing", "new-growing", "new-old")
        else:
            judged = seen.watched >= limits.no_consumer or seen.unattended is not None or observation.paused is not None
            if new.count and not judged:
                yield "no-consumer"
            if seen.trend.per_s is None or seen.trend.window < limits.new_growing:
                yield "new-growing"
        if Box.CUR in boxes and boxes[Box.CUR].count is None:
            yield from ("poison", "failing", "claims-dead", "claim-long", "claims-unknown")
        if Box.TMP in boxes and boxes[Box.TMP].count is None:
            yield from ("tmp-abandoned", "tmp-old")
    # Journals and poll logs count as moves: what they tell needs no second look.
    few = [cursor for cursor in seen.cursors if seen.cursor_watch.moves(cursor.file, cursor.source) < 2]
    if few:
        yield from ("cursor-reverted", "cursor-rewound")
        if any(cursor.every is None for cursor in few):
            yield from ("cursor-stalled", "cursor-stopped")
    if seen.cursors and seen.watched <= 0:
        yield "cursor-missing"
    if seen.watched < limits.lock_blocked and any(lock.waiters for lock in observation.locks):
        yield "lock-blocked"


def not_visible(seen: RuleInput) -> Iterator[str]:
    observation = seen.observation
    if observation.watch.away:
        yield escape(observation.watch.reason)
        return
    yield from map(escape, observation.hidden)
    for box, state in observation.boxes.items() if seen.has_boxes else ():
        if state.count is None:
            why = state.error or state.note
            yield f"{box} ({escape(why)})" if why else str(box)
        elif not state.complete:
            yield f"all of {box}"
    for path, sources in seen.cursor_watch.left_out.items():
        yield f"{sources:,} more sources in {escape(path.rpartition('/')[2])}"
    if observation.watch.mode == "scan" and seen.has_boxes:
        why = f": {escape(observation.watch.reason)}" if observation.watch.reason else ""
        yield f"changes between two looks ({observation.watch.period or 0:g}s apart{why})"
    if not observation.judged_all:
        yield "holders of some claims"
    if any(one.free is None for one in observation.capacities):
        yield "free space"
    servers = [lock for lock in observation.locks if lock.kind == "redis" and lock.verdict == "unknown"]
    for lock in servers:
        yield f"tickets in {escape(lock.path)}: {escape(lock.evidence)}"
    hidden = sum(
        1 for lock in observation.locks if lock.verdict == "unknown" or any(holder.pid is None for holder in lock.holders)
    )
    hidden -= len(servers)
    if hidden:
        yield f"holders of {hidden} lock{'' if hidden == 1 else 's'}"
