"""Number of attempts before a message is rejected. This is a module of its own so that operators can import it without loading
the engine."""

from __future__ import annotations

__all__ = ["MAX_ATTEMPTS"]

MAX_ATTEMPTS = 10
"""Attempts after which a release, a requeue and a recover reject instead."""
