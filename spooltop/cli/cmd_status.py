"""The status of a spool, as text or JSON."""

from __future__ import annotations

import argparse

from spooltop.errors import UsageError
from spooltop.model.snapshot import Snapshot
from spooltop.model.units import parse_age

from . import render_text
from .context import Context, here_or

__all__ = ["report", "status", "watched"]

_LONGEST = 365 * 86400.0


def status(args: argparse.Namespace, context: Context) -> int:
    return report(args, context, here_or(args.path, args.as_kind == "spool", args.cursor_file))


def report(args: argparse.Namespace, context: Context, path: str) -> int:
    """Prints the status of ``path``. ``spooltop PATH`` prints the same if no dashboard can be opened."""
    snapshot = watched(args, context, path)
    if args.json:
        from . import render_json

        context.terminal.out(render_json.dumps(render_json.status(snapshot, path)))
    else:
        for line in render_text.status(snapshot, path):
            context.terminal.out(line)
    return 0


def watched(args: argparse.Namespace, context: Context, path: str) -> Snapshot:
    """Looks once and returns the snapshot; with ``--watch``, watches for that long and returns the last snapshot."""
    given = getattr(args, "watch", None)
    seconds = 0.0 if given is None else parse_age(given)
    if given is not None and not 0 < seconds <= _LONGEST:
        raise UsageError(f"--watch {given!r} is not between 1s and 365d", advice="as in --watch 40s")
    with context.control(args, path, watch=given is not None, owners=False) as control:
        return control.look() if given is None else control.watch(seconds)
