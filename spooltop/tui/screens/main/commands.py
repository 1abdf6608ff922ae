"""Commands of the main screen that mark, filter, sort, copy, and open plans. None of them changes the spool.

The screens that they open are imported when one is opened, or once the first look is on the screen (``OPENED``): the first
screen does not wait for them.
"""

from __future__ import annotations

from msgspec.structs import replace

from spooltop.errors import SpooltopError
from spooltop.model.filters.selection import Selection
from spooltop.model.text import escape, escape_text
from spooltop.model.vocabulary import Action, Box

from ...context import View
from ...draw.consumers import columns_of
from ...draw.header import when
from ...draw.lists import COLUMNS
from .filtering import open_filter
from .navigation import show
from .updates import refine, request, seek, set_sort
from .view import MainView

OPENED = ("follow", "forms", "holders", "menus", "operations", "plan")
"""The modules of ``screens`` that hold those screens."""

MUTED_FOR = 3600.0
"""Seconds for which m mutes a source."""


def do_plan(view: MainView, action: Action) -> None:
    """Opens the plan of an action on the selected messages; those that ``a`` is about to mark are awaited first."""
    wanted = view.state.wanted
    if wanted.marking is not None and wanted.marking == view.state.query and not wanted.then:
        wanted.then = action.value
        view.show_notice("marking all; the plan opens then")
        return
    wanted.marking, wanted.then = None, ""
    selection = selected(view)
    if selection is not None:
        if action is Action.PURGE and not selection.named and selection.older_than is None:
            # A problem is about all messages that it counts: with an explicit age none is left out because it is recent.
            selection = replace(selection, older_than=0.0)
        _open_plan(view, action, selection)


def _open_plan(view: MainView, action: Action, selection: Selection) -> None:
    from ..plan import PlanScreen

    view.open_screen(PlanScreen(view.session, action, selection), view.after_plan)


def selected(view: MainView) -> Selection | None:
    """The messages that an operation would act on: those of a problem, the marked ones, or the row under the cursor."""
    context, state, chosen = view.context(), view.state, view.state.list_state
    if state.root is View.OVERVIEW:
        return context.problem.selection if context.problem is not None else None
    if context.consumer is not None:
        return context.consumer.selection
    if chosen is None:
        return None
    if chosen.marks and state.overlay is None:
        return Selection(box=chosen.box, keys=tuple(chosen.marks))
    row = view.row
    return Selection(box=chosen.box, keys=(row.key,)) if row is not None else None


def do_empty(view: MainView) -> None:
    """Opens the plan to empty the trash, whatever is marked."""
    _open_plan(view, Action.EMPTY, Selection(box=Box.TRASH, everything=True))


def do_empty_expired(view: MainView) -> None:
    """Opens the plan to delete the messages whose retention in the trash is over, whatever is marked."""
    trash = view.context().trash
    if trash is not None and trash.retention is not None:
        _open_plan(view, Action.EMPTY, Selection(box=Box.TRASH, older_than=trash.retention))


def do_unlock(view: MainView) -> None:
    """Opens the plan to remove the chosen lock; for a problem, all locks that it is about."""
    context = view.context()
    paths = [context.lock.path] if context.lock is not None else []
    if context.problem is not None:
        code, subject = context.problem.code, context.problem.subject
        about = context.snapshot.lock_problems if context.snapshot is not None else {}
        paths = [path for path, found in about.items() if found == code]
        if code == "ticket-orphan" and subject in paths:
            paths = [subject]
    _open_plan(view, Action.UNLOCK, Selection(keys=tuple(paths)))


def do_pause(view: MainView) -> None:
    _open_plan(view, Action.PAUSE, Selection())


def do_resume(view: MainView) -> None:
    _open_plan(view, Action.RESUME, Selection())


def do_who(view: MainView) -> None:
    from ..holders import HoldersScreen

    context = view.context()
    if context.row is not None:
        view.open_screen(HoldersScreen(view.session, context.row.key, context.row.id))
    elif context.lock is not None:
        view.open_screen(HoldersScreen(view.session, context.lock.path, context.lock.path))
    elif context.cursor is not None:
        view.open_screen(HoldersScreen(view.session, context.cursor.file, context.cursor.file))


def do_follow(view: MainView) -> None:
    from ..follow import FollowScreen

    if view.row is not None:
        view.open_screen(FollowScreen(view.session, [view.row.id]))


def do_save(view: MainView) -> None:
    from ..forms import SaveScreen

    if (row := view.row) is not None:
        view.open_screen(SaveScreen(view.session, row.key, row.id), lambda words: view.show_notice(words) if words else None)


def do_set_cursor(view: MainView) -> None:
    from ..forms import SetCursorScreen

    if (cursor := view.context().cursor) is not None:
        view.open_screen(SetCursorScreen(view.session, cursor))


def do_inject(view: MainView) -> None:
    from ..forms import InjectScreen

    view.open_screen(InjectScreen(view.session))


def do_operations(view: MainView) -> None:
    from ..operations import OperationsScreen

    view.open_screen(OperationsScreen(view.session))


def do_palette(view: MainView) -> None:
    from ..menus import PaletteScreen

    view.open_screen(PaletteScreen(view.session, view.context()), lambda id: None if id is None else view.choose(id))


def do_mute(view: MainView) -> None:
    context = view.context()
    if context.cursor is None:
        return
    source, name = context.cursor.source, escape(context.cursor.source)
    control, worker = view.session.control, view.session.worker
    if context.muted is not None:
        worker.submit(
            lambda: control.unmute(source),
            lambda was: view.post_notice(str(was) if isinstance(was, SpooltopError) else f"{name} is no longer muted"),
        )
        return

    def muted(end: float | SpooltopError) -> None:
        if isinstance(end, SpooltopError):
            view.post_notice(str(end))
        else:
            until = when(end, view.state.times.zone)
            view.post_notice(f"{name} is muted until {until}: its problems are not shown; m unmutes it")

    worker.submit(lambda: control.mute(source, MUTED_FOR), muted)


def do_mark(view: MainView) -> None:
    chosen, row = view.state.list_state, view.row
    if chosen is None or row is None:
        return
    if row.key in chosen.marks:
        del chosen.marks[row.key]
    else:
        chosen.marks[row.key] = None
    view.rows.set_marks(chosen.marks)
    view.rows.move_by(1)
    view.paint()


def do_mark_all(view: MainView) -> None:
    wanted = view.state.wanted
    wanted.all_keys += 1
    wanted.marking, wanted.then = view.state.query, ""
    request(view)


def do_unmark_all(view: MainView) -> None:
    if (chosen := view.state.list_state) is not None:
        chosen.marks.clear()
        view.rows.set_marks(chosen.marks)
        view.paint()


def do_filter(view: MainView) -> None:
    """Opens the filter of the list in front; on the Overview that of New."""
    if view.state.root is View.OVERVIEW:
        show(view, View.NEW)
    elif view.state.overlay is not None:
        view.state.overlay = None
        view.shape()
    open_filter(view)


def do_next_match(view: MainView, step: int) -> None:
    seek(view, step)


def sort_columns(view: MainView) -> dict[str, str]:
    """The columns that the list in front can be sorted by: their ids and their titles, left to right."""
    box = view.state.box
    of_consumers = columns_of(view.state.received.consumers)
    columns = of_consumers if view.state.root is View.CONSUMERS else COLUMNS[box] if box is not None else ()
    titles = {column.sort: column.title for column in reversed(columns) if column.sort}
    return dict(reversed(titles.items()))


def do_sort_menu(view: MainView) -> None:
    from ..menus import SortScreen

    def sort(column: str | None) -> None:
        if column is not None:
            sort_by(view, column)

    if (present := view.state.sort) is not None:
        view.open_screen(SortScreen(view.session, tuple(sort_columns(view).items()), present.column), sort)


def do_sort(view: MainView, step: int) -> None:
    """Sorts by the column ``step`` places further right."""
    if (present := view.state.sort) is not None:
        columns = list(sort_columns(view))
        at = columns.index(present.column) if present.column in columns else 0
        sort_by(view, columns[(at + step) % len(columns)])


def do_sort_invert(view: MainView) -> None:
    if (present := view.state.sort) is not None:
        set_sort(view, replace(present, descending=not present.descending))


def sort_by(view: MainView, column: str) -> None:
    """Sorts the list in front by another column."""
    if (present := view.state.sort) is not None:
        set_sort(view, replace(present, column=column))


def do_problems(view: MainView) -> None:
    state, chosen = view.state, view.state.list_state
    if chosen is None:
        state.all_problems = not state.all_problems
        view.paint()
    else:
        refine(view, chosen.box, problems_only=not chosen.problems_only, problem=None)


def do_freeze(view: MainView) -> None:
    times, received = view.state.times, view.state.received
    if times.frozen_at is None:
        times.frozen_at = view.state.now
    else:
        times.frozen_at = None
        received.snapshot = received.newest or received.snapshot
        view.session.snapshot_thread.look_again()
    view.paint()


def do_times(view: MainView) -> None:
    times = view.state.times
    times.next_format()
    view.show_notice(f"times are shown as {times.name}")


def do_copy(view: MainView) -> None:
    context, row, text = view.context(), view.row, ""
    if context.view is View.MESSAGE and row is not None:
        payload, _ = view.state.received.payload_of(row)
        text = escape_text(payload.data) if payload is not None else ""
    elif row is not None:
        text = escape(row.id)
    elif context.problem is not None:
        text = context.problem.text
    elif context.cursor is not None:
        cursor = context.cursor
        text = f"{escape(cursor.source)} {escape(cursor.shown)} {cursor.verdict}: {cursor.evidence}"
    elif context.lock is not None:
        text = escape(context.lock.path)
    elif context.consumer is not None:
        text = str(context.consumer.owner.pid or context.consumer.owner.name or context.consumer.token)
    if not text:
        view.show_notice("copy: it has not been read yet")
        return
    view.copy_text(text)
    first, _, rest = text.partition("\n")
    view.show_notice(f"copied: {first}" + (f" … ({len(text):,} characters)" if rest else ""))


def do_look_again(view: MainView) -> None:
    view.session.snapshot_thread.look_again()
    view.show_notice("looking again at everything")
