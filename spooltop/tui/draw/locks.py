"""Draws the lock files, their holders and their waiters."""

from __future__ import annotations

from spooltop.model import units
from spooltop.model.look.locks import Lock, LockHolder
from spooltop.model.look.snapshot import Snapshot
from spooltop.model.text import program

from .elements.spans import (
    BLANK,
    Ends,
    Line,
    Span,
    Style,
    clip,
    clip_left,
    common_ends,
    crop,
    cut_apart,
    join,
    merge,
    pad,
    pad_left,
    safe,
    select,
    shown,
    text_width,
    wrap,
)

_STYLES = {"STALE": Style.WARN, "BLOCKED": Style.BAD}
_STALE = "; the file is the lock: nobody can take it"
_INDENT = 11
_MOST_HOLDERS = 6
_TRIES = 20
"""Fewer tries than this give no percentage."""


def holder_info(one: LockHolder) -> str:
    """``5201 worker.py``; ``ticket 7 1e6f71c9`` where only the ticket is known; ``not visible`` where the kernel does not tell
    the holder."""
    if one.pid is None:
        return safe(one.command) if one.command else "not visible"
    return " ".join(part for part in (str(one.pid), safe(program(one.command or ""))) if part)


def ranked(snapshot: Snapshot) -> tuple[Lock, ...]:
    """The locks in the order of the list: those with problems first, then the held ones."""

    def rank(lock: Lock) -> int:
        return 0 if lock.path in snapshot.lock_problems else {"stale": 1, "free": 3}.get(lock.verdict, 2)

    return tuple(sorted(snapshot.observation.locks, key=rank))


def _verdict(lock: Lock, snapshot: Snapshot) -> Span:
    word = snapshot.lock_verdict(lock)
    return Span(word, _STYLES.get(word, Style.NORMAL))


def _held(lock: Lock, now: float) -> str:
    since = min((one.since for one in lock.holders if one.since is not None), default=None)
    return "—" if since is None else units.age(max(0.0, now - since))


def lock_lines(snapshot: Snapshot, width: int, rows: int, *, now: float, chosen: int | None = None) -> list[Line]:
    """A title and one line per lock, those with problems first, at most ``rows`` lines; locks that do not fit are counted. Where
    there is a single line, it names the held locks. With one ``chosen``, as many as fit around it are shown."""
    locks = ranked(snapshot)
    if not locks or rows < 1:
        return []
    if rows < 2:
        return [_in_a_line(locks, snapshot, width)]
    path = 24 + min(24, max(0, width - 80) // 3)
    title = f" {pad('lock', path)}{'verdict':<9}{'held':>5}{'wait':>6}  holder"
    lines: list[Line] = [crop((Span(title, Style.DIM),), width)]
    fits = rows - 1
    ends = common_ends([safe(lock.path) for lock in locks])
    if chosen is not None:
        top = max(0, min(chosen - fits + 1, len(locks) - fits))
        for i, lock in enumerate(locks[top : top + fits], start=top):
            line = _lock_line(lock, snapshot, width, now, path, ends)
            lines.append(select(join("▌", Span(line[0].text[1:]), *line[1:]), width) if i == chosen else line)
        return lines
    listed = locks if len(locks) <= fits else locks[: fits - 1]
    lines += [_lock_line(lock, snapshot, width, now, path, ends) for lock in listed]
    if len(listed) < len(locks):
        lines.append(crop((Span(f"   {len(locks) - len(listed)} more, "), Span("6", Style.KEY), Span(" shows all")), width))
    return lines


def _in_a_line(locks: tuple[Lock, ...], snapshot: Snapshot, width: int) -> Line:
    parts: list[Span | str] = [f" {'locks':<11}"]
    taken = [lock for lock in locks if lock.verdict != "free"]
    for i, lock in enumerate(taken):
        waits = f", {len(lock.waiters):,} wait" if lock.waiters else ""
        parts += [" · " if i else "", _verdict(lock, snapshot), f" {clip_left(safe(lock.path.rpartition('/')[2]), 20)}{waits}"]
    free = len(locks) - len(taken)
    if free:
        parts.append(f"{' · ' if taken else ''}{free:,} free")
    return crop(join(*parts), width)


def _lock_line(lock: Lock, snapshot: Snapshot, width: int, now: float, path: int, ends: Ends) -> Line:
    nobody = "not visible" if lock.verdict == "unknown" else "nobody"
    holders = ", ".join(holder_info(one) for one in lock.holders) or nobody
    why = f" · {shown(lock.evidence)}" if lock.evidence and lock.verdict == "stale" else ""
    if lock.waiters:
        why += f" · waits: {', '.join(holder_info(one) for one in lock.waiters)}"
    verdict = _verdict(lock, snapshot)
    waits = f"{len(lock.waiters):,}" if lock.waiters else "0" if lock.kind not in ("soft", "none", "mkdir") else "—"
    return crop(
        merge(
            (
                Span(f" {pad(cut_apart(safe(lock.path), path - 1, ends), path)}"),
                Span(pad(verdict.text, 9), verdict.style),
                Span(f"{pad_left(_held(lock, now), 5)}{pad_left(waits, 6)}  {holders}{why}"),
            )
        ),
        width,
    )


def lock_table(snapshot: Snapshot, width: int, height: int, *, now: float, chosen: int = 0) -> list[Line]:
    """All locks with their kind, holders and waiters, those with problems first; at most ``height`` lines, in which the chosen
    one is shown completely where it fits."""
    locks = ranked(snapshot)
    troubled = sum(lock.path in snapshot.lock_problems for lock in locks)
    tail = f" · {troubled:,} with problems, first" if troubled else ""
    lines: list[Line] = [crop(join(Span(f" Locks {len(locks):,}", Style.TITLE), tail), width)] if locks else []
    lines += [used] if (used := locks_used(snapshot, width)) else []
    at = end = 0
    for i, lock in enumerate(locks):
        block = _block(lock, snapshot, width, now, chosen=i == chosen)
        if i == chosen:
            at, end = len(lines) + 1, len(lines) + 1 + len(block)
        lines += [BLANK, *block]
    top = 0 if end <= height else min(at, end - height)
    return lines[top:][:height]


def locks_used(snapshot: Snapshot, width: int) -> Line:
    """The share of tries on the engine's own locks that timed out, where any were made: the engine counts these, other programs
    do not."""
    had, in_vain = snapshot.observation.locks_had, snapshot.observation.locks_given_up
    tries = had + in_vain
    if not tries:
        return BLANK
    failing = any(problem.code == "lock-failures" for problem in snapshot.problems)
    share = units.percent(in_vain, tries) if tries >= _TRIES else "—"
    failed = Span(f"{in_vain:,} timed out", Style.WARN if failing else Style.NORMAL)
    return crop(join(" the engine's own locks: ", failed, f" ({share}) of {tries:,} attempts over 5m"), width)


def _block(lock: Lock, snapshot: Snapshot, width: int, now: float, *, chosen: bool) -> list[Line]:
    verdict = _verdict(lock, snapshot)
    room = max(8, width - _INDENT - 2)
    kind = "" if lock.kind == "none" else f" {lock.kind}"
    path = Span(clip_left(safe(lock.path), room - text_width(kind)), Style.STRONG)
    sign = Span("▌" if chosen else " ", Style.KEY)
    lines: list[Line] = [join(sign, Span(pad(verdict.text, _INDENT - 1), verdict.style), path, Span(kind, Style.DIM))]
    return lines + lock_facts(lock, width, now)


def lock_facts(lock: Lock, width: int, now: float) -> list[Line]:
    """The evidence for a lock's verdict, its holders and its waiters."""
    room = max(8, width - _INDENT - 2)
    lines: list[Line] = []
    alone = lock.verdict == "stale" and lock.kind == "soft" and "lease" not in lock.evidence
    facts = [("", shown(lock.evidence) + (_STALE if alone else ""))] if lock.evidence else []
    facts += _holder_facts("held by", lock.holders, now)
    facts += _holder_facts("waits", lock.waiters, now)
    for label, text in facts:
        for i, part in enumerate(wrap(text, room)):
            lines.append(crop(join(Span(f"   {'' if i else label:<{_INDENT - 3}}", Style.DIM), part), width))
    return lines


def _holder_facts(label: str, holders: tuple[LockHolder, ...], now: float) -> list[tuple[str, str]]:
    facts = []
    for i, one in enumerate(holders[:_MOST_HOLDERS]):
        user = f" of {safe(one.user)}" if one.user else ""
        since = "" if one.since is None else f", for {units.at_least(max(0.0, now - one.since))}"
        gone = ", exited" if one.alive is False else ""
        facts.append(("" if i else label, f"{clip(holder_info(one), 40)}{user}{gone}{since}"))
    if len(holders) > _MOST_HOLDERS:
        facts.append(("", f"{len(holders) - _MOST_HOLDERS:,} more"))
    return facts
