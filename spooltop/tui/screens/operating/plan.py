"""The screen of a plan: its items are pinned, listed and confirmed, then applied. Keys typed before it was seen do not count."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from textual.app import ComposeResult
from textual.events import Key, Resize
from textual.message import Message

from spooltop.errors import SpooltopError, UsageError
from spooltop.model import units
from spooltop.model.filters.selection import Selection
from spooltop.model.operations.plan import Confirm, Item, Plan, Result
from spooltop.model.text import escape
from spooltop.model.vocabulary import Action, Json
from spooltop.operate.operations import shell_lines

from ...commands import command_for
from ...context import CommandContext, View
from ...draw.elements.spans import Line, plain, shown, wrap
from ...draw.operating.plan import making_lines, plan_lines
from ...session import Session
from ...terminal.lifecycle import printable
from ...threads.snapshot_thread import deliver, now_and_then
from ...tracking.status import FOLLOWED_AT_MOST, FOLLOWS, cursor_set
from ..base import ANYWHERE, CONFIRMING, LEAVING, early_words, footer_line
from ..input import LineEdit
from ..panel import Panel
from ..scrolling import ScrollingScreen
from .result import ResultScreen


class PlanScreen(ScrollingScreen[Result | None]):
    """Opens at once and shows how far the plan is, and the first items of a large one; the plan then stays the same while the
    spool changes. Returns the result, None where it was left."""

    PINNED = True

    class Planned(Message):
        """The plan was made, or could not be."""

        def __init__(self, plan: Plan | SpooltopError) -> None:
            super().__init__()
            self.plan = plan

    class Planning(Message):
        """The progress of making the plan."""

        def __init__(self, words: str) -> None:
            super().__init__()
            self.words = words

    class Found(Message):
        """The first items of a large plan."""

        def __init__(self, items: Sequence[Item]) -> None:
            super().__init__()
            self.items = items

    class Advanced(Message):
        """This many items were tried."""

        def __init__(self, tried: int) -> None:
            super().__init__()
            self.tried = tried

    class Applied(Message):
        """It was applied, or refused before anything was changed."""

        def __init__(self, result: Result | SpooltopError) -> None:
            super().__init__()
            self.result = result

    session: Session

    def __init__(self, session: Session, action: Action, selection: Selection, options: Mapping[str, Json] | None = None) -> None:
        super().__init__(session)
        self.action = action
        self.selection = selection
        self.options = dict(options or {})
        self.plan: Plan | None = None
        self.force = False
        self.edit = LineEdit(limit=12, digits=True)
        self.applying = False
        self.tried = 0
        self.began = 0.0
        self.refused = ""
        self.planning = ""
        self.first: Sequence[Item] = ()
        """The items that are shown before there is a plan."""
        self.rate: LineEdit | None = None
        """The rate that is being typed."""
        self.strayed_at = 0.0
        """The time (of the event clock) of the last key that has no meaning here."""
        self.asked_at = 0.0
        """The time that ``early`` is judged by: that of a key or of painting."""
        self.stop = threading.Event()

    def body(self) -> ComposeResult:
        panel = Panel(glyphs=self.session.glyphs, colour=self.session.options.colour, id="panel")
        panel.readable = lambda: not self.small
        yield panel

    def on_mount(self) -> None:
        self.make()
        self.paint()

    def make(self) -> None:
        self._ask(partial(
            self.session.control.plan, self.action, self.selection, force=self.force, options=dict(self.options),
            on_progress=now_and_then(self, self.Planning),
            on_first=lambda items: deliver(self, self.Found(items)),
            stop=self.unwanted(),  # otherwise the next plan would wait for this one
        ))  # fmt: skip

    def _ask(self, job: Callable[[], Plan]) -> None:
        """Replaces the plan by the one that ``job`` makes; the one shown before cannot be confirmed any more."""
        self.plan, self.edit.text, self.planning, self.first = None, "", "", ()
        self.session.worker.submit(job, lambda plan: deliver(self, self.Planned(plan)))

    def on_plan_screen_planning(self, message: Planning) -> None:
        if self.plan is None:
            self.planning = message.words
            self.paint()

    def on_plan_screen_found(self, message: Found) -> None:
        if self.plan is None:
            self.first = message.items
            self.paint()

    def on_plan_screen_planned(self, message: Planned) -> None:
        if isinstance(message.plan, SpooltopError):
            self.refused = str(message.plan)
        else:
            self.plan = message.plan
        self.query_one(Panel).renew()
        self.paint()

    def on_resize(self, event: Resize) -> None:
        if self.small:  # the plan cannot be read now: a key does not count
            self.query_one(Panel).renew()

    def ignores(self, event: Key) -> bool:
        if event.key in LEAVING:
            return False
        seen_at = self.query_one(Panel).painted_at if self.plan is not None else None
        if not self.applying and (seen_at is None or event.time < seen_at):
            self.refuse_early(event)
            return self.plan is not None or not self.first or not self._moves(event)
        self.asked_at = event.time
        if self.rate is None and event.is_printable and not self._means_something(event):
            self.strayed_at = event.time
            self._settle()
        return False

    def refuse_early(self, event: Key) -> None:
        if event.key in CONFIRMING:
            self.session.state.early = event.key
            self._tell_early()

    def _tell_early(self) -> None:
        """Says that a key came too early, once somebody sees the plan that it was meant for: not the one that was applied."""
        state = self.session.state
        if state.early and not self.began and self.plan is not None and self.query_one(Panel).painted_at is not None:
            self.show_notice(early_words(state.early))
            state.early = ""

    def _moves(self, event: Key) -> bool:
        command, _ = command_for(event.key, self.context())
        return command is not None and command.group == "move"

    def _means_something(self, event: Key) -> bool:
        numbered = self.plan is not None and self.plan.confirm is Confirm.NUMBER
        return (numbered and event.character in tuple("0123456789")) or command_for(event.key, self.context())[0] is not None

    @property
    def early(self) -> bool:
        """True where it is too early to confirm: the plan was not shown long enough, or a word is being typed."""
        seen_at = self.query_one(Panel).painted_at
        return seen_at is None or self.asked_at < max(seen_at, self.strayed_at) + self.session.moment

    def on_panel_painted(self) -> None:
        self._settle()
        self._tell_early()

    def _settle(self) -> None:
        """Shows how to confirm as soon as a key would."""
        self.asked_at = Message().time
        self.paint()
        if self.early and self.session.moment and self.query_one(Panel).painted_at is not None:
            self.set_timer(self.session.moment, self._settle)

    def context(self) -> CommandContext:
        early = self.is_mounted and self.early
        return CommandContext(
            View.PLAN, snapshot=self.session.snapshot, plan=self.plan, applying=self.applying, early=early, depth=1
        )

    @property
    def edited(self) -> LineEdit | None:
        return self.rate or super().edited

    def typed(self, event: Key) -> bool:
        if super().typed(event):
            return True
        if self.rate is not None:
            return self._typed_rate(self.rate, event)
        plan = self.plan
        if plan is None or self.applying or plan.confirm is not Confirm.NUMBER:
            return False
        if event.key in ("backspace", "ctrl+h") and not self.edit.text:
            return False
        if event.key in ("backspace", "ctrl+h") or (event.character or "") in tuple("0123456789"):
            self.edit.key(event.key, event.character)
            self.paint()
            return True
        return False

    def _typed_rate(self, edit: LineEdit, event: Key) -> bool:
        """Handles a key while a rate is typed. No such key reaches the plan, so that a slip does not confirm it."""
        if event.key in ANYWHERE:
            return False
        if event.key == "escape":
            self.rate = None
        elif event.key == "enter":
            self._set_rate(edit.text.strip())
        else:
            edit.key(event.key, event.character)
        self.paint()
        return True

    def _set_rate(self, text: str) -> None:
        try:
            rate = units.parse_rate(text) if text else None
        except UsageError as error:
            self.show_notice(str(error))
            return
        plan, self.rate = self.plan, None
        if plan is None or plan.rate == rate:
            return
        self.options.pop("rate", None)
        if rate is not None:
            self.options["rate"] = rate
        # In the worker thread, because the command may list a million ids.
        self._ask(partial(self.session.control.with_rate, plan, rate))

    # Drawing

    def paint(self) -> None:
        if not self.ready:
            return
        if self.plan is None or self.refused:
            self.query_one(Panel).show(self._without_plan(*self.window_size))
            return
        busy = ""
        if self.applying:
            busy = "stopping…" if self.stop.is_set() else f"{self.tried:,} of {self.plan.count:,} done; Esc stops"
        rate = None if self.rate is None else self.rate.text
        lines = plan_lines(
            self.plan, self.window_size[0], self.panel_height, now=self.session.now(), typed=self.edit.text,
            scroll=self.scroll_at, busy=busy, rate=rate, early=self.early,
        )  # fmt: skip
        self.show_panel(lines)

    def _without_plan(self, width: int, height: int) -> list[Line]:
        if self.refused:
            lines = [plain(f" {line}", width) for line in wrap(shown(self.refused), width - 2)]
            return [(), *lines[: height - 3], (), plain(" Esc leaves; nothing was changed", width)]
        how_far = [(), plain(f" {self.planning}", width)] if self.planning else []
        if self.first:
            now, scroll = self.session.now(), self.scroll_at
            return making_lines(self.action, self.planning, self.first, width, height, now=now, scroll=scroll)
        return [(), plain(f" {self.action}: making the plan… nothing changes yet; Esc cancels", width), *how_far]

    # Commands

    def do_confirm(self) -> None:
        self.apply()

    def do_confirm_number(self) -> None:
        if self.plan is None:
            return
        if self.edit.text != str(self.plan.count):
            self.show_notice(f"type the number {self.plan.count} and Enter; Esc leaves")
            return
        self.apply()

    def apply(self) -> None:
        """Applies the plan in the worker thread."""
        plan, session = self.plan, self.session
        if plan is None or self.applying:
            return
        self.applying = True
        self.began = session.control.now()
        if plan.action in FOLLOWS:
            # Before applying: a consumer may claim a message and finish it before the result is shown.
            session.snapshot_thread.follow([item.id for item in plan.items[:FOLLOWED_AT_MOST]], self.began)

        def stopped() -> bool:
            return self.stop.is_set() or session.leaving.is_set()

        def applied(result: Result | SpooltopError) -> None:
            # Kept here and not in the message: on leaving, messages are not taken any more.
            if isinstance(result, Result):
                session.state.results.append(result)
            deliver(self, self.Applied(result))

        advanced = now_and_then(self, self.Advanced)
        session.worker.submit(lambda: session.control.apply(plan, on_progress=advanced, stop=stopped), applied)
        self.paint()

    def on_plan_screen_advanced(self, message: Advanced) -> None:
        self.tried = message.tried
        self.paint()

    def on_plan_screen_applied(self, message: Applied) -> None:
        self.applying = False
        result = message.result
        if isinstance(result, SpooltopError):
            self.session.snapshot_thread.follow(())
            self.refused = str(result)
            self.paint()
            return
        cursor = cursor_set(self.plan) if self.plan is not None else None
        self.open_screen(ResultScreen(self.session, result, self.began, cursor), lambda undo: self._after(result, undo))

    def _after(self, result: Result, undo: bool | None) -> None:
        self.dismiss(result)
        if undo:
            self.open_screen(PlanScreen(self.session, Action.UNDO, Selection(), {"undoes": result.operation}))

    def do_stop(self) -> None:
        self.stop.set()
        self.paint()

    def do_cancel(self) -> None:
        self.dismiss(None)

    def do_force(self) -> None:
        self.force = True
        self.make()
        self.paint()

    def do_hold_poison(self) -> None:
        self.options["hold_poison"] = True
        self.make()
        self.paint()

    def do_rate(self) -> None:
        rate = self.plan.rate if self.plan is not None else None
        self.rate = LineEdit("" if rate is None else units.rate_limit(rate).replace(",", ""), limit=12)
        self.paint()

    def keys_line(self, width: int) -> Line:
        if self.rate is None:
            return super().keys_line(width)
        return footer_line([("Enter", "set it"), ("Esc", "leave it as it is")], width)

    def do_copy_command(self) -> None:
        if self.plan is not None:
            first, *more = [printable(line) for line in shell_lines(self.plan)]
            self.copy_text("\n".join([first, *more]))
            self.show_notice(f"copied: {first}" + (f" and {len(more) - 1:,} ids below it" if more else ""))

    @property
    def texts(self) -> list[str]:
        return [escape(item.id) for item in self._items]

    @property
    def length(self) -> int:
        return len(self._items)

    @property
    def _items(self) -> Sequence[Item]:
        return self.first if self.plan is None else self.plan.items
