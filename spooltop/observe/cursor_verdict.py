"""What one source's history says, in one word and in evidence. Pure; all of it from the watched file alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ..model.cursor_values import shown
from ..model.text import escape
from ..model.units import age, interval
from .cursor_history import Change, CursorHistory

__all__ = ["judge", "put_back_words", "suspects", "suspects_of"]

_NEW_FOR = 60.0
_RHYTHM_UNKNOWN = 300.0
"""While its rhythm is not learnt, a forward move counts as recent for so long."""


def judge(history: CursorHistory, now: float, *, shared: bool, window: float) -> tuple[str, str, int]:
    """(verdict, evidence, put-backs): the put-backs of the last ``window`` seconds, or where there are none, of the last hour."""
    put = history.put_backs(now)
    recent = [change for change in put if change.at >= now - window]
    if put and (len(recent) > 1 or not history.recovered(put[-1])):
        words = put_back_words(history, put, now, window=window)
        return "reverted", words + suspects(recent or put), len(recent or put)
    before = f"; put back {len(put)}×, last {age(now - put[-1].at)} ago" if put else ""
    if history.below_top:
        back = next((change for change in reversed(history.changes) if change.back), None)
        since = f" {age(now - back.at)} ago" if back else ""
        how = f"went back {shown(back.old)}→{shown(back.new)}{since}; " if back else ""
        return "rewound", f"{how}its highest was {shown(history.top)}{before}", len(put)
    verdict, words = _pace(history, now, shared=shared)
    return verdict, words + before, len(recent or put)


def _pace(history: CursorHistory, now: float, *, shared: bool) -> tuple[str, str]:
    unmoved = max(0.0, now - history.moved_at)
    silent = max(0.0, now - history.written_at)
    every = history.every
    if not shared:
        limit = history.explained(writes=True)
        if limit is not None and silent > limit:
            return "stopped", f"not written for {age(silent)}, every {interval(history.written_every)} before"
    if not history.changes:
        if not shared and history.writes:
            return "unmoved", f"idle or stalled? written {len(history.writes)}× with the same value"
        if now - history.first_seen < _NEW_FOR:
            return "new", "seen once, no write yet"
        return "unmoved", f"idle or stopped? no move in {age(now - history.first_seen)} of watching"
    moves = sum(1 for change in history.changes if not change.back)
    if every is None:
        if unmoved <= _RHYTHM_UNKNOWN:
            return "advancing", f"moved {moves}×, last {age(unmoved)} ago"
        return "unmoved", f"idle or stopped? {age(unmoved)} without a move, its rhythm is not known"
    if unmoved <= max(1.25 * every, every + 5.0):
        return "advancing", f"every {interval(every)}, last {age(unmoved)} ago"
    explained = history.explained()
    if explained is not None and unmoved <= explained:
        return "unmoved", f"within rhythm, every {interval(every)}, last {age(unmoved)} ago"
    words = f"{age(unmoved)} without a move, every {interval(every)} before"
    if not shared and silent < unmoved:
        return "unmoved", f"idle or stalled? {words}, written {age(silent)} ago"
    return "unmoved", f"idle or stopped? {words}"


def put_back_words(history: CursorHistory, put: Sequence[Change], now: float, *, window: float) -> str:
    """``put back 89636→89632, 5× in 5m``: the last of them, and how many there were."""
    last = put[-1]
    recent = [change for change in put if change.at >= now - window]
    watched = min(window, now - history.first_seen)
    often = f"{len(recent)}× in {age(watched)}" if recent else f"{len(put)}×, last {age(now - last.at)} ago"
    return f"put back {shown(last.old)}→{shown(last.new)}, {often}"


def suspects_of(put: Sequence[Change], now: float, *, window: float) -> tuple[tuple[str, int], ...]:
    """(source, in how many of those writes it advanced), most first, of the put-backs that ``judge`` counts."""
    recent = [change for change in put if change.at >= now - window] or put
    times = Counter(source for change in recent for source in change.advanced)
    return tuple(sorted(times.items(), key=lambda item: (-item[1], item[0])))


def suspects(put: Sequence[Change], *, most: int = 2) -> str:
    """Which sources' advances those writes carried: who wrote is not seen, so this is said as what it is."""
    times = suspects_of(put, 0.0, window=0.0)
    if not times:
        return ""
    words = ", ".join(f"{escape(source)} advanced in {n} of {len(put)}" for source, n in times[:most])
    return f"; {words} of these writes"
