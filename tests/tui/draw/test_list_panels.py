"""The panels around the lists, and those of the locks, of a large window."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from spooltop.model.look.locks import Lock, LockHolder
from spooltop.model.look.observation import VerdictCounts
from spooltop.model.look.snapshot import Snapshot
from spooltop.model.row import Row
from spooltop.model.vocabulary import Box, Owner, Verdict
from spooltop.tui.draw.elements.spans import Style, line_text, line_width
from spooltop.tui.draw.panels.age_histogram import HISTOGRAM_LINES
from spooltop.tui.draw.panels.lists import below_list, beside_list, rows_below
from spooltop.tui.draw.panels.locks import lock_panels, wait_lines

from ...snapshots import asked, states, values
from ...snapshots.values import NOW, ZONE

HELD = (Box.HELD, Box.REJECTED, Box.TRASH)


def of_claims(*claims: Row) -> Snapshot:
    whole = values.trouble()
    return replace(whole, observation=replace(whole.observation, claims=claims, counts=VerdictCounts(dead=len(claims))))


@cache
def some_states() -> tuple[Snapshot, ...]:
    return values.trouble(), states.calm(), states.first_seconds()


@pytest.mark.parametrize("box", list(Box))
@pytest.mark.parametrize("window", [(120, 30), (160, 50)])
def test_panels_fill_their_room_whatever_there_is(box: Box, window: tuple[int, int]) -> None:
    rows = rows_below(box, *window)
    for snapshot in some_states():
        if rows:
            below = below_list(snapshot, box, window[0] * 3 // 5, rows, now=NOW)
            assert len(below) == rows and {line_width(line) for line in below} == {window[0] * 3 // 5}
        for row in (None, values.claims()[1]):
            beside = beside_list(row, None, snapshot, box, window[0] * 2 // 5, window[1] - 4, now=NOW, zone=ZONE, roomy=rows > 0)
            assert len(beside) == window[1] - 4 and {line_width(line) for line in beside} == {window[0] * 2 // 5}


def test_the_room_depends_on_the_window_alone() -> None:
    assert [rows_below(box, 119, 60) for box in Box] == [rows_below(box, 200, 29) for box in Box] == [0] * len(Box)
    assert rows_below(None, 200, 60) == 0
    assert rows_below(Box.NEW, 120, 30) == 0 and rows_below(Box.NEW, 120, 40) == HISTOGRAM_LINES + 2
    assert all(0 < rows_below(box, 120, 30) <= 10 for box in (Box.CUR, Box.TMP, *HELD)), "most of the lines are the list's"


def test_a_low_window_has_the_message_alone() -> None:
    row = values.claims()[1]
    lines = beside_list(row, asked.payload(row), values.trouble(), Box.CUR, 48, 18, now=NOW, zone=ZONE)
    assert "┌" not in line_text(lines[0]) and not any("its holder" in line_text(line) for line in lines)


def test_the_holder_is_told_with_its_other_claims() -> None:
    rows = (values.claim(2466, 1), values.claim(60, 2, attempt=4), values.claim(30, 3, 4313))
    lines = beside_list(rows[0], None, of_claims(*rows), Box.CUR, 64, 46, now=NOW, zone=ZONE)
    text = "\n".join(line_text(line) for line in lines[next(i for i, x in enumerate(lines) if "its holder" in line_text(x)) :])
    told = ("process  4312 python3 /opt/memex/worker.py", "user     memex on vm", "DEAD: exited", "claims   2, the others:")
    assert [words for words in told if words not in text] == []
    assert "1m  …" in text and ", attempt 4" in text
    assert any("DEAD" in span.text and span.style is Style.BAD for line in lines for span in line)


def test_a_holder_that_is_not_known_is_said_to_be_so() -> None:
    nobody = replace(values.claims()[1], owner=None)
    lines = beside_list(nobody, None, of_claims(nobody), Box.CUR, 64, 46, now=NOW, zone=ZONE)
    assert any("not known: the message does not name it" in line_text(line) for line in lines)
    bare = replace(values.claims()[1], owner=Owner(pid=77))
    text = "\n".join(line_text(x) for x in beside_list(bare, None, of_claims(bare), Box.CUR, 64, 46, now=NOW, zone=ZONE))
    assert "process  77" in text and "user     ? on ?" in text and "started  not known" in text


def test_consumers_are_counted_dead_ones_first() -> None:
    rows = (*values.claims(), values.claim(10, 5, 5201, Verdict.ALIVE, "running"))
    lines = [line_text(line) for line in below_list(of_claims(*rows), Box.CUR, 96, 16, now=NOW)]
    assert "8 consumers, dead ones first" in lines[0]
    found = [line[2:].split()[:5] for line in lines[2:6]]
    assert [line[0] for line in found] == ["DEAD", "DEAD", "alive", "alive"]
    assert found[3] == ["alive", "5201", "worker.py", "2", "10s"]
    assert any("10m–1h" in line and "2 DEAD" in line for line in lines)
    assert any("worked    0.1s  0.3s  0.6s" in line for line in lines) and any("of 606 done" in line for line in lines)


def test_many_consumers_are_counted_and_never_cut_silently() -> None:
    rows = tuple(values.claim(10 + n, n, 9000 + n) for n in range(40))
    lines = [line_text(line) for line in below_list(of_claims(*rows), Box.CUR, 96, 9, now=NOW)]
    assert any("35 more" in line for line in lines)


def waits(*edges: tuple[str, int, int]) -> Snapshot:
    """Locks by (path, pid of the holder, pid of the waiter)."""
    locks = tuple(
        Lock(path, "flock", (LockHolder(a, f"p{a}.py", "ann", NOW - 70),), (LockHolder(b, f"p{b}.py", "ann", NOW - 12),), "held")
        for path, a, b in edges
    )
    whole = values.trouble()
    return replace(whole, lock_problems={}, observation=replace(whole.observation, locks=locks))


def test_a_chain_of_waiters_is_a_tree_from_the_one_who_holds_all_up() -> None:
    lines = [line_text(line) for line in wait_lines(waits(("/x/b.lock", 2, 3), ("/x/a.lock", 1, 2)), 60, 20, now=NOW)]
    assert lines == [
        " 1 p1.py of ann holds a.lock ≥1m",
        " └ 2 p2.py of ann waits ≥10s",
        "   2 p2.py of ann holds b.lock ≥1m",
        "   └ 3 p3.py of ann waits ≥10s",
    ]


def test_processes_that_wait_for_each_other_are_a_deadlock() -> None:
    lines = wait_lines(waits(("/x/a.lock", 1, 2), ("/x/b.lock", 2, 1)), 60, 20, now=NOW)
    assert line_text(lines[0]).endswith("DEADLOCK") and lines[0][-1].style is Style.BAD
    assert len(lines) == 4, "each lock once"


def test_nobody_waits_and_a_tree_without_room() -> None:
    assert [line_text(x) for x in wait_lines(states.calm(), 60, 5, now=NOW)] == [" nobody waits for a lock"]
    many = waits(*((f"/x/{n}.lock", n, 100 + n) for n in range(20)))
    lines = wait_lines(many, 60, 5, now=NOW)
    assert len(lines) == 5 and line_text(lines[-1]) == "   36 more lines"


@pytest.mark.parametrize("size", [(120, 22), (160, 46)])
def test_the_chosen_lock_is_marked_and_told_in_full(size: tuple[int, int]) -> None:
    lines = lock_panels(values.trouble(), *size, now=NOW, chosen=1)
    texts = [line_text(line) for line in lines]
    assert len(lines) == size[1] and {line_width(line) for line in lines} == {size[0]}
    assert texts[3].startswith("│▌/opt/memex/import.lock") and "3 locks, 1 with problems first" in texts[0]
    told = texts[next(i for i, text in enumerate(texts) if "the chosen lock" in text) :]
    assert any("held by 5304 import.py of memex" in text for text in told)
    assert any("waits   5307 import.py of memex" in text for text in told)
    many = replace(values.trouble(), observation=replace(values.trouble().observation, locks=values.locks() * 30))
    assert any(line_text(line).startswith("│▌") for line in lock_panels(many, *size, now=NOW, chosen=89))
