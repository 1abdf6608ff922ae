"""A list is heard of while it is made: how far it has come, how many match, and the first of them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from spooltop.backends.directory.listing.listing import NamedBox, NameListing
from spooltop.backends.directory.listing.order import Order
from spooltop.backends.directory.listing.preview import AT_ONCE
from spooltop.backends.directory.scan.packed_names import PackedNames
from spooltop.model.protocols import ListProgress, ListQuery, Sort
from spooltop.model.row import Row
from spooltop.model.vocabulary import Box

COUNT = 40_000
NAMES = [
    f"{1795220920000000 + 7919 * n % COUNT:016d}.P1R{n:016x}.vm" + (f",s=s{n % 7},n={n % 2}" if n % 3 else "")
    for n in range(COUNT)
]


@dataclass
class Hearing:
    """Hears of it at each question."""

    reports: list[tuple[float, list[str], int]] = field(default_factory=list)
    asked = 0
    deaf: bool = False

    def due(self) -> bool:
        self.asked += 1
        return not self.deaf

    def advanced(self, share: float, rows: Sequence[Row], count: int) -> None:
        self.reports.append((share, [row.name for row in rows], count))


def listed(query: ListQuery, progress: ListProgress | None, known: Order | None = None) -> NameListing:
    packed = PackedNames()
    packed.extend([name.encode() for name in NAMES])
    found = os.stat(__file__)
    return NameListing(query, NamedBox(packed, lambda raw: found), now=0.0, progress=progress, known=known)


@pytest.mark.parametrize("column", ["age", "size", "tries", "source", "name"])
@pytest.mark.parametrize("filter", ["", "src:s3", "R00000000000001"])
def test_it_is_heard_how_far_a_list_has_come(column: str, filter: str) -> None:
    hearing = Hearing()
    query = ListQuery(Box.NEW, filter, Sort(column))
    made = listed(query, hearing)
    shares = [share for share, _, _ in hearing.reports]
    assert shares == sorted(shares) and len(set(shares)) > 10
    assert 0.0 <= shares[0] < 0.05 and 0.49 < shares[-1] <= 1.0
    plain = listed(query, None)
    assert list(made.keys()) == list(plain.keys())


@pytest.mark.parametrize("descending", [True, False])
@pytest.mark.parametrize("filter", ["src:s3", "!src:s3 tries:1", "tries:>=0", "age:>1s"])
def test_what_matches_so_far_is_heard_of_with_the_first_of_it(filter: str, descending: bool) -> None:
    query = ListQuery(Box.NEW, filter, Sort("age", descending))
    hearing = Hearing()
    made = listed(query, hearing, known=listed(ListQuery(Box.NEW), None).order)
    keys = list(made.keys())
    final = [key[1] for key in keys if isinstance(key, tuple)]
    standing = set(final)
    counts = [count for _, _, count in hearing.reports]
    assert counts == sorted(counts) and counts[-1] <= len(final)
    assert not final or len(set(counts)) > 10
    for _, names, count in hearing.reports:
        assert len(names) == min(count, AT_ONCE) and standing.issuperset(names)
        assert names == sorted(names, reverse=not descending)
    assert len(final) - counts[-1] <= 256  # but for the last of the chunks
    assert len(set(final[:AT_ONCE]) & set(hearing.reports[-1][1])) >= min(len(final), AT_ONCE) - 10


def test_nothing_is_made_for_who_does_not_want_to_hear_of_it_yet() -> None:
    hearing = Hearing(deaf=True)
    listed(ListQuery(Box.NEW, "src:s3", Sort("size")), hearing)
    assert hearing.reports == [] and hearing.asked > 100
