"""The status of a spool, or of several, as text or JSON."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext

from spooltop.model import DoesNotAnswer, Snapshot, SpooltopError, Unreadable, UsageError, parse_age
from spooltop.run_each import run_each

from ..context import PATIENCE, Arguments, R, answered, targets_of, while_waiting
from ..render import as_text

_LONGEST = 365 * 86400.0


def status(args: Arguments) -> int:
    return report(args, targets_of(args))


def report(args: Arguments, targets: Sequence[str]) -> int:
    """Prints the status of ``targets``: of one the whole, of several a line each, worst first, with ``--json`` an object a
    line. ``spooltop PATH`` prints the same if no dashboard can be opened. The exit code is the worst of all."""
    if len(targets) > 1:
        return _several(args, targets)
    target = targets[0]
    snapshot = answered(watched(args, target, progress=True), target)
    show_status(args, snapshot, target)
    return 0


def show_status(args: Arguments, snapshot: Snapshot, target: str) -> None:
    """Prints a look at one target."""
    if args.json:
        from ..render import as_json

        args.terminal.out_json(as_json.status(snapshot, target))
    else:
        args.terminal.out_each(as_text.status(snapshot, target))


def _several(args: Arguments, targets: Sequence[str]) -> int:
    """Looks at each, so that one that hangs or cannot be opened keeps no other back."""
    from spooltop.monitor.spools_watch import worst_first

    from ..several import glance_json, glance_lines, glance_of

    looks = look_each(args, targets, lambda looking, target: answered(watched(looking, target), target))
    ordered = worst_first(map(glance_of, targets, looks))
    args.terminal.show(map(glance_json, ordered), glance_lines(ordered))
    return max(one.exit_code if isinstance(one, SpooltopError) else 0 for one in looks)


def look_each(args: Arguments, targets: Sequence[str], look: Callable[[Arguments, str], R]) -> list[R | SpooltopError]:
    """Returns what ``look`` returns for each target, or why there is nothing."""
    looking = args.patient(math.inf)  # each is left behind by itself

    def call(target: str) -> R | SpooltopError:
        try:
            return look(looking, target)
        except SpooltopError as error:
            return error
        except OSError as error:
            return Unreadable(error.strerror or str(error), path=target)

    seconds = seconds_watched(args) or 0.0
    found = run_each(targets, call, PATIENCE + seconds, at_once=bool(seconds))
    return [one or DoesNotAnswer("looking at it", PATIENCE, path=target) for target, one in zip(targets, found, strict=True)]


def watched(args: Arguments, path: str, *, progress: bool = False) -> Snapshot:
    """Looks once and returns the snapshot; with ``--watch``, watches for that long and returns the last snapshot. ``progress``:
    the terminal says how long it has been waiting."""
    seconds = seconds_watched(args)
    what = "looking" if seconds is None else f"watching for {args.watch}"
    with args.control(path, watch=seconds is not None, owners=False) as control:
        with while_waiting(args.terminal, what, control.current_step) if progress else nullcontext():
            return control.look() if seconds is None else control.watch(seconds)


def seconds_watched(args: Arguments) -> float | None:
    """Returns the seconds of ``--watch``, None without it. Raises ``UsageError``."""
    seconds = None if args.watch is None else parse_age(args.watch)
    if seconds is not None and not 0 < seconds <= _LONGEST:
        raise UsageError(f"--watch {args.watch!r} is not between 1s and 365d", "as in --watch 40s")
    return seconds
