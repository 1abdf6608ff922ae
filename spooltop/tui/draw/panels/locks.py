"""Draws the locks in a large window: a list, the facts of the chosen one, and who waits for whom and for how long."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from spooltop.model import units
from spooltop.model.look.locks import Lock, LockHolder
from spooltop.model.look.snapshot import Snapshot

from ..elements.spans import Line, Span, Style, clip_left, crop, join, plain, safe
from ..locks import holder_info, lock_facts, lock_lines, locks_used, ranked
from .frame import Section, frame, stack

LOCKS_WIDE, LOCKS_HIGH = 120, 22
"""Cells and lines from which on there are panels."""
_FACTS = 9
"""Lines of the facts of the chosen lock."""
_MANY = 1000
_DEEPEST = 8
"""Steps from the first holder to the last waiter that are drawn."""


def lock_panels(snapshot: Snapshot, width: int, height: int, *, now: float, chosen: int) -> list[Line]:
    """Exactly ``height`` lines."""
    locks = ranked(snapshot)
    left = (width - 3) * 3 // 5
    right = width - 3 - left
    troubled = len(snapshot.lock_problems)
    title = f"{len(locks):,} lock{'s' if len(locks) != 1 else ''}{f', {troubled:,} with problems first' if troubled else ''}"
    shown = locks[max(0, min(chosen, len(locks) - 1))]
    first = [
        Section(title, partial(lock_lines, snapshot, now=now, chosen=chosen), 4, _MANY),
        Section("the chosen lock", partial(_facts, shown, now=now), _FACTS, _FACTS),
    ]
    second = [Section("who waits for whom", partial(wait_lines, snapshot, now=now), 3, _MANY)]
    if locks_used(snapshot, width):
        second.append(Section("the engine's own locks", partial(_used, snapshot), 1, 1))
    return frame([(left, stack(first, left, height)), (right, stack(second, right, height))])


def _facts(lock: Lock, width: int, rows: int, *, now: float) -> list[Line]:
    kind = "" if lock.kind == "none" else f" {lock.kind}"
    path = join(" ", Span(clip_left(safe(lock.path), width - len(kind) - 2), Style.STRONG), Span(kind, Style.DIM))
    return [path, *lock_facts(lock, width, now)][:rows]


def _used(snapshot: Snapshot, width: int, rows: int) -> list[Line]:
    used = locks_used(snapshot, _MANY)
    return [crop(join(" ", *(Span(span.text.removeprefix(" the engine's own locks: "), span.style) for span in used)), width)]


def wait_lines(snapshot: Snapshot, width: int, rows: int, *, now: float) -> list[Line]:
    """A tree: below each holder, those who wait for its lock and, where they hold another one, those who wait for them. Processes
    that wait for each other in a circle are told as a deadlock."""
    locks = [lock for lock in ranked(snapshot) if lock.waiters]
    if not locks:
        return [plain(" nobody waits for a lock", width, Style.DIM)]
    waiting = {_identity(one) for lock in locks for one in lock.waiters}
    first = [lock for lock in locks if not any(_identity(one) in waiting for one in lock.holders)]
    drawn: set[str] = set()
    lines: list[Line] = []
    for lock in [*first, *locks]:
        if lock.path not in drawn:
            lines += [crop(line, width) for line in _tree(lock, locks, drawn, now, 0, waiting if lock not in first else set())]
    if len(lines) > rows > 0:
        lines = [*lines[: rows - 1], plain(f"   {len(lines) - rows + 1:,} more lines", width, Style.DIM)]
    return lines


def _tree(
    lock: Lock, locks: list[Lock], drawn: set[str], now: float, depth: int, waiting: set[tuple[int | None, str]]
) -> Iterator[Line]:
    drawn.add(lock.path)
    margin = " " * (2 * depth + 1)
    name = clip_left(safe(lock.path.rpartition("/")[2]), 24)
    circle = any(_identity(one) in waiting for one in lock.holders)
    for one in lock.holders or (LockHolder(None),):
        deadlock = Span(" DEADLOCK", Style.BAD) if circle else Span("")
        yield join(f"{margin}{_who(one)} holds ", Span(name, Style.STRONG), f" {_since(one, now)}", deadlock)
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
    return "" if one.since is None else units.at_least(max(0.0, now - one.since))
