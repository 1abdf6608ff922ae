"""Turns observations into snapshots, keeps all history and finds the problems.

Each rule is a function of one look and its history. Nothing here reads a clock; time comes from the observations.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import inf
from types import MappingProxyType
from typing import Any

from spooltop.features import parts
from spooltop.model import Redactor, Selection, again_words
from spooltop.model.snapshot import CODES, BoxState, ConsumerList, Observation, Problem, Rates, Severity, Snapshot, pause_words
from spooltop.model.vocabulary import (
    DIED,
    NOT_A_CLAIM,
    Action,
    Box,
    Environ,
    Frozen,
    JsonObject,
    Row,
    Verdict,
    age,
    began,
    count,
    escape,
    fit,
    interval,
    rate,
    size,
)

from .flow import (
    CELL,
    SLOPE_FROM,
    WINDOW,
    DepthHistory,
    Failing,
    FailingWatch,
    FlowHistory,
    RateWindow,
    Trend,
    TrendWatch,
    WaitingWatch,
)
from .thresholds import Thresholds

# Input of the rules for problems: one look with the conclusions from it and from earlier ones.

class RuleInput(Frozen):
    """``watched`` is seconds without a break; ``untouched`` seconds for which ``new`` waited and nobody claimed from it."""

    observation: Observation
    rates: Rates
    trend: Trend
    thresholds: Thresholds
    watched: float
    untouched: float | None
    features: Sequence[FeatureRules]
    failing: Failing | None = None

    @property
    def unattended(self) -> float | None:
        """Seconds for which messages have been waiting without any consumer, as far as one look shows: nobody holds a presence
        lock, and no claim belongs to a process that may be running. None if there may be one, and while the
        spool is paused."""
        observation = self.observation
        box = observation.boxes.get(Box.NEW)
        if observation.consumers != 0 or box is None or not box.count or box.oldest_at is None or observation.counts.alive:
            return None
        if observation.counts.unknown or not observation.judged_all or observation.paused is not None:
            return None
        return self.now - max(box.oldest_at, min(observation.last_claim_at or 0.0, self.now))

    @property
    def now(self) -> float:
        return self.observation.taken_at

    @property
    def mail(self) -> bool:
        """True for a mail folder: its ``cur`` is read mail and nothing in it is stuck (maildir(5))."""
        return self.observation.is_mail

    @property
    def has_boxes(self) -> bool:
        """False for cursors, tickets or lock files alone, which have no boxes."""
        return self.observation.has_boxes


Problems = Iterator[Problem]
Codes = Iterator[tuple[str, Sequence[str]]]
"""Reasons, each with the codes of the problems that cannot be detected for it."""


class FeatureRules:
    """Conclusions of a feature (``spooltop.features``) from each look: ``RULES`` of its module ``watch`` is a subclass of this
    one, and is made for each ``Observer`` with the words of the settings."""

    def __init__(self, words: Environ) -> None:
        pass

    def redacted(self, observation: Observation, redactor: Redactor) -> Observation:
        """Hides redacted values in an observation, before any history, verdict or text is derived from them."""
        return observation

    def add(self, observation: Observation, thresholds: Thresholds) -> dict[str, Any]:
        """Takes one look; returns members of its snapshot."""
        return {}

    def problems(self, seen: RuleInput) -> Problems:
        """Yields the problems of the last look, as the methods below do."""
        yield from ()

    def not_judged(self) -> Iterator[str]:
        """Yields what cannot be said yet."""
        yield from ()

    def codes(self, seen: RuleInput) -> Codes:
        yield from ()

    def not_visible(self) -> Iterator[str]:
        yield from ()

    def plan_options(self, action: Action, options: JsonObject) -> JsonObject:
        """Adds what was seen to the options of a plan. May be called from another thread."""
        return options


# Problems of the host: boxes that are not visible, the disk, the clock.

_FULL = 65_536
_LITTLE = 0.05
"""Largest free share at which little space counts as a problem: on a small disk little is normal."""
_VIEWS = {Box.NEW: "new", Box.CUR: "claims", Box.TMP: "tmp"}


def _blind(seen: RuleInput) -> Problems:
    if not seen.has_boxes:
        return
    if (watch := seen.observation.watch).away:  # that holds for all boxes
        old = "" if watch.seen_at is None else f"; the figures are {age(max(0.0, seen.now - watch.seen_at))} old"
        advice = f"; {escape(watch.advice)}" if watch.advice else ""
        yield Problem("blind", Severity.CRITICAL, f"{escape(watch.reason)}{advice}{old}")
        return
    for box, state in seen.observation.boxes.items():
        if not state.error:
            continue
        severity = Severity.CRITICAL if box in (Box.NEW, Box.CUR) else Severity.WARNING
        error = escape(state.error)
        text = error if error.startswith(f"{box} ") else f"{box} {error}" if error.startswith("is ") else f"{box}: {error}"
        if state.count is not None:
            text += f"; its figures are {age(max(0.0, seen.now - state.as_of))} old" if state.as_of else "; its figures are old"
        yield Problem("blind", severity, text, view=_VIEWS.get(box, "aside"))


def _disk(seen: RuleInput) -> Problems:
    disk = seen.observation.disk
    if disk is not None:
        if disk.readonly and not disk.readonly_here:
            yield Problem("fs-readonly", Severity.CRITICAL, "the file system is mounted read-only; nothing here can change")
            return
        fails = {Box.TMP: "every put", Box.CUR: "every claim"}
        for box in disk.apart:
            text = f"{box} is on another mount than new: rename(2) does not work, so {fails[box]} fails"
            yield Problem("fs-readonly", Severity.CRITICAL, text)
    for one in seen.observation.capacities:
        if one.free is None or not one.total:
            continue
        in_bytes = one.unit == "bytes"
        low = seen.thresholds.disk_low if in_bytes else seen.thresholds.inodes_low
        user = f" for {escape(seen.observation.who.user)}" if one.per_user else ""
        root = one.reserved
        for_root = f" (root still has {size(root)})" if root is not None and root > one.free + _FULL else ""
        if one.free < (_FULL if in_bytes else 1):
            text = f"{one.name} full{user}: {one.amount} free{for_root}" if in_bytes else f"no {one.name} free"
            yield Problem("disk-full", Severity.CRITICAL, f"{text}; {one.full}")
        elif one.free < low and one.free < one.total * _LITTLE:
            text = f"{one.name} nearly full{user}: {one.amount} free{for_root}" if in_bytes else f"{one.amount} {one.name} free"
            yield Problem("disk-full", Severity.WARNING, text)


def _clock(seen: RuleInput) -> Problems:
    jump = seen.observation.clock_jumped
    if jump is not None:
        way = "forward" if jump > 0 else "back"
        yield Problem(
            "clock-skew", Severity.WARNING, f"the clock jumped {way} by {age(abs(jump))}: ages from before it are wrong"
        )
    if seen.mail:
        return
    limit = seen.now + seen.thresholds.clock_ahead
    ahead = [at for at in began((*seen.observation.claims, *seen.observation.tmp)) if at > limit]
    number, more = len(ahead), not seen.observation.judged_all
    ages = seen.observation.ages
    if ages is not None and ages.latest_at is not None and ages.latest_at > limit:
        ahead.append(ages.latest_at)
        number, more = number + ages.ahead, more or ages.looked_at < ages.of
    if ahead:
        things, verb = ("message", "is") if number == 1 else ("messages", "are")
        least = " or more" if more else ""
        text = f"{count(number)} {things}{least} {verb} dated up to {age(max(ahead) - seen.now)} in the future: clocks differ"
        yield Problem("clock-skew", Severity.NOTE, text, count=number)


# Problems of messages: not claimed, held by a dead consumer, or left behind.

_ID_CELLS = 20


def _paused(seen: RuleInput) -> Problems:
    pause = seen.observation.paused
    if pause is not None and seen.now - pause.at >= seen.thresholds.paused_long:
        yield Problem("paused", Severity.WARNING, f"paused {pause_words(pause, seen.now)}", view="new")


def _new(seen: RuleInput) -> Problems:
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


def _claims(seen: RuleInput) -> Problems:
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
    held = oldest.held(now)
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


def _tmp(seen: RuleInput) -> Problems:
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


def _odd(seen: RuleInput) -> Problems:
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
    return list(filter(selection.matcher(now), rows))


def _many(n: int, one: str, more: str) -> str:
    return f"{n} {one if n == 1 else more}"


def base_name(path: str) -> str:
    return escape(path.rpartition("/")[2] or path)


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
    return f", {'held' if one else 'longest'} {oldest.held(now)}"


def _oldest(rows: Sequence[Row], now: float) -> str:
    times = began(rows)
    return f", oldest {age(max(0.0, now - min(times)))}" if times else ""


def _found_by_kind(seen: RuleInput) -> Problems:
    """Problems that only this kind of queue has."""
    for one in seen.observation.findings:
        keys = tuple((one.box.value, path) for path in one.paths) if one.box is not None else ()
        selection = Selection(box=one.box, keys=keys) if keys else Selection(ids=one.ids) if one.code == "lost" else None
        if one.filter:
            selection = Selection(box=one.box, filter=one.filter)
        yield Problem(one.code, Severity.NOTE if one.is_note else Severity.WARNING, one.text, one.count, selection)


# Lists the judgements not made yet and the facts not visible, without which "no problems detected" would mean nothing.

def not_judged(seen: RuleInput) -> Iterator[str]:
    if seen.has_boxes and not seen.mail and (seen.rates.arrived is None or seen.watched < WINDOW):
        yield f"rates (need {WINDOW:.0f}s)"
    for feature in seen.features:
        yield from feature.not_judged()


def not_judged_codes(seen: RuleInput) -> dict[str, str]:
    """Returns the codes of problems that cannot be detected yet, or not from here, in the order of the codes, each with what
    would tell, or why nothing does."""
    found: dict[str, str] = {}
    for codes_of in (_codes, *(feature.codes for feature in seen.features)):
        for why, codes in codes_of(seen):
            for code in codes:
                found.setdefault(code, why)
    return {code: found[code] for code in CODES if code in found}


def _codes(seen: RuleInput) -> Codes:
    observation, limits, boxes = seen.observation, seen.thresholds, seen.observation.boxes
    if any(one.free is None for one in observation.capacities):
        yield "free space is not visible", ("disk-full",)
    if not seen.has_boxes or seen.mail:
        return
    new, cur, tmp = (boxes.get(box) for box in (Box.NEW, Box.CUR, Box.TMP))
    if new is None or new.count is None:
        yield _unseen(new, "new"), ("no-consumer", "failing", "new-growing", "new-old")
    else:
        judged = seen.watched >= limits.no_consumer or seen.unattended is not None or observation.paused is not None
        if new.count and not judged:
            yield watch_words(limits.no_consumer), ("no-consumer",)
        if seen.trend.per_s is None or seen.trend.window < limits.new_growing:
            yield watch_words(max(limits.new_growing, SLOPE_FROM)), ("new-growing",)
        if new.count and new.oldest_at is None and new.due != 0:
            yield "nothing here says when a message was put", ("new-old",)
    if cur is not None and cur.count is None:
        yield _unseen(cur, "cur"), ("poison", "failing", "claims-dead", "claim-long", "claims-unknown")
    if not observation.proves_death:
        yield "nothing here proves that a holder is dead", ("poison", "claims-dead", "claims-unknown")
    if not observation.judged_all:
        yield "not all holders were asked", ("poison", "claims-dead", "claim-long", "claims-unknown", "tmp-abandoned", "tmp-old")
    if not observation.claims_all:
        yield "not all claims were read", ("poison", "claim-long")
    if any(row.in_box_since is None for row in observation.claims):
        yield "nothing here says since when a message is claimed", ("claim-long",)
    if observation.layout != "spool":
        yield "attempts are not judged here", ("failing",)
    elif not observation.tried_all:
        yield "not all attempts were read", ("failing",)
    if tmp is not None and tmp.count is None:
        yield _unseen(tmp, "tmp"), ("tmp-abandoned", "tmp-old")


def watch_words(seconds: float) -> str:
    return f"needs --watch {seconds:g}s"


def _unseen(box: BoxState | None, name: str) -> str:
    why = "" if box is None else box.note or box.error
    return escape(why) if box is not None and box.note else f"{name} is not visible" + (f": {escape(why)}" if why else "")


def counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def not_visible(seen: RuleInput) -> Iterator[str]:
    observation = seen.observation
    if observation.watch.away:
        yield escape(observation.watch.reason)
        return
    yield from map(escape, observation.hidden)
    for box, state in observation.boxes.items() if seen.has_boxes else ():
        if state.count is None:
            why = state.error or state.note
            yield f"{box} ({escape(why)})" if why else str(box)
        elif not state.complete:
            yield f"all of {box}"
    for feature in seen.features:
        yield from feature.not_visible()
    if observation.watch.mode == "scan" and seen.has_boxes:
        why = f": {escape(observation.watch.reason)}" if observation.watch.reason else ""
        yield f"changes between two looks ({observation.watch.period or 0:g}s apart{why})"
    if not observation.judged_all:
        yield "holders of some claims"
    if any(one.free is None for one in observation.capacities):
        yield "free space"
    servers = [lock for lock in observation.locks if lock.kind == "redis" and lock.verdict == "unknown"]
    for lock in servers:
        yield f"tickets in {escape(lock.path)}: {escape(lock.evidence)}"
    hidden = sum(
        1 for lock in observation.locks if lock.verdict == "unknown" or any(holder.pid is None for holder in lock.holders)
    )
    hidden -= len(servers)
    if hidden:
        yield f"holders of {counted(hidden, 'lock')}"


# Makes a snapshot of each look.

_JUMP = 2.0


class Observer:
    """Makes a ``Snapshot`` of each ``Observation`` and those before it. Takes them in the order of time. Not thread-safe."""

    def __init__(self, thresholds: Thresholds | None = None, words: Environ = MappingProxyType({})) -> None:
        self.thresholds = thresholds or Thresholds()
        self._features: list[FeatureRules] = [part.RULES(words) for part in parts("watch")]
        self._last_at = inf
        self._jumped = 0.0
        self._begin(inf)

    def _begin(self, now: float) -> None:
        """Begins to watch, without a history of anything but what the features keep."""
        self._flow = RateWindow()
        self._flow_history = FlowHistory()
        self._trend = TrendWatch()
        self._waiting = WaitingWatch()
        self._failing = FailingWatch()
        self._depths: dict[Box, DepthHistory] = {}
        self._watched_since = now

    def add(self, observation: Observation) -> Snapshot:
        """Takes one look. Raises nothing for the contents of a spool."""
        now = observation.taken_at
        jumped = observation.clock_jumped or 0.0
        # After a jump of the clock watching begins anew: times before it cannot be subtracted from times after it.
        if now < self._last_at or abs(jumped - self._jumped) > _JUMP:
            self._begin(now)
        self._last_at, self._jumped = now, jumped
        watched = now - self._watched_since
        new = observation.boxes.get(Box.NEW)
        counted = new is not None and new.complete and not new.error
        self._flow.add(observation.flow)
        self._trend.shift(observation.flow.since, observation.flow.shifted)
        self._trend.add(now, new.count if new is not None and counted else None, now if new is None else new.as_of)
        history = {
            box: self._depths.setdefault(box, DepthHistory()).add(now, None if state.error else state.count)
            for box, state in observation.boxes.items()
        }
        trend = self._trend.trend()
        rates = self._flow.rates(now, new_per_s=trend.per_s, slope_window=trend.window)
        members = {name: value for feature in self._features for name, value in feature.add(observation, self.thresholds).items()}
        seen = RuleInput(
            observation=observation,
            rates=rates,
            trend=trend,
            thresholds=self.thresholds,
            watched=watched,
            untouched=self._waiting.add(observation),
            features=self._features,
            failing=self._failing.add(observation, self.thresholds, watched),
        )
        return Snapshot(
            observation=observation,
            rates=rates,
            problems=_problems(seen),
            history=history,
            cell=CELL,
            rate_history=self._flow_history.add(observation.flow, now),
            not_judged=tuple(not_judged(seen)),
            not_judged_codes=not_judged_codes(seen),
            not_visible=tuple(not_visible(seen)),
            **members,
        )

    def measured(self, consumers: ConsumerList) -> ConsumerList:
        """Adds the rates of each consumer, as of the last look."""
        return self._flow.measured(consumers)

    def redacted(self, observation: Observation, redactor: Redactor) -> Observation:
        """Returns the observation with all values hidden that ``redactor`` hides."""
        for feature in self._features:
            observation = feature.redacted(observation, redactor)
        return observation

    def plan_options(self, action: Action, options: JsonObject) -> JsonObject:
        """Adds what was seen to the options of a plan. May be called from another thread."""
        for feature in self._features:
            options = feature.plan_options(action, options)
        return options


def _problems(seen: RuleInput) -> tuple[Problem, ...]:
    """Returns problems in the order of the codes; within a code critical ones first, then in the order of the rules, so that
    lines keep their place."""
    of_messages = () if seen.mail else (_paused, _new, _claims, _tmp, _odd, _found_by_kind)
    rules = (_blind, _disk, _clock, *of_messages, *(feature.problems for feature in seen.features))
    found = [problem for rule in rules for problem in rule(seen)]
    severities = list(Severity)  # the worst first
    return tuple(sorted(found, key=lambda problem: (problem.rank, severities.index(problem.severity))))


