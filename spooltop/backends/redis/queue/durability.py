"""Durability of what a server has answered, as its settings promise it."""

from __future__ import annotations

from enum import Enum
from typing import Any

from redis import exceptions as redis_errors

__all__ = ["Durability", "durability_of", "wait_for_disk"]

_PATIENCE = 2_000
"""Milliseconds for the disk of the server."""


class Durability(Enum):
    """``ALWAYS``: the server answers when its log is synced (``appendfsync always``). ``ASKED``: it says so when it is asked,
    with WAITAOF. ``NONE``: it may lose what it answered, about the last second with ``appendfsync everysec``."""

    ALWAYS = "always"
    ASKED = "asked"
    NONE = "none"


def durability_of(connection: Any) -> Durability:
    """Asks the server; one that may not be asked promises nothing. Raises ``redis.RedisError``."""
    try:
        if not connection.info("persistence").get("aof_enabled"):
            return Durability.NONE
        if connection.config_get("appendfsync").get("appendfsync") == "always":
            return Durability.ALWAYS
        known = connection.execute_command("COMMAND", "INFO", "WAITAOF")
    except redis_errors.NoPermissionError:
        return Durability.NONE
    return Durability.ASKED if any(known.values() if isinstance(known, dict) else known) else Durability.NONE


def wait_for_disk(pipe: Any) -> None:
    """Adds to a pipeline the wait until its changes are synced. It must be of the connection that changed: WAITAOF counts only
    these. The answer is a pair whose first is 1."""
    pipe.execute_command("WAITAOF", 1, 0, _PATIENCE)
