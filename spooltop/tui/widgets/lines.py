"""A widget that shows drawn lines and repaints only what differs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from textual.events import Resize
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from spooltop.tui.draw.elements.glyphs import UNICODE, Glyphs

from ..draw.elements.spans import Line, Style, changed_rows, line_text, text_width
from .styles import COLOURED, UNCOLOURED, line_strip

CHOSEN = "▌"
"""The first character of the chosen line."""


def _indent(text: str) -> int:
    return len(text[1:]) - len(text[1:].lstrip())


class LinesView(Widget):
    """Shows lines as they are handed in. Has no border and no padding: its regions are its rows.

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
        # Textual's StylesCache.get_inner_outer is an lru_cache of 1,024 that holds the caches of removed widgets: they may
        # stay, but not with a screenful of strips each (60 MB in time).
        self.refresh()

    @property
    def lines(self) -> tuple[Line, ...]:
        """The lines that are shown, before glyphs are replaced."""
        return self._lines

    @property
    def text(self) -> str:
        """The text that is shown, line by line."""
        return "\n".join(line_text(line) for line in self._lines)

    def key_at(self, x: int, y: int) -> str:
        """The key whose name, or the label after it, is at this cell; "" where there is none."""
        line = self._lines[y] if 0 <= y < len(self._lines) else ()
        key, edge = "", 0
        for span in line:
            if edge > x:
                break
            if span.style in (Style.KEY, Style.SELECTED_KEY) and (words := span.text.strip(" [").split(" ")):
                key = words[0]
            elif span.style is Style.RULE:
                key = ""  # the border of a panel
            elif " · " in span.text and x >= edge + text_width(span.text.rpartition(" · ")[0]) + 1:
                key = ""
            edge += text_width(span.text)
        return key if x < edge else ""

    def steps_to(self, y: int, *, x: int = 0, apart: bool = False) -> int | None:
        """The distance in rows from the chosen row to the one on line ``y``, in the panel at cell ``x``. A row may have further
        lines, which are indented.
        ``apart``: empty lines separate rows, and do not only follow the last. None where no row is chosen, or line ``y`` has
        no row of the same list."""
        texts = [self._text_at(line, x) for line in self._lines]
        sign = self.glyphs.text(CHOSEN)
        chosen = next((at for at, text in enumerate(texts) if text.startswith(sign)), None)
        if chosen is None or not 0 <= y < len(texts):
            return None
        if (not apart or self._framed(self._lines[y])) and not all(map(str.strip, texts[min(chosen, y) : max(chosen, y) + 1])):
            return None
        rows = [at for at, text in enumerate(texts) if text.strip() and _indent(text) == _indent(texts[chosen])]
        clicked = max((at for at in rows if at <= y), default=None)
        return None if clicked is None else rows.index(clicked) - rows.index(chosen)

    def _framed(self, line: Line) -> bool:
        """True for a line of panels: it begins with a border."""
        return bool(line) and line[0].style is Style.RULE and line[0].text[:1] in self.glyphs.text("│├┌└")

    def _text_at(self, line: Line, x: int) -> str:
        """The text of the panel at cell ``x``; all of the line where it has no borders, "" where it is one itself."""
        if not self._framed(line):
            return line_text(line)
        border = self.glyphs.text("│")
        text, edge = "", 0
        for span in line:
            if span.style is Style.RULE and span.text != border:
                return ""
            if span.style is Style.RULE:
                if edge > x:
                    break
                text = ""
            else:
                text += span.text
            edge += text_width(span.text)
        return text

    def show(self, lines: Sequence[Line]) -> int:
        """Shows these lines instead; returns the number of rows that are painted again."""
        new = tuple(self.glyphs.line(line) for line in lines)
        rows = changed_rows(self._lines, new, self.size.height)
        taller = len(new) != len(self._lines) and self.styles.height is not None and self.styles.height.is_auto
        self._lines = new
        if not self.size.area:
            self.refresh()  # it is hidden: what it drew before must not be on the screen when it is shown again
        elif rows:
            self.refresh(*(Region(0, y, min(edge, self.size.width), 1) for y, edge in rows))
        if taller:
            self.refresh(layout=True)
        return len(rows)

    def redraw(self) -> int:
        """Draws again at the present size; returns the number of rows that are painted again."""
        if self.draw is None:
            return 0
        width, height = self.size
        return self.show(self.draw(width, height) if width and height else ())

    def on_resize(self, event: Resize) -> None:
        self.redraw()

    def get_content_height(self, container: object, viewport: object, width: int) -> int:
        return len(self._lines)

    def render_line(self, y: int) -> Strip:
        line = self._lines[y] if y < len(self._lines) else ()
        return line_strip(line, self.size.width, self.rich_style, self._styles_of)
