"""Commands that change a target: plan, confirm, apply, result. requeue, purge, hold, release, restore, inject, unlock, pause,
resume, undo.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from spooltop.control import Control
from spooltop.model import Confirm, Outcome, Plan, Refused, Result, Selection, Stopped, TrackedMessage, UsageError, has_scheme
from spooltop.model.vocabulary import ASIDE, WHOLE, Action, Box, Json, JsonObject, duration, escape
from spooltop.operate.operations import accepts, confirm_words

from ..context import DONE, INTERRUPTED, NOTHING_MATCHED, REFUSED, SOME, Arguments, ProgressLine, Terminal, signals_to
from ..parser import path_of, selection_of
from ..render import as_json, as_text

# Tracing test messages through a spool: prints new, cur and gone as they are seen, each with its time.

_EACH = 20
"""Maximum number of messages of which each step is printed; of more, only the summary is."""
_LOOK = 0.25
"""Maximum seconds until the next look: only a second look shows that a message is gone."""


_WHERE = {"in new, not claimed": (Box.NEW,), "being processed": (Box.CUR,), "set aside": ASIDE, "on the way": (None, Box.TMP)}


def _trace(
    control: Control, ids: Sequence[str], began: float, seconds: float, terminal: Terminal
) -> tuple[list[TrackedMessage], str]:
    """Follows ``ids``, put since ``began`` (epoch seconds), until all have gone through or ``seconds`` are over, and prints their
    steps as text. Returns the state of each message, and the end in words: ``3 of 3 went through, after 12ms to 0.8s``, and what
    the others wait for."""
    end = control.now() + seconds
    reported: set[tuple[str, str, float | None]] = set()
    while True:
        found = [one.replace(put_at=began) if one.put_at is None else one for one in control.follow(ids, began).values()]
        for one in found if len(ids) <= _EACH else ():
            for step, words in _steps(one):
                if (one.id, step, one.claimed_at) not in reported:
                    reported.add((one.id, step, one.claimed_at))
                    terminal.show((), [f"{escape(one.id)}  {step}{words}"])
        left = end - control.now()
        if left <= 0 or all(one.gone_at is not None or one.box in ASIDE for one in found):
            break
        control.changes(min(left, _LOOK))
        control.look()
    took = sorted(_since(one, one.gone_at) for one in found if one.gone_at is not None)
    said = f"{len(took):,} of {len(found):,} went through"
    if took:
        least, most = duration(took[0]), duration(took[-1])
        said += f", after {least}" + (f" to {most}" if most != least else "")
    numbers = {where: sum(one.gone_at is None and one.box in boxes for one in found) for where, boxes in _WHERE.items()}
    if parts := [f"{number:,} {where}" for where, number in numbers.items() if number]:
        said += f"; after {duration(seconds)} {', '.join(parts)}"
    return found, said


def _steps(one: TrackedMessage) -> list[tuple[str, str]]:
    """Steps of a message since it was put, as far as they were seen, in order: each step, and the text that is printed when it is
    new."""
    claimed: list[tuple[str, str]] = []
    if one.claimed_at is not None:
        who = "a process that is not visible" if one.pid is None else one.pid
        claimed = [("cur", f", claimed by {who} after {duration(_since(one, one.claimed_at))}")]
    if one.gone_at is not None:
        return [*claimed, ("gone", f" after {duration(_since(one, one.gone_at))}")]
    if one.box is Box.CUR:
        return claimed or [("cur", "")]
    if one.box is Box.NEW:
        place = f", place {one.place:,} of {one.of:,}" if one.place is not None and one.of is not None else ""
        return [("new again", f", returned{place}") if claimed else ("new", place)]
    return [(f"set aside in {one.box}", "")] if one.box in ASIDE else []


def _since(one: TrackedMessage, at: float) -> float:
    return max(0.0, at - (one.put_at or at))


def requeue(args: Arguments) -> int:
    selection = selection_of(args)
    is_stream = has_scheme(args.path)
    again = selection.box is Box.NEW and args.copy and is_stream  # what was handed back, and nobody takes
    if selection.box in (Box.NEW, Box.TRASH) and not again:
        of_stream = selection.box is Box.NEW and is_stream
        raise UsageError(
            f"requeue: messages in {selection.box} are not claims",
            "--copy puts again what was handed back" if of_stream else "--box cur, rejected or held",
        )
    if args.copy and not is_stream:
        raise UsageError("requeue: --copy is for streams", "leave it out: a message keeps its id and its place")
    return _some(Action.REQUEUE, selection, args, "hold_poison", "copy")


def hold(args: Arguments) -> int:
    selection = selection_of(args, box_from_lines=True)
    _check_box(Action.HOLD, selection, (Box.CUR, Box.NEW), "cannot be held", "--box cur or new")
    return _some(Action.HOLD, selection, args)


def release(args: Arguments) -> int:
    selection = selection_of(args)
    _check_box(Action.RELEASE, selection, (Box.HELD,), "are not held", "restore and requeue are for the other boxes")
    return _some(Action.RELEASE, selection, args)


def restore(args: Arguments) -> int:
    selection = selection_of(args, box_from_lines=True)
    _check_box(Action.RESTORE, selection, ASIDE, "were not set aside", "--box trash, held or rejected")
    _check_named(selection, Box.TRASH, "restore needs a box or ids", "--box trash, held or rejected, or give ids")
    return _some(Action.RESTORE, selection, args)


def purge(args: Arguments) -> int:
    selection = selection_of(args, box_from_lines=True)
    if args.expired:
        return _purge_expired(selection, args)
    _check_named(selection, Box.NEW, "purge needs a box or ids", "name one with --box, or give ids")
    # A box alone: all of it that is old enough, which the plan's own rule says.
    if selection.box is Box.TRASH:
        return _change(Action.EMPTY, selection, args)
    return _change(Action.PURGE, selection, args, "now")


def _check_box(action: Action, selection: Selection, boxes: Sequence[Box], why_not: str, advice: str) -> None:
    """Raises ``UsageError`` for a box of which ``action`` takes no messages."""
    if selection.box not in (None, *boxes):
        raise UsageError(f"{action}: messages in {selection.box} {why_not}", advice)


def _check_named(selection: Selection, likely: Box, what: str, advice: str) -> None:
    """Raises ``UsageError`` where neither a box nor ids are named; for ALL ``likely`` is the box to advise."""
    if selection.box is None and not selection.named:
        if selection.everything:
            raise UsageError("ALL of which box?", f"add --box {likely}")
        raise UsageError(what, advice)


def _purge_expired(selection: Selection, args: Arguments) -> int:
    if selection.box not in (None, Box.TRASH):
        raise UsageError(f"purge: nothing in {selection.box} expires", "--expired applies only to the trash")
    if selection.older_than is not None or args.now:
        raise UsageError("purge: --expired cannot be combined with --older-than or --now", "leave them out")
    with args.control() as control:
        retention = control.trash_retention
        if not retention:
            raise UsageError("purge: trash_retention is 0, so nothing ever expires", "say how old: --older-than AGE")
        selection = selection.replace(box=Box.TRASH, older_than=retention)
        said = f"Only what is in the trash for {duration(retention)} or longer."
        return change(control, Action.EMPTY, selection, args, {}, said=said)


def inject(args: Arguments) -> int:
    given = [f"--{name}" for name in ("text", "file", "size") if getattr(args, name) is not None]
    if len(given) > 1:
        raise UsageError(f"inject: {' and '.join(given)} together", "give one of them")
    options = {name: value for name in ("count", "text", "size", "source") if (value := getattr(args, name)) is not None}
    if args.file is not None:
        options["file"] = path_of(args.file)
    if args.canary:
        options["canary"] = True
    if not args.canary or args.dry_run or args.timeout <= 0:
        return _change(Action.INJECT, Selection(), args, **options)
    with args.control(watch=True) as control:
        control.look()  # from now on it is heard who takes what
        return change(control, Action.INJECT, Selection(), args, options, traced=args.timeout)


def undo(args: Arguments) -> int:
    if args.operation is None:
        raise UsageError("undo needs an operation", f"spooltop ops {escape(args.path)} lists them")
    return _change(Action.UNDO, Selection(), args, undoes=args.operation)


def unlock(args: Arguments) -> int:
    if not args.what:
        raise UsageError("unlock needs a lock", f"spooltop locks {escape(args.path)} lists them")
    if "ALL" in args.what and len(args.what) > 1:
        raise UsageError("ALL and names together", "give one or the other")
    selection = Selection(everything=True) if "ALL" in args.what else Selection(ids=tuple(map(path_of, args.what)))
    return _change(Action.UNLOCK, selection, args)


def pause(args: Arguments) -> int:
    return _change(Action.PAUSE, Selection(), args, "reason")


def resume(args: Arguments) -> int:
    return _change(Action.RESUME, Selection(), args)


def _some(action: Action, selection: Selection, args: Arguments, *options: str) -> int:
    if selection.empty:
        raise UsageError(
            f"{action} needs a selection of messages",
            "give ids, --verdict, --older-than, --source or --filter, or ALL in capitals",
        )
    return _change(action, selection, args, *options)


def _change(action: Action, selection: Selection, args: Arguments, *names: str, **options: Json) -> int:
    """Changes the target with ``options``, and those of the arguments with these ``names`` that are given."""
    with args.control() as control:
        given = {name: value for name in names if (value := getattr(args, name))}
        return change(control, action, selection, args, given | options)


def change(
    control: Control, action: Action, selection: Selection, args: Arguments,
    options: JsonObject, *, said: str = "", traced: float = 0.0,
) -> int:  # fmt: skip
    """Prints the plan, asks, applies, prints the result and returns the exit code. ``said`` is a line printed with the plan.
    Messages that were put are followed for at most ``traced`` seconds."""
    terminal = args.terminal
    if args.rate is not None:
        options = {**options, "rate": args.rate}
    line = ProgressLine(terminal, f"{action}: making the plan", hint="Ctrl-C leaves")
    # While nothing has been changed yet, a second signal ends the command wherever it is, for example in a listing that hangs.
    interrupted: list[int] = []
    with line, signals_to(interrupted.append, once=True):
        plan = control.plan(
            action, selection, force=args.force, options=options, on_progress=line.tell, stop=lambda: bool(interrupted)
        )
    if interrupted:
        raise Stopped(f"{action}: stopped before anything was done; nothing was changed")
    notes = [said] if said else []
    if plan.poison and not plan.options.get("hold_poison"):
        notes.append(f"{plan.poison} marked ! may kill their consumers: --hold-poison holds them instead.")
    plan = plan.replace(notes=(*plan.notes, *notes))
    terminal.show((), as_text.plan(plan))
    if plan.count == 0 or args.dry_run:
        _print_without_result(plan, args)
        if plan.count:
            return DONE
        code, why = _nothing(plan, own_age=selection.older_than is not None)
        terminal.error(why)
        return code
    what = f"{plan.action} {plan.count}" if plan.action not in WHOLE else str(plan.action)
    shown = as_text.plan(plan) if args.json else ()
    try:
        confirm(what, plan.count, plan.confirm, args, unproven=0 if plan.force else plan.unproven, shown=shown)
    except Refused:
        _print_without_result(plan, args)
        raise
    began = control.now() if traced else 0.0
    line = ProgressLine(terminal, str(action), total=plan.count, hint="Ctrl-C stops between two items")
    with line, signals_to(interrupted.append):  # its result is still written and shown
        result = control.apply(plan, on_progress=line.advance, stop=lambda: bool(interrupted))
    document = as_json.outcome(plan, result, dry_run=False) if args.json else {}
    terminal.show((), as_text.result(result.replace(notes=()) if plan.deletes else result))
    code = _code(plan, result)
    if traced and (ids := [one.id for one in result.items if one.outcome is Outcome.DONE]):
        found, words = _trace(control, ids, began, traced, terminal)
        members = ("put_at", "claimed_at", "pid", "gone_at", "box")
        document["trace"] = [{"id": escape(one.id), **as_json.members(one, *members)} for one in found]
        if all(one.gone_at is not None for one in found):
            terminal.show((), [words])
        else:
            terminal.error(f"inject: {words}")
            code = code or SOME
    terminal.show([document], ())
    if plan.deletes:
        for note in result.notes:  # what was not written down, of what goes on all the same
            terminal.error(note)
    return code


def _print_without_result(plan: Plan, args: Arguments) -> None:
    """Prints a plan that is not applied as the one object of ``--json``; as text it is printed already."""
    if args.json:
        args.terminal.out_json(as_json.outcome(plan, None, dry_run=args.dry_run))


def _nothing(plan: Plan, *, own_age: bool) -> tuple[int, str]:
    """The exit code of a plan without items, and why it has none."""
    about = f"{escape(plan.target)}: {plan.action}"
    if plan.refused and plan.action in WHOLE:
        return REFUSED, f"{about}: nothing done: {plan.refused[0].reason}"
    if plan.refused:
        forceable = any(refusal.forceable for refusal in plan.refused) and not plan.force
        it = "sets it" if plan.action is Action.SET_CURSOR else "takes them"
        return REFUSED, (
            f"{plan.action}: nothing done, all {len(plan.refused)} refused: {plan.refused[0].reason}"
            f"{' …' if len(plan.refused) > 1 else ''}{f'; --force {it} anyway' if forceable else ''}"
        )
    missing = ", ".join(map(escape, plan.missing))
    if plan.action is Action.UNLOCK:
        which = f"no lock {missing} here" if missing else "no lock here is stale"
        return NOTHING_MATCHED, f"{about}: {which}; spooltop locks lists them"
    if plan.action is Action.UNDO:
        if plan.missing:  # what the journal says of it was not read, or not all of it
            return SOME, f"{about}: {'; '.join(map(escape, plan.missing))}; spooltop ops shows what is known"
        return NOTHING_MATCHED, f"{about}: nothing is left to undo; spooltop ops shows what was undone"
    where = f" in {plan.selection.box}" if plan.selection.box else ""
    advice = "spooltop ls shows what is there"
    if plan.action in (Action.PURGE, Action.EMPTY) and plan.selection.older_than is not None:
        where += f" for {duration(plan.selection.older_than)} or longer"
        advice = advice if own_age else "for younger ones give ids, ALL or --older-than"
    return NOTHING_MATCHED, f"{about}: nothing matched{where}; {advice}"


def confirm(
    what: str, count: int, wanted: Confirm, args: Arguments, *, unproven: int = 0, shown: Iterable[str] = ()
) -> None:
    """Returns if ``args`` confirm a change of ``count`` items, else asks for what is ``wanted``. ``what`` begins with the action.
    Of ``unproven`` items nothing proves that the holder is gone: a bare ``--yes`` does not cover them. ``shown`` are lines to be
    read before the answer. Raises ``Refused``."""
    nothing, terminal = f"{what.partition(' ')[0]}: nothing done", args.terminal
    if args.yes_count not in (None, count):
        raise Refused(f"{nothing}: {args.yes_count:,} confirmed, and the plan has {count:,}", "look at the plan again")
    if args.yes and (args.yes_count is not None or not unproven):
        return
    if args.yes:
        raise Refused(
            f"{nothing}: it is unknown who holds {unproven:,} of {count:,}",
            "look at them, then give the number of the plan with --yes=N, or add --force",
        )
    if not terminal.can_ask:
        raise Refused(f"{nothing}: no terminal to confirm on", "add --yes to do it, or --dry-run to see the plan only")
    for line in shown:
        terminal.err(line)
    wants = confirm_words(wanted, count)
    if not accepts(wanted, count, terminal.ask(f"{what}? Type {wants}, anything else cancels: ")):
        raise Refused(f"{nothing}, not confirmed", f"type {wants} to confirm")


def _code(plan: Plan, result: Result) -> int:
    if result.stopped and result.untried:
        return INTERRUPTED if not result.notes else SOME
    if plan.refused or plan.missing or len(result.items) != result.count(Outcome.DONE):
        return SOME
    return DONE
