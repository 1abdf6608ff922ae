r"""Regular expressions that are compiled when they are first used: ``pattern`` in place of ``re.compile``.

A command loads a hundred of them and uses twenty; each takes 0.1 to 1 ms to compile.

>>> number = pattern(r"[0-9]+")
>>> number.findall("17 and 4")
['17', '4']
"""

from __future__ import annotations

import re

TYPE_CHECKING = False  # typing takes 5 ms to load
if TYPE_CHECKING:
    from typing import Any

__all__ = ["pattern"]


class _Pattern:
    """A pattern in place of ``re.Pattern``. The first use sets its methods, which cost no more from then on."""

    __slots__ = ("_flags", "findall", "finditer", "fullmatch", "match", "pattern", "search", "sub")

    def __init__(self, source: str | bytes, flags: int = 0) -> None:
        self.pattern = source
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        compiled = re.compile(self.pattern, self._flags)
        for each in ("findall", "finditer", "fullmatch", "match", "search", "sub"):
            setattr(self, each, getattr(compiled, each))
        return getattr(compiled, name)


if TYPE_CHECKING:
    from re import compile as pattern
else:
    pattern = _Pattern
