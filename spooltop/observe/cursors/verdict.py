"""Judges one source's history: a verdict of one word, with evidence. Pure.

No limit is set by hand except for the first minutes: what is late, silent or stuck follows from the source's own history.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from spooltop.model.look.locks import LockHolder
from spooltop.model.text import escape, program
from spooltop.model.units import age, interval

from .history import Change, CursorHistory

__all__ = [
    "ASK_FOR_LOGS", "NOT_ADVANCING", "judge", "on_a_server", "revert_words", "suspected_writers", "suspects", "undecided",
    "writers_of",
]  # fmt: skip

NOT_ADVANCING = "not advancing"
"""The verdict where the file alone does not tell an idle source from a stalled one."""
ASK_FOR_LOGS = "; idle or stalled? give --poll-log"
"""Appended if only a file shared by several sources is known."""
_USUAL = "within its usual interval"
_NEW_FOR = 60.0
_INTERVAL_UNKNOWN = 300.0
"""While the interval is not known yet, a forward move counts as recent for this many seconds."""
_REPEATS = 2
"""Writes of the same value, with messages of the source before each, that are no longer a coincidence."""


def judge(
    history: CursorHistory, now: float, *, shared: bool, window: float, at_least: bool = False
) -> tuple[str, str, int]:
    """Returns (verdict, evidence, reverts): the lost updates of the last ``window`` seconds or, if there are none, of the last
    hour. ``at_least``: there may be more that were not seen."""
    lost = history.lost_updates(now)
    recent = [change for change in lost if change.at >= now - window]
    if lost and (len(recent) > 1 or not history.recovered(lost[-1])):
        words = revert_words(history, lost, now, window=window, at_least=at_least)
        return "reverted", words + suspects(recent or lost) + _written_by(recent or lost), len(recent or lost)
    before = f"; reverted {len(lost)}×, last {age(now - lost[-1].at)} ago" if lost else ""
    if history.below_top:
        back = next((change for change in reversed(history.changes) if change.back), None)
        since = f" {age(now - back.at)} ago" if back else ""
        by = f" by {_name(back.writer)}" if back and back.writer else ""
        how = f"went back {history.shown(back.old)}→{history.shown(back.new)}{since}{by}; " if back else ""
        return "rewound", f"{how}its highest was {history.shown(history.top)}{before}", len(lost)
    verdict, words = _pace(history, now, shared=shared)
    return verdict, words + before, len(recent or lost)


def undecided(verdict: str, evidence: str) -> bool:
    """True where the cursor file alone does not tell whether the source is idle, stalled or stopped."""
    return verdict in (NOT_ADVANCING, "new", "stopped") or evidence.startswith(_USUAL)


def _pace(history: CursorHistory, now: float, *, shared: bool) -> tuple[str, str]:
    unmoved = max(0.0, now - history.moved_at)
    explained = history.explained()
    if history.busy_repeats > (_REPEATS if explained is None else 0) and (explained is None or unmoved > explained):
        since = f", not advancing for {age(unmoved)}" if history.changes else ""
        return "stalled", f"written {history.repeated}× with the same value while messages of it keep arriving{since}"
    stopped = _stopped(history, now, shared=shared)
    if stopped:
        return "stopped", stopped
    if not history.changes:
        return _never_moved(history, now, shared=shared)
    every = history.every
    if every is None:
        if unmoved <= _INTERVAL_UNKNOWN:
            moves = sum(1 for change in history.changes if not change.back)
            return "advancing", f"moved {moves}×, last {age(unmoved)} ago"
        return NOT_ADVANCING, f"not advancing for {age(unmoved)}, update interval not known yet{ASK_FOR_LOGS}"
    if unmoved <= max(1.25 * every, every + 5.0):
        return "advancing", f"every {interval(every)}, last {age(unmoved)} ago"
    if explained is not None and unmoved <= explained:
        return "idle", f"{_USUAL}, every {interval(every)}, last {age(unmoved)} ago"
    words = f"not advancing for {age(unmoved)}, every {interval(every)} before"
    written = max(0.0, now - history.written_at)
    if history.repeated and written < unmoved:
        if history.journal_writes and history.journal_writes[-1] > history.moved_at:
            return "idle", f"its poller wrote {age(written)} ago and has nothing new"
        if not shared:
            return NOT_ADVANCING, f"{words}; idle or stalled? written {age(written)} ago with the same value"
    return NOT_ADVANCING, words + ASK_FOR_LOGS


def on_a_server(verdict: str, evidence: str, behind: int | None, *, exact: bool) -> tuple[str, str]:
    """Returns the verdict on a cursor that a server keeps, which counts what comes after it: no log of a poller is needed."""
    if verdict == "new":
        return verdict, "seen once"
    if verdict != NOT_ADVANCING or behind is None:
        return verdict, evidence
    words = evidence.removesuffix(ASK_FOR_LOGS)
    if not behind and exact:
        return "idle", "nothing waits"
    return verdict, f"{words}; {'' if exact else '≥'}{behind:,} {'waits' if behind == 1 and exact else 'wait'}"


def _never_moved(history: CursorHistory, now: float, *, shared: bool) -> tuple[str, str]:
    written = age(max(0.0, now - history.written_at))
    if history.repeated and history.journal_writes:
        return "idle", f"its poller wrote {written} ago and has nothing new"
    if not shared and history.writes:
        return NOT_ADVANCING, f"idle or stalled? written {len(history.writes)}× with the same value"
    watched = now - history.first_seen
    if watched < _NEW_FOR:
        return "new", "seen once, no write yet"
    return NOT_ADVANCING, f"not advancing in {age(watched)} of watching{ASK_FOR_LOGS}"


def _stopped(history: CursorHistory, now: float, *, shared: bool) -> str:
    """Says why the source counts as stopped, "" if it does not or that is not known: in a file that others write too, only the
    journal shows it."""
    silent = max(0.0, now - history.written_at)
    times = history.journal_writes if shared else history.writes
    limit = history.explained(times)
    if limit is None or silent <= limit or (shared and not history.all_journaled):
        return ""
    words = f"not written for {age(silent)}, every {interval(history.written_every(times))} before"
    return words if history.repeats_ever else f"{words}; or nothing was new: it was never written without a move"


def revert_words(
    history: CursorHistory, lost: Sequence[Change], now: float, *, window: float, at_least: bool = False
) -> str:
    """Describes the last lost update and their number: ``reverted 89636→89632, 5× in 5m``."""
    last = lost[-1]
    recent = [change for change in lost if change.at >= now - window]
    watched = min(window, now - history.first_seen)
    bound = "at least " if at_least else ""
    often = f"{len(recent)}× in {age(watched)}" if recent else f"{len(lost)}×, last {age(now - last.at)} ago"
    return f"reverted {history.shown(last.old)}→{history.shown(last.new)}, {bound}{often}"


def suspected_writers(lost: Sequence[Change], now: float, *, window: float) -> tuple[tuple[str, int], ...]:
    """Counts, of the lost updates that ``judge`` counts, in how many writes each other source advanced: (source, count), most
    first."""
    recent = [change for change in lost if change.at >= now - window] or lost
    times = Counter(source for change in recent for source in change.advanced)
    return tuple(sorted(times.items(), key=lambda item: (-item[1], item[0])))


def writers_of(lost: Sequence[Change], now: float, *, window: float) -> tuple[tuple[str, int], ...]:
    """Counts those writes by writer, if it was seen: (writer, count), most first. A poller that is restarted each time is counted
    by its command."""
    recent = [change for change in lost if change.at >= now - window] or lost
    times = Counter(_name(change.writer) for change in recent if change.writer is not None)
    return tuple(sorted(times.items(), key=lambda item: (-item[1], item[0])))


def suspects(lost: Sequence[Change], *, most: int = 2) -> str:
    """Names the sources that advanced in those writes. The writer itself was not seen, so they are only suspects."""
    times = suspected_writers(lost, 0.0, window=0.0)
    if not times:
        return ""
    words = ", ".join(f"{escape(source)} advanced in {n} of {len(lost)}" for source, n in times[:most])
    return f"; {words} of these writes"


def _written_by(lost: Sequence[Change]) -> str:
    times = writers_of(lost, 0.0, window=0.0)
    return "".join(f"; {n} written by {name}" for name, n in times[:1])


def _name(writer: LockHolder | None) -> str:
    if writer is None:
        return "?"
    return escape(program(writer.command)) if writer.command else f"pid {writer.pid}"
