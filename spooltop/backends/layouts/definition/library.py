"""The files of layouts: those that ship with spooltop, the machine's, and the user's.

A layout says which files an operator moves and removes. For root, a file that is not root's own, or that others may write, is
therefore not read, and the folder in a home directory not at all. The same holds for a folder: whoever may write it
chooses which of root's files are layouts.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import cache

from spooltop.engine.system.files import read_small, why_mistrusted
from spooltop.errors import SpooltopError, UsageError
from spooltop.model.text import escape
from spooltop.records import dataclass

from .layout import Layout
from .load import parse_layout

__all__ = ["SHIPPED", "LayoutFile", "find_layout", "folders", "layout_files", "read_layout"]

SHIPPED = os.path.join(os.path.dirname(os.path.dirname(__file__)), "shipped")
MACHINE = "/etc/spooltop/layouts"
_LIMIT = 256 * 1024


@dataclass(frozen=True, slots=True)
class LayoutFile:
    """A file of a layout: the layout, or the error that says why it is not used."""

    path: str
    layout: Layout | None
    error: SpooltopError | None = None


def folders(environ: Mapping[str, str], uid: int | None = None) -> tuple[str, ...]:
    """The folders of layouts, the first one wins: the user's (not for root), the machine's, those that ship."""
    uid = os.geteuid() if uid is None else uid
    home = environ.get("XDG_CONFIG_HOME") or (os.path.join(environ["HOME"], ".config") if environ.get("HOME") else "")
    own = (os.path.join(home, "spooltop", "layouts"),) if home and uid else ()
    return (*own, MACHINE, SHIPPED)


def read_layout(path: str, uid: int | None = None) -> Layout:
    """Reads one layout. Raises ``UsageError`` for a file that is not valid or not trusted."""
    try:
        found = read_small(path, limit=_LIMIT, whole=True, follow=True)
    except OSError as error:
        why = os.strerror(error.errno or 0)
        raise UsageError(f"{escape(path)}: cannot be read: {why}", advice="name a layout file, or a layout") from None
    try:
        text = found.data.decode()
    except UnicodeDecodeError as error:
        line = found.data[: error.start].count(b"\n") + 1
        raise UsageError(f"{escape(path)}: line {line}: not UTF-8", advice="store it as UTF-8") from None
    why = "" if os.path.dirname(path) == SHIPPED else why_mistrusted(found.status, os.geteuid() if uid is None else uid)
    if why:  # a file that ships is trusted as the program is
        raise UsageError(f"{escape(path)}: {why}", advice="chown it to yourself and chmod go-w, if you trust it")
    return parse_layout(path, text)


@cache
def _shipped(path: str) -> Layout:
    """A layout that ships, read once: it stays as it is while this runs."""
    return read_layout(path)


def layout_files(environ: Mapping[str, str], uid: int | None = None) -> Iterator[LayoutFile]:
    """Yields every layout file of all folders, those of the first folder first, each folder by name."""
    for folder in folders(environ, uid):
        try:
            names, found = sorted(os.listdir(folder)), os.stat(folder)
        except OSError:
            continue  # most users and machines have none
        why = "" if folder == SHIPPED else why_mistrusted(found, os.geteuid() if uid is None else uid)
        if why and names:
            advice = "chown it to yourself and chmod go-w, if you trust what is in it"
            yield LayoutFile(folder, None, UsageError(f"{escape(folder)}: {why}", advice=advice))
            continue
        for name in names:
            if not name.endswith(".toml") or name.startswith("."):
                continue
            path = os.path.join(folder, name)
            try:
                yield LayoutFile(path, _shipped(path) if folder == SHIPPED else read_layout(path, uid))
            except SpooltopError as error:
                yield LayoutFile(path, None, error)


def find_layout(name: str, environ: Mapping[str, str]) -> Layout | None:
    """Returns the first layout with this name, or in a file of this name without ``.toml``; None where there is none. Raises the
    error of a file of this name that is not valid."""
    for one in layout_files(environ):
        stem = os.path.basename(one.path).removesuffix(".toml")
        if one.layout is not None and name in (one.layout.name, stem):
            return one.layout
        if one.error is not None and name == stem:
            raise one.error
    return None
