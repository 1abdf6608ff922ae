"""Names on disk must have no effect on a terminal."""

from __future__ import annotations

import os

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from spooltop.model.vocabulary import escape, escape_text, unescape


@given(st.binary(max_size=255))
@example(b"\xff\xfe\\x41\\\\")
@example("‮gpj.exe".encode())
def test_every_name_comes_back_from_what_is_shown(raw: bytes) -> None:
    name = os.fsdecode(raw)
    shown = escape(name)
    assert os.fsencode(unescape(shown)) == raw
    assert shown.isprintable()


@given(st.text(alphabet=st.characters()))
@example("\ud800")
def test_any_text_is_shown_printable(text: str) -> None:
    assert escape(text).isprintable()


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("[red]x[/]", "[red]x[/]"), ("a\x1b[31mb", "a\\x1b[31mb"), ("two\nlines", "two\\x0alines"), ("日本", "日本"),
        ("back\\slash", "back\\\\slash"), (os.fsdecode(b"\xff"), "\\xff"), ("\x9b31m", "\\xc2\\x9b31m"),
        ("\u200bzero", "\\xe2\\x80\\x8bzero"),
    ],
)  # fmt: skip
def test_forms(name: str, shown: str) -> None:
    assert escape(name) == shown


@pytest.mark.parametrize("shown", ["\\", "a\\", "\\x1", "\\xg0", "\\n"])
def test_a_wrong_escape_is_told(shown: str) -> None:
    with pytest.raises(ValueError, match="backslash"):
        unescape(shown)


@given(st.binary(max_size=300))
def test_a_payload_keeps_its_lines_and_nothing_else_unprintable(data: bytes) -> None:
    lines = escape_text(data).split("\n")
    assert len(lines) == data.count(b"\n") + 1
    assert all(line.isprintable() for line in lines)
    assert escape_text(data, keep_newlines=False).isprintable()
