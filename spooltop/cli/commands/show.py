"""Read-only commands: ls, show, ops, consumers."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from spooltop.control import Control
from spooltop.errors import NoSuchOperation, Refused, Unreadable, UsageError
from spooltop.model import FIRST_SORT, Listing, ListQuery, OperationRecord, Selection, Sort
from spooltop.model.snapshot import ConsumerList, ConsumerRow, Snapshot, nameless_words
from spooltop.model.vocabulary import LIVE, Box, Row, age, duration, escape, fit, printable, since, size

from ..context import NOTHING_MATCHED, Arguments, ProgressLine, answered, here_or, while_waiting
from ..parser import id_of, selection_of
from ..render import as_json, as_text
from ..render.as_json import escaped, known, members
from .status import seconds_watched

_WINDOW = 1000
_OPERATIONS = 1000
"""Operations that are listed unless all are wanted."""
_PREVIEW = 65536


def ls(args: Arguments) -> int:
    if args.most is not None and args.most < 0:
        raise UsageError("-n needs a number from 0 up")
    terminal = args.terminal
    args.path = here_or(args)
    selection = selection_of(args)
    boxes = (selection.box,) if selection.box else LIVE
    chosen = selection.replace(box=None, filter="", everything=False)  # the filter is a condition of the list itself
    with args.control() as control:
        there = _look_at(control, args).observation.boxes
        if selection.box is not None and selection.box not in there:
            terminal.error(f"{escape(args.path)}: there is no {selection.box} here, only {', '.join(there)}")
            return 0
        with ProgressLine(terminal, "ls: sorting") as sorting:
            listings = [
                control.listing(
                    ListQuery(
                        box,
                        filter=selection.filter,
                        sort=Sort(args.sort or FIRST_SORT.get(box, Sort()).column, not args.invert),  # as the dashboard opens it
                        selection=None if chosen.empty else chosen,
                    ),
                    progress=sorting,
                )
                for box in boxes
            ]
        now = control.now()
        there_are = sum(map(len, listings))
        total = there_are if args.most is None else min(args.most, there_are)
        writing = ProgressLine(terminal, "ls: writing", total=total, shown=not terminal.out_is_terminal)
        found = ((listing, row) for listing in listings for row in _rows_of(listing))
        printed = 0
        for printed, (listing, row) in enumerate(itertools.islice(found, args.most), 1):
            writing.advance(printed)
            if args.json:
                terminal.out_json(as_json.row(row, now, complete=listing.complete))
                continue
            if printed == 1:
                terminal.out(as_text.ROWS_HEAD)
            terminal.out(as_text.row(row, now))
        writing.close()
        incomplete = [listing.query.box for listing in listings if not listing.complete and listing.ordered_over is None]
        for listing in listings:
            if listing.ordered_over is not None:
                first = f"only the first {listing.ordered_over:,} messages were filtered and sorted"
                terminal.error(f"{escape(args.path)}: {listing.query.box}: {first}")
    if incomplete and printed == 0 and len(incomplete) == len(boxes):
        raise Unreadable(f"{' and '.join(incomplete)} could not be listed", "status says why", path=args.path)
    if incomplete:
        terminal.error(f"{escape(args.path)}: {' and '.join(incomplete)} could not be listed completely; status says why")
    if printed == 0 and not selection.empty and args.most != 0:
        terminal.error(f"{escape(args.path)}: nothing matched in {', '.join(boxes)}")
        return NOTHING_MATCHED
    return 0


def show(args: Arguments) -> int:
    terminal = args.terminal
    if args.raw and (args.json or args.who):
        raise UsageError(f"--raw and --{'json' if args.json else 'who'} together", "give one or the other")
    if args.raw and terminal.out_is_terminal:
        raise Refused("--raw writes unescaped bytes, which is unsafe on a terminal", "redirect it to a pipe or a file")
    wanted = Selection(ids=(id_of(args.id),))
    with args.control() as control:
        there = _look_at(control, args).observation.boxes
        boxes = (Box(args.box),) if args.box else tuple(there)
        found = [row for box in boxes for row in _rows_of(control.listing(ListQuery(box, selection=wanted)))]
        if not found:
            terminal.error(f"{escape(args.path)}: no message {args.id} in {', '.join(boxes)}; spooltop ls lists them")
            return NOTHING_MATCHED
        if args.who:
            for row in found:
                holders = control.holders(row.key)
                terminal.show([as_json.holders(holders, row)], as_text.holders(holders))
            return 0
        if args.raw:
            if len(found) > 1:
                raise UsageError(f"{args.id} is in {' and '.join(row.box for row in found)}", "name one with --box")
            payload = control.read(found[0].key, _PREVIEW)
            while payload.truncated:
                payload = control.read(found[0].key, payload.size)
            terminal.write_bytes(payload.data)
            return 0
        for place, row in enumerate(found):
            payload, now = control.read(row.key, _PREVIEW), control.now()
            lines = itertools.chain([""] if place else [], as_text.message(row, payload, now))
            terminal.show([as_json.message(row, payload, now)], lines)
    return 0


def ops(args: Arguments) -> int:
    with args.control() as control:
        most = None if args.all or args.operation is not None else _OPERATIONS + 1
        records = control.operations(begins=args.operation or "", most=most)
        now = control.now()
        if args.operation is not None:
            one = _the_one(records, args.operation, args.path)
            trail = control.audit(one.operation)
            args.terminal.show([as_json.audited(one, trail, now)], as_text.audited(one, trail, now))
            return 0
    shown = records if args.all else records[:_OPERATIONS]
    lines = as_text.operations(shown, now) if shown else ["no operations yet"]
    args.terminal.show((as_json.operation(record, now) for record in shown), lines)
    if len(shown) < len(records):
        args.terminal.error(f"{escape(args.path)}: only the newest {len(shown):,} operations are listed; --all lists all")
    return 0


def _the_one(records: Sequence[OperationRecord], asked: str, path: str) -> OperationRecord:
    """Returns the operation whose id is ``asked`` or begins with it."""
    found = records if asked else []
    exact = [one for one in found if one.operation == asked]
    if exact or len(found) == 1:
        return (exact or found)[0]
    if found:
        raise UsageError(f"{escape(asked)} matches {len(found)} operations", "give more of the id")
    raise NoSuchOperation(f"no operation {escape(asked)} in the journal", "spooltop ops lists them", path=path)


def look(args: Arguments) -> Snapshot:
    with args.control() as control:
        return _look_at(control, args)


def _look_at(control: Control, args: Arguments) -> Snapshot:
    with while_waiting(args.terminal, "looking", control.current_step):
        return answered(control.look(), control.target)


def _rows_of(listing: Listing) -> Iterator[Row]:
    for start in range(0, len(listing), _WINDOW):
        yield from listing.window(start, start + _WINDOW)


# Consumers, as a server or their processes show them.

def consumers(args: Arguments) -> int:
    seconds = seconds_watched(args)
    with args.control(watch=seconds is not None) as control:
        answered(control.look(), control.target)
        found = control.consumers()
        if seconds is not None:
            control.watch(seconds)
            found = control.consumers()
    chosen = [one for one in found.consumers if args.verdict in (None, one.verdict)]
    lines = _consumer_lines(chosen, found) if chosen else ["no consumers here"] if args.verdict is None else []
    args.terminal.show((_consumer_json(one, found) for one in chosen), lines)
    for note in _notes(found):
        args.terminal.error(f"{escape(args.path)}: {note}")
    if not chosen and args.verdict is not None:
        args.terminal.error(f"{escape(args.path)}: no consumer is {args.verdict}")
        return NOTHING_MATCHED
    return 0


def _notes(found: ConsumerList) -> Iterable[str]:
    if found.more:
        yield f"{found.more:,} more consumers are not listed"
    if found.nameless:
        yield f"{nameless_words(found)}; spooltop ls --box cur lists them"
    if found.error:
        yield printable(found.error)


def _consumer_json(one: ConsumerRow, found: ConsumerList) -> dict[str, Any]:
    owner, usage = one.owner, one.usage
    command = (usage.command if usage is not None else "") or owner.command
    return {
        "verdict": one.verdict,
        "state": one.word.lower(),
        "pid": owner.pid,
        "host": escaped(owner.host),
        "user": escaped(owner.user),
        "command": escape(command or "") or None,
        **known(name=escaped(owner.name)),
        "token": one.token,
        "started_at": owner.start,
        "claims": one.claims,
        "longest_held": one.held(found.taken_at),
        "longest_held_is_bound": one.claimed_is_bound,
        "last_claim": one.last_claim_at,
        **({} if found.measured else members(one, "asked_at")),
        "done_rate": one.rate.done,
        "failed_rate": one.rate.failed,
        "window": found.window or None,
        **(dict.fromkeys(("cpu", "memory")) if usage is None else members(usage, "cpu", "memory")),
        "evidence": one.evidence,
        "complete": not (found.more or found.nameless or found.error),
    }


def _consumer_lines(chosen: Iterable[ConsumerRow], found: ConsumerList) -> Iterable[str]:
    if not found.measured:
        yield from _named_consumers(chosen, found)
        return
    if found.window:
        yield f"rates over {duration(found.window)}{', at least' if found.lower_bound else ''}"
    yield (
        "verdict      pid  command             user      host         since  claims   held   last  done/s  fail/s    cpu     mem"
        "  evidence"
    )
    for one in chosen:
        owner, usage = one.owner, one.usage
        gone = one.gone
        nothing = "—" if gone else "?"
        cpu = nothing if usage is None else "·" if usage.cpu is None else f"{round(100 * usage.cpu)}%"
        yield (
            f"{one.word:<8} {'?' if owner.pid is None else owner.pid:>7}"
            f"  {fit(escape(owner.called) or '?', 18, cut='right')}"
            f"  {fit(escape(owner.user or nothing), 8, cut='right')}  {fit(escape(owner.host or '?'), 10, cut='right')}"
            f"  {_ago(owner.start, found.taken_at):>6}  {one.claims:>6,}  {one.held_words(found.taken_at):>5}"
            f"  {_ago(one.last_claim_at, found.taken_at):>5}"
            f"  {'—' if gone else one.rate.words('done'):>6}  {'—' if gone else one.rate.words('failed'):>6}"
            f"  {cpu:>5}  {nothing if usage is None else size(usage.memory):>6}  {printable(one.evidence)}"
        )


def _named_consumers(chosen: Iterable[ConsumerRow], found: ConsumerList) -> Iterable[str]:
    """Lines of consumers that a server knows by their names: nobody measures their processes."""
    yield "verdict      pid  host        claims   held  asked  consumer                  evidence"
    for one in chosen:
        yield (
            f"{one.word:<8} {'?' if one.owner.pid is None else one.owner.pid:>7}"
            f"  {fit(escape(one.owner.host or '?'), 10, cut='right')}  {one.claims:>6,}  {one.held_words(found.taken_at):>5}"
            f"  {_ago(one.asked_at, found.taken_at):>5}  {fit(escape(one.owner.called) or '?', 24, cut='right')}"
            f"  {printable(one.evidence)}"
        )


def _ago(at: float | None, now: float) -> str:
    return "?" if at is None else age(since(at, now))
