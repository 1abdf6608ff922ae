"""The status of a spool, or of several, as text or JSON."""

from __future__ import annotations

import argparse
import math
import resource
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any

from msgspec.structs import replace

from spooltop.control import Control
from spooltop.errors import DoesNotAnswer, SpooltopError, Unreadable, UsageError
from spooltop.model.look.snapshot import Snapshot
from spooltop.model.target import without_secrets
from spooltop.model.text import escape
from spooltop.model.units import age, clock_time, count, parse_age
from spooltop.model.vocabulary import Box
from spooltop.monitor.glance import Glance, Level
from spooltop.monitor.spools_watch import SpoolsWatch
from spooltop.targets import count_boxes

from ..context import PATIENCE, Context, answered, targets_of
from ..progress import while_waiting
from ..render import snapshot_json, snapshot_text
from ..terminal import printable

# Opens several targets for the Spools view.

_LIVE_AT_MOST = 40
"""Targets up to which each has events of its own: the kernel gives a user 128 listeners. Of more, rates are lower bounds, from
what two scans differ in."""
_FILES = 12
"""Descriptors of an open target at most."""
_OTHER_FILES = 128


@contextmanager
def spools_watch(
    targets: Sequence[str], args: Namespace, context: Context, options: Mapping[str, Any]
) -> Iterator[SpoolsWatch]:
    """Watches ``targets``, and opens each as ``options`` say. Nothing can be changed through the glances."""
    opened = partial(context.open, read_only=args.read_only, as_kind=args.as_kind, watch=True, **options)
    live = len(targets) <= _LIVE_AT_MOST

    def glancing(target: str) -> Control:
        return context.open(target, read_only=True, as_kind=args.as_kind, watch=live, owners=False)

    spools = SpoolsWatch(
        targets, glancing, opened, count=count_boxes, find=partial(targets_of, args, context, strict=True),
        most_open=(_files(_OTHER_FILES + _FILES * len(targets)) - _OTHER_FILES) // _FILES,
    )  # fmt: skip
    try:
        yield spools
    finally:
        spools.close()


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


def as_json(one: Glance) -> str:
    """The object of one target, as ``status --json`` has it; of one that cannot be looked at, the reason."""
    if one.snapshot is not None:
        return snapshot_json.dumps(snapshot_json.status(one.snapshot, without_secrets(one.target)))
    head = snapshot_json.status_head(without_secrets(one.target))
    return snapshot_json.dumps({**head, "complete": False, "error": one.says, "problems": []})


def as_lines(glances: Sequence[Glance]) -> Iterator[str]:
    """A title, the names of the columns, and a line for each target. The problem is last and whole."""
    troubled = sum(one.troubled for one in glances)
    newest = max((one.snapshot.taken_at for one in glances if one.snapshot is not None), default=None)
    as_of = "" if newest is None else f" · as of {clock_time(newest)}"
    yield f"{len(glances)} spools · {troubled} with problems, worst first{as_of}"
    names = [escape(without_secrets(one.target)) for one in glances]
    width = max(map(len, ["spool", *names]))
    yield f"  {'spool':<{width}} {'new':>9} {'cur':>6} {'dead':>5} {'oldest':>6}  problem"
    for name, one in zip(names, glances, strict=True):
        new, cur = (_count(one, box) for box in (Box.NEW, Box.CUR))
        dead = "?" if one.dead is None else f"{one.dead:,}"
        oldest = "?" if one.snapshot is None else age(_seconds(one))
        yield f"{_SIGNS[one.level]} {name:<{width}} {new:>9} {cur:>6} {dead:>5} {oldest:>6}  {_problem(one)}".rstrip()


def _problem(one: Glance) -> str:
    more = len(one.snapshot.problems) - 1 if one.snapshot is not None else 0
    return printable(one.says) + (f" (and {more} more)" if more > 0 else "")


def _count(one: Glance, box: Box) -> str:
    return count(one.count(box), complete=one.complete)


def _seconds(one: Glance) -> float | None:
    if one.snapshot is None or one.oldest_at is None:
        return None
    return max(0.0, one.snapshot.taken_at - one.oldest_at)


_LONGEST = 365 * 86400.0


def status(args: argparse.Namespace, context: Context) -> int:
    return report(args, context, targets_of(args, context))


def report(args: argparse.Namespace, context: Context, targets: Sequence[str]) -> int:
    """Prints the status of ``targets``: of one the whole, of several a line each, worst first, with ``--json`` an object a
    line. ``spooltop PATH`` prints the same if no dashboard can be opened. The exit code is the worst of all."""
    if len(targets) > 1:
        return _several(args, context, targets)
    target = targets[0]
    snapshot = answered(watched(args, context, target, progress=True), target)
    if args.json:
        from ..render import snapshot_json

        context.terminal.out(snapshot_json.dumps(snapshot_json.status(snapshot, target)))
    else:
        for line in snapshot_text.status(snapshot, target):
            context.terminal.out(line)
    return 0


def _several(args: argparse.Namespace, context: Context, targets: Sequence[str]) -> int:
    """Looks at each, so that one that hangs or cannot be opened keeps no other back."""
    from spooltop.monitor.glance import worst_first
    from spooltop.run_each import run_each

    looking = replace(context, patience=math.inf)  # each is left behind by itself

    def look(target: str) -> tuple[Snapshot | SpooltopError, int]:
        try:
            return answered(watched(args, looking, target), target), 0
        except SpooltopError as error:
            return error, error.exit_code
        except OSError as error:
            return Unreadable(error.strerror or str(error), path=target), Unreadable.exit_code

    seconds = parse_age(args.watch) if getattr(args, "watch", None) else 0.0
    found = run_each(targets, look, PATIENCE + seconds, at_once=bool(seconds))
    looks = [
        one or (DoesNotAnswer("looking at it", PATIENCE, path=target), DoesNotAnswer.exit_code)
        for target, one in zip(targets, found, strict=True)
    ]
    ordered = worst_first(glance_of(target, seen) for target, (seen, _) in zip(targets, looks, strict=True))
    for line in map(as_json, ordered) if args.json else as_lines(ordered):
        context.terminal.out(line)
    return max(code for _, code in looks)


def watched(args: argparse.Namespace, context: Context, path: str, *, progress: bool = False) -> Snapshot:
    """Looks once and returns the snapshot; with ``--watch``, watches for that long and returns the last snapshot. ``progress``:
    the terminal says how long it has been waiting."""
    given = getattr(args, "watch", None)
    seconds = 0.0 if given is None else parse_age(given)
    if given is not None and not 0 < seconds <= _LONGEST:
        raise UsageError(f"--watch {given!r} is not between 1s and 365d", advice="as in --watch 40s")
    with context.control(args, path, watch=given is not None, owners=False) as control:
        with progress_of(control, context, given) if progress else nullcontext():
            return control.look() if given is None else control.watch(seconds)


def progress_of(control: Control, context: Context, watch: str | None) -> AbstractContextManager[None]:
    """Shows for how long a look, or ``--watch`` with the duration ``watch``, has been going on."""
    return while_waiting(context.terminal, "looking" if watch is None else f"watching for {watch}", control.current_step)
