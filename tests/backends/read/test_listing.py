"""Lists have a length and give windows; order, filter and selection; nothing is read that is not shown."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from spooltop.control import Control
from spooltop.errors import UsageError
from spooltop.model.backend import ListQuery, Sort
from spooltop.model.plan import Selection
from spooltop.model.query import parse
from spooltop.model.vocabulary import Box, Row, Verdict

from .conftest import Opened
from .table import FakeProcesses

ATTRIBUTES = ("", ",s=email,n=1", ",s=bot,n=2", ",s=email,n=11")
MANY = [
    *(f"{1795220920 + 7919 * n % 1000}000000.P{n % 5}R{n:016x}.vm{ATTRIBUTES[n % 4]}" for n in range(600)),
    "1795221420000500.7.vm", "late", "order-17,s=email,n=3", "ü,s=email,n=3", "a%20b,s=bot,n=0", "back\\slash",
    "x1795220920000000.1", "17952209200000001.2",
]  # fmt: skip


@pytest.fixture
def many(spool: Path, opened: Opened, clock: Callable[[], float]) -> Control:
    """Names of all forms, with the times of their files within those in the names."""
    for place, name in enumerate(MANY):
        (spool / "new" / name).write_bytes(b"x" * (place * 31 % 17))
        os.utime(spool / "new" / name, (1795220920 + place, 1795220920 + place))
    control = opened(spool, clock=clock)
    control.look()
    return control


def rows_of(control: Control, **query: Any) -> list[Row]:
    listing = control.listing(ListQuery(**{"box": Box.NEW, **query}))
    return listing.window(0, len(listing))


def names_of(control: Control, **query: Any) -> list[str]:
    return [row.name for row in rows_of(control, **query)]


@pytest.mark.parametrize(
    ("column", "member"),
    [("age", "enqueued_at"), ("size", "size"), ("source", "source"), ("tries", "attempt"), ("name", "name")],
)
@pytest.mark.parametrize("filter", ["", "src:email", "!0000"])
@pytest.mark.parametrize("descending", [False, True])
def test_all_are_in_order_by_each_column_and_what_is_not_known_comes_last(
    many: Control, column: str, member: str, filter: str, descending: bool
) -> None:
    rows = rows_of(many, sort=Sort(column, descending), filter=filter)
    assert sorted(row.name for row in rows) == sorted(names_of(many, filter=filter)) != []
    values = [getattr(row, member) for row in rows]
    known = [value for value in values if value is not None]
    oldest_first = descending if column == "age" else not descending
    assert known == sorted(known, reverse=not oldest_first) and values == [*known, *[None] * (len(values) - len(known))]


FILTERS = (
    "email", "!email", "0000 !P3", "src:email", "!src:email vm", "zzzz", "src:email P4", "tries:1", "!tries:>0", "tries:>=0",
    "pid:7", "!verdict:dead", "age:>25m", "age:<=20m src:email", "!age:>=20m !P3", "age:>1d",
    "age:<=1030s", "age:>=1030s src:email", "!age:<1030s",  # one was put 1,030 s ago
)  # fmt: skip


@pytest.mark.parametrize("filter", FILTERS)
@pytest.mark.parametrize("older_than", [None, 1_500.0])
def test_a_filter_takes_the_rows_that_match(many: Control, filter: str, older_than: float | None) -> None:
    selection = None if older_than is None else Selection(older_than=older_than)
    wanted, now = parse(filter), many.now()
    older = [row for row in rows_of(many) if selection is None or selection.matcher(now)(row)]
    matching = [row.name for row in older if wanted.match(row, now)]
    assert sorted(names_of(many, filter=filter, selection=selection)) == sorted(matching)


@pytest.mark.parametrize("filter", ["", "email"])
def test_what_is_listed_is_found_by_its_key(many: Control, filter: str) -> None:
    listing = many.listing(ListQuery(Box.NEW, filter=filter))
    names = names_of(many, filter=filter)
    assert list(listing.keys()) == [("new", name) for name in names]
    assert [listing.find(("new", name)) for name in names[:50]] == list(range(50))
    assert listing.find(("new", MANY[0])) == (None if filter else names.index(MANY[0]))
    for key in (("new", "gone"), ("cur", MANY[1]), 7):
        assert listing.find(key) is None


@pytest.mark.parametrize("sort", [Sort("age"), Sort("age", False), Sort("tries"), Sort("size", False)])
def test_an_order_that_is_kept_is_of_what_is_there(many: Control, spool: Path, sort: Sort) -> None:
    whole, of_email = (names_of(many, sort=sort, filter=filter) for filter in ("", "src:email"))
    for name in whole[10:30]:
        (spool / "new" / name).unlink()
    many.look(rescan=True)
    left = whole[:10] + whole[30:]
    assert names_of(many, sort=sort) == left
    assert names_of(many, sort=sort, filter="src:email") == [name for name in of_email if name in left]


def test_it_is_heard_how_far_a_list_has_come_and_what_matches_so_far(many: Control) -> None:
    reports: list[tuple[float, set[str], int]] = []

    def advanced(share: float, rows: Sequence[Row], count: int) -> None:
        reports.append((share, {row.name for row in rows}, count))

    progress: Any = SimpleNamespace(due=lambda: True, advanced=advanced)
    listing = many.listing(ListQuery(Box.NEW, "src:email"), progress=progress)
    names = [row.name for row in listing.window(0, len(listing))]
    shares, firsts, counts = zip(*reports, strict=True)
    assert list(shares) == sorted(shares) and 0 <= shares[0] < shares[-1] <= 1
    assert list(counts) == sorted(counts) and counts[-1] <= len(names)
    assert set().union(*firsts) <= set(names)
    assert not many.listing(ListQuery(Box.NEW, sort=Sort("size")), lambda: True).complete  # a key ended it


def test_windows_of_rows_that_say_what_their_names_say(many: Control, spool: Path) -> None:
    listing = many.listing(ListQuery(Box.NEW, filter="order", sort=Sort("name", False)))
    (row,) = listing.window(0, 9)
    assert (row.id, row.source, row.attempt, row.key, row.note) == ("order-17", "email", 3, ("new", "order-17,s=email,n=3"), "")
    assert row.enqueued_at == 1795220920 + MANY.index(row.name) and listing.window(7, 9) == []
    (spool / "new" / row.name).unlink()
    (row,) = listing.window(0, 9)  # it keeps its place
    assert (row.name, row.size, row.note) == ("order-17,s=email,n=3", None, "gone since")
    with pytest.raises(UsageError):
        many.listing(ListQuery(Box.NEW, filter="age:>soon"))


@pytest.mark.parametrize(
    ("query", "ids"),
    [
        ({"sort": Sort("held", True)}, ["own", "a"]), ({"sort": Sort("held", False)}, ["a", "own"]),
        ({"sort": Sort("verdict")}, ["a", "own"]), ({"sort": Sort("verdict", False)}, ["own", "a"]), ({"filter": "pid:7"}, ["a"]),
        ({"selection": Selection(verdict=Verdict.UNKNOWN)}, ["own"]),
    ],
)  # fmt: skip
def test_judged_rows_are_ordered_and_chosen_by_their_verdicts(
    spool: Path, opened: Opened, query: dict[str, Any], ids: list[str]
) -> None:
    for name in ("a:2,P7", f"own,n=0,c={'ab' * 16}.1795220920443125:2,P8"):
        (spool / "cur" / name).touch()
    control = opened(spool, processes=FakeProcesses())
    control.look()
    assert [row.id for row in rows_of(control, box=Box.CUR, **query)] == ids


@pytest.mark.parametrize(("many_in", "few_in"), [(Box.CUR, Box.TMP), (Box.TMP, Box.CUR)])
def test_a_list_is_complete_where_all_of_its_own_box_was_judged(spool: Path, opened: Opened, many_in: Box, few_in: Box) -> None:
    for box, count in ((many_in, 3), (few_in, 1)):
        for number in range(count):
            (spool / box / f"job{number}:2,P4242").touch()
    control = opened(spool, judged_at_most=1)
    assert not control.listing(ListQuery(few_in)).complete  # before the first look
    assert not control.look().observation.judged_all
    assert control.listing(ListQuery(few_in)).complete and not control.listing(ListQuery(many_in)).complete
