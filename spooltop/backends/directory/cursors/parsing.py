"""Parses the content of cursor files, which may be large or hostile, and keeps as much as a budget of memory allows.

A file whose values would take over 48 MB is not parsed. At most 2,000 sources of a shared file are kept; a section over 4 kB
keeps its short fields only.
"""

from __future__ import annotations

import itertools
import json

from spooltop.model.vocabulary import Json

__all__ = ["SECTION_AT_MOST", "parse_sections", "parse_value", "within_budget"]

_IN_MEMORY = 48 << 20
_SOURCES_AT_MOST = 2_000
_NAME_AT_MOST = 512
SECTION_AT_MOST = 4 << 10
_SMALL = 64 << 10
"""Bytes of a file up to which every section may be kept as it is."""
_FIELD = 256
_FIELDS_AT_MOST = 8
"""The number of fields that are kept of a section that is too large; names and values have at most ``_FIELD`` characters."""
_BEGUN = ("true", "false", "null", "-", ".", "e+", "e-", "E+", "E-")


def parse_value(data: bytes) -> tuple[Json, str]:
    """Parses a file that belongs to one source: the value, and why it does not parse ("")."""
    if not data.strip():
        return None, "it is empty"
    if len(data) > _SMALL and _size_in_memory(data) > _IN_MEMORY:
        return None, f"its values would take over {_IN_MEMORY >> 20} MB of memory, not read"
    try:
        return json.loads(data), ""
    except (ValueError, RecursionError) as problem:
        where = getattr(problem, "pos", None)
        if isinstance(problem, json.JSONDecodeError) and _cut_off(problem):
            return None, "it is cut off"
        return None, f"not JSON at byte {where}" if where is not None else "not JSON"


def _size_in_memory(data: bytes) -> int:
    """An upper estimate of the bytes that the values in this JSON take."""
    return 3 * len(data) + 184 * data.count(b"{") + 64 * data.count(b"[") + 40 * data.count(b",") + 32 * data.count(b'"')


def within_budget(sections: dict[str, Json], size: int) -> tuple[dict[str, Json], int, frozenset[str]]:
    """The sections of a file of ``size`` bytes that are kept, how many sources are left out, and those whose value was cut."""
    if size <= _SMALL and len(sections) <= _SOURCES_AT_MOST and all(len(name) <= _NAME_AT_MOST for name in sections):
        return sections, 0, frozenset()
    kept: dict[str, Json] = {}
    cut = set()
    for name, value in sections.items():
        if len(name) > _NAME_AT_MOST:
            continue
        if len(kept) == _SOURCES_AT_MOST:
            break
        kept[name] = value
        if size > _SMALL and isinstance(value, str | list | dict | int) and len(json.dumps(value)) > SECTION_AT_MOST:
            kept[name] = _shortened(value)
            cut.add(name)
    return kept, len(sections) - len(kept), frozenset(cut)


def _shortened(value: Json) -> Json:
    """The short fields of an object, its cursor among them. For any other value only its length and a hash, since any
    part of it may be secret."""
    fields = value.items() if isinstance(value, dict) else ()
    short = {name: item for name, item in fields if not isinstance(item, str | list | dict | int) or _is_short(item)}
    short = dict(itertools.islice(((name, item) for name, item in short.items() if len(name) <= _FIELD), _FIELDS_AT_MOST))
    if short:
        return short
    from hashlib import blake2b  # loads OpenSSL: only for large sections

    text = json.dumps(value)
    return f"({len(text):,} characters, {blake2b(text.encode(), digest_size=6).hexdigest()})"


def _is_short(item: str | list[Json] | dict[str, Json] | int) -> bool:
    return isinstance(item, str | int) and len(json.dumps(item)) <= _FIELD


def _cut_off(problem: json.JSONDecodeError) -> bool:
    """True if the text is wrong only because it ends: within a string, a word or a number, or where more is expected."""
    rest = problem.doc[problem.pos :].rstrip()
    if problem.msg.startswith("Unterminated string"):
        return True
    if problem.msg.startswith("Invalid \\u"):
        return len(rest) <= len("uXXX")
    return problem.msg != "Extra data" and (not rest or any(word.startswith(rest) for word in _BEGUN))


def parse_sections(data: bytes) -> tuple[dict[str, Json] | None, str]:
    """Parses a shared file: its sections, and why it does not parse ("")."""
    value, error = parse_value(data)
    if error:
        return None, error
    return (value, "") if isinstance(value, dict) else (None, "not an object: one section for each source is expected")
