"""The list of operations, newest first. An operation can be undone through a plan like any other change."""

from __future__ import annotations

from functools import partial

from textual.events import Key
from textual.message import Message

from spooltop.errors import SpooltopError
from spooltop.model.filters import query
from spooltop.model.filters.query import operation_facts
from spooltop.model.filters.selection import Selection
from spooltop.model.operations.plan import OperationRecord, Result
from spooltop.model.vocabulary import Action

from ...commands import by_id
from ...context import CommandContext, View
from ...draw.elements.spans import Line, Span, Style, crop, join, plain, point_out, shown
from ...draw.operating.operations import operations_lines
from ...session import Session
from ...threads.snapshot_thread import deliver
from ..input import LineEdit
from ..scrolling import ChoosingScreen
from .operation import NO_PLAN, OperationScreen, why_not_undo
from .plan import PlanScreen

_MOST = 1000
"""Operations in the list: a journal may hold very many."""


class OperationsScreen(ChoosingScreen[None]):
    class Listed(Message):
        """The journal was read, or could not be."""

        def __init__(self, records: list[OperationRecord] | SpooltopError) -> None:
            super().__init__()
            self.records = records

    session: Session

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.records: list[OperationRecord] | None = None
        self.older = False
        self.failed = ""
        self.filter = ""

    def on_mount(self) -> None:
        self.read()
        self.paint()

    def read(self) -> None:
        job = partial(self.session.control.operations, self.unwanted(), most=_MOST + 1)
        self.session.worker.submit(job, lambda records: deliver(self, self.Listed(records)))

    def on_operations_screen_listed(self, message: Listed) -> None:
        if isinstance(message.records, SpooltopError):
            self.failed = str(message.records)
        else:
            first, self.records = self.records is None, message.records[:_MOST]
            self.older = len(message.records) > _MOST
            if first and self._follows_change:
                self.do_undo()
        self.paint()

    @property
    def _follows_change(self) -> bool:
        """True where the newest operation is the last change made here, and nobody looks at another: it is to be undone."""
        done = [result for result in self.session.state.results[-1:] if result.action is not Action.UNDO]
        record = self.record
        untouched = not (self.chosen or self.filter or self.finding or self.dismissed) and self.app.screen_stack[-1] is self
        same = bool(done) and record is not None and done[0].operation == record.operation
        return untouched and same and by_id("undo").why_not(self.context()) is None

    @property
    def record(self) -> OperationRecord | None:
        found = self.found
        return found[max(0, min(self.chosen, len(found) - 1))] if found else None

    @property
    def found(self) -> list[OperationRecord]:
        """The operations that the filter matches."""
        if not self.filter or self.records is None:
            return self.records or []
        wanted, now = query.parse(self.filter, lenient=True), self.session.now()
        return [record for record in self.records if wanted.holds(operation_facts(record, now))]

    def context(self) -> CommandContext:
        record = self.record
        why = why_not_undo(record) if record is not None else ""
        return CommandContext(
            View.OPERATIONS, snapshot=self.session.snapshot, rows=len(self.found), depth=1, undoable=why, filter=self.filter,
            reading=self.records is None and not self.failed,
        )  # fmt: skip

    def paint(self) -> None:
        if not self.ready:
            return
        width = self.window_size[0]
        lines: list[Line]
        if self.failed:
            lines = [plain(f" {shown(self.failed)}", width, Style.BAD)]
        elif self.records is None:
            lines = [plain(" reading the journal…", width)]
        else:
            self.clamp()
            found = self.found
            lines = operations_lines(
                found, width, self.panel_height, now=self.session.now(), chosen=self.chosen, older=self.older
            )
            if self.filter:
                lines = self._filtered(lines, bool(found), width)
        self.show_panel(lines)

    def _filtered(self, lines: list[Line], any_found: bool, width: int) -> list[Line]:
        if not any_found:
            return [plain(f" no operation matches {shown(self.filter)}; Esc clears the filter", width)]
        texts = query.parse(self.filter, lenient=True).texts
        head = join(lines[0], Span(" match "), Span(shown(self.filter), Style.KEY))
        return [crop(head, width), *(point_out(line, texts) for line in lines[1:])]

    def ignores(self, event: Key) -> bool:
        return self.refuse_confirming(event, NO_PLAN)

    # The filter, typed in the line of the keys

    def do_filter(self) -> None:
        self.finding = LineEdit(self.filter)
        self.pasted()

    def pasted(self) -> None:
        if self.finding is None:
            super().pasted()
            return
        found = query.parse(self.finding.text, lenient=True)
        self.filter = str(found)
        hint = found.hint or f"{len(self.found):,} match · Enter keeps · Esc clears"
        self.show_notice(f"/{self.finding.text}_   {hint}")

    def typed(self, event: Key) -> bool:
        if self.finding is not None and event.key == "escape":
            self.filter = ""
        elif self.finding is not None and event.key == "enter":
            self.finding = None
            self.paint()
            return True
        return super().typed(event)

    def do_back(self) -> None:
        if not self.filter:
            super().do_back()
            return
        self.filter = ""
        self.paint()

    def do_open_operation(self) -> None:
        if self.record is not None:
            self.open_screen(OperationScreen(self.session, self.record), self._left)

    def _left(self, undo: bool | None) -> None:
        if undo:
            self.do_undo()

    def do_copy_operation(self) -> None:
        if self.record is not None:
            self.copy_text(self.record.operation)
            self.show_notice(f"copied: {self.record.operation}")

    def do_undo(self) -> None:
        record = self.record
        if record is not None:
            self.open_screen(PlanScreen(self.session, Action.UNDO, Selection(), {"undoes": record.operation}), self._undone)

    def _undone(self, result: Result | None) -> None:
        if result is not None:
            self.read()

    @property
    def texts(self) -> list[str]:
        return [f"{record.operation} {record.action} {record.user} {record.words}" for record in self.found]
