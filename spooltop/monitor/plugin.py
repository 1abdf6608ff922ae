"""Output and exit code of a Nagios plugin, from snapshots. Pure.

The rules are those of the monitoring plugins development guidelines: a line ``SERVICE STATE - text | performance data``, further
lines with details, exit code 0 to 3. A label stands in quotes, has no ``=``, and a quote in it is doubled. The text has no ``;``,
which separates the fields of Nagios's own log: it writes a colon instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum

from spooltop.errors import UsageError
from spooltop.model.look.observation import Observation
from spooltop.model.look.pause import pause_words
from spooltop.model.look.problem import CODES, Severity
from spooltop.model.look.snapshot import Snapshot
from spooltop.model.text import escape
from spooltop.model.units import age, count
from spooltop.model.vocabulary import Box
from spooltop.records import dataclass

from .ranges import Range

__all__ = ["MEASURES", "Condition", "Finding", "Measure", "State", "condition", "finding", "report", "unknown"]

MEASURES = ("depth", "age", "claims", "dead", "failing")
"""Values that a condition may name beside the codes of problems: messages in ``new``, the age of the oldest there in seconds,
claims, claims of dead consumers, messages that fail again and again."""
_BETWEEN = " - "
_PAUSED = ("paused", "new-old", "new-growing")
"""Codes of problems whose text says that a spool is paused."""
_RANK = ("OK", "WARNING", "UNKNOWN", "CRITICAL")
_OF_SEVERITY = {Severity.CRITICAL: 2, Severity.WARNING: 1, Severity.NOTE: 0}


class State(IntEnum):
    """The states of a service; the value is the exit code."""

    OK = 0
    WARNING = 1
    CRITICAL = 2
    UNKNOWN = 3

    @property
    def rank(self) -> int:
        """Position among the states, the worst last: what is known to be broken is worse than what is not known."""
        return _RANK.index(self.name)


@dataclass(frozen=True, slots=True)
class Condition:
    """A value or the code of a problem that gives ``state``: outside ``range``; without one, where the problem is there."""

    name: str
    state: State
    range: Range | None = None


@dataclass(frozen=True, slots=True)
class Measure:
    """A value of the performance data. ``value`` None: not known. ``unit`` is ``s``, ``B``, ``c`` (a counter) or empty."""

    label: str
    value: float | None
    unit: str = ""
    most: float | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """State of one target, in words and in values."""

    state: State
    text: str
    measures: tuple[Measure, ...] = ()


def condition(text: str, state: State) -> Condition:
    """Parses ``NAME`` or ``NAME=RANGE``. Raises ``UsageError``."""
    name, equals, range = text.partition("=")
    if name not in CODES and name not in MEASURES:
        advice = f"values: {', '.join(MEASURES)}{_near(name)}"
        raise UsageError(f"{name!r} is neither a value nor the code of a problem", advice=advice)
    if not equals:
        if name not in CODES:
            raise UsageError(f"{name} needs a range", advice=f"as in {name}=100")
        return Condition(name, state)
    return Condition(name, state, Range.of(range))


def finding(snapshot: Snapshot, conditions: Sequence[Condition] = ()) -> Finding:
    """Judges a snapshot. Without conditions each critical problem is critical and each warning a warning; with conditions they
    alone count."""
    values = _values(snapshot)
    measures = _measures(snapshot, values)
    alerts = _alerts(snapshot, values, conditions) if conditions else _problems(snapshot)
    worst = max((state for state, _ in alerts), key=lambda state: state.rank, default=State.OK)
    words = [text for state, text in sorted(alerts, key=lambda alert: -alert[0].rank)]
    if not words:
        words.append("no problems detected" if not conditions else "all within their ranges")
    named = {one.name for one in conditions if one.range is None} if conditions else set(CODES)
    reported = any(problem.code in _PAUSED and problem.code in named for problem in snapshot.problems)
    words += _facts(snapshot.observation, values, reported=reported)
    wanted = [one.name for one in conditions] or CODES
    later = [code for code in snapshot.not_judged_codes if code in wanted]
    if later:
        words.append(f"not judged by {'one look' if not snapshot.watched_for else 'this look'}: {', '.join(later)}")
    return Finding(worst, _BETWEEN.join(words), measures)


def unknown(text: str) -> Finding:
    """The finding on a target of which nothing is known; ``text`` says why."""
    return Finding(State.UNKNOWN, text)


def report(found: Sequence[tuple[str, Finding]], conditions: Sequence[Condition] = ()) -> tuple[list[str], int]:
    """The lines of the output, and the exit code, for at least one target with its finding. Several targets are summed up in the
    first line and have a line each below; their labels begin with the target."""
    if len(found) == 1:
        ((_, only),) = found
        return [_line(only.state, only.text) + _performance([("", only)], conditions)], int(only.state)
    worst = max((one.state for _, one in found), key=lambda state: state.rank)
    counts = [(state, sum(one.state is state for _, one in found)) for state in sorted(State, key=lambda state: -state.rank)]
    first = ", ".join(f"{many} {state.name}" for state, many in counts if many)
    ordered = sorted(found, key=lambda pair: -pair[1].state.rank)
    lines = [_line(worst, f"{len(found)} targets: {first}") + _performance(found, conditions)]
    lines += [_line(one.state, f"{escape(target)}: {one.text}") for target, one in ordered]
    return lines, int(worst)


def _near(name: str) -> str:
    from difflib import get_close_matches  # only for what is misspelt

    near = get_close_matches(name, [*CODES, *MEASURES], n=1)
    return f"; did you mean {near[0]}?" if near else "; the codes of problems stand in status --json"


def _line(state: State, text: str) -> str:
    return f"SPOOL {state.name} - {text.replace('|', '/').replace(';', ',')}"


def _values(snapshot: Snapshot) -> Mapping[str, float | None]:
    """The values that conditions may name; None: not known. The oldest message of an empty box is 0 s old."""
    observation = snapshot.observation
    new, cur = observation.boxes.get(Box.NEW), observation.boxes.get(Box.CUR)
    oldest = None
    if new is not None and new.count is not None:
        oldest = 0.0 if not new.count else None if new.oldest_at is None else max(0.0, snapshot.taken_at - new.oldest_at)
    judged = observation.judges_claims and cur is not None and cur.count is not None
    return {
        "depth": None if new is None else new.count,
        "age": oldest,
        "claims": None if cur is None else cur.count,
        "dead": observation.counts.dead if judged else None,
        "failing": float(sum(problem.count for problem in snapshot.problems if problem.code == "failing")),
    }


def _measures(snapshot: Snapshot, values: Mapping[str, float | None]) -> tuple[Measure, ...]:
    observation, rates = snapshot.observation, snapshot.rates
    boxes = bool(observation.boxes)
    found = [Measure(name, values[name], "s" if name == "age" else "") for name in MEASURES] if boxes else []
    found += [
        Measure(str(box), state.count)
        for box, state in observation.boxes.items()
        if box in (Box.TMP, Box.HELD, Box.REJECTED, Box.TRASH)
    ]
    for label, rate in (("in", rates.in_per_s), ("done", rates.done_per_s)):
        if rate is not None:
            found.append(Measure(label, rate))
    if snapshot.cursors:
        found.append(Measure("reverts", sum(cursor.reverts for cursor in snapshot.cursors), "c"))
    space = next((one for one in observation.capacities if one.unit == "bytes" and one.free is not None), None)
    if space is not None:
        found.append(Measure("free", space.free, "B", space.total))
    return (*found, Measure("problems", sum(problem.severity is not Severity.NOTE for problem in snapshot.problems)))


def _alerts(
    snapshot: Snapshot, values: Mapping[str, float | None], conditions: Sequence[Condition]
) -> list[tuple[State, str]]:
    """The findings of the conditions; of several on one name the worst counts."""
    found: dict[str, tuple[State, str]] = {}
    for one in conditions:
        alert = _alert(snapshot, values, one)
        if alert is not None and (one.name not in found or alert[0].rank > found[one.name][0].rank):
            found[one.name] = alert
    return list(found.values())


def _alert(snapshot: Snapshot, values: Mapping[str, float | None], one: Condition) -> tuple[State, str] | None:
    problems = [problem for problem in snapshot.problems if problem.code == one.name]
    if one.range is None:
        return (one.state, _BETWEEN.join(problem.text for problem in problems)) if problems else None
    value = values[one.name] if one.name in MEASURES else float(sum(problem.count for problem in problems))
    if value is None:
        return State.UNKNOWN, f"{one.name} is not known"
    if one.range.alerts(value):
        return one.state, f"{one.name} is {_number(value)}{'s' if one.name == 'age' else ''} (range {one.range.text})"
    if not snapshot.observation.complete:
        return State.UNKNOWN, f"{one.name} is at least {_number(value)}: the look is not complete"
    return None


def _problems(snapshot: Snapshot) -> list[tuple[State, str]]:
    found = [(State(_OF_SEVERITY[problem.severity]), problem.text) for problem in snapshot.problems]
    found = [alert for alert in found if alert[0] is not State.OK]
    if not snapshot.observation.complete and not found:
        found.append((State.UNKNOWN, "the look is not complete"))
    return found


def _facts(observation: Observation, values: Mapping[str, float | None], *, reported: bool) -> list[str]:
    """``reported``: the words of a problem say already that the spool is paused."""
    if not observation.boxes or values["depth"] is None:
        return []
    waiting = f"new {count(int(values['depth']))}" + (f", oldest {age(values['age'])}" if values["depth"] else "")
    pause = observation.paused
    if pause is not None and not reported:
        waiting = f"paused {pause_words(pause, observation.taken_at)}{_BETWEEN}{waiting}"
    if values["dead"] is None:
        return [waiting]
    return [waiting, f"claims {count(int(values['claims'] or 0))}, dead {count(int(values['dead']))}"]


def _performance(found: Sequence[tuple[str, Finding]], conditions: Sequence[Condition]) -> str:
    words = []
    for target, one in found:
        for measure in one.measures:
            label = f"{escape(target)} {measure.label}".strip().replace("=", "_").replace("'", "''").replace("|", "_")
            value = "U" if measure.value is None else f"{_number(measure.value)}{measure.unit}"
            ranges = [_range(conditions, measure.label, state) for state in (State.WARNING, State.CRITICAL)]
            fields = [value, *ranges, "0", "" if measure.most is None else _number(measure.most)]
            words.append(f"'{label}'={';'.join(fields).rstrip(';')}")
    return f" | {' '.join(words)}" if words else ""


def _range(conditions: Sequence[Condition], name: str, state: State) -> str:
    texts = [one.range.text for one in conditions if one.name == name and one.state is state and one.range is not None]
    return texts[0] if texts else ""


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else f"{value:.3f}".rstrip("0").rstrip(".")
