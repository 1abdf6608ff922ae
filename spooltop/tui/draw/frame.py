"""Frames of panels: borders with titles, columns of panels side by side, and the share of the lines that each panel gets.

Panels share their borders. The number of lines of a panel depends on the size of the window and on the panels there are, never on
their values, so that nothing jumps while somebody reads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from .spans import BLANK, Line, Span, Style, clip, crop, join, line_width, merge, plain, shown, text_width, wrap


class FramedPanel(Struct, frozen=True):
    """A titled panel of ``rows`` lines below its title. ``key`` shows it in full; ``note`` is at the right of the title."""

    title: str
    body: Sequence[Line]
    rows: int
    key: str = ""
    note: Line = BLANK


class Section(Struct, frozen=True):
    """A panel that is not drawn yet. ``draw(width, rows)`` draws its lines. It gets ``least`` rows or none at all, and up to
    ``most`` where there are more. ``last``: it gives up its room before the others."""

    title: str
    draw: Callable[[int, int], Sequence[Line]]
    least: int
    most: int
    key: str = ""
    note: Line = BLANK
    last: bool = False


def rows_for(sections: Sequence[Section], height: int) -> list[int]:
    """The rows of each section in a column of ``height`` lines, titles and the lower border included; 0 where it has no room.
    First each gets its least, the ones that give up their room last of all; then, in order, what it takes at most. The last one
    takes what is left over."""
    left = height - 1
    rows = [0] * len(sections)
    for i in sorted(range(len(sections)), key=lambda i: sections[i].last):
        if sections[i].least + 1 <= left:
            rows[i] = sections[i].least
            left -= rows[i] + 1
    shown = [i for i in range(len(sections)) if rows[i]]
    for i in shown:
        more = min(left, sections[i].most - rows[i])
        rows[i] += more
        left -= more
    if shown:
        rows[shown[-1]] += left
    return rows


def stack(sections: Sequence[Section], width: int, height: int) -> list[FramedPanel]:
    """A column of panels of ``width`` cells between its borders."""
    return [
        FramedPanel(section.title, section.draw(width, rows)[:rows], rows, section.key, section.note)
        for section, rows in zip(sections, rows_for(sections, height), strict=True)
        if rows
    ]


def frame(*blocks: Sequence[tuple[int, Sequence[FramedPanel]]]) -> list[Line]:
    """Draws panels with their borders. A block is a row of columns: (cells between its borders, panels). A block of several
    columns may follow one of a single column and of the same width."""
    lines: list[Line] = []
    for at, columns in enumerate(blocks):
        drawn = [_column(panels, width) for width, panels in columns]
        height = max(map(len, drawn))
        for column in drawn:
            column += [(False, BLANK)] * (height - len(column))
        for y, cells in enumerate(zip(*drawn, strict=True)):
            lines.append(_side_by_side([(width, *cell) for (width, _), cell in zip(columns, cells, strict=True)], at, y))
    lines.append((Span(f"└{'┴'.join('─' * width for width, _ in blocks[-1])}┘", Style.RULE),))
    return lines


def _column(panels: Sequence[FramedPanel], width: int) -> list[tuple[bool, Line]]:
    """The lines of a column between its borders, each with True where it is the upper border of a panel."""
    lines: list[tuple[bool, Line]] = []
    for panel in panels:
        lines.append((True, _upper_border(panel, width)))
        lines += [(False, crop(line, width)) for line in panel.body[: panel.rows]]
        lines += [(False, BLANK)] * (panel.rows - len(panel.body))
    return lines


def _upper_border(panel: FramedPanel, width: int) -> Line:
    room = max(0, width - 4)
    key = (Span(panel.key, Style.KEY), Span(" ")) if panel.key else ()
    fits = line_width(key) + text_width(panel.title) + line_width(panel.note) + 2 <= room
    note = join(" ", panel.note, " ") if panel.note and fits else BLANK
    title = clip(panel.title, max(1, room - line_width(key) - line_width(note)))
    fill = "─" * max(0, width - 4 - line_width(key) - text_width(title) - line_width(note))
    end = Span("─", Style.RULE)
    return merge((end, Span(" "), *key, Span(f"{title} ", Style.TITLE), Span(fill, Style.RULE), *note, end))


def _side_by_side(cells: Sequence[tuple[int, bool, Line]], block: int, y: int) -> Line:
    """A line of all columns of a block with the borders between them; ``cells`` are (width, is a border, line)."""
    rules = [rule for _, rule, _ in cells]
    corners = ("┌" if block == 0 else "├", "┐" if block == 0 else "┤") if y == 0 else ("├", "┤")
    parts: list[Span] = [Span(corners[0] if rules[0] else "│", Style.RULE)]
    for i, (width, _, line) in enumerate(cells):
        parts += [*line, Span(" " * (width - line_width(line)))]
        if i + 1 < len(cells):
            between = {(True, True): "┬" if y == 0 else "┼", (True, False): "┤", (False, True): "├", (False, False): "│"}
            parts.append(Span(between[rules[i], rules[i + 1]], Style.RULE))
    parts.append(Span(corners[1] if rules[-1] else "│", Style.RULE))
    return merge(parts)


# Draws the panel that lies on top of a view: a plan, a result, who has a file.

WIDEST = 120
"""Maximum width in cells: longer lines are hard to read."""


def inner_width(width: int) -> int:
    """Cells for text inside a panel of ``width`` cells."""
    return max(1, width - 4)


def panel_frame(title: str, right: str, body: Sequence[Line], width: int) -> list[Line]:
    """``body`` between borders, with the title at the left of the upper border and ``right`` at its end."""
    inside = [join(" ", crop(line, inner_width(width))) for line in body]
    panel = FramedPanel(title, inside, len(inside), note=join(right))
    return [crop(line, width) for line in frame([(max(0, width - 2), [panel])])]


def note_lines(notes: Sequence[str], inner: int) -> list[Line]:
    """Notes, wrapped over as many lines as they need."""
    return [plain(part, inner) for note in notes for part in wrap(shown(note), inner)]
