"""Arguments and options of each command. Like ``parser``, the module imports only argparse until a rate is parsed."""

from __future__ import annotations

import argparse
import json
from argparse import SUPPRESS, ArgumentParser, ArgumentTypeError

from spooltop.errors import UsageError
from spooltop.model.filters.selection import Selection
from spooltop.model.protocols import Sort
from spooltop.model.text import unescape
from spooltop.model.units import parse_age
from spooltop.model.vocabulary import Box, Verdict

from .terminal import Terminal

BOXES = ("tmp", "new", "cur", "held", "rejected", "trash", "delivered")
VIEWS = ("overview", "new", "claims", "tmp", "cursors", "locks", "aside", "consumers")
COLUMNS = ("age", "held", "size", "source", "tries", "verdict", "name")
VERDICTS = ("dead", "alive", "unknown", "writing", "abandoned")
_YES = "do not ask; where a holder is unknown, only as --yes=COUNT with the number of the plan"


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= 1e6:
        raise ArgumentTypeError(f"invalid number of seconds {text!r}")
    return seconds


def _rate(text: str) -> float:
    """Parses a rate in messages per second."""
    from spooltop.errors import UsageError
    from spooltop.model.units import parse_rate

    try:
        return parse_rate(text)
    except UsageError as error:
        raise ArgumentTypeError(str(error)) from None


def common(parser: ArgumentParser) -> None:
    """Adds the options of all commands."""
    parser.add_argument("-h", "--help", action="store_true", help="this help")
    parser.add_argument(
        "--as", dest="as_kind", default="", metavar="NAME",
        help="what it is: spool, for a mail folder that is a job spool, or a layout of `spooltop layouts`",
    )
    parser.add_argument("--read-only", action="store_true", help="refuse every change")
    parser.add_argument("--syslog", action="store_true", help="also send audit records to syslog")
    parser.add_argument("--ascii", action="store_true", help="ASCII only")


def _path(parser: ArgumentParser, *, optional: bool = False) -> None:
    if optional:
        parser.add_argument("path", metavar="PATH", nargs="?", help="the spool; the current directory if it is one")
    else:
        parser.add_argument("path", metavar="PATH", help="the spool")


def _paths(parser: ArgumentParser, metavar: str = "PATH") -> None:
    told = "spools, quoted globs, directories of spools; the setting paths, else the current directory if it is one"
    parser.add_argument("paths", metavar=metavar, nargs="*", help=told)


def _poll_log(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--cursor-file", action="append", metavar="FILE", help="a cursor file, or a folder of them, in place of those found"
    )
    parser.add_argument(
        "--poll-log", action="append", metavar="[SOURCE=]GLOB", help="logs of the pollers; without SOURCE= the file name gives it"
    )


def _watch(parser: ArgumentParser) -> None:
    parser.add_argument("--watch", metavar="DURATION", help="watch for 40s, 10m …, then answer once: with rates and lost updates")


def _redis(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--redis-tickets", action="append", metavar="URL",
        help="also show its ticket queues, read-only: redis://HOST:6379/0#QUEUE. A password here is visible in ps: put "
        "the URL into SPOOLTOP_REDIS_TICKETS, or as redis_tickets into ~/.config/spooltop/config.toml with mode 0600",
    )


def _theme(parser: ArgumentParser) -> None:
    parser.add_argument("--theme", choices=("light", "dark"), help="the background of the terminal")
    parser.add_argument("--no-mouse", action="store_true", help="leave the mouse to the terminal")


def _json(parser: ArgumentParser, what: str) -> None:
    parser.add_argument("--json", action="store_true", help=what)


def _selection(parser: ArgumentParser) -> None:
    parser.add_argument("what", metavar="ID", nargs="*", help="ids as listed, - for ids or `ls --json` lines on stdin, or ALL")
    parser.add_argument("--box", choices=BOXES, metavar="BOX", help="the box: " + ", ".join(BOXES))
    parser.add_argument("--source", metavar="NAME", help="only from this source")
    parser.add_argument("--older-than", metavar="AGE", help="in the box for longer than this: 90, 10m, 2h, 1d")
    parser.add_argument("--verdict", choices=VERDICTS, metavar="VERDICT", help="only this verdict: " + ", ".join(VERDICTS))
    parser.add_argument(
        "--filter", metavar="QUERY", default="", help="text, !text, age:>10m, src:NAME, pid:N, tries:>2, verdict:dead"
    )


def _force(parser: ArgumentParser) -> None:
    parser.add_argument("--force", action="store_true", help="also take claims from running and from unknown holders")


def _question(parser: ArgumentParser) -> None:
    parser.add_argument("--yes", action="store_true", help=_YES)
    parser.add_argument("--dry-run", action="store_true", help="show the plan and stop")


def _change(parser: ArgumentParser) -> None:
    _question(parser)
    parser.add_argument("--rate", type=_rate, metavar="N/s", help="rate limit: 50/s, 1000/m; a bare number is per second")
    _json(parser, "the plan and its result as one object")


def consumers(parser: ArgumentParser) -> None:
    _path(parser, optional=True)
    _watch(parser)
    parser.add_argument("--verdict", choices=("dead", "alive", "unknown"), metavar="VERDICT", help="only dead, alive or unknown")
    _json(parser, "one object a line")


def demo(parser: ArgumentParser) -> None:
    parser.add_argument("--dir", metavar="PATH", help="make the spool there, and keep it")
    parser.add_argument("--redis", action="store_true", help="on a stream of a Redis or Valkey server, which it starts itself")
    parser.add_argument("--headless", type=_seconds, metavar="SECONDS", help="no dashboard: print the status after this time")
    _theme(parser)
    _json(parser, "with --headless: the status as one object")


def init(parser: ArgumentParser) -> None:
    _path(parser)
    _json(parser, "what was made as one object")


def put(parser: ArgumentParser) -> None:
    _path(parser)
    parser.add_argument("files", metavar="FILE", nargs="*", help="a message each; stdin if none is named, or for -")
    parser.add_argument("--source", metavar="NAME", help="who produced it")
    parser.add_argument("--id", metavar="ID", help="its id: a second put of it is a no-op while the first is in a box")
    parser.add_argument("--key", metavar="KEY", help="a second put with this key is a no-op, always")
    parser.add_argument("--no-durable", action="store_true", help="faster: may be lost when the power fails")
    _json(parser, "one id a line")


def move(parser: ArgumentParser) -> None:
    _path(parser)
    parser.add_argument("to", metavar="TO", help="the queue that they go to")
    _question(parser)
    parser.add_argument("--no-durable", action="store_true", help="faster: some may be lost when the power fails")
    _json(parser, "the numbers as one object")


def work(parser: ArgumentParser) -> None:
    _path(parser)
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="number of commands at once")
    parser.add_argument("--timeout", metavar="AGE", help="kill the command after 90, 10m … and release its message")
    parser.add_argument("--drain", action="store_true", help="end when no message is left")
    parser.add_argument("--no-recover", action="store_true", help="do not requeue claims of dead consumers")
    parser.add_argument("--no-durable", action="store_true", help="faster: an ack may be undone when the power fails")
    parser.add_argument("--quiet", action="store_true", help="print no line for each message on stderr")


def status(parser: ArgumentParser) -> None:
    _paths(parser)
    _watch(parser)
    _poll_log(parser)
    _redis(parser)
    _json(parser, "one object, of several spools one a line")


def check(parser: ArgumentParser) -> None:
    from spooltop.monitor.plugin import VALUES

    _paths(parser, "TARGET")
    values = ", ".join(f"{value.name} ({value.does})" for value in VALUES)
    parser.add_argument(
        "-w", "--warning", action="append", metavar="NAME[=RANGE]",
        help=f"warn of a problem by its code, or of a value outside RANGE: {values}",
    )
    parser.add_argument("-c", "--critical", action="append", metavar="NAME[=RANGE]", help="likewise, and it is critical")
    parser.add_argument("--perfdata", metavar="NAME,…", help="only these values in the performance data; none leaves it out")
    parser.add_argument(
        "-t", "--timeout", type=float, default=10.0, metavar="SECONDS", help="a look that takes longer is UNKNOWN; default 10"
    )
    _watch(parser)
    _poll_log(parser)
    _redis(parser)


def events(parser: ArgumentParser) -> None:
    _paths(parser, "TARGET")
    parser.add_argument("--exec", metavar="CMD", help="also run this shell command for each event, with the JSON on stdin")
    _poll_log(parser)
    _redis(parser)
    _json(parser, "one object a line")


def bench(parser: ArgumentParser) -> None:
    parser.add_argument("path", metavar="TARGET", nargs="?", help="a spool or any directory; the current one if it is a spool")
    parser.add_argument(
        "--seconds", type=_seconds, default=20.0, metavar="N", help="about how long all of it takes; default 20"
    )
    _json(parser, "one object a line")


def doctor(parser: ArgumentParser) -> None:
    parser.add_argument("path", metavar="TARGET", nargs="?", help="the spool; the current directory if it is one")
    parser.add_argument(
        "--write", action="store_true", help="also try moves, links, syncs and locks, in a hidden directory in tmp"
    )
    parser.add_argument("--watch", metavar="DURATION", help="watch for 10s, 2m …: how fast the disk fills, cursors")
    _poll_log(parser)
    _json(parser, "one object a line")


def metrics(parser: ArgumentParser) -> None:
    _paths(parser, "TARGET")
    parser.add_argument("--listen", metavar="[HOST:]PORT", help="watch, and serve them over HTTP; HOST is 127.0.0.1 by default")
    parser.add_argument("--textfile", metavar="FILE", help="watch, and write them for the textfile collector of node_exporter")
    parser.add_argument("--every", metavar="DURATION", default="15s", help="with --textfile: how often; default 15s")
    parser.add_argument("--grafana", action="store_true", help="print a dashboard for Grafana instead, to be imported there")
    _poll_log(parser)
    _redis(parser)


def ls(parser: ArgumentParser) -> None:
    _path(parser, optional=True)
    _selection(parser)
    parser.add_argument(
        "--sort", choices=COLUMNS, help="default: age; cur and tmp by verdict, worst first, then who holds longest"
    )
    parser.add_argument("--invert", action="store_true", help="reverse the order")
    parser.add_argument("-n", dest="most", type=int, metavar="N", help="at most N lines")
    _json(parser, "one object a line")


def show(parser: ArgumentParser) -> None:
    _path(parser)
    parser.add_argument("id", metavar="ID", help="as listed")
    parser.add_argument("--box", choices=BOXES, metavar="BOX", help="look in this box only")
    parser.add_argument("--raw", action="store_true", help="the raw payload, to a pipe or a file")
    parser.add_argument("--who", action="store_true", help="show instead who has the file open or locked")
    _json(parser, "one object")


def requeue(parser: ArgumentParser) -> None:
    _path(parser)
    _selection(parser)
    _force(parser)
    parser.add_argument(
        "--hold-poison", action="store_true", help="hold messages on which 3 or more consumers died, requeue the others"
    )
    parser.add_argument("--copy", action="store_true", help="in a stream: put claims again as new entries, last in order")
    _change(parser)


def hold(parser: ArgumentParser) -> None:
    _path(parser)
    _selection(parser)
    _force(parser)
    _change(parser)


def release(parser: ArgumentParser) -> None:
    _path(parser)
    _selection(parser)
    _change(parser)


def restore(parser: ArgumentParser) -> None:
    _path(parser)
    _selection(parser)
    parser.add_argument(
        "--force", action="store_true", help="from the trash: move to new even if it may not have come from there"
    )
    _change(parser)


def purge(parser: ArgumentParser) -> None:
    _path(parser)
    _selection(parser)
    parser.add_argument("--now", action="store_true", help="delete at once instead of moving to the trash; there is no undo")
    parser.add_argument("--expired", action="store_true", help="delete expired messages from the trash")
    parser.add_argument("--force", action="store_true", help=SUPPRESS)  # what lives is refused all the same
    _change(parser)


def inject(parser: ArgumentParser) -> None:
    _path(parser)
    parser.add_argument("--count", type=int, default=1, metavar="N", help="how many")
    parser.add_argument("--text", help="the payload; {n} {count} {id} {source} {time} are filled in for each message")
    parser.add_argument("--file", metavar="FILE", help="or the payload from a file, filled in likewise")
    parser.add_argument("--size", type=int, metavar="BYTES", help="or a payload of this size")
    parser.add_argument("--source", metavar="NAME", help="the source of the messages")
    parser.add_argument("--canary", action="store_true", help="mark them as tests, not counted in rates; print their way")
    parser.add_argument(
        "--timeout", type=_seconds, default=30.0, metavar="SECONDS",
        help="with --canary: follow them for at most this long; 0: not at all",
    )
    _change(parser)


def cursors(parser: ArgumentParser) -> None:
    _path(parser, optional=True)
    _watch(parser)
    _poll_log(parser)
    parser.add_argument("--set", metavar="SOURCE=VALUE", help="store this value, after a plan and a question")
    parser.add_argument("--file", metavar="FILE", help="with --set: the cursor file, where several have the source")
    parser.add_argument(
        "--type", choices=("json", "text"), default="",
        help="with --set: the type of VALUE, where it is another one than that of the present value",
    )
    parser.add_argument(
        "--force", action="store_true", help="with --set: also a source that the file does not have yet, or another type"
    )
    parser.add_argument("--yes", action="store_true", help=f"with --set: {_YES}")
    parser.add_argument("--dry-run", action="store_true", help="with --set: show the plan and stop")
    parser.add_argument("--mute", metavar="SOURCE[=AGE]", help="hide its problems, for 1h by default")
    parser.add_argument("--unmute", metavar="SOURCE", help="unmute it")
    parser.set_defaults(rate=None)
    _json(parser, "one object a line; with --set the plan and its result as one")


def undo(parser: ArgumentParser) -> None:
    _path(parser)
    parser.add_argument(
        "operation", metavar="OPERATION", nargs="?", help="its id, or the beginning of it, as `spooltop ops` lists it"
    )
    parser.set_defaults(locks=True)
    _change(parser)


def ops(parser: ArgumentParser) -> None:
    _path(parser, optional=True)
    parser.add_argument("operation", metavar="OPERATION", nargs="?", help="its id, or the beginning: the result of each item")
    parser.add_argument("--all", action="store_true", help="all operations in the journal, not only the newest 1,000")
    parser.set_defaults(locks=True)
    _json(parser, "one object a line; of one operation one object")


def unlock(parser: ArgumentParser) -> None:
    _path(parser)
    parser.add_argument("what", metavar="LOCK", nargs="*", help="as `spooltop locks` lists it, its path or file name; or ALL")
    parser.add_argument("--force", action="store_true", help="also if it is unknown whether its holder is running")
    _question(parser)
    parser.set_defaults(rate=None, locks=True)
    _json(parser, "the plan and its result as one object")


def pause(parser: ArgumentParser) -> None:
    _path(parser)
    parser.add_argument("--reason", metavar="TEXT", help="why: shown to whoever looks, and to workers that wait")
    _of_spool(parser)


def resume(parser: ArgumentParser) -> None:
    _path(parser)
    _of_spool(parser)


def _of_spool(parser: ArgumentParser) -> None:
    _question(parser)
    parser.set_defaults(rate=None)
    _json(parser, "the plan and its result as one object")


def listed(parser: ArgumentParser) -> None:
    _path(parser, optional=True)
    _redis(parser)
    parser.set_defaults(locks=True)
    _json(parser, "one object a line")


def config(parser: ArgumentParser) -> None:
    parser.add_argument("what", metavar="show", nargs="?", choices=("show",), help="what to do; the only choice so far")
    _json(parser, "one object a line")


def completion(parser: ArgumentParser) -> None:
    parser.add_argument("shell", metavar="SHELL", choices=("bash", "zsh", "fish"), help="bash, zsh or fish")


def help(parser: ArgumentParser) -> None:
    parser.add_argument("name", metavar="COMMAND", nargs="?", help="the command")


def nothing(parser: ArgumentParser) -> None:
    """Adds no arguments."""


def dashboard(parser: ArgumentParser) -> None:
    _paths(parser)
    parser.add_argument("--view", choices=VIEWS, metavar="VIEW", help="open this view first: " + ", ".join(VIEWS))
    kept = "the view and the order you leave are kept, a filter is not: it could hide trouble"
    parser.add_argument("--filter", metavar="QUERY", default="", help=f"with this filter, in New if no view is named; {kept}")
    parser.add_argument("--sort", metavar="COLUMN[:desc]", default="", help="lists in this order: " + ", ".join(COLUMNS))
    _theme(parser)
    _poll_log(parser)
    _redis(parser)
    parser.add_argument("--who-writes", action="store_true", help="ask the kernel who writes the cursors (root only)")
    parser.add_argument("--json", action="store_true", help="print the status instead, as one object a spool")
    parser.add_argument("-V", "--version", action="store_true", help="print the version, and those of the libraries")


def layouts(parser: ArgumentParser) -> None:
    parser.add_argument("words", metavar="WORD", nargs="*", help="form, show NAME, or try FILE PATH")
    _json(parser, "one object a line")


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
