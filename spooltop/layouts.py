"""Layouts of other programs' queues, for front ends: which there are, and what one makes of a directory."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator, Mapping
from typing import Any

from spooltop.backends.directory.processes import Processes
from spooltop.backends.directory.surroundings import LocalSurroundings
from spooltop.backends.layouts.definition import Layout
from spooltop.backends.layouts.load import SHIPPED, find_layout, layout_files, read_layout
from spooltop.backends.layouts.reader import held_files, read_some, row_of
from spooltop.backends.layouts.sort_files import fact_of, open_root, role_of, sort_files, why_not
from spooltop.backends.layouts.verdicts import NOT_JUDGED, judge
from spooltop.model import Environ, Frozen, NotASpool, Row, Unreadable, escape

_FORM = os.path.join(os.path.dirname(SHIPPED), "form.toml")


class SortedFile(Frozen):
    """A file, and what a layout makes of it. ``rule`` is the path of the match; of a file in no box it says what else the file
    is, or that nothing matches it. ``facts`` are times (epoch seconds), numbers and texts by name. ``row`` is the message as
    every view shows it, with its box, age, holder and verdict; None for a file in no box."""

    path: str
    rule: str
    facts: Mapping[str, float | int | str] = {}
    row: Row | None = None

    @property
    def box(self) -> str:
        """The box, "" for a file in none."""
        return "" if self.row is None else self.row.box


def known_layouts(environ: Environ) -> list[dict[str, Any]]:
    """Lists every layout file that this user has, those that count first: the user's own, the machine's, those that ship. The
    objects of ``layouts --json``: ``name`` is null where ``error`` says why it is not used; ``ships``: it comes with spooltop;
    ``shadowed``: a layout of this name was found before. ``boxes`` are those that it puts files into; ``warnings`` say what its
    author may not have meant."""
    known: list[dict[str, Any]] = []
    for file in layout_files(environ):
        layout = file.layout
        name, matches, warnings = ("", (), ()) if layout is None else (layout.name, layout.matches, layout.warnings)
        known.append(
            {
                "name": name or None, "file": escape(file.path), "ships": os.path.dirname(file.path) == SHIPPED,
                "shadowed": bool(name) and any(one["name"] == name for one in known),
                "boxes": list(dict.fromkeys(one.box for one in matches)), "error": str(file.error or "") or None,
                "warnings": list(warnings),
            }
        )  # fmt: skip
    return known


def form_text() -> str:
    """The form of a layout: one with every key, and comments."""
    with open(_FORM, encoding="utf-8") as file:
        return file.read()


def layout_text(name: str, environ: Environ) -> str:
    """The text of the file of a known layout. Raises ``UsageError`` for a layout that is not known or not valid."""
    with open(_layout(name, environ).file, encoding="utf-8") as file:
        return file.read()


def layout_warnings(file: str, environ: Environ) -> tuple[str, ...]:
    """The warnings about the layout in ``file``, or the known one of that name. Raises ``UsageError`` for one that is not
    valid."""
    return _layout(file, environ).warnings


def try_layout(file: str, path: str, environ: Environ) -> Iterator[SortedFile]:
    """Yields what the layout in ``file`` (or the known layout of that name) makes of each file below ``path``, at most
    ``queue_dirs.MOST`` names. Raises ``UsageError`` for a layout that is not valid, ``NotASpool`` for a directory without its
    signs, ``Unreadable``."""
    layout = _layout(file, environ)
    try:
        root = open_root(path)
    except OSError as error:
        raise _unreadable(path, error) from None
    try:
        if why := why_not(layout, root):
            raise NotASpool(f"not a {layout.name}: {why}", "name its top directory, or mend the layout", path=path)
        around = LocalSurroundings(Processes())
        files = sort_files(layout, root, around)[0]
        messages = [file for file in files if file.match is not None]
        read_some(root, messages)
        verdicts = judge(layout, root, held_files(messages), around, time.time())
        rows = {file.path: row_of(file, judged=verdicts.get(file.path, NOT_JUDGED)) for file in messages}
        for found in files:
            if found.match is None:
                yield SortedFile(found.path, role_of(layout, found.path) or "nothing matches it")
                continue
            known = {name: fact_of(fact, root, found.path, found.fields) for name, fact in found.match.facts.items()}
            facts = {name: value for name, value in known.items() if value is not None}
            yield SortedFile(found.path, found.match.template.text, facts, rows[found.path])
    except OSError as error:
        raise _unreadable(path, error) from None
    finally:
        os.close(root)


def _layout(file: str, environ: Environ) -> Layout:
    if "/" not in file and not os.path.isfile(file):
        found = find_layout(file, environ)
        if found is not None:
            return found
    return read_layout(file)


def _unreadable(path: str, error: OSError) -> Unreadable:
    advice = "name a directory" if error.errno in (errno.ENOENT, errno.ENOTDIR) else "try it as its owner"
    return Unreadable(os.strerror(error.errno or 0), advice, path=path)
