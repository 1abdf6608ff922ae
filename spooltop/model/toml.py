"""Parses TOML files that somebody else may have written."""

from __future__ import annotations

import re
from typing import Any

_DEEPEST = 32
_PART = r"""(?:[\w-]++|"(?:[^"\\\n]|\\.){0,200}"|'[^'\n]{0,200}')"""
"""Part of a key. What is quoted has an end, as the search begins at each quotation mark; of longer parts a file has few."""
_TOO_DEEP = re.compile(rf"(?<![\w-]){_PART}(?:[ \t]*\.[ \t]*{_PART}){{{_DEEPEST}}}")
"""Key of more parts than any file of ours has. ``tomllib`` keeps each beginning of a key: 15,000 parts take 9 s and 900 MB."""


def parse_toml(text: str) -> dict[str, Any]:
    """Parses ``text``. Raises ``ValueError`` and ``RecursionError`` for what is not valid TOML, or too deep.

    >>> parse_toml("claims.hosts = 'any'")
    {'claims': {'hosts': 'any'}}
    """
    import tomllib  # takes 15 ms, and most have no such file

    if found := _TOO_DEEP.search(text):
        line = text.count("\n", 0, found.start()) + 1
        raise ValueError(f"A key of more than {_DEEPEST} parts (at line {line}, column 1)")
    return tomllib.loads(text)
