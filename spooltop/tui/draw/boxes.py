"""Draws the boxes of a spool with depth, age and history, and the flow of messages through them."""

from __future__ import annotations

from collections.abc import Sequence

from spooltop.model import units
from spooltop.model.snapshot import BoxState, Percentiles, Snapshot, expired_words
from spooltop.model.vocabulary import ASIDE, LIVE, Box, suppressed_words

from .header import ago
from .spans import BARS, UNWATCHED, Line, Lines, Span, Style, dim, first_fit, join, line_width
from .text import pad, pad_left, shown, text_width

_CELLS = 20
_WITH_BYTES, _WITH_HISTORY = 48, 72
"""Cells of a window from which on boxes have these columns."""


def spark(values: Sequence[float | None], cells: int) -> str:
    """Draws one character per value, oldest first. The height is in sevenths of the highest value: an eighth stays free, so that
    bars of two lines never touch. ``·`` marks cells that were not watched."""
    drawn = [None] * (cells - len(values)) + list(values[-cells:] if cells else ())
    top = max((value for value in drawn if value is not None), default=0.0)
    return "".join(
        UNWATCHED if value is None else BARS[0] if value <= 0 else BARS[max(1, round(value / top * 6))] for value in drawn
    )


def box_table(snapshot: Snapshot, width: int) -> Lines:
    """A title and one line per box; the boxes of messages set aside share a line."""
    boxes = snapshot.observation.boxes
    if not any(box in boxes for box in Box):
        return []
    title = _figures("box", "depth", "oldest", "bytes", width)
    if width >= _WITH_HISTORY:
        unwatched = any(None in _history(snapshot, box) for box in LIVE)
        title += f"  depth, {units.duration(snapshot.cell * _CELLS)}, a cell is {units.duration(snapshot.cell)}"
        title += "  · = not yet watched" if unwatched else ""
    lines = [dim(title), *(_box_line(snapshot, boxes[box], width) for box in LIVE if box in boxes)]
    if aside := [boxes[box] for box in (*ASIDE, Box.DELIVERED) if box in boxes]:
        lines.append(_aside_line(aside, width, snapshot.taken_at))
    return lines


def boxes_in_a_line(snapshot: Snapshot) -> Line:
    """A single line for small windows: ``new 4,310 · cur 4, 2 DEAD · tmp 4, 3 abandoned``."""
    boxes, counts = snapshot.observation.boxes, snapshot.observation.counts
    loud = {
        Box.CUR: Style.BAD(f", {counts.dead} DEAD" if counts.dead else ""),
        Box.TMP: Style.WARN(f", {counts.abandoned} abandoned" if counts.abandoned else ""),
    }
    parts: list[str | Span] = []
    for box in (Box.NEW, Box.CUR, Box.TMP):
        if box in boxes:
            parts += [f"{' ·' if parts else ''} {box} {_depth(boxes[box])}", loud.get(box, "")]
    return join(*parts)


def _history(snapshot: Snapshot, box: Box) -> list[float | None]:
    known = list(snapshot.history.get(box, ()))[-_CELLS:]
    return [None] * (_CELLS - len(known)) + known


def _figures(name: str, depth: str, oldest: str, amount: str, width: int) -> str:
    return f" {pad(name, 5)}{pad_left(depth, 10)}{pad_left(oldest, 8)}" + (pad_left(amount, 8) if width >= _WITH_BYTES else "")


def _depth(state: BoxState) -> str:
    return units.count(state.count, complete=state.complete)


def _bytes(state: BoxState) -> str:
    if state.count is None or state.bytes is None:
        return "?"
    return ("~" if state.bytes_estimated else "" if state.complete else "≥") + units.size(state.bytes)


def _box_line(snapshot: Snapshot, state: BoxState, width: int) -> Line:
    oldest = "?" if state.count is None else ago(state.oldest_at, snapshot.taken_at)
    graph = ("  ", Style.BAR(spark(_history(snapshot, state.box), _CELLS))) if width >= _WITH_HISTORY else ()
    line = join(_figures(state.box, _depth(state), oldest, _bytes(state), width), *graph, "  ")
    return join(line, _note(snapshot, state, width - line_width(line)))


def _note(snapshot: Snapshot, state: BoxState, room: int) -> Line:
    if state.error:
        return join(Style.WARN(shown(state.error)))
    if state.note:
        return dim(shown(state.note))
    if snapshot.observation.is_mail:
        return (Span("read mail, not judged"),) if state.box is Box.CUR else ()
    return first_fit(room, *{Box.TMP: _tmp_notes, Box.NEW: _new_notes, Box.CUR: _cur_notes}[state.box](snapshot))


def _tmp_notes(snapshot: Snapshot) -> Lines:
    counts = snapshot.observation.counts
    abandoned = Style.WARN(f"{counts.abandoned} abandoned", counts.abandoned)
    unknown = f" {counts.tmp_unknown} unknown"
    whole = join(f"{counts.writing} writing ", abandoned)
    return [join(whole, unknown), join(abandoned, unknown)] if counts.tmp_unknown else [whole, (abandoned,)]


def _cur_notes(snapshot: Snapshot) -> Lines:
    counts = snapshot.observation.counts
    least = "" if snapshot.observation.judged_all else "≥"
    dead = Style.BAD(f"{least}{counts.dead} DEAD", counts.dead)
    brief = join(dead, f" {least}{counts.unknown} unknown")
    return [join(f"{least}{counts.alive} alive ", brief), brief, (dead,)]


def _new_notes(snapshot: Snapshot) -> Lines:
    rates = snapshot.rates
    slope = rates.new_per_s
    if slope is None:
        return [join("growth not measured yet"), join("—")]
    words = f"{units.rate(slope, signed=True)} over {units.duration(rates.slope_window)}"
    depth = snapshot.observation.boxes[Box.NEW].count
    more = ["growing"] if slope >= 0.05 else ["steady"]
    if slope <= -0.05 and depth:
        more = [f"empty in {units.duration(depth / -slope)}", "draining"]
    return [*(join(f"{words}, {one}") for one in more), join(words)]


def _aside_line(states: Sequence[BoxState], width: int, now: float) -> Line:
    known = [state.count for state in states if state.count is not None]
    complete = len(known) == len(states) and all(state.complete for state in states)
    oldest = min((state.oldest_at for state in states if state.oldest_at is not None), default=None)
    sizes = [state.bytes for state in states if state.count]
    estimated = any(state.bytes_estimated for state in states)
    amount = ("~" if estimated else "") + units.size(None if None in sizes else sum(filter(None, sizes)))
    text = _figures("aside", units.count(sum(known) if known else None, complete=complete), ago(oldest, now), amount, width)
    line = first_fit(width, *(
        join(text, "  ", " · ".join(f"{state.box} {_depth(state)}" for state in some))
        for some in (states, [state for state in states if state.count != 0])  # the empty ones where not all fit
    ))  # fmt: skip
    words = next((found for state in states if (found := expired_words(state))), "")
    expired = [join(Style.WARN(f", {one}")) for one in (words, words.partition(",")[0]) if one]
    return join(line, first_fit(width - line_width(line), *expired, ()))


def flow_lines(snapshot: Snapshot, width: int) -> Lines:
    """Draws how many messages came and went, over which time, how long they waited and how long they were processed."""
    observation, rates = snapshot.observation, snapshot.rates
    least = "≥" if rates.lower_bound else ""
    over = units.duration(rates.window) if rates.window > 0 else "—"
    retried = "—" if rates.retried is None else f"{least}{rates.retried:,}"
    flow = (
        f" {'over ' + over:<9} in {pad_left(_rate(rates.in_per_s, least), 8)}"
        f"  done {pad_left(_rate(rates.done_per_s, least), 8)}  retried {pad_left(retried, 6)}"
    )
    taken = "not known" if observation.last_claim_at is None else f"{ago(observation.last_claim_at, snapshot.taken_at)} ago"
    who = f"≥{observation.consumers_seen:,}" if observation.consumers_seen else "?"
    if observation.consumers is not None:
        who = f"{observation.consumers:,}"
    consumers = f" consumers {who} · last claim {taken}"
    if width >= 79 and observation.flow.holders_counted:  # else nobody tells how long a message waited and was processed
        samples = max(rates.waited.samples, rates.worked.samples)
        of = f"of {samples:,}  " if samples else ""
        flow = f"{pad(flow, 56)}waited {_percentiles(rates.waited)}"
        consumers = f"{pad(consumers, 56 - text_width(of))}{of}worked {_percentiles(rates.worked)}"
    return [join(flow), join(consumers)]


def percentile_line(snapshot: Snapshot, width: int) -> Lines:
    """Draws how long messages waited and were processed, where ``flow_lines`` has no room for it."""
    if width >= 79 or not snapshot.observation.flow.holders_counted:
        return []
    rates = snapshot.rates
    samples = max(rates.waited.samples, rates.worked.samples)
    times = f" waited {_percentiles(rates.waited)} · worked {_percentiles(rates.worked)}"
    of = f" · of {samples:,}" if samples else ""
    return [first_fit(width, join(times, of), join(times))]


def suppressed_line(snapshot: Snapshot) -> Lines:
    """Draws how many duplicates were suppressed because their message existed already; no line where there were none."""
    words = suppressed_words(snapshot.observation.suppressed)
    return [join(f" {shown(words)}")] if words else []


def _rate(per_s: float | None, least: str) -> str:
    return "—" if per_s is None else least + units.rate(per_s)


def _percentiles(of: Percentiles) -> str:
    return f"p50 {units.duration(of.p50):>4} p99 {units.duration(of.p99):>4}"
