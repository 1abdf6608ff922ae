"""Commands of the main screen that show something else: moving, opening, going back, the views."""

from __future__ import annotations

from spooltop.model.vocabulary import ASIDE, Box

from ...commands import TABS, by_id
from ...context import BOX_OF, LISTS, View
from . import updates
from .view import MainView


def show(view: MainView, root: View) -> None:
    """Shows one of the eight views; its list is as the user left it."""
    state = view.state
    state.root, state.overlay, state.scroll = root, None, 0
    state.filter_input = None
    view.shape()
    chosen = state.list_state
    if chosen is None:
        view.settle()
    else:
        view.hold()
        view.rows.set_list(0, -1)
        view.rows.set_marks(chosen.marks)
        state.received.page = None
        state.wanted.window = (max(0, chosen.index - 60), chosen.index + 60)
    updates.request(view)
    view.paint()


def step(view: MainView, lines: int) -> None:
    state = view.state
    if state.overlay is View.MESSAGE:
        state.scroll = max(0, state.scroll + lines)
        view.paint()
    elif state.listed:
        view.rows.move_by(lines)
    else:
        here = state.consumer_place if state.front is View.CONSUMERS else state.chosen.get(state.front, 0)
        state.chosen[state.front] = there = max(0, min(here + lines, _length(view) - 1))
        if state.front is View.CONSUMERS and state.consumers:
            state.consumer_key = state.consumers[there].key
        view.paint()


def _length(view: MainView) -> int:
    context = view.context()
    if context.view is View.CURSOR:
        return len(context.cursor.history) if context.cursor is not None else 0
    return context.rows


def do_step(view: MainView, lines: int) -> None:
    step(view, lines)


def do_page(view: MainView, pages: float) -> None:
    """Moves this many pages down, up where negative. A list is paged; half a page moves its cursor."""
    listed = view.state.listed
    if listed and abs(pages) == 1:
        view.rows.page(int(pages))
    else:
        height = view.rows.size.height if listed else view.window_size[1] - 4
        step(view, int(max(1, height) * pages))


def do_first(view: MainView) -> None:
    if view.state.listed:
        view.rows.home()
    else:
        step(view, -1_000_000)


def do_last(view: MainView) -> None:
    if view.state.listed:
        view.rows.end()
    else:
        step(view, 1_000_000)


def do_step_message(view: MainView, step: int) -> None:
    """Opens the next message of the list (-1: the previous one)."""
    here = view.rows.cursor_index
    view.rows.move_by(step)
    if view.rows.cursor_index == here:
        view.show_notice(f"this is the {'last' if step > 0 else 'first'} one in the list")
    else:
        view.state.scroll = 0
        view.paint()


def do_open(view: MainView) -> None:
    state = view.state
    if state.root is View.OVERVIEW and view.context().problem is not None:
        _open_problem(view)
    elif state.root in LISTS and view.row is not None:
        state.overlay, state.scroll = View.MESSAGE, 0
        view.shape()
        view.paint()
    elif state.root is View.LOCKS:
        view.run_command("who")
    elif state.root is View.CURSORS:
        state.overlay = View.CURSOR
        state.chosen[View.CURSOR] = 0
        view.paint()
    elif (consumer := view.context().consumer) is not None:
        chosen = state.lists[Box.CUR]
        chosen.consumer, chosen.problem, chosen.filter, chosen.problems_only = consumer, None, "", False
        state.consumer_key = consumer.key
        show(view, View.CLAIMS)


def _open_problem(view: MainView) -> None:
    """Shows what the chosen problem is about."""
    state, problem = view.state, view.context().problem
    if problem is None:
        return
    root = next((root for root, box in BOX_OF.items() if box is problem.box), None)
    if problem.selection is not None and problem.box is not None and root is not None:
        chosen = state.lists[problem.box]
        chosen.problem, chosen.consumer, chosen.filter, chosen.problems_only = problem, None, "", False
        show(view, root)
    elif problem.view in tuple(View):
        target = View(problem.view)
        if target is View.CURSORS and problem.subject is not None:
            sources = [cursor.source for cursor in state.cursors]
            state.texts.clear()
            if problem.subject in sources:
                state.chosen[View.CURSORS] = sources.index(problem.subject)
        show(view, target)


def do_back(view: MainView) -> None:
    """Goes back one step: from what was opened, from the problem, the filter, the view."""
    state, chosen = view.state, view.state.list_state
    if state.overlay is not None:
        state.overlay = None
        view.shape()
        view.paint()
    elif chosen is not None and chosen.problem is not None:
        chosen.problem = None
        show(view, View.OVERVIEW)
    elif chosen is not None and chosen.consumer is not None:
        chosen.consumer = None
        show(view, View.CONSUMERS)
    elif state.filter:
        updates.set_filter(view, "")
    elif chosen is not None and chosen.problems_only:
        updates.refine(view, chosen.box, problems_only=False)
    elif state.root is not View.OVERVIEW:
        show(view, View.OVERVIEW)
    elif state.all_problems or view.session.to_spools is None:
        state.all_problems = False
        view.paint()
    else:
        view.session.to_spools()


def do_spools(view: MainView) -> None:
    """Leaves the target for the Spools view that it was opened from."""
    if view.session.to_spools is not None:
        view.session.to_spools()
    elif (reason := by_id("spools").why_not(view.context())) is not None:
        view.show_notice(reason)


def do_show(view: MainView, root: View) -> None:
    show(view, root)


def do_show_aside(view: MainView) -> None:
    """Shows the messages set aside: the first of its boxes that is not empty; in the Aside view the next box."""
    state = view.state
    snapshot = state.received.snapshot
    counts = snapshot.observation.boxes if snapshot is not None else {}
    boxes = (*ASIDE, Box.DELIVERED) if Box.DELIVERED in counts else ASIDE
    if state.root is View.ASIDE:
        state.aside_box = boxes[(boxes.index(state.aside_box) + 1) % len(boxes)]
    else:
        state.aside_box = next((box for box in boxes if box in counts and counts[box].count), state.aside_box)
    show(view, View.ASIDE)


def do_show_next(view: MainView, step: int) -> None:
    """Shows the view ``step`` places further right."""
    snapshot = view.state.received.snapshot
    absent = snapshot.observation.absent if snapshot is not None else {}
    there = [tab for tab in TABS if tab not in absent or tab == view.state.root]
    show(view, View(there[(there.index(view.state.root) + step) % len(there)]))
