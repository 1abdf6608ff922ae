"""The cells of the terminal, as they are wanted and as they are on it, so that only their difference is written.

Textual writes a changed region whole. A key that shows another view changes nearly every region, but many cells of it stay blank
or keep their character.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import repeat
from typing import TypeAlias

from rich.cells import get_character_cell_size

Cell: TypeAlias = tuple[str, str] | None
"""The characters of a cell (none in the right half of a wide character) and its SGR parameters; None where nobody drew it."""

_TOKEN = re.compile(r"\x1b\[(?:([0-9]+);([0-9]+)H|([0-9;]*)m)|([^\x00-\x1f\x7f]+)|\n")
_BLANK = (" ", "")
_INVISIBLE = frozenset({"", "1", "2", "3", "22", "23", *map(str, range(30, 38)), *map(str, range(90, 98))})
"""Parameters that do not change how a blank looks."""
_SINGLE = set(map(chr, range(0x20, 0x7F)))
"""Characters that are known to take one cell."""
_KNOWN = 4096
"""So many are remembered."""
_GAP = 4
"""Unchanged cells in a row that cost no more to write again than to jump over."""


@lru_cache(maxsize=256)
def _parameters(words: str) -> str:
    """SGR parameters in a form that equal looks share: the default colours are left out."""
    parts = words.split(";")
    if "38" in parts or "48" in parts:
        return words
    return ";".join(part for part in parts if part not in ("", "0", "39", "49"))


@lru_cache(maxsize=256)
def _of_blank(style: str) -> str:
    """The parameters that a blank in this style needs: none where it looks like any blank."""
    return "" if _INVISIBLE.issuperset(style.split(";")) else style


def _cells(text: str, style: str) -> list[Cell]:
    """The cells that a text takes."""
    blank = (" ", _of_blank(style))
    if _SINGLE.issuperset(text):
        alike = zip(text, repeat(style))
        return [*alike] if blank[1] == style else [blank if cell[0] == " " else cell for cell in alike]
    cells: list[Cell] = []
    last = 0
    for char in text:
        size = get_character_cell_size(char)
        if size == 1 and len(_SINGLE) < _KNOWN:
            _SINGLE.add(char)
        if size:
            last = len(cells)
            cells.append(blank if char == " " else (char, style))
            cells.extend(repeat(("", style), size - 1))
        elif cells:  # it combines with the character before, whose cells it shares
            cells[last] = ((cells[last] or _BLANK)[0] + char, style)
    return cells


def _uncertain(cell: Cell) -> bool:
    """True for a cell after which terminals may disagree about the place: the end of a wide character, or a letter with marks."""
    return cell is not None and len(cell[0]) != 1


class TerminalImage:
    """``take`` changes what is wanted, ``difference`` returns the output that shows it. After ``forget`` that is all of it.
    ``size``: columns and lines of the frames."""

    def __init__(self) -> None:
        self.resize((0, 0))

    def resize(self, size: tuple[int, int]) -> None:
        """Begins with an empty image of this size, of which nothing is on the terminal."""
        self.size = columns, lines = size
        self._wanted: list[list[Cell]] = [[None] * columns for _ in range(lines)]
        self.forget()

    def forget(self) -> None:
        """Notes that anything may be on the terminal."""
        columns, lines = self.size
        self._shown: list[list[Cell]] = [[None] * columns for _ in range(lines)]

    def take(self, frame: str) -> bool:
        """Takes a frame or a part of one as Textual writes it: places, styles and text. False where it is other output; then
        nothing is taken."""
        pieces: list[tuple[int, int, list[Cell]]] = []
        style, x, y, end = "", 0, -1, 0
        for token in _TOKEN.finditer(frame):
            row, column, words, text = token.groups()
            if token.start() != end or (row is None and y < 0):
                return False
            end = token.end()
            if row is not None:
                x, y = int(column) - 1, int(row) - 1
            elif words is not None:
                style = _parameters(words)
            elif text is not None:
                cells = _cells(text, style)
                pieces.append((x, y, cells))
                x += len(cells)
        if end != len(frame) or y < 0:
            return False
        columns, lines = self.size
        for x, y, cells in pieces:
            if y < lines and x < columns:
                _place(self._wanted[y], x, cells[: columns - x])
        return True

    def difference(self) -> str:
        """Returns the output that changes what is on the terminal to what is wanted, "" where that is the same."""
        pen = _Pen()
        for y, (wanted, shown) in enumerate(zip(self._wanted, self._shown, strict=True)):
            if wanted != shown:
                _write_row(pen, y, wanted, shown)
                self._shown[y] = wanted.copy()
        return pen.output()


class _Pen:
    """Writes cells with as few changes of place and style as possible."""

    _style = ""
    _at: tuple[int, int] | None = None

    def __init__(self) -> None:
        self._out: list[str] = []

    def move(self, x: int, y: int) -> None:
        if self._at is not None and self._at[1] == y and x >= self._at[0]:
            steps = x - self._at[0]
            self._out.append(f"\x1b[{steps}C" if steps else "")
        else:
            self._out.append(f"\x1b[{y + 1};{x + 1}H" if x else f"\x1b[{y + 1}H")
        self._at = (x, y)

    @property
    def placed(self) -> bool:
        """False where terminals may disagree about the place of the pen."""
        return self._at is not None

    def suits(self, cell: Cell) -> bool:
        """True where the cell is one character that can be written without a change of style."""
        if cell is None or len(cell[0]) != 1:
            return False
        return cell[1] == self._style or (cell == _BLANK and not _of_blank(self._style))

    def write(self, cell: tuple[str, str]) -> None:
        if not self.suits(cell) and cell[1] != self._style:
            self._change(cell[1])
        self._out.append(cell[0])
        if _uncertain(cell):
            self._at = None
        elif self._at is not None:
            self._at = (self._at[0] + 1, self._at[1])

    def erase(self) -> None:
        """Erases the rest of the row."""
        if _of_blank(self._style):
            self._change("")
        self._out.append("\x1b[K")

    def output(self) -> str:
        if self._style:
            self._change("")
        return "".join(self._out)

    def _change(self, style: str) -> None:
        self._out.append(f"\x1b[0;{style}m" if style and self._style else f"\x1b[{style}m")
        self._style = style


def _place(row: list[Cell], x: int, cells: list[Cell]) -> None:
    """Puts cells into a row. As on a terminal, a blank replaces the half of a wide character that is left."""
    end = x + len(cells)
    if x and _is_right_half(row[x]):
        row[x - 1] = _BLANK
    if end < len(row) and _is_right_half(row[end]):
        row[end] = _BLANK
    row[x:end] = cells


def _is_right_half(cell: Cell) -> bool:
    return cell is not None and not cell[0]


def _write_row(pen: _Pen, y: int, wanted: list[Cell], shown: list[Cell]) -> None:
    """Writes the cells of row ``y`` that differ; the whole row where terminals may disagree about the places of its cells."""
    whole = any(map(_uncertain, wanted)) or any(map(_uncertain, shown))
    end = len(wanted)
    while end and wanted[end - 1] == _BLANK:
        end -= 1
    after = -1
    for x, cell in enumerate(wanted[:end]):
        if cell is None or (cell == shown[x] and not whole):
            continue
        if after < 0 or not _goes_on(pen, wanted, after, x):
            pen.move(x, y)
        pen.write(cell)
        after = x + 1
    if end < len(wanted) and (whole or shown[end:] != wanted[end:]):
        pen.move(end, y)
        pen.erase()


def _goes_on(pen: _Pen, row: list[Cell], after: int, x: int) -> bool:
    """Brings the pen from column ``after`` to column ``x`` by writing the cells between them again; False where that is longer
    than a jump."""
    if not pen.placed:  # a run of wide characters is written at one go
        return after == x and (_uncertain(row[x]) or (x + 1 < len(row) and _is_right_half(row[x + 1])))
    between = row[after:x]
    if len(between) > _GAP or not all(map(pen.suits, between)):
        return False
    for cell in filter(None, between):
        pen.write(cell)
    return True
