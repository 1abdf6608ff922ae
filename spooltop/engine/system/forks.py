"""Forks: what a process holds stays its own, and its children begin anew."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from typing import TypeVar

from spooltop.errors import ClaimLost

__all__ = ["is_its_child", "iterated_by", "tell_in_children"]

_T = TypeVar("_T")
_told: weakref.WeakKeyDictionary[object, Callable[[object], None]] = weakref.WeakKeyDictionary()


def tell_in_children(thing: _T, forked: Callable[[_T], None]) -> None:
    """Has ``forked(thing)`` called in each forked child, as long as ``thing`` exists. It forgets what the parent holds, and
    renews locks that a thread of the parent may have held."""
    _told[thing] = forked  # type: ignore[assignment]  # it is called with this object only


def is_its_child(done: str, pid: int | None) -> str:
    """Says why a child may not go on with what its parent did.

    >>> is_its_child("claimed", 4312)
    'claimed by pid 4312; this is its child'
    """
    return f"{done} by pid {pid}; this is its child"


def iterated_by(pid: int, path: str) -> ClaimLost:
    """Builds the error for an iteration over claims that the process ``pid`` began and a child goes on with: the child would be
    a consumer that nobody started."""
    what = f"the claims are {is_its_child('iterated', pid)}"
    return ClaimLost(what, path=path, advice="leave the loop; a child claims by calls of its own")


def _in_child() -> None:
    for thing, forked in list(_told.items()):
        forked(thing)


os.register_at_fork(after_in_child=_in_child)
