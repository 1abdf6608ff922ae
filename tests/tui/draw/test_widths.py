"""The content at each width: times, owners, ids, panels."""

from __future__ import annotations

import datetime
from dataclasses import replace

import pytest

from spooltop.model.cursors.state import CursorSection
from spooltop.model.protocols import Sort
from spooltop.model.vocabulary import Box, Owner
from spooltop.tui.draw.boxes import flow_lines
from spooltop.tui.draw.columns import columns_for, short_id
from spooltop.tui.draw.cursors import cursor_glance, cursor_table
from spooltop.tui.draw.elements.spans import Span, Style, line_text
from spooltop.tui.draw.every_screen.freshness import Times
from spooltop.tui.draw.help import LEGEND
from spooltop.tui.draw.lists import row_line, title_line
from spooltop.tui.draw.locks import lock_table
from spooltop.tui.draw.overview import overview
from spooltop.tui.draw.panels.happened import happened_lines

from ...snapshots import values
from ...snapshots.values import NOW, ZONE

ROWS = {Box.CUR: values.claims()[0], Box.TMP: values.tmp_files()[0], Box.NEW: values.waiting(9)[0], Box.TRASH: values.trash()[0]}


@pytest.mark.parametrize("width", [80, 120, 160])
@pytest.mark.parametrize("box", list(ROWS))
def test_times_are_whole_and_say_whether_they_are_utc(box: Box, width: int) -> None:
    row = ROWS[box]
    written = {}
    for times, zone in ((Times.LOCAL, ZONE), (Times.UTC, datetime.UTC)):
        columns = columns_for(box, width, times=times)
        line = line_text(row_line(row, columns, width, now=NOW, zone=zone, times=times))
        written[times] = line
        title = line_text(title_line(columns, width, sort=Sort("verdict")))
        assert (" Z" in title) is (times is Times.UTC)
        since = row.in_box_since if box in (Box.CUR, Box.TRASH) else row.enqueued_at
        assert since is not None
        at = datetime.datetime.fromtimestamp(since, zone)
        day = at.strftime("%m-%d %H:%M") if NOW - since > 43_200 else at.strftime("%H:%M:%S")
        assert f"{day}{'Z' if times is Times.UTC else ' '}" in line
        assert ("evidence" in [column.key for column in columns]) is (box in (Box.CUR, Box.TMP))
    assert written[Times.LOCAL] != written[Times.UTC]


def test_an_owner_is_whole_at_80_columns() -> None:
    row = replace(values.claims()[0], owner=Owner("vm", 26340, NOW, "worker-2.py"))
    line = line_text(row_line(row, columns_for(Box.CUR, 80), 80, now=NOW))
    assert " 26340 worker-2.py " in line


def test_ids_are_cut_where_they_differ() -> None:
    rows = [*values.waiting(40), *values.claims()]
    columns = columns_for(Box.CUR, 80)
    shown = {short_id(row.id, columns[-1].width) for row in rows}
    assert len(shown) == len(rows) and not any(text.endswith(".vm") for text in shown)
    line = line_text(row_line(rows[-1], columns, 80, now=NOW))
    assert short_id(rows[-1].id, columns[-1].width) in line


def test_percentiles_stand_beside_what_they_are_of() -> None:
    flow, processed = (line_text(line) for line in flow_lines(values.trouble(), 80, now=NOW))
    assert "waited p50   6m p99   7m" in flow and "of 606  worked p50 0.1s p99 0.6s" in processed


def test_cursors_keep_their_places_whatever_their_verdicts() -> None:
    quiet = [replace(one, verdict="advancing", reverts_recent=0) for one in values.cursors()]
    loud = replace(quiet[4], verdict="reverted")

    def sources(cursors: list[object]) -> list[str]:
        snapshot = replace(values.trouble(), cursors=tuple(cursors))  # type: ignore[arg-type]
        lines = [line_text(line) for line in cursor_glance(snapshot, 80, 5, now=NOW)]
        return [line.split()[0] for line in lines[1:-1]]

    calm = sources([*quiet])
    assert calm == [one.source for one in quiet[:3]]
    assert sources([*quiet[:4], loud]) == [*calm[:2], "messenger"]
    assert sources([replace(quiet[0], verdict="stalled"), *quiet[1:]]) == calm


def test_cursors_and_locks_have_a_title() -> None:
    assert line_text(cursor_table(values.trouble(), 80, 18, now=NOW)[0]) == " Cursors 5 · 1 with problems"
    assert line_text(lock_table(values.trouble(), 80, 18, now=NOW)[0]).startswith(" Locks 3")
    for height in (3, 12, 18, 40):
        assert len(cursor_table(values.trouble(), 80, height, now=NOW)) <= height


@pytest.mark.parametrize(("width", "height"), [(120, 32), (200, 57)])
def test_a_large_overview_is_not_half_empty(width: int, height: int) -> None:
    lines = [line_text(line) for line in overview(values.trouble(), width, height, now=NOW, zone=ZONE)]
    assert len(lines) <= height
    assert sum(not line.strip() for line in lines) + height - len(lines) <= height // 6 + 2
    assert any("claims, dead ones first" in line for line in lines)
    assert any("DEAD" in line and "worker.py" in line for line in lines)


def test_what_happened_shows_the_cursor_of_an_object_and_the_step_back_loud() -> None:
    ring = (
        CursorSection(NOW - 2, {"cursor": 89632, "at": 1.5}, 1, shown="89632", back=True, lost=True),
        CursorSection(NOW - 3, {"cursor": 89636, "at": 1.0}, 1, shown="89636"),
    )
    cursor = replace(values.cursors()[0], history=ring)
    [back] = happened_lines(replace(values.trouble(), cursors=(cursor,)), (), 80, 60, zone=ZONE)
    assert line_text(back) == " 02:41:07 ↓ imessage reverted 89636 → 89632"
    assert Span("↓", Style.BAD) in back


def test_the_legend_explains_each_sign_and_each_verdict() -> None:
    words = {entry.keys for section in LEGEND for entry in section.entries}
    assert {"✗ ! ·", "≥ ≤", "~", "—", "?"} <= words
    verdicts = {"alive", "dead", "unknown", "writing", "abandoned", "held", "blocked", "stale", "free"}
    assert verdicts | {one.verdict for one in values.cursors()} <= {word.lower() for word in words}
