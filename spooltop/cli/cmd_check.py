"""``check``: a plugin for Nagios and what calls its plugins (Icinga, Naemon, Sensu, Zabbix)."""

from __future__ import annotations

import argparse
import math
import threading
import time

from ..errors import SpooltopError, UsageError
from ..model.units import parse_age
from ..monitor.plugin import Condition, Finding, State, condition, finding, report, unknown
from .cmd_status import watched
from .context import Context, targets_of

__all__ = ["check", "failed"]


def check(args: argparse.Namespace, context: Context) -> int:
    """Looks at all targets at once, each in a thread of its own: one that hangs is UNKNOWN after ``-t`` seconds, the others are
    judged all the same."""
    conditions = [condition(text, state) for state, texts in _given(args) for text in texts]
    targets = targets_of(args, context)
    if not 0 < args.timeout < math.inf:
        raise UsageError(f"-t {args.timeout:g} is no time", advice="as in -t 10")
    looks = [_Look(args, context, target, conditions) for target in targets]
    for look in looks:
        look.start()
    end = time.monotonic() + args.timeout + (parse_age(args.watch) if args.watch else 0.0)
    for look in looks:
        look.join(max(0.0, end - time.monotonic()))
    late = unknown(f"no answer within {args.timeout:g}s")
    lines, code = report([(look.target, look.found or late) for look in looks], conditions)
    for line in lines:
        context.terminal.out(line)
    return code


def failed(text: str) -> tuple[str, int]:
    """The line and the exit code of a check that could not be made."""
    lines, code = report([("", unknown(text))])
    return lines[0], code


class _Look(threading.Thread):
    """Looks at one target. A thread that hangs in a system call does not keep the process."""

    def __init__(self, args: argparse.Namespace, context: Context, target: str, conditions: list[Condition]) -> None:
        super().__init__(daemon=True)
        self.target = target
        self.found: Finding | None = None
        self._args = args
        self._context = context
        self._conditions = conditions

    def run(self) -> None:
        try:
            self.found = finding(watched(self._args, self._context, self.target), self._conditions)
        except SpooltopError as error:
            self.found = unknown(str(error))
        except OSError as error:
            self.found = unknown(error.strerror or str(error))
        except Exception as error:  # noqa: BLE001  in a thread, a traceback would go to stderr and the state would be lost
            self.found = unknown(f"{type(error).__name__}: {error}; this is a defect: SPOOLTOP_DEBUG=1 with status shows where")


def _given(args: argparse.Namespace) -> list[tuple[State, list[str]]]:
    return [(State.WARNING, args.warning or []), (State.CRITICAL, args.critical or [])]
