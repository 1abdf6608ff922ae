"""Posts messages from a thread to a screen."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from textual.message import Message
from textual.message_pump import MessagePump

T = TypeVar("T")

EVERY = 0.2
"""Seconds between two reports of progress: to draw each of the thousands would take half of the time of the work."""


def deliver(pump: MessagePump, message: Message) -> bool:
    """Posts a message from another thread; False where no one takes it any more: the screen was left, or the dashboard ended
    while a look or a change was under way."""
    try:
        return pump.post_message(message)
    except RuntimeError:
        # The event loop closed, or the screen lost its app, between Textual's own check and the post: no receiver is left.
        return False


def now_and_then(
    pump: MessagePump, message: Callable[[T], Message], monotonic: Callable[[], float] = time.monotonic
) -> Callable[[T], None]:
    """Returns a function that posts a ``message`` about progress from another thread, and none soon after one."""
    due = monotonic()

    def report(progress: T) -> None:
        nonlocal due
        if (now := monotonic()) >= due:
            due = now + EVERY
            deliver(pump, message(progress))

    return report
