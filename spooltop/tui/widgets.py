"""Widgets that paint drawn lines, and only what differs. They take no decision and read no file: values in, messages out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Generic, TypeVar

from rich.segment import Segment
from rich.style import Style as RichStyle
from textual.events import Click
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from .draw.elements import Line, Style, dim, filled, in_ascii, select, text_width, within
from .options import Options

# Only the foreground is set, and most text keeps the terminal's own colour: yellow text alone is hard to read on white.
_WORDS = {
    Style.NORMAL: "none", Style.DIM: "dim", Style.STRONG: "bold", Style.BAD: "bold red", Style.WARN: "bold yellow",
    Style.GOOD: "green", Style.TITLE: "bold", Style.KEY: "bold", Style.RULE: "dim", Style.BAR: "dim cyan",
    Style.MARKED: "bold", Style.MATCH: "bold underline",
}  # fmt: skip
_SELECTED = RichStyle(reverse=True)
COLOURED: Mapping[Style, RichStyle] = {meaning: RichStyle.parse(words) for meaning, words in _WORDS.items()}
UNCOLOURED: Mapping[Style, RichStyle] = {meaning: style.without_color for meaning, style in COLOURED.items()}


class LineWidget(Widget):
    """Paints drawn lines. Has no border and no padding: its regions are its rows."""

    DEFAULT_CSS = """
    LineWidget { height: 1fr; }
    """

    def __init__(self, options: Options, id: str | None) -> None:
        super().__init__(id=id)
        self._ascii = options.ascii
        self._styles = COLOURED if options.colour else UNCOLOURED

    def line_strip(self, line: Line) -> Strip:
        """A row of the screen in the width of the widget: what does not fit is left out. Segments are never parsed as markup."""
        base, line = self.rich_style, filled(line, self.size.width)
        segments = (
            Segment(text, base + self._styles[style] + (_SELECTED if selected else None))
            for text, style, selected, _ in (in_ascii(line) if self._ascii else line)
        )
        return Strip(segments, self.size.width)

    def repaint(self, rows: Iterable[int]) -> None:
        """Paints these rows again; all of a hidden widget: what it drew before must not be there when it is shown again."""
        regions = [Region(0, y, self.size.width, 1) for y in rows]
        if regions or not self.size.area:
            self.refresh(*regions)


class LinesView(LineWidget):
    """Shows lines as they are handed in. ``draw(width, height)``, where given, makes the lines anew on ``redraw()`` and on every
    change of size."""

    _lines: tuple[Line, ...] = ()

    def __init__(
        self, options: Options, id: str | None = None, draw: Callable[[int, int], Sequence[Line]] | None = None
    ) -> None:
        super().__init__(options, id)
        self.draw = draw

    def on_unmount(self) -> None:
        # Textual's StylesCache.get_inner_outer is an lru_cache of 1,024 that holds the caches of removed widgets: they may
        # stay, but not with a screenful of strips each (60 MB in time).
        self.refresh()

    def key_at(self, x: int, y: int) -> str:
        """The key whose name, or the label after it, is at this cell; "" where there is none."""
        line = self._lines[y] if 0 <= y < len(self._lines) else ()
        key, edge = "", 0
        for span in line:
            if edge > x:
                break
            if span.style is Style.KEY:
                key = span.text.strip(" [").partition(" ")[0]
            elif span.style is Style.RULE:
                key = ""  # the border of a panel
            elif " · " in span.text and x >= edge + text_width(span.text.rpartition(" · ")[0]) + 1:
                key = ""
            edge += text_width(span.text)
        return key if x < edge else ""

    def steps_to(self, x: int, y: int) -> int | None:
        """The distance in rows from the chosen row to the one at this cell. None where there is none, or none is chosen."""
        chosen = (span.row for line in self._lines for span in line if span.text.startswith("▌") and span.row is not None)
        start, row, edge = next(chosen, None), None, 0
        for span in self._lines[y] if 0 <= y < len(self._lines) else ():
            if edge > x:
                break
            row, edge = span.row, edge + text_width(span.text)
        return None if start is None or row is None else row - start

    def show(self, lines: Sequence[Line]) -> None:
        """Shows these lines instead; paints the rows that differ."""
        old, self._lines = self._lines, tuple(lines)
        height = self.size.height
        pairs = zip_longest(old[:height], self._lines[:height], fillvalue=())
        self.repaint(y for y, (before, after) in enumerate(pairs) if before != after)

    def show_all(self, lines: Sequence[Line]) -> None:
        """Shows these lines, and becomes as high as they are many."""
        if self.styles.height is None or self.styles.height.value != len(lines):
            self.styles.height = len(lines)
        self.show(lines)

    def redraw(self) -> None:
        """Draws again at the present size."""
        width, height = self.size
        if self.draw is not None:
            self.show(self.draw(width, height) if width and height else ())

    def on_resize(self) -> None:
        self.redraw()

    def render_line(self, y: int) -> Strip:
        return self.line_strip(self._lines[y] if y < len(self._lines) else ())


T = TypeVar("T")

WHEEL = 3
"""Lines per step of the wheel."""


class VirtualList(LineWidget, Generic[T]):
    """Draws the rows of a listing that is kept elsewhere, with ``draw(item, width, selected, marked)``.

    The cursor is on a key, not on a row number: when rows come or go above it, it stays on its row and on its line of the screen.
    It moves inside the page; at an edge the page is flipped, because each scrolled line costs bytes.
    Rows that are not read yet show ``…``. Has no border and no padding.
    """

    @dataclass
    class RowsWanted(Message):
        """Asks for the rows from ``start`` to before ``end``; the answer is ``set_list``."""

        start: int
        end: int

    @dataclass
    class CursorMoved(Message):
        """The cursor is on another row; ``key`` None where that row has not been read yet or the list is empty."""

        index: int
        key: Hashable

    class Resized(Message):
        """The size changed: column titles next to the list must be drawn again."""

    class Activated(Message):
        """The row under the cursor is to be opened."""

    empty: Line = ()
    length = 0
    generation = -1
    cursor = 0
    """The row that the cursor is on."""
    key: Hashable = None
    """The key that the cursor is on, None where its row has not been read or there is none."""
    _top = 0
    _page = 1
    _items: Sequence[T] = ()
    """The rows that were read, from ``_first`` on."""
    _first = 0
    _asked: tuple[int, int, int] | None = None
    _marks: Collection[Hashable] = frozenset()
    _reported: tuple[int, Hashable] = (0, None)
    _before: tuple[int, int, Hashable, int] | None = None
    """The cursor, the top of the page, the key and the generation before an incomplete list was shown."""
    _put: tuple[int, Hashable] = (0, None)
    _moved = False

    def __init__(
        self, draw: Callable[[T, int, bool, bool], Line], key_of: Callable[[T], Hashable], options: Options, id: str | None = None
    ) -> None:
        super().__init__(options, id)
        self.draw = draw
        self.key_of = key_of
        self._painted: dict[int, Line] = {}

    # State

    @property
    def item(self) -> T | None:
        """The row under the cursor, None where it has not been read."""
        return self._item(self.cursor)

    def _item(self, index: int) -> T | None:
        at = index - self._first
        return self._items[at] if 0 <= at < len(self._items) and index < self.length else None

    @property
    def _here(self) -> tuple[int, Hashable]:
        return self.cursor, self.key

    # Setting rows

    def set_list(
        self, length: int, generation: int, *, cursor: int | None = None, anchor: Hashable = None, start: int = 0,
        items: Sequence[T] = (), passing: bool = False,
    ) -> None:  # fmt: skip
        """Replaces the listing. ``items`` are its rows from ``start`` on, as far as read.

        ``cursor`` is the place of ``anchor`` in it, None if it is gone; ``anchor`` is the ``key`` that was searched for
        (None: the present one). If the row is gone, the cursor moves to the row that took its place. ``generation`` -1: there is
        no list yet, and the next complete one begins at its ``cursor``, whatever was shown before it was complete.

        ``passing``: these are the first rows of an incomplete listing, between which others may come. The cursor is put at
        ``cursor``, which posts no message, and returns to its former place once the list is complete, unless it was moved.
        """
        before, self._before = self._before, None
        if before is not None:
            self._moved = self._here != self._put
            if not self._moved:
                self.cursor, self._top, self.key, self.generation = before
                self._reported = self._here
        self._moved = self._moved and passing
        first = self.generation < 0
        if passing:
            cursor, anchor = None if self._moved else cursor or 0, None
            if not self._moved:
                self._before = (self.cursor, self._top, self.key, self.generation)
                self.key = None
        line = self.cursor - self._top
        index = next((at for at, item in enumerate(items, start) if self.key_of(item) == self.key), None)
        if index is None and anchor in (None, self.key):
            index = cursor
        if index is None:
            index, self.key = self.cursor, None
        self.length, self.generation, self._asked = length, generation, None
        self._first, self._items = start, items
        self.cursor = within(index, length)
        self._place(self.cursor - line)
        if (item := self.item) is not None:
            self.key = self.key_of(item)
        if self._before is not None:
            self._reported = self._put = self._here
        elif first and cursor is not None:
            self._turn_to(cursor)
        self._settle()

    def set_marks(self, marks: Collection[Hashable]) -> None:
        """Sets the marked keys. The collection is not copied, so a million marks cost nothing."""
        self._marks = marks
        self.tick()

    # Moving

    def move_by(self, rows: int) -> None:
        self.go_to(self.cursor + rows)

    def page(self, pages: float) -> None:
        """Moves whole pages, with the cursor on the same line of the screen; half a page moves the cursor only."""
        if abs(pages) != 1:
            self.move_by(int(max(1, self.size.height) * pages))
            return
        line = self.cursor - self._top
        index = within(self.cursor + int(pages) * self._page, self.length)
        self._place(index - line)
        self._turn_to(index)
        self._settle()

    def go_to(self, index: int) -> None:
        """Moves the cursor to a row, and flips the page where the row is not on it."""
        top, left = self._top, self.cursor
        self._turn_to(index)
        self._settle(None if self._top != top else (left - top, self.cursor - top))

    def _turn_to(self, index: int) -> None:
        index = within(index, self.length)
        if index < self._top:
            self._place(index - self._page + 1)
        elif index >= self._top + self._page:
            self._place(index)
        self.cursor = index
        item = self.item
        self.key = None if item is None else self.key_of(item)

    def _place(self, top: int) -> None:
        """Makes a row the first of the page, as far as the list allows."""
        self._top = max(0, min(top, self.length - self._page))

    # Painting

    def tick(self, rows: Iterable[int] | None = None) -> None:
        """Draws the page again (or these rows of it) and repaints the rows that differ."""
        page = range(self.size.height)
        shown = page if rows is None else [y for y in rows if y in page]
        self.repaint(y for y in shown if self._painted.get(y) != self._line(y))

    def render_line(self, y: int) -> Strip:
        self._painted[y] = self._line(y)
        return self.line_strip(self._painted[y])

    def on_resize(self) -> None:
        self._painted.clear()
        self._page = max(1, self.size.height)
        on_page = self._top <= self.cursor < self._top + self._page
        self._place(self._top if on_page else self.cursor - self._page + 1)
        self._settle()
        self.post_message(self.Resized())

    def on_click(self, event: Click) -> None:
        event.stop()
        index = self._top + event.y
        if event.button != 1 or index >= self.length:
            return
        if index == self.cursor:
            self.post_message(self.Activated())
        else:
            self.go_to(index)

    def _line(self, y: int) -> Line:
        index = self._top + y
        width = self.size.width
        if index >= self.length:
            return self.empty if y == 0 and not self.length else ()
        selected = index == self.cursor
        item = self._item(index)
        if item is None:
            line = dim("  …")
            return select(line) if selected else line
        return self.draw(item, width, selected, self.key_of(item) in self._marks)

    def _settle(self, rows: Iterable[int] | None = None) -> None:
        """Called after any change (in these rows of the page only): posts a message where the cursor moved, asks for the page and
        its neighbours where rows of the page are missing, and paints what differs."""
        if self._here != self._reported:
            self._reported = self._here
            self.post_message(self.CursorMoved(*self._here))
        page = range(self._top, min(self.length, self._top + self._page))
        want = (self.generation, max(0, self._top - self._page), min(self.length, self._top + 2 * self._page))
        missing = page and None in (self._item(page[0]), self._item(page[-1]))
        if missing and want != self._asked:
            self._asked = want
            self.post_message(self.RowsWanted(*want[1:]))
        self.tick(rows)
