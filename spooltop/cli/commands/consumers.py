"""The command that lists the consumers of a spool."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable
from typing import Any

from spooltop.model.snapshot import ConsumerList, ConsumerRow, nameless_words
from spooltop.model.units import age, at_most, duration, fit, since, size
from spooltop.model.vocabulary import escape

from ..context import NOTHING_MATCHED, Context, answered, here_or
from ..render.as_json import escaped, known, members
from ..terminal import printable
from .status import seconds_watched


def consumers(args: Namespace, context: Context) -> int:
    path = here_or(args.path, args.as_kind)
    seconds = seconds_watched(args)
    with context.control(args, path, watch=seconds is not None) as control:
        answered(control.look(), control.target)
        found = control.consumers()
        if seconds is not None:
            control.watch(seconds)
            found = control.consumers()
    chosen = [one for one in found.consumers if args.verdict in (None, one.verdict)]
    lines = _text(chosen, found) if chosen else ["no consumers here"] if args.verdict is None else []
    context.terminal.show((_json(one, found) for one in chosen), lines)
    for note in _notes(found):
        context.terminal.error(f"{escape(path)}: {note}")
    if not chosen and args.verdict is not None:
        context.terminal.error(f"{escape(path)}: no consumer is {args.verdict}")
        return NOTHING_MATCHED
    return 0


def _notes(found: ConsumerList) -> Iterable[str]:
    if found.more:
        yield f"{found.more:,} more consumers are not listed"
    if found.nameless:
        yield f"{nameless_words(found)}; spooltop ls --box cur lists them"
    if found.error:
        yield printable(found.error)


def _json(one: ConsumerRow, found: ConsumerList) -> dict[str, Any]:
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


def _text(chosen: Iterable[ConsumerRow], found: ConsumerList) -> Iterable[str]:
    if not found.measured:
        yield from _named(chosen, found)
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
        held = (at_most if one.claimed_is_bound else age)(one.held(found.taken_at))
        cpu = nothing if usage is None else "·" if usage.cpu is None else f"{round(100 * usage.cpu)}%"
        yield (
            f"{one.word:<8} {'?' if owner.pid is None else owner.pid:>7}"
            f"  {fit(escape(owner.called) or '?', 18, cut='right')}"
            f"  {fit(escape(owner.user or nothing), 8, cut='right')}  {fit(escape(owner.host or '?'), 10, cut='right')}"
            f"  {_ago(owner.start, found.taken_at):>6}  {one.claims:>6,}  {held:>5}  {_ago(one.last_claim_at, found.taken_at):>5}"
            f"  {'—' if gone else one.rate.words('done'):>6}  {'—' if gone else one.rate.words('failed'):>6}"
            f"  {cpu:>5}  {nothing if usage is None else size(usage.memory):>6}  {printable(one.evidence)}"
        )


def _named(chosen: Iterable[ConsumerRow], found: ConsumerList) -> Iterable[str]:
    """Lines of consumers that a server knows by their names: nobody measures their processes."""
    yield "verdict      pid  host        claims   held  asked  consumer                  evidence"
    for one in chosen:
        held = (at_most if one.claimed_is_bound else age)(one.held(found.taken_at))
        yield (
            f"{one.word:<8} {'?' if one.owner.pid is None else one.owner.pid:>7}"
            f"  {fit(escape(one.owner.host or '?'), 10, cut='right')}  {one.claims:>6,}  {held:>5}"
            f"  {_ago(one.asked_at, found.taken_at):>5}  {fit(escape(one.owner.called) or '?', 24, cut='right')}"
            f"  {printable(one.evidence)}"
        )


def _ago(at: float | None, now: float) -> str:
    return "?" if at is None else age(since(at, now))
