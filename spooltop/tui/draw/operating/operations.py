"""Draws the list of operations, newest first."""

from __future__ import annotations

import datetime
from collections.abc import Sequence

from spooltop.model import units
from spooltop.model.operations.plan import OperationRecord

from ..elements.spans import (
    BLANK,
    Line,
    Span,
    Style,
    crop,
    join,
    line_text,
    merge,
    pad,
    pad_left,
    plain,
    safe,
    select,
    shown,
    wrap,
)
from ..every_screen.header import when

_WITH_TIME = 100


def operations_lines(
    records: Sequence[OperationRecord],
    width: int,
    height: int,
    *,
    now: float,
    chosen: int = 0,
    older: bool = False,
    zone: datetime.tzinfo | None = None,
) -> list[Line]:
    """A title and one line per operation, at most ``height`` lines, with the chosen one visible; the last lines say why it cannot
    be undone. ``older``: there are older ones."""
    if not records:
        return [plain(" no operation has been done here", width)][:height]
    chosen = max(0, min(chosen, len(records) - 1))
    record = records[chosen]
    words = f"{shown(record.operation)}: {line_text(_outcome(record))}"
    outcome_lines = [plain(f" {part}", width) for part in wrap(words, max(1, width - 2))]
    below = len(outcome_lines) + 1 if height >= len(outcome_lines) + 6 else 0  # in full, where it fits
    head = [_head(records, width, older)] if height >= 8 else []
    fits = max(1, height - 1 - below - len(head))
    top = max(0, min(chosen - fits + 1, len(records) - fits))
    at = f"{'at':<8}  " if width >= _WITH_TIME else ""
    title = f"   {'ago':>5}  {at}{'action':<10} {'done':>11}  {'by':<8}  {'operation':<10}  "
    lines = [*head, plain(f"{title}undo", width, Style.DIM)]
    lines += [_record(records[i], width, now, zone, chosen=i == chosen) for i in range(top, min(len(records), top + fits))]
    if below:
        lines += [BLANK] * (height - below - len(lines) if len(records) > fits else 1)
        lines += outcome_lines
    return lines[:height]


def _head(records: Sequence[OperationRecord], width: int, older: bool) -> Line:
    name = Span(f" Operations {len(records):,}", Style.TITLE)
    return crop(join(name, " · newest first", " · all: spooltop ops --all" if older else ""), width)


def _record(record: OperationRecord, width: int, now: float, zone: datetime.tzinfo | None, *, chosen: bool) -> Line:
    done = f"{record.done:,} of {record.count:,}" if record.done != record.count else f"{record.count:,}"
    by = pad(safe(record.user), 8)
    name = pad(shown(record.operation), 10)
    at = f"{when(record.at, zone)}  " if width >= _WITH_TIME else ""
    text = (
        f"{'▌' if chosen else ' '}  {pad_left(units.age(max(0.0, now - record.at)), 5)}  "
        f"{at}{pad(record.action.value, 10)} {pad_left(done, 11)}  {by}  {name}  "
    )
    line = crop(join(text, _outcome(record)), width)
    if chosen:
        line = select(line, width)
    return line


def _outcome(record: OperationRecord) -> Line:
    """The failures of an operation, and whether it can be undone."""
    parts: list[Span] = []
    if record.open:
        parts.append(Span("NOT FINISHED · ", Style.BAD))
    if record.failed or record.skipped:
        counts = ((record.skipped, "skipped"), (record.failed, "failed"))
        parts.append(Span(f"{', '.join(f'{n:,} {word}' for n, word in counts if n)} · ", Style.WARN))
    if record.undone_by is not None:
        parts.append(Span(f"undone by {shown(record.undone_by)}"))
    elif record.why_not_undo is not None:
        parts.append(Span(f"no: {shown(record.why_not_undo)}"))
    else:
        parts.append(Span("can be undone"))
    if record.words:
        parts.append(Span(f" · {shown(record.words)}"))
    return merge(parts)
