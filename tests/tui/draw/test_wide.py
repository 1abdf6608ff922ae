"""The panels of a large window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from spooltop.model.cursors.state import Cursor
from spooltop.model.look.observation import AGE_BOUNDS, Ages, SourceAges
from spooltop.model.look.problem import Severity
from spooltop.model.look.snapshot import RateHistory, Snapshot
from spooltop.model.text import program
from spooltop.model.vocabulary import Box
from spooltop.tui.draw.elements.glyphs import ASCII
from spooltop.tui.draw.elements.spans import Line, Style, line_text, line_width
from spooltop.tui.draw.every_screen.freshness import Freshness
from spooltop.tui.draw.overview import overview
from spooltop.tui.draw.panels.age_histogram import HISTOGRAM_LINES, age_histogram, histogram_note
from spooltop.tui.draw.panels.frame import FramedPanel, Section, frame, rows_for
from spooltop.tui.draw.panels.graphs import columns_of, flow_graphs
from spooltop.tui.draw.panels.ranked import depth_chart
from spooltop.tui.tracking.event_log import LoggedEvent

from ...snapshots import states, values
from ...snapshots.values import NOW, ZONE

SIZES = ((120, 24), (120, 27), (149, 30), (150, 24), (160, 47), (250, 80))


def panels(snapshot: Snapshot, width: int = 160, height: int = 47, **more: Any) -> list[Line]:
    return overview(snapshot, width, height, now=NOW, zone=ZONE, **more)


def titles(lines: Sequence[Line]) -> list[tuple[str, str, int]]:
    """(key, title, line) of each panel."""
    found = []
    for y, line in enumerate(lines):
        key = ""
        for span in line:
            if span.style is Style.KEY and line_text(line)[0] in "┌├│" and len(span.text) == 1:
                key = span.text
            elif span.style is Style.TITLE:
                found.append((key, span.text.strip(), y))
                key = ""
    return found


def body(lines: Sequence[Line], title: str) -> list[str]:
    """The lines of a panel between its borders."""
    texts = [line_text(line) for line in lines]
    y = next(y for _, words, y in titles(lines) if words == title)
    left = max(at for at in (0, *(i for i, c in enumerate(texts[y]) if c in "├┬┼")) if at < texts[y].index(title))
    found = []
    for text in texts[y + 1 :]:
        if text[left] not in "│┤":
            break
        found.append(text[left + 1 :].partition("│")[0].rstrip())
    return found


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("state", [values.trouble, states.calm, states.first_seconds, states.read_only])
def test_a_frame_is_as_large_as_its_window_and_closed(size: tuple[int, int], state: Any) -> None:
    lines = panels(state(), *size)
    assert len(lines) == size[1] and {line_width(line) for line in lines} == {size[0]}
    texts = [line_text(line) for line in lines]
    assert texts[0][0] + texts[0][-1] + texts[-1][0] + texts[-1][-1] == "┌┐└┘"
    assert {text[0] for text in texts[1:-1]} | {text[-1] for text in texts[1:-1]} <= set("│├┤")
    for above, below in pairwise(texts):
        for x, char in enumerate(above):
            if char in "┬┼├┤┌┐" or (char == "│" and x in (0, size[0] - 1)):
                assert below[x] in "│┤├┼┴└┘┬", (above, below, x)


@pytest.mark.parametrize("size", SIZES)
def test_each_panel_names_the_key_of_its_view(size: tuple[int, int]) -> None:
    keys = {title: key for key, title, _ in titles(panels(values.trouble(), *size))}
    expected = {"cursors": "5", "locks": "6", "claims, dead ones first": "3", "boxes": "", "what happened, newest first": ""}
    assert {title: keys[title] for title in expected if title in keys} == {t: k for t, k in expected.items() if t in keys}
    assert {"boxes", "depth and flow", "cursors", "claims, dead ones first", "what happened, newest first"} <= set(keys)


def test_a_small_window_has_no_panels() -> None:
    for size in ((119, 60), (160, 23), (80, 23)):
        assert not any("┌" in line_text(line) for line in panels(values.trouble(), *size))


def test_the_problems_stay_on_top_and_are_whole() -> None:
    for size in SIZES:
        lines = [line_text(line) for line in panels(values.trouble(), *size, chosen=1)]
        assert "6 PROBLEMS, worst first" in lines[0]
        assert "2 claims of dead consumers, pid 4312 and 4313, longest 41m" in lines[1] and "r requeue 2" in lines[1]
        assert lines[2][1:].startswith("▌✗ new grows 1.8/s")


def test_dead_claims_and_abandoned_files_stand_first() -> None:
    lines = panels(values.trouble(), 160, 60)
    assert [line.split()[0] for line in body(lines, "claims, dead ones first")[1:5]] == ["DEAD", "DEAD", "alive", "alive"]
    tmp = body(lines, "tmp, abandoned ones first")[1:5]
    assert [line.split()[0] for line in tmp] == ["abandoned", "abandoned", "abandoned", "WRITING"]


@pytest.mark.parametrize("size", SIZES)
def test_nothing_moves_where_a_panel_empties(size: tuple[int, int]) -> None:
    full, whole = panels(values.trouble(), *size), values.trouble()
    boxes = {**whole.observation.boxes, Box.CUR: replace(whole.observation.boxes[Box.CUR], count=0)}
    emptied = replace(whole, problems=whole.problems[:1], observation=replace(whole.observation, claims=(), boxes=boxes))
    empty = panels(emptied, *size)
    assert [one[::2] for one in titles(full)[1:]] == [one[::2] for one in titles(empty)[1:]]
    assert body(empty, "claims, dead ones first")[0] == "   none"


def test_a_panel_that_has_nothing_to_say_leaves_its_room() -> None:
    whole = values.trouble()
    bare = panels(replace(whole, cursors=(), observation=replace(whole.observation, locks=())), 120, 27)
    assert {"cursors", "locks"}.isdisjoint({title for _, title, _ in titles(bare)})
    assert "tmp, abandoned ones first" in {title for _, title, _ in titles(bare)}


def test_claims_without_room_are_counted() -> None:
    whole = values.trouble()
    many = tuple(values.claim(micro=i) for i in range(30))
    boxes = {**whole.observation.boxes, Box.CUR: replace(whole.observation.boxes[Box.CUR], count=900)}
    lines = panels(replace(whole, observation=replace(whole.observation, claims=many, boxes=boxes)))
    shown = body(lines, "claims, dead ones first")
    assert shown[-1] == f"   {900 - (len(shown) - 2)} more"


def test_room_goes_to_the_first_and_what_is_last_gives_it_up() -> None:
    def section(least: int, most: int, *, last: bool = False) -> Section:
        return Section("x", lambda width, rows: [], least, most, last=last)

    assert rows_for([section(2, 4), section(3, 3)], 10) == [4, 3]
    assert rows_for([section(2, 4), section(3, 3)], 8) == [2, 3]
    assert rows_for([section(5, 9, last=True), section(3, 3)], 8) == [0, 6], "the last one takes what is left"
    assert rows_for([section(5, 9)], 5) == [0] and rows_for([], 5) == []


@pytest.mark.parametrize("size", SIZES)
def test_borders_stay_where_they_are_whatever_number_of_rows_there_is(size: tuple[int, int]) -> None:
    trouble = values.trouble()

    def places(cursors: int, locks: int) -> list[tuple[str, str, int]]:
        observation = replace(trouble.observation, locks=tuple(values.locks() * 4)[:locks])
        return titles(panels(replace(trouble, observation=observation, cursors=tuple(trouble.cursors * 4)[:cursors]), *size))

    assert {title for _, title, _ in places(5, 3)} >= {"boxes", "cursors"}
    assert places(1, 1) == places(5, 3) == places(20, 12)


def test_borders_have_ascii_twins_and_titles_are_cut() -> None:
    long = FramedPanel("a title that is far too long", [], 1, "3")
    lines = frame([(20, [long])], [(9, [FramedPanel("l", [], 2)]), (10, [FramedPanel("r", [], 1)])])
    assert [line_text(ASCII.line(line)) for line in lines] == [
        "+- 3 a title that * -+",
        "|                    |",
        "+- l -----+- r ------+",
        "|         |          |",
        "|         |          |",
        "+---------+----------+",
    ]
    assert all(line_text(ASCII.line(line)).isascii() and line_width(line) == 22 for line in lines)


def test_what_happened_is_told_newest_first_with_its_time() -> None:
    events = [
        LoggedEvent(NOW - 5, "over: 3 abandoned in tmp", ended=True),
        LoggedEvent(NOW - 70, "requeue by memex: done 2, skipped 0, failed 0 · c41d0a7e92"),
        LoggedEvent(NOW - 100, "2 claims of dead consumers", Severity.CRITICAL),
        LoggedEvent(NOW - 101, "consumer 4312 worker.py exited, holding 1", Severity.WARNING),
    ]
    found = body(panels(values.trouble(), events=events), "what happened, newest first")
    assert found[0] == " 02:41:07 ↓ imessage reverted 89636 → 89632, as email wrote"
    assert " 02:41:04 ✓ over: 3 abandoned in tmp" in found[1]
    assert [line.split()[1] for line in found if "reverted" not in line and line] == ["✓", "·", "✗", "!"]
    assert [line.split()[0] for line in found if line] == sorted((line.split()[0] for line in found if line), reverse=True)


def test_nothing_happened_says_since_when() -> None:
    quiet: tuple[Cursor, ...] = ()
    found = body(panels(replace(states.calm(), cursors=quiet)), "what happened, newest first")
    assert found[0] == " nothing since watching began 1h03m ago"


def test_graphs_share_the_scale_of_what_comes_and_what_is_done() -> None:
    history = RateHistory((8.0,) * 20, (4.0,) * 20, (None,) * 19 + (0.5,))
    lines = [line_text(line) for line in flow_graphs(replace(values.trouble(), rate_history=history), 77, 17)]
    arrived = next(line for line in lines if line.startswith(" in "))
    done = lines.index(next(line for line in lines if line.startswith(" done ")))
    assert arrived.split()[1] == lines[done].split()[1] == "8.0/s" and arrived.endswith("█" * 60)
    assert not lines[done + 1].strip().strip("█0") and lines[done].count("█") == 0 and lines[done + 2].count("█") == 60
    retried = lines.index(next(line for line in lines if line.startswith(" retried ")))
    assert lines[retried + 3].count("·") == 57 and lines[-1].split() == ["5m", "ago", "now"]


@pytest.mark.parametrize("rows", [1, 2, 5])
def test_a_graph_shows_the_least_and_what_was_not_watched(rows: int) -> None:
    drawn = columns_of((None, 0.0, 0.001, 100.0), 100.0, rows, 1)
    assert drawn[-1] == "·▁▁█" and len(drawn) == rows
    assert all(line == "   █" for line in drawn[:-1])
    assert columns_of((0.0, None), 0.0, rows, 2)[-1] == "▁▁··"


def test_the_chart_begins_at_nothing_and_shows_what_was_not_watched() -> None:
    history = {Box.NEW: (None,) * 10 + (0.0,) * 5 + (1.0, 2.0, 4.0, 8.0, 8.0)}
    lines = [line_text(line) for line in depth_chart(replace(values.trouble(), history=history), 80, 20)]
    assert lines[1].endswith(" " * 9 + "█" * 6)
    assert lines[-2][12:] == "·" * 30 + "▁" * 15 + "█" * 15
    assert lines[-1].split() == ["5m", "ago", "now"]
    assert depth_chart(values.trouble(), 80, 7) == []


def test_a_stale_picture_is_dim_in_all_panels() -> None:
    lines = overview(values.trouble(), 160, 47, now=NOW, freshness=Freshness(stale_for=41), zone=ZONE)
    loud = next(line for line in lines if "4312 worker.py" in line_text(line) and "exited" in line_text(line))
    assert {span.style for span in loud if "DEAD" in span.text or "exited" in span.text} == {Style.DIM}
    assert Style.BAD in {span.style for span in lines[1]}


def test_a_program_is_called_by_its_name() -> None:
    assert program("/usr/bin/python3.11 /opt/memex/worker.py --all") == "worker.py"
    assert program("sh -c 'kill -9 $PPID'") == "sh"
    assert program("/usr/bin/rsync -a x y") == "rsync"
    assert program("") == ""


def histogram(ages: Ages | None, width: int = 79) -> list[str]:
    whole = values.trouble()
    lines = age_histogram(replace(whole, observation=replace(whole.observation, ages=ages)), width)
    return [line_text(line).rstrip() for line in lines]


def test_what_waits_is_shown_by_age_and_by_source() -> None:
    lines = histogram(values.trouble().observation.ages)
    assert lines[3].split() == ["source", "all", "<10s", "10s–1m", "1m–10m", "10m–1h", "1h–24h", "≥24h"]
    assert lines[4].split() == ["all", "4,310", "118", "595", "3,597", "0", "0", "0"]
    assert [line.split()[:2] for line in lines[5:8]] == [["imessage", "2,155"], ["email", "1,293"], ["signal", "862"]]
    edge = lines[4].index("3,597") + len("3,597")
    assert all(line.endswith("█") and len(line) == edge for line in lines[:3]), "the highest bar stands over its figure"


def test_ages_of_a_sample_say_so_and_add_up_to_the_whole() -> None:
    sample = Ages(AGE_BOUNDS, (0, 0, 0, 0, 5_000, 0), (SourceAges("bot", 5_000, (0, 0, 0, 0, 5_000, 0)),), 1, 5_000, 1_000_000)
    lines = histogram(sample)
    whole = values.trouble()
    note = histogram_note(replace(whole, observation=replace(whole.observation, ages=sample)))
    assert line_text(note) == "~ from 5,000 of 1,000,000"
    assert lines[4].split() == ["all", "1,000,000", "~0", "~0", "~0", "~0", "~1.0M", "~0"]


def test_the_histogram_never_takes_more_than_its_room() -> None:
    none = Ages(AGE_BOUNDS, (0,) * 6, (), 0, 0, 0)
    many = Ages(AGE_BOUNDS, (40, 0, 0, 0, 0, 0), tuple(SourceAges(f"s{n}", 1, (1, 0, 0, 0, 0, 0)) for n in range(12)), 40, 40, 40)
    assert len(histogram(many)) == HISTOGRAM_LINES
    assert histogram(none) == ["   nothing waits"]
    assert "   36 more sources" in histogram(many)
    assert histogram(None) == []
