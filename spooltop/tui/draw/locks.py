"""Who holds which lock file, and who waits for it."""

from __future__ import annotations

from spooltop.model import units
from spooltop.model.sight import Lock, LockParty
from spooltop.model.snapshot import Snapshot
from spooltop.model.text import program

from .spans import Line, Span, Style, clip_left, crop, merge, pad, safe, shown

__all__ = ["lock_lines", "party"]

_STYLES = {"stale": Style.WARN, "blocked": Style.BAD}


def party(one: LockParty) -> str:
    """``5201 worker.py``; ``not visible`` where the kernel does not tell."""
    if one.pid is None:
        return "not visible"
    return " ".join(part for part in (str(one.pid), safe(program(one.command or ""))) if part)


def lock_lines(snapshot: Snapshot, width: int, rows: int, *, now: float) -> list[Line]:
    """A title and a line for each lock, troubled ones first, at most ``rows``; what has no room is counted."""
    locks = sorted(snapshot.sight.locks, key=lambda lock: (lock.verdict not in _STYLES, lock.verdict == "free"))
    if not locks or rows < 2:
        return []
    path = 24 + min(24, max(0, width - 80) // 3)
    lines: list[Line] = [crop((Span(f" {pad('lock', path)}{'verdict':<9}{'kind':<7}holder, waiters", Style.DIM),), width)]
    fits = rows - 1
    listed = locks if len(locks) <= fits else locks[: fits - 1]
    lines += [_lock_line(lock, width, now, path) for lock in listed]
    if len(listed) < len(locks):
        lines.append(crop((Span(f"   {len(locks) - len(listed)} more, "), Span("6", Style.KEY), Span(" shows all")), width))
    return lines


def _lock_line(lock: Lock, width: int, now: float, path: int) -> Line:
    bad = lock.verdict in _STYLES
    holders = ", ".join(party(one) for one in lock.holders) or "nobody"
    since = min((one.since for one in lock.holders if one.since is not None), default=None)
    held = f" for {units.age(max(0.0, now - since))}" if since is not None else ""
    waits = f" · {len(lock.waiters)} wait: {', '.join(party(one) for one in lock.waiters)}" if lock.waiters else ""
    why = f" · {shown(lock.evidence)}" if lock.evidence and bad else ""
    return crop(
        merge(
            (
                Span(f" {pad(clip_left(safe(lock.path), path - 1), path)}"),
                Span(pad(lock.verdict.upper() if bad else lock.verdict, 9), _STYLES.get(lock.verdict, Style.NORMAL)),
                Span(f"{pad(lock.kind, 7)}{holders}{held}{waits}{why}"),
            )
        ),
        width,
    )
