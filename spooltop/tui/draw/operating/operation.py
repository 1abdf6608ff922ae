"""Draws a finished operation in full."""

from __future__ import annotations

import datetime
import shlex
from collections.abc import Sequence

from spooltop.model import units
from spooltop.model.operations.plan import Item, OperationRecord, Outcome, Plan, Refusal, Result
from spooltop.model.operations.results import AuditTrail, said
from spooltop.model.vocabulary import Action

from ..elements.spans import BLANK, Line, Span, Style, clip_left, crop, join, pad, plain, safe, shown, text_width, wrap
from ..every_screen.header import when
from ..panels.frame import WIDEST, inner_width, note_lines, panel_frame

# Draws the result of an operation.

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


_LABEL = 9
_BOX = 9


def operation_lines(
    record: OperationRecord,
    plan: Plan | None,
    why_not: str,
    command: str,
    width: int,
    *,
    now: float,
    zone: datetime.tzinfo | None = None,
    trail: AuditTrail | None = None,
) -> list[Line]:
    """A panel of as many lines as are needed. ``plan`` is the plan to undo it (None: being made, or ``why_not`` says why there is
    none); ``command`` is the same as a shell command; ``trail`` holds the steps in the journal (None: not read yet)."""
    width = min(width, WIDEST)
    inner = inner_width(width)
    body = _facts(record, why_not, inner, now, zone)
    body.append(BLANK)
    if plan is not None:
        body += _messages(plan.items, plan.refused, inner)
        body += [plain(part, inner) for note in plan.notes for part in wrap(shown(note), inner)]
        if command:
            body += [BLANK, *_labelled("undo", shown(command), inner)]
    elif not why_not:
        body.append(plain("looking up its messages…", inner, Style.DIM))
    if trail is not None:
        body += _audit(trail, inner, zone)
    return panel_frame(f"Operation {shown(record.operation)}", "", body, width)


def _facts(record: OperationRecord, why_not: str, inner: int, now: float, zone: datetime.tzinfo | None) -> list[Line]:
    done = f"{record.done:,} of {record.count:,} done"
    done += f" · skipped {record.skipped:,} · failed {record.failed:,}" if record.skipped or record.failed else ""
    ago = units.age(max(0.0, now - record.at))
    lines = _labelled("action", f"{record.action.value}{f': {shown(record.words)}' if record.words else ''}", inner)
    lines += _labelled("when", f"{when(record.at, zone)}, {ago} ago, by {safe(record.user)}", inner)
    lines += _labelled("outcome", done, inner)
    if record.open:
        lines += _labelled("", "NOT FINISHED: it was stopped or killed", inner, Style.BAD)
    if why_not:
        lines += _labelled("undo", f"no: {shown(why_not)}", inner)
    return lines


def _messages(items: Sequence[Item], refused: Sequence[Refusal], inner: int) -> list[Line]:
    """The messages that an undo can move, then those that it cannot, by reason."""
    lines = [plain(f"{len(items):,} can be undone" if items else "nothing can be undone now", inner, Style.STRONG)]
    for item in items:
        if item.words:
            lines += [plain(f"  {part}", inner) for part in wrap(shown(item.words), max(1, inner - 2))]
        else:
            where = pad(item.row.box.value, _BOX)
            lines.append(crop(join(f"  {where}{clip_left(safe(item.row.id), max(4, inner - 2 - _BOX))}"), inner))
    reasons: dict[str, list[str]] = {}
    for one in refused:
        reasons.setdefault(one.reason, []).append(one.row.id)
    for reason, ids in reasons.items():
        head = f"{len(ids):,} not: "
        parts = wrap(f"{head}{shown(reason)}", inner, indent=2)
        lines.append(crop(join(Span(head, Style.WARN), parts[0].removeprefix(head)), inner))
        lines += [plain(part, inner) for part in parts[1:]]
        lines += [plain(f"  {clip_left(safe(id), max(4, inner - 2))}", inner, Style.DIM) for id in ids]
    return lines


def _audit(trail: AuditTrail, inner: int, zone: datetime.tzinfo | None) -> list[Line]:
    """The steps in the journal, each with the items that were not done."""
    head = "The journal" if trail.lines else "The journal has no line about it"
    lines = [BLANK, plain(head, inner, Style.STRONG)]
    for line in trail.lines:
        text = f"{when(line.at, zone)} {line.event}: {said(line)}"
        lines += [plain(part, inner, Style.NORMAL if line.trusted else Style.WARN) for part in wrap(shown(text), inner, indent=2)]
        for one in line.results:
            if one.outcome is not Outcome.DONE or one.reason:
                words = f"{one.outcome.value}{f': {shown(one.reason)}' if one.reason else ''} "
                lines.append(plain(f"  {words}{clip_left(safe(one.name), max(4, inner - 2 - text_width(words)))}", inner))
    return [*lines, *(plain(part, inner, Style.WARN) for problem in trail.problems for part in wrap(shown(problem), inner))]


def _labelled(label: str, text: str, inner: int, style: Style = Style.NORMAL) -> list[Line]:
    parts = wrap(text, max(8, inner - _LABEL))
    return [
        crop(join(Span(f"{'' if i else label:<{_LABEL}}", Style.DIM), Span(part, style)), inner) for i, part in enumerate(parts)
    ]
