"""The list of operations, newest first, and the screen of one of them: its action, its messages, and what an undo would find now.
An operation can be undone through a plan like any other change."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from textual.events import Key

from spooltop.errors import SpooltopError
from spooltop.model import query
from spooltop.model.plan import AuditTrail, Item, OperationRecord, Outcome, Plan, Refusal, Result, Selection, said
from spooltop.model.query import operation_facts
from spooltop.model.vocabulary import Action

from ..commands import by_id
from ..context import CommandContext, View
from ..draw.frame import inner_width, note_lines, panel_frame
from ..draw.header import Zone, ago, when
from ..draw.spans import (
    BLANK,
    Line,
    Lines,
    Span,
    Style,
    dim,
    fitted,
    headed,
    labelled,
    line_text,
    merge,
    paragraph,
    plain,
    point_out,
    select,
    visible,
)
from ..draw.text import clip_left, pad, pad_left, safe, shown, text_width
from ..session import Session
from ..snapshot_thread import deliver
from ..terminal.lifecycle import shell
from .base import ChoosingScreen, LineEdit, TextScreen
from .plan import PlanScreen

_WITH_TIME = 100


def _outcome(record: OperationRecord) -> Line:
    """The failures of an operation, and whether it can be undone."""
    parts: list[Span] = []
    if record.open:
        parts.append(Style.BAD("NOT FINISHED · "))
    if record.failed or record.skipped:
        counts = ((record.skipped, "skipped"), (record.failed, "failed"))
        parts.append(Style.WARN(f"{', '.join(f'{n:,} {word}' for n, word in counts if n)} · "))
    if record.undone_by is not None:
        parts.append(Span(f"undone by {shown(record.undone_by)}"))
    elif record.why_not_undo is not None:
        parts.append(Span(f"no: {shown(record.why_not_undo)}"))
    else:
        parts.append(Span("can be undone"))
    if record.words:
        parts.append(Span(f" · {shown(record.words)}"))
    return merge(parts)


_BOX = 9


def _fact(label: str, text: str, inner: int, style: Style = Style.NORMAL) -> Lines:
    return labelled(Style.DIM(f"{label:<9}"), text, inner, style)


def _messages(items: Sequence[Item], refused: Sequence[Refusal], inner: int) -> Lines:
    """The messages that an undo can move, then those that it cannot, by reason."""
    lines = [plain(f"{len(items):,} can be undone" if items else "nothing can be undone now", inner, Style.STRONG)]
    for item in items:
        if item.words:
            lines += paragraph(shown(item.words), inner, margin="  ")
        else:
            where = pad(item.row.box.value, _BOX)
            lines.append(fitted(inner, f"  {where}{clip_left(safe(item.row.id), max(4, inner - 2 - _BOX))}"))
    reasons: dict[str, list[str]] = {}
    for one in refused:
        reasons.setdefault(one.reason, []).append(one.row.id)
    for reason, ids in reasons.items():
        lines += headed(Style.WARN(f"{len(ids):,} not: "), shown(reason), inner, indent=2)
        lines += [dim(f"  {clip_left(safe(id), max(4, inner - 2))}", inner) for id in ids]
    return lines


def _audit(trail: AuditTrail, inner: int, zone: Zone) -> Lines:
    """The steps in the journal, each with the items that were not done."""
    head = "The journal" if trail.lines else "The journal has no line about it"
    lines = [BLANK, plain(head, inner, Style.STRONG)]
    for line in trail.lines:
        text = f"{when(line.at, zone)} {line.event}: {said(line)}"
        lines += paragraph(shown(text), inner, Style.NORMAL if line.trusted else Style.WARN, indent=2)
        for one in line.results:
            if one.outcome is not Outcome.DONE or one.reason:
                words = f"{one.outcome.value}{f': {shown(one.reason)}' if one.reason else ''} "
                lines.append(plain(f"  {words}{clip_left(safe(one.name), max(4, inner - 2 - text_width(words)))}", inner))
    return [*lines, *(line for problem in trail.problems for line in paragraph(shown(problem), inner, Style.WARN))]


NO_PLAN = "no plan is open; z opens the one that undoes this operation"
"""The notice on a key that would confirm a plan."""


def why_not_undo(record: OperationRecord) -> str:
    """The reason why it cannot be undone, "" where it can."""
    return record.why_not_undo or (f"it was undone by {record.undone_by}" if record.undone_by else "")


class OperationScreen(TextScreen[bool]):
    """Returns True where it is to be undone. Its messages are those of a plan to undo it; making that plan changes nothing."""

    session: Session

    def __init__(self, session: Session, record: OperationRecord) -> None:
        super().__init__(session)
        self.trail: AuditTrail | None = None
        self.record = record
        self.plan: Plan | None = None
        self.failed = why_not_undo(record)

    def on_mount(self) -> None:
        audit = partial(self.session.control.audit, self.record.operation)
        self.session.worker.submit(audit, partial(deliver, self, self._audited))
        if not self.failed:
            options = {"undoes": self.record.operation}
            job = partial(self.session.control.plan, Action.UNDO, Selection(), options=options, stop=self.unwanted())
            self.ask(self.session.worker.submit, job, partial(setattr, self, "plan"))

    def _audited(self, trail: AuditTrail | SpooltopError) -> None:
        self.trail = AuditTrail(problems=(str(trail),)) if isinstance(trail, SpooltopError) else trail
        self.paint()

    def context(self) -> CommandContext:
        return CommandContext(View.OPERATION, snapshot=self.session.snapshot, rows=1, depth=1, undoable=self.failed)

    @property
    def undoing(self) -> str:
        """The command that undoes it."""
        return shell(self.plan.command) if self.plan is not None else ""

    def text(self, width: int) -> Lines:
        inner, plan, zone = inner_width(width), self.plan, self.session.zone()
        body = [*self._facts(inner, zone), BLANK]
        if plan is not None:
            body += [*_messages(plan.items, plan.refused, inner), *note_lines(plan.notes, inner)]
            if plan.command:
                body += [BLANK, *_fact("undo", shown(self.undoing), inner)]
        elif not self.failed:
            body.append(dim("looking up its messages…", inner))
        if self.trail is not None:
            body += _audit(self.trail, inner, zone)
        return panel_frame(f"Operation {shown(self.record.operation)}", "", body, width)

    def _facts(self, inner: int, zone: Zone) -> Lines:
        record = self.record
        done = f"{record.done:,} of {record.count:,} done"
        done += f" · skipped {record.skipped:,} · failed {record.failed:,}" if record.skipped or record.failed else ""
        words = f": {shown(record.words)}" if record.words else ""
        ago_by = f"{ago(record.at, self.session.now())} ago, by {safe(record.user)}"
        lines = _fact("action", f"{record.action.value}{words}", inner)
        lines += _fact("when", f"{when(record.at, zone)}, {ago_by}", inner)
        lines += _fact("outcome", done, inner)
        if record.open:
            lines += _fact("", "NOT FINISHED: it was stopped or killed", inner, Style.BAD)
        if self.failed:
            lines += _fact("undo", f"no: {shown(self.failed)}", inner)
        return lines

    def ignores(self, event: Key) -> bool:
        return self.refuse_confirming(event, NO_PLAN)

    def do_undo(self) -> None:
        self.dismiss(True)

    def do_copy_operation(self) -> None:
        text = self.undoing or self.record.operation
        self.copy(text)

    def do_back(self) -> None:
        self.dismiss(False)


_MOST = 1000
"""Operations in the list: a journal may hold very many."""


class OperationsScreen(ChoosingScreen[None]):
    session: Session

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.records: list[OperationRecord] | None = None
        self.older = False
        self.filter = ""

    def on_mount(self) -> None:
        self.read()

    def read(self) -> None:
        job = partial(self.session.control.operations, self.unwanted(), most=_MOST + 1)
        self.ask(self.session.worker.submit, job, self._listed)

    def _listed(self, records: list[OperationRecord]) -> None:
        first, self.records = self.records is None, records[:_MOST]
        self.older = len(records) > _MOST
        if first and self._follows_change:
            self.do_undo()

    @property
    def _follows_change(self) -> bool:
        """True where the newest operation is the last change made here, and nobody looks at another: it is to be undone."""
        done = [result for result in self.session.state.results[-1:] if result.action is not Action.UNDO]
        record = self.record
        touched = self.at or self.filter or self.typing is not None or self.dismissed or self.app.screen_stack[-1] is not self
        same = bool(done) and record is not None and done[0].operation == record.operation
        return not touched and same and by_id("undo").why_not(self.context()) is None

    @property
    def record(self) -> OperationRecord | None:
        found = self.found
        return found[max(0, min(self.at, len(found) - 1))] if found else None

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

    def draw(self, width: int, height: int) -> Lines:
        if self.failed:
            return [plain(f" {shown(self.failed)}", width, Style.BAD)]
        if self.records is None:
            return [plain(" reading the journal…", width)]
        self.clamp()
        found = self.found
        if not found:
            none = f"matches {shown(self.filter)}; Esc clears the filter" if self.filter else "has been done here"
            return [plain(f" no operation {none}", width)]
        lines = self._table(found, width, height)
        if not self.filter:
            return lines
        texts = query.parse(self.filter, lenient=True).texts
        head = fitted(width, lines[0], " match ", Style.KEY(shown(self.filter)))
        return [head, *(point_out(line, texts) for line in lines[1:])]

    def _table(self, records: Sequence[OperationRecord], width: int, height: int) -> Lines:
        """A title and one line per operation, at most ``height`` lines, with the chosen one visible; the last lines say why it
        cannot be undone."""
        record = records[self.at]
        words = f"{shown(record.operation)}: {line_text(_outcome(record))}"
        outcome_lines = paragraph(words, width, margin=" ")
        below = len(outcome_lines) + 1 if height >= len(outcome_lines) + 6 else 0  # in full, where it fits
        lines: Lines = []
        if height >= 8:
            older = " · all: spooltop ops --all" if self.older else ""
            lines.append(fitted(width, Style.TITLE(f" Operations {len(records):,}"), " · newest first", older))
        fits = max(1, height - 1 - below - len(lines))
        at = f"{'at':<8}  " if width >= _WITH_TIME else ""
        title = f"   {'ago':>5}  {at}{'action':<10} {'done':>11}  {'by':<8}  {'operation':<10}  undo"
        lines.append(dim(title, width))
        lines += [self._line(records[i], width, chosen=i == self.at) for i in visible(len(records), fits, self.at)]
        if below:
            lines += [BLANK] * (height - below - len(lines) if len(records) > fits else 1)
            lines += outcome_lines
        return lines[:height]

    def _line(self, record: OperationRecord, width: int, *, chosen: bool) -> Line:
        done = f"{record.done:,} of {record.count:,}" if record.done != record.count else f"{record.count:,}"
        at = f"{when(record.at)}  " if width >= _WITH_TIME else ""
        text = (
            f"{'▌' if chosen else ' '}  {pad_left(ago(record.at, self.session.now()), 5)}  {at}{pad(record.action.value, 10)} "
            f"{pad_left(done, 11)}  {pad(safe(record.user), 8)}  {pad(shown(record.operation), 10)}  "
        )
        line = fitted(width, text, _outcome(record))
        return select(line, width) if chosen else line

    def ignores(self, event: Key) -> bool:
        return self.refuse_confirming(event, NO_PLAN)

    # The filter, typed in the line of the keys

    def do_filter(self) -> None:
        self.read_line(LineEdit(self.filter), self._filter, self._keep)
        self._filter(self.filter)

    def _filter(self, text: str) -> None:
        found = query.parse(text, lenient=True)
        self.filter = str(found)
        hint = found.hint or f"{len(self.found):,} match · Enter keeps · Esc clears"
        self.show_notice(f"/{text}_   {hint}")

    def _keep(self, text: str | None) -> None:
        if text is None:
            self.filter = ""
        self.paint()

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
            self.copy(self.record.operation)

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
