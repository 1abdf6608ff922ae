"""Draws the boxes of a spool with depth, age and history, and the flow of messages through them."""

from __future__ import annotations

from collections.abc import Sequence

from spooltop.model import units
from spooltop.model.look.observation import BoxState, expired_words
from spooltop.model.look.snapshot import Percentiles, Snapshot
from spooltop.model.text import suppressed_words
from spooltop.model.vocabulary import ASIDE, LIVE, Box

from .header import ago
from .spans import BARS, UNWATCHED, Line, Lines, Span, Style, fitted, join, line_width, merge, plain
from .text import clip, pad, pad_left, shown, text_width

_CELLS = 20


def spark(values: Sequence[float | None], cells: int) -> str:
    """Draws one character per value, oldest first. The height is in sevenths of the highest value: an eighth stays free, so that
    bars of two lines never touch. ``·`` marks cells that were not watched."""
    drawn = list(values[-cells:]) if cells else []
    top = max((value for value in drawn if value is not None), default=0.0)
    out = [UNWATCHED] * (cells - len(drawn))
    for value in drawn:
        if value is None:
            out.append(UNWATCHED)
        else:
            out.append(BARS[0] if value <= 0 else BARS[max(1, round(value / top * 6))])
    return "".join(out)


def box_table(snapshot: Snapshot, width: int) -> Lines:
    """A title and one line per box; the boxes of messages set aside share a line."""
    boxes = snapshot.observation.boxes
    if not any(box in boxes for box in Box):
        return []
    with_bytes, with_history = width >= 48, width >= 72
    title = f" {'box':<5}{'depth':>10}{'oldest':>8}"
    if with_bytes:
        title += f"{'bytes':>8}"
    if with_history:
        unwatched = any(value is None for box in LIVE for value in _history(snapshot, box))
        title += f"  depth, {units.duration(snapshot.cell * _CELLS)}, a cell is {units.duration(snapshot.cell)}"
        title += "  · = not yet watched" if unwatched else ""
    lines: Lines = [plain(title, width, Style.DIM)]
    lines += [_box_line(snapshot, boxes[box], width, with_bytes, with_history) for box in LIVE if box in boxes]
    aside = [boxes[box] for box in (*ASIDE, Box.DELIVERED) if box in boxes]
    if aside:
        lines.append(_aside_line(aside, width, snapshot.taken_at, with_bytes))
    return lines


def boxes_in_a_line(snapshot: Snapshot, width: int) -> Line:
    """A single line for small windows: ``new 4,310 · cur 4, 2 DEAD · tmp 4, 3 abandoned``."""
    boxes, counts = snapshot.observation.boxes, snapshot.observation.counts
    loud = {
        Box.CUR: Style.BAD(f", {counts.dead} DEAD") if counts.dead else Span(""),
        Box.TMP: Style.WARN(f", {counts.abandoned} abandoned") if counts.abandoned else Span(""),
    }
    parts: list[str | Span] = []
    for box in (Box.NEW, Box.CUR, Box.TMP):
        if box in boxes:
            state = boxes[box]
            depth = units.count(state.count, complete=state.complete)
            parts += [f"{' ·' if parts else ''} {box} {depth}", loud.get(box, Span(""))]
    return fitted(width, *parts)


def _history(snapshot: Snapshot, box: Box) -> list[float | None]:
    known = list(snapshot.history.get(box, ()))[-_CELLS:]
    return [None] * (_CELLS - len(known)) + known


def _figures(name: str, depth: str, oldest: str, amount: str, with_bytes: bool) -> str:
    return f" {pad(name, 5)}{pad_left(depth, 10)}{pad_left(oldest, 8)}" + (pad_left(amount, 8) if with_bytes else "")


def _bytes(state: BoxState) -> str:
    if state.count is None or state.bytes is None:
        return "?"
    return ("~" if state.bytes_estimated else "" if state.complete else "≥") + units.size(state.bytes)


def _box_line(snapshot: Snapshot, state: BoxState, width: int, with_bytes: bool, with_history: bool) -> Line:
    oldest = None if state.oldest_at is None else max(0.0, snapshot.taken_at - state.oldest_at)
    text = _figures(
        state.box.value,
        units.count(state.count, complete=state.complete),
        "?" if state.count is None else units.age(oldest),
        _bytes(state),
        with_bytes,
    )
    parts = [Span(text)]
    if with_history:
        parts += [Span("  "), Style.BAR(spark(_history(snapshot, state.box), _CELLS))]
    parts.append(Span("  "))
    line = merge(parts)
    return fitted(width, line, _note(snapshot, state, width - line_width(line)))


def _note(snapshot: Snapshot, state: BoxState, room: int) -> Line:
    if state.error:
        return (Style.WARN(clip(shown(state.error), max(0, room))),)
    if state.note:
        return (Style.DIM(clip(shown(state.note), max(0, room))),)
    if snapshot.observation.is_mail:
        return (Span("read mail, not judged"),) if state.box is Box.CUR else ()
    variants = {Box.TMP: _tmp_notes, Box.NEW: _new_notes, Box.CUR: _cur_notes}[state.box](snapshot)
    return next((one for one in variants if line_width(one) <= room), variants[-1])


def _tmp_notes(snapshot: Snapshot) -> Lines:
    counts = snapshot.observation.counts
    abandoned = Span(f"{counts.abandoned} abandoned", Style.WARN if counts.abandoned else Style.NORMAL)
    unknown = f" {counts.tmp_unknown} unknown"
    whole = join(f"{counts.writing} writing ", abandoned)
    return [join(whole, unknown), join(abandoned, unknown)] if counts.tmp_unknown else [whole, (abandoned,)]


def _cur_notes(snapshot: Snapshot) -> Lines:
    counts = snapshot.observation.counts
    least = "" if snapshot.observation.judged_all else "≥"
    dead = Span(f"{least}{counts.dead} DEAD", Style.BAD if counts.dead else Style.NORMAL)
    return [
        join(f"{least}{counts.alive} alive ", dead, f" {least}{counts.unknown} unknown"),
        join(dead, f" {least}{counts.unknown} unknown"),
        (dead,),
    ]


def _new_notes(snapshot: Snapshot) -> Lines:
    rates = snapshot.rates
    slope = rates.new_per_s
    if slope is None:
        return [(Span("growth not measured yet"),), (Span("—"),)]
    words = f"{units.rate(slope, signed=True)} over {units.duration(rates.slope_window)}"
    depth = snapshot.observation.boxes[Box.NEW].count if Box.NEW in snapshot.observation.boxes else None
    if slope >= 0.05:
        return [(Span(f"{words}, growing"),), (Span(words),)]
    if slope <= -0.05 and depth:
        return [(Span(f"{words}, empty in {units.duration(depth / -slope)}"),), (Span(f"{words}, draining"),), (Span(words),)]
    return [(Span(f"{words}, steady"),), (Span(words),)]


def _aside_line(states: Sequence[BoxState], width: int, now: float, with_bytes: bool) -> Line:
    counts = [state.count for state in states]
    known = [count for count in counts if count is not None]
    oldest = min((state.oldest_at for state in states if state.oldest_at is not None), default=None)
    sizes = [state.bytes for state in states if state.count]
    total = None if any(size is None for size in sizes) else sum(size for size in sizes if size is not None)
    text = _figures(
        "aside",
        units.count(sum(known) if known else None, complete=len(known) == len(counts) and all(s.complete for s in states)),
        ago(oldest, now),
        ("~" if any(state.bytes_estimated for state in states) else "") + units.size(total),
        with_bytes,
    )
    each = [f"{state.box.value} {units.count(state.count, complete=state.complete)}" for state in states]
    line = (Span(f"{text}  {' · '.join(each)}"),)
    if line_width(line) > width:  # the empty ones are left out where not all fit
        each = [words for words, state in zip(each, states, strict=True) if state.count != 0]
        line = (Span(f"{text}  {' · '.join(each)}"),)
    words = next((found for state in states if (found := expired_words(state))), "")
    variants = [f", {words}", f", {words.partition(',')[0]}"] if words else []
    room = width - line_width(line)
    fits = next((one for one in variants if text_width(one) <= room), "")
    return fitted(width, line, Style.WARN(fits))


def flow_lines(snapshot: Snapshot, width: int) -> Lines:
    """Draws how many messages came and went, over which time, how long they waited and how long they were processed."""
    now = snapshot.taken_at
    rates = snapshot.rates
    least = "≥" if rates.lower_bound else ""
    over = units.duration(rates.window) if rates.window > 0 else "—"
    retried = "—" if rates.retried is None else f"{least}{rates.retried:,}"
    flow = (
        f" {'over ' + over:<9}"
        f" in {pad_left(_rate(rates.in_per_s, least), 8)}"
        f"  done {pad_left(_rate(rates.done_per_s, least), 8)}"
        f"  retried {pad_left(retried, 6)}"
    )
    observation = snapshot.observation
    taken = "not known" if observation.last_claim_at is None else f"{ago(observation.last_claim_at, now)} ago"
    who = f"≥{observation.consumers_seen:,}" if observation.consumers_seen else "?"
    if observation.consumers is not None:
        who = f"{observation.consumers:,}"
    consumers = f" consumers {who} · last claim {taken}"
    if width < 79:
        return [plain(flow, width), plain(consumers, width)]
    if not observation.flow.holders_counted:  # nobody tells how long a message waited and was processed
        return [plain(flow, width), plain(consumers, width)]
    samples = max(rates.waited.samples, rates.worked.samples)
    of = f"of {samples:,}  " if samples else ""
    waited, worked = (f"{word} {_percentiles(found)}" for word, found in (("waited", rates.waited), ("worked", rates.worked)))
    return [
        plain(f"{pad(flow, 56)}{waited}", width),
        plain(f"{pad(consumers, 56 - text_width(of))}{of}{worked}", width),
    ]


def percentile_line(snapshot: Snapshot, width: int) -> Lines:
    """Draws how long messages waited and were processed, where ``flow_lines`` has no room for it."""
    if width >= 79 or not snapshot.observation.flow.holders_counted:
        return []
    rates = snapshot.rates
    samples = max(rates.waited.samples, rates.worked.samples)
    times = f" waited {_percentiles(rates.waited)} · worked {_percentiles(rates.worked)}"
    of = f" · of {samples:,}" if samples else ""
    return [plain(times + (of if text_width(times + of) <= width else ""), width)]


def suppressed_line(snapshot: Snapshot, width: int) -> Lines:
    """Draws how many duplicates were suppressed because their message existed already; no line where there were none."""
    words = suppressed_words(snapshot.observation.suppressed)
    return [plain(f" {shown(words)}", width)] if words else []


def _rate(per_s: float | None, least: str) -> str:
    return "—" if per_s is None else least + units.rate(per_s)


def _percentiles(of: Percentiles) -> str:
    return f"p50 {units.duration(of.p50):>4} p99 {units.duration(of.p99):>4}"
