"""Frames of panels: borders with titles, columns of panels side by side, and the share of the lines that each panel gets.

Panels share their borders. The number of lines of a panel depends on the size of the window and on the panels there are, never on
their values, so that nothing jumps while somebody reads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import zip_longest

from msgspec import Struct

from .elements import BLANK, Line, Lines, Style, clip, crop, filled, join, line_width, merge, paragraph, shown, text_width


class Section(Struct, frozen=True):
    """A titled panel. ``draw(width, rows)`` draws its lines; ``key`` shows it in full; ``note`` is at the right of the title. It
    gets ``least`` rows or none at all, and up to ``most`` where there are more. ``last``: it gives up its room before the
    others."""

    title: str
    draw: Callable[[int, int], Sequence[Line]]
    least: int
    most: int = 1000
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


def frame(height: int, *columns: tuple[int, Sequence[Section]], top: Sequence[Line] = ()) -> Lines:
    """Draws panels with their borders in ``height`` lines. A column is (cells between its borders, panels). ``top`` are the lines
    of a single column above and of the same width, of which the lower border is shared."""
    lines = list(top[:-1])
    drawn = [_column(sections, width, height) for width, sections in columns]
    for y, cells in enumerate(zip_longest(*drawn, fillvalue=(False, BLANK))):
        row = [(width, *cell) for (width, _), cell in zip(columns, cells, strict=True)]
        lines.append(_side_by_side(row, bool(top), y))
    lines.append((Style.RULE(f"└{'┴'.join('─' * width for width, _ in columns)}┘"),))
    return lines


def _column(sections: Sequence[Section], width: int, height: int) -> list[tuple[bool, Line]]:
    """The lines of a column between its borders, each with True where it is the upper border of a panel."""
    lines = []
    for section, rows in zip(sections, rows_for(sections, height), strict=True):
        if rows:
            body = section.draw(width, rows)[:rows]
            lines.append((True, _upper_border(section, width)))
            lines += [(False, line) for line in body] + [(False, BLANK)] * (rows - len(body))
    return lines


def _upper_border(panel: Section, width: int) -> Line:
    room = max(0, width - 4)
    key = join(Style.KEY(panel.key), " ") if panel.key else BLANK
    fits = line_width(key) + text_width(panel.title) + line_width(panel.note) + 2 <= room
    note = join(" ", panel.note, " ") if panel.note and fits else BLANK
    title = clip(panel.title, max(1, room - line_width(key) - line_width(note)))
    fill = "─" * max(0, width - 4 - line_width(key) - text_width(title) - line_width(note))
    end = Style.RULE("─")
    return join(end, " ", key, Style.TITLE(f"{title} "), Style.RULE(fill), note, end)


def _side_by_side(cells: Sequence[tuple[int, bool, Line]], below: bool, y: int) -> Line:
    """A line of all columns with the borders between them; ``cells`` are (width, is a border, line). ``below``: there is a panel
    above."""
    rules = [rule for _, rule, _ in cells]
    corners = ("┌", "┐") if y == 0 and not below else ("├", "┤")
    parts = [Style.RULE(corners[0] if rules[0] else "│")]
    for i, (width, _, line) in enumerate(cells):
        parts += filled(line, width)
        if i + 1 < len(cells):
            between = {(True, True): "┬" if y == 0 else "┼", (True, False): "┤", (False, True): "├", (False, False): "│"}
            parts.append(Style.RULE(between[rules[i], rules[i + 1]]))
    parts.append(Style.RULE(corners[1] if rules[-1] else "│"))
    return merge(parts)


# Draws the panel that lies on top of a view: a plan, a result, who has a file.

WIDEST = 120
"""Maximum width in cells: longer lines are hard to read."""


def inner_width(width: int) -> int:
    """Cells for text inside a panel in a window of ``width`` cells."""
    return max(1, min(width, WIDEST) - 4)


def panel_frame(title: str, right: str, body: Sequence[Line], width: int) -> Lines:
    """``body`` between borders, with the title at the left of the upper border and ``right`` at its end."""
    width = min(width, WIDEST)
    inside = [join(" ", crop(line, inner_width(width))) for line in body]
    panel = Section(title, lambda width, rows: inside, len(inside), len(inside), note=join(right))
    return [crop(line, width) for line in frame(len(inside) + 2, (max(0, width - 2), [panel]))]


def note_lines(notes: Sequence[str], inner: int) -> Lines:
    """Notes, wrapped over as many lines as they need."""
    return [line for note in notes for line in paragraph(shown(note), inner)]
