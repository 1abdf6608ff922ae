"""Problems of the host: boxes that are not visible, the disk, the clock."""

from __future__ import annotations

from collections.abc import Iterator

from spooltop.model.look.capacity import Capacity
from spooltop.model.look.problem import Problem, Severity
from spooltop.model.text import escape
from spooltop.model.units import age, count, size
from spooltop.model.vocabulary import Box

from .rule_input import RuleInput

__all__ = ["host_problems"]

_FULL = 65_536
_LITTLE = 0.05
"""Largest free share at which little space counts as a problem: on a small disk little is normal."""
_VIEWS = {Box.NEW: "new", Box.CUR: "claims", Box.TMP: "tmp"}


def host_problems(seen: RuleInput) -> Iterator[Problem]:
    yield from _blind(seen)
    yield from _disk(seen)
    yield from _clock(seen)


def _blind(seen: RuleInput) -> Iterator[Problem]:
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


def _disk(seen: RuleInput) -> Iterator[Problem]:
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
        yield from _capacity(one, seen)


def _capacity(one: Capacity, seen: RuleInput) -> Iterator[Problem]:
    if one.free is None or not one.total:
        return
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


def _clock(seen: RuleInput) -> Iterator[Problem]:
    jump = seen.observation.clock_jumped
    if jump is not None:
        way = "forward" if jump > 0 else "back"
        yield Problem(
            "clock-skew", Severity.WARNING, f"the clock jumped {way} by {age(abs(jump))}: ages from before it are wrong"
        )
    if seen.mail:
        return
    limit = seen.now + seen.thresholds.clock_ahead
    times = [row.in_box_since for row in (*seen.observation.claims, *seen.observation.tmp)]
    ahead = [at for at in times if at is not None and at > limit]
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
