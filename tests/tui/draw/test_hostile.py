"""Text from others, of any length and with any characters: only the visible part is drawn, and drawn once."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spooltop.model.row import Payload
from spooltop.model.text import escape_text
from spooltop.tui.draw.cursors import cursor_table
from spooltop.tui.draw.detail import LONGEST, detail, message_lines
from spooltop.tui.draw.elements.spans import cut, line_text, line_width, pieces, safe, safe_pieces, shown, text_width, wrap

from ..fake import NOW, FakeControl, a_cursor, waiting

SIZE = 65_536
KINDS = {
    "letters": b"x", "emoji": "\U0001f468\u200d\U0001f469\u200d\U0001f467 ".encode(), "tabs": b"\t", "0xff": b"\xff",
    "marks": ("e" + "\u0301" * 99).encode(), "NUL": b"\0", "ESC": b"\x1b", "lines": b"\n", "wide": "日本".encode(),
    "vowels": "\u0915\u093f".encode(), "flags": "🇩🇪".encode(), "clauses": b"a, ",
}  # fmt: skip
hostile = pytest.mark.parametrize("kind", KINDS)


def filled(kind: str, size: int = SIZE) -> bytes:
    return (KINDS[kind] * size)[:size]


class Counted(bytes):
    """A payload that counts how many of its bytes were read."""

    taken = 0

    def __getitem__(self, place: object) -> object:  # type: ignore[override]
        part = super().__getitem__(place)  # type: ignore[index]
        self.taken += len(part) if isinstance(part, bytes) else 1
        return part


@hostile
def test_a_payload_is_drawn_as_far_as_it_is_seen_and_once(kind: str) -> None:
    data = Counted(filled(kind))
    payload = Payload(data, SIZE, False)
    first = detail(waiting(1), payload, 80, 12, now=NOW)
    taken = data.taken
    assert taken <= 12 * 80 * 4 + 512
    assert len(first) == 12 and all(line_width(line) <= 80 for line in first)
    assert line_text(first[-1]).strip().endswith("more")
    assert detail(waiting(1), payload, 80, 12, now=NOW) == first
    assert data.taken == taken and bool(taken) is (kind != "lines")


@hostile
def test_a_message_in_full_is_drawn_once_from_its_beginning_to_its_end(kind: str) -> None:
    data = Counted(filled(kind))
    payload = Payload(data, SIZE, False)
    lines, began = message_lines(waiting(1), payload, 80, 20, scroll=10**6, now=NOW)
    assert len(lines) == 20 and began + 20 <= LONGEST
    assert data.taken <= SIZE
    for scroll in range(began, 0, -977):
        assert message_lines(waiting(1), payload, 80, 20, scroll=scroll, now=NOW)[1] == scroll
    assert data.taken <= SIZE


@hostile
def test_a_name_of_any_length_is_drawn_as_its_beginning_and_its_end(kind: str) -> None:
    name = filled(kind).decode("utf-8", "surrogateescape")
    for drawn in (safe("ab" + name + "yz"), shown("ab" + name + "yz")):
        assert drawn.startswith("ab") and drawn.endswith("yz")
        assert " characters…" in drawn and len(drawn) < SIZE / 2
    control = FakeControl()
    control.cursors = (a_cursor(name), replace(a_cursor("b"), evidence=name, verdict="stalled"))
    lines = cursor_table(control.look(), 80, 20, now=NOW)
    assert len(lines) <= 20 and all(line_width(line) <= 80 for line in lines)


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


def test_a_long_word_is_broken_into_lines_that_fit() -> None:
    lines = wrap("x " + "日" * 500, 11, indent=2)
    assert all(text_width(line) <= 11 for line in lines)
    assert "".join(line.strip() for line in lines) == "x" + "日" * 500
