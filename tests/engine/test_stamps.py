"""The time in an id: in order while a clock is adjusted, right again when one that was wrong is set."""

from __future__ import annotations

from spooltop.engine.names import parse
from spooltop.engine.stamps import Ids


def test_ids_are_in_order_while_the_clock_stands_or_is_adjusted() -> None:
    ids, now = Ids("vm"), iter([5e9, 5e9, 5e9 - 0.5, 5e9 - 1.9, 5e9 + 1])
    made = [ids.next(lambda: next(now)) for _ in range(5)]
    assert made == sorted(made) and len(set(made)) == 5


def test_a_clock_that_was_set_right_gives_the_right_time_again() -> None:
    ids, now = Ids("vm"), iter([7e9, 6e9])
    times = [parse(ids.next(lambda: next(now)), claimed=False).put_us for _ in range(2)]
    assert times == [7_000_000_000_000_000, 6_000_000_000_000_000]
