"""``check``: a plugin for Nagios and what calls its plugins (Icinga, Naemon, Sensu, Zabbix)."""

from __future__ import annotations

import math
import time
from argparse import Namespace

from msgspec.structs import replace

from spooltop.errors import SpooltopError, UsageError
from spooltop.model.units import parse_age
from spooltop.monitor.plugin import Condition, Finding, State, condition, finding, kept_values, report, unknown
from spooltop.run_each import run_each

from ..context import Context, targets_of
from .status import watched

_LEAST = 0.5
"""Seconds that the looks have at least, however long it took to find the targets."""


def check(args: Namespace, context: Context) -> int:
    """Looks at all targets at once, each in a thread of its own: one that hangs is UNKNOWN after ``-t`` seconds, the others are
    judged all the same."""
    given = ((State.WARNING, args.warning), (State.CRITICAL, args.critical))
    conditions = [condition(text, state) for state, texts in given for text in texts or ()]
    kept = None if args.perfdata is None else kept_values(args.perfdata)
    if not 0 < args.timeout < math.inf:
        raise UsageError(f"-t {args.timeout:g} is no time", advice="as in -t 10")
    end = time.monotonic() + args.timeout + (parse_age(args.watch) if args.watch else 0.0)
    targets = targets_of(args, context)
    looking = replace(context, patience=math.inf)  # all of them are left behind together, at the end
    patience = max(end - time.monotonic(), _LEAST)
    found = run_each(targets, lambda target: _finding(args, looking, target, conditions), patience, at_once=True)
    late = unknown(f"no answer within {args.timeout:g}s")
    lines, code = report([(target, one or late) for target, one in zip(targets, found, strict=True)], conditions, kept)
    context.terminal.out_each(lines)
    return code


def failed(text: str) -> tuple[str, int]:
    """The line and the exit code of a check that could not be made."""
    lines, code = report([("", unknown(text))])
    return lines[0], code


def _finding(args: Namespace, context: Context, target: str, conditions: list[Condition]) -> Finding:
    """Looks at one target. What cannot be looked at is UNKNOWN, and so is a defect: a traceback would go to stderr."""
    try:
        return finding(watched(args, context, target), conditions)
    except SpooltopError as error:
        return unknown(str(error))
    except OSError as error:
        return unknown(error.strerror or str(error))
    except Exception as error:  # noqa: BLE001  as the docstring says
        return unknown(f"{type(error).__name__}: {error}; this is a defect: SPOOLTOP_DEBUG=1 with status shows where")
