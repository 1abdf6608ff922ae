"""Plans, their results, and operations as lines of text. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator

from spooltop.model.operations.plan import OperationRecord, Outcome, Plan, Result, oldest_of
from spooltop.model.operations.results import AuditTrail, said
from spooltop.model.row import Row
from spooltop.model.text import escape
from spooltop.model.units import age, clock_time, count
from spooltop.model.vocabulary import Action, Verdict

from ..terminal import printable
from .snapshot_text import date, held, tries, verdict

SAMPLE = 10
"""Maximum number of items of a plan that are listed; ``--json`` lists all of them."""

_DONE_WORDS = {
    Action.REQUEUE: "requeued",
    Action.PURGE: "purged",
    Action.INJECT: "injected",
    Action.HOLD: "held",
    Action.RELEASE: "released",
    Action.RESTORE: "restored",
    Action.EMPTY: "emptied",
    Action.UNDO: "undone",
    Action.SET_CURSOR: "set",
    Action.UNLOCK: "removed",
    Action.PAUSE: "paused",
    Action.RESUME: "resumed",
}


_WHOLE = (Action.PAUSE, Action.RESUME)
"""Actions on the spool as a whole: their plans have one item."""


def plan(plan: Plan) -> Iterator[str]:
    """Lines of a plan: action, number of items, age of the oldest, a sample, refused items with the reason, notes, and the
    equivalent command."""
    now = plan.made_at
    where = f" in {plan.selection.box}" if plan.selection.box else ""
    what = str(plan.action) if plan.action in _WHOLE else f"{plan.action} {count(plan.count)}{where} of"
    yield f"{what} {escape(plan.target)} · as of {clock_time(now)}"
    oldest = oldest_of(plan.items)
    if oldest is not None:
        stands = "present" if plan.action is Action.UNLOCK else "in its box"
        yield f"oldest {stands} for {age(max(0.0, now - oldest))}"
    sample = plan.items[:SAMPLE]
    for one in sample:
        if one.words:
            yield f" ! {printable(f'{one.words}; {one.warning}')}" if one.warning else f"   {printable(one.words)}"
    moving = [item for item in sample if not item.words]
    if moving:
        what = f"{'effect':<20}" if plan.action is Action.UNDO else f"{'verdict':<9}"
        yield f"   in box  tries  {what}  message"
    for item in moving:
        mark = "!" if item.warning else " "
        yield (
            f" {mark} {held(item.row, now):>6}  {tries(item.row):>5}  {_effect(plan, item.row)}  {escape(item.row.id)}"
            f"{'  ! ' + printable(item.warning) if item.warning else ''}"
        )
    yield from _more(len(plan.items))
    if plan.refused:
        yield f"refused {count(len(plan.refused))}"
    for refusal in plan.refused[:SAMPLE]:
        force = " (--force takes it)" if refusal.forceable and not plan.force else ""
        if refusal.row.verdict is Verdict.ALIVE and force:
            force = " (once its holder exits, it is DEAD; --force takes it now)"
        yield f"   {escape(refusal.row.id)}: {printable(refusal.reason)}{force}"
    yield from _more(len(plan.refused))
    if plan.missing:
        yield f"not found {count(len(plan.missing))}"
    yield from (f"   {escape(missing)}" for missing in plan.missing[:SAMPLE])
    yield from _more(len(plan.missing))
    yield from (f"note: {printable(note)}" for note in plan.notes if not sample or note != f"{sample[0].words}.")
    if plan.rate_text:
        yield plan.rate_text
    if plan.command and plan.count and len(plan.items) <= SAMPLE:
        yield f"as a command{', without force' if plan.force else ''}: {shlex.join(plan.command)}"


def _effect(plan: Plan, row: Row) -> str:
    """Destination of an undo with the verdict on the message there; for other plans, the current verdict."""
    if plan.action is not Action.UNDO:
        return f"{verdict(row):<9}"
    return f"{row.evidence + (f', {verdict(row)}' if row.verdict is not None else ''):<20}"


def result(result: Result) -> Iterator[str]:
    """Lines of a result: counts, each skipped or failed item by name, and the command that undoes it."""
    untried = f" · not attempted {count(result.untried)}" if result.untried else ""
    done, skipped, failed = (count(result.count(outcome)) for outcome in Outcome)
    yield f"{_DONE_WORDS[result.action]} {done} · skipped {skipped} · failed {failed}{untried} · operation {result.operation}"
    if result.count(Outcome.DONE) < len(result.items):  # else each of a million would be made to find that there is none
        not_done = (item for item in result.items if item.outcome is not Outcome.DONE)
        yield from (f"{item.outcome} {escape(item.id)}: {printable(item.reason)}" for item in not_done)
    if result.action is Action.INJECT:
        yield from (escape(item.id) for item in result.items if item.outcome is Outcome.DONE)
    yield from (f"note: {printable(note)}" for note in result.notes)
    if result.undo:
        yield f"undo it: {shlex.join(result.undo)}"


def operations(records: Iterable[OperationRecord], now: float) -> Iterator[str]:
    """The list of operations, newest first."""
    yield "operation    ago  action      count   done  skipped  failed  by"
    for one in records:
        numbers = f"{one.count:>5}  {one.done:>5}  {one.skipped:>7}  {one.failed:>6}"
        ago = age(max(0.0, now - one.at))
        yield f"{one.operation:<10}  {ago:>4}  {one.action:<10}  {numbers}  {escape(one.user)}{_state(one)}"


def audited(record: OperationRecord, trail: AuditTrail, now: float) -> Iterator[str]:
    """Lines of an operation: its steps, then the outcome of each item."""
    yield from operations([record], now)
    if record.words:
        yield printable(record.words)
    yield ""
    yield from (f"{date(line.at)}  {line.event:<6}  {said(line)}" for line in trail.lines)
    if not trail.lines:
        yield "the journal has no line about it"
    yield from (f"note: {printable(problem)}" for problem in trail.problems)
    results = [one for line in trail.lines for one in line.results]
    if results:
        yield ""
    for one in results:
        why = f": {printable(one.reason)}" if one.reason else ""
        became = f" -> {escape(one.became)}" if one.became and one.became != one.name else ""
        yield f"{one.outcome!s:<7}  {escape(one.name)}{became}{why}"


def _more(total: int) -> Iterator[str]:
    if total > SAMPLE:
        yield f"   and {count(total - SAMPLE)} more (--json lists all)"


def _state(one: OperationRecord) -> str:
    if one.undone_by:
        return f"  (undone by {one.undone_by})"
    if one.open:
        return "  (not finished)"
    return f"  (no undo: {printable(one.why_not_undo)})" if one.why_not_undo else ""
