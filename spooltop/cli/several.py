"""Opens several targets for the Spools view."""

from __future__ import annotations

import resource
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from spooltop.control import Control
from spooltop.monitor.spools_watch import SpoolsWatch
from spooltop.targets import count_boxes

from .context import Context, targets_of

__all__ = ["spools_watch"]

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
