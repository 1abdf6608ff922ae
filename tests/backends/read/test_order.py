"""The order of a box by each column: the same for many as for few, for what a filter takes as for all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from spooltop.backends.directory.listing.order import Order, Values, by_column
from spooltop.backends.directory.reader import DirectoryReader
from spooltop.backends.directory.scan.packed_names import PackedNames
from spooltop.backends.directory.scan.scan import quick_enqueued_us
from spooltop.model.protocols import ListQuery, Sort
from spooltop.model.vocabulary import Box

ATTRIBUTES = ("", ",s=email", ",s=bot,n=2", ",s=email,n=11")
NAMES = [
    f"{1795220920000000 + 7919 * n % 4001:016d}.P{n % 9 + 1}R{n:016x}.vm{ATTRIBUTES[n % len(ATTRIBUTES)]}" for n in range(4000)
]
STRANGE = ["late", "ü,s=email,n=3", "a%20b,s=bot,n=0", "1795220920000007.1.vm"]
SIZES = {name: len(name) * 31 % 17 for name in NAMES + STRANGE if name != "late"}
VALUES = Values(quick_enqueued_us, {"late": 1795220920000500}, SIZES.get)
COLUMNS = ["age", "held", "size", "source", "tries", "name"]


def packed(names: list[str]) -> PackedNames:
    found = PackedNames()
    for name in names:
        found.append(name)
    return found


def expected(names: list[str], column: str) -> list[str]:
    """Row by row, as a list of few would be: what is not known comes last."""
    if column == "name":
        return sorted(names)
    values = {name: VALUES.of(column, name) for name in names}
    known = [name for name in names if values[name] is not None]
    return sorted(known, key=lambda name: values[name]) + sorted(set(names) - set(known))  # type: ignore[arg-type, return-value]


def order_of(names: list[str], column: str, mask: bytearray | None = None) -> Order:
    found = by_column(column, packed(names), mask, VALUES, lambda: False, texts_at_once=900)
    assert found is not None
    return found


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("names", [NAMES, NAMES + STRANGE], ids=["own", "mixed"])
def test_all_are_in_order(column: str, names: list[str]) -> None:
    assert [names[place] for place in order_of(names, column).places(reverse=False)] == expected(names, column)


@pytest.mark.parametrize("column", COLUMNS)
def test_what_a_filter_takes_is_in_the_same_order(column: str) -> None:
    names = NAMES + STRANGE
    mask = bytearray(n % 7 < 3 or n < 1024 for n in range(len(names)))
    taken = [name for name, take in zip(names, mask, strict=True) if take]
    assert [names[place] for place in order_of(names, column, mask).places(reverse=False)] == expected(taken, column)
    assert [names[place] for place in order_of(names, column).only(mask).places(reverse=False)] == expected(taken, column)


@pytest.mark.parametrize("column", COLUMNS)
def test_the_other_way_round_the_unknown_stay_last(column: str) -> None:
    names = NAMES + STRANGE
    order = order_of(names, column)
    places = order.places(reverse=True)
    assert list(places) == [*reversed(order.known), *order.unknown]
    assert list(order.places(reverse=False)) == [*order.known, *order.unknown]


@pytest.mark.parametrize("column", COLUMNS)
def test_a_key_ends_it(column: str) -> None:
    assert by_column(column, packed(NAMES), None, VALUES, lambda: True) is None


@pytest.mark.parametrize("sort", [Sort("age"), Sort("age", False), Sort("tries"), Sort("size", False)])
def test_the_order_that_is_kept_is_of_what_is_there(
    spool: Path, opened: Callable[..., DirectoryReader], clock: Callable[[], float], sort: Sort
) -> None:
    for size, name in enumerate(NAMES[:40]):
        (spool / "new" / name).write_bytes(b"x" * (size * 7 % 11))
    reader = opened(spool, clock=clock)

    def listed(filter: str) -> list[str]:
        return [row.name for row in reader.listing(ListQuery(Box.NEW, filter, sort)).window(0, 50)]

    reader.see()
    whole = listed("")
    assert len(whole) == 40
    assert listed("src:email") == [name for name in whole if ",s=email" in name]
    for name in whole[10:30]:
        (spool / "new" / name).unlink()
    reader.see(rescan=True)
    assert listed("") == whole[:10] + whole[30:]
    assert listed("src:email") == [name for name in whole[:10] + whole[30:] if ",s=email" in name]
