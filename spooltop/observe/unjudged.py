"""What was not judged yet and what cannot be seen: the two things without which "nothing wrong" means nothing."""

from __future__ import annotations

from collections.abc import Iterator

from ..model.text import escape
from .flow import WINDOW
from .seen import Seen

__all__ = ["not_judged", "not_visible"]

_NAMED = 4


def not_judged(seen: Seen) -> Iterator[str]:
    if seen.has_boxes and not seen.mail and (seen.rates.arrived is None or seen.watched < WINDOW):
        yield f"rates (need {WINDOW:.0f}s)"
    waiting = [(cursor, seen.cursor_watch.moves(cursor.file, cursor.source)) for cursor in seen.cursors]
    few = [
        (escape(cursor.source), moves)
        for cursor, moves in waiting
        if moves < 2 and cursor.verdict in ("new", "advancing", "unmoved")
    ]
    if few:
        names = ", ".join(f"{name} {moves}" for name, moves in few[:_NAMED])
        more = f", {len(few) - _NAMED} more" if len(few) > _NAMED else ""
        yield f"cursors (need 2 writes of each source; {names}{more})"


def not_visible(seen: Seen) -> Iterator[str]:
    sight = seen.sight
    for box, state in sight.boxes.items() if seen.has_boxes else ():
        if state.count is None:
            yield f"{box} ({escape(state.error)})" if state.error else str(box)
        elif not state.complete:
            yield f"all of {box}"
    if sight.watch.mode == "scan" and seen.has_boxes:
        why = f": {escape(sight.watch.reason)}" if sight.watch.reason else ""
        yield f"what comes and goes between two looks ({sight.watch.period or 0:g}s apart{why})"
    if not sight.judged_all:
        yield "holders of all claims"
    if sight.disk.bytes_free is None:
        yield "free space"
    servers = [lock for lock in sight.locks if lock.kind == "redis" and lock.verdict == "unknown"]
    for lock in servers:
        yield f"tickets in {escape(lock.path)}: {escape(lock.evidence)}"
    hidden = sum(1 for lock in sight.locks if lock.verdict == "unknown" or any(party.pid is None for party in lock.holders))
    hidden -= len(servers)
    if hidden:
        yield f"holders of {hidden} lock{'' if hidden == 1 else 's'}"
