"""Text measured in cells: cut, padded, wrapped, and free of anything that a terminal would interpret."""

from __future__ import annotations

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spooltop.model.vocabulary import escape_text, unescape
from spooltop.tui.draw.elements import (
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
    pieces,
    safe,
    safe_pieces,
    shown,
    spread,
    text_width,
    wrap,
)

from .test_sizes import KINDS, SIZE, filled

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


@pytest.mark.parametrize(
    ("name", "drawn"),
    [
        ("e\u0301", "e\u0301"), ("e" + "\u0301" * 3, "e\u0301\\xcc\\x81\\xcc\\x81"),  # marks do not pile up
        ("\u0301x", "\\xcc\\x81x"), ("\u0915\u093f", "\u0915\\xe0\\xa4\\xbf"),  # a mark of a cell of its own, for wcwidth(3)
    ],
)  # fmt: skip
def test_marks_are_drawn_where_they_take_no_cell(name: str, drawn: str) -> None:
    assert safe(name) == drawn


@pytest.mark.parametrize("char", ["\U0001f1e9", "\u1161", "\U0001f3fb"])
def test_what_terminals_give_another_width_than_we_do_is_escaped(char: str) -> None:
    assert safe(f"a{char}").isascii()
    assert unescape(safe(f"a{char}")) == f"a{char}"


def test_words_with_escaped_names_are_not_escaped_twice() -> None:
    assert shown(r"a\x1bb is gone") == r"a\x1bb is gone"
    assert shown("a\x1bb\udcff\nc") == r"a\x1bb\xff c"


@pytest.mark.parametrize("kind", KINDS)
def test_a_name_of_any_length_is_drawn_as_its_beginning_and_its_end(kind: str) -> None:
    name = filled(kind).decode("utf-8", "surrogateescape")
    for drawn in (safe(f"ab{name}yz"), shown(f"ab{name}yz")):
        assert drawn.startswith("ab") and drawn.endswith("yz")
        assert " characters…" in drawn and len(drawn) < SIZE / 2


@given(NAMES.map(safe), st.integers(0, 50))
def test_cut_and_padded_text_is_as_wide_as_asked(text: str, width: int) -> None:
    assert text_width(clip(text, width)) <= width
    assert text_width(clip_left(text, width)) <= width
    assert text_width(pad(text, width)) == width
    assert text_width(pad_left(text, width)) == width
    head, tail = cut(text, width)
    assert head + tail == text
    assert text_width(head) <= width


def test_names_are_cut_at_the_left_and_words_at_the_right() -> None:
    assert clip_left("1795222801446548", 8) == "…1446548"
    assert clip("no room here", 7) == "no roo…"
    assert clip_left("日本語", 4) == "…語"


@given(LINES, LINES, st.integers(0, 60))
def test_lines_fit_and_say_that_they_were_cut(line: tuple[Span, ...], other: tuple[Span, ...], width: int) -> None:
    cropped = crop(line, width)
    assert line_width(cropped) <= width
    if line_width(line) > width > 0:
        assert line_text(cropped).rstrip(" ").endswith("…")
    else:
        assert line_text(cropped) == (line_text(line) if width else "")
    assert line_width(spread(line, other, width)) <= width


def test_both_ends_touch_the_edges() -> None:
    assert line_text(spread((Span("ab"),), (Span("yz"),), 8)) == "ab    yz"


@given(st.text(alphabet="ab 日é", max_size=80), st.integers(2, 30))
def test_wrapped_words_fit_and_none_is_lost(text: str, width: int) -> None:
    lines = wrap(text, width)
    assert all(text_width(line) <= width for line in lines)
    assert "".join("".join(lines).split()) == "".join(text.split())


def test_a_long_word_is_broken_into_lines_that_fit() -> None:
    lines = wrap("x " + "日" * 500, 11, indent=2)
    assert all(text_width(line) <= 11 for line in lines)
    assert "".join(line.strip() for line in lines) == "x" + "日" * 500


@given(
    st.lists(st.one_of(st.sampled_from(sorted(KINDS.values())), st.binary(max_size=5)), max_size=9).map(b"".join),
    st.integers(1, 60), st.integers(2, 40), st.integers(1, 9),
)  # fmt: skip
@settings(max_examples=300)
def test_what_is_drawn_piece_by_piece_is_what_is_drawn_at_once(part: bytes, times: int, width: int, chunk: int) -> None:
    data = (part * times)[:500]  # at most 2,000 characters, of which none is left out
    expected: list[str] = []
    for raw in escape_text(data).removesuffix("\n").split("\n"):
        rest = shown(raw)
        while text_width(rest) > width:
            head, rest = cut(rest, width)
            expected.append(head)
        expected.append(rest)
    assert [piece for piece, _ in safe_pieces(data, width, chunk)] == expected


@given(st.text(alphabet="ab日e\u0301 ", max_size=80).map(safe), st.integers(2, 30))
def test_pieces_lose_nothing_and_fit(text: str, width: int) -> None:
    found = list(pieces(text, width))
    assert "".join(found) == text
    assert all(0 < text_width(piece) <= width for piece in found if piece.strip("\u0301"))
