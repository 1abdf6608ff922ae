"""A terminal's screen as SVG: no script, no font from elsewhere, the same bytes for the same screen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from rich.cells import cell_len
from rich.color import ColorType
from rich.segment import Segment
from rich.style import Style

__all__ = ["DARK", "LIGHT", "Palette", "svg"]

CELL, LINE, SIZE, BASE = 8.43, 17.0, 14.0, 13.0
"""Pixels: width and height of a cell, size of the letters, and how far down in a cell they stand."""
EDGE = 12.0
FONTS = "'DejaVu Sans Mono','Menlo','Consolas','Liberation Mono',monospace"

# Bars are drawn and not written: what a font makes of them neither meets nor aligns.
_BARS = {char: n / 8 for n, char in enumerate("▁▂▃▄▅▆▇█", start=1)}
_HALF = "▌"


@dataclass(frozen=True, slots=True)
class Palette:
    """Colours that a terminal gives to its own palette. ``dim`` is the share of the background mixed into a dim letter."""

    name: str
    ground: str
    ink: str
    colours: tuple[str, ...]
    dim: float


DARK = Palette(
    "dark", "#15171c", "#d4d7dd",
    ("#15171c", "#ff6e67", "#7ec87e", "#e6c062", "#7aa8f0", "#d38ae0", "#63bccb", "#d4d7dd"), 0.38,
)  # fmt: skip
LIGHT = Palette(
    "light", "#fdfdfb", "#1d1f24",
    ("#1d1f24", "#b5211b", "#1c7431", "#855c00", "#1f4fa8", "#8a2b98", "#0a6c80", "#fdfdfb"), 0.36,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Look:
    ink: str
    ground: str
    bold: bool


def _mixed(one: str, other: str, share: float) -> str:
    pairs = zip(bytes.fromhex(one[1:]), bytes.fromhex(other[1:]), strict=True)
    return "#" + bytes(round(a + (b - a) * share) for a, b in pairs).hex()


def _look(style: Style | None, palette: Palette) -> _Look:
    style = style or Style()
    ink, ground = palette.ink, palette.ground
    if style.color is not None and style.color.type is ColorType.STANDARD and style.color.number is not None:
        ink = palette.colours[style.color.number % 8]
    elif style.color is not None and style.color.type is not ColorType.DEFAULT:
        raise ValueError(f"not one of the sixteen colours of a terminal: {style.color}")
    if style.reverse:
        ink, ground = ground, ink
    if style.dim:
        ink = _mixed(ink, ground, palette.dim)
    return _Look(ink, ground, bool(style.bold))


def _runs(row: Iterable[Segment], palette: Palette) -> list[tuple[int, str, _Look]]:
    """Splits a row into (start column, text, look); neighbours with the same look are joined."""
    runs: list[tuple[int, str, _Look]] = []
    x = 0
    for segment in row:
        look = _look(segment.style, palette)
        if runs and runs[-1][2] == look:
            runs[-1] = (runs[-1][0], runs[-1][1] + segment.text, look)
        else:
            runs.append((x, segment.text, look))
        x += cell_len(segment.text)
    return runs


def _px(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _rect(x: float, y: float, width: float, height: float, fill: str) -> str:
    return f'<rect x="{_px(x)}" y="{_px(y)}" width="{_px(width)}" height="{_px(height)}" fill="{fill}"/>'


def _bars(x: int, y: float, text: str, ink: str) -> list[str]:
    """Neighbours of one height as one rectangle."""
    out, at = [], 0
    while at < len(text):
        char, end = text[at], at
        while end < len(text) and text[end] == char:
            end += 1
        if char == _HALF:
            out.append(_rect(EDGE + (x + at) * CELL, y, CELL / 2, LINE, ink))
        elif char in _BARS:
            height = LINE * _BARS[char]
            out.append(_rect(EDGE + (x + at) * CELL, y + LINE - height, (end - at) * CELL, height, ink))
        at = end
    return out


def svg(rows: Sequence[Iterable[Segment]], columns: int, palette: Palette, title: str) -> str:
    """The picture; ``title`` is what a reader of pictures reads aloud."""
    width, height = columns * CELL + 2 * EDGE, len(rows) * LINE + 2 * EDGE
    shapes: list[str] = []
    letters: list[str] = []
    classes: dict[tuple[str, bool], str] = {}
    for n, row in enumerate(rows):
        y = EDGE + n * LINE
        for x, text, look in _runs(row, palette):
            if look.ground != palette.ground:
                shapes.append(_rect(EDGE + x * CELL, y, cell_len(text) * CELL, LINE, look.ground))
            if cell_len(text) == len(text):
                shapes += _bars(x, y, text, look.ink)
                text = "".join(" " if char in _BARS or char == _HALF else char for char in text)
            name = classes.setdefault((look.ink, look.bold), f"c{len(classes)}")
            for at, words in _words(text):
                length = _px(cell_len(words) * CELL)
                letters.append(
                    f'<text class="{name}" x="{_px(EDGE + (x + at) * CELL)}" y="{_px(y + BASE)}" textLength="{length}">'
                    f"{escape(words, quote=False)}</text>"
                )
    styles = "".join(
        f".{name}{{fill:{ink}{';font-weight:bold' if bold else ''}}}" for (ink, bold), name in classes.items()
    )
    area = f'width="{_px(width)}" height="{_px(height)}"'
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" {area} viewBox="0 0 {_px(width)} {_px(height)}" role="img">',
            f"<title>{escape(title, quote=False)}</title>",
            f"<style>text{{font:{_px(SIZE)}px {FONTS};white-space:pre}}{styles}</style>",
            f'<rect {area} rx="6" fill="{palette.ground}"/>',
            '<g shape-rendering="crispEdges">',
            *shapes,
            "</g>",
            *letters,
            "</svg>\n",
        )
    )


def _words(text: str) -> list[tuple[int, str]]:
    """Pieces of a text between two or more blanks, each with the cell where it begins: a font that is wider than a cell
    drifts no further than to the next of them."""
    out: list[tuple[int, str]] = []
    at = 0
    for piece in text.split("  "):
        words = piece.strip(" ")
        if words:
            out.append((at + cell_len(piece) - cell_len(piece.lstrip(" ")), words))
        at += cell_len(piece) + 2
    return out
