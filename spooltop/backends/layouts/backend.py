"""Backend of other programs' directories, those that a layout describes."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, cast

from spooltop.errors import NotASpool, Refused
from spooltop.model.backend import OpenedOperator, OpenedTarget
from spooltop.model.target import Target

from ..access import quoted

if TYPE_CHECKING:
    from spooltop.model.backend import OpenAs, OpenSettings
    from spooltop.model.queue import Queue, QueueOptions

    from ..surroundings import Surroundings
    from .definition.layout import Layout

__all__ = ["LayoutsBackend", "layout_of"]

_LEVELS = 3
"""Directories above a path of which it may be a part."""


class LayoutsBackend:
    """Implements ``model.backend.Backend``. ``around`` makes what answers questions about processes, for a setting
    ``claims.pids``."""

    name = "layouts"

    def __init__(self, around: Callable[[str], Surroundings]) -> None:
        self._around = around

    def identify(self, spec: str, asked: OpenAs) -> Target | None:
        layout = layout_of(spec, asked.environ)
        if layout is None:
            _check_above(spec, asked.environ)
            return None
        return Target("layout", spec, os.path.realpath(spec), layout, layout.why_read_only or None, commands=layout.commands)

    def open(self, target: Target, settings: OpenSettings) -> OpenedTarget:
        from .reader import LayoutReader

        path, layout, around = target.display_name, cast("Layout", target.where), self._around(settings.pids)
        reader = LayoutReader(path, layout, around, clock=settings.clock, read_only=settings.read_only)

        def operator() -> OpenedOperator:
            from .operator.operator import LayoutOperator

            return OpenedOperator(
                LayoutOperator(path, layout, around, clock=settings.clock, read_only=settings.read_only), keeps_trash=True
            )

        return OpenedTarget(reader, operator)

    def queue(self, target: Target, options: QueueOptions) -> Queue:
        layout = cast("Layout", target.where)
        advice = f"use {layout.name} itself for that"
        raise Refused(f"{options.action}: not a spool ({layout.name})", path=target.display_name, advice=advice)


def _check_above(path: str, environ: Mapping[str, str]) -> None:
    """Raises ``NotASpool`` for a directory that is a part of a queue, with the queue's own path."""
    if not os.path.isdir(path):
        return
    above = os.path.abspath(path)
    for _ in range(_LEVELS):
        above = os.path.dirname(above)
        if (layout := layout_of(above, environ)) is not None:
            advice = f"open the queue: spooltop {quoted(above)}"
            raise NotASpool(f"only a part of a queue ({layout.name})", path=path, advice=advice)


def layout_of(path: str, environ: Mapping[str, str]) -> Layout | None:
    """Returns the first known layout that the directory ``path`` has; None for a directory that has none or cannot be read."""
    from .definition.library import layout_files
    from .detect import first_layout, open_root

    try:
        root = open_root(path)
    except OSError:
        return None
    try:
        return first_layout((file.layout for file in layout_files(environ) if file.layout is not None), root)
    except OSError:
        return None
    finally:
        os.close(root)
