"""The window of a long list that is held, and the cursor on a key in it. Knows nothing of drawing or of Textual."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")


class Window(Generic[T]):
    """Rows of a listing that is kept elsewhere. ``height`` is the number of rows of a page.

    The cursor is on a key, not on a row number: when rows come or go above it, it stays on its row and on its line of the page.
    It moves inside the page; at an edge the page is flipped.
    """

    def __init__(self, key_of: Callable[[T], Hashable]) -> None:
        self.key_of = key_of
        self.length = 0
        self.generation = -1
        self.height = 1
        self.top = 0
        self.cursor = 0
        self.key: Hashable = None
        self.items: list[T] = []
        self._start = 0
        self._held = -1
        self._asked: tuple[int, int, int] | None = None

    def item(self, index: int) -> T | None:
        """The row at ``index``, None where it is not held."""
        at = index - self._start
        return self.items[at] if 0 <= at < len(self.items) and index < self.length else None

    def wanted(self) -> tuple[int, int]:
        """The rows that should be held: the page and one on either side."""
        return max(0, self.top - self.height), min(self.length, self.top + 2 * self.height)

    def ask(self) -> tuple[int, int, int] | None:
        """(generation, start, stop) of the rows to ask for: where rows of the page are missing and were not asked for, the page
        and its neighbours; else None."""
        shown = range(self.top, min(self.length, self.top + self.height))
        missing = self._held != self.generation or (shown and None in (self.item(shown[0]), self.item(shown[-1])))
        want = (self.generation, *self.wanted())
        if not shown or not missing or want == self._asked:
            return None
        self._asked = want
        return want

    def set_list(
        self, length: int, generation: int, *, cursor: int | None, anchor: Hashable, start: int, items: Sequence[T]
    ) -> None:
        """Replaces the listing, as ``VirtualList.set_list`` says."""
        line = self.cursor - self.top
        index = self._found(start, items)
        if index is None and cursor is not None and anchor in (None, self.key):
            index = cursor
        if index is None:
            index = self.cursor
            self.key = None
        self.length = length
        self.generation = generation
        self._asked = None
        shift = index - self.cursor
        self.cursor = max(0, min(index, length - 1))
        self.place(self.cursor - line)
        if items or not length:
            self._hold(start, items)
        else:
            self._start += shift  # the old rows are shown until the new ones are read, so that the screen does not flicker

    def set_rows(self, start: int, items: Sequence[T]) -> None:
        """Sets rows of this listing from ``start`` on."""
        self._asked = None
        index = self._found(start, items)
        if index is not None and index != self.cursor:
            line = self.cursor - self.top
            self.cursor = index
            self.place(index - line)
        self._hold(start, items)

    def go_to(self, index: int) -> None:
        """Moves the cursor to a row, and flips the page where the row is not on it."""
        index = max(0, min(index, self.length - 1))
        if index < self.top:
            self.place(index - self.height + 1)
        elif index >= self.top + self.height:
            self.place(index)
        self.cursor = index
        item = self.item(index)
        self.key = None if item is None else self.key_of(item)

    def page(self, pages: int) -> None:
        """Moves whole pages, with the cursor on the same line of the page."""
        line = self.cursor - self.top
        index = max(0, min(self.cursor + pages * self.height, self.length - 1))
        self.place(index - line)
        self.go_to(index)

    def resize(self, height: int) -> None:
        """Changes the number of rows per page; the cursor stays on the page."""
        self.height = max(1, height)
        if not self.top <= self.cursor < self.top + self.height:
            self.place(self.cursor - self.height + 1)
        self.place(self.top)

    def place(self, top: int) -> None:
        """Makes a row the first of the page, as far as the list allows."""
        self.top = max(0, min(top, self.length - self.height))

    def _hold(self, start: int, items: Sequence[T]) -> None:
        self._start, self.items, self._held = start, list(items), self.generation
        item = self.item(self.cursor)
        if item is not None:
            self.key = self.key_of(item)

    def _found(self, start: int, items: Sequence[T]) -> int | None:
        if self.key is None:
            return None
        return next((start + i for i, item in enumerate(items) if self.key_of(item) == self.key), None)
