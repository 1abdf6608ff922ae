"""The main screen of an open target: its threads, what they found for it, and its commands."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from functools import partial
from math import inf
from typing import Any

from msgspec.structs import asdict, replace
from textual.events import Key
from textual.message import Message

from spooltop.control import Control
from spooltop.cursors.form import SetCursorScreen
from spooltop.model import (
    ASIDE,
    Action,
    Box,
    ConsumerRow,
    KeptView,
    Problem,
    Result,
    Selection,
    Snapshot,
    Sort,
    SpooltopError,
    escape,
    escape_text,
)  # fmt: skip

from ..commands import BOX_OF, READING, TABS, KeyCommand, View, own_command
from ..draw.elements import when, within
from ..draw.lists import COLUMNS, columns_of
from ..messages import (
    ClockMoved,
    ConsumersRead,
    Found,
    KeysRead,
    ListAdvanced,
    ListRequest,
    LookFailed,
    MatchFound,
    Page,
    PayloadRead,
    RowsRead,
    Search,
    SnapshotTaken,
)
from ..threads import SnapshotThread, Worker, deliver, outcome
from ..widgets import VirtualList
from .base import AppSession, Session
from .changes import InjectScreen, OperationsScreen, SaveScreen
from .follow import FollowScreen, HoldersScreen
from .main_view import FORMATS, MainView
from .plan import PlanScreen

HELD = 0.05
"""Seconds at most for which the last view stays on the terminal while the list of the next one is made, until ``settle``: a list
that comes soon is drawn once."""
STALE_AFTER = 5.0
"""Seconds after which a look that has not finished is called stale."""
FIRST_VIEW = {"cursors": View.CURSORS, "tickets": View.LOCKS, "locks": View.LOCKS}
"""The first view of a target with this layout, the one that has something to show, where that is not the Overview."""
MUTED_FOR = 3600.0
"""Seconds for which m mutes a source."""


class MainScreen(MainView):
    """The eight views of an open target, and a message or a source in full on top of one of them. Takes what its threads found,
    requests what is shown next, and has the handlers of the commands. None of them changes the spool."""

    _answered_at = 0.0
    """The time (of the event clock) at which the reason was painted why the last plan was not opened."""

    def __init__(
        self, app: AppSession, control: Control, snapshot_thread: SnapshotThread, *, kept: KeptView | None = None,
        to_spools: Callable[[], object] | None = None, before: Mapping[str, Any] | None = None,
    ) -> None:  # fmt: skip
        """``snapshot_thread`` is a thread on the same control. ``to_spools`` leaves the target for the Spools view, ``before``
        are the choices at its end the last time, ``kept`` what was kept of an earlier dashboard; None where nothing is kept at
        the end either."""
        super().__init__(Session(
            **asdict(app), control=control, snapshot_thread=snapshot_thread, worker=Worker(), now=lambda: self.now,
            zone=lambda: self.moment.zone, to_spools=to_spools,
        ))  # fmt: skip
        self._kept = kept
        if before is None:
            self.root = FIRST_VIEW.get(control.layout, View.OVERVIEW)
            self.use(kept or KeptView(), app.options)
        for name, choice in (before or {}).items():
            setattr(self, name, choice)

    def stop(self, patience: float) -> None:
        """Ends the threads: waits ``patience`` seconds at most for the operation under way, but not for a look that hangs. Keeps
        the view and the orders, which may block where the home does. May be called in any thread."""
        keeping = threading.Thread(target=self._keep, name="keep", daemon=True)
        keeping.start()
        self.session.worker.stop(patience)
        self.session.snapshot_thread.stop(min(patience, 0.2))
        keeping.join(1.0)

    def _keep(self) -> None:
        kept = self.kept()
        if self._kept not in (None, kept):
            outcome(lambda: self.session.control.keep_view(kept))

    def check(self) -> float:
        """Shows whether a look hangs, and for how long. Returns the seconds until the next check is due."""
        thread = self.session.snapshot_thread
        waited = thread.looking_for()
        stale_for = float(int(waited) // 10 * 10) or STALE_AFTER if waited >= STALE_AFTER else None
        if stale_for != self.stale_for:
            self.stale_for, self.stale_why = stale_for, f"{thread.looking_at() or 'a look'} does not answer"
            self.call_next(self.paint)
        return 1.0 if stale_for else max(STALE_AFTER - waited, 0.1)

    def on_mount(self) -> None:
        thread = self.session.snapshot_thread
        thread.start()
        self.session.worker.start()
        self._arrived()  # what was found while Textual was loaded
        thread.mailbox.wake_with(partial(deliver, self, self._arrived))
        self.do_show(self.root)

    def _arrived(self) -> None:
        """Hands what was found to this screen and to the one in front."""
        for found in self.session.snapshot_thread.mailbox.take():
            for screen in dict.fromkeys((self, *self.app.screen_stack[-1:])):
                if (take := getattr(screen, "take", None)) is not None:
                    take(found)

    # What the threads found

    def take(self, found: Found) -> None:
        """Takes what a thread found. Counts and lists on the screen come from one look: they are taken together."""
        if isinstance(found, SnapshotTaken):
            self.session.snapshot = found.snapshot
            self.events.take(found.snapshot, self.session.results)
        if not self.ready:  # being mounted, or removed already: there is no list for rows
            if isinstance(found, SnapshotTaken):
                self.snapshot = found.snapshot
            elif isinstance(found, LookFailed):
                self.failed = found.error
            return
        match found:
            case SnapshotTaken():
                self._take_snapshot(found)
            case ClockMoved():
                if self.frozen_at is None:
                    self.moved_to = found.at
                    if self.in_front:
                        self.lines("top").show(self._top(self.context(), self.window_size[0]))
            case RowsRead() if _same(self.page, found.page):
                self.page = found.page  # the cursor moved to rows that are shown already
            case RowsRead():
                self._take_page(found.page)
                self.paint()
            case ListAdvanced():
                self.advanced = found
                self.paint(rows=False)
            case KeysRead():
                self._take_keys(found)
            case ConsumersRead():
                self._take_consumers(found)
            case MatchFound():
                self._take_match(found)
            case PayloadRead():
                self.payload = found
                self.paint(rows=False)
            case LookFailed():
                self.failed = found.error
                self.paint()
                self.settle()

    def _take_snapshot(self, found: SnapshotTaken) -> None:
        page = found.page
        self.failed = ""
        if self.frozen_at is None:
            self._keep_write(found.snapshot)
            self.snapshot, self.moved_to = found.snapshot, 0.0
        elif page is None or (self.page is not None and self.page.query == page.query and self.page.share is None):
            return  # the page was not requested since the display was frozen
        if page is not None:
            self._take_page(page)
        self.paint()

    def _keep_write(self, snapshot: Snapshot) -> None:
        """Keeps the chosen write of a cursor's history chosen when newer ones are added above; at the top the newest is chosen.
        """
        chosen = self.lists[View.CURSOR]
        old = self.context().cursor if self.overlay is View.CURSOR else None
        if old is None or not 0 < chosen.index < len(old.history):
            return
        new = snapshot.cursor(old.source, old.file)
        if new is None:
            return
        at = old.history[chosen.index].at
        chosen.index = next((i for i, write in enumerate(new.history) if write.at == at), len(new.history) - 1)

    def _take_page(self, page: Page) -> None:
        if page.query != self.list_query:
            return  # for a view or a filter that was left meanwhile
        if page.share is None and self._overtaken(page):
            return  # the page around the row chosen meanwhile is requested already
        self.take_page(page)
        self.settle()
        self.rows.set_list(
            page.length, page.generation, cursor=page.anchor_at, anchor=page.anchor, start=page.start, items=page.rows,
            passing=page.share is not None,
        )  # fmt: skip
        if page.share is None and (once_read := self.once_read) and self.in_front:
            self.once_read = ""
            self.choose(once_read)

    def _overtaken(self, page: Page) -> bool:
        """True where the cursor was moved, while the list was incomplete, to a row that the complete list's ``page`` lacks."""
        shown, key = self.page, self.rows.key
        if shown is None or shown.share is None or key is None or key != self.here.cursor:
            return False
        return key != page.anchor and all(row.key != key for row in page.rows)

    def _take_keys(self, found: KeysRead) -> None:
        marks, then = self.lists[found.query.box].marks, self.then
        self.marking, self.then = None, ""
        if found.query == self.list_query and self.frozen_at is None:
            marks.update(dict.fromkeys(found.keys))
            self.rows.set_marks(marks)
            self.show_notice(f"{len(marks):,} marked")
            if then and self.in_front:
                self.choose(then)

    def _take_consumers(self, found: ConsumersRead) -> None:
        if self.frozen_at is not None and self.consumer_list is not None:
            return
        self.lists[View.CONSUMERS].index = self.consumer_place
        self.consumer_list = found.found
        if self.root is View.CONSUMERS:
            self.paint()
            self.settle()

    def _take_match(self, found: MatchFound) -> None:
        if found.query != self.list_query or found.search is not self.search:
            return  # for a list that was left meanwhile, or not the last search
        if found.index is None:
            self.show_notice(f"nothing {'below' if found.search.step > 0 else 'above'} matches {found.search.text}")
        else:
            self.rows.go_to(found.index)

    def do_next_match(self, step: int) -> None:
        """Goes to the next row that matches the last filter (``step`` -1: the previous one)."""
        if not self.filter:
            self.search = Search(self.search.number + 1 if self.search is not None else 1, self.last_filter, step)
            self.request()
            return
        self._move(step, f"match of {self.filter}")

    def _move(self, step: int, what: str) -> bool:
        """Moves the cursor of the list; False where it cannot, which is said: this is the first or last of ``what``."""
        here = self.rows.cursor
        self.rows.move_by(step)
        if self.rows.cursor != here:
            return True
        self.show_notice(f"this is the {'last' if step > 0 else 'first'} {what}")
        return False

    def refine(self, **changes: object) -> None:
        """Sets another filter, order or selection of the list in front: marks stay, the cursor keeps its key."""
        self.lists[self.box or self.root] = replace(self.here, **changes)
        self.request()
        self.paint()

    def set_sort(self, sort: Sort) -> None:
        """Sorts the list of the view in front."""
        self.refine(sort=sort)

    def request(self) -> None:
        """Requests the list in front from the snapshot thread, with the place of the cursor in it (the last one, in a list just
        returned to)."""
        query, chosen = self.list_query, self.here
        request = ListRequest(all_keys=self.all_keys, consumers=self.root is View.CONSUMERS)
        if query is not None:
            payload = self.row.key if self.row is not None else None
            request = ListRequest(query, *self.window, chosen.cursor, chosen.index, payload, self.all_keys, self.search)
        self.session.snapshot_thread.request(request)

    # Keys and the mouse

    def ignores(self, event: Key) -> bool:
        """True for a key that confirms a plan and was typed with the key that opens one: it is meant for that plan, even where
        none has come, and copies nothing."""
        if self.then or self.once_read:
            return self.refuse_confirming(event, "no plan is open yet")
        return event.time < self._answered_at and self.refuse_confirming(event, f"no plan was opened; {self.message}")

    def command(self, key: str) -> None:
        self.once_read = ""
        super().command(key)

    def _note_refusal(self) -> None:
        self._answered_at = Message().time

    def say_why_not(self, command: KeyCommand, reason: str) -> None:
        if command.dangerous:
            self._answered_at = inf  # until it is painted
            self.call_after_refresh(self._note_refusal)
            if reason.endswith(READING):
                self.once_read = command.id
                reason = f"{reason}; the plan opens then"
        own = own_command(self.context(), Action(str(command.does[1]))) if command.handler == "do_plan" else ""
        if own:
            self.app.copy_to_clipboard(own)
        super().say_why_not(command, f"{reason} (copied)" if own else reason)

    @property
    def sort(self) -> Sort:
        return self.here.sort

    def on_virtual_list_rows_wanted(self, message: VirtualList.RowsWanted) -> None:
        self.window = (message.start, message.end)
        self.request()

    def on_virtual_list_resized(self) -> None:
        self.paint()

    def on_virtual_list_cursor_moved(self, message: VirtualList.CursorMoved) -> None:
        chosen = self.here
        if chosen.box is None or self.rows.generation < 0:
            return  # a list that was left, or one that was not read yet
        chosen.cursor, chosen.index = message.key, message.index
        self.request()
        self.paint(rows=False)  # the list has painted itself

    def on_resize(self) -> None:
        self.shape()  # the rest is done by the base, whose handler Textual calls as well

    # The filter, while it is typed

    def do_filter(self) -> None:
        """Opens the filter of the list in front; on the Overview that of New."""
        if self.root is View.OVERVIEW:
            self.do_show(View.NEW)
        elif self.overlay is not None:
            self.overlay = None
            self.shape()
        super().do_filter()

    def filter_by(self, text: str) -> None:
        """Filters by the part of the text that can be parsed; the error names the rest. ``n`` uses this filter, even after Esc
        cleared it."""
        found = str(self.parse(text))
        if self.box is not None:
            self.last_filter = found or self.last_filter
        self.refine(filter=found)

    def _filtered(self, text: str | None) -> None:
        super()._filtered(text)
        if text and (error := self.parse(text).hint):
            self.show_notice(f"not filtered by all of it: {error}")

    # Commands that show something else: moving, opening, going back, the views

    def do_show(self, root: View) -> None:
        """Shows one of the eight views; its list is as the user left it."""
        self.root, self.overlay, self.scroll = root, None, 0
        self.typing = None
        self.shape()
        chosen = self.here
        if chosen.box is None:
            self.settle()
        else:
            if (terminal := self.session.terminal()) is not None:
                terminal.hold(HELD)
            self.rows.set_list(0, -1)
            self.rows.set_marks(chosen.marks)
            self.page = None
            self.window = (max(0, chosen.index - 60), chosen.index + 60)
        self.request()
        self.paint()

    def do_step(self, lines: int) -> None:
        if self.overlay is View.MESSAGE:
            self.scroll = max(0, self.scroll + lines)
            self.paint()
        elif self.listed:
            self.rows.move_by(lines)
        else:
            context, chosen = self.context(), self.lists[self.front]
            length = len(context.cursor.history) if self.overlay and context.cursor is not None else context.rows
            here = self.consumer_place if self.front is View.CONSUMERS else chosen.index
            chosen.index = within(here + lines, length)
            if self.front is View.CONSUMERS and self.consumers:
                chosen.cursor = self.consumers[chosen.index].key
            self.paint()

    def do_page(self, pages: float) -> None:
        """Moves this many pages down, up where negative. A list is paged; half a page moves its cursor."""
        if self.listed:
            self.rows.page(pages)
        else:
            self.do_step(int((self.window_size[1] - 4) * pages))

    def do_step_message(self, step: int) -> None:
        """Opens the next message of the list (-1: the previous one)."""
        if self._move(step, "one in the list"):
            self.scroll = 0
            self.paint()

    def do_open(self) -> None:
        context = self.context()
        if context.problem is not None:
            self._open_problem(context.problem)
        elif self.row is not None:
            self.overlay, self.scroll = View.MESSAGE, 0
            self.shape()
            self.paint()
        elif self.root is View.LOCKS:
            self.run_command("who")
        elif self.root is View.CURSORS:
            self.overlay = View.CURSOR
            self.lists[View.CURSOR].index = 0
            self.paint()
        elif (consumer := context.consumer) is not None:
            self.lists[View.CONSUMERS].cursor = consumer.key
            self._show_messages(View.CLAIMS, consumer)

    def _show_messages(self, root: View, scope: Problem | ConsumerRow) -> None:
        """Shows the messages of a problem or a consumer in their list."""
        chosen = self.lists[BOX_OF[root]]
        chosen.scope, chosen.filter, chosen.problems_only = scope, "", False
        self.do_show(root)

    def _open_problem(self, problem: Problem) -> None:
        """Shows what a problem is about."""
        root = next((root for root, box in BOX_OF.items() if box is problem.box), None)
        if problem.selection is not None and root is not None:
            self._show_messages(root, problem)
        elif problem.view in tuple(View):
            target = View(problem.view)
            if target is View.CURSORS and problem.subject is not None:
                sources = [cursor.source for cursor in self.cursors]
                for view in (View.CURSORS, View.LOCKS, View.CONSUMERS):
                    self.lists[view].filter = ""
                if problem.subject in sources:
                    self.lists[View.CURSORS].index = sources.index(problem.subject)
            self.do_show(target)

    def do_back(self) -> None:
        """Goes back one step: from what was opened, from the problem, the filter, the view."""
        chosen = self.here
        if self.overlay is not None:
            self.overlay = None
            self.shape()
            self.paint()
        elif chosen.scope is not None:
            root = View.OVERVIEW if isinstance(chosen.scope, Problem) else View.CONSUMERS
            chosen.scope = None
            self.do_show(root)
        elif self.filter:
            self.refine(filter="")
        elif chosen.problems_only:
            self.refine(problems_only=False)
        elif self.root is not View.OVERVIEW:
            self.do_show(View.OVERVIEW)
        elif self.all_problems or self.session.to_spools is None:
            self.all_problems = False
            self.paint()
        else:
            self.session.to_spools()

    def do_spools(self) -> None:
        """Leaves the target for the Spools view that it was opened from."""
        if self.session.to_spools is not None:
            self.session.to_spools()

    def do_show_aside(self) -> None:
        """Shows the messages set aside: the first of its boxes that is not empty; in the Aside view the next box."""
        counts = self.snapshot.observation.boxes
        boxes = (*ASIDE, Box.DELIVERED) if Box.DELIVERED in counts else ASIDE
        if self.root is View.ASIDE:
            self.aside_box = boxes[(boxes.index(self.aside_box) + 1) % len(boxes)]
        else:
            self.aside_box = next((box for box in boxes if box in counts and counts[box].count), self.aside_box)
        self.do_show(View.ASIDE)

    def do_show_next(self, step: int) -> None:
        """Shows the view ``step`` places further right."""
        there = [tab for tab in TABS if tab not in self.snapshot.observation.absent or tab == self.root]
        self.do_show(View(there[(there.index(self.root) + step) % len(there)]))

    # Commands that mark, filter, sort, copy, and open plans

    def do_plan(self, action: Action) -> None:
        """Opens the plan of an action on the selected messages; those that ``a`` is about to mark are awaited first."""
        if self.marking is not None and self.marking == self.list_query and not self.then:
            self.then = action.value
            self.show_notice("marking all; the plan opens then")
            return
        self.marking, self.then = None, ""
        selection = self.selected()
        if selection is not None:
            if action is Action.PURGE and not selection.named and selection.older_than is None:
                # A problem is about all messages that it counts: with an explicit age none is left out because it is recent.
                selection = selection.replace(older_than=0.0)
            self.open_plan(action, selection)

    def open_plan(self, action: Action, selection: Selection) -> None:
        self.open_screen(PlanScreen(self.session, action, selection), self.after_plan)

    def selected(self) -> Selection | None:
        """The messages that an operation would act on: those of a problem, the marked ones, or the row under the cursor."""
        context, chosen = self.context(), self.here
        if self.root is View.OVERVIEW:
            return context.problem.selection if context.problem is not None else None
        if context.consumer is not None:
            return context.consumer.selection
        if chosen.marks and self.overlay is None:
            return Selection(box=chosen.box, keys=tuple(chosen.marks))
        row = self.row
        return Selection(box=chosen.box, keys=(row.key,)) if row is not None else None

    def do_empty_expired(self) -> None:
        """Opens the plan to delete the messages whose retention in the trash is over, whatever is marked."""
        trash = self.context().trash
        if trash is not None and trash.retention is not None:
            self.open_plan(Action.EMPTY, Selection(box=Box.TRASH, older_than=trash.retention))

    def do_unlock(self) -> None:
        """Opens the plan to remove the chosen lock; for a problem, all locks that it is about."""
        context = self.context()
        paths = [context.lock.path] if context.lock is not None else []
        if context.problem is not None:
            code, subject = context.problem.code, context.problem.subject
            paths = [path for path, found in context.snapshot.lock_problems.items() if found == code]
            if code == "ticket-orphan" and subject in paths:
                paths = [subject]
        self.open_plan(Action.UNLOCK, Selection(keys=tuple(paths)))

    def do_who(self) -> None:
        context = self.context()
        file = context.lock.path if context.lock is not None else context.cursor.file if context.cursor is not None else None
        if context.row is not None:
            self.open_screen(HoldersScreen(self.session, context.row.key, context.row.id))
        elif file is not None:
            self.open_screen(HoldersScreen(self.session, file, file))

    def do_follow(self) -> None:
        if self.row is not None:
            self.open_screen(FollowScreen(self.session, [self.row.id]))

    def do_save(self) -> None:
        if (row := self.row) is not None:
            self.open_screen(SaveScreen(self.session, row.key, row.id), lambda words: self.show_notice(words) if words else None)

    def do_set_cursor(self) -> None:
        if (cursor := self.context().cursor) is not None:
            self.open_screen(SetCursorScreen(self.session, cursor))

    def do_inject(self) -> None:
        self.open_screen(InjectScreen(self.session))

    def do_operations(self) -> None:
        self.open_screen(OperationsScreen(self.session))

    def do_mute(self) -> None:
        context = self.context()
        if context.cursor is None:
            return
        source, control, mutes = context.cursor.source, self.session.control, context.muted is None

        def done(end: float | SpooltopError) -> None:
            words = f"{escape(source)} is no longer muted"
            if isinstance(end, SpooltopError):
                words = str(end)
            elif mutes:
                until = when(end, self.moment.zone)
                words = f"{escape(source)} is muted until {until}: its problems are not shown; m unmutes it"
            self.show_notice(words)

        job = partial(control.mute, source, MUTED_FOR) if mutes else partial(control.unmute, source)
        self.session.worker.submit(job, partial(deliver, self, done))

    def do_mark(self) -> None:
        chosen, row = self.here, self.row
        if row is None:
            return
        if row.key in chosen.marks:
            del chosen.marks[row.key]
        else:
            chosen.marks[row.key] = None
        self.rows.set_marks(chosen.marks)
        self.rows.move_by(1)
        self.paint()

    def do_mark_all(self) -> None:
        self.all_keys += 1
        self.marking, self.then = self.list_query, ""
        self.request()

    def do_unmark_all(self) -> None:
        marks = self.here.marks
        marks.clear()
        self.rows.set_marks(marks)
        self.paint()

    def sort_columns(self) -> dict[str, str]:
        """The columns that the list in front can be sorted by: their ids and their titles, left to right."""
        box = self.box
        of_consumers = columns_of(self.consumer_list)
        columns = of_consumers if self.root is View.CONSUMERS else COLUMNS[box] if box is not None else ()
        return {column.sort: column.title for column in columns if column.sort}

    def do_problems(self) -> None:
        chosen = self.here
        if chosen.box is None:
            self.all_problems = not self.all_problems
            self.paint()
        else:
            scope = None if isinstance(chosen.scope, Problem) else chosen.scope
            self.refine(problems_only=not chosen.problems_only, scope=scope)

    def do_freeze(self) -> None:
        if self.frozen_at is None:
            self.frozen_at = self.now
        else:
            self.frozen_at = None
            self.snapshot = self.session.snapshot
            self.session.snapshot_thread.look_again()
        self.paint()

    def do_times(self) -> None:
        self.format = (self.format + 1) % len(FORMATS)
        self.show_notice(f"times are shown as {FORMATS[self.format][1]}")

    def do_copy(self) -> None:
        context, row, text = self.context(), self.row, ""
        if context.view is View.MESSAGE and row is not None:
            payload = self.read.payload
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
            text = escape(str(context.consumer.owner.pid or context.consumer.owner.name or context.consumer.token))
        if not text:
            self.show_notice("copy: it has not been read yet")
            return
        first, _, rest = text.partition("\n")
        self.copy(text, first + (f" … ({len(text):,} characters)" if rest else ""))

    def do_look_again(self) -> None:
        self.session.snapshot_thread.look_again()
        self.show_notice("looking again at everything")

    def after_plan(self, result: Result | None) -> None:
        """Called after a plan was left. With a result, the marked messages are done."""
        if result is not None:
            for one in self.lists.values():
                one.marks.clear()
            self.rows.set_marks(frozenset())
            if self.overlay is View.MESSAGE:  # it is elsewhere now
                self.overlay = None
                self.shape()
        self.paint()


def _same(old: Page | None, page: Page) -> bool:
    """True where two pages differ only in the key that the cursor was searched by."""
    return old is not None and page.replace(anchor=old.anchor, anchor_at=old.anchor_at) == old
