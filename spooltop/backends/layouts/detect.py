"""Tells which layout a directory has, by its names alone. Reads few of them, however many there are."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable

from .definition.layout import Layout, Sign
from .inside import status, walk

__all__ = ["first_layout", "has_layout", "open_root", "why_not"]

_SAMPLE = 4096
"""Maximum number of names that are read to find one that fits."""


def has_layout(layout: Layout, root: int) -> bool:
    """True where the directory ``root`` (a descriptor) has all signs of the layout. Raises ``OSError``."""
    return why_not(layout, root) is None


def why_not(layout: Layout, root: int) -> str | None:
    """Says what the directory ``root`` lacks; None where it has the layout. Raises ``OSError`` where it cannot be read."""
    for sign in layout.detect:
        if not sign.optional and not _has(sign, root):
            return f"there is no {sign.template.text} in it (detect)"
    needs = layout.needs_any
    if not needs or any(
        template.directory == entry.directory and template.match(entry.path) is not None
        for template in needs
        for entry in walk(root, template.depth + 1, _SAMPLE)
    ):
        return None
    return f"there is no {' or '.join(template.text for template in needs)} in it (needs_any)"


def _has(sign: Sign, root: int) -> bool:
    template = sign.template
    if not template.types and "*" not in template.text:
        try:
            mode = status(root, template.text).st_mode
        except OSError:
            return False
        return stat.S_ISDIR(mode) or not template.directory
    entries = walk(root, template.depth + 1, _SAMPLE)
    return any(template.match(entry.path) is not None and (entry.directory or not template.directory) for entry in entries)


def open_root(path: str) -> int:
    """Opens the directory of a queue; links are followed, since a person named it. Raises ``OSError``."""
    try:
        return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NONBLOCK)
    except ValueError as error:  # a NUL byte
        raise FileNotFoundError(errno.ENOENT, str(error), path) from error


def first_layout(layouts: Iterable[Layout], root: int) -> Layout | None:
    """The first of ``layouts`` that the directory has."""
    return next((layout for layout in layouts if has_layout(layout, root)), None)
