"""The Spools view: several targets, a line each. It changes nothing: a target is opened first."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import lru_cache, partial
from os.path import commonprefix

from textual.app import ComposeResult

from spooltop.control import Control
from spooltop.model import ASIDE, Box, Frozen, KeptView, Sort, SpooltopError, escape, full_name, rate, without_secrets
from spooltop.monitor.spools_watch import Glance, Level, SpoolsWatch, natural, worst_first

from ..commands import CommandContext, View, by_id
from ..draw.elements import (
    BLANK,
    Line,
    Lines,
    Moment,
    Span,
    Style,
    ago,
    clip,
    clip_left,
    dim,
    first_fit,
    join,
    line_width,
    notice_lines,
    shown,
    spread,
    text_width,
    when,
)
from ..draw.lists import Column, fitting, ordered, row_line, sort_at, title_line
from ..draw.panels import spark
from ..threads import deliver, kept_view, outcome
from ..widgets import LinesView, VirtualList
from .base import AppSession, ListScreen

_SIGNS = {
    Level.SILENT: Style.BAD("✗"), Level.CRITICAL: Style.BAD("✗"), Level.UNKNOWN: Style.WARN("?"),
    Level.WARNING: Style.WARN("!"), Level.NOTE: Style.DIM("·"), Level.FINE: Style.GOOD("✓"),
    Level.PENDING: Span(" "),
}  # fmt: skip
_PAUSED = Style.WARN("‖")
_PROBLEM = 17
"""Cells of the problem, with a blank before it, for which other columns make room."""


def _short(count: int | None) -> str:
    """A count in at most 6 cells: 12,412, then 123k, 1.2M."""
    if count is None:
        return "?"
    if count < 100_000:
        return f"{count:,}"
    return f"{count // 1000}k" if count < 1_000_000 else f"{count / 1e6:.1f}M" if count < 100_000_000 else f"{count // 10**6}M"


def _count(one: Glance, now: float, figure: float | None) -> Span:
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
    return Span(bound + rate(figure).removesuffix("/s"))


_FIGURES: Mapping[str, tuple[str, Callable[[Glance], float | None]]] = {
    "new": ("messages in new", lambda one: one.count(Box.NEW)),
    "dead": ("claims of dead consumers", lambda one: one.dead),
    "oldest": ("age of the oldest in new", lambda one: one.oldest_at and -one.oldest_at),
    "in": ("in/s", lambda one: one.rates[0]), "done": ("done/s", lambda one: one.rates[1]),
    "cur": ("claims", lambda one: one.count(Box.CUR)), "tmp": ("files in tmp", lambda one: one.count(Box.TMP)),
    "aside": ("messages set aside", lambda one: one.count(*ASIDE)),
}  # fmt: skip
"""Orders by a figure, the largest first: their words in the menu, and the figure."""


def _column(
    key: str, width: int, min_screen: int = 0, title: str = "", text: Callable[[Glance, float, float | None], Span] = _count
) -> Column:
    """The column of a figure, of which ``text`` is shown; dim where it may be an old one or is not known yet."""

    def value(one: Glance, moment: Moment) -> Span:
        span = text(one, moment.now, _FIGURES[key][1](one))
        return Style.DIM(span.text) if one.level in (Level.SILENT, Level.PENDING) else span

    return Column(title or key, width, value, "right", min_screen, key, gap=1)


_COLUMNS = (
    _column("new", 6), _column("dead", 4, 56, text=_dead), _column("oldest", 6, 48, text=_oldest),
    _column("in", 5, 70, "in/s", _rate), _column("done", 6, 70, "done/s", _rate), _column("cur", 6, 110), _column("tmp", 5, 110),
    _column("aside", 6, 110),
)  # fmt: skip
SORTS: Mapping[str, str] = {
    "worst": "worst problem first", "name": "name", **{key: words for key, (words, _) in _FIGURES.items()},
}  # fmt: skip
"""Orders of the list and their words in the menu, in the order of ``<`` and ``>``."""


class Frame(Frozen):
    """The layout for one width: the columns, the names by target before they are cut, and the part of the paths that all share
    (``place``)."""

    columns: tuple[Column, ...]
    distinct: Mapping[str, str]
    place: str


@lru_cache(maxsize=1)
def lay_out(targets: tuple[str, ...], width: int) -> Frame:
    """Lays out the columns for these targets. Columns give way to the problem: first the spark line, then those at the right."""
    place, names = _distinct(targets)
    longest = max([6, *map(text_width, names)])
    most = 12 if width < 64 else 20 if width < 110 else 28 if width < 140 else 40
    name_width = min(longest, most)
    cells = 20 if width >= 130 else 10
    distinct, short = dict(zip(targets, names, strict=True)), dict(zip(targets, _shortened(names, name_width), strict=True))
    columns = fitting(
        (
            Column("spool", name_width, lambda one, _: short[one.target], sort="name", gap=1),
            *_COLUMNS,
            Column("new, 5m", cells, lambda one, _: Style.BAR(_bars(one, cells)), min_screen=76, gap=1),
            Column(" problem", _PROBLEM, lambda one, _: _problem(one, columns[-1].width), sort="worst", grow=1),
        ),
        width, keep=3,
    )  # fmt: skip
    return Frame(columns, distinct, place)


def _distinct(targets: Sequence[str]) -> tuple[str, list[str]]:
    """The directories that all targets share, as ``/var/spool/`` or ``/srv/*/spool``, and the rest of each path. Paths are
    escaped."""
    paths = [escape(full_name(without_secrets(target))) for target in targets]
    parts = [path.split("/") for path in paths]
    if len(paths) < 2 or any("://" in path for path in paths):
        return "", paths
    head = len(commonprefix([part[:-1] for part in parts]))  # noqa: RUF071  of parts, not of characters
    tail = len(commonprefix([part[:head:-1] for part in parts]))  # noqa: RUF071
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
    return ordered(worst, _FIGURES[sort.column][1], descending=sort.descending)


def _problem(one: Glance, width: int) -> str:
    """The worst problem after a blank, and the number of the others."""
    more = len(one.seen.problems) - 1 if one.silent_for is None else 0
    end = f" +{more}" if more > 0 else ""
    return f" {clip(shown(one.says), max(0, width - 1 - len(end)))}{end}"


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


_LONG = 0.2
"""Seconds after which the user is told that a target is being opened."""
_ASCENDING = ("name",)
"""The orders that begin with the smallest, as they are chosen."""


class SpoolsScreen(ListScreen):
    """``show`` shows a target that was opened: its name, the control, and what was kept of an earlier dashboard."""

    sort = Sort("worst")
    filter = ""
    troubled = False
    frozen_at: float | None = None
    opening = ""
    """The target that is being opened, "" where none is."""
    _attempt = 0
    """Counts the attempts to open one: what an earlier one came to is not that of the last."""
    moved = False
    """True once the cursor was moved or a target was opened: until then it is on the first line, whichever that is."""
    now = 0.0
    glances: Sequence[Glance] = ()
    _placed: Hashable = None
    """The row that the cursor was on at the end of the last update."""

    def __init__(
        self, session: AppSession, spools: SpoolsWatch, show: Callable[[str, Control, KeptView | None], object]
    ) -> None:
        super().__init__(session)
        self.spools = spools
        self._show = show

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
        self.spools.wake_with(partial(deliver, self, self.update))
        self.spools.start()

    def update(self) -> None:
        """Shows the newest glances, unless the display is frozen."""
        if not self.ready:
            return
        if self.frozen_at is None:
            self.glances = self.spools.glances()
            self.now = self.spools.now()
        names = self._layout().distinct
        found = in_order([one for one in self.glances if self._matches(one, names)], self.sort)
        self.moved = self.moved or self.rows.key != self._placed  # the mouse moves it, too
        self.rows.empty = dim(f"   {self._why_empty()}")
        self.rows.set_list(len(found), 0, items=found)
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
        return row_line(one, self._layout().columns, Moment(self.now), sign=_sign(one), selected=chosen)

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
        self.lines("top").show([self._header(width), title_line(self._layout().columns, self.sort)])
        self.lines("bottom").show_all(self._bottom(width))

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
            keys = self.typed_line(f"{self.rows.length:,} match · Enter keeps · Esc clears")
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
        return sort_at(self._layout().columns, x) or None

    # Commands

    def run_command(self, id: str) -> None:
        self.moved = self.moved or (by_id(id).group == "move" and id not in ("back", "leave"))
        super().run_command(id)

    def do_step(self, lines: int) -> None:
        self.rows.move_by(lines)

    def do_page(self, pages: float) -> None:
        self.rows.page(pages)

    def do_open_spool(self) -> None:
        """Opens a target in a thread, for as long as that takes."""
        if (one := self.chosen) is None:
            return
        name = self.opening = one.target
        attempt = self._attempt = self._attempt + 1

        def run() -> None:
            opened = outcome(lambda: self.spools.open(name))
            kept = None if isinstance(opened, SpooltopError) else kept_view(opened)
            if not deliver(self, self._opened, attempt, name, opened, kept) and not isinstance(opened, SpooltopError):
                opened.close()

        threading.Thread(target=run, name="open", daemon=True).start()
        self.set_timer(_LONG, partial(self._waiting, name))

    def _opened(self, attempt: int, name: str, opened: Control | SpooltopError, kept: KeptView | None) -> None:
        """Shows a target that was opened, or why it could not be, unless it was given up."""
        wanted = bool(self.opening) and attempt == self._attempt
        self.opening = "" if wanted else self.opening
        if isinstance(opened, SpooltopError):
            if wanted:
                self.show_notice(str(opened))
        elif wanted and self.on_top:
            self.spools.calm(True)
            self._show(name, opened, kept)
        else:
            threading.Thread(target=opened.close, name="close", daemon=True).start()

    def _waiting(self, name: str) -> None:
        if self.opening == name:
            self.show_notice(f"opening {escape(name)} … Esc gives up")

    def do_back(self) -> None:
        if self.opening:
            self.opening = ""
        elif self.filter:
            self.filter = ""
        else:
            self.troubled = False
        self.update()

    def filter_by(self, text: str) -> None:
        self.filter = text.strip()
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

