"""Lists the judgements not made yet and the facts not visible, without which "no problems detected" would mean nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from spooltop.model.look.observation import BoxState
from spooltop.model.look.problem import CODES
from spooltop.model.text import escape
from spooltop.model.vocabulary import Box

from ..cursors.verdict import NOT_ADVANCING
from ..flow.depth import SLOPE_FROM
from ..flow.rates import WINDOW
from .rule_input import RuleInput

__all__ = ["not_judged", "not_judged_codes", "not_visible"]

_NAMED = 4
_OF_CURSORS = ("cursor-reverted", "cursor-stalled", "cursor-stopped", "cursor-rewound", "cursor-missing")


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


def not_judged_codes(seen: RuleInput) -> dict[str, str]:
    """Returns the codes of problems that cannot be detected yet, or not from here, in the order of the codes, each with what
    would tell, or why nothing does."""
    found: dict[str, str] = {}
    for why, codes in _codes(seen):
        for code in codes:
            found.setdefault(code, why)
    return {code: found[code] for code in CODES if code in found}


def _codes(seen: RuleInput) -> Iterator[tuple[str, Sequence[str]]]:
    observation, limits = seen.observation, seen.thresholds
    if seen.has_boxes and not seen.mail:
        yield from _codes_of_messages(seen)
    # Journals and poll logs count as moves: what they tell needs no second look.
    few = [cursor for cursor in seen.cursors if seen.cursor_watch.moves(cursor.file, cursor.source) < 2]
    if few:
        why = "needs --watch over 2 writes of each source"
        yield why, ("cursor-reverted", "cursor-rewound")
        if any(cursor.every is None for cursor in few):
            yield why, ("cursor-stalled", "cursor-stopped")
    if seen.cursors and seen.watched <= 0:
        yield "needs --watch", ("cursor-missing", "unsafe-writer")
    if seen.cursor_watch.errors:
        yield "a cursor file cannot be read", _OF_CURSORS
    if seen.cursor_watch.left_out:
        yield "not all sources were read", (*_OF_CURSORS, "cursor-unreadable")
    if seen.watched < limits.lock_blocked and any(lock.waiters for lock in observation.locks):
        yield _watch(limits.lock_blocked), ("lock-blocked",)
    hidden = [lock for lock in observation.locks if lock.verdict == "unknown"]
    if hidden:
        yield f"it is unknown who has {_many(len(hidden), 'lock')}", ("lock-blocked", "lock-stale", "ticket-orphan")
    if any(one.free is None for one in observation.capacities):
        yield "free space is not visible", ("disk-full",)


def _codes_of_messages(seen: RuleInput) -> Iterator[tuple[str, Sequence[str]]]:
    observation, limits, boxes = seen.observation, seen.thresholds, seen.observation.boxes
    new, cur, tmp = (boxes.get(box) for box in (Box.NEW, Box.CUR, Box.TMP))
    if new is None or new.count is None:
        yield _unseen(new, "new"), ("no-consumer", "failing", "new-growing", "new-old")
    else:
        judged = seen.watched >= limits.no_consumer or seen.unattended is not None or observation.paused is not None
        if new.count and not judged:
            yield _watch(limits.no_consumer), ("no-consumer",)
        if seen.trend.per_s is None or seen.trend.window < limits.new_growing:
            yield _watch(max(limits.new_growing, SLOPE_FROM)), ("new-growing",)
        if new.count and new.oldest_at is None and new.due != 0:
            yield "nothing here says when a message was put", ("new-old",)
    if cur is not None and cur.count is None:
        yield _unseen(cur, "cur"), ("poison", "failing", "claims-dead", "claim-long", "claims-unknown")
    if not observation.proves_death:
        yield "nothing here proves that a holder is dead", ("poison", "claims-dead", "claims-unknown")
    if not observation.judged_all:
        yield "not all holders were asked", ("poison", "claims-dead", "claim-long", "claims-unknown", "tmp-abandoned", "tmp-old")
    if not observation.claims_all:
        yield "not all claims were read", ("poison", "claim-long")
    if any(row.in_box_since is None for row in observation.claims):
        yield "nothing here says since when a message is claimed", ("claim-long",)
    if observation.layout != "spool":
        yield "attempts are not judged here", ("failing",)
    elif not observation.tried_all:
        yield "not all attempts were read", ("failing",)
    if tmp is not None and tmp.count is None:
        yield _unseen(tmp, "tmp"), ("tmp-abandoned", "tmp-old")


def _watch(seconds: float) -> str:
    return f"needs --watch {seconds:g}s"


def _unseen(box: BoxState | None, name: str) -> str:
    why = "" if box is None else box.note or box.error
    return escape(why) if box is not None and box.note else f"{name} is not visible" + (f": {escape(why)}" if why else "")


def _many(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


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
        yield f"holders of {_many(hidden, 'lock')}"
