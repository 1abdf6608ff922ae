"""Ages of waiting messages: complete where that is cheap, else a sample that says so."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from spooltop.backends.directory.scan.age_histogram import AgeCounter
from spooltop.backends.directory.scan.packed_names import PackedNames
from spooltop.backends.directory.scan.scan import BoxScan
from spooltop.engine import Spool
from spooltop.model.look.observation import Ages
from tests.clock import NOW

from .conftest import Opened


def name(age: float, n: int, source: str | None = None) -> str:
    return f"{int((NOW - age) * 1e6)}.P1R{n:016x}.vm" + (f",s={source}" if source else "")


def ages(*names: str, times: dict[str, int] | None = None) -> Ages:
    packed = PackedNames()
    for one in names:
        packed.append(one)
    found = AgeCounter().look(BoxScan(packed, number=1), times or {}, NOW)
    assert found is not None
    return found


def test_each_is_counted_once_in_its_class_and_under_its_source() -> None:
    found = ages(
        name(3, 1, "bot"), name(10, 2, "bot"), name(59, 3, "bot"), name(700, 4, "mail"), name(90_000, 5), name(-5, 6, "bot"),
        name(61, 7, "a%2Cb"),
    )  # fmt: skip
    assert found.counts == (2, 2, 1, 1, 0, 1)
    assert [(one.source, one.total, one.counts) for one in found.by_source] == [
        ("bot", 4, (2, 2, 0, 0, 0, 0)),
        (None, 1, (0, 0, 0, 0, 0, 1)),
        ("a,b", 1, (0, 0, 1, 0, 0, 0)),
        ("mail", 1, (0, 0, 0, 1, 0, 0)),
    ]
    assert (found.looked_at, found.of, found.undated) == (7, 7, 0)


def test_what_is_of_the_future_is_young_and_told() -> None:
    found = ages(name(700, 1), name(-5, 2), name(-500, 3), name(-7200, 4))
    assert found.counts == (3, 0, 0, 1, 0, 0)
    assert (found.ahead, found.latest_at) == (2, NOW + 7200)
    quiet = ages(name(700, 1), name(-5, 2))
    assert (quiet.ahead, quiet.latest_at) == (0, None)


def test_names_without_a_time_have_that_of_their_file_or_none() -> None:
    found = ages("order-1", "order-2", times={"order-1": int((NOW - 30) * 1e6)})
    assert found.counts == (0, 1, 0, 0, 0, 0)
    assert (found.undated, found.by_source[0].total) == (1, 2)


def test_a_large_box_is_sampled_evenly_and_says_so() -> None:
    many = [name(5 if n % 4 else 5_000, n, "bot") for n in range(40_000)]
    found = ages(*many)
    assert found.of == 40_000 and found.looked_at == 5_000
    assert found.counts[0] + found.counts[4] == 5_000
    assert 0.22 < found.counts[4] / found.looked_at < 0.28, "what comes every fourth time is a fourth of the sample"


def test_many_sources_are_counted_and_the_largest_listed() -> None:
    found = ages(*(name(5, n, f"s{n % 40}") for n in range(100)), name(5, 101, "s7"), name(5, 102, "s7"))
    assert found.sources == 40 and len(found.by_source) == 12
    assert found.by_source[0].source == "s7"


def test_between_two_scans_only_the_clock_moves_on() -> None:
    """The names of a scan are read once: a look where nothing changed costs as little at a million as at one."""

    class Counted(PackedNames):
        read = 0

        def __iter__(self) -> Iterator[str]:
            self.read += 1
            return super().__iter__()

    packed = Counted()
    packed.append(name(5, 1))
    counter, scan = AgeCounter(), BoxScan(packed, number=1)
    first, later = counter.look(scan, {}, NOW), counter.look(scan, {}, NOW + 60)
    assert first is not None and first.counts == (1, 0, 0, 0, 0, 0)
    assert later is not None and later.counts == (0, 0, 1, 0, 0, 0)
    assert packed.read == 1


def test_a_box_that_cannot_be_seen_has_no_ages() -> None:
    assert AgeCounter().look(BoxScan(complete=False, error="new is missing", number=1), {}, NOW) is None


def test_a_look_at_a_spool_tells_who_waits_how_long(spool: Path, opened: Opened) -> None:
    made = Spool(str(spool))
    for source in ("email", "bot", "bot"):
        made.put(b"x", source=source)
    found = opened(spool).see().ages
    assert found is not None
    assert [(one.source, one.counts[0]) for one in found.by_source] == [("bot", 2), ("email", 1)]
