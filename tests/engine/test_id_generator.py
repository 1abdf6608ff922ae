"""The time in an id: in order while a clock is adjusted, right again when one that was wrong is set."""

from __future__ import annotations

import os
import time

from spooltop.engine.names import parse
from spooltop.engine.producing.id_generator import IdGenerator


def test_ids_are_in_order_while_the_clock_stands_or_is_adjusted() -> None:
    ids, now = IdGenerator("vm"), iter([5e9, 5e9, 5e9 - 0.5, 5e9 - 1.9, 5e9 + 1])
    made = [ids.next(lambda: next(now)) for _ in range(5)]
    assert made == sorted(made) and len(set(made)) == 5


def test_a_clock_that_was_set_right_gives_the_right_time_again() -> None:
    ids, now = IdGenerator("vm"), iter([7e9, 6e9])
    times = [parse(ids.next(lambda: next(now)), claimed=False).enqueued_us for _ in range(2)]
    assert times == [7_000_000_000_000_000, 6_000_000_000_000_000]


def test_parent_and_child_share_no_random_bits() -> None:
    ids = IdGenerator("vm")
    bits = {ids.next(time.time).split("R")[1] for _ in range(3)}
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        mine = IdGenerator("vm")  # another than the parent's, of which nobody tells it anything
        os.write(write, " ".join(mine.next(time.time).split("R")[1] for _ in range(200)).encode())
        os._exit(0)
    os.close(write)
    with open(read, "rb") as output:
        of_child = set(output.read().decode().split())
    assert os.waitpid(child, 0)[1] == 0
    of_parent = {ids.next(time.time).split("R")[1] for _ in range(200)}
    assert len(bits | of_parent) == 203 and len(of_child) == 200 and not of_child & (bits | of_parent)
