"""Problems of messages: not claimed, held by a dead consumer, or left behind."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from spooltop.model.filters.selection import Selection
from spooltop.model.look.pause import pause_words
from spooltop.model.look.problem import Problem, Severity
from spooltop.model.moves import again_words
from spooltop.model.row import Row
from spooltop.model.text import escape
from spooltop.model.units import age, at_most, count, fit, interval, rate
from spooltop.model.vocabulary import DIED, NOT_A_CLAIM, Box, Verdict

from ..failing import Failing
from .rule_input import RuleInput

__all__ = ["message_problems"]

_ID_CELLS = 20


def message_problems(seen: RuleInput) -> Iterator[Problem]:
    if seen.mail:
        return
    yield from _paused(seen)
    yield from _new(seen)
    yield from _claims(seen)
    yield from _tmp(seen)
    yield from _odd(seen)
    yield from _found_by_kind(seen)


def _paused(seen: RuleInput) -> Iterator[Problem]:
    pause = seen.observation.paused
    if pause is not None and seen.now - pause.at >= seen.thresholds.paused_long:
        yield Problem("paused", Severity.WARNING, f"paused {pause_words(pause, seen.now)}", view="new")


def _new(seen: RuleInput) -> Iterator[Problem]:
    box = seen.observation.boxes.get(Box.NEW)
    if box is None or not box.count or box.due == 0:
        return
    many = box.count if box.due is None else box.due
    waiting = count(many, complete=box.complete)
    pause = seen.observation.paused
    because = "" if pause is None else f"; paused {pause_words(pause, seen.now, short=True)}"
    limits = seen.thresholds
    consumers = seen.observation.consumers
    busy = seen.observation.counts.alive
    untouched = seen.untouched
    if untouched is not None and min(untouched, seen.watched) >= limits.no_consumer:
        text = f"no claim for {age(untouched)} while {waiting} {'waits' if many == 1 else 'wait'}"
        if busy:
            text += f"; {_many(busy, 'claim is', 'claims are')} being processed"
        elif consumers:
            text += f"; {_many(consumers, 'consumer is running', 'consumers are running')}, idle"
        elif seen.observation.counts.unknown:
            text += f"; {_many(seen.observation.counts.unknown, 'claim', 'claims')} of unknown holders"
        elif consumers == 0:
            text += "; no consumer is running"
        yield Problem(
            "no-consumer",
            Severity.WARNING if busy or consumers or seen.observation.counts.unknown else Severity.CRITICAL,
            text,
            view="new",
        )
    elif seen.watched < limits.no_consumer and (alone := seen.unattended) is not None and alone >= limits.no_consumer:
        verb = "waits" if many == 1 else "wait"
        yield Problem(
            "no-consumer", Severity.CRITICAL, f"no consumer is running while {waiting} {verb} for {age(alone)}", view="new"
        )
    oldest = None if box.oldest_at is None else seen.now - box.oldest_at
    trend = seen.trend
    if trend.growing and trend.per_s is not None and trend.window >= limits.new_growing:
        text = f"new grows {rate(trend.per_s)} over {interval(trend.window)}"
        if oldest is not None:
            text += f", oldest waits {age(oldest)}"
        if consumers and pause is None:
            text += f"; {_many(consumers, 'consumer takes', 'consumers take')} work"
        severity = Severity.CRITICAL if pause is None else Severity.WARNING
        yield Problem("new-growing", severity, text + because, view="new")
    if oldest is not None and oldest > limits.new_old:
        text = f"the oldest of {waiting} in new waits {age(oldest)}{because}"
        yield Problem("new-old", Severity.WARNING, text, selection=Selection(box=Box.NEW, older_than=limits.new_old))


def _claims(seen: RuleInput) -> Iterator[Problem]:
    observation, limits = seen.observation, seen.thresholds
    of = {verdict: [row for row in observation.claims if row.verdict is verdict] for verdict in Verdict}
    # Of the attempts before, the name tells how the last one ended: one that failed was no death.
    poison = [
        row for row in of[Verdict.DEAD] if (row.attempt or 0) >= limits.poison_deaths and row.ended in (None, DIED)
    ]
    if poison:
        worst = max(poison, key=lambda row: row.attempt or 0)
        selection = Selection(box=Box.CUR, keys=tuple(row.key for row in poison))
        yield Problem("poison", Severity.CRITICAL, _poison_words(poison, worst, limits.poison_deaths), len(poison), selection)
    if seen.failing is not None:
        yield _failing(seen.failing)
    dead = max(observation.counts.dead, len(of[Verdict.DEAD]))
    if dead:
        one = dead == 1
        text = f"{_most(dead, observation.judged_all)} {'claim of a dead consumer' if one else 'claims of dead consumers'}"
        text += _pids(of[Verdict.DEAD]) + _longest(of[Verdict.DEAD], seen.now, one=one)
        text += _moved(of[Verdict.DEAD], observation.target)
        selection = Selection(box=Box.CUR, verdict=Verdict.DEAD)
        yield Problem("claims-dead", Severity.CRITICAL, text, dead, selection, at_least=not observation.judged_all)
    claim_long = limits.claim_long if observation.claim_long is None else observation.claim_long
    long: list[Row] = []
    for verdict in (Verdict.ALIVE, Verdict.UNKNOWN):
        selection = Selection(box=Box.CUR, verdict=verdict, older_than=claim_long)
        if long := _chosen(of[verdict], selection, seen.now):
            more = not observation.claims_all
            text = _long_words(long, seen.now, verdict, more=more)
            yield Problem("claim-long", Severity.WARNING, text, len(long), selection, at_least=more)
    selection = Selection(box=Box.CUR, verdict=Verdict.UNKNOWN, older_than=limits.claim_unknown or None)
    unknown = _chosen(of[Verdict.UNKNOWN], selection, seen.now)
    # Where nothing can be proved, an unknown holder is the usual case. Those that are all old were reported just before.
    if observation.proves_death and len(unknown) > len(long):
        # A queue that lists only some claims counts them all the same, unless their ages matter.
        many = len(unknown) if limits.claim_unknown else max(len(unknown), observation.counts.unknown)
        every = observation.judged_all and (observation.claims_all or not limits.claim_unknown)
        text = f"{_most(many, every)} {'claim' if many == 1 else 'claims'} of unknown holders"
        text += _longest(unknown, seen.now, one=many == 1)
        if many == 1 and unknown[0].evidence:
            text += f": {escape(unknown[0].evidence)}"
        yield Problem("claims-unknown", Severity.NOTE, text, many, selection, at_least=not every)
    if others := [row for row in observation.claims if row.verdict is None and row.evidence == NOT_A_CLAIM]:
        text = f"{_most(len(others), observation.claims_all)} in cur "
        text += f"is {NOT_A_CLAIM}" if len(others) == 1 else "are not claims that spooltop knows: no holder in their names"
        selection = Selection(box=Box.CUR, keys=tuple(row.key for row in others))
        yield Problem("claims-unknown", Severity.NOTE, text, len(others), selection, at_least=not observation.claims_all)


def _poison_words(poison: Sequence[Row], worst: Row, deaths: int) -> str:
    if worst.owner is not None and worst.owner.name is not None:
        # A server counts deliveries, however they ended: that the last consumer died is all that is known of deaths.
        if len(poison) == 1:
            return f"{_id(worst)} was delivered {worst.attempt} times, and its last consumer died"
        return f"{len(poison)} messages of dead consumers were delivered {deaths} times or more, one {worst.attempt} times"
    if len(poison) == 1:
        return f"{worst.attempt} consumers died while processing {_id(worst)}"
    return f"{len(poison)} messages with {deaths} or more dead consumers each, one with {worst.attempt}"


def _failing(failing: Failing) -> Problem:
    many, often = len(failing.messages), failing.retries
    text = f"{_most(many, not failing.at_least)} {'message' if many == 1 else 'messages'} retried {_many(often, 'time', 'times')}"
    if failing.window is not None:
        text += f" in {interval(failing.window)}"
    text += ", none done" if many > 1 else ", not done"
    if failing.ended:
        kind, dash, number = failing.ended.partition("-")
        ended = f"{kind} {number}" if dash and kind in ("exit", "signal") else failing.ended
        text += f"; last {fit(escape(ended), 24, cut='right').rstrip()}"
    # The list of one box: what is in work just now comes back to it, or is done.
    box = Box.NEW if any(one.box is Box.NEW for one in failing.messages) else Box.CUR
    selection = Selection(box=box, ids=tuple(one.id for one in failing.messages))
    return Problem("failing", Severity.CRITICAL, text, many, selection, at_least=failing.at_least)


def _long_words(rows: Sequence[Row], now: float, verdict: Verdict, *, more: bool) -> str:
    oldest = max(rows, key=lambda row: row.in_box_age(now) or 0.0)
    held = _held(oldest, now)
    if verdict is Verdict.UNKNOWN:
        if len(rows) == 1 and not more:
            return f"1 claim held {held}, holder unknown" + (f": {escape(oldest.evidence)}" if oldest.evidence else "")
        return f"{_most(len(rows), not more)} claims held long by unknown holders, longest {held}"
    owner = oldest.owner
    who = escape(owner.label) if owner is not None else ""
    by = f" by {fit(who, min(24, len(who)), cut='right').rstrip()}" if who else ""
    if len(rows) == 1 and not more:
        doing = oldest.evidence.partition(" · ")[2]  # what its holder was seen to do: "no CPU for 5m"
        return f"1 claim held {held}{by}: alive" + (f", {escape(doing)}" if doing else "")
    return f"{_most(len(rows), not more)} claims held long by running consumers, longest {held}{by}"


def _tmp(seen: RuleInput) -> Iterator[Problem]:
    abandoned = [row for row in seen.observation.tmp if row.verdict is Verdict.ABANDONED]
    many = max(seen.observation.counts.abandoned, len(abandoned))
    if many:
        text = f"{_most(many, seen.observation.judged_all)} abandoned in tmp" + _oldest(abandoned, seen.now)
        yield Problem("tmp-abandoned", Severity.WARNING, text, many, Selection(box=Box.TMP, verdict=Verdict.ABANDONED))
    limit = seen.thresholds.tmp_old
    selection = Selection(box=Box.TMP, verdict=Verdict.UNKNOWN, older_than=limit)
    old = _chosen(seen.observation.tmp, selection, seen.now)
    if old:
        text = f"{len(old)} in tmp for over {age(limit)}, writer unknown" + _oldest(old, seen.now)
        yield Problem("tmp-old", Severity.WARNING, text, len(old), selection)


def _odd(seen: RuleInput) -> Iterator[Problem]:
    conflicts = len(seen.observation.conflicts)
    if conflicts:
        text = "1 id belongs to two messages" if conflicts == 1 else f"{conflicts} ids belong to two messages each"
        # without a selection: a purge of "the conflict" would take both, and which is right only a person can say
        yield Problem("conflict", Severity.WARNING, f"{text}; both are kept", conflicts, view="claims")
    for box in Box:
        rows = [row for row in seen.observation.irregular if row.box is box]
        if rows:
            what = escape(rows[0].note) if len(rows) == 1 and rows[0].note else "not a message file"
            text = f"{_id(rows[0])} in {box}: {what}" if len(rows) == 1 else f"{len(rows)} entries in {box} are not message files"
            selection = Selection(box=box, keys=tuple(row.key for row in rows))
            yield Problem("conflict", Severity.NOTE, text, len(rows), selection)


def _chosen(rows: Iterable[Row], selection: Selection, now: float) -> list[Row]:
    """The rows that an operation with ``selection`` takes, so that a problem counts what its remedy acts on."""
    matches = selection.matcher(now)
    return [row for row in rows if matches(row)]


def _many(n: int, one: str, more: str) -> str:
    return f"{n} {one if n == 1 else more}"


def _most(n: int, all_judged: bool) -> str:
    return count(n, complete=all_judged)


def _id(row: Row) -> str:
    shown = escape(row.id)
    return fit(shown, min(_ID_CELLS, len(shown))) if len(shown) > _ID_CELLS else shown


def _pids(rows: Sequence[Row]) -> str:
    owners = [row.owner for row in rows if row.owner is not None]
    pids = list(dict.fromkeys(str(one.pid) for one in owners if one.pid is not None))
    found = pids or list(dict.fromkeys(escape(one.name) for one in owners if one.name))
    if not found:
        return ""
    named = " and ".join(found[:2]) if len(found) < 3 else f"{found[0]} and {len(found) - 1:,} more"
    return f", {'pid ' if pids else ''}{named}"


def _moved(rows: Sequence[Row], path: str) -> str:
    """Says how the claims of killed moves get on."""
    targets = [row.owner.moves_to for row in rows if row.owner is not None and row.owner.moves_to is not None]
    if not targets:
        return ""
    whose = "" if len(targets) == len(rows) else f"{len(targets)} of them: "
    return f"; {whose}{again_words(path, targets[0])}"


def _longest(rows: Sequence[Row], now: float, *, one: bool) -> str:
    aged = [row for row in rows if row.in_box_since is not None]
    if not aged:
        return ""
    oldest = max(aged, key=lambda row: row.in_box_age(now) or 0.0)
    return f", {'held' if one else 'longest'} {_held(oldest, now)}"


def _held(row: Row, now: float) -> str:
    seconds = row.in_box_age(now)
    return at_most(seconds) if row.since_is_bound else age(seconds)


def _oldest(rows: Sequence[Row], now: float) -> str:
    times = [row.in_box_since for row in rows if row.in_box_since is not None]
    return f", oldest {age(max(0.0, now - min(times)))}" if times else ""


def _found_by_kind(seen: RuleInput) -> Iterator[Problem]:
    """Problems that only this kind of queue has."""
    for one in seen.observation.findings:
        keys = tuple((one.box.value, path) for path in one.paths) if one.box is not None else ()
        selection = Selection(box=one.box, keys=keys) if keys else Selection(ids=one.ids) if one.code == "lost" else None
        if one.filter:
            selection = Selection(box=one.box, filter=one.filter)
        yield Problem(one.code, Severity.NOTE if one.is_note else Severity.WARNING, one.text, one.count, selection)
