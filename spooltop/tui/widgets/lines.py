"""A widget that shows drawn lines and repaints only what differs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from textual.events import Resize
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from spooltop.tui.draw.diff import changed_rows
from spooltop.tui.draw.glyphs import UNICODE, Glyphs
from spooltop.tui.draw.spans import Line, line_text

from .styles import COLOURED, UNCOLOURED, line_strip

__all__ = ["LinesView"]


class LinesView(Widget):
    """Lines as they are handed in. Has no border and no padding: its regions are its rows.

    ``draw(width, height)``, where given, makes the lines anew on ``redraw()`` and on every change of size.
    """

    DEFAULT_CSS = """
    LinesView { height: 1fr; }
    """

    def __init__(
        self,
        draw: Callable[[int, int], Sequence[Line]] | None = None,
        *,
        glyphs: Glyphs = UNICODE,
        colour: bool = True,
        id: str | None = None,
        classes: str | None = None,
    ) -> None:
        super().__init__(id=id, classes=classes)
        self.draw = draw
        self.glyphs = glyphs
        self._styles_of = COLOURED if colour else UNCOLOURED
        self._lines: tuple[Line, ...] = ()

    def on_unmount(self) -> None:
        # Textual's StylesCache.get_inner_outer is an lru_cache of 1,024 that holds the caches of widgets long gone: they may
        # stay, but not with a screenful of strips each (60 MB of them by and by).
        self.refresh()

    @property
    def lines(self) -> tuple[Line, ...]:
        """What is shown, as it was handed in but for the glyphs."""
        return self._lines

    @property
    def text(self) -> str:
        """The words that are shown, line by line."""
        return "\n".join(line_text(line) for line in self._lines)

    def show(self, lines: Sequence[Line]) -> int:
        """Shows these lines instead; returns how many rows are painted again."""
        new = tuple(self.glyphs.line(line) for line in lines)
        rows = changed_rows(self._lines, new, self.size.height)
        taller = len(new) != len(self._lines) and self.styles.height is not None and self.styles.height.is_auto
        self._lines = new
        if rows:
            self.refresh(*(Region(0, y, min(edge, self.size.width), 1) for y, edge in rows))
        if taller:
            self.refresh(layout=True)
        return len(rows)

    def redraw(self) -> int:
        """Draws anew at the size of now; returns how many rows are painted again."""
        return self.show(self.draw(self.size.width, self.size.height)) if self.draw and self.size.area else 0

    def on_resize(self, event: Resize) -> None:
        self.redraw()

    def get_content_height(self, container: object, viewport: object, width: int) -> int:
        return len(self._lines)

    def render_line(self, y: int) -> Strip:
        line = self._lines[y] if y < len(self._lines) else ()
        return line_strip(line, self.size.width, self.rich_style, self._styles_of)
