"""Finds the targets that the words of a user name: paths, globs, and directories that hold several spools."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import NamedTuple

from spooltop.errors import SpooltopError, Unreadable
from spooltop.run_each import run_each

from .detect import identify
from .hints import spool_of_box
from .scan.peek import is_spool_at

__all__ = ["find_targets"]

_PATIENCE = 1.0
"""Seconds within which a path answers. One that does not is a target: whoever looks at it says that it does not answer."""

_ASKED = 100
"""Maximum number of directories in one that are asked for another kind of queue: each is looked into."""


class _Seen(NamedTuple):
    """A path: whether it can be opened, as far as this user can know, its real path, and the spools in it."""

    opens: bool
    real: str
    inside: tuple[str, ...] = ()


def find_targets(
    words: Iterable[str], identify: Callable[[str], object] = identify, is_queue: Callable[[str], bool] | None = None
) -> list[str]:
    """Returns the targets that ``words`` name, each once, in their order. ``identify`` raises ``SpooltopError`` for a path that
    is no target; ``is_queue`` says of a directory that is no spool whether it is a queue of another kind.

    A directory that is no target itself stands for the spools and queues directly in it. A glob stands for all that it matches
    and that can be opened, or that this user may not look into. Every other word is a target, so that whoever opens it hears what
    is wrong with it; so is a glob that matches nothing. A URL stays as it is. Creates nothing.
    """
    matched: list[tuple[str, bool]] = []
    expanded = [os.path.expanduser(word) for word in words]
    for word, found in zip(expanded, run_each(expanded, _matches, _PATIENCE), strict=True):
        matched += [(path, True) for path in found or ()] or [(word, False)]
    look = partial(_look, identify=identify, is_queue=is_queue)
    seen = run_each([path for path, _ in matched], look, _PATIENCE)
    targets: dict[str, str] = {}
    for (path, by_glob), one in zip(matched, seen, strict=True):
        one = one or _Seen(True, os.path.abspath(path))
        if one.inside:
            for name in one.inside:
                targets.setdefault(os.path.join(one.real, name), os.path.join(path, name))
        elif one.opens or not by_glob:
            targets.setdefault(one.real, path)
    return list(targets.values())


def _matches(word: str) -> Sequence[str]:
    """Returns the paths that match a glob; none for any other word."""
    if "://" in word or not glob.has_magic(word) or os.path.lexists(word):
        return ()
    return sorted(glob.glob(word))  # noqa: PTH207  words are text, and stay as they were typed


def _look(path: str, identify: Callable[[str], object], is_queue: Callable[[str], bool] | None) -> _Seen:
    if "://" in path:
        return _Seen(True, path)
    real = os.path.realpath(path)
    if is_spool_at(path):
        return _Seen(True, real)  # by a tenth of what it takes to identify it
    try:
        identify(path)
    except Unreadable:
        return _Seen(True, real)
    except SpooltopError:
        return _Seen(False, real, tuple(_queues_in(path, is_queue)))
    return _Seen(True, real)


def _queues_in(path: str, is_queue: Callable[[str], bool] | None) -> Sequence[str]:
    """Returns the names of the spools and other queues directly in the directory ``path``; links are not followed."""
    if spool_of_box(os.path.abspath(path)) is not None:
        return ()
    try:
        with os.scandir(path) as entries:
            names = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError:
        return ()
    spools = {name for name in names if is_spool_at(os.path.join(path, name), follow=False)}
    others = [name for name in names if is_queue and name not in spools and not name.startswith(".")][:_ASKED]
    queues = {name for name in others if is_queue is not None and is_queue(os.path.join(path, name))}
    return [name for name in names if name in spools or name in queues]

