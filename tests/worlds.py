"""Options and worlds of directories, from the few things that a test cares about."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from spooltop.backends.directory.options import OpenOptions
from spooltop.backends.directory.world import World

__all__ = ["opening"]


def opening(wanted: dict[str, Any]) -> tuple[OpenOptions, World, dict[str, Any]]:
    """Splits keywords into options, a world, and the rest. A value of None stands for the real thing."""
    given = {name: value for name, value in wanted.items() if value is not None}
    parts = [{field.name: given.pop(field.name) for field in fields(one) if field.name in given} for one in (OpenOptions, World)]
    return OpenOptions(**parts[0]), World(**parts[1]), given
