"""Several targets at once: the watch behind the Spools view, and the status of each as a line of text or a JSON object."""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from spooltop.control import Control
from spooltop.model import Box, Snapshot, SpooltopError, age, clock_time, count, escape, printable, since, without_secrets
from spooltop.monitor.spools_watch import Glance, Level, SpoolsWatch
from spooltop.targets import count_boxes

from .context import Arguments, targets_of
from .render import as_json

# Opens several targets for the Spools view.

_LIVE_AT_MOST = 40
"""Targets up to which each has events of its own: the kernel gives a user 128 listeners. Of more, rates are lower bounds, from
what two scans differ in."""
_FILES = 12
"""Descriptors of an open target at most."""
_OTHER_FILES = 128


def spools_watch(
    targets: Sequence[str], args: Arguments, opened: Callable[[str], Control]
) -> SpoolsWatch:
    """Watches ``targets``, each of which ``opened`` opens. Nothing can be changed through the glances. Close it."""
    live = len(targets) <= _LIVE_AT_MOST

    def glancing(target: str) -> Control:
        return args.open(target, read_only=True, as_kind=args.as_kind, watch=live, owners=False)

    return SpoolsWatch(
        targets, glancing, opened, count_boxes, partial(targets_of, args, strict=True),
        (_files(_OTHER_FILES + _FILES * len(targets)) - _OTHER_FILES) // _FILES,
    )  # fmt: skip


def _files(wanted: int) -> int:
    """Raises the number of files that this process may open to ``wanted``, as far as the system allows, and returns it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return wanted
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return most


# The status of several targets: a line of text each, or a JSON object. Pure.

_SIGNS = {
    Level.SILENT: "✗", Level.CRITICAL: "✗", Level.UNKNOWN: "?", Level.WARNING: "!", Level.NOTE: "·", Level.FINE: "✓",
    Level.PENDING: " ",
}  # fmt: skip


def glance_of(target: str, seen: Snapshot | SpooltopError) -> Glance:
    """The glance at a target that was looked at, or could not be."""
    if isinstance(seen, SpooltopError):
        return Glance(target, error=printable(f"{seen.what}; {seen.advice}" if seen.advice else seen.what))
    return Glance(target, snapshot=seen)


def glance_json(one: Glance) -> dict[str, Any]:
    """The object of one target, as ``status --json`` has it; of one that cannot be looked at, the reason."""
    if one.snapshot is not None:
        return as_json.status(one.snapshot, without_secrets(one.target))
    head = as_json.status_head(without_secrets(one.target))
    return {**head, "complete": False, "error": one.says, "problems": []}


def glance_lines(glances: Sequence[Glance]) -> Iterator[str]:
    """A title, the names of the columns, and a line for each target. The problem is last and whole."""
    troubled = sum(one.troubled for one in glances)
    newest = max(one.seen.taken_at for one in glances)
    as_of = f" · as of {clock_time(newest)}" if newest else ""
    yield f"{len(glances)} spools · {troubled} with problems, worst first{as_of}"
    names = [escape(without_secrets(one.target)) for one in glances]
    width = max(map(len, ["spool", *names]))
    yield f"  {'spool':<{width}} {'new':>9} {'cur':>6} {'dead':>5} {'oldest':>6}  problem"
    for name, one in zip(names, glances, strict=True):
        new, cur = (count(one.count(box), complete=one.complete) for box in (Box.NEW, Box.CUR))
        dead = "?" if one.dead is None else f"{one.dead:,}"
        oldest = "?" if one.snapshot is None else age(since(one.oldest_at, one.snapshot.taken_at))
        yield f"{_SIGNS[one.level]} {name:<{width}} {new:>9} {cur:>6} {dead:>5} {oldest:>6}  {_problem(one)}".rstrip()


def _problem(one: Glance) -> str:
    more = len(one.seen.problems) - 1
    return printable(one.says) + (f" (and {more} more)" if more > 0 else "")
