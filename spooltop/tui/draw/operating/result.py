"""Draws the result of an operation."""

from __future__ import annotations

import datetime
import shlex
from collections.abc import Sequence

from spooltop.model.operations.plan import Outcome, Result
from spooltop.model.vocabulary import Action

from ..elements.spans import BLANK, Line, Span, Style, clip_left, crop, join, plain, safe, shown, wrap
from ..every_screen.freshness import when
from ..every_screen.panel_frame import WIDEST, inner_width, note_lines, panel_frame

_DONE = {
    Action.REQUEUE: "Requeued", Action.PURGE: "Purged", Action.INJECT: "Injected", Action.HOLD: "Held",
    Action.RELEASE: "Released", Action.RESTORE: "Restored", Action.EMPTY: "Deleted", Action.UNDO: "Undone",
    Action.SET_CURSOR: "Set", Action.UNLOCK: "Removed", Action.PAUSE: "Paused", Action.RESUME: "Resumed",
}  # fmt: skip


def result_lines(
    result: Result,
    width: int,
    height: int,
    *,
    since: Sequence[str] = (),
    waiting: int | None = None,
    zone: datetime.tzinfo | None = None,
    scroll: int = 0,
) -> list[Line]:
    """A panel of at most ``height`` lines: how many items were done, skipped and failed, and the reasons and names of the last
    two. ``since`` tells what happened to the messages since, of which an undo can move ``waiting``. ``scroll`` skips lines in
    the middle."""
    width = min(width, WIDEST)
    inner = inner_width(width)
    counts = {outcome: result.count(outcome) for outcome in Outcome}
    head: Line = join(
        f"done {counts[Outcome.DONE]:,} · skipped {counts[Outcome.SKIPPED]:,} · ",
        Span(f"failed {counts[Outcome.FAILED]:,}", Style.BAD if counts[Outcome.FAILED] else Style.NORMAL),
        f" · stopped, {result.untried:,} not attempted" if result.stopped or result.untried else "",
    )
    middle: list[Line | int] = []  # names are looked up and drawn when they are shown: there may be a million
    for i, words in enumerate(since):
        for j, part in enumerate(wrap(shown(words), max(1, inner - 12))):
            middle.append(crop(join(Span("since then  " if i == j == 0 else " " * 12, Style.DIM), part), inner))
    middle += _not_done(result, inner)
    middle += note_lines(result.notes, inner)
    foot: list[Line] = [BLANK]
    keys: list[Span | str] = [Span("[Esc Close]", Style.KEY)]
    if result.undo:
        foot.append(plain(f"undo: {shown(shlex.join(result.undo))}", inner))
        which = "" if waiting is None else f" (the {waiting:,} that wait{'s' if waiting == 1 else ''})"
        keys += ["   ", Span("z", Style.KEY), f" undo{which}"]
    keys += ["   ", Span("c", Style.KEY), " copy as text"]
    foot.append(crop(join(*keys), inner))
    room = max(1, height - 3 - len(foot))
    scroll = max(0, min(scroll, len(middle) - room))
    seen = [_name(result.items[one].id, inner) if isinstance(one, int) else one for one in middle[scroll : scroll + room]]
    hidden = len(middle) - scroll - room
    if hidden > 0:
        seen[-1] = plain(f"… {hidden + 1:,} more lines", inner, Style.DIM)
    many = "" if result.action in (Action.PAUSE, Action.RESUME) else f" {counts[Outcome.DONE]:,}"
    title = f"{_DONE[result.action]}{many} · operation {shown(result.operation)}"
    return panel_frame(title, when(result.finished_at, zone), [crop(head, inner), *seen, *foot], width)[:height]


def _name(name: str, inner: int) -> Line:
    return plain(f"   {clip_left(safe(name), max(4, inner - 3))}", inner)


def _not_done(result: Result, inner: int) -> list[Line | int]:
    """The skipped and failed items by place, grouped by reason; failures first."""
    lines: list[Line | int] = []
    for (outcome, reason), places in sorted(result.not_done.items(), key=lambda group: group[0][0] is not Outcome.FAILED):
        start = f"{outcome.value} {len(places):,}: "
        parts = wrap(f"{start}{shown(reason) or 'no reason given'}", inner, indent=3)
        style = Style.BAD if outcome is Outcome.FAILED else Style.WARN
        lines.append(crop(join(Span(start, style), parts[0].removeprefix(start)), inner))
        lines += [plain(part, inner) for part in parts[1:]]
        lines += places
    return lines
