"""Properties of every drawing: it fits, it is printable, and nothing is painted where nothing changed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spooltop.model.cursors.input import parse_value
from spooltop.model.cursors.state import CursorSection
from spooltop.model.look.locks import Holders, Holding, Lock, LockHolder
from spooltop.model.look.snapshot import Snapshot
from spooltop.model.operations.audit import AuditLine, AuditTrail
from spooltop.model.operations.plan import Confirm, Item, ItemResult, Outcome, Refusal
from spooltop.model.protocols import Sort
from spooltop.model.row import Payload, Row
from spooltop.model.text import escape
from spooltop.model.vocabulary import Box, Owner, Verdict
from spooltop.tui.draw.cursors import cursor_table
from spooltop.tui.draw.detail import detail
from spooltop.tui.draw.elements.glyphs import ASCII
from spooltop.tui.draw.elements.spans import Line, line_text, line_width
from spooltop.tui.draw.every_screen.freshness import Freshness, Times
from spooltop.tui.draw.every_screen.header import header
from spooltop.tui.draw.follow import follow_lines
from spooltop.tui.draw.help import HelpEntry, HelpSection, help_lines
from spooltop.tui.draw.holders import holders_lines
from spooltop.tui.draw.lists import columns_for, list_header, row_line, title_line
from spooltop.tui.draw.locks import lock_table
from spooltop.tui.draw.one_cursor import cursor_detail
from spooltop.tui.draw.operating.inject import Field, form_lines
from spooltop.tui.draw.operating.operation import operation_lines
from spooltop.tui.draw.operating.operations import operations_lines
from spooltop.tui.draw.operating.plan import plan_lines
from spooltop.tui.draw.operating.result import result_lines
from spooltop.tui.draw.operating.set_cursor import set_cursor_lines
from spooltop.tui.draw.overview import overview
from spooltop.tui.draw.problems import problem_lines
from spooltop.tui.tracking.timeline import TimelineStep

from ...snapshots import asked, states, values
from ...snapshots.values import NOW, ZONE

STATES = (states.first_seconds, states.read_only, states.mail, states.disk_full, states.network, states.demo)

LAMPS = (Freshness(), Freshness(frozen_at=NOW), Freshness(stale_for=41, stale_why="readdir of new does not answer"))
SECTIONS = [
    HelpSection("Claims", (HelpEntry("r", "requeue"), HelpEntry("d", "purge to the trash", "cur belongs to memex 0750"))),
    HelpSection("", tuple(HelpEntry(f"F{i}", f"does {i}") for i in range(9))),
]


@cache
def snapshots() -> tuple[Snapshot, ...]:
    return (values.trouble(), *(state() for state in STATES))


def lit(snapshot: Snapshot, width: int, height: int, freshness: Freshness) -> Iterator[tuple[int, list[Line]]]:
    """The part of ``views`` that tells how fresh the snapshot is."""
    yield 2, header(snapshot, width, target="/var/spool/memex", now=NOW, freshness=freshness, zone=ZONE)
    yield height, overview(snapshot, width, height, now=NOW, chosen=5, freshness=freshness, zone=ZONE)


def views(snapshot: Snapshot, width: int, height: int, freshness: Freshness = LAMPS[0]) -> Iterator[tuple[int, list[Line]]]:
    """(maximum number of lines, the lines) of each view of a snapshot."""
    yield from lit(snapshot, width, height, freshness)
    yield height, problem_lines(snapshot, width, height, chosen=6)
    yield height, cursor_table(snapshot, width, height, now=NOW, chosen=3)
    yield height, lock_table(snapshot, width, height, now=NOW, chosen=2)
    for cursor in snapshot.cursors:
        yield height, cursor_detail(cursor, snapshot, width, height, now=NOW, zone=ZONE)
    yield 1, [list_header(snapshot, "Claims", 4310, width, now=NOW, sort=Sort(), marked=2, filter="age:>10m", zone=ZONE)]


def rows_of(rows: list[Row], width: int) -> Iterator[tuple[int, list[Line]]]:
    for box in Box:
        for times in Times:
            columns = columns_for(box, width, times=times)
            lines = [title_line(columns, width, sort=Sort("held"))]
            for i, row in enumerate(rows):
                lines.append(row_line(row, columns, width, now=NOW, selected=i == 1, marked=i == 2, zone=ZONE, times=times))
            yield len(rows) + 1, lines


def panels(width: int, height: int) -> Iterator[tuple[int, list[Line]]]:
    for confirm in Confirm:
        for items in (0, 2, 40):
            plan = asked.plan(items=items, confirm=confirm)
            yield height, plan_lines(plan, width, height, now=NOW, typed="31", zone=ZONE, scroll=7)
    yield height, result_lines(asked.result(), width, height, since=("1 waits in new, place 1 of 4,309",), zone=ZONE)
    fields = [Field("count", "1", "how many"), Field("text", "日本" * 60, "what each of them says", True)]
    yield height, form_lines(fields, width, height)
    yield from asked_panels("日本" * 60, width, height)
    yield height, help_lines(SECTIONS, width, height)
    yield height, operations_lines(asked.operations(), width, height, now=NOW, chosen=2, zone=ZONE)


def trail_for(name: str) -> AuditTrail:
    result = ItemResult(name, name, Outcome.FAILED, escape(name), name)
    line = AuditLine(NOW, "after", name, name, 0, name, name, name, 7, 3, 3, ended=escape(name), results=(result,), trusted=False)
    return AuditTrail((line, replace(line, event="before", results=())), (escape(name),))


def asked_panels(name: str, width: int, height: int) -> Iterator[tuple[int, list[Line]]]:
    """The panels about one thing: its holders, its steps, its value, an operation."""
    holder_info = Holding(5201, name, name, "flock, holds", NOW - 60, of=escape(name))
    some = Holders(escape(name), (holder_info, replace(holder_info, pid=None)), False, (escape(name),))
    for holders in (None, Holders(escape(name)), some):
        yield 10_000, holders_lines(name, holders, width, at=NOW, error="", zone=ZONE)
    yield 10_000, holders_lines(name, None, width, at=None, error=escape(name))
    steps = [TimelineStep(NOW + n, name, f"set aside in held: {escape(name)}", bad=n % 2 == 0) for n in range(30)]
    for ids in ([name], [name, "b", "c"]):
        now = dict.fromkeys(ids, "waits in new, place 3 of 4,310")
        yield height, follow_lines(ids, steps, now, width, height, since=NOW, zone=ZONE, scroll=4)
    cursor = replace(values.trouble().cursors[0], source=name, file=name, shown=escape(name))
    yield height, set_cursor_lines(cursor, name, parse_value(name, name), width, height)
    yield height, set_cursor_lines(cursor, "", None, width, height)
    trail = trail_for(name)
    for record in asked.operations():
        yield 10_000, operation_lines(record, asked.plan(items=3), "", escape(name), width, now=NOW, zone=ZONE, trail=trail)
        yield 10_000, operation_lines(record, None, escape(name), "", width, now=NOW)


def fits(drawings: Iterator[tuple[int, list[Line]]], width: int) -> None:
    for most, lines in drawings:
        assert len(lines) <= most
        for line in lines:
            assert line_width(line) <= width, line_text(line)
            assert line_text(line).isprintable(), line_text(line)
            assert line_text(ASCII.line(line)).isascii()


@pytest.mark.parametrize("width", [40, 47, 60, 72, 79, 80, 100, 132, 160, 200])
@pytest.mark.parametrize("height", [7, 12, 20, 47])
def test_everything_fits_at_every_size(width: int, height: int) -> None:
    for snapshot in snapshots():
        fits(views(snapshot, width, height), width)
        for freshness in LAMPS[1:]:
            fits(lit(snapshot, width, height, freshness), width)
    fits(rows_of([*values.claims(), *values.tmp_files()], width), width)
    fits(panels(width, height), width)


def test_the_trouble_stays_on_top_where_nothing_else_has_room() -> None:
    small = [line_text(line) for line in overview(values.trouble(), 40, 7, now=NOW)]
    assert small[0].startswith(" 6 PROBLEMS")
    assert small[1].startswith("▌✗ 2 claims of dead")


def test_the_smallest_screen_still_tells_the_depths() -> None:
    small = [line_text(line) for line in overview(values.trouble(), 60, 7, now=NOW)]
    assert small[-1] == " new 4,310 · cur 4, 2 DEAD · tmp 4, 3 abandoned"


def test_without_signs_what_was_not_watched_is_no_bar() -> None:
    line = next(line for line in overview(states.demo(), 80, 20, now=NOW) if line_text(line).startswith(" new"))
    assert ".................." in line_text(ASCII.line(line))
    assert "=#" in line_text(ASCII.line(line))


def test_a_tiny_screen_wastes_no_line_on_trouble_that_is_not_there() -> None:
    one = replace(values.trouble(), problems=values.problems()[:1])
    small = [line_text(line) for line in overview(one, 40, 7, now=NOW)]
    assert small[2].startswith(" box") or small[3].startswith(" box")
    assert any(line.startswith(" cur") for line in small)


NAMES = st.one_of(
    st.binary(min_size=1, max_size=255).map(os.fsdecode),
    st.sampled_from(["[red]x[/]", "a\x1b]0;t\x07b", "a\nb", "2026-11-21T02:41:09.json", "\u202e"]),
    st.sampled_from(["x" * 255, "日本" * 60, "e" + "\u0301" * 200, "❤\ufe0f" * 20]),
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(NAMES, NAMES, st.binary(max_size=400), st.sampled_from([40, 63, 80, 161]))
def test_no_name_and_no_payload_reaches_the_terminal_raw(name: str, other: str, data: bytes, width: int) -> None:
    row = Row(
        key=name, box=Box.CUR, id=name, name=name, source=other, verdict=Verdict.DEAD, evidence=other, note=other, reason=other,
        owner=Owner(host=other, pid=3, command=other, user=name),
    )  # fmt: skip
    payload = Payload(data, len(data) + 9, True, ((other, name),))
    fits(iter([(30, detail(row, payload, width, 30, now=NOW)), (30, detail(row, None, width, 30, now=NOW, error=other))]), width)
    fits(rows_of([row, replace(row, note="")], width), width)
    fits(asked_panels(name, width, 20), width)
    plan = replace(
        asked.plan(), items=[Item(row, 1, other)], refused=[Refusal(row, other, True)], notes=(other,), command=("x", name)
    )
    result = replace(asked.result(), items=[ItemResult(name, name, Outcome.FAILED, other)], notes=(other,), undo=(name,))
    fits(iter([(24, plan_lines(plan, width, 24, now=NOW)), (24, result_lines(result, width, 24, since=(other,)))]), width)
    base = values.trouble()
    cursor = replace(
        base.cursors[0], source=name, shown=other, value=other, evidence=other, file=name,
        history=(CursorSection(NOW, other, 1, (name,), (LockHolder(1, other),)),) * 2,
    )  # fmt: skip
    problem = replace(base.problems[0], text=other, subject=name)
    lock = Lock(name, "flock", (LockHolder(1, other, name, NOW),), (LockHolder(None),), "blocked", other)
    hostile = replace(
        base, cursors=(cursor,), problems=(problem,) * 6, not_judged=(other,), not_visible=(other,),
        observation=replace(base.observation, target=name, locks=(lock,), disk=replace(base.observation.disk, fs_type=other)),
    )  # fmt: skip
    fits(views(hostile, width, 40, Freshness(stale_for=3, stale_why=other)), width)
    fits(views(replace(hostile, problems=()), width, 40), width)
    fits(iter([(2, header(hostile, width, target=name, now=NOW))]), width)


def test_nothing_moves_when_a_number_grows() -> None:
    """Figures are at the same cells whatever their values: titles and other columns do not move."""
    columns = columns_for(Box.CUR, 80)
    before = line_text(row_line(values.claim(held=59, attempt=1), columns, 80, now=NOW))
    after = line_text(row_line(values.claim(held=86400 * 300, attempt=12345), columns, 80, now=NOW))
    assert len(before) == len(after)
    assert before.index("exited") == after.index("exited")
    assert before.index("4312") == after.index("4312")


def test_the_boxes_keep_their_columns_when_depths_change() -> None:
    base = values.trouble()
    boxes = dict(base.observation.boxes)
    boxes[Box.NEW] = replace(boxes[Box.NEW], count=1_234_567, complete=False, bytes=999_000_000_000)
    grown = replace(base, observation=replace(base.observation, boxes=boxes))
    a = [line_text(line) for line in overview(base, 80, 20, now=NOW)]
    b = [line_text(line) for line in overview(grown, 80, 20, now=NOW)]
    assert [len(line) for line in a] == [len(line) for line in b]
    new = next(line for line in b if line.startswith(" new"))
    assert "≥1,234,567" in new
    assert new.index("▇") == next(line for line in a if line.startswith(" new")).index("▇")


def test_nothing_below_moves_when_trouble_comes() -> None:
    one = replace(values.trouble(), problems=values.problems()[:1])
    many, none = values.trouble(), replace(values.trouble(), problems=())
    tops = [
        next(y for y, line in enumerate(overview(snapshot, 80, 20, now=NOW)) if line_text(line).startswith(" box"))
        for snapshot in (one, many, none)
    ]
    assert len(set(tops)) == 1
