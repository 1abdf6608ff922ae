"""Names of a package that are imported when they are first used: a program that only reads a spool needs few of its modules."""

from __future__ import annotations

import sys
from importlib import import_module

TYPE_CHECKING = False  # typing takes 5 ms to load
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["lazy_names"]


def lazy_names(package: str, module_of: Mapping[str, str]) -> Callable[[str], object]:
    """Makes the ``__getattr__`` of ``package``; ``module_of`` tells for each name the module below it that defines the name."""

    def imported(name: str) -> object:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found: object = getattr(import_module(f".{module_of[name]}", package), name)
        setattr(sys.modules[package], name, found)
        return found

    return imported
