"""Arguments that several commands have, and what the words of a selection mean."""

from __future__ import annotations

import argparse
import json
from argparse import ArgumentTypeError
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from spooltop.errors import UsageError
from spooltop.model.filters.selection import Selection
from spooltop.model.protocols import Sort
from spooltop.model.text import unescape
from spooltop.model.units import parse_age, parse_rate
from spooltop.model.vocabulary import Box, Verdict

from .terminal import Terminal

BOXES = ("tmp", "new", "cur", "held", "rejected", "trash", "delivered")
COLUMNS = ("age", "held", "size", "source", "tries", "verdict", "name")
VERDICTS = ("dead", "alive", "unknown", "writing", "abandoned")
YES = "do not ask; where a holder is unknown, only as --yes=COUNT with the number of the plan"


class Option(Struct, frozen=True):
    """An argument of a command: its spellings, or its name where it has a place, and what ``add_argument`` takes besides."""

    flags: tuple[str, ...]
    more: Mapping[str, Any]

    @property
    def help(self) -> str:
        """Its help, which a function makes where that loads more modules."""
        text = self.more["help"]
        return str(text() if callable(text) else text)


def option(*flags: str, **more: Any) -> Option:
    return Option(flags, more)


def flag(name: str, help: str) -> Option:
    """An option without a value."""
    return Option((name,), {"action": "store_true", "help": help})


def seconds(text: str) -> float:
    """Parses the number of seconds that an option takes."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number <= 1e6:
        raise ArgumentTypeError(f"invalid number of seconds {text!r}")
    return number


def _rate(text: str) -> float:
    """Parses a rate in messages per second."""
    try:
        return parse_rate(text)
    except UsageError as error:
        raise ArgumentTypeError(str(error)) from None


_HERE = "the current directory if it is one"
_SEVERAL = f"spools, quoted globs, directories of spools; the setting paths, else {_HERE}"
COMMON = (
    option("-h", "--help", action="store_true", help="this help"),
    option(
        "--as", dest="as_kind", default="", metavar="NAME",
        help="what it is: spool, for a mail folder that is a job spool, or a layout of `spooltop layouts`",
    ),
    flag("--read-only", "refuse every change"), flag("--syslog", "also send audit records to syslog"),
    flag("--ascii", "ASCII only"),
)  # fmt: skip
"""Options of all commands."""
PATH = option("path", metavar="PATH", help="the spool")
PATH_OR_HERE = option("path", metavar="PATH", nargs="?", help=f"the spool; {_HERE}")
PATHS, TARGETS = (option("paths", metavar=name, nargs="*", help=_SEVERAL) for name in ("PATH", "TARGET"))
LOGS = (
    option("--cursor-file", action="append", metavar="FILE", help="a cursor file, or a folder of them, in place of those found"),
    option(
        "--poll-log", action="append", metavar="[SOURCE=]GLOB", help="logs of the pollers; without SOURCE= the file name gives it"
    ),
)
WATCH = option("--watch", metavar="DURATION", help="watch for 40s, 10m …, then answer once: with rates and lost updates")
REDIS = option(
    "--redis-tickets", action="append", metavar="URL",
    help="also show its ticket queues, read-only: redis://HOST:6379/0#QUEUE. A password here is visible in ps: put "
    "the URL into SPOOLTOP_REDIS_TICKETS, or as redis_tickets into ~/.config/spooltop/config.toml with mode 0600",
)  # fmt: skip
THEME = (
    option("--theme", choices=("light", "dark"), help="the background of the terminal"),
    flag("--no-mouse", "leave the mouse to the terminal"),
)
LINES = flag("--json", "one object a line")
PLAN = flag("--json", "the plan and its result as one object")
SELECTION = (
    option("what", metavar="ID", nargs="*", help="ids as listed, - for ids or `ls --json` lines on stdin, or ALL"),
    option("--box", choices=BOXES, metavar="BOX", help="the box: " + ", ".join(BOXES)),
    option("--source", metavar="NAME", help="only from this source"),
    option("--older-than", metavar="AGE", help="in the box for longer than this: 90, 10m, 2h, 1d"),
    option("--verdict", choices=VERDICTS, metavar="VERDICT", help="only this verdict: " + ", ".join(VERDICTS)),
    option("--filter", metavar="QUERY", default="", help="text, !text, age:>10m, src:NAME, pid:N, tries:>2, verdict:dead"),
)
FORCE = flag("--force", "also take claims from running and from unknown holders")
QUESTION = (flag("--yes", YES), flag("--dry-run", "show the plan and stop"))
CHANGE = (
    *QUESTION, option("--rate", type=_rate, metavar="N/s", help="rate limit: 50/s, 1000/m; a bare number is per second"), PLAN,
)  # fmt: skip


# Parses the arguments that select messages into a ``Selection``.

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
