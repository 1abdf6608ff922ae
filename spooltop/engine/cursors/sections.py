"""Sections in the text of a cursor file: one is replaced, and every other byte stays as it is."""

from __future__ import annotations

import json

from spooltop.patterns import pattern

__all__ = ["RepeatedKey", "check_json", "section_span", "with_value"]

_BLANK = " \t\n\r"
_SPACE = pattern(r"[ \t\n\r]*")
_DECODER = json.JSONDecoder()


class RepeatedKey(Exception):
    """An object has the key ``key`` more than once (``times``): some readers take the first value and some the last."""

    def __init__(self, key: str, times: int) -> None:
        self.key = key
        self.times = times


def check_json(value: object) -> None:
    """Raises ``TypeError`` or ``ValueError`` for values that ``json.dumps`` accepts but other programs cannot read, or read
    differently."""
    if isinstance(value, str):
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            raise ValueError(f"half a surrogate pair in {value!r:.80}") from None
    elif isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise TypeError(f"a key of an object is a str, not {type(key).__name__}")
            check_json(key)
            check_json(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            check_json(item)


def with_value(text: str, source: str | None, field: str | None, encoded: str) -> str:
    """Returns ``text``, which parses or is empty, with the JSON ``encoded`` as the section of ``source``, or as the ``field`` of
    that section. ``source`` None: the whole text is the section. Raises ``RepeatedKey``.

    >>> with_value('{"a": 1, "b": {"id": 2}}', "b", "id", "3")
    '{"a": 1, "b": {"id": 3}}'
    """
    if source is None:
        section = text.strip(_BLANK)
    else:
        start, end = _only_span(text, source) if text else (0, 0)
        section = text[start:end]
    if field is not None:
        section = "" if section == "null" else section
        if section:
            _only_span(section, field)
        encoded = _with_section(section, field, encoded)
    if source is None:
        return encoded + "\n"
    return _with_section(text, source, encoded) + ("" if text else "\n")


def _only_span(text: str, key: str) -> tuple[int, int]:
    """Span of the value of ``key``; (0, 0) if there is none. Raises ``RepeatedKey``."""
    spans, _ = _spans(text, key)
    if len(spans) > 1:
        raise RepeatedKey(key, len(spans))
    return spans[0] if spans else (0, 0)


def _with_section(text: str, source: str, encoded: str) -> str:
    if not text:
        return f"{{{json.dumps(source)}: {encoded}}}"
    start, end, found = section_span(text, source)
    if found:
        return text[:start] + encoded + text[end:]
    body = text[:start].rstrip(_BLANK)
    comma = "" if body.endswith("{") else ", "
    return f"{body}{comma}{json.dumps(source)}: {encoded}{text[len(body):]}"


def section_span(text: str, source: str) -> tuple[int, int, bool]:
    """Span of the value of ``source`` in the text of a JSON object, which must parse: (start, end, True). If the key occurs
    twice, the last value counts. If it does not occur: (position of the closing brace, same, False).

    >>> section_span('{"a": 1, "b": [2]}', "b")
    (14, 17, True)
    """
    spans, end = _spans(text, source)
    return (*spans[-1], True) if spans else (end, end, False)


def _spans(text: str, wanted: str) -> tuple[list[tuple[int, int]], int]:
    """Returns the spans of the values of the key ``wanted`` and the position of the closing brace."""
    spans = []
    at = _skip(text, text.index("{") + 1)
    while text[at] != "}":
        key, at = _DECODER.raw_decode(text, at)
        start = _skip(text, _skip(text, at) + 1)
        _, at = _DECODER.raw_decode(text, start)
        if key == wanted:
            spans.append((start, at))
        at = _skip(text, at)
        if text[at] == ",":
            at = _skip(text, at + 1)
    return spans, at


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at
