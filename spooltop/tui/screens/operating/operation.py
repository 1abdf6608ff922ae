"""The screen of one operation: its action, its messages, and what an undo would find now."""

from __future__ import annotations

from functools import partial

from textual.events import Key
from textual.message import Message

from spooltop.errors import SpooltopError
from spooltop.model.filters.selection import Selection
from spooltop.model.operations.plan import OperationRecord, Plan
from spooltop.model.operations.results import AuditTrail
from spooltop.model.vocabulary import Action

from ...context import CommandContext, View
from ...draw.elements.spans import Line
from ...draw.operating.operation import operation_lines
from ...session import Session
from ...terminal.lifecycle import shell
from ...threads.snapshot_thread import deliver
from ..panel import TextScreen

NO_PLAN = "no plan is open; z opens the one that undoes this operation"
"""The notice on a key that would confirm a plan."""


def why_not_undo(record: OperationRecord) -> str:
    """The reason why it cannot be undone, "" where it can."""
    return record.why_not_undo or (f"it was undone by {record.undone_by}" if record.undone_by else "")


class OperationScreen(TextScreen[bool]):
    """Returns True where it is to be undone. Its messages are those of a plan to undo it; making that plan changes nothing."""

    class UndoPlanned(Message):
        """The plan to undo it, or why there is none."""

        def __init__(self, plan: Plan | SpooltopError) -> None:
            super().__init__()
            self.plan = plan

    class Audited(Message):
        """The journal was read, or could not be."""

        def __init__(self, trail: AuditTrail | SpooltopError) -> None:
            super().__init__()
            self.trail = trail

    session: Session

    def __init__(self, session: Session, record: OperationRecord) -> None:
        super().__init__(session)
        self.trail: AuditTrail | None = None
        self.record = record
        self.plan: Plan | None = None
        self.failed = why_not_undo(record)

    def on_mount(self) -> None:
        audit = partial(self.session.control.audit, self.record.operation)
        self.session.worker.submit(audit, lambda trail: deliver(self, self.Audited(trail)))
        if not self.failed:
            options = {"undoes": self.record.operation}
            job = partial(self.session.control.plan, Action.UNDO, Selection(), options=options, stop=self.unwanted())
            self.session.worker.submit(job, lambda plan: deliver(self, self.UndoPlanned(plan)))
        self.paint()

    def on_operation_screen_undo_planned(self, message: UndoPlanned) -> None:
        if isinstance(message.plan, SpooltopError):
            self.failed = str(message.plan)
        else:
            self.plan = message.plan
        self.paint()

    def on_operation_screen_audited(self, message: Audited) -> None:
        trail = message.trail
        self.trail = AuditTrail(problems=(str(trail),)) if isinstance(trail, SpooltopError) else trail
        self.paint()

    def context(self) -> CommandContext:
        return CommandContext(View.OPERATION, snapshot=self.session.snapshot, rows=1, depth=1, undoable=self.failed)

    @property
    def undoing(self) -> str:
        """The command that undoes it."""
        return shell(self.plan.command) if self.plan is not None else ""

    def text(self, width: int) -> list[Line]:
        return operation_lines(
            self.record, self.plan, self.failed, self.undoing, width, now=self.session.now(), zone=self.session.zone(),
            trail=self.trail,
        )  # fmt: skip

    def ignores(self, event: Key) -> bool:
        return self.refuse_confirming(event, NO_PLAN)

    def do_undo(self) -> None:
        self.dismiss(True)

    def do_copy_operation(self) -> None:
        text = self.undoing or self.record.operation
        self.copy_text(text)
        self.show_notice(f"copied: {text}")

    def do_back(self) -> None:
        self.dismiss(False)
