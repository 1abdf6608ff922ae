"""The second column of a wide window."""

from __future__ import annotations

from dataclasses import replace

from spooltop.model.observation import AGE_BOUNDS, Ages, SourceAges
from spooltop.model.snapshot import Snapshot
from spooltop.model.text import program
from spooltop.model.vocabulary import Box
from spooltop.tui.draw.age_histogram import HISTOGRAM_LINES, age_histogram
from spooltop.tui.draw.freshness import Freshness
from spooltop.tui.draw.overview import overview
from spooltop.tui.draw.side_column import depth_chart, side_column
from spooltop.tui.draw.spans import Style, line_text

from ...snapshots import values
from ...snapshots.values import NOW, ZONE


def right(snapshot: Snapshot, height: int = 47) -> list[str]:
    return [line_text(line).rstrip() for line in side_column(snapshot, 79, height, now=NOW, zone=ZONE)]


def test_a_wide_screen_keeps_the_narrow_one_at_its_left() -> None:
    narrow = [line_text(line).rstrip() for line in overview(values.trouble(), 80, 47, now=NOW, zone=ZONE)]
    wide = [line_text(line) for line in overview(values.trouble(), 160, 47, now=NOW, zone=ZONE)]
    common = narrow.index(" claims, dead ones first · 3 shows all")  # below, the narrow one fills rows that it has to spare
    assert common > 25
    assert [line[:80].rstrip() for line in wide[:common]] == narrow[:common]
    assert any("claims, dead ones first" in line[80:] for line in wide)


def test_dead_claims_and_abandoned_files_stand_first() -> None:
    lines = right(values.trouble())
    claims = lines[lines.index(" claims, dead ones first · 3 shows all") + 2 :]
    assert [line.split()[0] for line in claims[:4]] == ["DEAD", "DEAD", "alive", "alive"]
    tmp = lines[lines.index(" tmp, abandoned ones first · 4 shows all") + 2 :]
    assert [line.split()[0] for line in tmp[:4]] == ["abandoned", "abandoned", "abandoned", "WRITING"]


def test_nothing_moves_where_a_panel_empties() -> None:
    full, whole = right(values.trouble()), values.trouble()
    boxes = {**whole.observation.boxes, Box.CUR: replace(whole.observation.boxes[Box.CUR], count=0)}
    empty = right(replace(whole, observation=replace(whole.observation, claims=(), boxes=boxes)))
    title = " tmp, abandoned ones first · 4 shows all"
    assert full.index(title) == empty.index(title)
    assert empty[1] == "   none"


def test_claims_without_room_are_counted() -> None:
    whole = values.trouble()
    many = tuple(values.claim(micro=i) for i in range(30))
    boxes = {**whole.observation.boxes, Box.CUR: replace(whole.observation.boxes[Box.CUR], count=900)}
    assert "   892 more" in right(replace(whole, observation=replace(whole.observation, claims=many, boxes=boxes)))


def test_a_value_that_was_reverted_is_marked_by_more_than_its_colour() -> None:
    assert any("imessage    89636 → 89632 ↓" in line and line.endswith("email") for line in right(values.trouble()))


def test_the_chart_begins_at_nothing_and_shows_what_was_not_watched() -> None:
    history = {Box.NEW: (None,) * 10 + (0.0,) * 5 + (1.0, 2.0, 4.0, 8.0, 8.0)}
    lines = [line_text(line) for line in depth_chart(replace(values.trouble(), history=history), 80, 20)]
    assert lines[1].endswith(" " * 9 + "█" * 6)
    assert lines[-2][12:] == "·" * 30 + "▁" * 15 + "█" * 15
    assert lines[-1].split() == ["5m", "ago", "now"]
    assert depth_chart(values.trouble(), 80, 7) == []


def test_a_stale_picture_is_dim_on_both_sides() -> None:
    lines = overview(values.trouble(), 160, 47, now=NOW, freshness=Freshness(stale_for=41), zone=ZONE)
    loud = next(line for line in lines if "WRITING" in line_text(line))
    assert {span.style for span in loud if span.text.strip()} == {Style.DIM}


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
    assert lines[4].split() == ["source", "all", "<10s", "10s–1m", "1m–10m", "10m–1h", "1h–24h", "≥24h"]
    assert lines[5].split() == ["all", "4,310", "118", "595", "3,597", "0", "0", "0"]
    assert [line.split()[:2] for line in lines[6:9]] == [["imessage", "2,155"], ["email", "1,293"], ["signal", "862"]]
    edge = lines[5].index("3,597") + len("3,597")
    assert all(line.endswith("█") and len(line) == edge for line in lines[1:4]), "the highest bar stands over its figure"


def test_ages_of_a_sample_say_so_and_add_up_to_the_whole() -> None:
    sample = Ages(AGE_BOUNDS, (0, 0, 0, 0, 5_000, 0), (SourceAges("bot", 5_000, (0, 0, 0, 0, 5_000, 0)),), 1, 5_000, 1_000_000)
    lines = histogram(sample)
    assert "~ from 5,000 of 1,000,000" in lines[0]
    assert lines[5].split() == ["all", "1,000,000", "~0", "~0", "~0", "~0", "~1.0M", "~0"]


def test_the_histogram_keeps_its_room_whatever_it_shows() -> None:
    none = Ages(AGE_BOUNDS, (0,) * 6, (), 0, 0, 0)
    many = Ages(AGE_BOUNDS, (40, 0, 0, 0, 0, 0), tuple(SourceAges(f"s{n}", 1, (1, 0, 0, 0, 0, 0)) for n in range(12)), 40, 40, 40)
    assert len(histogram(none)) == len(histogram(many)) == HISTOGRAM_LINES
    assert histogram(none)[1] == "   nothing waits"
    assert "   36 more sources" in histogram(many)
    assert histogram(None) == []
