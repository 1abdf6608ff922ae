"""A list of any length that holds a window of rows: it draws a page, keeps a page on either side, and asks for the rest."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from typing import Any, Generic, TypeVar

from textual.events import Click, MouseScrollDown, MouseScrollUp, Resize
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from spooltop.tui.draw.elements.glyphs import UNICODE, Glyphs

from ..draw.elements.spans import Line, Style, changed_until, plain
from .styles import COLOURED, UNCOLOURED, line_strip
from .window import Window

T = TypeVar("T")

WHEEL = 3
"""Lines per step of the wheel."""


class _ListMessage(Message):
    """A message of the list ``control``."""

    def __init__(self, control: VirtualList[Any]) -> None:
        super().__init__()
        self._list = control

    @property
    def control(self) -> VirtualList[Any]:
        return self._list


class _RowMessage(_ListMessage):
    """A message about row ``index`` with its ``key``."""

    def __init__(self, control: VirtualList[Any], index: int, key: Hashable) -> None:
        super().__init__(control)
        self.index = index
        self.key = key


class VirtualList(Widget, Generic[T], can_focus=True):
    """Draws the rows of a listing that is kept elsewhere, with ``draw(item, width, selected, marked)``.

    The cursor is on a key, not on a row number: when rows come or go above it, it stays on its row and on its line of the screen.
    It moves inside the page; at an edge the page is flipped, because each scrolled line costs bytes.
    Rows that are not read yet show ``…``. Has no border and no padding.
    """

    DEFAULT_CSS = """
    VirtualList { height: 1fr; }
    """

    class RowsWanted(_ListMessage):
        """Asks for the rows from ``start`` to before ``end`` of ``generation``; the answer is ``set_rows``."""

        def __init__(self, control: VirtualList[Any], generation: int, start: int, end: int) -> None:
            super().__init__(control)
            self.generation = generation
            self.start = start
            self.end = end

    class CursorMoved(_RowMessage):
        """The cursor is on another row; ``key`` None where that row has not been read yet or the list is empty."""

    class Resized(Message):
        """The size changed: column titles next to the list must be drawn again."""

    class Activated(_RowMessage):
        """The row under the cursor is to be opened."""

    def __init__(
        self,
        draw: Callable[[T, int, bool, bool], Line],
        key: Callable[[T], Hashable],
        *,
        glyphs: Glyphs = UNICODE,
        colour: bool = True,
        empty: Line = (),
        id: str | None = None,
        classes: str | None = None,
    ) -> None:
        super().__init__(id=id, classes=classes)
        self.draw = draw
        self.glyphs = glyphs
        self.empty = empty
        self._styles_of = COLOURED if colour else UNCOLOURED
        self._window: Window[T] = Window(key)
        self._marks: Collection[Hashable] = frozenset()
        self._reported: tuple[int, Hashable] = (0, None)
        self._painted: dict[int, Line] = {}
        self._before: tuple[int, int, Hashable, int] | None = None
        """The cursor, the top of the page, the key and the generation before an incomplete list was shown."""
        self._put: tuple[int, Hashable] = (0, None)
        self._moved = False

    # State

    def __len__(self) -> int:
        return self._window.length

    def __bool__(self) -> bool:
        return True  # an empty list is still a widget

    @property
    def generation(self) -> int:
        return self._window.generation

    @property
    def top(self) -> int:
        """The index of the first row on the screen."""
        return self._window.top

    @property
    def held(self) -> Sequence[T]:
        """The rows that it holds now."""
        return self._window.items

    @property
    def cursor_index(self) -> int:
        return self._window.cursor

    @property
    def cursor_key(self) -> Hashable:
        """The key that the cursor is on, None where its row has not been read or there is none."""
        return self._window.key

    @property
    def cursor_item(self) -> T | None:
        return self._window.item(self._window.cursor)

    @property
    def marks(self) -> Collection[Hashable]:
        return self._marks

    # Setting rows

    def set_list(
        self,
        length: int,
        generation: int,
        *,
        cursor: int | None = None,
        anchor: Hashable = None,
        start: int = 0,
        items: Sequence[T] = (),
    ) -> None:
        """Replaces the listing. ``items`` are its rows from ``start`` on, as far as read.

        ``cursor`` is the place of ``anchor`` in it, None if it is gone; ``anchor`` is the ``cursor_key`` that was searched for
        (None: the present one). If the row is gone, the cursor moves to the row that took its place. ``generation`` -1: there is
        no list yet, and the next complete one begins at its ``cursor``, whatever was shown before it was complete.
        """
        self._come_back()
        self._moved = False
        first = self._window.generation < 0
        self._window.set_list(length, generation, cursor=cursor, anchor=anchor, start=start, items=items)
        if first and cursor is not None:
            self._window.go_to(cursor)
        self._settle()

    def set_passing(self, length: int, generation: int, *, cursor: int, items: Sequence[T]) -> None:
        """Shows the first rows of an incomplete listing, between which others may come. The cursor is at ``cursor``, which posts
        no message, and returns to its former place once the list is complete, unless it was moved."""
        window = self._window
        self._come_back()
        if self._moved:
            window.set_list(length, generation, cursor=None, anchor=None, start=0, items=items)
        else:
            self._before = (window.cursor, window.top, window.key, window.generation)
            window.key = None
            window.set_list(length, generation, cursor=cursor, anchor=None, start=0, items=items)
            self._reported = self._put = (window.cursor, window.key)
        self._settle()

    def _come_back(self) -> None:
        """Returns the cursor from the place that ``set_passing`` gave it, unless it was moved from there."""
        window, before, self._before = self._window, self._before, None
        if before is None:
            return
        self._moved = (window.cursor, window.key) != self._put
        if not self._moved:
            window.cursor, window.top, window.key, window.generation = before
            self._reported = (window.cursor, window.key)

    def set_rows(self, start: int, items: Sequence[T], generation: int) -> None:
        """Sets the rows from ``start`` on. Rows of another generation are ignored."""
        if generation == self._window.generation:
            self._window.set_rows(start, items)
            self._settle()

    def set_marks(self, marks: Collection[Hashable]) -> None:
        """Sets the marked keys. The collection is not copied, so a million marks cost nothing."""
        self._marks = marks
        self.tick()

    # Moving

    def move_by(self, rows: int) -> None:
        self.go_to(self._window.cursor + rows)

    def page(self, pages: int) -> None:
        """Moves whole pages, with the cursor on the same line of the screen."""
        self._window.page(pages)
        self._settle()

    def home(self) -> None:
        self.go_to(0)

    def end(self) -> None:
        self.go_to(self._window.length - 1)

    def go_to(self, index: int) -> None:
        """Moves the cursor to a row, and flips the page where the row is not on it."""
        window = self._window
        top, left = window.top, window.cursor
        window.go_to(index)
        self._settle(None if window.top != top else (left - top, window.cursor - top))

    def activate(self) -> None:
        if self._window.length:
            self.post_message(self.Activated(self, self._window.cursor, self._window.key))

    # Painting

    def tick(self, rows: Iterable[int] | None = None) -> int:
        """Draws the page again (or these rows of it) and repaints the rows that differ, each up to its last change; returns their
        number."""
        width, height = self.size
        if not height:
            self.refresh()  # it is hidden: what it drew before must not be on the screen when it is shown again
            return 0
        regions = []
        for y in range(height) if rows is None else [y for y in rows if 0 <= y < height]:
            # an unknown row may show anything: an empty line covers all of it
            edge = changed_until(self._painted[y], self._line(y)) if y in self._painted else width
            if edge:
                regions.append(Region(0, y, min(edge, width), 1))
        if regions:
            self.refresh(*regions)
        return len(regions)

    def render_line(self, y: int) -> Strip:
        line = self._painted[y] = self._line(y)
        return line_strip(line, self.size.width, self.rich_style, self._styles_of)

    def on_resize(self, event: Resize) -> None:
        self._painted.clear()
        self._window.resize(self.size.height)
        self._settle()
        self.post_message(self.Resized())

    def on_click(self, event: Click) -> None:
        event.stop()
        index = self._window.top + event.y
        if event.button != 1 or index >= self._window.length:
            return
        if index == self._window.cursor:
            self.activate()
        else:
            self.go_to(index)

    def on_mouse_scroll_down(self, event: MouseScrollDown) -> None:
        event.stop()
        self.move_by(WHEEL)

    def on_mouse_scroll_up(self, event: MouseScrollUp) -> None:
        event.stop()
        self.move_by(-WHEEL)

    def _line(self, y: int) -> Line:
        window = self._window
        index = window.top + y
        width = self.size.width
        if index >= window.length:
            return self.glyphs.line(self.empty) if y == 0 and not window.length else ()
        selected = index == window.cursor
        item = window.item(index)
        if item is None:
            return self.glyphs.line(plain("  …".ljust(width), width, Style.SELECTED if selected else Style.DIM))
        return self.glyphs.line(self.draw(item, width, selected, window.key_of(item) in self._marks))

    def _settle(self, rows: Iterable[int] | None = None) -> None:
        """Called after any change (in these rows of the page only): posts a message where the cursor moved, asks for missing
        rows, and paints what differs."""
        window = self._window
        if (window.cursor, window.key) != self._reported:
            self._reported = (window.cursor, window.key)
            self.post_message(self.CursorMoved(self, window.cursor, window.key))
        if (want := window.ask()) is not None:
            self.post_message(self.RowsWanted(self, *want))
        self.tick(rows)
