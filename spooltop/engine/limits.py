"""How often a message is tried before it is rejected. A room of its own: operators read it without loading the engine."""

from __future__ import annotations

__all__ = ["MAX_ATTEMPTS"]

MAX_ATTEMPTS = 10
"""Times in work, after which a release, a requeue and a recover reject instead."""
