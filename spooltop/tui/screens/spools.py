"""The Spools view: several targets, a line each. It changes nothing: a target is opened first."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import lru_cache

from msgspec import Struct
from textual.app import ComposeResult

from spooltop.model import vocabulary as units
from spooltop.model.backend import Sort
from spooltop.model.target import full_name, without_secrets
from spooltop.model.vocabulary import ASIDE, Box, escape
from spooltop.monitor.spools_watch import Glance, Level, SpoolsWatch, natural, worst_first

from ..commands import CommandContext, View, by_id
from ..draw.elements import (
    BLANK,
    Line,
    Lines,
    Span,
    Style,
    ago,
    clip,
    clip_left,
    dim,
    first_fit,
    join,
    line_width,
    pad,
    pad_left,
    select,
    shown,
    spread,
    text_width,
    when,
)
from ..draw.header import notice_lines
from ..draw.panels import spark
from ..widgets import LinesView, VirtualList
from .base import AppSession, LineEdit, ListScreen

_SIGNS = {
    Level.SILENT: Style.BAD("✗"), Level.CRITICAL: Style.BAD("✗"), Level.UNKNOWN: Style.WARN("?"),
    Level.WARNING: Style.WARN("!"), Level.NOTE: Style.DIM("·"), Level.FINE: Style.GOOD("✓"),
    Level.PENDING: Span(" "),
}  # fmt: skip
_PAUSED = Style.WARN("‖")
_MARGIN = 3
_PROBLEM_LEAST = 16
"""Cells of the problem for which other columns make room."""


def _short(count: int | None) -> str:
    """A count in at most 6 cells: 12,412, then 123k, 1.2M."""
    if count is None:
        return "?"
    if count < 100_000:
        return f"{count:,}"
    return f"{count // 1000}k" if count < 1_000_000 else f"{count / 1e6:.1f}M" if count < 100_000_000 else f"{count // 10**6}M"


def _figure(one: Glance, now: float, figure: float | None) -> Span:
    return Span(("" if one.complete else "≥") + _short(None if figure is None else int(figure)))


def _dead(one: Glance, now: float, figure: float | None) -> Span:
    return Style.BAD("?" if one.dead is None else _short(one.dead), one.dead)


def _oldest(one: Glance, now: float, figure: float | None) -> Span:
    if one.snapshot is None or one.count(Box.NEW) is None:
        return Span("?")
    return Span(ago(one.oldest_at, now))


def _rate(one: Glance, now: float, figure: float | None) -> Span:
    if figure is None or one.snapshot is None:
        return Span("?" if one.snapshot is None else "·")
    bound = "≥" if one.snapshot.rates.lower_bound else ""
    return Span(bound + units.rate(figure).removesuffix("/s"))


class SpoolColumn(Struct, frozen=True):
    """A column of figures. ``words`` name it in the menu of orders; ``figure`` is what is sorted by, the largest first, and
    ``value`` what is shown of it. A window narrower than ``min_screen`` omits the column."""

    sort: str
    width: int
    words: str
    figure: Callable[[Glance], float | None]
    value: Callable[[Glance, float, float | None], Span] = _figure
    min_screen: int = 0
    title: str = ""


_COLUMNS = (
    SpoolColumn("new", 6, "messages in new", lambda one: one.count(Box.NEW)),
    SpoolColumn("dead", 4, "claims of dead consumers", lambda one: one.dead, _dead, 56),
    SpoolColumn("oldest", 6, "age of the oldest in new", lambda one: one.oldest_at and -one.oldest_at, _oldest, 48),
    SpoolColumn("in", 5, "in/s", lambda one: one.rates[0], _rate, 70, "in/s"),
    SpoolColumn("done", 6, "done/s", lambda one: one.rates[1], _rate, 70, "done/s"),
    SpoolColumn("cur", 6, "claims", lambda one: one.count(Box.CUR), min_screen=110),
    SpoolColumn("tmp", 5, "files in tmp", lambda one: one.count(Box.TMP), min_screen=110),
    SpoolColumn("aside", 6, "messages set aside", lambda one: one.count(*ASIDE), min_screen=110),
)
SORTS: Mapping[str, str] = {
    "worst": "worst problem first", "name": "name", **{column.sort: column.words for column in _COLUMNS},
}  # fmt: skip
"""Orders of the list and their words in the menu, in the order of ``<`` and ``>``."""


class Frame(Struct, frozen=True):
    """The layout for one width: the columns, the names as they are shown by target, and the part of the paths that all share
    (``place``). ``distinct`` are the names before they are cut."""

    columns: tuple[SpoolColumn, ...]
    names: Mapping[str, str]
    distinct: Mapping[str, str]
    place: str
    name_width: int
    cells: int
    """Cells of the spark line; 0: none."""
    problem: int
    """Cells of the problem."""


@lru_cache(maxsize=1)
def lay_out(targets: tuple[str, ...], width: int) -> Frame:
    """Lays out the columns for these targets. Columns give way to the problem: first the spark line, then those at the right."""
    place, names = _distinct(targets)
    longest = max([6, *map(text_width, names)])
    most = 12 if width < 64 else 20 if width < 110 else 28 if width < 140 else 40
    name_width = min(longest, most)
    columns = [column for column in _COLUMNS if width >= column.min_screen]
    cells = 20 if width >= 130 else 10 if width >= 76 else 0

    def left() -> int:
        figures = sum(column.width + 1 for column in columns) + (cells + 1 if cells else 0)
        return width - _MARGIN - name_width - figures - 3

    if left() < _PROBLEM_LEAST:
        cells = 0
    while len(columns) > 1 and left() < _PROBLEM_LEAST:
        columns.pop()
    short = _shortened(names, name_width)
    shown_as, distinct = dict(zip(targets, short, strict=True)), dict(zip(targets, names, strict=True))
    return Frame(tuple(columns), shown_as, distinct, place, name_width, cells, max(0, left()))


def _distinct(targets: Sequence[str]) -> tuple[str, list[str]]:
    """The directories that all targets share, as ``/var/spool/`` or ``/srv/*/spool``, and the rest of each path. Paths are
    escaped."""
    paths = [escape(full_name(without_secrets(target))) for target in targets]
    parts = [path.split("/") for path in paths]
    if len(paths) < 2 or any("://" in path for path in paths):
        return "", paths
    least = min(map(len, parts)) - 1
    head = next((i for i in range(least) if len({part[i] for part in parts}) > 1), least)
    tail = next((i for i in range(least - head) if len({part[-1 - i] for part in parts}) > 1), least - head)
    rest = ["/".join(part[head : len(part) - tail]) for part in parts]
    if head < 2 and not tail:
        return "", paths
    before = "/".join(parts[0][:head]) + "/"
    return before + (f"*/{'/'.join(parts[0][len(parts[0]) - tail :])}" if tail else ""), rest


def _shortened(names: Sequence[str], width: int) -> list[str]:
    """The names in at most ``width`` cells, cut at the side that keeps most of them apart."""

    def middle(name: str, width: int) -> str:
        if text_width(name) <= width:
            return name
        return clip(name, (width + 1) // 2) + clip_left(name, width // 2).removeprefix("…")

    ways = [[cut(shown(name), width) for name in names] for cut in (clip_left, clip, middle)]
    return max(ways, key=lambda way: len(set(way)))


def in_order(glances: Sequence[Glance], sort: Sort) -> list[Glance]:
    """The glances in this order; descending: the worst, largest or oldest first. What is not known is last."""
    worst = worst_first(glances)
    if sort.column == "worst":
        return worst if sort.descending else worst[::-1]
    if sort.column == "name":
        return sorted(glances, key=lambda one: natural(one.target), reverse=sort.descending)
    figure = next(column.figure for column in _COLUMNS if column.sort == sort.column)
    known = [one for one in worst if figure(one) is not None]
    known.sort(key=lambda one: figure(one) or 0.0, reverse=sort.descending)
    return known + [one for one in worst if figure(one) is None]


def title_line(layout: Frame, sort: Sort) -> Line:
    """The titles above their columns; that of the order has an arrow."""
    parts: list[str | Span] = [" " * _MARGIN]
    for title, cells, key, right in _titles(layout):
        arrow = ("↓" if sort.descending else "↑") if key == sort.column else ""
        text = clip(title, cells - len(arrow)) + arrow
        parts += [(Style.KEY if arrow else Style.DIM)((pad_left if right else pad)(text, cells)), " "]
    return join(*parts)


def _titles(layout: Frame) -> list[tuple[str, int, str, bool]]:
    """(title, cells, sort, aligned right) of each column, left to right."""
    figures = [(column.title or column.sort, column.width, column.sort, True) for column in layout.columns]
    bars = [("new, 5m", layout.cells, "", False)] if layout.cells else []
    return [("spool", layout.name_width, "name", False), *figures, *bars, (" problem", layout.problem + 1, "worst", False)]


def column_at(layout: Frame, x: int) -> str:
    """The sort of the column whose title is at cell ``x``; "" where there is none."""
    edge = _MARGIN
    for _, cells, key, _ in _titles(layout):
        edge += cells + 1
        if x < edge:
            return key
    return ""


def spool_line(one: Glance, layout: Frame, *, now: float, chosen: bool = False) -> Line:
    """The line of a target."""
    style = Style.DIM if one.level in (Level.SILENT, Level.PENDING) else Style.NORMAL
    name = layout.names.get(one.target, shown(escape(one.target)))
    parts: list[str | Span] = [Style.KEY("▌" if chosen else " "), _sign(one), f" {pad(name, layout.name_width)} "]
    for column in layout.columns:
        value = column.value(one, now, column.figure(one))
        text = pad_left(clip(value.text, column.width), column.width)
        parts += [(value.style if style is Style.NORMAL else style)(text), " "]
    if layout.cells:
        parts += [Style.BAR(_bars(one, layout.cells)), " "]
    more = len(one.seen.problems) - 1 if one.silent_for is None else 0
    end = f" +{more}" if more > 0 else ""
    line = join(*parts, f" {clip(shown(one.says), max(0, layout.problem - len(end)))}{end}")
    return select(line) if chosen else line


def _sign(one: Glance) -> Span:
    return _PAUSED if one.only_paused and one.silent_for is None else _SIGNS[one.level]


def _bars(one: Glance, cells: int) -> str:
    """The depth of ``new`` over time; a cell shows the highest of those that share it."""
    history = one.seen.history.get(Box.NEW, ())
    per = max(1, -(-len(history) // cells))
    padded = (*(None,) * (-len(history) % per), *history)
    groups = [padded[at : at + per] for at in range(0, len(padded), per)]
    highest = [max((value for value in group if value is not None), default=None) for group in groups]
    return spark(highest, cells)


def chosen_line(one: Glance | None, width: int) -> Line:
    """The whole path of the chosen target, and as much of its worst problem as fits."""
    if one is None:
        return ()
    path = escape(full_name(without_secrets(one.target)))
    left = join(" ", _sign(one), " ", Style.STRONG(clip_left(shown(path), max(12, width // 2))), "  ")
    says = shown(one.says) or ("no problems detected" if one.snapshot is not None else "")
    return join(left, says)


_ASCENDING = ("name",)
"""The orders that begin with the smallest, as they are chosen."""


class SpoolsScreen(ListScreen):
    """``open_target`` begins to open a target, which takes its time; "" gives up the one that is being opened, ``opening``."""

    sort = Sort("worst")
    filter = ""
    troubled = False
    frozen_at: float | None = None
    opening = ""
    moved = False
    """True once the cursor was moved or a target was opened: until then it is on the first line, whichever that is."""
    now = 0.0
    glances: Sequence[Glance] = ()
    _generation = 0
    _placed: Hashable = None
    """The row that the cursor was on at the end of the last update."""

    def __init__(self, session: AppSession, spools: SpoolsWatch, open_target: Callable[[str], object]) -> None:
        super().__init__(session)
        self.spools = spools
        self.open_target = open_target

    def body(self) -> ComposeResult:
        options = self.session.options
        yield LinesView(options, "top")
        yield VirtualList(self._draw, lambda one: one.target, options, "spools")
        yield LinesView(options, "bottom")

    @property
    def chosen(self) -> Glance | None:
        """The glance under the cursor."""
        return self.rows.item if self.ready else None

    def on_mount(self) -> None:
        self.update()

    def update(self) -> None:
        """Shows the newest glances, unless the display is frozen."""
        if not self.ready:
            return
        if self.frozen_at is None:
            self.glances = self.spools.glances()
            self.now = self.spools.now()
        names = self._layout().distinct
        found = in_order([one for one in self.glances if self._matches(one, names)], self.sort)
        key = self.rows.key
        self.moved = self.moved or key != self._placed  # the mouse moves it, too
        at = next((place for place, one in enumerate(found) if one.target == key), None)
        self._generation += 1
        self.rows.empty = dim(f"   {self._why_empty()}")
        self.rows.set_list(len(found), self._generation, cursor=at, anchor=key, items=found)
        if not self.moved:
            self.rows.go_to(0)
        self._placed = self.rows.key
        self.paint()

    def _matches(self, one: Glance, names: Mapping[str, str]) -> bool:
        """True where its name or worst problem contains all words of the filter, and no ``!word``. ``names``: the part of each
        path that is not the same for all."""
        text = f"{names.get(one.target, one.target)} {one.says} {one.worst.code if one.worst else ''}".lower()
        words = self.filter.lower().split()
        fits = all((word[1:] not in text) if word[0] == "!" and len(word) > 1 else word in text for word in words)
        return fits and (one.troubled or not self.troubled)

    def _why_empty(self) -> str:
        if self.filter:
            return f"nothing matches {shown(self.filter)}; Esc clears the filter"
        return "no spool has a problem; ! shows all" if self.troubled else "no spool is left; R looks for new ones"

    def _layout(self) -> Frame:
        width = self.rows.size.width or self.window_size[0]
        return lay_out(tuple(one.target for one in self.glances), width)

    def _draw(self, one: Glance, width: int, chosen: bool, marked: bool) -> Line:
        return spool_line(one, self._layout(), now=self.now, chosen=chosen)

    def context(self) -> CommandContext:
        return CommandContext(
            View.SPOOLS, rows=self.rows.length if self.ready else 0,
            depth=bool(self.filter) + self.troubled + bool(self.opening),
        )  # fmt: skip

    # Painting

    def paint(self) -> None:
        if not (self.ready and self.on_top):
            return
        width = self.window_size[0]
        self.query_one("#top", LinesView).show([self._header(width), title_line(self._layout(), self.sort)])
        self.query_one("#bottom", LinesView).show_all(self._bottom(width))

    def _header(self, width: int) -> Line:
        """``spooltop /var/spool/  30 spools · 2 with problems … as of 02:41:09``; with a filter how many match it."""
        frozen, at = self.frozen_at is not None, when(self.now)
        bad = sum(one.troubled for one in self.glances)
        pending = sum(one.level is Level.PENDING for one in self.glances)
        found: list[str | Span] = [f"{len(self.glances)} spools · ", Style.BAD(f"{bad} with problems", bad)]
        if pending:
            found.append(f" · {pending} not judged yet")
        if self.filter or self.troubled:
            found = [f"{self.rows.length} of {len(self.glances)} spools"]
            found += [" match ", Style.KEY(shown(self.filter))] if self.filter else []
            found += [" · problems only"] if self.troubled else []
        title, rest = Style.TITLE(" spooltop "), join(*found)
        left = width - text_width(title.text) - line_width(rest) - 3
        fresh = join(Style.WARN("FROZEN"), f" · {at}") if frozen else join(Style.GOOD("live"), f" · as of {at}")
        right = first_fit(left, fresh, fresh[:1] if frozen else join(at), BLANK)
        room = left - line_width(right) - 2
        place = self._layout().place
        where = f"{clip_left(shown(place), room)}  " if place and room >= 6 else ""
        return spread(join(title, where, rest), right, max(0, width - 1))

    def _bottom(self, width: int) -> Lines:
        if self.typing is not None:
            hint = f"  {self.rows.length:,} match · Enter keeps · Esc clears"
            keys = join(Style.KEY(" /"), shown(self.typing.text), Style.KEY("█"), hint)
        elif self.message:
            lines = notice_lines(self.message, width)
            return [*([BLANK] * (2 - len(lines))), *lines]
        else:
            keys = self.keys_line(width)
        return [chosen_line(self.chosen, width), keys]

    def on_virtual_list_resized(self) -> None:
        self.update()

    def on_virtual_list_cursor_moved(self) -> None:
        self.paint()

    def on_screen_resume(self) -> None:
        super().on_screen_resume()
        self.update()

    # Keys and the mouse

    def set_sort(self, sort: Sort) -> None:
        self.sort = sort
        self.update()

    def sort_by(self, column: str | None) -> None:
        if column is not None:
            self.set_sort(Sort(column, column not in _ASCENDING))

    def sort_columns(self) -> Mapping[str, str]:
        return SORTS

    def column_at(self, x: int) -> str | None:
        return column_at(self._layout(), x) or None

    # Commands

    def run_command(self, id: str) -> None:
        self.moved = self.moved or (by_id(id).group == "move" and id not in ("back", "leave"))
        super().run_command(id)

    def do_step(self, lines: int) -> None:
        self.rows.move_by(lines)

    def do_page(self, pages: float) -> None:
        self.rows.page(pages)

    def do_open_spool(self) -> None:
        if (one := self.chosen) is not None:
            self.opening = one.target
            self.open_target(one.target)

    def opened(self, why_not: str = "") -> None:
        """Learns that the target is open, or why it is not."""
        self.opening = ""
        if why_not:
            self.show_notice(why_not)

    def waiting(self, target: str) -> None:
        """Learns that opening a target takes long."""
        if self.opening == target:
            self.show_notice(f"opening {escape(target)} … Esc gives up")

    def do_back(self) -> None:
        if self.opening:
            self.opening = ""
            self.open_target("")
        elif self.filter:
            self.filter = ""
        else:
            self.troubled = False
        self.update()

    def do_filter(self) -> None:
        self.read_line(LineEdit(self.filter), self._filter, self._filtered)
        self.paint()

    def _filter(self, text: str) -> None:
        self.filter = text.strip()
        self.update()

    def _filtered(self, text: str | None) -> None:
        if text is None:
            self.filter = ""
        self.update()

    def do_problems(self) -> None:
        self.troubled = not self.troubled
        self.update()

    def do_sort(self, step: int) -> None:
        super().do_sort(step)
        self.show_notice(f"sorted by {SORTS[self.sort.column]}")

    def do_freeze(self) -> None:
        self.frozen_at = self.now if self.frozen_at is None else None
        self.update()

    def do_look_again(self) -> None:
        self.spools.look_again()
        self.show_notice("looking again at all spools, and for new ones")

    def do_copy_path(self) -> None:
        if (one := self.chosen) is not None:
            self.copy(escape(one.target))

