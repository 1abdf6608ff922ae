"""Commands of the main screen that choose, narrow, copy, and open plans. None of them changes the spool.

The screens they open are loaded when one is, or once the first look is on the screen (``OPENED``): nobody waits for them before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC
from typing import TYPE_CHECKING

from spooltop.errors import SpooltopError
from spooltop.model.selection import Selection
from spooltop.model.text import escape, escape_text
from spooltop.model.vocabulary import Action, Box

from ...context import BOX_OF, View
from ...draw.columns import COLUMNS
from ...draw.freshness import Times, when
from .filtering import FilterLine
from .updates import seek

if TYPE_CHECKING:
    from .screen import MainScreen

__all__ = ["HANDLERS", "OPENED", "VIEW_OF", "ZONES"]

OPENED = ("follow", "holders", "inject", "operations", "palette", "plan", "set_cursor", "sort_menu")
"""The modules beside this one that hold those screens."""

MUTED_FOR = 3600.0
"""Seconds for which m mutes a source."""

VIEW_OF: dict[View, Box] = dict(BOX_OF)
ZONES = ((Times.AGE, "ages", None), (Times.LOCAL, "local time", None), (Times.UTC, "UTC", UTC))
"""How times are shown, in the order of ``t``: how, its words, and the zone of moments (None: local)."""


def _plan(screen: MainScreen, action: Action) -> None:
    from ..plan import PlanScreen

    selection = chosen(screen)
    if selection is not None:
        if action is Action.PURGE and not selection.named and selection.older_than is None:
            # A line of trouble is about all that it counts: with an age said, none of them is left out for being young.
            selection = replace(selection, older_than=0.0)
        screen.app.push_screen(PlanScreen(action, selection), screen.after_plan)


def chosen(screen: MainScreen) -> Selection | None:
    """What an operation would be about: a line of trouble, what is marked, or the row under the cursor."""
    scene, state = screen.scene(), screen.state
    if screen.root is View.OVERVIEW:
        return scene.problem.selection if scene.problem is not None else None
    if state is None:
        return None
    if state.marks and screen.over is None:
        return Selection(box=state.box, keys=tuple(state.marks))
    row = screen.row
    return Selection(box=state.box, keys=(row.key,)) if row is not None else None


def _empty(screen: MainScreen, key: str) -> None:
    """All of the trash, whatever is marked."""
    from ..plan import PlanScreen

    selection = Selection(box=Box.TRASH, everything=True)
    screen.app.push_screen(PlanScreen(Action.EMPTY, selection), screen.after_plan)


def _empty_expired(screen: MainScreen, key: str) -> None:
    """What is in the trash for longer than it is kept, whatever is marked."""
    from ..plan import PlanScreen

    trash = screen.scene().trash
    if trash is not None and trash.retention is not None:
        screen.app.push_screen(PlanScreen(Action.EMPTY, Selection(box=Box.TRASH, older_than=trash.retention)), screen.after_plan)


def _who(screen: MainScreen, key: str) -> None:
    from ..holders import HoldersScreen

    scene = screen.scene()
    if scene.row is not None:
        screen.app.push_screen(HoldersScreen(scene.row.key, scene.row.id))
    elif scene.lock is not None:
        screen.app.push_screen(HoldersScreen(scene.lock.path, scene.lock.path))
    elif scene.cursor is not None:
        screen.app.push_screen(HoldersScreen(scene.cursor.file, scene.cursor.file))


def _follow(screen: MainScreen, key: str) -> None:
    from ..follow import FollowScreen

    if screen.row is not None:
        screen.app.push_screen(FollowScreen([screen.row.id]))


def _set_cursor(screen: MainScreen, key: str) -> None:
    from ..set_cursor import SettingScreen

    if (cursor := screen.scene().cursor) is not None:
        screen.app.push_screen(SettingScreen(cursor))


def _unlock(screen: MainScreen, key: str) -> None:
    """The chosen lock; on a line of trouble all that it is about."""
    from ..plan import PlanScreen

    scene = screen.scene()
    paths = [scene.lock.path] if scene.lock is not None else []
    if scene.problem is not None:
        code, subject = scene.problem.code, scene.problem.subject
        about = scene.snapshot.lock_problems if scene.snapshot is not None else {}
        paths = [path for path, found in about.items() if found == code]
        if code == "ticket-orphan" and subject in paths:
            paths = [subject]
    screen.app.push_screen(PlanScreen(Action.UNLOCK, Selection(keys=tuple(paths))), screen.after_plan)


def _mute(screen: MainScreen, key: str) -> None:
    scene = screen.scene()
    if scene.cursor is None:
        return
    source, spool, name = scene.cursor.source, screen.owner.spool, escape(scene.cursor.source)
    if scene.muted is not None:
        screen.owner.doer.submit(
            lambda: spool.unmute(source),
            lambda was: screen.tell(str(was) if isinstance(was, SpooltopError) else f"{name} is muted no longer"),
        )
        return

    def muted(end: float | SpooltopError) -> None:
        if isinstance(end, SpooltopError):
            screen.tell(str(end))
        else:
            until = when(end, screen.zone)
            screen.tell(f"{name} is muted until {until}: its trouble is not told; m ends that")

    screen.owner.doer.submit(lambda: spool.mute(source, MUTED_FOR), muted)


def _inject(screen: MainScreen, key: str) -> None:
    from ..inject import InjectScreen

    screen.app.push_screen(InjectScreen())


def _operations(screen: MainScreen, key: str) -> None:
    from ..operations import OperationsScreen

    screen.app.push_screen(OperationsScreen())


def _palette(screen: MainScreen, key: str) -> None:
    from ..palette import PaletteScreen

    def run(id: str | None) -> None:
        if id is not None:
            screen.choose(id)

    screen.app.push_screen(PaletteScreen(screen.scene()), run)


def _mark(screen: MainScreen, key: str) -> None:
    state, row = screen.state, screen.row
    if state is None or row is None:
        return
    if row.key in state.marks:
        del state.marks[row.key]
    else:
        state.marks[row.key] = None
    screen.rows.set_marks(state.marks)
    screen.rows.move_by(1)
    screen.paint()


def _mark_all(screen: MainScreen, key: str) -> None:
    screen.keys_wanted += 1
    screen.want()


def _unmark_all(screen: MainScreen, key: str) -> None:
    if screen.state is not None:
        screen.state.marks.clear()
        screen.rows.set_marks(screen.state.marks)
        screen.paint()


def _filter(screen: MainScreen, key: str) -> None:
    """Opens the filter of the list in front; on the Overview that of New, where a message is looked for."""
    from .navigation import show

    if screen.root is View.OVERVIEW:
        show(screen, View.NEW)
    elif screen.over is not None:
        screen.over = None
        screen.shape()
    screen.filter_line = FilterLine(screen.filter)
    screen.paint()


def _sort_words(screen: MainScreen) -> dict[str, str]:
    """The columns that the list in front can be sorted by: their words, and their titles."""
    box = screen.box
    columns = COLUMNS[box] if box is not None else ()
    return {column.sort: column.title for column in reversed(columns) if column.sort}


def _sort_menu(screen: MainScreen, key: str) -> None:
    from ..sort_menu import SortScreen

    state = screen.state
    if state is None:
        return
    box, words = state.box, _sort_words(screen)

    def sort(word: str | None) -> None:
        if word is not None:
            screen.narrow(box, sort=replace(screen.states[box].sort, column=word))

    screen.app.push_screen(SortScreen(tuple(reversed(words.items())), state.sort.column), sort)


def _sort(step: int) -> Callable[[MainScreen, str], None]:
    def run(screen: MainScreen, key: str) -> None:
        state = screen.state
        if state is None:
            return
        words = list(reversed(_sort_words(screen)))
        at = words.index(state.sort.column) if state.sort.column in words else 0
        screen.narrow(state.box, sort=replace(state.sort, column=words[(at + step) % len(words)]))

    return run


def _invert(screen: MainScreen, key: str) -> None:
    if screen.state is not None:
        screen.narrow(screen.state.box, sort=replace(screen.state.sort, descending=not screen.state.sort.descending))


def _problems(screen: MainScreen, key: str) -> None:
    state = screen.state
    if state is None:
        screen.all_problems = not screen.all_problems
        screen.paint()
    else:
        screen.narrow(state.box, problems_only=not state.problems_only, problem=None)


def _freeze(screen: MainScreen, key: str) -> None:
    if screen.frozen_at is None:
        screen.frozen_at = screen.now
    else:
        screen.frozen_at = None
        screen.snapshot = screen.newest or screen.snapshot
        screen.owner.looker.look_again()
    screen.paint()


def _times(screen: MainScreen, key: str) -> None:
    screen.zone_index = (screen.zone_index + 1) % len(ZONES)
    screen.say(f"times are shown as {ZONES[screen.zone_index][1]}")


def _copy(screen: MainScreen, key: str) -> None:
    scene = screen.scene()
    row, text = screen.row, ""
    if screen.over is View.MESSAGE and row is not None:
        payload, _ = screen.payload_of(row)
        text = escape_text(payload.data) if payload is not None else ""
    elif row is not None:
        text = escape(row.id)
    elif scene.problem is not None:
        text = scene.problem.text
    elif scene.cursor is not None:
        text = f"{escape(scene.cursor.source)} {escape(scene.cursor.shown)} {scene.cursor.verdict}: {scene.cursor.evidence}"
    elif scene.lock is not None:
        text = escape(scene.lock.path)
    if not text:
        screen.say("copy: it has not been read yet")
        return
    screen.app.copy_to_clipboard(text)
    first, _, rest = text.partition("\n")
    screen.say(f"copied: {first}" + (f" … ({len(text):,} characters)" if rest else ""))


def _look_again(screen: MainScreen, key: str) -> None:
    screen.steady = type(screen.steady)()
    screen.owner.looker.look_again()
    screen.say("looking again at everything")


HANDLERS: dict[str, Callable[[MainScreen, str], None]] = {
    "requeue": lambda screen, key: _plan(screen, Action.REQUEUE),
    "purge": lambda screen, key: _plan(screen, Action.PURGE),
    "hold": lambda screen, key: _plan(screen, Action.HOLD),
    "release": lambda screen, key: _plan(screen, Action.RELEASE),
    "restore": lambda screen, key: _plan(screen, Action.RESTORE),
    "empty": _empty,
    "empty-expired": _empty_expired,
    "who": _who,
    "follow": _follow,
    "set-cursor": _set_cursor,
    "mute": _mute,
    "unlock": _unlock,
    "inject": _inject,
    "operations": _operations,
    "palette": _palette,
    "mark": _mark,
    "mark-all": _mark_all,
    "unmark-all": _unmark_all,
    "filter": _filter,
    "next-match": lambda screen, key: seek(screen, 1),
    "previous-match": lambda screen, key: seek(screen, -1),
    "sort-menu": _sort_menu,
    "sort-left": _sort(-1),
    "sort-right": _sort(1),
    "sort-invert": _invert,
    "problems": _problems,
    "freeze": _freeze,
    "times": _times,
    "copy": _copy,
    "look-again": _look_again,
}
