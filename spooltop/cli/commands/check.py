"""``check``: a plugin for Nagios and what calls its plugins (Icinga, Naemon, Sensu, Zabbix).

The rules are those of the monitoring plugins development guidelines: a line ``SERVICE STATE - text | performance data``, further
lines with details, exit code 0 to 3. A label stands in quotes, has no ``=``, and a quote in it is doubled. The text has no ``;``,
which separates the fields of Nagios's own log: it writes a colon instead.

Nothing is OK that was not seen: a condition on what the look did not judge, or not all of, is UNKNOWN, with what would tell.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from enum import IntEnum
from functools import partial

from spooltop.model import CODES, Severity, Snapshot, SpooltopError, UsageError, pause_words
from spooltop.model.vocabulary import LIVE, Box, Frozen, age, count, escape, parse_age
from spooltop.run_each import run_each

from ..context import Arguments, targets_of
from .status import watched

# Threshold ranges as the Nagios plugin guidelines define them: a range describes the values that do not alert.

_NUMBER = r"-?(?:[0-9]+\.?[0-9]*|\.[0-9]+)"
_RANGE = rf"(?P<inside>@?)(?:(?P<start>~|{_NUMBER}|):)?(?P<end>{_NUMBER}|)"


class Range(Frozen):
    """A range ``[@][start:][end]``: ``start`` is 0 where it is left out and ``~`` for minus infinity, ``end`` is infinity where
    it is left out. A value outside alerts; with ``@``, a value inside. Both ends belong to the range.

    >>> [value for value in (-1, 0, 10, 11) if Range.of("10").judges(value, value)]
    [-1, 11]
    >>> [value for value in (9, 10, 20, 21) if Range.of("@10:20").judges(value, value)]
    [10, 20]
    >>> [Range.of(text).judges(8, 8) for text in ("~:7", "8:", "9:", "@~:8")]
    [True, False, True, True]
    """

    text: str
    start: float
    end: float
    inside: bool

    @classmethod
    def of(cls, text: str) -> Range:
        """Parses a range. Raises ``UsageError`` for anything else, and where the start is above the end."""
        found = re.fullmatch(_RANGE, text)
        if found is None or (found["start"] is None and not found["end"]):
            raise UsageError(f"no range: {text!r}", "as in 10, 10:, ~:10, 10:20, @10:20")
        start = -math.inf if found["start"] == "~" else float(found["start"] or 0)
        end = float(found["end"]) if found["end"] else math.inf
        if start > end:
            raise UsageError(f"the range {text!r} starts above its end", "as in 10, 10:, ~:10, 10:20, @10:20")
        return cls(text, start, end, bool(found["inside"]))

    def judges(self, low: float, high: float) -> bool | None:
        """Returns True where every value from ``low`` to ``high`` alerts, False where none does, None where some do.

        >>> [Range.of("10").judges(low, math.inf) for low in (3, 11)], Range.of("@5:9").judges(0, 4)
        ([None, True], False)
        """
        if self.start <= low and high <= self.end:
            return self.inside
        return not self.inside if high < self.start or low > self.end else None


_BETWEEN = " - "
_PAUSED = ("paused", "new-old", "new-growing")
"""Codes of problems whose text says that a spool is paused."""
_BOXES = {
    **dict.fromkeys(("no-consumer", "handed-back", "new-growing", "new-old"), (Box.NEW,)),
    **dict.fromkeys(("poison", "claims-dead", "claim-long", "claims-unknown"), (Box.CUR,)),
    **dict.fromkeys(("tmp-abandoned", "tmp-old"), (Box.TMP,)),
    **dict.fromkeys(("failing",), (Box.NEW, Box.CUR)),
    **dict.fromkeys(("paused",), ()),
    **dict.fromkeys(("lost", "conflict"), LIVE),
}
"""Codes of the problems of messages, with the boxes that have to be seen to find one."""


class State(IntEnum):
    """The states of a service, the worst last: what is known to be broken is worse than what is not known."""

    OK = 0
    WARNING = 1
    UNKNOWN = 2
    CRITICAL = 3

    @property
    def exit_code(self) -> int:
        return (0, 1, 3, 2)[self]


class Condition(Frozen):
    """A value or the code of a problem that gives ``state``: outside ``range``; without one, where the problem is there."""

    name: str
    state: State
    range: Range | None = None


class Reading(Frozen):
    """A value of a look, which lies between ``low`` and ``high``; ``low`` None: not known. ``why`` it is not known exactly, or
    what would tell. ``most`` is the largest possible value."""

    low: float | None
    high: float = math.inf
    why: str = ""
    most: float | None = None

    @classmethod
    def at_least(cls, value: float, why: str) -> Reading:
        """A value that is exact unless there is a reason ``why`` not."""
        return cls(value, math.inf if why else value, why)


class Finding(Frozen):
    """State of one target, in words, and in the values of the performance data by name. ``why`` are those of the words that
    explain the state."""

    state: State
    text: str
    measures: Mapping[str, Reading] = {}
    why: str = ""


class _Value(Frozen):
    """A value of the performance data, which a condition may name. It is left out where it is not known, unless ``always``.
    ``unit`` is ``s``, ``B``, ``c`` (a counter) or empty."""

    does: str
    read: Callable[[Snapshot], Reading]
    unit: str = ""
    always: bool = False


def _box(box: Box, snapshot: Snapshot) -> Reading:
    state = snapshot.observation.boxes.get(box)
    if state is None:
        return Reading(None, why=f"there is no {box} here")
    if state.count is None or state.error:
        return Reading(None, why=state.error or state.note or f"{box} is not visible")
    return Reading.at_least(state.count, _incomplete(snapshot, box))


def _age(snapshot: Snapshot) -> Reading:
    waiting = _box(Box.NEW, snapshot)
    new = snapshot.observation.boxes.get(Box.NEW)
    if waiting.low is None or new is None:
        return waiting
    if not waiting.low or new.due == 0:
        return Reading.at_least(0.0, waiting.why)
    if new.oldest_at is None:
        return Reading(None, why="nothing here says when a message was put")
    return Reading.at_least(max(0.0, snapshot.taken_at - new.oldest_at), waiting.why)


def _dead(snapshot: Snapshot) -> Reading:
    observation = snapshot.observation
    claims = _box(Box.CUR, snapshot)
    if claims.low is None:
        return claims
    if why := _not_there(snapshot, "claims-dead") or ("" if observation.proves_death else _not_judged(snapshot, "claims-dead")):
        return Reading(None, why=why)
    counts = observation.counts
    most = counts.dead + counts.unknown if observation.judged_all else math.inf
    return Reading(counts.dead, math.inf if math.isinf(claims.high) else most, _not_judged(snapshot, "claims-dead"))


def _rate(name: str, snapshot: Snapshot) -> Reading:
    value: float | None = getattr(snapshot.rates, name)
    if value is None:
        return Reading(None, why="needs --watch")
    return Reading.at_least(value, "not all changes were seen" if snapshot.rates.lower_bound else "")


def _reverts(snapshot: Snapshot) -> Reading:
    reverts = sum(cursor.reverts for cursor in snapshot.cursors)
    why = _not_there(snapshot, "cursor-reverted") or _not_judged(snapshot, "cursor-reverted")
    return Reading.at_least(reverts, why) if reverts or not why else Reading(None, why=why)


def _free(snapshot: Snapshot) -> Reading:
    for one in snapshot.observation.capacities:
        if one.unit == "bytes" and one.free is not None:
            return Reading(one.free, one.free, most=one.total)
    return Reading(None, why="free space is not visible")


def _of_code(code: str, snapshot: Snapshot) -> Reading:
    """Reads how many items the problems with this code are about. A problem about nothing that is counted counts as one."""
    found = [problem for problem in snapshot.problems if problem.code == code]
    why = _not_there(snapshot, code) or _not_judged(snapshot, code)
    if not found and why:
        return Reading(None, why=why)
    why = why or ("there are more" if any(problem.at_least for problem in found) else "")
    return Reading.at_least(sum(max(1, problem.count) for problem in found), why)


def _problems(snapshot: Snapshot) -> Reading:
    found = sum(problem.severity is not Severity.NOTE for problem in snapshot.problems)
    return Reading.at_least(found, _incomplete(snapshot, *snapshot.observation.boxes))


VALUES = {
    "depth": _Value("messages in new", partial(_box, Box.NEW), always=True),
    "age": _Value("seconds that the oldest of them has waited", _age, "s", always=True),
    "claims": _Value("messages in cur", partial(_box, Box.CUR), always=True),
    "dead": _Value("claims of dead consumers", _dead, always=True),
    "failing": _Value("messages that fail again and again", partial(_of_code, "failing"), always=True),
    **{str(box): _Value(f"messages in {box}", partial(_box, box)) for box in (Box.TMP, Box.HELD, Box.REJECTED, Box.TRASH)},
    "in": _Value("messages a second that come", partial(_rate, "in_per_s")),
    "done": _Value("messages a second that are done", partial(_rate, "done_per_s")),
    "reverts": _Value("lost updates of cursors", _reverts, "c"),
    "free": _Value("free bytes", _free, "B"),
    "problems": _Value("critical problems and warnings", _problems),
}
"""All values by name, in the order of the performance data."""


def condition(text: str, state: State) -> Condition:
    """Parses ``NAME`` or ``NAME=RANGE``. Raises ``UsageError``."""
    name, equals, range = text.partition("=")
    if name not in CODES:
        _known(name, CODES, "is neither a value nor the code of a problem", "the codes of problems stand in status --json")
        if not equals:
            raise UsageError(f"{name} needs a range", f"as in {name}=100")
    return Condition(name, state, Range.of(range) if equals else None)


def kept_values(text: str) -> Collection[str]:
    """Parses the names of the values that the performance data keep: ``NAME,NAME``, or ``none``. Raises ``UsageError``."""
    names = [] if text == "none" else text.split(",")
    for name in names:
        _known(name, (), "is not a value of the performance data", "none leaves all out")
    return names


def _known(name: str, more: Sequence[str], what: str, advice: str) -> None:
    if name not in VALUES:
        from difflib import get_close_matches  # only for what is misspelt

        near = get_close_matches(name, [*VALUES, *more], n=1)
        advice = f"did you mean {near[0]}?" if near else advice
        raise UsageError(f"{name!r} {what}", f"values: {', '.join(VALUES)}; {advice}")


def finding(snapshot: Snapshot, conditions: Sequence[Condition] = ()) -> Finding:
    """Judges a snapshot. Without conditions each critical problem is critical and each warning a warning; with conditions they
    alone count."""
    readings = {name: _read(snapshot, value.read) for name, value in VALUES.items()}
    seen = snapshot.observation.boxes
    measures = {name: one for name, one in readings.items() if one.low is not None or (seen and VALUES[name].always)}
    alerts = _alerts(snapshot, readings, conditions) if conditions else _problem_alerts(snapshot)
    alerts.sort(key=lambda alert: -alert[0])
    worst = alerts[0][0] if alerts else State.OK
    why = [text for _, text in alerts]
    words = why or ["no problems detected" if not conditions else "all within their ranges"]
    named = {one.name for one in conditions if one.range is None} if conditions else set(CODES)
    reported = any(problem.code in _PAUSED and problem.code in named for problem in snapshot.problems)
    words = [*words, *_facts(snapshot, readings, reported=reported)]
    words += [problem.text for problem in snapshot.problems if problem.code == "muted"]
    if not conditions and (later := snapshot.not_judged_words()):
        words.append(f"not judged: {', '.join(later)}")
    return Finding(worst, _BETWEEN.join(words), measures, why[0] if why else "")


def unknown(text: str) -> Finding:
    """The finding on a target of which nothing is known; ``text`` says why."""
    return Finding(State.UNKNOWN, text, why=text)


def report(
    found: Sequence[tuple[str, Finding]], conditions: Sequence[Condition] = (), kept: Collection[str] | None = None
) -> tuple[list[str], int]:
    """The lines of the output, and the exit code, for at least one target with its finding. Several targets are summed up in the
    first line, which names the worst, and have a line each below; their labels begin with the target. ``kept`` are the names of
    the values that the performance data keep, None: all."""
    data = _performance(found, conditions, kept)
    if len(found) == 1:
        ((_, only),) = found
        return [_line(only.state, only.text) + data], only.state.exit_code
    ordered = sorted(found, key=lambda pair: -pair[1].state)
    target, worst = ordered[0]
    counts = [(state, sum(one.state is state for _, one in found)) for state in reversed(State)]
    first = f"{len(found)} targets: {', '.join(f'{many} {state.name}' for state, many in counts if many)}"
    if worst.why:
        first += f"{_BETWEEN}{escape(target)}: {worst.why}"
    lines = [_line(worst.state, first) + data]
    lines += [_line(one.state, f"{escape(target)}: {one.text}") for target, one in ordered]
    return lines, worst.state.exit_code


def _line(state: State, text: str) -> str:
    return f"SPOOL {state.name} - {text.replace('|', '/').replace(';', ',')}"


def _read(snapshot: Snapshot, read: Callable[[Snapshot], Reading]) -> Reading:
    watch = snapshot.observation.watch  # what is shown of a server that is away is old
    return Reading(None, why=watch.reason) if watch.away else read(snapshot)


def _not_there(snapshot: Snapshot, code: str) -> str:
    """Why there is nothing here that could have a problem with this code; "" where there is."""
    observation = snapshot.observation
    if code in _BOXES and not observation.judges_claims:
        return "messages of a mail folder are not judged" if observation.is_mail else "there are no messages here"
    return "there is no cursor here" if code.startswith("cursor-") and not snapshot.cursors else ""


def _not_judged(snapshot: Snapshot, code: str) -> str:
    """Why there may be a problem with this code that the look did not find; "" where there is none."""
    if why := snapshot.not_judged_codes.get(code, ""):
        return why
    counts = snapshot.observation.counts
    if code in ("claims-dead", "poison") and counts.unknown:
        return f"it is unknown who holds {count(counts.unknown)}"
    if code == "tmp-abandoned" and counts.tmp_unknown:
        return f"it is unknown who writes {count(counts.tmp_unknown)}"
    return _incomplete(snapshot, *_BOXES.get(code, ()))


def _incomplete(snapshot: Snapshot, *boxes: Box) -> str:
    """Why not all of ``boxes`` was read; "" where it was. What this kind of queue hides was told elsewhere."""
    for box in boxes:
        state = snapshot.observation.boxes.get(box)
        if state is not None and not state.note and (state.error or not state.complete):
            why = (state.error,) if state.error else snapshot.observation.hidden
            return ": ".join((f"not all of {box} was read", *map(escape, why)))
    return ""


def _alerts(snapshot: Snapshot, readings: Mapping[str, Reading], conditions: Sequence[Condition]) -> list[tuple[State, str]]:
    """The findings of the conditions; of several on one name the worst counts."""
    found: dict[str, tuple[State, str]] = {}
    for one in conditions:
        reading = readings.get(one.name) or _read(snapshot, partial(_of_code, one.name))
        alert = _alert(snapshot, reading, one)
        if alert is not None and (one.name not in found or alert[0] > found[one.name][0]):
            found[one.name] = alert
    return list(found.values())


def _alert(snapshot: Snapshot, reading: Reading, one: Condition) -> tuple[State, str] | None:
    if one.range is None:
        if problems := [problem.text for problem in snapshot.problems if problem.code == one.name]:
            return one.state, _BETWEEN.join(problems)
        return (State.UNKNOWN, f"{one.name} was not judged: {reading.why}") if reading.high else None
    if reading.low is None:
        return State.UNKNOWN, f"{one.name} is not known: {reading.why}"
    alerts = one.range.judges(reading.low, reading.high)
    if alerts is False:
        return None
    unit = VALUES[one.name].unit if one.name in VALUES else ""
    value = f"{_number(reading.low)}{'' if unit == 'c' else unit}"
    if alerts:
        return one.state, f"{one.name} is {value} (range {one.range.text})"
    to = "or more" if math.isinf(reading.high) else f"to {_number(reading.high)}"
    return State.UNKNOWN, f"{one.name} is {value} {to}: {reading.why}"


def _problem_alerts(snapshot: Snapshot) -> list[tuple[State, str]]:
    found = [(State[one.severity.name], one.text) for one in snapshot.problems if one.severity is not Severity.NOTE]
    if not found and not snapshot.observation.complete:
        return [(State.UNKNOWN, ": ".join(("the look is not complete", *map(escape, snapshot.observation.hidden))))]
    if not found and not snapshot.observation.judged_all:
        return [(State.UNKNOWN, "not all holders were asked")]
    return found


def _facts(snapshot: Snapshot, readings: Mapping[str, Reading], *, reported: bool) -> list[str]:
    """``reported``: the words of a problem say already that the spool is paused."""
    depth, claims, dead = (_counted(readings[name]) for name in ("depth", "claims", "dead"))
    if not depth:
        return []
    waiting = f"new {depth}" + (f", oldest {age(readings['age'].low)}" if readings["depth"].low else "")
    pause = snapshot.observation.paused
    if pause is not None and not reported:
        waiting = f"paused {pause_words(pause, snapshot.taken_at)}{_BETWEEN}{waiting}"
    if not claims or not snapshot.observation.judges_claims:
        return [waiting]
    unproved = snapshot.observation.counts.unknown
    parts = [f"claims {claims}", f"dead {dead}" if dead else "", f"unknown {count(unproved)}" if unproved else ""]
    return [waiting, ", ".join(filter(None, parts))]


def _counted(reading: Reading) -> str:
    """The number with ``≥`` where there may be any more; "" where it is not known."""
    return "" if reading.low is None else count(int(reading.low), complete=not math.isinf(reading.high))


def _performance(found: Sequence[tuple[str, Finding]], conditions: Sequence[Condition], kept: Collection[str] | None) -> str:
    given = {(one.name, one.state): one.range.text for one in reversed(conditions) if one.range is not None}
    words = []
    for target, one in found:
        name = escape(target) if len(found) > 1 else ""
        for measure, reading in one.measures.items():
            if kept is not None and measure not in kept:
                continue
            label = f"{name} {measure}".strip().replace("=", "_").replace("'", "''").replace("|", "_")
            value = "U" if reading.low is None else f"{_number(reading.low)}{VALUES[measure].unit}"
            ranges = [given.get((measure, state), "") for state in (State.WARNING, State.CRITICAL)]
            fields = [value, *ranges, "0", "" if reading.most is None else _number(reading.most)]
            words.append(f"'{label}'={';'.join(fields).rstrip(';')}")
    return f" | {' '.join(words)}" if words else ""


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else f"{value:.3f}".rstrip("0").rstrip(".")


# The command.

_LEAST = 0.5
"""Seconds that the looks have at least, however long it took to find the targets."""


def check(args: Arguments) -> int:
    """Looks at all targets at once, each in a thread of its own: one that hangs is UNKNOWN after ``-t`` seconds, the others are
    judged all the same."""
    given = ((State.WARNING, args.warning), (State.CRITICAL, args.critical))
    conditions = [condition(text, state) for state, texts in given for text in texts or ()]
    kept = None if args.perfdata is None else kept_values(args.perfdata)
    if not 0 < args.timeout < math.inf:
        raise UsageError(f"-t {args.timeout:g} is no time", "as in -t 10")
    end = time.monotonic() + args.timeout + (parse_age(args.watch) if args.watch else 0.0)
    targets = targets_of(args)
    looking = args.patient(math.inf)  # all of them are left behind together, at the end
    patience = max(end - time.monotonic(), _LEAST)
    found = run_each(targets, lambda target: _look(looking, target, conditions), patience, at_once=True)
    late = unknown(f"no answer within {args.timeout:g}s")
    lines, code = report([(target, one or late) for target, one in zip(targets, found, strict=True)], conditions, kept)
    args.terminal.out_each(lines)
    return code


def _look(args: Arguments, target: str, conditions: list[Condition]) -> Finding:
    """Looks at one target. What cannot be looked at is UNKNOWN, and so is a defect: a traceback would go to stderr."""
    try:
        return finding(watched(args, target), conditions)
    except SpooltopError as error:
        return unknown(str(error))
    except OSError as error:
        return unknown(error.strerror or str(error))
    except Exception as error:  # noqa: BLE001  as the docstring says
        return unknown(f"{type(error).__name__}: {error}; this is a defect: SPOOLTOP_DEBUG=1 with status shows where")
