"""The line of each key of a TOML file. ``tomllib`` tells a line only of a file that it cannot read."""

from __future__ import annotations

import re
from collections.abc import Mapping

from spooltop.records import dataclass

__all__ = ["Lines"]

Place = tuple[str | int, ...]
"""The path of a key: names of tables, numbers in arrays of tables, the key itself."""

_HEADER = re.compile(r"\s*(\[\[?)\s*([^\[\]]+?)\s*\]\]?\s*(?:#.*)?\Z")
_KEY = re.compile(r"""\s*("[^"]*"|'[^']*'|[A-Za-z0-9_-]+)\s*=""")
_PART = re.compile(r"""\s*("[^"]*"|'[^']*'|[^.\s]+)\s*(?:\.|\Z)""")


@dataclass(frozen=True, slots=True)
class Lines:
    """Line numbers, the first is 1, of tables and keys by their place."""

    found: Mapping[Place, int]

    @classmethod
    def of(cls, text: str) -> Lines:
        """Finds the headers and keys of a file that ``tomllib`` can read. In a text over several lines it may take a line for a
        key; such a key is asked for by nobody."""
        found: dict[Place, int] = {}
        numbers: dict[str, int] = {}
        table: Place = ()
        for number, line in enumerate(text.splitlines(), 1):
            if header := _HEADER.match(line):
                names = tuple(part.strip("\"'") for part in _PART.findall(header[2]))
                table = names
                if header[1] == "[[":
                    numbers[header[2]] = at = numbers.get(header[2], -1) + 1
                    table = (*names, at)
                    found.setdefault(names, number)
                found.setdefault(table, number)
            elif key := _KEY.match(line):
                found.setdefault((*table, key[1].strip("\"'")), number)
        return cls(found)

    def line(self, place: Place) -> int:
        """The line of a key; of the table around it where the key has none of its own."""
        while place:
            if place in self.found:
                return self.found[place]
            place = place[:-1]
        return 1
