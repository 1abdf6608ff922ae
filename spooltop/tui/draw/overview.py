"""Draws the first view: problems on top, then the boxes with depth, age and history, the flow, the cursors and the locks; in a
large window as panels. Each panel answers one question; its title names the key that shows it in full."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from msgspec.structs import replace

from spooltop.cursors.draw import cursor_glance
from spooltop.locks.draw import lock_lines
from spooltop.model import vocabulary as units
from spooltop.model.snapshot import BoxState, Percentiles, Snapshot, expired_words
from spooltop.model.vocabulary import ASIDE, LIVE, Action, Box, suppressed_words

from ..event_log import LoggedEvent
from .elements import (
    BLANK,
    Line,
    Lines,
    Moment,
    Section,
    Span,
    Style,
    ago,
    dim,
    first_fit,
    frame,
    join,
    line_width,
    pad,
    pad_left,
    paragraph,
    restyle,
    safe,
    shown,
    text_width,
)
from .panels import ages_section, depth_chart, flow_section, happened_lines, ranked_rows, side_claims, spark
from .problems import problem_block, problem_keys, problem_title, top_problems

_CELLS = 20
_WITH_BYTES, _WITH_HISTORY = 48, 72
"""Cells of a window from which on boxes have these columns."""


def box_table(snapshot: Snapshot, width: int) -> Lines:
    """A title and one line per box; the boxes of messages set aside share a line."""
    boxes = snapshot.observation.boxes
    if not boxes:
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


PANELS_WIDE, PANELS_HIGH = 120, 24
"""Cells and lines from which on there are panels: a window of 120×30 leaves so many below the header, even with a notice."""
_TWO_COLUMNS_WIDE, _TWO_COLUMNS_HIGH = 150, 36
"""The size from which on the problems share the width with the graphs; in less they have all of it: their text is long."""
_LEFT = 81
"""Cells of the left column at least, where there is room for them."""


def overview_panels(
    snapshot: Snapshot, events: Sequence[LoggedEvent], width: int, height: int, moment: Moment, *, chosen: int
) -> Lines:
    """Exactly ``height`` lines. ``events`` are newest first. Where figures are stale, all but the problems are dim."""
    rows = problem_rows(height) + 1
    hint = dim(problem_keys(snapshot))
    problems = Section(problem_title(snapshot), partial(problem_block, snapshot, chosen=chosen), rows, rows, note=hint)
    two_columns = width >= _TWO_COLUMNS_WIDE and height >= _TWO_COLUMNS_HIGH
    panels = _sections(snapshot, events, moment, 17 if two_columns else 9, 8 if two_columns else 6)

    def column(*names: str) -> list[Section]:
        """The panels with these names, as far as there are any."""
        return [panels[name] if moment.stale_for is None else _dimmed(panels[name]) for name in names if name in panels]

    if two_columns:
        left = max(_LEFT, (width - 3) // 2)
        first = [problems, *column("boxes", "cursors", "locks", "happened")]
        second = column("flow", "claims", "tmp", "ages") or column("happened")
        return frame(height, (left, first), (width - 3 - left, second))
    left = (width - 3) // 2 - 1
    below = height - rows - 1
    top = frame(rows + 2, (width - 2, [problems]))
    first, second = column("boxes", "cursors", "locks", "tmp"), column("flow", "claims", "happened")
    if not first:
        return frame(below, (width - 2, second), top=top)
    return frame(below, (left, first), (width - 3 - left, second), top=top)


def _sections(
    snapshot: Snapshot, events: Sequence[LoggedEvent], moment: Moment, flow_most: int, claims_most: int
) -> dict[str, Section]:
    """The panels that this target has, by name."""
    observation = snapshot.observation

    def boxes(width: int, rows: int) -> Lines:
        lines = box_table(snapshot, width) + flow_lines(snapshot, width)
        return lines + percentile_line(snapshot, width) + suppressed_line(snapshot)

    happened = partial(happened_lines, snapshot, events, moment)
    panels = {"happened": Section("what happened, newest first", happened, 3)}
    if observation.boxes:
        rows = 8 + bool(observation.suppressed)
        panels["boxes"] = Section("boxes", boxes, rows, rows)
    if Box.NEW in observation.boxes:
        panels["flow"] = flow_section(snapshot, 5, flow_most)
    if snapshot.cursors:
        panels["cursors"] = Section("cursors", partial(cursor_glance, snapshot), 5, 8, "5")
    if observation.locks:
        panels["locks"] = Section("locks", partial(lock_lines, snapshot), 3, 5, "6", last=True)
    if Box.CUR in observation.boxes:
        claims = partial(ranked_rows, snapshot, Box.CUR)
        panels["claims"] = Section("claims, dead ones first", claims, 3, claims_most, "3")
    if Box.TMP in observation.boxes:
        tmp = partial(ranked_rows, snapshot, Box.TMP)
        panels["tmp"] = Section("tmp, abandoned ones first", tmp, 3, 6, "4", last=True)
    if observation.ages is not None:
        panels["ages"] = ages_section(snapshot, "2", last=True)
    return panels


def _dimmed(section: Section) -> Section:
    return replace(section, draw=lambda width, rows: [restyle(line, Style.DIM) for line in section.draw(width, rows)])


_TINY = 14
"""Lines from which on space is reserved for problems that do not exist."""

_HIGH = 30
"""Lines from which on a narrow window shows claims and a graph below."""


def problem_rows(height: int) -> int:
    """The number of problems that fit. It depends on the height alone, so that nothing moves while one reads."""
    return max(1, min(4, height - 3)) if height < 40 else 8


def overview(
    snapshot: Snapshot | None, events: Sequence[LoggedEvent], width: int, height: int, moment: Moment, *, chosen: int
) -> Lines:
    """At most ``height`` lines. Where space is short, panels are omitted from the bottom up; the problems stay. A large window
    has panels with borders, in which ``events`` are shown, newest first; a high and narrow one shows some of their contents
    below."""
    if snapshot is None:
        return [BLANK, dim(" looking for the first time…")]
    if snapshot.observation.is_mail:
        return _mail(snapshot, width)
    if width >= PANELS_WIDE and height >= PANELS_HIGH:
        return overview_panels(snapshot, events, width, height, moment, chosen=chosen)
    lines = top_problems(snapshot, width, problem_rows(height), chosen=chosen)
    while height < _TINY and lines and lines[-1] == BLANK:
        lines.pop()
    room = height - len(lines)
    below = []
    boxes = box_table(snapshot, width) if snapshot.observation.has_boxes else []
    if boxes:
        if room > len(boxes):
            below.append(BLANK)
        below += boxes if room >= 2 else [boxes_in_a_line(snapshot)]
        flow = flow_lines(snapshot, width)
        if room - len(below) >= len(flow):
            below += flow
            below += suppressed_line(snapshot)[: room - len(below)]
    glance = cursor_glance(snapshot, width, room - len(below))
    left = room - len(below) - len(glance)
    locks = lock_lines(snapshot, width, left) if height >= _TINY else []
    if glance and left - len(locks) >= 2:
        below.append(BLANK)
        if locks:
            locks = [BLANK, *locks]
    below += glance + locks
    if height >= _HIGH:
        below.append(BLANK)
        below += side_claims(snapshot, width, room - len(below))
        chart = depth_chart(snapshot, width, room - len(below))
        below += [BLANK] * (room - len(below) - len(chart)) + chart
    if moment.stale_for is not None:
        below = [restyle(line, Style.DIM) for line in below]
    return lines + below


def _mail(snapshot: Snapshot, width: int) -> Lines:
    override = f"spooltop --as spool {safe(snapshot.observation.target)}"
    why = shown(snapshot.observation.capabilities.why_not(Action.REQUEUE) or "")
    text = [
        why[:1].upper() + why[1:]
        or "This is a mail folder. Its cur is read mail, not stuck work, so nothing here is judged stale and no key changes it."
    ]
    if "; if it is" in text[0]:  # on a line of its own, to be copied
        why, _, how = text[0].partition("; if it is")
        text = [f"{why}.", f"If it is{how}"]
    elif "--as spool" not in text[0]:
        text.append(f"If it is a job spool all the same: {override}")
    lines = [line for words in text for line in paragraph(words, width, margin=" ")]
    return [*lines, BLANK, *(restyle(line, Style.NORMAL) for line in box_table(snapshot, width))]
