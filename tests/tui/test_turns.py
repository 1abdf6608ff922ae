"""Turns of the threads: one that draws goes on longer than one that works, whose progress is drawn now and then."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterator

import pytest
from textual.message import Message
from textual.message_pump import MessagePump

from spooltop.tui.terminal.turns import LONG, SHORT, event_loop
from spooltop.tui.threads.deliver import EVERY, now_and_then

PATIENCE = 40.0


@pytest.fixture(autouse=True)
def interval() -> Iterator[None]:
    """Restores the length of a turn."""
    before = sys.getswitchinterval()
    yield
    sys.setswitchinterval(before)


def turn_while_the_loop_waits() -> float:
    """The length of a turn, once it is no more that of the loop."""
    end = time.monotonic() + PATIENCE
    while sys.getswitchinterval() == pytest.approx(LONG) and time.monotonic() < end:
        continue
    return sys.getswitchinterval()


def test_a_turn_is_long_while_the_loop_handles_something_and_short_while_it_waits() -> None:
    found: list[float] = []

    async def handle() -> None:
        found.append(sys.getswitchinterval())
        found.append(await asyncio.get_running_loop().run_in_executor(None, turn_while_the_loop_waits))
        found.append(sys.getswitchinterval())

    with asyncio.Runner(loop_factory=event_loop) as runner:
        runner.run(handle())
    assert found == pytest.approx([LONG, SHORT, LONG])


def test_progress_is_reported_now_and_then() -> None:
    now = 10.0

    class Advanced(Message):
        def __init__(self, done: int) -> None:
            super().__init__()
            self.done = done

    class Screen(MessagePump):
        def post_message(self, message: Message) -> bool:
            assert isinstance(message, Advanced)
            posted.append(message.done)
            return True

    async def report() -> None:
        nonlocal now
        advanced = now_and_then(Screen(), Advanced, lambda: now)
        for done in range(9):
            advanced(done)
            now += EVERY / 4

    posted: list[int] = []
    asyncio.run(report())
    assert posted == [0, 4, 8]
