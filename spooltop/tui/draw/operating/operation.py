"""Draws a finished operation in full."""

from __future__ import annotations

import datetime
from collections.abc import Sequence

from spooltop.model import units
from spooltop.model.operations.plan import Item, OperationRecord, Outcome, Plan, Refusal
from spooltop.model.operations.results import AuditTrail, said

from ..elements.spans import BLANK, Line, Span, Style, clip_left, crop, join, pad, plain, safe, shown, text_width, wrap
from ..every_screen.freshness import when
from ..every_screen.panel_frame import WIDEST, inner_width, panel_frame

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
    none); ``command`` is the same as a shell command; ``trail`` holds the lines of the audit log (None: not read yet)."""
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
    """The lines of the audit log, each with the items that were not done."""
    head = "The audit log" if trail.lines else "The audit log has no line about it"
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
