"""Lists have a length and give windows; order, filter and selection; nothing is read that is not shown."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spooltop.backends.directory.listing.listing import NamedBox, NameListing
from spooltop.backends.directory.listing.sorting import ordered
from spooltop.backends.directory.reader import DirectoryReader
from spooltop.backends.directory.scan.packed_names import PackedNames
from spooltop.backends.directory.storage.rows import new_row
from spooltop.backends.row_listing import RowListing
from spooltop.errors import UsageError
from spooltop.model.filters.query import parse
from spooltop.model.filters.selection import Selection
from spooltop.model.protocols import Listing, ListQuery, Sort
from spooltop.model.row import Row
from spooltop.model.vocabulary import Box, Owner, Verdict

Opened = Callable[..., DirectoryReader]
NAMES = ["1795220920000001.1.vm", "1795220920000002.1.vm", "1795220920000003.1.vm,s=x", "a,s=email,n=2", "late.txt"]


@pytest.fixture
def reader(spool: Path, opened: Opened, clock: Callable[[], float]) -> DirectoryReader:
    for size, name in enumerate(NAMES):
        (spool / "new" / name).write_bytes(b"x" * (10 - size))
    os.utime(spool / "new" / "a,s=email,n=2", (5, 5))
    reader = opened(spool, clock=clock)
    reader.see()
    return reader


def shown(listing: Listing) -> list[str]:
    return [row.name for row in listing.window(0, len(listing))]


@pytest.mark.parametrize(
    ("sort", "first", "last"),
    [
        (Sort("age", True), "a,s=email,n=2", "late.txt"),
        (Sort("age", False), "late.txt", "a,s=email,n=2"),
        (Sort("size", True), NAMES[0], NAMES[-1]),
        (Sort("size", False), NAMES[-1], NAMES[0]),
        (Sort("name", False), NAMES[0], "late.txt"),
        (Sort("source", False), "a,s=email,n=2", "late.txt"),
        (Sort("tries", True), "a,s=email,n=2", "late.txt"),
    ],
)
def test_order(reader: DirectoryReader, sort: Sort, first: str, last: str) -> None:
    listing = reader.listing(ListQuery(Box.NEW, sort=sort))
    names = shown(listing)
    assert (len(listing), names[0], names[-1]) == (5, first, last)
    assert sorted(names) == sorted(NAMES)


def test_rows_say_what_the_names_say(reader: DirectoryReader) -> None:
    (row,) = [row for row in reader.listing(ListQuery(Box.NEW)).window(0, 5) if row.source == "email"]
    assert (row.id, row.attempt, row.size, row.key) == ("a", 2, 7, ("new", "a,s=email,n=2"))
    assert row.enqueued_at == 5.0


def test_window_is_cut_at_the_end(reader: DirectoryReader) -> None:
    listing = reader.listing(ListQuery(Box.NEW))
    assert len(listing.window(3, 100)) == 2
    assert listing.window(7, 9) == []


def test_find_and_keys_agree(reader: DirectoryReader) -> None:
    listing = reader.listing(ListQuery(Box.NEW, sort=Sort("name", True)))
    assert list(map(listing.find, listing.keys())) == [0, 1, 2, 3, 4]
    assert listing.find(("new", "gone")) is None
    assert listing.find(("cur", NAMES[0])) is None
    assert listing.find(7) is None


def test_a_row_that_has_gone_keeps_its_place(reader: DirectoryReader, spool: Path) -> None:
    listing = reader.listing(ListQuery(Box.NEW, sort=Sort("name", False)))
    (spool / "new" / NAMES[1]).unlink()
    rows = listing.window(0, 5)
    assert [row.note for row in rows] == ["", "gone since", "", "", ""]
    assert (rows[1].name, rows[1].size) == (NAMES[1], None)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("late", ["late.txt"]),
        ("src:email", ["a,s=email,n=2"]),
        ("!vm", ["a,s=email,n=2", "late.txt"]),
        ("tries:2", ["a,s=email,n=2"]),
    ],
)
def test_filter(reader: DirectoryReader, text: str, names: list[str]) -> None:
    listing = reader.listing(ListQuery(Box.NEW, filter=text, sort=Sort("age", True)))
    assert shown(listing) == names


def test_filter_by_age_looks_at_the_files(spool: Path, opened: Opened, clock: Callable[[], float]) -> None:
    (spool / "new" / "old").touch()
    os.utime(spool / "new" / "old", (clock() - 900, clock() - 900))
    (spool / "new" / "fresh").touch()
    os.utime(spool / "new" / "fresh", (clock() - 5, clock() - 5))
    reader = opened(spool, clock=clock)
    reader.see()
    assert shown(reader.listing(ListQuery(Box.NEW, filter="age:>10m"))) == ["old"]


def test_a_filter_that_makes_no_sense(reader: DirectoryReader) -> None:
    with pytest.raises(UsageError):
        reader.listing(ListQuery(Box.NEW, filter="age:>soon"))


@pytest.mark.parametrize(
    ("selection", "count"),
    [
        (Selection(ids=("a", "late.txt", "nowhere")), 2),
        (Selection(keys=(("new", NAMES[0]),)), 1),
        (Selection(source="email"), 1),
        (Selection(older_than=1_000), 3),
        (Selection(everything=True), 5),
        (Selection(box=Box.CUR, everything=True), 0),
        (Selection(filter="late"), 1),
    ],
)
def test_selection(reader: DirectoryReader, selection: Selection, count: int) -> None:
    assert len(reader.listing(ListQuery(Box.NEW, selection=selection))) == count


def test_cancelled(reader: DirectoryReader) -> None:
    listing = reader.listing(ListQuery(Box.NEW, sort=Sort("size")), lambda: True)
    assert not listing.complete


def test_before_the_first_look(spool: Path, opened: Opened) -> None:
    listing = opened(spool).listing(ListQuery(Box.NEW))
    assert (len(listing), listing.complete) == (0, False)


def row(name: str, verdict: Verdict | None, held: float | None, pid: int = 1) -> Row:
    return Row(("cur", name), Box.CUR, name, name, in_box_since=held, verdict=verdict, owner=Owner(pid=pid))


def test_judged_rows_in_order_and_the_unknown_last() -> None:
    rows = [row("a", Verdict.ALIVE, 5.0), row("b", Verdict.DEAD, 3.0, 7), row("c", None, None)]

    def listed(query: ListQuery) -> list[str]:
        return shown(RowListing(query, rows, now=10.0, complete=True, generation=1))

    assert listed(ListQuery(Box.CUR, sort=Sort("held", True))) == ["b", "a", "c"]
    assert listed(ListQuery(Box.CUR, sort=Sort("held", False))) == ["a", "b", "c"]
    assert listed(ListQuery(Box.CUR, sort=Sort("verdict", True))) == ["b", "a", "c"]
    assert listed(ListQuery(Box.CUR, filter="pid:7")) == ["b"]
    assert listed(ListQuery(Box.CUR, selection=Selection(verdict=Verdict.DEAD))) == ["b"]


class Rows(NameListing):
    """A list over names that says whether a row was made for its filter."""

    made = 0

    @classmethod
    def of(cls, names: list[str], filter: str, sort: Sort = Sort()) -> Rows:  # noqa: B008  frozen
        packed = PackedNames()
        for name in names:
            packed.append(name)

        def row(raw: str, found: os.stat_result | None) -> Row:
            cls.made += 1
            return new_row(raw, found)

        cls.made = 0
        return cls(ListQuery(Box.NEW, filter, sort), NamedBox(packed, lambda raw: None, row=row), now=0.0)


MANY = [f"{1795220920000000 + 7919 * n % 1000:016d}.{n % 5}.vm" + (",s=email,n=1" if n % 3 == 0 else "") for n in range(600)]
OWN = [f"{name[:16]}.P1R{place:016x}.vm{',s=email' * (place % 3 == 0)},n=1" for place, name in enumerate(MANY)]
"""As the engine names them."""
FORMS = 2
"""Number of forms in ``MANY``: with a source and a try, and without."""
LOOKED = 1795220920.0005
OF_AGE = ["age:>0.0004s", "age:<=0.0001s src:email", "!age:>=0.0002s !.3.", "age:>1d"]
EVERY = ["tries:1", "!tries:>0", "pid:7", "!verdict:dead", *OF_AGE]


@pytest.mark.parametrize("filter", EVERY)
@pytest.mark.parametrize("older_than", [None, 0.0003])
@pytest.mark.parametrize("tries", [0, 2])
@pytest.mark.parametrize("all_names", [[*MANY, "a%20b,s=email,n=0", "late"], OWN], ids=["mixed", "own"])
def test_names_decide_what_rows_would(filter: str, older_than: float | None, tries: int, all_names: list[str]) -> None:
    names = [name.replace(",n=1", f",n={tries}") for name in all_names]
    packed = PackedNames()
    packed.extend([name.encode() for name in names])
    selection = None if older_than is None else Selection(older_than=older_than)
    looked = os.stat(__file__)
    listing = NameListing(ListQuery(Box.NEW, filter, selection=selection), NamedBox(packed, lambda raw: looked), now=LOOKED)
    wanted = parse(filter)
    rows = [replace(new_row(name, looked), note="") for name in names]
    matching = [row.name for row in rows if wanted.match(row, LOOKED) and (selection is None or selection.matches(row, LOOKED))]
    assert sorted(row.name for row in listing.window(0, len(listing))) == sorted(matching)


@pytest.mark.parametrize(("many", "few"), [(Box.CUR, Box.TMP), (Box.TMP, Box.CUR)])
def test_a_list_is_complete_where_all_of_its_own_box_was_judged(spool: Path, opened: Opened, many: Box, few: Box) -> None:
    for box, count in ((many, 3), (few, 1)):
        for number in range(count):
            (spool / box / f"job{number}:2,P4242").touch()
    reader = opened(spool, judged_at_most=1)
    reader.see()
    assert reader.listing(ListQuery(few)).complete and not reader.listing(ListQuery(many)).complete


@given(st.lists(st.integers(0, 50), min_size=1))
@settings(max_examples=10, deadline=None)
def test_many_are_ordered_as_few_are(numbers: list[int]) -> None:
    keys = [float(number * 7919 % 1009) for number in numbers] * (40_000 // len(numbers))
    whole = sorted(range(len(keys)), key=keys.__getitem__)
    assert list(ordered(keys, lambda: False) or ()) == whole
    assert ordered(keys, lambda: True) is None


@pytest.mark.parametrize("filter", ["email", "!email", "92000 !.3.", "src:email", "!src:email vm", "zzzz", "src:email .4."])
@pytest.mark.parametrize("odd", [[], ["a%20b,s=email,n=0", "ü.email", "back\\slash"]])
def test_the_filter_takes_the_same_from_names_as_from_rows(filter: str, odd: list[str]) -> None:
    names = MANY + odd
    listing = Rows.of(names, filter)
    made = Rows.made
    matching = [name for name in names if parse(filter).match(replace(new_row(name, None), note=""), 0.0)]
    assert sorted(row.name for row in listing.window(0, len(listing))) == sorted(matching)
    assert made <= FORMS + 256 * bool(odd)


@pytest.mark.parametrize("filter", ["", "email"])
def test_the_oldest_come_first_and_are_found(filter: str) -> None:
    listing = Rows.of([*MANY, "late"], filter)
    taken = [name for name in MANY if filter in name]
    names = [row.name for row in listing.window(0, len(taken))]
    assert [name[:16] for name in names] == sorted(name[:16] for name in taken)
    assert [listing.find(("new", name)) for name in names[:50]] == list(range(50))
    assert [key for key, _ in zip(listing.keys(), names, strict=False)] == [("new", name) for name in names]
    assert listing.find(("new", MANY[1])) == (None if filter else names.index(MANY[1]))
    assert listing.find(("new", "nobody")) is None


def test_only_a_time_in_front_of_a_name_orders_it() -> None:
    names = ["x1795220920000000.1", "1795220920000009.1", "17952209200000001.2", "ab"]
    listing = Rows.of([f"1795220920000{n:03}.1" for n in range(100, 400)] + names, "")
    assert [row.name for row in listing.window(0, 2)] == ["1795220920000009.1", "1795220920000100.1"]
    assert {row.name for row in listing.window(301, 304)} == {names[0], names[2], names[3]}


@pytest.mark.parametrize(
    ("filtered", "chosen", "timed"),
    [
        ("src:x", None, False), ("age:>1s", None, True), ("", Selection(source="x"), False),
        ("", Selection(older_than=1.0), True), ("", Selection(filter="x"), True), ("src:x", Selection(older_than=1.0), True),
    ],
)  # fmt: skip
def test_a_list_whose_rows_change_with_the_time_says_so(
    reader: DirectoryReader, filtered: str, chosen: Selection | None, timed: bool
) -> None:
    listing = reader.listing(ListQuery(Box.NEW, filter=filtered, selection=chosen))
    assert len(listing) >= 0 and listing.timed is timed
