"""Posts messages from a thread to a screen."""

from __future__ import annotations

from textual.message import Message
from textual.message_pump import MessagePump

__all__ = ["deliver"]


def deliver(pump: MessagePump, message: Message) -> bool:
    """Posts a message from another thread; False where no one takes it any more: the screen was left, or the dashboard ended
    while a look or a change was under way."""
    try:
        return pump.post_message(message)
    except RuntimeError:
        # The event loop closed, or the screen lost its app, between Textual's own check and the post: no receiver is left.
        return False
