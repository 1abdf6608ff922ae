"""Problems of the host: boxes that are not visible, the disk, the clock."""

from __future__ import annotations

from collections.abc import Iterator

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
    disk, limits = seen.observation.disk, seen.thresholds
    if disk.readonly and not disk.readonly_here:
        yield Problem("fs-readonly", Severity.CRITICAL, "the file system is mounted read-only; nothing here can change")
        return
    fails = {Box.TMP: "every put", Box.CUR: "every claim"}
    for box in disk.apart:
        text = f"{box} is on another mount than new: rename(2) does not work, so {fails[box]} fails"
        yield Problem("fs-readonly", Severity.CRITICAL, text)
    if disk.bytes_free is not None and disk.bytes_total:
        root = disk.root_bytes_free
        for_root = f" (root still has {size(root)})" if root is not None and root > disk.bytes_free + _FULL else ""
        user = escape(seen.observation.who.user)
        if disk.bytes_free < _FULL:
            text = f"disk full for {user}: {size(disk.bytes_free)} free{for_root}; puts and claims fail"
            yield Problem("disk-full", Severity.CRITICAL, text)
        elif disk.bytes_free < limits.disk_low and disk.bytes_free < disk.bytes_total * _LITTLE:
            yield Problem("disk-full", Severity.WARNING, f"disk nearly full for {user}: {size(disk.bytes_free)} free{for_root}")
    # file systems without an inode table (btrfs) tell a total of 0
    if disk.inodes_free is not None and disk.inodes_total:
        if disk.inodes_free == 0:
            yield Problem("disk-full", Severity.CRITICAL, "no inodes free; puts fail")
        elif disk.inodes_free < limits.inodes_low and disk.inodes_free < disk.inodes_total * _LITTLE:
            yield Problem("disk-full", Severity.WARNING, f"{count(disk.inodes_free)} inodes free")


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
