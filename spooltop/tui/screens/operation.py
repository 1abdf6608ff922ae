"""One operation: what it did, to which messages, and what an undo of it would find now."""

from __future__ import annotations

from functools import partial

from textual.app import ComposeResult
from textual.message import Message

from ...errors import SpooltopError
from ...model.audit import AuditTrail
from ...model.plan import OperationRecord, Plan
from ...model.selection import Selection
from ...model.words import Action
from ..commands import footer
from ..deliver import deliver
from ..draw.operation import operation_lines
from ..draw.spans import Line, Style, plain, shown
from ..lifecycle import shell
from ..scene import Scene, View
from ..widgets import LinesView
from .footer import footer_line
from .stepping import SteppingScreen

__all__ = ["OperationScreen", "why_not_undo"]


def why_not_undo(record: OperationRecord) -> str:
    """Why it cannot be undone, "" where it can."""
    return record.why_not_undo or (f"it was undone by {record.undone_by}" if record.undone_by else "")


class OperationScreen(SteppingScreen[bool]):
    """Gives back True where it is to be undone. Its messages are those that a plan to undo it names; making that changes
    nothing."""

    class Planned(Message):
        """What an undo would find, or why there is none."""

        def __init__(self, plan: Plan | SpooltopError) -> None:
            super().__init__()
            self.plan = plan

    class Audited(Message):
        """The lines of the audit log were read, or why they could not be."""

        def __init__(self, trail: AuditTrail | SpooltopError) -> None:
            super().__init__()
            self.trail = trail

    def __init__(self, record: OperationRecord) -> None:
        super().__init__()
        self.trail: AuditTrail | None = None
        self.record = record
        self.plan: Plan | None = None
        self.failed = why_not_undo(record)
        self.scroll_at = 0

    def body(self) -> ComposeResult:
        yield LinesView(glyphs=self.owner.glyphs, colour=self.owner.options.colour, id="panel")

    def on_mount(self) -> None:
        audit = partial(self.owner.spool.audit, self.record.operation)
        self.owner.doer.submit(audit, lambda trail: deliver(self, self.Audited(trail)))
        if not self.failed:
            job = partial(self.owner.spool.plan, Action.UNDO, Selection(), options={"undoes": self.record.operation})
            self.owner.doer.submit(job, lambda plan: deliver(self, self.Planned(plan)))
        self.paint()

    def on_operation_screen_planned(self, message: Planned) -> None:
        if isinstance(message.plan, SpooltopError):
            self.failed = str(message.plan)
        else:
            self.plan = message.plan
        self.paint()

    def on_operation_screen_audited(self, message: Audited) -> None:
        told = message.trail
        self.trail = AuditTrail(troubles=(str(told),)) if isinstance(told, SpooltopError) else told
        self.paint()

    def scene(self) -> Scene:
        return Scene(View.OPERATION, snapshot=self.owner.snapshot, rows=1, depth=1, undoable=self.failed)

    @property
    def undoing(self) -> str:
        """The command that undoes it."""
        return shell(self.plan.command) if self.plan is not None else ""

    def paint(self) -> None:
        if not self.ready:
            return
        width, height = self.app.size
        whole = self._lines(width)
        room = max(1, height - 1)
        self.scroll_at = max(0, min(self.scroll_at, len(whole) - room))
        lines = whole[self.scroll_at :][:room]
        lines += [()] * (room - len(lines))
        said = plain(f" {shown(self.message)}", width, Style.STRONG) if self.message else None
        self.query_one(LinesView).show([*lines, said or footer_line(footer(self.scene()), width)])

    def _lines(self, width: int) -> list[Line]:
        main = self.owner.main
        return operation_lines(
            self.record, self.plan, self.failed, self.undoing, width, now=main.now, zone=main.zone, trail=self.trail
        )

    @property
    def length(self) -> int:
        return len(self._lines(self.app.size.width))

    def step(self, lines: int) -> None:
        self.scroll_at = max(0, self.scroll_at + lines)
        self.paint()

    def do_undo(self, key: str) -> None:
        self.dismiss(True)

    def do_copy_operation(self, key: str) -> None:
        text = self.undoing or self.record.operation
        self.app.copy_to_clipboard(text)
        self.say(f"copied: {text}")

    def do_back(self, key: str) -> None:
        self.dismiss(False)
