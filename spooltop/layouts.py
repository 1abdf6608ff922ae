"""Layouts of other programs' queues, for front ends: which there are, and what one makes of a directory."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping

from spooltop.records import dataclass

from .backends.directory.liveness.processes import Processes
from .backends.directory.surroundings import LocalSurroundings
from .backends.layouts.conditions import Conditions
from .backends.layouts.definition.layout import Layout
from .backends.layouts.definition.library import SHIPPED, LayoutFile, layout_files, read_layout
from .backends.layouts.detect import open_root, why_not
from .backends.layouts.inside import MOST
from .backends.layouts.sort_files import fact_of, sort_files
from .errors import NotASpool, Unreadable

__all__ = ["KnownLayout", "SortedFile", "form_text", "known_layouts", "layout_text", "try_layout"]

_FORM = os.path.join(os.path.dirname(SHIPPED), "form.toml")


@dataclass(frozen=True, slots=True)
class KnownLayout:
    """A layout file. ``name`` is empty where ``error`` says why it is not used; ``ships``: it comes with spooltop; ``shadowed``:
    a layout of this name was found before. ``boxes`` are those that it puts files into."""

    path: str
    name: str
    ships: bool
    shadowed: bool = False
    boxes: tuple[str, ...] = ()
    error: str = ""


@dataclass(frozen=True, slots=True)
class SortedFile:
    """A file and the box that a layout puts it into. ``rule`` is the path of the match; of a file in no box (``box`` empty) it
    says what else the file is, or that nothing matches it. ``facts`` are times (epoch seconds), numbers and texts by name."""

    path: str
    box: str
    id: str
    rule: str
    facts: Mapping[str, float | int | str]


def known_layouts(environ: Mapping[str, str], uid: int | None = None) -> list[KnownLayout]:
    """Lists every layout file that the user ``uid`` (None: who runs this) has, those that count first: the user's own, the
    machine's, those that ship."""
    seen: set[str] = set()
    return [_known(file, seen) for file in layout_files(environ, uid)]


def _known(file: LayoutFile, seen: set[str]) -> KnownLayout:
    ships = os.path.dirname(file.path) == SHIPPED
    if file.layout is None:
        return KnownLayout(file.path, "", ships, error=str(file.error))
    name = file.layout.name
    shadowed = name in seen
    seen.add(name)
    return KnownLayout(file.path, name, ships, shadowed, tuple(dict.fromkeys(one.box for one in file.layout.matches)))


def form_text() -> str:
    """The form of a layout: one with every key, and comments."""
    with open(_FORM, encoding="utf-8") as file:
        return file.read()


def layout_text(name: str, environ: Mapping[str, str]) -> str:
    """The text of the file of a known layout. Raises ``UsageError`` for a layout that is not known or not valid."""
    with open(_layout(name, environ).file, encoding="utf-8") as file:
        return file.read()


def try_layout(file: str, path: str, environ: Mapping[str, str], most: int = MOST) -> Iterator[SortedFile]:
    """Yields what the layout in ``file`` (or the known layout of that name) makes of each file below ``path``, at most ``most``
    names. Raises ``UsageError`` for a layout that is not valid, ``NotASpool`` for a directory without its signs,
    ``Unreadable``."""
    layout = _layout(file, environ)
    try:
        root = open_root(path)
    except OSError as error:
        raise _unreadable(path, error) from None
    try:
        if why := why_not(layout, root):
            raise NotASpool(f"not a {layout.name}: {why}", path=path, advice="name its top directory, or mend the layout")
        around = LocalSurroundings(Processes())
        for found in sort_files(layout, root, most, Conditions(root, lambda: around.locks(root)))[0]:
            if found.match is None:
                yield SortedFile(found.path, "", "", found.role or "nothing matches it", {})
                continue
            facts = {name: value for name, fact in found.match.facts.items() if (value := fact_of(fact, root, found)) is not None}
            yield SortedFile(found.path, found.match.box, found.id, found.match.template.text, facts)
    except OSError as error:
        raise _unreadable(path, error) from None
    finally:
        os.close(root)


def _layout(file: str, environ: Mapping[str, str]) -> Layout:
    if "/" not in file and not os.path.lexists(file):
        for one in layout_files(environ):
            if one.layout is not None and file in (one.layout.name, os.path.basename(one.path).removesuffix(".toml")):
                return one.layout
    return read_layout(file)


def _unreadable(path: str, error: OSError) -> Unreadable:
    advice = "name a directory" if error.errno in (errno.ENOENT, errno.ENOTDIR) else "try it as its owner"
    return Unreadable(os.strerror(error.errno or 0), path=path, advice=advice)
