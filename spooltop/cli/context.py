"""Arguments of a command, and its environment: the streams, and the functions that open a target and the dashboard."""

from __future__ import annotations

import math
import os
from argparse import Namespace
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from spooltop.errors import SpooltopError, Unavailable, UsageError

from .terminal import Terminal, while_waiting

if TYPE_CHECKING:
    from spooltop.control import Control
    from spooltop.model.snapshot import Snapshot
    from spooltop.monitor.spools_watch import SpoolsWatch

R = TypeVar("R")

DONE, SOME, REFUSED, NOTHING_MATCHED, INTERRUPTED = 0, 1, 3, 4, 130
"""Exit codes of commands that choose messages."""
PATIENCE = 10.0
"""Seconds after which a file system is said not to answer: a disk that slept has spun up by then."""
_FIRST = 1.0
"""Seconds within which a path tells whether it is a target. One that does not is a target: whoever opens it says that it does not
answer."""

Opener = Callable[..., "Control"]
Dashboard = Callable[["Control | SpoolsWatch", Namespace], int]
"""Opens the dashboard on a control, or the Spools view on several targets. The options are ``read_only``, ``ascii``, ``theme``
(None, light, dark) and ``banner`` (the last line of the demo, else absent)."""


def answered(snapshot: Snapshot, path: str) -> Snapshot:
    """Returns the snapshot. Raises ``Unavailable`` for that of a server that has not answered at all."""
    watch = snapshot.observation.watch
    if watch.away and watch.seen_at is None:
        raise Unavailable(watch.reason, path=path, advice=watch.advice)
    return snapshot


def _open_control(path: str, **options: Any) -> Control:
    from spooltop.control import open_control

    return open_control(path, **options)


class Arguments(Namespace):
    """Arguments of a command, as ``Parser`` reads them, and its environment. ``open`` takes the arguments of
    ``control.open_control``."""

    path: Any
    terminal: Terminal
    dashboard: Dashboard
    open: Opener = staticmethod(_open_control)
    patience: float = PATIENCE
    """Seconds after which a file system that a command reads does not answer."""

    def patient(self, seconds: float) -> Arguments:
        """Returns the same with another patience."""
        return Arguments(**{**vars(self), "patience": seconds})

    def control(self, path: str | None = None, *, watch: bool = False, owners: bool = True) -> Control:
        """Opens the target of a command that looks or changes once, by default its path (``here_or``). With ``watch``, it also
        receives the changes that happen meanwhile; ``owners`` as in ``control.open_control``."""
        if path is None:
            path = self.path = here_or(self)
        with while_waiting(self.terminal, "opening"):
            return self.open(path, watch=watch, owners=owners, patience=self.patience, **watching(self))

    def reach(self, path: str, call: Callable[[], R]) -> R:
        """Returns the result of ``call``, the first one that touches ``path``. Raises ``DoesNotAnswer`` where that hangs."""
        from spooltop.model.target import has_scheme
        from spooltop.run_each import call_watched

        with while_waiting(self.terminal, "opening"):
            return call_watched(call, math.inf if has_scheme(path) else self.patience, path)


def watching(args: Arguments) -> dict[str, Any]:
    """Returns the options of ``control.open_control`` that the arguments of a command give."""
    names = ("read_only", "as_kind", "poll_logs", "cursor_files", "redis_tickets", "locks", "syslog")
    return {name: given for name in names if (given := getattr(args, name, None))}


def here_or(args: Arguments) -> str:
    """Returns the path of a command; without one, the current directory if it can be opened, else the directory of the first
    cursor file. Raises ``UsageError`` if there is none of these."""
    if args.path is not None:
        return str(args.path)
    from spooltop.run_each import run_each
    from spooltop.targets import identify_target

    def is_target(path: str) -> bool:
        try:
            identify_target(path, as_kind=args.as_kind)
        except SpooltopError:
            return False
        return True

    if run_each(["."], is_target, _FIRST) != [False]:
        return "."
    if args.cursor_files:
        return os.path.dirname(args.cursor_files[0]) or "."
    raise UsageError("no spool given, and the current directory is not one", advice="spooltop PATH, or spooltop -h")


def targets_of(args: Arguments, *, strict: bool = False) -> list[str]:
    """Returns the targets of a command that takes several, each once: those of its words, else those of the setting ``paths``,
    else as ``here_or``. ``strict`` as of ``targets.find_targets``."""
    named = args.paths or _named_in_settings(args)
    if not named:
        return [here_or(args)]
    if args.cursor_files:
        return list(dict.fromkeys(named))  # a cursor file makes a target of any directory
    from spooltop.run_each import run_each
    from spooltop.targets import find_targets, is_spool_at

    if len(named) == 1 and run_each(named, is_spool_at, _FIRST) != [False]:
        return [named[0]]
    return find_targets(named, args.as_kind, strict=strict)


def _named_in_settings(args: Arguments) -> tuple[str, ...]:
    from spooltop.settings import load

    named = load(args.terminal.environ).items("paths")
    if not any("://" in one for one in named):
        return named
    from spooltop.backends.registry import conceal

    return tuple(map(conceal, named))
