"""Backends, each loaded when a target looks like it: by the scheme of a URL, else by asking those of paths in their order.

This module alone names them all, and hands to each what it needs of another.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache, partial
from typing import TYPE_CHECKING

from spooltop.model import Backend, Clock, Environ, LockSource, NotASpool, OpenAs, Target, has_scheme, without_secrets

if TYPE_CHECKING:
    from .surroundings import Surroundings


@cache
def _directory() -> Backend:
    from .directory.backend import DirectoryBackend

    return DirectoryBackend()


@cache
def _layouts(*, named: bool = False) -> Backend:
    from .layouts.backend import LayoutsBackend

    return LayoutsBackend(_surroundings, named=named)


def _surroundings(pids: str) -> Surroundings:
    """Answers of this machine about processes. ``pids`` is the setting ``claims.pids``."""
    from .directory.processes import Processes, check_pids
    from .directory.surroundings import LocalSurroundings

    return LocalSurroundings(Processes(), pids_here=check_pids(pids))


@cache
def _redis() -> Backend:
    from .redis.backend import RedisBackend

    return RedisBackend(_surroundings)


_BY_SCHEME: Mapping[str, Callable[[], Backend]] = dict.fromkeys(("redis", "rediss", "valkey", "valkeys", "unix"), _redis)
"""Backends of URLs: scheme → function that loads the backend."""
_OF_PATHS: tuple[Callable[[], Backend], ...] = (_directory, _layouts)
"""Backends of paths, in the order in which they are asked. For a path of none the hint of the last one that has one is shown."""
_KEPT = ".spooltop/layout"
"""File that names the layout of the directory, as ``layouts.kept_name`` writes it."""
_further: list[Backend] = []
_concealed: dict[str, str] = {}
"""URLs with a secret, by their names without."""


def register(backend: Backend) -> None:
    """Adds a backend of this process. It is asked before all others, the last one first."""
    _further.insert(0, backend)


def unregister(backend: Backend) -> None:
    _further.remove(backend)


def conceal(spec: str) -> str:
    """Returns ``spec`` without secrets. Whoever opens that name in this process opens ``spec``: so front ends hold, show and
    pass on no secret."""
    shown = without_secrets(spec)
    if shown != spec:
        _concealed[shown] = spec
    return shown


def expand(spec: str, environ: Environ) -> tuple[str, ...]:
    """Returns the names, without secrets, of the targets that a URL stands for: a stream with several groups, or a pattern,
    stands for all of them. Raises ``NotASpool`` where there is none, and ``Unavailable`` where that cannot be known now."""
    full = _concealed.get(spec, spec)
    if full.partition("://")[0] not in _BY_SCHEME:
        return (spec,)
    from .redis.backend import find_targets

    return tuple(map(conceal, find_targets(full, environ)))


def identify(spec: str, asked: OpenAs) -> tuple[Backend, Target]:
    """Finds the backend that ``spec`` belongs to, and the target that it identifies. Any directory may be one of lock files, so
    that is tried last. Raises ``NotASpool`` with the hint that fits, ``Unreadable``, ``UsageError``."""
    spec = _concealed.get(spec, spec)
    if asked.locks:
        with suppress(NotASpool):
            return _identify(spec, asked.replace(locks=False))
    return _identify(spec, asked)


def _identify(spec: str, asked: OpenAs) -> tuple[Backend, Target]:
    for backend in _further:
        if (target := backend.identify(spec, asked)) is not None:
            return backend, target
    by_scheme = _BY_SCHEME.get(spec.partition("://")[0]) if has_scheme(spec) else None
    hint: NotASpool | None = None
    if has_scheme(spec) and by_scheme is None and not os.path.lexists(spec):
        schemes = ", ".join(f"{scheme}://" for scheme in _BY_SCHEME)
        raise NotASpool("no queue is reached by such a URL", f"there are {schemes}, and paths", path=without_secrets(spec))
    for load in (*_named_first(spec, asked), *_OF_PATHS) if by_scheme is None else (by_scheme,):
        backend = load()
        try:
            target = backend.identify(spec, asked)
        except NotASpool as error:
            hint = error
            continue
        if target is not None:
            return backend, target
    raise hint or NotASpool("no kind of queue that is known", "name a directory, or the URL of a server", path=spec)


def _named_first(spec: str, asked: OpenAs) -> tuple[Callable[[], Backend], ...]:
    """The backend to ask before all others for a directory whose layout is named: it may look like a spool as well."""
    named = asked.as_kind != "spool" if asked.as_kind else os.path.lexists(os.path.join(spec, _KEPT))
    return (partial(_layouts, named=True),) if named else ()


def is_queue(path: str, environ: Environ) -> bool:
    """True for a directory that is a queue of another program, by its names alone."""
    from .layouts.backend import layout_of

    return layout_of(path, environ) is not None


def lock_source(url: str, clock: Clock) -> LockSource:
    """Opens the ticket queues of the server ``url``. Raises ``UsageError`` for an invalid URL."""
    from .redis.tickets import RedisTickets

    return RedisTickets(url, clock=clock)
