"""Draws the lock files, their holders and their waiters."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from spooltop.model import Lock, LockHolder, Snapshot, at_least, escape, percent, program, since
from spooltop.model.query import Fields
from spooltop.tui.draw.elements import (
    BLANK,
    Ends,
    Line,
    Lines,
    Section,
    Span,
    Style,
    ago,
    clip,
    clip_left,
    common_ends,
    cut_apart,
    dim,
    fact_lines,
    frame,
    join,
    numbered,
    pad,
    pad_left,
    safe,
    select,
    shown,
    visible,
    within,
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


def lock_facts(lock: Lock, verdict: str, now: float) -> Fields:
    """The facts that a filter finds. ``verdict`` is the one on the screen; ``age`` is the time that it has been held, ``pid``
    are its holders and waiters."""
    parties = (*lock.holders, *lock.waiters)
    commands = (escape(one.command or "") for one in parties)
    texts = (escape(lock.path), lock.kind, verdict, verdict.lower(), lock.evidence, *commands)
    return Fields(
        texts, (escape(lock.path),), age=since(lock.taken_at, now),
        pid=tuple(one.pid for one in parties if one.pid is not None), verdict=verdict.lower(),
    )  # fmt: skip


def _verdict(lock: Lock, snapshot: Snapshot) -> Span:
    word = snapshot.lock_verdict(lock)
    return Span(word, _STYLES.get(word, Style.NORMAL))


def lock_lines(snapshot: Snapshot, width: int, rows: int, *, chosen: int | None = None) -> Lines:
    """A title and one line per lock, those with problems first, at most ``rows`` lines; locks that do not fit are counted. Where
    there is a single line, it names the held locks. With one ``chosen``, as many as fit around it are shown."""
    locks = ranked(snapshot)
    if not locks or rows < 1:
        return []
    if rows < 2:
        return [_in_a_line(locks, snapshot)]
    path = 24 + min(24, max(0, width - 80) // 3)
    lines = [dim(f" {pad('lock', path)}{'verdict':<9}{'held':>5}{'wait':>6}  holder")]
    fits = rows - 1
    ends = common_ends([safe(lock.path) for lock in locks])
    listed = range(len(locks) if len(locks) <= fits else fits - 1) if chosen is None else visible(len(locks), fits, chosen)
    drawn = (_lock_line(locks[i], snapshot, path, ends, chosen=i == chosen) for i in listed)
    lines += drawn if chosen is None else map(numbered, listed, drawn)
    if chosen is None and len(listed) < len(locks):
        lines.append(join(f"   {len(locks) - len(listed)} more, ", Style.KEY("6"), " shows all"))
    return lines


def _in_a_line(locks: tuple[Lock, ...], snapshot: Snapshot) -> Line:
    parts: list[Span | str] = []
    taken = [lock for lock in locks if lock.verdict != "free"]
    for lock in taken:
        name = clip_left(safe(lock.path.rpartition("/")[2]), 20)
        waits = f", {len(lock.waiters):,} wait" if lock.waiters else ""
        parts += [" · " if parts else "", _verdict(lock, snapshot), f" {name}{waits}"]
    if free := len(locks) - len(taken):
        parts.append(f"{' · ' if taken else ''}{free:,} free")
    return join(f" {'locks':<11}", *parts)


def _lock_line(lock: Lock, snapshot: Snapshot, path: int, ends: Ends, *, chosen: bool) -> Line:
    nobody = "not visible" if lock.verdict == "unknown" else "nobody"
    holders = ", ".join(holder_info(one) for one in lock.holders) or nobody
    why = f" · {shown(lock.evidence)}" if lock.evidence and lock.verdict == "stale" else ""
    if lock.waiters:
        why += f" · waits: {', '.join(holder_info(one) for one in lock.waiters)}"
    verdict = _verdict(lock, snapshot)
    waits = f"{len(lock.waiters):,}" if lock.waiters else "0" if lock.kind not in ("soft", "none", "mkdir") else "—"
    line = join(
        f"{'▌' if chosen else ' '}{pad(cut_apart(safe(lock.path), path - 1, ends), path)}",
        verdict.style(pad(verdict.text, 9)),
        f"{pad_left(ago(lock.taken_at, snapshot.taken_at), 5)}{pad_left(waits, 6)}  {holders}{why}",
    )  # fmt: skip
    return select(line) if chosen else line


def lock_table(snapshot: Snapshot, width: int, height: int, *, chosen: int = 0) -> Lines:
    """All locks with their kind, holders and waiters, those with problems first; at most ``height`` lines, in which the chosen
    one is shown completely where it fits."""
    locks = ranked(snapshot)
    troubled = sum(lock.path in snapshot.lock_problems for lock in locks)
    tail = f" · {troubled:,} with problems, first" if troubled else ""
    lines: Lines = [join(Style.TITLE(f" Locks {len(locks):,}"), tail)] if locks else []
    if used := locks_used(snapshot):
        lines.append(join(" the engine's own locks: ", used))
    at = end = 0
    for i, lock in enumerate(locks):
        block = _block(lock, snapshot, width, chosen=i == chosen)
        if i == chosen:
            at, end = len(lines) + 1, len(lines) + 1 + len(block)
        lines += [BLANK, *(numbered(i, line) for line in block)]
    top = 0 if end <= height else min(at, end - height)
    return lines[top:]


def locks_used(snapshot: Snapshot) -> Line:
    """The share of tries on the engine's own locks that timed out, where any were made: the engine counts these, other programs
    do not."""
    had, in_vain = snapshot.observation.locks_had, snapshot.observation.locks_given_up
    tries = had + in_vain
    if not tries:
        return BLANK
    failing = any(problem.code == "lock-failures" for problem in snapshot.problems)
    share = percent(in_vain, tries) if tries >= _TRIES else "—"
    return join(Style.WARN(f"{in_vain:,} timed out", failing), f" ({share}) of {tries:,} attempts over 5m")


def _block(lock: Lock, snapshot: Snapshot, width: int, *, chosen: bool) -> Lines:
    verdict = _verdict(lock, snapshot)
    head = join(Style.KEY("▌" if chosen else " "), verdict.style(pad(verdict.text, _INDENT - 1)))
    return [join(head, _path(lock, max(8, width - _INDENT - 2))), *_evidence(lock, width, snapshot.taken_at)]


def _path(lock: Lock, room: int) -> Line:
    kind = "" if lock.kind == "none" else f" {lock.kind}"
    return Style.STRONG(clip_left(safe(lock.path), room - len(kind))), Style.DIM(kind)


def _evidence(lock: Lock, width: int, now: float) -> Lines:
    """The evidence for a lock's verdict, its holders and its waiters."""
    alone = lock.verdict == "stale" and lock.kind == "soft" and "lease" not in lock.evidence
    facts = [("", shown(lock.evidence) + (_STALE if alone else ""))] if lock.evidence else []
    facts += _holder_facts("held by", lock.holders, now)
    facts += _holder_facts("waits", lock.waiters, now)
    return fact_lines([(f"  {label}", text) for label, text in facts], width - 2, _INDENT - 1)


def _holder_facts(label: str, holders: tuple[LockHolder, ...], now: float) -> list[tuple[str, str]]:
    facts = []
    for i, one in enumerate(holders[:_MOST_HOLDERS]):
        user = f" of {safe(one.user)}" if one.user else ""
        since = f", for {_since(one, now)}" if one.since is not None else ""
        gone = ", exited" if one.alive is False else ""
        facts.append(("" if i else label, f"{clip(holder_info(one), 40)}{user}{gone}{since}"))
    if len(holders) > _MOST_HOLDERS:
        facts.append(("", f"{len(holders) - _MOST_HOLDERS:,} more"))
    return facts


# Draws the locks in a large window: a list, the facts of the chosen one, and who waits for whom and for how long.

LOCKS_WIDE, LOCKS_HIGH = 120, 22
"""Cells and lines from which on there are panels."""
_FACTS = 9
"""Lines of the facts of the chosen lock."""
_DEEPEST = 8
"""Steps from the first holder to the last waiter that are drawn."""


def lock_panels(snapshot: Snapshot, width: int, height: int, *, chosen: int) -> Lines:
    """Exactly ``height`` lines."""
    locks = ranked(snapshot)
    left = (width - 3) * 3 // 5
    right = width - 3 - left
    troubled = len(snapshot.lock_problems)
    title = f"{len(locks):,} lock{'s' if len(locks) != 1 else ''}{f', {troubled:,} with problems first' if troubled else ''}"
    lock = locks[within(chosen, len(locks))]

    def facts(width: int, rows: int) -> Lines:
        return [join(" ", _path(lock, width - 2)), *_evidence(lock, width, snapshot.taken_at)]

    first = [
        Section(title, partial(lock_lines, snapshot, chosen=chosen), 4),
        Section("the chosen lock", facts, _FACTS, _FACTS),
    ]
    second = [Section("who waits for whom", partial(wait_lines, snapshot), 3)]
    if used := locks_used(snapshot):
        second.append(Section("the engine's own locks", lambda width, rows: [join(" ", used)], 1, 1))
    return frame(height, (left, first), (right, second))


def wait_lines(snapshot: Snapshot, width: int, rows: int) -> Lines:
    """A tree: below each holder, those who wait for its lock and, where they hold another one, those who wait for them. Processes
    that wait for each other in a circle are told as a deadlock."""
    now = snapshot.taken_at
    locks = [lock for lock in ranked(snapshot) if lock.waiters]
    if not locks:
        return [dim(" nobody waits for a lock")]
    waiting = {_identity(one) for lock in locks for one in lock.waiters}
    first = [lock for lock in locks if not any(_identity(one) in waiting for one in lock.holders)]
    drawn: set[str] = set()
    lines: Lines = []
    for lock in [*first, *locks]:
        if lock.path not in drawn:
            lines += _tree(lock, locks, drawn, now, 0, waiting if lock not in first else set())
    if len(lines) > rows > 0:
        lines = [*lines[: rows - 1], dim(f"   {len(lines) - rows + 1:,} more lines")]
    return lines


def _tree(
    lock: Lock, locks: list[Lock], drawn: set[str], now: float, depth: int, waiting: set[tuple[int | None, str]]
) -> Iterator[Line]:
    drawn.add(lock.path)
    margin = " " * (2 * depth + 1)
    name = clip_left(safe(lock.path.rpartition("/")[2]), 24)
    circle = any(_identity(one) in waiting for one in lock.holders)
    for one in lock.holders or (LockHolder(None),):
        deadlock = Style.BAD(" DEADLOCK" if circle else "")
        yield join(f"{margin}{_who(one)} holds ", Style.STRONG(name), f" {_since(one, now)}", deadlock)
    for one in lock.waiters:
        yield join(f"{margin}└ {_who(one)} waits {_since(one, now)}")
        for other in locks:
            if depth < _DEEPEST and other.path not in drawn and _identity(one) in map(_identity, other.holders):
                yield from _tree(other, locks, drawn, now, depth + 1, set())


def _identity(one: LockHolder) -> tuple[int | None, str]:
    return (one.pid, "") if one.pid is not None else (None, one.command or "")


def _who(one: LockHolder) -> str:
    return f"{holder_info(one)}{f' of {safe(one.user)}' if one.user else ''}"


def _since(one: LockHolder, now: float) -> str:
    return "" if one.since is None else at_least(max(0.0, now - one.since))
