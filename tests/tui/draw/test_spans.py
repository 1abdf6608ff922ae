"""Text measured in cells: cut, padded, wrapped, and free of anything that a terminal would interpret."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spooltop.model.text import unescape
from spooltop.tui.draw.elements.glyphs import ASCII, UNICODE
from spooltop.tui.draw.elements.spans import (
    Span,
    Style,
    clip,
    clip_left,
    crop,
    cut,
    line_text,
    line_width,
    pad,
    pad_left,
    safe,
    shown,
    spread,
    text_width,
    wrap,
)

NAMES = st.one_of(
    st.binary(max_size=60).map(os.fsdecode),
    st.text(alphabet="a日e\u0301\ufe0f❤\u200d\x1b\\ \n🇩🇪", max_size=40),
)
LINES = st.lists(st.tuples(NAMES.map(safe), st.sampled_from(Style)).map(lambda pair: Span(*pair)), max_size=6).map(tuple)


@given(NAMES)
def test_a_name_is_printable_and_can_be_typed_back(name: str) -> None:
    drawn = safe(name)
    assert drawn.isprintable()
    assert os.fsencode(unescape(drawn)) == os.fsencode(name)


def test_marks_do_not_pile_up() -> None:
    assert safe("e\u0301") == "e\u0301"
    assert safe("e" + "\u0301" * 3) == "e\u0301\\xcc\\x81\\xcc\\x81"
    assert text_width(safe("\u0301x")) == 9
    assert safe("\u0915\u093f") == "\u0915\\xe0\\xa4\\xbf"  # a mark of a cell of its own, for wcwidth(3)


def test_words_with_escaped_names_are_not_escaped_twice() -> None:
    assert shown(r"a\x1bb is gone") == r"a\x1bb is gone"
    assert shown("a\x1bb\udcff\nc") == r"a\x1bb\xff c"


@given(NAMES.map(safe), st.integers(0, 50))
def test_cut_and_padded_text_is_as_wide_as_asked(text: str, width: int) -> None:
    assert text_width(clip(text, width)) <= width
    assert text_width(clip_left(text, width)) <= width
    assert text_width(pad(text, width)) == width
    assert text_width(pad_left(text, width)) == width


def test_names_are_cut_at_the_left_and_words_at_the_right() -> None:
    assert clip_left("1795222801446548", 8) == "…1446548"
    assert clip("no room here", 7) == "no roo…"
    assert clip_left("日本語", 4) == "…語"


@given(NAMES.map(safe), st.integers(0, 50))
def test_a_cut_loses_nothing(text: str, width: int) -> None:
    head, tail = cut(text, width)
    assert head + tail == text
    assert text_width(head) <= width


@given(LINES, st.integers(0, 60))
def test_a_cropped_line_fits_and_says_that_it_was_cut(line: tuple[Span, ...], width: int) -> None:
    cut = crop(line, width)
    assert line_width(cut) <= width
    if line_width(line) > width > 0:
        assert line_text(cut).rstrip(" ").endswith("…")
    else:
        assert line_text(cut) == (line_text(line) if width else "")


@given(LINES, LINES, st.integers(1, 60))
def test_both_ends_fit(left: tuple[Span, ...], right: tuple[Span, ...], width: int) -> None:
    assert line_width(spread(left, right, width)) <= width


def test_both_ends_touch_the_edges() -> None:
    assert line_text(spread((Span("ab"),), (Span("yz"),), 8)) == "ab    yz"


@given(st.text(alphabet="ab 日é", max_size=80), st.integers(2, 30))
def test_wrapped_words_fit_and_none_is_lost(text: str, width: int) -> None:
    lines = wrap(text, width)
    assert all(text_width(line) <= width for line in lines)
    assert "".join("".join(lines).split()) == "".join(text.split())


@given(LINES)
def test_ascii_is_ascii_and_as_wide(line: tuple[Span, ...]) -> None:
    drawn = ASCII.line(line)
    assert line_text(drawn).isascii()
    assert line_width(drawn) == line_width(line) or any(not text_width(char) for char in line_text(line))
    assert UNICODE.line(line) == line


def test_signs_have_stand_ins() -> None:
    assert ASCII.text("✗ ! ▌ ▁▄█ · … → ≥") == "x ! > _=# . * >>="


@pytest.mark.parametrize("char", ["\U0001f1e9", "\u1161", "\U0001f3fb"])
def test_what_terminals_give_another_width_than_we_do_is_escaped(char: str) -> None:
    assert safe(f"a{char}").isascii()
    assert unescape(safe(f"a{char}")) == f"a{char}"
