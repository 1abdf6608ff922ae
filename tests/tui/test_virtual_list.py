"""The list: which row stays chosen while rows come and go, and how few it holds."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from textual.app import App, ComposeResult
from textual.pilot import Pilot

from spooltop.tui.draw.elements.spans import Line, Span, Style, pad, restyle
from spooltop.tui.widgets import VirtualList

MILLION = 1_000_000


def draw(item: object, width: int, selected: bool, marked: bool) -> Line:
    line: Line = (Span(pad(f"{'>' if selected else ' '}{'*' if marked else ' '}{item}", width)),)
    return restyle(line, Style.SELECTED) if selected else line


class ListApp(App[None]):
    """Answers RowsWanted from ``names`` at once, as the snapshot thread would a little later."""

    ENABLE_COMMAND_PALETTE = False

    def __init__(self, names: Sequence[object], answer: bool = True) -> None:
        super().__init__()
        self.names = names
        self.answer = answer
        self.wanted: list[tuple[int, int]] = []
        self.moved: list[tuple[int, object]] = []
        self.opened: list[object] = []

    def compose(self) -> ComposeResult:
        yield VirtualList(draw, key=lambda item: item, empty=(Span("nothing here"),))

    @property
    def list(self) -> VirtualList[object]:
        return self.query_one(VirtualList)

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


@asynccontextmanager
async def listed(
    names: Sequence[object], length: int, generation: int, *, size: tuple[int, int] = (40, 10), answer: bool = True
) -> AsyncIterator[tuple[ListApp, Pilot[None]]]:
    """The app once its list has a length and a generation."""
    app = ListApp(names, answer)
    async with app.run_test(size=size) as pilot:
        app.list.set_list(length, generation)
        yield app, pilot


def numbered(count: int) -> list[str]:
    return [f"m{number:03}" for number in range(count)]


async def test_a_million_rows_take_a_window_and_no_more() -> None:
    async with listed(range(MILLION), MILLION, 1, size=(40, 20)) as (app, pilot):
        for number in (0, MILLION // 2, MILLION - 1):
            app.list.go_to(number)
            await pilot.pause()
            assert app.list.cursor_key == number and f"> {number}" in app.screen_text()
        assert len(app.list.held) <= 60
        assert all(end - start <= 60 for start, end in app.wanted)


async def test_rows_of_another_listing_are_not_taken() -> None:
    async with listed(range(100), 100, 2, answer=False) as (app, pilot):
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
