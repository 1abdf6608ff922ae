"""Text for messages that are in the trash for longer than it keeps them. Pure; nothing is deleted automatically."""

from __future__ import annotations

from ..row import Row
from ..units import age, count, duration
from ..vocabulary import Box
from .observation import BoxState

__all__ = ["expired_words", "kept_words"]


def expired_words(state: BoxState) -> str:
    """Returns ``3 expired, kept 30d``; empty if nothing has expired.

    >>> expired_words(BoxState(Box.TRASH, 12, retention=2592000.0, expired=3))
    '3 expired, kept 30d'
    """
    if state.retention is None or not state.expired:
        return ""
    return f"{count(state.expired, complete=not state.expired_is_bound)} expired, kept {duration(state.retention)}"


def kept_words(row: Row, now: float) -> str:
    """Says how long a message is kept: ``for 12d more, then offered for deletion`` in the trash, ``for 1h more, then deleted by
    its program`` where the queue of another program says so, ``expired 5d ago``; empty if it is kept without end."""
    if row.expires_at is None:
        return ""
    left = row.expires_at - now
    if left <= 0:
        return f"expired {age(-left)} ago"
    return f"for {age(left)} more, then {'offered for deletion' if row.box is Box.TRASH else 'deleted by its program'}"
