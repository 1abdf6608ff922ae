"""The features beside messages. Each is a package of its own; without its line here the program works without it."""

from functools import cache
from importlib import import_module
from typing import Any

FEATURES = (
    "cursors",
    "locks",
)


@cache
def parts(module: str) -> tuple[Any, ...]:
    """Returns the module with this name of each feature, which is imported when it is first needed."""
    return tuple(import_module(f"spooltop.{feature}.{module}") for feature in FEATURES)
