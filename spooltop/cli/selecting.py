"""Parses the arguments that select messages into a ``Selection``."""

from __future__ import annotations

import argparse
import json

from spooltop.errors import UsageError
from spooltop.model.filters.selection import Selection
from spooltop.model.protocols import Sort
from spooltop.model.text import unescape
from spooltop.model.units import parse_age
from spooltop.model.vocabulary import Box, Verdict

from .options import COLUMNS
from .terminal import Terminal


def selection_of(args: argparse.Namespace, terminal: Terminal, *, box_from_lines: bool = False) -> Selection:
    """Builds the selection that the arguments describe.

    ``box_from_lines``: if no ``--box`` is given and the lines of ``ls --json`` on stdin name exactly one box, that box is used.
    Raises ``UsageError`` for invalid words.
    """
    words: list[str] = args.what
    everything = "ALL" in words
    named = [word for word in words if word != "ALL"]
    if everything and named:
        raise UsageError("ALL and ids together", advice="give one or the other")
    box = Box(args.box) if args.box else None
    ids: list[str] | None = None
    if named:
        ids = [id_of(word) for word in named if word != "-"]
        if "-" in named:
            read, boxes = _from_lines(terminal)
            ids += read
            if box is None and box_from_lines and len(boxes) > 1:
                raise UsageError(f"the lines are of {' and '.join(sorted(boxes))}", advice="name one box with --box")
            if box is None and box_from_lines and boxes:
                box = Box(boxes.pop())
    if args.filter:
        from spooltop.model.filters import query

        query.parse(args.filter)  # raises for a filter that makes no sense, before anything is opened
    return Selection(
        box=box,
        ids=None if ids is None else tuple(dict.fromkeys(ids)),
        source=None if args.source is None else _unescaped(args.source, "a source"),
        older_than=None if args.older_than is None else parse_age(args.older_than),
        verdict=Verdict(args.verdict) if args.verdict else None,
        filter=args.filter,
        everything=everything,
    )


def sort_of(text: str) -> Sort | None:
    """Returns the order that ``COLUMN``, ``COLUMN:asc`` or ``COLUMN:desc`` names; None for no text. Raises ``UsageError``.

    >>> [sort_of(text).descending for text in ("name", "age", "age:asc", "name:desc")]
    [False, True, False, True]
    """
    if not text:
        return None
    column, colon, direction = text.partition(":")
    if column not in COLUMNS or (colon and direction not in ("asc", "desc")):
        raise UsageError(f"invalid order {text!r}", advice=f"write COLUMN, or COLUMN:desc; columns are {', '.join(COLUMNS)}")
    return Sort(column, descending=direction == "desc" if direction else column in ("age", "held", "size", "tries", "verdict"))


def id_of(word: str) -> str:
    """Returns the id that was shown as ``word``. Raises ``UsageError``."""
    name = _unescaped(word, "an id")
    if not name:
        raise UsageError(f"{word!r} is not an id", advice="give the id as `spooltop ls` lists it")
    return name


def path_of(word: str) -> str:
    """Returns the path or name of a file that was shown as ``word``. Raises ``UsageError``."""
    return _unescaped(word, "a path")


def _unescaped(word: str, what: str) -> str:
    try:
        return unescape(word)
    except ValueError:
        raise UsageError(
            f"{word!r} is not {what} as it is shown", advice=r"a backslash is written \\, other bytes \xNN"
        ) from None


def _from_lines(terminal: Terminal) -> tuple[list[str], set[str]]:
    """Reads ids and boxes from lines that are ids, or objects of ``ls --json``."""
    ids = []
    boxes = set()
    for line in terminal.lines():
        if not line.strip():
            continue
        if line.startswith("{"):
            try:
                thing = json.loads(line)
            except ValueError:
                thing = None  # an id may begin with a brace
            if isinstance(thing, dict):
                if not isinstance(thing.get("id"), str):
                    raise UsageError("a line of stdin has no id", advice="give lines of `spooltop ls --json`, or ids")
                ids.append(id_of(thing["id"]))
                if thing.get("box") in tuple(Box):
                    boxes.add(thing["box"])
                continue
        ids.append(id_of(line))
    return ids, boxes
