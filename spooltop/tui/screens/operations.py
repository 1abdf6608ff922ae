"""What was done here, newest first; one of them can be undone, through a plan like any other change."""

from __future__ import annotations

from functools import partial

from textual.message import Message

from spooltop.model.vocabulary import Action

from ...errors import SpooltopError
from ...model.plan import OperationRecord, Result
from ...model.selection import Selection
from ..context import Scene, View
from ..draw.operations import operations_lines
from ..draw.spans import Line, Style, plain, shown
from ..threads.deliver import deliver
from .operation import OperationScreen, why_not_undo
from .plan import PlanScreen
from .scrolling import SteppingScreen

__all__ = ["OperationsScreen"]


class OperationsScreen(SteppingScreen[None]):
    class Listed(Message):
        """The journal was read, or why it could not be."""

        def __init__(self, records: list[OperationRecord] | SpooltopError) -> None:
            super().__init__()
            self.records = records

    def __init__(self) -> None:
        super().__init__()
        self.records: list[OperationRecord] | None = None
        self.failed = ""
        self.chosen = 0

    def on_mount(self) -> None:
        self.read()
        self.paint()

    def read(self) -> None:
        job = partial(self.owner.spool.operations, self.unwanted())
        self.owner.doer.submit(job, lambda records: deliver(self, self.Listed(records)))

    def on_operations_screen_listed(self, message: Listed) -> None:
        if isinstance(message.records, SpooltopError):
            self.failed = str(message.records)
        else:
            self.records = message.records
        self.paint()

    @property
    def record(self) -> OperationRecord | None:
        return self.records[max(0, min(self.chosen, len(self.records) - 1))] if self.records else None

    def scene(self) -> Scene:
        record = self.record
        why = why_not_undo(record) if record is not None else ""
        return Scene(View.OPERATIONS, snapshot=self.owner.snapshot, rows=len(self.records or ()), depth=1, undoable=why)

    def paint(self) -> None:
        if not self.ready:
            return
        width = self.app.size.width
        lines: list[Line]
        if self.failed:
            lines = [plain(f" {shown(self.failed)}", width, Style.BAD)]
        elif self.records is None:
            lines = [plain(" reading the journal…", width)]
        else:
            self.chosen = max(0, min(self.chosen, len(self.records) - 1))
            lines = operations_lines(self.records, width, self.room, now=self.owner.main.now, chosen=self.chosen)
        self.show_panel(lines)

    def do_open_operation(self, key: str) -> None:
        if self.record is not None:
            self.app.push_screen(OperationScreen(self.record), self._left)

    def _left(self, undo: bool | None) -> None:
        if undo:
            self.do_undo("")

    def do_copy_operation(self, key: str) -> None:
        if self.record is not None:
            self.app.copy_to_clipboard(self.record.operation)
            self.say(f"copied: {self.record.operation}")

    def do_undo(self, key: str) -> None:
        record = self.record
        if record is not None:
            self.app.push_screen(PlanScreen(Action.UNDO, Selection(), {"undoes": record.operation}), self._undone)

    def _undone(self, result: Result | None) -> None:
        if result is not None:
            self.read()

    def do_back(self, key: str) -> None:
        self.dismiss(None)

    @property
    def place(self) -> int:
        return self.chosen

    @property
    def texts(self) -> list[str]:
        return [f"{record.operation} {record.action} {record.user} {record.words}" for record in self.records or ()]

    @property
    def length(self) -> int:
        return len(self.records or ())

    def step(self, lines: int) -> None:
        self.chosen += lines
        self.paint()
