"""``doctor``: can this place keep the promises? Looks, judges, and gives for each finding what to do.

Without ``write`` it changes nothing. What cannot be known from here, it says: nothing is ``ok`` that was only assumed, unless its
text says so.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from spooltop.errors import Refused
from spooltop.model.look.capacity import Disk
from spooltop.model.target import has_scheme

from .diagnosis import Diagnosis, Examined, FillRate, Health
from .host_checks import host_checks
from .spool_checks import spool_checks
from .storage_checks import storage_checks

if TYPE_CHECKING:
    from spooltop.control import Control

__all__ = ["diagnose", "examined", "exit_code"]

_CODES = {Health.OK: 0, Health.WARNING: 1, Health.PROBLEM: 2}


def examined(control: Control, *, write: bool, watch: float = 0.0, demos: Sequence[str] = ()) -> Examined:
    """Looks at the target, for ``watch`` seconds if that is not 0, and collects the facts. With ``write`` it tries what can only
    be tried. Raises ``Refused`` for ``write`` on a target that is read-only."""
    from spooltop.backends.directory.facts.collect import collect

    if has_scheme(control.target):
        advice = "spooltop check looks at what holds for every queue"
        raise Refused("doctor: examines the host and the file system of a directory", path=control.target, advice=advice)
    path = os.path.abspath(control.target if os.path.isdir(control.target) else os.path.dirname(control.target) or ".")
    first = last = control.look()
    if write and (why := control.why_read_only):
        raise Refused(f"doctor --write: {why}", path=control.target)
    filling = None
    if watch:
        last = control.watch(watch)
        before, after = first.observation.disk or Disk(), last.observation.disk or Disk()
        filling = FillRate(
            last.taken_at - first.taken_at, _used(before.bytes_free, after.bytes_free),
            _used(before.inodes_free, after.inodes_free),
        )  # fmt: skip
    return Examined(collect(path, control.layout, write=write), last, filling, tuple(demos))


def _used(before: int | None, after: int | None) -> int | None:
    return None if before is None or after is None else before - after


def diagnose(seen: Examined) -> list[Diagnosis]:
    """Returns the result of each check, in their order."""
    return [*storage_checks(seen), *host_checks(seen), *spool_checks(seen)]


def exit_code(found: Iterable[Diagnosis]) -> int:
    """0 if all is well, 1 with warnings, 2 with problems."""
    return max((_CODES[one.health] for one in found), default=0)
