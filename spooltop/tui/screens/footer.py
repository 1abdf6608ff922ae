"""The line of keys: as many entries of the table as fit."""

from __future__ import annotations

from collections.abc import Container

from ..command_lists import tabs
from ..context import View
from ..draw.elements.spans import Line, Span, Style, join, line_width

ALWAYS = ("/", "z", "?", "q", "Esc")
"""Keys that are shown next to the views."""
_SHORT = {"consumers": "Cons", "cursors": "Curs"}
"""Labels of views where the whole line does not fit with the others."""


def footer_line(entries: list[tuple[str, str]], width: int) -> Line:
    """As many of the keys as fit, the most important first, and always the key to leave."""
    out: Line = (Span(" "),)
    leaving = [_part(entry) for entry in entries if entry[0] == "Esc"]
    for at, entry in enumerate(entries):
        part = _part(entry, first=not at)
        left = leaving if entry[0] != "Esc" and leaving else []
        if line_width(out) + line_width(part) + sum(map(line_width, left)) > width:
            return join(out, *left)
        out = join(out, part)
        leaving = left
    return out


def _part(entry: tuple[str, str], *, first: bool = False) -> Line:
    key, words = entry
    return join("" if first else " · ", Span(key, Style.KEY), f" {words}")


def tab_line(root: View, entries: list[tuple[str, str]], width: int, absent: Container[str] = ()) -> Line:
    """The views by number, the one in front reversed, and the keys that are always shown. Where space is short, labels of views
    are shortened first, then Esc goes, then keys lose theirs from the right on."""
    keys = [(key, words) for key, words in entries if key in ALWAYS]
    rest = [join(" ", Span(key, Style.KEY), f" {words}") for key, words in keys]
    views = _tabs(root, width, absent, short=False)
    if line_width(views) + sum(map(line_width, rest)) > width:
        views = _tabs(root, width, absent, short=True)
    if keys and keys[-1][0] == "Esc" and line_width(views) + sum(map(line_width, rest)) > width:
        del rest[-1]
    for at in reversed(range(len(rest))):
        if line_width(views) + sum(map(line_width, rest)) <= width:
            break
        rest[at] = rest[at][:-1]
    for part in rest:
        if line_width(views) + line_width(part) <= width:
            views = join(views, part)
    return views


def _tabs(root: View, width: int, absent: Container[str], *, short: bool) -> Line:
    """As many of the views as fit."""
    out: Line = (Span(" "),)
    for view, key, words in tabs(absent):
        styles = (Style.SELECTED, Style.SELECTED) if view == root else (Style.KEY, Style.NORMAL)
        part = join(Span(key, styles[0]), Span(_SHORT.get(view, words) if short else words, styles[1]), " ")
        if line_width(out) + line_width(part) > width:
            break
        out = join(out, part)
    return out
