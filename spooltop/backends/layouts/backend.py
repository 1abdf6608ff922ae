"""Backend of other programs' directories, those that a layout describes."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import cast

from msgspec import Struct

from spooltop.model import Environ, NotASpool, Queue, QueueOptions, Refused, Target, UsageError, escape
from spooltop.model.backend import OpenAs, OpenedOperator, OpenedTarget, OpenSettings

from ..access import quoted
from ..surroundings import Surroundings
from .definition import Layout

_LEVELS = 3
"""Directories above a path of which it may be a part."""


class LayoutsBackend(Struct):
    """Implements ``model.backend.Backend``. ``around`` makes what answers questions about processes, for a setting
    ``claims.pids``. ``named``: it only knows directories whose layout is named, by whoever opens them or in themselves."""

    name = "layouts"
    _around: Callable[[str], Surroundings]
    named: bool = False

    def identify(self, spec: str, asked: OpenAs) -> Target | None:
        layout = _named_layout(spec, asked) if self.named else layout_of(spec, asked.environ)
        if layout is None:
            if not self.named:
                _check_above(spec, asked.environ)
            return None
        return Target("layout", spec, os.path.realpath(spec), layout, layout.why_read_only or None, commands=layout.commands)

    def open(self, target: Target, settings: OpenSettings) -> OpenedTarget:
        from .reader import LayoutReader

        path, layout, around = target.display_name, cast("Layout", target.where), self._around(settings.pids)
        reader = LayoutReader(path, layout, around, clock=settings.clock, read_only=settings.read_only)

        def operator() -> OpenedOperator:
            from .operator.operator import LayoutOperator

            flags = ("--as", layout.name) if settings.asked.as_kind else ()
            operator = LayoutOperator(path, layout, around, clock=settings.clock, read_only=settings.read_only)
            return OpenedOperator(operator, flags, keeps_trash=True)

        return OpenedTarget(reader, operator)

    def queue(self, target: Target, options: QueueOptions) -> Queue:
        layout = cast("Layout", target.where)
        advice = f"use {layout.name} itself for that"
        raise Refused(f"{options.action}: not a spool ({layout.name})", advice, path=target.display_name)


def _check_above(path: str, environ: Environ) -> None:
    """Raises ``NotASpool`` for a directory that is a part of a queue, with the queue's own path."""
    if not os.path.isdir(path):
        return
    above = os.path.abspath(path)
    for _ in range(_LEVELS):
        above = os.path.dirname(above)
        if (layout := layout_of(above, environ)) is not None:
            raise NotASpool(f"only a part of a queue ({layout.name})", f"open the queue: spooltop {quoted(above)}", path=path)


def _named_layout(path: str, asked: OpenAs) -> Layout | None:
    """Returns the layout that ``asked`` names, else the one that the directory ``path`` itself does; None where none is named, or
    there is no such directory. Raises ``UsageError`` for a name of no layout."""
    from .load import find_layout

    if not asked.as_kind:
        return layout_of(path, asked.environ, kept=True)
    layout = find_layout(asked.as_kind, asked.environ)
    if layout is None:
        what = f"no layout is called {escape(asked.as_kind)}"
        raise UsageError(what, "spooltop layouts lists them; spool is a job spool")
    return layout if os.path.isdir(path) else None


def layout_of(path: str, environ: Environ, *, kept: bool = False) -> Layout | None:
    """Returns the layout whose name is kept beside the directory ``path``, else the first known one that it has; None for a
    directory that has none or cannot be read. ``kept``: only the one whose name is kept, by its owner, root or this user."""
    from .load import layout_files
    from .queue_dirs import kept_layout
    from .sort_files import open_root, why_not

    try:
        root = open_root(path)
    except OSError:
        return None
    try:
        layouts = [file.layout for file in layout_files(environ) if file.layout is not None]
        # Before it is asked whether it is a spool, somebody else's word must not hide that it is one.
        found = kept_layout(path, layouts, by_owner=kept)
        if found is not None or kept:
            return found
        return next((layout for layout in layouts if why_not(layout, root) is None), None)
    except OSError:
        return None
    finally:
        os.close(root)
