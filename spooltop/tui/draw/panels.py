"""Draws the panels, and the Overview that is made of them: figures over time as columns of blocks, messages by age, what
happened, what is around a list (the message and its holder beside it, and below it what all rows tell). One module, because the
Overview of a small window shows the same parts below each other, without borders."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise, starmap

from spooltop.cursors.draw import cursor_glance, written
from spooltop.locks.draw import lock_lines
from spooltop.model import AGE_BOUNDS, Ages, BoxState, Percentiles, Snapshot, expired_words
from spooltop.model.vocabulary import (
    ASIDE,
    LIVE,
    Action,
    Box,
    Owner,
    Row,
    Verdict,
    age,
    began,
    count,
    duration,
    interval,
    rate,
    size,
    span,
    suppressed_words,
)

from ..event_log import LoggedEvent
from ..messages import NOTHING_SEEN, PayloadRead
from .elements import (
    BARS,
    BLANK,
    SIGNS,
    UNWATCHED,
    Line,
    Lines,
    Moment,
    Section,
    Span,
    Style,
    ago,
    clip,
    clip_left,
    dim,
    faded,
    first_fit,
    frame,
    join,
    line_width,
    pad,
    pad_left,
    paragraph,
    problem_block,
    problem_keys,
    problem_title,
    restyle,
    safe,
    shown,
    text_width,
    top_problems,
    when,
)
from .lists import columns_for, detail, fact_line, owner_text, row_line, short_id, size_text, title_line, verdict_span

_LABEL, _SCALE = 7, 7
"""Cells at the left of the columns: the name of the figure, and the values at its upper and its lower edge."""
_MOST_ROWS = 6
_CHART, _HIGHEST = 6, 16
"""Lines of the chart of the depth, at least and at most."""


def _graph(values: Sequence[float | None], top: float, rows: int, wide: int, scale: str) -> Iterator[tuple[str, str]]:
    """The lines of a graph from 0 to ``top``, the highest first, each after the value at its edge: ``wide`` cells for each value,
    in eighths of a line. What is more than 0 is seen; ``·`` at the bottom marks what was not watched."""
    for row in range(rows, 0, -1):
        edge = scale if row == rows else "0" if row == 1 else ""
        yield edge, "".join(_cell(value, top, row, rows) * wide for value in values)


def _axis(snapshot: Snapshot, cells: int, wide: int) -> str:
    """The times below a graph of so many values, each ``wide`` cells."""
    past = f"{duration(snapshot.cell * cells)} ago"
    return f"{past:<{wide * cells - 3}}now"


def _cell(value: float | None, top: float, row: int, rows: int) -> str:
    """The character of a column in line ``row`` of ``rows``; 1 is the lowest."""
    if value is None:
        return UNWATCHED if row == 1 else " "
    eighths = round(value / top * rows * 8) if top > 0 else 0
    here = max(eighths, 1) - (row - 1) * 8
    return " " if here <= 0 else BARS[min(here, 8) - 1]


def spark(values: Sequence[float | None], cells: int) -> str:
    """Draws one character per value, oldest first. The height is in sevenths of the highest value: an eighth stays free, so that
    bars of two lines never touch. ``·`` marks cells that were not watched."""
    drawn = [None] * (cells - len(values)) + list(values[-cells:] if cells else ())
    top = _highest(drawn)
    return "".join(
        UNWATCHED if value is None else BARS[0] if value <= 0 else BARS[max(1, round(value / top * 6))] for value in drawn
    )


def flow_note(snapshot: Snapshot) -> Line:
    """The time that the graphs are over."""
    cells = len(snapshot.history.get(Box.NEW, ())) or len(snapshot.rate_history.arrived)
    return dim(f"{duration(snapshot.cell * cells)}, a cell is {duration(snapshot.cell)}")


def flow_graphs(snapshot: Snapshot, width: int, rows: int) -> Lines:
    """The depth of ``new`` and the rates, each as a graph with its scale, and one line of time below all of them. What comes and
    what is done have the same scale: the difference is what ``new`` grows by."""
    history, depth = snapshot.rate_history, snapshot.history.get(Box.NEW, ())
    flow = max(_highest(history.arrived), _highest(history.done))
    retried = _highest(history.retried)
    figures = [
        ("new", depth, _highest(depth), _count(_highest(depth))),
        ("in", history.arrived, flow, rate(flow)),
        ("done", history.done, flow, rate(flow)),
        ("retried", history.retried, retried, rate(retried)),
    ]
    figures = [figure for figure in figures if figure[1]]
    high = min(_MOST_ROWS, (rows - 1) // len(figures)) if figures else 0
    if high < 1:
        return []
    cells = max(len(figure[1]) for figure in figures)
    wide = max(1, min(5, (width - _LABEL - _SCALE - 2) // cells))
    lines = []
    for name, values, top, scale in figures:
        for at, (edge, text) in enumerate(_graph(values, top, high, wide, scale if top else "")):
            label = "" if at else name
            lines.append(join(f" {pad(label, _LABEL)}", dim(f"{pad_left(edge, _SCALE)} "), Style.BAR(text)))
    return [*lines, join(" " * (_LABEL + _SCALE + 2), dim(_axis(snapshot, cells, wide)))]


def _highest(values: Sequence[float | None]) -> float:
    return max((value for value in values if value is not None), default=0.0)


def depth_chart(snapshot: Snapshot, width: int, height: int) -> Lines:
    """The depth of ``new`` as a graph that begins at 0; empty where ``height`` is too small."""
    values = snapshot.history.get(Box.NEW, ())
    if not values or height < _CHART + 2:
        return []
    wide = max(1, min(4, (width - 14) // len(values)))
    top = _highest(values)
    graph = _graph(values, top, min(_HIGHEST, height - 2), wide, f"{top:,.0f}")
    return [
        join(Style.TITLE(" depth of new"), dim(" · "), flow_note(snapshot)),
        *(join(dim(f" {pad_left(edge, 10)} "), Style.BAR(text)) for edge, text in graph),
        dim(" " * 12 + _axis(snapshot, len(values), wide)),
    ]


def _count(depth: float) -> str:
    return f"{depth:,.0f}" if depth < 1e6 else f"{depth / 1e6:,.1f}M"


# Draws how long the messages in ``new`` have waited: one column per class of age, one line per source.

_SOURCE, _TOTAL, _CELL = 12, 10, 9
_BARS, _SOURCES = 3, 5
_CLASS = 8
"""Cells of a class of age where each has a line."""
HISTOGRAM_LINES = _BARS + _SOURCES + 2
"""Lines of the histogram, whatever it shows: bars, column titles, totals and sources."""


def age_histogram(snapshot: Snapshot, width: int, rows: int) -> Lines:
    """At most ``HISTOGRAM_LINES``; none where the ages are not known. Figures of a sample are scaled up and marked ``~``."""
    ages = snapshot.observation.ages
    if ages is None:
        return []
    if not ages.of:
        return [dim("   nothing waits")]
    lines = [
        *_bars(ages.counts, width),
        restyle(_row("source", ["all", *_classes(ages.bounds)], width), Style.DIM),
        _row("all", [f"{ages.of:,}", *_figures(ages, ages.counts)], width),
    ]
    fits = _SOURCES if ages.sources <= _SOURCES else _SOURCES - 1
    for one in ages.by_source[:fits]:
        name = "unknown" if one.source is None else clip(safe(one.source), _SOURCE - 1)
        lines.append(_row(name, _figures(ages, (one.total, *one.counts)), width))
    if ages.sources > fits:
        lines.append(dim(f"   {ages.sources - fits:,} more sources"))
    return lines


def histogram_note(snapshot: Snapshot) -> Line:
    """The part of the messages that the histogram is about, where it is not all of them."""
    ages = snapshot.observation.ages
    if ages is None:
        return BLANK
    notes = []
    if ages.looked_at < ages.of:
        notes.append(f"~ from {ages.looked_at:,} of {ages.of:,}")
    if ages.undated:
        notes.append(f"{ages.undated:,} without a time")
    if ages.ahead:
        notes.append(f"{'' if ages.looked_at >= ages.of else '≥'}{ages.ahead:,} from the future")
    return dim(" · ".join(notes))


def _classes(bounds: Sequence[float]) -> list[str]:
    """Titles of the classes, ``<10s 10s-1m … over 1d``, youngest first."""
    words = [interval(bound) if bound < 60 else duration(bound) for bound in bounds]
    return [f"<{words[0]}", *(f"{a}–{b}" for a, b in pairwise(words)), f"≥{words[-1]}"]


def _class_cells(width: int) -> int:
    """Cells of each class of age."""
    return max(7, min(_CELL, (width - 1 - _SOURCE - _TOTAL) // 6))


def _row(name: str, figures: Sequence[str], width: int) -> Line:
    """A line of the table. Zeros are dim, so that the other figures stand out."""
    cell = _class_cells(width)
    cells = (Style.DIM(pad_left(figure, cell if i else _TOTAL), figure in ("0", "~0")) for i, figure in enumerate(figures))
    return join(f" {pad(name, _SOURCE)}", *cells)


def _figures(ages: Ages, counts: Sequence[int]) -> list[str]:
    """The counts; of a sample scaled up and rounded to two significant digits."""
    if ages.looked_at >= ages.of:
        return [f"{n:,}" for n in counts]
    about = [float(f"{n * ages.of / ages.looked_at:.2g}") for n in counts]
    return [f"~{n / 1e6:,.1f}M" if n >= 1e6 else f"~{n:,.0f}" for n in about]


def _bars(counts: Sequence[int], width: int) -> Lines:
    """Draws the classes as bars above their columns; the highest bar fills the height."""
    cell = _class_cells(width)
    top = max(counts, default=0)
    lines = []
    for row in range(_BARS, 0, -1):
        chars = [_cell(n, top, row, _BARS) if n else " " for n in counts]
        bars = (join("  ", Style.BAR(char * (cell - 2), char != " ")) for char in chars)
        lines.append(join(" " * (1 + _SOURCE + _TOTAL), *bars))
    return lines


def age_bars(
    bounds: Sequence[float], figures: Sequence[str], counts: Sequence[int], width: int, notes: Sequence[Span] = ()
) -> Lines:
    """A line for each class of age, with its figure, a bar as long as its count, and a note."""
    cells = max((len(figure) for figure in figures), default=0) + 1
    behind = max((text_width(note.text) for note in notes), default=0)
    top, room = max(counts, default=0), max(1, width - _CLASS - cells - 3 - behind)
    lines = []
    for at, (name, figure, n) in enumerate(zip(_classes(bounds), figures, counts, strict=True)):
        label = Style.DIM(f" {pad(name, _CLASS)}{pad_left(figure, cells)} ", not n)
        bar = Style.BAR("█" * max(1, round(n / top * room)) if n else "")
        lines.append(join(label, bar, *notes[at : at + 1]))
    return lines


# Draws what happened, newest first: problems that began and ended, operations, reverted cursors, consumers that exited.

_VALUE = 16
"""Cells of a cursor's value."""


def happened_lines(
    snapshot: Snapshot, events: Sequence[LoggedEvent], moment: Moment, width: int, rows: int
) -> Lines:
    """At most ``rows`` lines. ``events`` are newest first."""
    found = [*((event.at, _event(event)) for event in events[:rows]), *_reverts(snapshot)]
    found.sort(key=lambda one: one[0], reverse=True)
    if not found:
        return [dim(f" nothing since watching began {span(snapshot.watched_for)} ago")]
    return [join(dim(f" {when(at, moment.zone)} "), line) for at, line in found[:rows]]


def _event(event: LoggedEvent) -> Line:
    sign = Style.GOOD("✓") if event.ended else Style.DIM("·") if event.severity is None else SIGNS[event.severity]
    return join(sign, f" {shown(event.words)}")


def _reverts(snapshot: Snapshot) -> Iterator[tuple[float, Line]]:
    """The lost updates in the histories of the cursors."""
    for cursor in snapshot.cursors:
        for write, before in pairwise(cursor.history):
            if write.lost:
                values = f"{clip_left(written(before), _VALUE)} → {clip_left(written(write), _VALUE)}"
                others = f", as {', '.join(map(safe, write.also_changed))} wrote" if write.also_changed else ""
                yield write.at, join(Style.BAD("↓"), f" {safe(cursor.source)} reverted {values}{others}")


# Draws the most important messages of a box, for windows with room for them.

_CLAIMS = 8
"""Rows of the claims."""
_RANKS: Mapping[Verdict | None, int] = {Verdict.DEAD: 0, Verdict.ABANDONED: 0, Verdict.WRITING: 2, Verdict.ALIVE: 2}
"""The order of verdicts where the ones with problems come first."""


def _rank(row: Row) -> int:
    return _RANKS.get(row.verdict, 1)  # unknown, or not judged


def ranked_rows(snapshot: Snapshot, box: Box, width: int, rows: int) -> Lines:
    """The titles of the columns, the most important claims or files in ``tmp``, and the number of those left out."""
    state = snapshot.observation.boxes[box]
    found = snapshot.observation.claims if box is Box.CUR else snapshot.observation.tmp
    if not found:
        return [dim("   none" if state.count == 0 else "   not judged")]
    columns = columns_for(box, width)
    ranked = sorted(found, key=lambda row: (_rank(row), row.in_box_since or 0.0))
    number = max(state.count or 0, len(found))
    fits = rows - 1 if number <= rows - 1 else rows - 2
    lines = [title_line(columns)]
    lines += [row_line(row, columns, Moment(snapshot.taken_at)) for row in ranked[: max(0, fits)]]
    if (more := number - min(fits, len(found))) > 0:
        lines.append(dim(f"   {count(more, complete=state.complete)} more"))
    return lines


def side_claims(snapshot: Snapshot, width: int, height: int) -> Lines:
    """The most important claims under a title, in at most ``height`` lines, always as many; none where that is too few."""
    rows = min(_CLAIMS, height - 4) + 2
    if Box.CUR not in snapshot.observation.boxes or rows < 3:
        return []
    title = join(Style.TITLE(" claims, dead ones first"), dim(" · "), Style.KEY("3"), " shows all")
    lines = [title, *ranked_rows(snapshot, Box.CUR, width, rows)]
    return lines + [BLANK] * (rows + 2 - len(lines))


LISTS_WIDE = 120
"""Cells of a window from which on there is something beside a list."""
_HIGH, _ROOMY = 30, 40
"""Lines of a window from which on there are panels below a list, and from which on there are more of them."""
_ROOMY_WIDE = 90
"""Cells below a list from which on its panels have all their columns."""
_BESIDE_HIGH = 20
"""Lines beside a list from which on it has panels."""
_EVIDENCE = 8
"""Cells that evidence needs."""


def rows_below(box: Box | None, width: int, height: int) -> int:
    """The lines of the panels below a list in a window of this size, whatever they show."""
    if width < LISTS_WIDE or height < _HIGH or box is None:
        return 0
    if box is Box.NEW:
        return HISTOGRAM_LINES + 2 if height >= _ROOMY else 0
    if box in ASIDE:
        return len(ASIDE) + 3
    if height < _ROOMY:
        return 9
    return height // 2 if box is Box.CUR else 12


def beside_list(
    row: Row | None, read: PayloadRead, snapshot: Snapshot, box: Box, width: int, height: int, moment: Moment, *, roomy: bool
) -> Lines:
    """The row under the cursor and, for a claim, its holder; in New how long messages wait, or how they flow if ``roomy``."""
    draw = partial(detail, row, read, moment=moment, worked=snapshot.rates.worked)
    if height < _BESIDE_HIGH:
        return draw(width, height)
    inside = width - 2
    note = "" if row is None else size_text(row, read)
    title = "no message" if row is None else clip_left(safe(row.id), max(8, inside - len(note) - 8))
    sections = [Section(title, lambda width, rows: draw(width, rows + 1)[1:], 8, note=dim(note))]
    if box is Box.CUR:
        sections.append(Section("its holder", partial(_holder, row, snapshot, moment), 6, 9, last=True))
    elif box is Box.NEW and roomy:
        sections.append(flow_section(snapshot, 9, 13, last=True))
    elif box is Box.NEW and (ages := snapshot.observation.ages) is not None:
        rows, figures = len(AGE_BOUNDS) + 1, _figures(ages, ages.counts)
        bars = partial(age_bars, ages.bounds, figures, ages.counts)
        sections.append(
            Section("new by age", lambda width, _: bars(width), rows, rows, note=histogram_note(snapshot), last=True)
        )
    return frame(height, (inside, sections))


def below_list(snapshot: Snapshot, box: Box, width: int, height: int) -> Lines:
    """The panels below a list: who works, how long it takes, how long messages wait. Exactly ``height`` lines."""
    now = snapshot.taken_at
    inside = width - 2
    if box is Box.NEW:
        return frame(height, (inside, [ages_section(snapshot)]))
    if box in ASIDE:
        return frame(height, (inside, [Section("set aside", partial(_aside, snapshot), 1)]))
    right = 34 if width >= _ROOMY_WIDE else 28
    left = width - 3 - right
    if box is Box.TMP:
        first = [Section("writers, abandoned files first", partial(_owners, snapshot.observation.tmp, now=now), 1)]
        ages = [Section("tmp by age", partial(_row_ages, snapshot.observation.tmp, now=now), 1)]
    else:
        claims = snapshot.observation.claims
        flow = flow_section(snapshot, 9, 13, last=True)
        first = [Section("consumers, dead ones first", partial(_owners, claims, now=now), 5, key="8"), flow]
        rows = len(AGE_BOUNDS) + 1
        ages = [Section("claims by time held", partial(_row_ages, claims, now=now), rows, rows)]
        if snapshot.observation.flow.holders_counted:  # else nobody tells how long a message waited and was processed
            ages.append(Section("waited and worked", partial(_times, snapshot), 4, last=True))
    return frame(height, (left, first), (right, ages))


def ages_section(snapshot: Snapshot, key: str = "", *, last: bool = False) -> Section:
    """The panel of the messages in ``new`` by age and source."""
    draw, rows = partial(age_histogram, snapshot), HISTOGRAM_LINES
    return Section("new by age and source", draw, rows, rows, key, histogram_note(snapshot), last)


def flow_section(snapshot: Snapshot, least: int, most: int, *, last: bool = False) -> Section:
    """The panel of the depth and the rates over time."""
    return Section("depth and flow", partial(flow_graphs, snapshot), least, most, note=flow_note(snapshot), last=last)


def _holder(row: Row | None, snapshot: Snapshot, moment: Moment, width: int, rows: int) -> Lines:
    """The process that holds a claim, as far as it is known, and its other claims."""
    now = moment.now
    owner = row.owner if row is not None else None
    if row is None or owner is None:
        return [dim(" not known: the message does not name it")]
    started = "not known" if owner.start is None else f"{when(owner.start, moment.zone)}, {ago(owner.start, now)} ago"
    where = f"{safe(owner.user) if owner.user else '?'} on {safe(owner.host) if owner.host else '?'}"
    held = [one for one in snapshot.observation.claims if one.owner == owner]
    others = sorted((one for one in held if one.key != row.key), key=lambda one: one.in_box_since or 0.0)
    many = f"{len(held):,}{'' if snapshot.observation.judged_all else ' or more'}"
    host = f" on {safe(owner.host)}" if owner.host else ""
    pid = "?" if owner.pid is None else str(owner.pid)
    facts = [("process", f"{pid} {safe(owner.command or '')}"), ("user", where), ("started", started)]
    if owner.name:
        facts = [("consumer", safe(owner.name)), *([("process", f"pid {pid}{host}")] if owner.pid is not None else [])]
    lines = [
        *starmap(fact_line, facts),
        join(fact_line("state", ""), verdict_span(row), f": {shown(row.evidence)}" if row.evidence else ""),
        fact_line("claims", f"{many}{', the others:' if others else ''}"),
    ]
    for one in others[: max(0, rows - len(lines))]:
        attempt = f", attempt {one.attempt}" if one.attempt else ""
        lines.append(join(f"   {age(one.in_box_age(now)):>4}  {short_id(safe(one.id), 20)}{attempt}"))
    return lines


def _owners(found: Sequence[Row], width: int, rows: int, *, now: float) -> Lines:
    """The processes that hold the rows, with their number and the oldest of each."""
    groups: dict[Owner | None, list[Row]] = {}
    for row in found:
        groups.setdefault(row.owner, []).append(row)
    if not groups:
        return [dim("   none")]

    ordered = sorted(groups.values(), key=lambda held: (min(map(_rank, held)), _since(held)))
    name = max(14, min(24, width - 48))
    why = width >= 26 + name + _EVIDENCE
    who = "consumer" if any(one is not None and one.name for one in groups) else "process"
    titles = f" {'verdict':<10}{pad(who, name)}{'number':>7}{'oldest':>8}"
    lines = [dim(f"{titles}{'  evidence' if why else ''}")]
    fits = rows - 1 if len(ordered) <= rows - 1 else rows - 2
    for held in ordered[: max(0, fits)]:
        worst = min(held, key=_rank)
        verdict = verdict_span(worst)
        figures = f"{len(held):>7,}{pad_left(ago(_since(held), now), 8)}"
        text = f"{pad(owner_text(worst.owner), name)}{figures}{f'  {shown(worst.evidence)}' if why else ''}"
        lines.append(join(" ", verdict.style(pad(verdict.text, 10)), text))
    if fits < len(ordered):
        lines.append(dim(f"   {len(ordered) - fits:,} more"))
    return lines


def _since(held: Sequence[Row]) -> float:
    return min(began(held), default=0.0)


def _row_ages(found: Sequence[Row], width: int, rows: int, *, now: float) -> Lines:
    """The rows by their time in the box; the dead and abandoned ones are counted behind."""
    counts, bad = [0] * (len(AGE_BOUNDS) + 1), [0] * (len(AGE_BOUNDS) + 1)
    for row in found:
        place = sum((row.in_box_age(now) or 0.0) >= bound for bound in AGE_BOUNDS)
        counts[place] += 1
        bad[place] += row.verdict in (Verdict.DEAD, Verdict.ABANDONED)
    style, word = (Style.WARN, "abandoned") if found and found[0].box is Box.TMP else (Style.BAD, "DEAD")
    notes = [style(f" {n:,} {word}" if n else "") for n in bad]
    return age_bars(AGE_BOUNDS, [f"{n:,}" for n in counts], counts, width, notes)


def _times(snapshot: Snapshot, width: int, rows: int) -> Lines:
    rates = snapshot.rates
    lines = [dim(f" {'':<8}{'p50':>6}{'p95':>6}{'p99':>6}")]
    for name, times in (("waited", rates.waited), ("worked", rates.worked)):
        figures = "".join(f"{duration(value):>6}" for value in (times.p50, times.p95, times.p99))
        lines.append(join(f" {name:<8}{figures}"))
    samples = max(rates.waited.samples, rates.worked.samples)
    return [*lines, dim(f" of {samples:,} done")]


def _aside(snapshot: Snapshot, width: int, rows: int) -> Lines:
    """The boxes of what was set aside."""
    lines = [dim(f" {'box':<10}{'number':>8}{'bytes':>8}{'oldest':>8}  kept")]
    for box in ASIDE:
        state = snapshot.observation.boxes.get(box)
        if state is None:
            continue
        kept = "for ever" if state.retention is None else age(state.retention)
        expired = f", {'≥' if state.expired_is_bound else ''}{state.expired:,} expired" if state.expired else ""
        oldest = ago(state.oldest_at, snapshot.taken_at)
        bytes = ("~" if state.bytes_estimated else "") + size(state.bytes if state.count is not None else None)
        figures = (count(state.count, complete=state.complete), bytes, oldest)
        text = f" {box:<10}{''.join(pad_left(figure, 8) for figure in figures)}  {kept}"
        lines.append(join(text, Style.WARN(expired)))
    return lines


# Draws the Overview: problems on top, then the boxes with depth, age and history, the flow, the cursors and the locks; in a
# large window as panels. Each panel answers one question; its title names the key that shows it in full.

_CELLS = 20
_WITH_BYTES, _WITH_HISTORY = 48, 72
"""Cells of a window from which on boxes have these columns."""


def box_table(snapshot: Snapshot, width: int) -> Lines:
    """A title and one line per box; the boxes of messages set aside share a line."""
    boxes = snapshot.observation.boxes
    if not boxes:
        return []
    title = _box_figures("box", "depth", "oldest", "bytes", width)
    if width >= _WITH_HISTORY:
        unwatched = any(UNWATCHED in spark(snapshot.history.get(box, ()), _CELLS) for box in LIVE)
        title += f"  depth, {duration(snapshot.cell * _CELLS)}, a cell is {duration(snapshot.cell)}"
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


def _box_figures(name: str, depth: str, oldest: str, amount: str, width: int) -> str:
    return f" {pad(name, 5)}{pad_left(depth, 10)}{pad_left(oldest, 8)}" + (pad_left(amount, 8) if width >= _WITH_BYTES else "")


def _depth(state: BoxState) -> str:
    return count(state.count, complete=state.complete)


def _bytes(state: BoxState) -> str:
    if state.count is None or state.bytes is None:
        return "?"
    return ("~" if state.bytes_estimated else "" if state.complete else "≥") + size(state.bytes)


def _box_line(snapshot: Snapshot, state: BoxState, width: int) -> Line:
    oldest = "?" if state.count is None else ago(state.oldest_at, snapshot.taken_at)
    graph = ("  ", Style.BAR(spark(snapshot.history.get(state.box, ()), _CELLS))) if width >= _WITH_HISTORY else ()
    line = join(_box_figures(state.box, _depth(state), oldest, _bytes(state), width), *graph, "  ")
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
    words = f"{rate(slope, signed=True)} over {duration(rates.slope_window)}"
    depth = snapshot.observation.boxes[Box.NEW].count
    more = ["growing"] if slope >= 0.05 else ["steady"]
    if slope <= -0.05 and depth:
        more = [f"empty in {duration(depth / -slope)}", "draining"]
    return [*(join(f"{words}, {one}") for one in more), join(words)]


def _aside_line(states: Sequence[BoxState], width: int, now: float) -> Line:
    known = [state.count for state in states if state.count is not None]
    complete = len(known) == len(states) and all(state.complete for state in states)
    oldest = min((state.oldest_at for state in states if state.oldest_at is not None), default=None)
    sizes = [state.bytes for state in states if state.count]
    estimated = any(state.bytes_estimated for state in states)
    amount = ("~" if estimated else "") + size(None if None in sizes else sum(filter(None, sizes)))
    text = _box_figures("aside", count(sum(known) if known else None, complete=complete), ago(oldest, now), amount, width)
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
    over = duration(rates.window) if rates.window > 0 else "—"
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
    return "—" if per_s is None else least + rate(per_s)


def _percentiles(of: Percentiles) -> str:
    return f"p50 {duration(of.p50):>4} p99 {duration(of.p99):>4}"


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

    def fade(section: Section, width: int, rows: int) -> Lines:
        return faded(section.draw(width, rows), moment)

    def column(*names: str) -> list[Section]:
        """The panels with these names, as far as there are any."""
        return [panels[name].replace(draw=partial(fade, panels[name])) for name in names if name in panels]

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


_TINY = 14
"""Lines from which on space is reserved for problems that do not exist."""

_NARROW_HIGH = 30
"""Lines from which on a narrow window shows claims and a graph below."""


def problem_rows(height: int) -> int:
    """The number of problems that fit. It depends on the height alone, so that nothing moves while one reads."""
    return max(1, min(4, height - 3)) if height < 40 else 8


def overview(
    snapshot: Snapshot, events: Sequence[LoggedEvent], width: int, height: int, moment: Moment, *, chosen: int
) -> Lines:
    """At most ``height`` lines. Where space is short, panels are omitted from the bottom up; the problems stay. A large window
    has panels with borders, in which ``events`` are shown, newest first; a high and narrow one shows some of their contents
    below."""
    if snapshot is NOTHING_SEEN:
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
    if height >= _NARROW_HIGH:
        below.append(BLANK)
        below += side_claims(snapshot, width, room - len(below))
        chart = depth_chart(snapshot, width, room - len(below))
        below += [BLANK] * (room - len(below) - len(chart)) + chart
    return lines + faded(below, moment)


def _mail(snapshot: Snapshot, width: int) -> Lines:
    reason = shown(snapshot.observation.capabilities.why_not(Action.REQUEUE) or "")
    why, _, how = reason.partition("; if it is")  # on a line of its own, to be copied
    how = how or f" a job spool all the same: spooltop --as spool {safe(snapshot.observation.target)}"
    texts = f"{why[:1].upper()}{why[1:]}.", f"If it is{how}"
    lines = [line for text in texts for line in paragraph(text, width, margin=" ")]
    return [*lines, BLANK, *(restyle(line, Style.NORMAL) for line in box_table(snapshot, width))]
