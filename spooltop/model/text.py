"""Text that somebody else chose: escapes names before a person or a terminal reads them, and parses values, TOML and templates.

A file name is bytes that somebody else chose: escape sequences, markup, bidirectional overrides, newlines. Nothing from a spool
is shown or printed without ``escape``. The form is reversible, so it can be typed back.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

# Reads values from data that anybody may have written. Pure.

_MOST = 1e18
"""Larger than any time in seconds, and than any that a float holds to the second."""
_BLANKS = " \t\n\r"
_parse = json.JSONDecoder().raw_decode
"""Parses without guessing the encoding, which takes as long as a small object."""


def finite(value: object) -> float | None:
    """Returns a number as a float, else None: for other types, NaN, infinity, and numbers larger than any time (JSON sets no
    bound to the digits of an int, and ``float`` raises from the 309th on).

    >>> finite(7), finite(10**400), finite(float("nan")), finite(True), finite("7")
    (7.0, None, None, None, None)
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if abs(value) < _MOST else None


def json_object(data: bytes) -> dict[str, Any]:
    """Parses a JSON object; empty if ``data`` is anything else, torn, or nested deeper than the parser goes.

    >>> json_object(b'{"pid": 7}\\n'), json_object(b'{"pid": '), json_object(b'{"pid": 7} 8'), json_object(b"[" * 100_000)
    ({'pid': 7}, {}, {}, {})
    """
    try:
        text = data.decode("utf-8", "surrogatepass").strip(_BLANKS)
        found, end = _parse(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) and end == len(text) else {}


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


_ESCAPED = re.compile(rb"\\(\\|x([0-9a-fA-F]{2}))|\\|[^\\]+", re.DOTALL)

_INTERPRETERS = re.compile(r"(python|pypy|perl|ruby|node|php|bash|dash|sh|env)[0-9.]*")


_COERCED = ("C.UTF-8", "C.utf8", "UTF-8")
"""Values of LC_CTYPE that the interpreter itself may have set, PEP 538."""


def plain_locale(environ: Mapping[str, str], utf8_mode: bool = sys.flags.utf8_mode == 1) -> bool:
    """True if the environment asks for ASCII, locale(7).

    In a C locale the interpreter turns on its ``utf8_mode`` and writes another LC_CTYPE into the environment, which is not the
    user's choice.

    >>> plain_locale({"LANG": "C", "LC_CTYPE": "C.UTF-8"}, True), plain_locale({"LANG": "C", "LC_CTYPE": "C.UTF-8"}, False)
    (True, False)
    """
    ctype = environ.get("LC_CTYPE", "")
    asked = "" if utf8_mode and ctype in _COERCED else ctype
    return (environ.get("LC_ALL") or asked or environ.get("LANG")) in ("C", "POSIX")


def escape(name: str) -> str:
    r"""Escapes a name for display: printable UTF-8 as it is, ``\\`` for a backslash, ``\xNN`` for each byte of anything else.

    ``name`` is as ``os.fsdecode`` gives it (undecodable bytes are lone surrogates). ``unescape`` is the inverse.

    >>> escape("a\x1b[31mb")
    'a\\x1b[31mb'
    """
    if name.isprintable() and "\\" not in name:
        return name
    return "".join(map(_escaped, name))


@lru_cache(maxsize=4096)
def _escaped(char: str) -> str:
    if char == "\\":
        return "\\\\"
    return char if char.isprintable() else "".join(f"\\x{byte:02x}" for byte in _bytes(char))


def _bytes(char: str) -> bytes:
    try:
        return os.fsencode(char)
    except UnicodeEncodeError:  # a lone surrogate that no file name has, but JSON may
        return char.encode("utf-8", "surrogatepass")


def unescape(shown: str) -> str:
    r"""Returns the name that ``escape`` displays as ``shown``. Raises ``ValueError`` for a backslash that starts neither ``\\``
    nor ``\xNN``.

    >>> unescape("a\\x1b[31mb") == "a\x1b[31mb"
    True
    """
    if "\\" not in shown:
        return shown
    out = bytearray()
    for match in _ESCAPED.finditer(os.fsencode(shown)):
        part = match.group()
        if part == b"\\":
            raise ValueError(f"a backslash in a name is written \\\\ and any other byte \\xNN: {shown}")
        if match.group(2) is not None:
            out.append(int(match.group(2), 16))
        else:
            out += b"\\" if part == b"\\\\" else part
    return os.fsdecode(bytes(out))


def escape_text(data: bytes, *, keep_newlines: bool = True) -> str:
    r"""Escapes a payload for display: printable UTF-8, newlines and tabs if asked, every other byte as ``\xNN``."""
    lines = []
    for line in data.split(b"\n") if keep_newlines else [data]:
        parts = line.split(b"\t") if keep_newlines else [line]
        lines.append("    ".join(escape(part.decode("utf-8", "surrogateescape")) for part in parts))
    return "\n".join(lines)


def program(command: str) -> str:
    """Returns the short name of a process: its command line without path, interpreter and arguments. Not escaped.

    >>> program("python3 /opt/memex/worker.py --all"), program("/usr/bin/rsync -a"), program("sh -c 'a b'"), program("worker")
    ('worker.py', 'rsync', 'sh', 'worker')
    """
    return program_of(command.split()).removesuffix(" -c") or command


def program_of(arguments: Sequence[str]) -> str:
    """Returns the short name of a process with these arguments; "" if there are none. Not escaped.

    >>> program_of(["/usr/bin/python3", "-m", "worker"]), program_of(["python3", "-u", "/srv/worker.py", "x"])
    ('worker', 'worker.py')
    >>> program_of(["/bin/sh", "-c", "a b"]), program_of(["-bash"])
    ('sh -c', 'bash')
    """
    if not arguments or not arguments[0]:
        return ""
    name = _base(arguments[0].lstrip("-")) or arguments[0]
    if not _INTERPRETERS.fullmatch(name):
        return name
    rest = iter(arguments[1:])
    for word in rest:
        if word == "-m":
            return next(rest, name)
        if word == "-c":
            return f"{name} -c"
        if not word.startswith("-"):
            return _base(word) or name
    return name


def _base(path: str) -> str:
    return path.rsplit("/", 1)[-1]


def suppressed_words(by_source: Mapping[str, int]) -> str:
    """Says how many puts were duplicates, in total and by source; "" for none.

    >>> suppressed_words({"mail": 2, "": 1}), suppressed_words({})
    ('duplicates suppressed: 3 (without a source 1, mail 2)', '')
    """
    each = ", ".join(f"{escape(source) or 'without a source'} {many:,}" for source, many in sorted(by_source.items()))
    return f"duplicates suppressed: {sum(by_source.values()):,} ({each})" if by_source else ""


# Fills in the placeholders, in braces, in the text of test messages.

PLACEHOLDERS = ("n", "count", "id", "source", "time")
"""The message's number from 1, their total, its id, its source ("" without one), the time (epoch seconds, whole)."""

_HOLE = re.compile(r"\{\{(%s)\}\}|\{(%s)\}" % (("|".join(PLACEHOLDERS),) * 2))


def fill(text: str, words: Mapping[str, str]) -> str:
    """Replaces each placeholder in ``text``. All other braces are unchanged, so that JSON need not be escaped; doubled braces
    keep a placeholder as it is.

    >>> fill('{"rowid": {n}, "of": {"id": "{id}"}, "as is": "{{n}}"}', {"n": "3", "id": "a"})
    '{"rowid": 3, "of": {"id": "a"}, "as is": "{n}"}'
    """
    return _HOLE.sub(lambda hole: f"{{{hole[1]}}}" if hole[1] else words.get(hole[2], hole[0]), text)
