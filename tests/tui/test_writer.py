"""The writer to a terminal that may stop reading: nothing waits for it, and what it missed is drawn again."""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Iterator

import pytest

from spooltop.tui.terminal.driver import ScreenWriter

PATIENCE = 30.0
FRAME = b"f" * 1000


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """(read, write) ends of a pipe that takes 4,096 bytes before somebody reads."""
    read, write = os.pipe()
    fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 4096)
    yield read, write
    os.close(read)
    os.close(write)


def read_until(fd: int, holds: threading.Event) -> int:
    """Reads until ``holds``; returns the number of bytes."""
    os.set_blocking(fd, False)
    got = 0
    while not holds.is_set():
        try:
            got += len(os.read(fd, 65536))
        except BlockingIOError:
            os.sched_yield()
    return got


def test_what_is_not_read_is_left_out_and_drawn_anew_once_it_is(pipe: tuple[int, int]) -> None:
    again = threading.Event()
    writer = ScreenWriter(pipe[1], again.set, at_most=10_000)
    taken = [writer.put(FRAME) for _ in range(1000)]
    assert 10 <= sum(taken) < 20 and not taken[-1]
    assert not again.is_set()
    assert read_until(pipe[0], again) <= 1000 * sum(taken)
    assert writer.put(b"anew")
    assert writer.end(PATIENCE)


def test_so_many_bytes_may_wait_and_no_more(pipe: tuple[int, int]) -> None:
    os.write(pipe[1], bytes(4096))
    writer = ScreenWriter(pipe[1], lambda: None, at_most=10)
    assert [writer.put(data) for data in (b"123456789", b"0", b"-", b"-")] == [True, True, False, False]
    assert os.read(pipe[0], 4096) == bytes(4096)
    assert writer.end(PATIENCE)
    assert os.read(pipe[0], 4096) == b"1234567890"


def test_after_a_gap_nothing_is_taken_before_all_is_written_though_there_is_room(pipe: tuple[int, int]) -> None:
    """Later output depends on the output that was left out."""
    again = threading.Event()
    writer = ScreenWriter(pipe[1], again.set, at_most=10_000)
    assert writer.put(b"a" * 10_000) and not writer.put(b"left out")
    assert writer.put(b"c" * 8_000, always=True)
    got = bytearray()
    while b"c" not in got:
        got += os.read(pipe[0], 512)
    assert not writer.put(b"too early")
    while got.count(b"c") < 8_000:
        got += os.read(pipe[0], 65_536)
    assert again.wait(PATIENCE)
    assert writer.put(b"anew")
    assert writer.end(PATIENCE)
    assert os.read(pipe[0], 65_536) == b"anew"


def test_it_ends_though_nobody_reads(pipe: tuple[int, int]) -> None:
    os.write(pipe[1], bytes(4096))
    writer = ScreenWriter(pipe[1], lambda: None)
    for _ in range(20):
        writer.put(FRAME)
    assert not writer.end(patience=0.05)


def test_after_what_waited_was_forgotten_as_much_may_wait_as_before(pipe: tuple[int, int]) -> None:
    os.write(pipe[1], bytes(4096))
    writer = ScreenWriter(pipe[1], lambda: None, at_most=3000)
    for _ in range(3):
        while writer.put(FRAME):
            continue
        writer.leave_out()
    assert writer.put(FRAME)
    writer.leave_out()
    writer.put(b"the end", always=True)
    got = bytearray()
    while not got.endswith(b"the end"):
        got += os.read(pipe[0], 65536)
    assert writer.end(PATIENCE)


@pytest.mark.parametrize("blocking", [True, False], ids=["", "that somebody made non-blocking"])
def test_on_a_slow_terminal_the_end_is_waited_for(pipe: tuple[int, int], blocking: bool) -> None:
    os.set_blocking(pipe[1], blocking)
    writer = ScreenWriter(pipe[1], lambda: None)
    for _ in range(20):
        writer.put(FRAME)
    writer.put(b"the end")
    got = bytearray()

    def slowly() -> None:
        while not got.endswith(b"the end"):
            got.extend(os.read(pipe[0], 300))

    reader = threading.Thread(target=slowly)
    reader.start()
    assert writer.end(PATIENCE)
    reader.join()
    assert len(got) == 20_007


def test_a_terminal_that_is_gone_is_no_error() -> None:
    read, write = os.pipe()
    os.close(read)
    writer = ScreenWriter(write, lambda: None)
    assert writer.put(FRAME)
    assert not writer.end(PATIENCE)
    assert not writer.put(FRAME, always=True)
    os.close(write)
