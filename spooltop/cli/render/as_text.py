"""Snapshots, rows, plans and their results as lines of text with fixed columns; problems first. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator

from spooltop.features import parts
from spooltop.model import AuditTrail, OperationRecord, Outcome, Plan, Result, said
from spooltop.model.snapshot import Severity, Snapshot, capacity_words, expired_words, kept_words, pause_words
from spooltop.model.vocabulary import (
    PAST,
    WHOLE,
    Action,
    Box,
    Holders,
    Payload,
    Row,
    Verdict,
    age,
    clock_time,
    count,
    duration,
    escape,
    escape_text,
    fit,
    printable,
    rate,
    since,
    size,
    span,
    suppressed_words,
)

_CHANGES_ALONE = {"cursors": Action.SET_CURSOR, "tickets": Action.UNLOCK, "locks": Action.UNLOCK}
"""Available change in layouts without messages, by layout."""
_SIGNS = {Severity.CRITICAL: "✗", Severity.WARNING: "!", Severity.NOTE: " "}


def status(snapshot: Snapshot, target: str) -> Iterator[str]:
    """Lines of the report: path and time, problems worst first, boxes, flow, cursors, held locks."""
    observation = snapshot.observation
    now = snapshot.taken_at
    room = ", ".join(capacity_words(observation.capacities, observation.disk))
    if any(one.readonly for one in observation.capacities):
        room += ", READ-ONLY"
    you = f"you are {escape(observation.who.user)}{', ' + printable(observation.who.words) if observation.who.words else ''}"
    why_not = observation.capabilities.why_not(_CHANGES_ALONE.get(observation.layout, Action.REQUEUE))
    yield f"spooltop {escape(target)}{f' ({escape(observation.program)})' if observation.program else ''}"
    yield f"as of {clock_time(observation.as_of)} · {_watched(snapshot)}{'' if observation.complete else ' · NOT COMPLETE'}"
    yield f"{room} · {you}" if room else you
    if observation.paused is not None:
        yield f"PAUSED {pause_words(observation.paused, now)}"
    if why_not and not observation.capabilities.change and why_not not in you:
        yield f"read-only: {printable(why_not)}"
    yield ""
    yield from _problems(snapshot)
    if observation.has_boxes:
        yield from ("", *_boxes(snapshot), "", _flow(snapshot))
        if suppressed := suppressed_words(observation.suppressed):
            yield printable(suppressed)
    for part in parts("render"):
        if lines := [*part.status_lines(snapshot)]:
            yield from ("", *lines)


_OWNER = 18


ROWS_HEAD = f"box        age  in box    size  tries  verdict    {'owner':<{_OWNER}}  source       message"
"""Header line of messages."""


def row(row: Row, now: float) -> str:
    """Line of a message; the id, which may be long, is last and never cut."""
    return (
        f"{row.box:<9} {age(row.age(now)):>4}  {row.held(now):>6}  {size(row.size):>6}"
        f"  {row.tries:>5}  {verdict(row):<9}  {fit(_owner(row), _OWNER, cut='right')}  {fit(escape(row.source or '—'), 11)}"
        f"  {escape(row.id)}{'  (' + printable(row.note) + ')' if row.note else ''}"
    )


def _owner(row: Row) -> str:
    """Owner in the form ``5200 worker.py``: the process that holds a claim or writes a file in ``tmp``."""
    owner = row.owner
    if owner is None:
        return "—"
    return escape(owner.label) or (f"on {escape(owner.host)}" if owner.host else "?")


def message(row: Row, payload: Payload, now: float) -> Iterator[str]:
    """Lines of a message: its properties, a blank line, the beginning of its payload."""
    facts = [
        ("id", escape(row.id)),
        ("name", escape(row.name)),
        ("box", f"{row.box} for {row.held(now)}"),
        ("put", f"{date(row.enqueued_at)}, {age(row.age(now))} ago" if row.enqueued_at is not None else "—"),
        ("size", size(payload.size)),
        ("source", escape(row.source) if row.source is not None else "—"),
        ("tries", row.tries),
    ]
    if row.verdict is not None:
        facts.append(("verdict", f"{verdict(row)}, {printable(row.evidence)}"))
    elif row.evidence:
        facts.append(("verdict", f"none: {printable(row.evidence)}"))
    if row.not_before is not None and row.not_before > now:
        facts.append(("waits", f"for {duration(row.not_before - now)} more"))
    set_aside = (("reason", printable(row.reason)), ("kept", kept_words(row, now)), ("note", printable(row.note)))
    facts += [(label, text) for label, text in set_aside if text]
    said = {label for label, _ in facts}
    facts += [(printable(label), printable(text)) for label, text in payload.facts if label not in said]
    width = max(len(label) for label, _ in facts)
    yield from (f"{label:<{width}}  {text}" for label, text in facts)
    yield ""
    yield from escape_text(payload.data).split("\n")
    if payload.truncated:
        yield f"… the first {size(len(payload.data))} of {size(payload.size)}; --raw has all of it, for a pipe"


def holders(found: Holders) -> Iterator[str]:
    """Lines of the processes that have a file open or locked, and of what could not be seen."""
    none = f"no {'' if found.complete else 'visible '}process has it open or locked"
    yield f"{found.path}: {'open or locked by' if found.processes else none}"
    if found.processes:
        yield "     pid  user        how                   command"
    for one in found.processes:
        pid = "?" if one.pid is None else str(one.pid)
        how = one.how + (f" ({escape(one.of)})" if one.of else "")
        yield f"{pid:>8}  {fit(escape(one.user or '?'), 10, cut='right')}  {how:<20}  {escape(one.command or '?')}"
    yield from (f"not visible: {printable(note)}" for note in found.notes)


def _problems(snapshot: Snapshot) -> Iterator[str]:
    problems = sorted(snapshot.problems, key=lambda problem: problem.rank)
    if not problems:
        yield f"✓ no problems detected ({_watched(snapshot)})"
    else:
        yield f"{len(problems)} PROBLEMS, worst first" if len(problems) > 1 else "1 PROBLEM"
    yield from (f"{_SIGNS[problem.severity]} {printable(problem.text)}  [{problem.code}]" for problem in problems)
    for what, words in (("judged", snapshot.not_judged_words()), ("visible", map(printable, snapshot.not_visible))):
        if joined := "; ".join(words):
            yield f"not {what}: {joined}"


def _boxes(snapshot: Snapshot) -> Iterator[str]:
    observation = snapshot.observation
    counts = observation.counts
    dead = f"{counts.dead} {'DEAD' if counts.dead else 'dead'} " if observation.proves_death else ""
    words = {
        Box.TMP: f"{counts.writing} writing {counts.abandoned} abandoned {counts.tmp_unknown} unknown",
        Box.NEW: f"{rate(snapshot.rates.new_per_s, signed=True)} over {duration(snapshot.rates.slope_window)}"
        if snapshot.rates.new_per_s is not None
        else "",
        Box.CUR: f"{counts.alive} alive {dead}{counts.unknown} unknown",
    }
    yield "box          depth  oldest    bytes"
    for box in Box:
        state = observation.boxes.get(box)
        if state is None:
            continue
        oldest = age(since(state.oldest_at, snapshot.taken_at))
        estimate = "~" if state.bytes_estimated and state.bytes is not None else ""
        why = state.error or state.note
        said = printable(why) if why else words.get(box, "") if observation.judges_claims else ""
        if not said and (expired := expired_words(state)):
            said = f"{expired}; purge --expired deletes {'it' if state.expired == 1 else 'them'}"
        depth = count(state.count, complete=state.complete)
        yield f"{box:<9} {depth:>8}  {oldest:>6}  {estimate + size(state.bytes):>7}  {said}".rstrip()


def _flow(snapshot: Snapshot) -> str:
    rates = snapshot.rates
    if rates.in_per_s is None and rates.done_per_s is None:
        return "in — done —: not measured by one look"
    least = "≥" if rates.lower_bound else ""
    line = f"over {duration(rates.window)}  in {least}{rate(rates.in_per_s)}  done {least}{rate(rates.done_per_s)}"
    line += f"  retried {least}{rates.retried or 0:,}"
    return line + (f"  requeued {rates.requeued:,}" if rates.requeued else "")


def _watched(snapshot: Snapshot) -> str:
    watched = f"watched for {span(snapshot.watched_for)}" if snapshot.watched_for >= 1 else "one look"
    lag = snapshot.observation.watch.lag
    return watched if lag is None else f"{watched} · at most {span(lag)} old, from a replica"


def verdict(row: Row) -> str:
    """The verdict, in capitals if it means a problem."""
    return "" if row.verdict is None else loud(row.verdict)


def loud(word: str) -> str:
    """Returns the word in capitals if it means a problem, as on the screen."""
    return word.upper() if word in (Verdict.DEAD, "reverted", "rewound", "unreadable") else str(word)


def date(epoch: float | None) -> str:
    """Formats a local time with its date and offset."""
    if epoch is None:
        return "—"
    from datetime import datetime  # takes 2 ms to load, and a status shows no date

    try:
        return datetime.fromtimestamp(epoch).astimezone().strftime("%Y-%m-%d %H:%M:%S %z")
    except (ValueError, OverflowError, OSError):
        return "—"  # a time that no calendar has: names can say anything


# Plans, their results, and operations.

SAMPLE = 10
"""Maximum number of items of a plan that are listed; ``--json`` lists all of them."""





def plan(plan: Plan) -> Iterator[str]:
    """Lines of a plan: action, number of items, age of the oldest, a sample, refused items with the reason, notes, and the
    equivalent command."""
    now = plan.made_at
    where = f" in {plan.selection.box}" if plan.selection.box else ""
    what = str(plan.action) if plan.action in WHOLE else f"{plan.action} {count(plan.count)}{where} of"
    yield f"{what} {escape(plan.target)} · as of {clock_time(now)}"
    oldest = min((at for item in plan.items if (at := item.since) is not None), default=None)
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
            f" {mark} {item.row.held(now):>6}  {item.row.tries:>5}  {_effect(plan, item.row)}  {escape(item.row.id)}"
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
    yield f"{PAST[result.action]} {done} · skipped {skipped} · failed {failed}{untried} · operation {result.operation}"
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
