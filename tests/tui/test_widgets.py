"""The two widgets: what they paint again, where the cursor stays, how little they hold."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest
from textual.app import App, ComposeResult
from textual.containers import Vertical
from textual.events import Resize
from textual.geometry import Region
from textual.pilot import Pilot

from spooltop.tui.draw.elements.glyphs import ASCII, UNICODE, Glyphs
from spooltop.tui.draw.elements.spans import Line, Span, Style, line_text, pad, restyle
from spooltop.tui.draw.overview import overview
from spooltop.tui.widgets import LinesView, VirtualList

from ..snapshots import values

MILLION = 1_000_000


def draw(item: str, width: int, selected: bool, marked: bool) -> Line:
    line: Line = (Span(pad(f"{'>' if selected else ' '}{'*' if marked else ' '}{item}", width)),)
    return restyle(line, Style.SELECTED) if selected else line


class CountedList(VirtualList[str]):
    """Records the regions that it asked to have painted."""

    painted: list[Region]

    def refresh(self, *regions: Region, repaint: bool = True, layout: bool = False, recompose: bool = False) -> CountedList:
        self.painted = [*getattr(self, "painted", []), *regions]
        return super().refresh(*regions, repaint=repaint, layout=layout, recompose=recompose)


class ListApp(App[None]):
    """Answers RowsWanted from ``names`` at once, as the snapshot thread would a little later."""

    ENABLE_COMMAND_PALETTE = False

    def __init__(self, names: Sequence[str], answer: bool = True) -> None:
        super().__init__()
        self.names = names
        self.answer = answer
        self.wanted: list[tuple[int, int]] = []
        self.moved: list[tuple[int, object]] = []
        self.opened: list[object] = []

    def compose(self) -> ComposeResult:
        yield CountedList(draw, key=lambda item: item, empty=(Span("nothing here"),))

    @property
    def list(self) -> CountedList:
        return self.query_one(CountedList)

    def on_virtual_list_rows_wanted(self, event: VirtualList.RowsWanted) -> None:
        self.wanted.append((event.start, event.end))
        if self.answer:
            event.control.set_rows(event.start, self.names[event.start : event.end], event.generation)

    def on_virtual_list_cursor_moved(self, event: VirtualList.CursorMoved) -> None:
        self.moved.append((event.index, event.key))

    def on_virtual_list_activated(self, event: VirtualList.Activated) -> None:
        self.opened.append(event.key)

    def screen_text(self) -> list[str]:
        return [self.list.render_line(y).text.rstrip() for y in range(self.list.size.height)]


class Names(Sequence[str]):
    """A million names without a million objects."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, at: int | slice) -> str | list[str]:  # type: ignore[override]
        if isinstance(at, slice):
            return [f"message {i}" for i in range(*at.indices(self.count))]
        return f"message {at}"


@asynccontextmanager
async def listed(
    names: Sequence[str], length: int, generation: int, *, size: tuple[int, int] = (40, 10), answer: bool = True, **more: object
) -> AsyncIterator[tuple[ListApp, Pilot[None]]]:
    """The app once its list has a length, a generation and ``more``."""
    app = ListApp(names, answer)
    async with app.run_test(size=size) as pilot:
        app.list.set_list(length, generation, **more)
        yield app, pilot


def numbered(count: int) -> list[str]:
    return [f"m{number:03}" for number in range(count)]


async def test_a_million_rows_take_a_window_and_no_more() -> None:
    async with listed(Names(MILLION), MILLION, 1, size=(40, 20)) as (app, pilot):
        await pilot.pause()
        assert app.screen_text()[0] == "> message 0"
        app.list.go_to(MILLION // 2)
        await pilot.pause()
        assert app.list.cursor_key == f"message {MILLION // 2}"
        assert f"> message {MILLION // 2}" in app.screen_text()
        app.list.end()
        await pilot.pause()
        assert app.screen_text()[-1] == f"> message {MILLION - 1}"
        app.list.home()
        await pilot.pause()
        assert app.screen_text()[0] == "> message 0"
        assert len(app.list.held) <= 60
        assert all(end - start <= 60 for start, end in app.wanted)


async def test_a_step_inside_the_page_draws_the_row_left_and_the_row_reached() -> None:
    async with listed(Names(100), 100, 1) as (app, pilot):
        await pilot.pause()
        drawn: list[str] = []

        def watched(item: str, width: int, selected: bool, marked: bool) -> Line:
            drawn.append(item)
            return draw(item, width, selected, marked)

        app.list.draw = watched
        app.list.move_by(3)
        assert sorted(drawn) == ["message 0", "message 3"]
        drawn.clear()
        app.list.move_by(10)  # over the edge: another page
        assert set(drawn) >= {f"message {at}" for at in range(13, 20)}


async def test_rows_that_are_not_there_yet_show_an_ellipsis_and_are_asked_for_once() -> None:
    async with listed(Names(100), 100, 1, answer=False) as (app, pilot):
        await pilot.pause()
        assert app.screen_text() == ["  …"] * 10
        assert app.list.cursor_key is None
        app.list.move_by(1)
        app.list.move_by(1)
        await pilot.pause()
        assert app.wanted == [(0, 20)]
        app.list.set_rows(0, Names(100)[0:20], 1)
        assert app.list.cursor_key == "message 2"


async def test_rows_of_another_listing_are_not_taken() -> None:
    async with listed(Names(100), 100, 2, answer=False) as (app, pilot):
        app.list.set_rows(0, ["of another listing"] * 20, 1)
        await pilot.pause()
        assert app.screen_text()[0] == "  …"


async def test_the_cursor_stays_on_its_key_and_on_its_line_when_rows_come_above() -> None:
    names = numbered(200)
    async with listed(names, 200, 1) as (app, pilot):
        app.list.go_to(25)
        app.list.move_by(3)
        await pilot.pause()
        before = app.screen_text()
        assert "> m028" in before
        moved = list(app.moved)
        app.names = [*(f"new{i}" for i in range(7)), *names]
        app.list.set_list(207, 2, cursor=35, anchor="m028")
        assert app.screen_text() == before
        await pilot.pause()
        assert app.list.cursor_key == "m028"
        assert app.list.cursor_index == 35
        assert app.screen_text() == before
        assert [key for _, key in app.moved[len(moved) :]] == ["m028"]


async def test_rows_that_go_above_do_not_move_the_cursor_either() -> None:
    names = numbered(50)
    async with listed(names, 50, 1) as (app, pilot):
        app.list.go_to(8)
        await pilot.pause()
        app.list.set_list(45, 2, start=0, items=names[5:25])
        assert app.list.cursor_key == "m008"
        assert app.list.cursor_index == 3
        await pilot.pause()
        assert app.screen_text()[3] == "> m008"


async def test_an_index_looked_up_for_a_row_that_the_cursor_has_left_is_not_used() -> None:
    names = numbered(500)
    async with listed(names, 500, 1) as (app, pilot):
        app.list.go_to(300)
        await pilot.pause()
        app.list.set_list(500, 2, cursor=0, anchor="m000", start=290, items=names[290:320])
        assert app.list.cursor_key == "m300"


async def test_a_cursor_moved_before_the_new_rows_came_stays_on_the_row_that_was_seen() -> None:
    names = numbered(50)
    async with listed(names, 50, 1) as (app, pilot):
        app.list.go_to(3)
        await pilot.pause()
        app.answer = False
        app.list.set_list(49, 2, cursor=3, anchor="m003")
        app.list.move_by(2)
        assert app.list.cursor_key == "m005"
        app.list.set_rows(0, [name for name in names if name != "m004"][:20], 2)
        assert (app.list.cursor_index, app.list.cursor_key) == (4, "m005")


async def test_a_row_that_went_hands_the_cursor_to_its_successor_and_says_so() -> None:
    names = numbered(30)
    async with listed(names, 30, 1) as (app, pilot):
        app.list.go_to(4)
        await pilot.pause()
        app.names = names[:4] + names[5:]
        app.list.set_list(29, 2, cursor=None, anchor="m004", start=0, items=app.names[:20])
        await pilot.pause()
        assert (app.list.cursor_index, app.list.cursor_key) == (4, "m005")
        assert app.moved[-1] == (4, "m005")
        app.list.set_list(0, 3)
        await pilot.pause()
        assert (app.list.cursor_index, app.list.cursor_key, app.list.cursor_item) == (0, None, None)
        assert app.screen_text()[0] == "nothing here"
        app.list.activate()
        await pilot.pause()
        assert app.opened == []


async def test_what_is_shown_before_the_end_leaves_the_cursor_where_it_was() -> None:
    names = numbered(60)
    async with listed(names, 60, 1, start=0, items=names) as (app, pilot):
        app.list.go_to(37)
        await pilot.pause()
        moved = list(app.moved)
        app.list.set_passing(20, 2, cursor=0, items=names[10:30])
        app.list.set_passing(25, 3, cursor=0, items=names[5:30])  # others came before them
        await pilot.pause()
        assert (app.list.cursor_index, app.list.top) == (0, 0)
        assert app.screen_text()[0] == "> m005"
        assert app.moved == moved
        app.list.set_list(50, 4, cursor=36, anchor="m037", start=20, items=names[21:51])
        await pilot.pause()
        assert (app.list.cursor_index, app.list.cursor_key) == (36, "m037")


@pytest.mark.parametrize("passing", [False, True])
@pytest.mark.parametrize("stood, top", [(5, 0), (37, 37)])
async def test_the_first_list_begins_where_the_cursor_is_sought(stood: int, top: int, passing: bool) -> None:
    names = numbered(60)
    async with listed(names, 60, 1, start=0, items=names) as (app, pilot):
        app.list.go_to(9)
        app.list.set_list(0, -1)
        if passing:
            app.list.set_passing(20, 2, cursor=0, items=names[40:])
            app.list.set_passing(25, 3, cursor=0, items=names[35:])
        app.list.set_list(60, 4, cursor=stood, anchor=names[stood], start=0, items=names)
        await pilot.pause()
        assert (app.list.cursor_index, app.list.cursor_key, app.list.top) == (stood, names[stood], top)
        assert app.moved[-1] == (stood, names[stood])


async def test_a_cursor_moved_before_the_end_is_told_and_stays() -> None:
    names = numbered(60)
    async with listed(names, 60, 1, start=0, items=names) as (app, pilot):
        app.list.go_to(37)
        app.list.set_passing(20, 2, cursor=0, items=names[10:30])
        app.list.move_by(2)
        await pilot.pause()
        assert app.moved[-1] == (2, "m012")
        for generation, first in ((3, 7), (4, 3)):
            app.list.set_passing(30, generation, cursor=0, items=names[first:33])
            await pilot.pause()
            assert app.moved[-1] == (12 - first, "m012")
        app.list.set_list(50, 5, cursor=36, anchor="m037", start=0, items=names[:50])
        await pilot.pause()
        assert (app.list.cursor_index, app.list.cursor_key) == (12, "m012")


async def test_the_page_flips_and_the_cursor_moves_inside_it() -> None:
    async with listed(Names(100), 100, 1) as (app, pilot):
        for _ in range(9):
            app.list.move_by(1)
        assert app.list.top == 0
        app.list.move_by(1)
        assert (app.list.top, app.list.cursor_index) == (10, 10)
        app.list.move_by(-1)
        assert (app.list.top, app.list.cursor_index) == (0, 9)
        app.list.page(1)
        assert (app.list.top, app.list.cursor_index) == (10, 19)
        app.list.page(-1)
        assert (app.list.top, app.list.cursor_index) == (0, 9)
        app.list.page(99)
        assert (app.list.top, app.list.cursor_index) == (90, 99)
        await pilot.pause()
        app.list.activate()
        await pilot.pause()
        assert app.opened == ["message 99"]


async def test_a_cursor_that_moves_inside_the_page_paints_two_rows() -> None:
    async with listed(Names(100), 100, 1) as (app, pilot):
        await pilot.pause()
        app.list.painted = []
        app.list.move_by(1)
        assert [region.y for region in app.list.painted] == [0, 1]


async def test_a_tick_paints_only_what_changed_and_only_up_to_it() -> None:
    figures = {"message 3": "10s"}

    app = ListApp(Names(100))
    async with app.run_test(size=(40, 10)) as pilot:
        app.list.draw = lambda item, width, selected, marked: (Span(pad(f"{figures.get(item, '--'):>5} {item}", width)),)
        app.list.set_list(100, 1)
        await pilot.pause()
        app.list.painted = []
        assert app.list.tick() == 0
        assert app.list.painted == []
        figures["message 3"] = "20s"
        assert app.list.tick() == 1
        assert app.list.painted == [Region(0, 3, 3, 1)]


async def test_a_list_that_empties_just_as_it_changes_its_size_leaves_nothing_of_its_rows() -> None:
    async with listed(Names(9), 9, 1) as (app, pilot):
        await pilot.pause()
        app.list.on_resize(Resize(app.list.size, app.list.size))  # from here on nobody knows what stands on the terminal
        app.list.painted = []
        app.list.set_list(0, 2)
        assert {(region.y, region.right) for region in app.list.painted} >= {(y, 40) for y in range(10)}


async def test_marks_are_shown_by_key() -> None:
    async with listed(Names(100), 100, 1) as (app, pilot):
        await pilot.pause()
        app.list.set_marks({"message 2", "message 99"})
        assert [line for line in app.screen_text() if "*" in line] == [" *message 2"]


async def test_a_smaller_screen_keeps_the_cursor_in_sight() -> None:
    async with listed(Names(100), 100, 1, size=(40, 20)) as (app, pilot):
        app.list.go_to(18)
        await pilot.resize_terminal(40, 6)
        await pilot.pause()
        assert "> message 18" in app.screen_text()


async def test_markup_in_a_name_is_text() -> None:
    async with listed(["[red]x[/]", "[@click=app.bell]y[/]"], 2, 1, size=(40, 5)) as (app, pilot):
        await pilot.pause()
        assert app.screen_text()[:2] == ["> [red]x[/]", "  [@click=app.bell]y[/]"]


class LinesApp(App[None]):
    ENABLE_COMMAND_PALETTE = False

    def __init__(self, view: LinesView) -> None:
        super().__init__()
        self.view = view

    def compose(self) -> ComposeResult:
        yield self.view


def lines(*texts: str) -> list[Line]:
    return [(Span(text),) for text in texts]


async def test_lines_paint_only_the_rows_that_differ() -> None:
    view = LinesView()
    async with LinesApp(view).run_test(size=(30, 6)) as pilot:
        await pilot.pause()
        assert view.show(lines("one", "two", "three")) == 3
        assert view.show(lines("one", "two", "three")) == 0
        assert view.show(lines("one", "TWO", "three")) == 1
        assert view.show(lines("one")) == 2
        assert view.text == "one"
        assert [view.render_line(y).text.rstrip() for y in range(3)] == ["one", "", ""]


async def test_lines_are_drawn_anew_when_the_size_changes() -> None:
    sizes: list[tuple[int, int]] = []

    def draw_at(width: int, height: int) -> list[Line]:
        sizes.append((width, height))
        return lines(f"{width}x{height}")

    view = LinesView(draw_at)
    async with LinesApp(view).run_test(size=(30, 6)) as pilot:
        await pilot.pause()
        assert view.text == "30x6"
        await pilot.resize_terminal(50, 8)
        await pilot.pause()
        assert view.text == "50x8"
        assert view.redraw() == 0


async def test_ascii_and_no_colour() -> None:
    view = LinesView(glyphs=ASCII, colour=False)
    async with LinesApp(view).run_test(size=(30, 6)) as pilot:
        await pilot.pause()
        view.show([(Span("✗", Style.BAD), Span(" ▁█ …"))])
        strip = view.render_line(0)
        assert strip.text.rstrip() == "x _# *"
        first = next(iter(strip))
        assert first.style is not None and first.style.bold
        assert first.style.color is None or first.style.color.name not in ("red", "ansi_red")


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII], ids=lambda glyphs: glyphs.name)
async def test_a_click_on_a_panel_means_that_panel(glyphs: Glyphs) -> None:
    view = LinesView(glyphs=glyphs)
    async with LinesApp(view).run_test(size=(160, 47)) as pilot:
        await pilot.pause()
        view.show(overview(values.trouble(), 160, 47, now=values.NOW, chosen=1))
        texts = [line_text(line) for line in view.lines]
        assert [view.steps_to(y, x=5) for y in range(8)] == [None, -1, 0, 1, 2, 3, 4, None]
        assert {view.steps_to(y, x=120) for y in range(47)} == {None}, "the graph beside is no problem"
        assert view.key_at(texts[1].index("r requeue 2") + 3, 1) == "r"
        for key, title in (("3", "claims, dead"), ("4", "tmp, aban"), ("5", "cursors"), ("6", "locks"), ("2", "new by age")):
            y = next(y for y, text in enumerate(texts) if f"{key} {title}" in text)
            assert view.key_at(texts[y].index(title) + 2, y) == key
            assert view.key_at(texts[y].index(title) + 40, y) != key, "the border after it is no key"


@pytest.mark.parametrize("style", list(Style))
async def test_every_meaning_has_a_style_and_keeps_its_words(style: Style) -> None:
    view = LinesView()
    async with LinesApp(view).run_test(size=(30, 3)) as pilot:
        await pilot.pause()
        view.show([(Span("words", style),)])
        assert view.render_line(0).text.startswith("words")
        assert line_text(view.lines[0]) == "words"


class TwoApp(App[None]):
    """A list and lines that can be hidden."""

    ENABLE_COMMAND_PALETTE = False
    words = "first"

    def compose(self) -> ComposeResult:
        with Vertical():
            yield VirtualList(draw, key=lambda item: item, empty=(Span("nothing here"),))
            yield LinesView(id="given")
            yield LinesView(lambda width, height: [(Span(self.words),)], id="drawn")


def on_screen(widget: LinesView | VirtualList[str]) -> str:
    """The first line of a widget as the screen gets it, with what is kept of earlier drawings."""
    return widget.render_lines(widget.size.region)[0].text.strip()


async def test_what_changed_while_it_was_hidden_is_not_shown_as_it_was() -> None:
    app = TwoApp()
    async with app.run_test(size=(40, 20)) as pilot:
        rows, given, drawn = app.query_one(VirtualList), *app.query(LinesView)
        rows.set_list(1, 1, items=["old row"])
        given.show([(Span("old line"),)])
        drawn.redraw()
        await pilot.pause()
        assert [on_screen(one) for one in (rows, given, drawn)] == ["> old row", "old line", "first"]
        app.query_one(Vertical).display = False
        await pilot.pause()
        assert not rows.size.area
        app.words = "second"
        rows.set_list(0, -1)
        given.show([(Span("new line"),)])
        drawn.redraw()
        app.query_one(Vertical).display = True
        await pilot.pause()
        assert [on_screen(one) for one in (rows, given)] == ["nothing here", "new line"]
        assert on_screen(drawn) != "first"
