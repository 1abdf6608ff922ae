"""Draws the notice to the user, and the commands that the palette finds."""

from __future__ import annotations

from collections.abc import Sequence

from ..elements.spans import Line, Span, Style, crop, join, pad, plain, restyle, shown, wrap

NOTICE_LINES = 3
"""Maximum number of lines of a notice."""


def notice_lines(words: str, width: int, style: Style = Style.STRONG) -> list[Line]:
    """A notice in place of the keys. Longer text continues on the last line, which is cut."""
    lines = wrap(shown(words), max(1, width - 2))
    return [plain(f" {line}", width, style) for line in [*lines[: NOTICE_LINES - 1], " ".join(lines[NOTICE_LINES - 1 :])] if line]


def palette_lines(
    typed: str, found: Sequence[tuple[str, str, str, str]], width: int, height: int, *, chosen: int = 0, message: str = ""
) -> list[Line]:
    """``found`` holds (id, keys, help, why it is not available or "") of each command that matches the words ``typed``."""
    lines: list[Line] = [crop(join(Span(" :", Style.KEY), shown(typed), Span("█", Style.KEY)), width)]
    room = height - 2
    top = max(0, chosen - room + 1)
    for i, (id, keys, words, reason) in enumerate(found[top : top + room], start=top):
        sign = "▌" if i == chosen else " "
        line = join(
            Span(sign, Style.KEY), Span(pad(id, 17), Style.STRONG), Span(pad(keys, 12), Style.KEY), shown(reason or words)
        )
        lines.append(crop(restyle(line, Style.DIM) if reason else line, width))
    if not found:
        lines.append(plain("  no action matches these words", width, Style.DIM))
    lines += [()] * (height - 1 - len(lines))
    lines.append(plain(shown(message) or " ↑↓ choose · Enter run · Esc back · q and Enter quits", width))
    return lines
