"""A queue on a server: cursors with a lag, consumers by their names, words that are true of it."""

from __future__ import annotations

from dataclasses import replace

from spooltop.model.cursors.state import Cursor, CursorSection
from spooltop.model.look.consumers import ConsumerList, ConsumerRow
from spooltop.model.protocols import Sort
from spooltop.model.row import Row
from spooltop.model.vocabulary import Box, Owner, Verdict
from spooltop.observe.rules.messages import _poison_words
from spooltop.tui.draw.columns import owner_text, short_id
from spooltop.tui.draw.consumers import columns_of, consumer_lines, consumer_name, ranked
from spooltop.tui.draw.elements.spans import line_text
from spooltop.tui.draw.operating.set_cursor import set_cursor_lines

from ...snapshots import values

NOW = values.NOW
BOB = Owner("far", 77, name="far-77-abcdef")


def _group(name: str, behind: int, *, bound: bool = False) -> Cursor:
    moves = tuple(CursorSection(NOW - at, f"179541416570{at}-0", 0, shown=f"179541416570{at}-0") for at in range(3))
    return Cursor(
        name, "1795414165700-0", "1795414165700-0", "advancing", "every 1s, last 0s ago", "redis://h#jobs", True, NOW - 1,
        every=1.0, history=moves, in_file=False, behind=behind, behind_is_bound=bound,
    )  # fmt: skip


GROUPS = (_group("workers", 0), _group("archive", 1204, bound=True))
SNAPSHOT = replace(values.trouble(), cursors=GROUPS)


def _words(lines: list) -> list[str]:
    return [line_text(line).rstrip() for line in lines]


def test_the_form_for_a_group_says_what_its_cursor_is() -> None:
    text = " ".join(" ".join(_words(set_cursor_lines(GROUPS[0], "0", None, 80, 20))).replace("│", " ").split())
    assert "0 delivers every entry again" in text and "file" not in text and "lock" not in text


def test_a_name_with_the_pid_in_it_stands_alone() -> None:
    assert owner_text(BOB) == "far-77-abcdef"
    assert owner_text(Owner("far", 77, name="bob")) == "77 bob"
    assert owner_text(Owner("vm", 5200, command="python3 /opt/worker.py")) == "5200 worker.py"
    assert consumer_name(ConsumerRow(Verdict.ALIVE, "", BOB)) == "far-77-abcdef"


def test_ids_of_entries_fill_their_column() -> None:
    assert [short_id(f"1795414165720-{n}", 11) for n in (1, 2)] == ["…14165720-1", "…14165720-2"]


def test_consumers_of_a_server_have_no_columns_of_processes() -> None:
    asked = ConsumerRow(Verdict.ALIVE, "its lease runs", BOB, claims=1, asked_at=NOW - 3)
    never = ConsumerRow(Verdict.UNKNOWN, "no lease", Owner(name="bob"))
    found = ConsumerList((never, asked), NOW, measured=False)
    titles = [column.title for column in columns_of(found)]
    assert titles == ["verdict", "pid", "consumer", "host", "claims", "held", "asked", "evidence"]
    assert [one.owner.name for one in ranked(found.consumers, Sort("asked", True))] == ["far-77-abcdef", "bob"]
    text = "\n".join(_words(consumer_lines(SNAPSHOT, found, (asked, never), 80, 20, now=NOW)))
    assert "its lease runs" in text and "for a message 3s ago" in text and "rates" not in text


def test_deliveries_are_no_deaths() -> None:
    def row(tries: int, owner: Owner) -> Row:
        return Row(("cur", str(tries)), Box.CUR, "1-1", "1-1", 1, NOW, NOW, attempt=tries, verdict=Verdict.DEAD, owner=owner)

    one, two = row(4, BOB), row(5, BOB)
    assert _poison_words([one], one, 3) == "1-1 was delivered 4 times, and its last consumer died"
    assert _poison_words([one, two], two, 3) == "2 messages of dead consumers were delivered 3 times or more, one 5 times"
    assert _poison_words([row(4, Owner("vm", 5))], row(4, Owner("vm", 5)), 3) == "4 consumers died while processing 1-1"
