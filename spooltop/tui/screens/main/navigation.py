"""Commands of the main screen that show something else: moving, opening, going back, the views."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from spooltop.model.vocabulary import ASIDE

from ...commands import TABS
from ...context import LISTS, View
from . import commands

if TYPE_CHECKING:
    from .screen import MainScreen

__all__ = ["HANDLERS", "show", "step"]


def show(screen: MainScreen, view: View) -> None:
    """Puts one of the seven views in front; what was set in its list is as it was left."""
    screen.root, screen.over, screen.scroll = view, None, 0
    screen.filter_line = None
    screen.shape()
    state = screen.state
    if state is not None:
        rows = screen.rows
        rows.set_list(0, -1)
        rows.set_marks(state.marks)
        screen.page = None
        screen.range = (max(0, state.index - 60), state.index + 60)
    screen.want()
    screen.paint()


def step(screen: MainScreen, lines: int) -> None:
    if screen.over is View.MESSAGE:
        screen.scroll = max(0, screen.scroll + lines)
        screen.paint()
    elif screen.over is None and screen.root in LISTS:
        screen.rows.move_by(lines)
    else:
        view = screen.front
        screen.chosen[view] = max(0, min(screen.chosen.get(view, 0) + lines, _length(screen) - 1))
        screen.paint()


def _length(screen: MainScreen) -> int:
    if screen.over is View.CURSOR:
        cursor = screen.scene().cursor
        return len(cursor.history) if cursor is not None else 0
    return screen.scene().rows


def _page(screen: MainScreen, pages: float) -> None:
    if screen.over is None and screen.root in LISTS and abs(pages) == 1:
        screen.rows.page(int(pages))
    else:
        height = screen.rows.size.height if screen.root in LISTS and screen.over is None else screen.app.size.height - 4
        step(screen, int(max(1, height) * pages))


def _open(screen: MainScreen, key: str) -> None:
    scene = screen.scene()
    if screen.root is View.OVERVIEW and scene.problem is not None:
        _open_problem(screen)
    elif screen.root in LISTS and screen.row is not None:
        screen.over, screen.scroll = View.MESSAGE, 0
        screen.shape()
        screen.paint()
    elif screen.root is View.LOCKS:
        commands.HANDLERS["who"](screen, key)
    elif screen.root is View.CURSORS:
        screen.over = View.CURSOR
        screen.chosen[View.CURSOR] = 0
        screen.paint()


def _open_problem(screen: MainScreen) -> None:
    """Exactly what a line of trouble is about."""
    problem = screen.scene().problem
    if problem is None:
        return
    view = next((view for view, box in commands.VIEW_OF.items() if box is problem.box), None)
    if problem.selection is not None and problem.box is not None and view is not None:
        state = screen.states[problem.box]
        state.problem, state.filter, state.problems_only = problem, "", False
        show(screen, view)
    elif problem.view in tuple(View):
        target = View(problem.view)
        if target is View.CURSORS and problem.subject is not None:
            sources = [cursor.source for cursor in screen.cursors]
            screen.texts.clear()
            if problem.subject in sources:
                screen.chosen[View.CURSORS] = sources.index(problem.subject)
        show(screen, target)


def _back(screen: MainScreen, key: str) -> None:
    """One step: what was opened, the line of trouble, the filter, the view."""
    state = screen.state
    if screen.over is not None:
        screen.over = None
        screen.shape()
        screen.paint()
    elif state is not None and state.problem is not None:
        state.problem = None
        show(screen, View.OVERVIEW)
    elif screen.filter:
        screen.set_filter("")
    elif state is not None and state.problems_only:
        screen.narrow(state.box, problems_only=False)
    elif screen.root is not View.OVERVIEW:
        show(screen, View.OVERVIEW)
    else:
        screen.all_problems = False
        screen.paint()


def _next_message(step: int) -> Callable[[MainScreen, str], None]:
    def run(screen: MainScreen, key: str) -> None:
        here = screen.rows.cursor_index
        screen.rows.move_by(step)
        if screen.rows.cursor_index == here:
            screen.say(f"this is the {'last' if step > 0 else 'first'} one of the list")
        else:
            screen.scroll = 0
            screen.paint()

    return run


def _turn(screen: MainScreen, step: int) -> None:
    show(screen, View(TABS[(TABS.index(screen.root) + step) % len(TABS)]))


def _aside(screen: MainScreen, key: str) -> None:
    """What is set aside: the first of its boxes that holds something; asked for again, the next one."""
    counts = screen.snapshot.sight.boxes if screen.snapshot is not None else {}
    if screen.root is View.ASIDE:
        screen.aside_box = ASIDE[(ASIDE.index(screen.aside_box) + 1) % len(ASIDE)]
    else:
        screen.aside_box = next((box for box in ASIDE if box in counts and counts[box].count), screen.aside_box)
    show(screen, View.ASIDE)


def _show(view: View) -> Callable[[MainScreen, str], None]:
    return lambda screen, key: show(screen, view)


def _first(screen: MainScreen, key: str) -> None:
    if screen.root in LISTS and screen.over is None:
        screen.rows.home()
    else:
        step(screen, -1_000_000)


def _last(screen: MainScreen, key: str) -> None:
    if screen.root in LISTS and screen.over is None:
        screen.rows.end()
    else:
        step(screen, 1_000_000)


HANDLERS: dict[str, Callable[[MainScreen, str], None]] = {
    "move-down": lambda screen, key: step(screen, 1),
    "scroll-down": lambda screen, key: step(screen, 1),
    "scroll-up": lambda screen, key: step(screen, -1),
    "move-up": lambda screen, key: step(screen, -1),
    "page-down": lambda screen, key: _page(screen, 1),
    "page-up": lambda screen, key: _page(screen, -1),
    "next-message": _next_message(1),
    "previous-message": _next_message(-1),
    "half-page-down": lambda screen, key: _page(screen, 0.5),
    "half-page-up": lambda screen, key: _page(screen, -0.5),
    "first": _first,
    "last": _last,
    "open": _open,
    "back": _back,
    "leave": lambda screen, key: screen.owner.leave(0),
    "next-view": lambda screen, key: _turn(screen, 1),
    "previous-view": lambda screen, key: _turn(screen, -1),
    **{view: _show(View(view)) for view in TABS},
    "aside": _aside,
}
