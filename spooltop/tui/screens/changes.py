"""The screens that a change begins with, besides the views: the forms for test messages and for the name of the file that a
payload is saved to, and the list of operations, of which one can be undone. All but the second open a plan."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from textual.events import Key as KeyEvent
from textual.screen import ScreenResultType

from spooltop.model import (
    Action,
    AuditTrail,
    Box,
    Item,
    Json,
    Key,
    OperationRecord,
    Outcome,
    Plan,
    Refusal,
    Result,
    Selection,
    SpooltopError,
    escape,
    query,
    said,
)
from spooltop.model.query import operation_facts

from ..commands import View, by_id, footer
from ..draw.elements import (
    BLANK,
    Line,
    Lines,
    Style,
    Zone,
    ago,
    clip_left,
    dim,
    headed,
    inner_width,
    join,
    labelled,
    line_text,
    note_lines,
    numbered,
    pad,
    pad_left,
    panel_frame,
    paragraph,
    point_out,
    safe,
    select,
    shown,
    text_width,
    visible,
    when,
    within,
)
from ..terminal.lifecycle import shell
from ..threads import deliver
from .base import ChoosingScreen, Facts, LineEdit, Session, TableScreen, TextScreen, footer_line
from .plan import PlanScreen

_WIDEST, _NAME, _VALUE = 100, 8, 34


class FormScreen(TableScreen[ScreenResultType]):
    """Fields to be typed into, by their names; Tab and the arrows go from one to the next."""

    session: Session
    typing: LineEdit

    def __init__(self, session: Session, **fields: LineEdit) -> None:
        super().__init__(session)
        self.fields = fields
        self.chosen = 0
        self.typing = next(iter(fields.values()))

    def typed(self, event: KeyEvent) -> bool:
        if step := {"down": 1, "tab": 1, "up": -1, "shift+tab": -1}.get(event.key):
            self.chosen = (self.chosen + step) % len(self.fields)
            self.typing = list(self.fields.values())[self.chosen]
            return True
        return self.typing.key(event.key, event.character)

    def form(self, inner: int) -> tuple[str, Lines]:
        """The title, and the lines in ``inner`` cells."""
        raise NotImplementedError

    def draw(self, width: int, height: int) -> Lines:
        width = min(width, _WIDEST)
        title, body = self.form(inner_width(width))
        return panel_frame(title, "", body[: max(1, height - 2)], width)

    def open_plan(self, action: Action, selection: Selection, options: dict[str, Json]) -> None:
        """Opens a plan, and leaves the form once it was applied."""
        self.open_screen(PlanScreen(self.session, action, selection, options), self._done)

    def _done(self, result: Result | None) -> None:
        if result is not None:
            self.dismiss(None)


MOST = 100_000
HINTS = {
    "count": "how many, at most 100,000",
    "text": "{n} {id} {time} are filled in",
    "file": "a file's content instead of text",
    "size": "that many bytes instead of text",
    "source": "the source, or empty for none",
    "rate": "messages per second, or empty for no limit",
}


class InjectScreen(FormScreen[None]):
    """The fields are those of ``HINTS``. A size fills the messages with that many bytes instead of text."""

    VIEW = View.INJECT

    def __init__(self, session: Session) -> None:
        super().__init__(
            session, count=LineEdit("1", limit=6, digits=True), text=LineEdit("test message of spooltop"), file=LineEdit(""),
            size=LineEdit("", limit=9, digits=True), source=LineEdit("", limit=60), rate=LineEdit("", limit=6, digits=True),
        )  # fmt: skip

    def form(self, inner: int) -> tuple[str, Lines]:
        """A hint follows its field, on the next line where it does not fit."""
        one_line = inner >= 2 + _NAME + _VALUE + 30
        room = _VALUE if one_line else max(1, inner - 2 - _NAME)
        body: Lines = []
        for field, edit in self.fields.items():
            chosen = edit is self.typing
            text = clip_left(shown(edit.text), room - 2)  # text is typed at the end
            sign = Style.KEY("▌ " if chosen else "  ")
            name = (Style.STRONG if chosen else Style.DIM)(pad(field, _NAME))
            cursor = Style.KEY("█" if chosen else "")
            gap = " " * (room - text_width(text) - len(cursor.text))
            hint = dim(HINTS[field])
            body.append(join(sign, name, text, cursor, gap, hint if one_line else ""))
            if not one_line:
                body.append(join(" " * (2 + _NAME), hint))
        body += [BLANK, join("They are marked as tests; consumers take them. Enter opens a plan first.")]
        return "Inject test messages into new", body

    def keys_line(self, width: int) -> Line:
        return footer_line([("↑↓", "field"), *footer(self.context())], width)

    def do_make(self) -> None:
        texts = {name: edit.text for name, edit in self.fields.items()}
        count = int(texts["count"] or "0")
        if not 1 <= count <= MOST:
            self.show_notice(f"count: a number from 1 to {MOST:,}")
            return
        options: dict[str, Json] = {"count": count, "canary": True}  # as the form says: marked as tests
        if texts["file"] and texts["size"]:
            self.show_notice("give a file or a size, not both")
            return
        if texts["size"]:
            options["size"] = int(texts["size"])
        else:
            content = "file" if texts["file"] else "text"
            options[content] = texts[content]
        given: dict[str, Json] = {"rate": int(texts["rate"] or "0"), "source": texts["source"]}
        options |= {name: value for name, value in given.items() if value}
        self.open_plan(Action.INJECT, Selection(box=Box.NEW), options)


_ADVICE = (
    "The whole payload, with fields redacted as they are shown. The file must not exist yet; only you may read it. "
    "A name without / is one in the directory that spooltop was started in."
)


class SaveScreen(FormScreen[str | None]):
    """Returns a notice of what was saved; None where it was left."""

    VIEW = View.SAVING
    saving = False

    def __init__(self, session: Session, key: Key, id: str) -> None:
        super().__init__(session, file=LineEdit(escape(id), limit=4000))
        self.key_of = key
        self.id_of = id

    def form(self, inner: int) -> tuple[str, Lines]:
        name = join(dim("file  "), clip_left(shown(self.typing.text), inner - 7), Style.KEY("█"))
        title = f"Save the payload of {clip_left(safe(self.id_of), max(8, inner - 24))}"
        return title, [name, BLANK, *paragraph(_ADVICE, inner)]

    def draw(self, width: int, height: int) -> Lines:
        return super().draw(width, height + 2)  # where it does not fit, the border goes first

    def do_save_now(self) -> None:
        if not self.typing.text.strip():
            self.show_notice("type a name; Esc leaves")
        elif not self.saving:
            self.saving = True
            job = partial(self.session.control.save, self.key_of, self.typing.text)
            self.session.snapshot_thread.run(job, partial(deliver, self, self._saved))

    def _saved(self, found: tuple[str, int] | SpooltopError) -> None:
        self.saving = False
        if isinstance(found, SpooltopError):
            self.show_notice(f"not saved: {found}")
        else:
            path, size = found
            self.dismiss(f"saved {size:,} bytes to {escape(path)}")


# The list of operations, newest first, and the screen of one of them: its action, its messages, and what an undo would find now.

_WITH_TIME = 100


def _outcome(record: OperationRecord) -> Line:
    """The failures of an operation, and whether it can be undone."""
    counts = ((record.skipped, "skipped"), (record.failed, "failed"))
    not_done = ", ".join(f"{n:,} {word}" for n, word in counts if n)
    undo = "can be undone"
    if record.undone_by is not None:
        undo = f"undone by {shown(record.undone_by)}"
    elif record.why_not_undo is not None:
        undo = f"no: {shown(record.why_not_undo)}"
    return join(
        Style.BAD("NOT FINISHED · " if record.open else ""), Style.WARN(f"{not_done} · " if not_done else ""), undo,
        f" · {shown(record.words)}" if record.words else "",
    )  # fmt: skip


_BOX = 9


def _fact(label: str, text: str, inner: int, style: Style = Style.NORMAL) -> Lines:
    return labelled(Style.DIM(f"{label:<9}"), inner, text, style)


def _messages(items: Sequence[Item], refused: Sequence[Refusal], inner: int) -> Lines:
    """The messages that an undo can move, then those that it cannot, by reason."""
    lines = [join(Style.STRONG(f"{len(items):,} can be undone" if items else "nothing can be undone now"))]
    for item in items:
        if item.words:
            lines += paragraph(shown(item.words), inner, margin="  ")
        else:
            where = pad(item.row.box, _BOX)
            lines.append(join(f"  {where}{clip_left(safe(item.row.id), max(4, inner - 2 - _BOX))}"))
    reasons: dict[str, list[str]] = {}
    for one in refused:
        reasons.setdefault(one.reason, []).append(one.row.id)
    for reason, ids in reasons.items():
        lines += headed(Style.WARN(f"{len(ids):,} not: "), shown(reason), inner, indent=2)
        lines += [dim(f"  {clip_left(safe(id), max(4, inner - 2))}") for id in ids]
    return lines


def _audit(trail: AuditTrail, inner: int, zone: Zone) -> Lines:
    """The steps in the journal, each with the items that were not done."""
    head = "The journal" if trail.lines else "The journal has no line about it"
    lines = [BLANK, join(Style.STRONG(head))]
    for line in trail.lines:
        text = f"{when(line.at, zone)} {line.event}: {said(line)}"
        lines += paragraph(shown(text), inner, Style.NORMAL if line.trusted else Style.WARN, indent=2)
        for one in line.results:
            if one.outcome is not Outcome.DONE or one.reason:
                words = f"{one.outcome.value}{f': {shown(one.reason)}' if one.reason else ''} "
                lines.append(join(f"  {words}{clip_left(safe(one.name), max(4, inner - 2 - text_width(words)))}"))
    return [*lines, *(line for problem in trail.problems for line in paragraph(shown(problem), inner, Style.WARN))]


NO_PLAN = "no plan is open; z opens the one that undoes this operation"
"""The notice on a key that would confirm a plan."""


def why_not_undo(record: OperationRecord) -> str:
    """The reason why it cannot be undone, "" where it can."""
    return record.why_not_undo or (f"it was undone by {record.undone_by}" if record.undone_by else "")


class OperationScreen(TextScreen[bool]):
    """Returns True where it is to be undone. Its messages are those of a plan to undo it; making that plan changes nothing."""

    VIEW = View.OPERATION
    session: Session
    trail: AuditTrail | None = None
    plan: Plan | None = None

    def __init__(self, session: Session, record: OperationRecord) -> None:
        super().__init__(session)
        self.record = record
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

    def facts(self) -> Facts:
        return {"undoable": self.failed}

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
            body.append(dim("looking up its messages…"))
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

    def ignores(self, event: KeyEvent) -> bool:
        return self.refuse_confirming(event, NO_PLAN)

    def do_undo(self) -> None:
        self.dismiss(True)

    def do_copy_operation(self) -> None:
        self.copy(self.undoing or self.record.operation)


_MOST = 1000
"""Operations in the list: a journal may hold very many."""


class OperationsScreen(ChoosingScreen[None]):
    VIEW = View.OPERATIONS
    session: Session
    records: list[OperationRecord] | None = None
    older = False
    wanted = query.Query()
    """The filter."""

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
        changes = [result.operation for result in self.session.results[-1:] if result.action is not Action.UNDO]
        touched = self.at or not self.wanted.empty or self.typing is not None or self.dismissed or not self.on_top
        same = self.record is not None and self.record.operation in changes
        return not touched and same and by_id("undo").why_not(self.context()) is None

    @property
    def record(self) -> OperationRecord | None:
        found = self.listed
        return found[within(self.at, len(found))] if found else None

    @property
    def listed(self) -> list[OperationRecord]:
        """The operations that the filter matches."""
        records, now = self.records or [], self.session.now()
        if self.wanted.empty:
            return records
        return [record for record in records if self.wanted.holds(operation_facts(record, now))]

    def facts(self) -> Facts:
        why = why_not_undo(self.record) if self.record is not None else ""
        reading = self.records is None and not self.failed
        return {"rows": len(self.listed), "undoable": why, "reading": reading}

    def draw(self, width: int, height: int) -> Lines:
        if self.failed:
            return [join(Style.BAD(f" {shown(self.failed)}"))]
        if self.records is None:
            return [join(" reading the journal…")]
        self.clamp()
        found = self.listed
        if not found:
            none = "has been done here" if self.wanted.empty else f"matches {shown(str(self.wanted))}; Esc clears the filter"
            return [join(f" no operation {none}")]
        head, *lines = self._table(found, width, height)
        match = "" if self.wanted.empty else " match "
        return [join(head, match, Style.KEY(shown(str(self.wanted)))), *(point_out(line, self.wanted.texts) for line in lines)]

    def _table(self, records: Sequence[OperationRecord], width: int, height: int) -> Lines:
        """A title and one line per operation, at most ``height`` lines, with the chosen one visible; the last lines say why it
        cannot be undone."""
        record = records[self.at]
        words = f"{shown(record.operation)}: {line_text(_outcome(record))}"
        outcome_lines = paragraph(words, width, margin=" ")
        below = len(outcome_lines) + 1 if height >= len(outcome_lines) + 6 else 0  # in full, where it fits
        lines = []
        if height >= 8:
            older = " · all: spooltop ops --all" if self.older else ""
            lines.append(join(Style.TITLE(f" Operations {len(records):,}"), " · newest first", older))
        fits = max(1, height - 1 - below - len(lines))
        at = f"{'at':<8}  " if width >= _WITH_TIME else ""
        title = f"   {'ago':>5}  {at}{'action':<10} {'done':>11}  {'by':<8}  {'operation':<10}  undo"
        lines.append(dim(title))
        lines += [numbered(i, self._line(records[i], width, chosen=i == self.at)) for i in visible(len(records), fits, self.at)]
        if below:
            lines += [BLANK] * (height - below - len(lines) if len(records) > fits else 1)
            lines += outcome_lines
        return lines

    def _line(self, record: OperationRecord, width: int, *, chosen: bool) -> Line:
        done = f"{record.done:,} of {record.count:,}" if record.done != record.count else f"{record.count:,}"
        at = f"{when(record.at)}  " if width >= _WITH_TIME else ""
        text = (
            f"{'▌' if chosen else ' '}  {pad_left(ago(record.at, self.session.now()), 5)}  {at}{pad(record.action.value, 10)} "
            f"{pad_left(done, 11)}  {pad(safe(record.user), 8)}  {pad(shown(record.operation), 10)}  "
        )
        line = join(text, _outcome(record))
        return select(line) if chosen else line

    def ignores(self, event: KeyEvent) -> bool:
        return self.refuse_confirming(event, NO_PLAN)

    # The filter, typed in the line of the keys

    def do_filter(self) -> None:
        text = str(self.wanted)
        self.read_line(LineEdit(text), self._filter, self._keep)
        self._filter(text)

    def _filter(self, text: str) -> None:
        self.wanted = query.parse(text, lenient=True)
        hint = self.wanted.hint or f"{len(self.listed):,} match · Enter keeps · Esc clears"
        self.show_notice(f"/{text}_   {hint}")

    def _keep(self, text: str | None) -> None:
        if text is None:
            self.wanted = query.Query()

    def do_back(self) -> None:
        if self.wanted.empty:
            super().do_back()
        else:
            self._keep(None)

    def do_open_operation(self) -> None:
        if self.record is not None:
            self.open_screen(OperationScreen(self.session, self.record), lambda undo: self.do_undo() if undo else None)

    def do_copy_operation(self) -> None:
        if self.record is not None:
            self.copy(self.record.operation)

    def do_undo(self) -> None:
        record = self.record
        if record is not None:
            plan = PlanScreen(self.session, Action.UNDO, Selection(), {"undoes": record.operation})
            self.open_screen(plan, lambda result: self.read() if result else None)
