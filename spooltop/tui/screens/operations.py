"""The list of operations, newest first. An operation can be undone through a plan like any other change."""

from __future__ import annotations

from functools import partial

from textual.message import Message

from spooltop.model.vocabulary import Action

from ...errors import SpooltopError
from ...model.plan import OperationRecord, Result
from ...model.selection import Selection
from ..context import CommandContext, View
from ..draw.operations import operations_lines
from ..draw.spans import Line, Style, plain, shown
from ..session import Session
from ..threads.deliver import deliver
from .operation import OperationScreen, why_not_undo
from .plan import PlanScreen
from .scrolling import ChoosingScreen

__all__ = ["OperationsScreen"]

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
            self.records = message.records[:_MOST]
            self.older = len(message.records) > _MOST
        self.paint()

    @property
    def record(self) -> OperationRecord | None:
        return self.records[max(0, min(self.chosen, len(self.records) - 1))] if self.records else None

    def context(self) -> CommandContext:
        record = self.record
        why = why_not_undo(record) if record is not None else ""
        rows = len(self.records or ())
        return CommandContext(View.OPERATIONS, snapshot=self.session.snapshot, rows=rows, depth=1, undoable=why)

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
            lines = operations_lines(
                self.records, width, self.panel_height, now=self.session.now(), chosen=self.chosen, older=self.older
            )
        self.show_panel(lines)

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
        return [f"{record.operation} {record.action} {record.user} {record.words}" for record in self.records or ()]
