"""What a look counts in the boxes: their oldest, their bytes, the ages in ``new``."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spooltop.model.snapshot import Ages, BoxState
from spooltop.model.vocabulary import Box
from tests.clock import NOW

from .conftest import Opened


def test_oldest_is_by_the_time_in_the_name_else_by_mtime_and_bytes_of_many_are_estimated(
    spool: Path, opened: Opened, clock: Callable[[], float]
) -> None:
    def new() -> BoxState:
        return opened(spool, clock=clock).look().observation.boxes[Box.NEW]

    box = spool / "new"
    for number in range(300):
        (box / f"{1795220925446548 + number}.P9155R{number:016x}.vm").write_bytes(b"1234")
        if number in (9, 299):
            state = new()
            assert (state.count, state.bytes, state.bytes_estimated) == (number + 1, 4 * (number + 1), number > 9)
    assert new().oldest_at == 1_795_220_925.446548
    for name in ("1795220920446548.9155.vm", "1795220919.M781490P9155Q1.vm", "report.txt"):
        (box / name).touch()
    assert new().oldest_at == 1_795_220_919.78149
    os.utime(box / "report.txt", (1_000, 1_000))
    assert new().oldest_at == 1_000


# Ages


def name(age: float, n: int, source: str | None = None) -> str:
    return f"{int((NOW - age) * 1e6)}.P1R{n:016x}.vm" + (f",s={source}" if source else "")


@pytest.fixture
def ages(spool: Path, opened: Opened, clock: Callable[[], float]) -> Callable[..., Ages]:
    """Looks at the ages of messages with these names in ``new``."""

    def look(*names: str) -> Ages:
        for path in (spool / "new").iterdir():
            path.unlink()
        for one in names:
            (spool / "new" / one).touch()
            os.utime(spool / "new" / one, (NOW - 30, NOW - 30))
        found = opened(spool, clock=clock).look().observation.ages
        assert found is not None
        return found

    return look


def test_each_is_counted_once_in_its_class_and_under_its_source(ages: Callable[..., Ages]) -> None:
    found = ages(
        name(3, 1, "bot"), name(10, 2, "bot"), name(59, 3, "bot"), name(700, 4, "mail"), name(90_000, 5), name(-5, 6, "bot"),
        name(61, 7, "a%2Cb"), "order-1",
    )  # fmt: skip
    assert found.counts == (2, 3, 1, 1, 0, 1)
    assert [(one.source, one.total, one.counts) for one in found.by_source] == [
        ("bot", 4, (2, 2, 0, 0, 0, 0)), (None, 2, (0, 1, 0, 0, 0, 1)), ("a,b", 1, (0, 0, 1, 0, 0, 0)),
        ("mail", 1, (0, 0, 0, 1, 0, 0)),
    ]  # fmt: skip
    assert (found.looked_at, found.of, found.undated) == (8, 8, 0)


def test_what_is_of_the_future_is_young_and_told(ages: Callable[..., Ages]) -> None:
    found = ages(name(700, 1), name(-5, 2), name(-500, 3), name(-7200, 4))
    assert (found.counts, found.ahead, found.latest_at) == ((3, 0, 0, 1, 0, 0), 2, NOW + 7200)
    quiet = ages(name(700, 1), name(-5, 2))
    assert (quiet.ahead, quiet.latest_at) == (0, None)


def test_a_large_box_is_sampled_evenly_and_its_largest_sources_are_listed(ages: Callable[..., Ages]) -> None:
    found = ages(*(name(5 if n % 4 else 5_000, n, f"s{n % 40 if n % 3 else 7}") for n in range(10_001)))
    assert found.of == 10_001 and found.looked_at < 5_100
    assert 0.22 < found.counts[4] / found.looked_at < 0.28, "what comes every fourth time is a fourth of the sample"
    assert found.sources == 40 and len(found.by_source) == 12 and found.by_source[0].source == "s7"


def test_between_two_scans_the_ages_move_on_with_the_clock(spool: Path, opened: Opened, clock: Any) -> None:
    (spool / "new" / name(5, 1)).touch()
    control = opened(spool, clock=clock)
    for counts in ((1, 0, 0, 0, 0, 0), (0, 0, 1, 0, 0, 0)):
        found = control.look().observation.ages
        assert found is not None and found.counts == counts
        clock.now += 60
    (spool / "new").rename(spool / "gone")
    assert control.look().observation.ages is None
