"""Draws the panel that lies on top of a view: a plan, a result, who has a file."""

from __future__ import annotations

from collections.abc import Sequence

from ..elements.spans import Line, crop, join, plain, shown, wrap
from ..panels.frame import FramedPanel, frame

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
