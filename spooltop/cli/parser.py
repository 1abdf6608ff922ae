"""The commands, their options, and their help. Imports nothing but argparse: ``-h`` and ``--version`` answer at once."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn

from ..errors import UsageError

__all__ = ["COMMANDS", "Command", "command_of", "dashboard_parser", "near_command", "overview", "parser_of"]

BOXES = ("tmp", "new", "cur", "held", "rejected", "trash")
VERDICTS = ("dead", "alive", "unknown", "writing", "abandoned")


class Parser(argparse.ArgumentParser):
    """argparse that raises ``UsageError`` where it would print and exit, and that guesses no abbreviations."""

    def __init__(self, name: str, usage: str, description: str, example: str) -> None:
        super().__init__(
            prog=f"spooltop {name}".rstrip(),
            usage=f"spooltop {usage}",
            description=description,
            epilog=f"example:\n{example}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
            add_help=False,
        )
        self.add_argument("-h", "--help", action="store_true", help="this help")
        self.add_argument("--as", dest="as_kind", choices=("spool",), metavar="spool", help="take a mail folder for a job spool")
        self.add_argument("--read-only", action="store_true", help="refuse every change")
        self.add_argument("--syslog", action="store_true", help="what is audited goes to syslog too")
        self.add_argument("--ascii", action="store_true", help="no signs beyond ASCII")

    def error(self, message: str) -> NoReturn:
        raise UsageError(message, advice=f"{self.prog} -h shows how")

    def read(self, words: Sequence[str]) -> argparse.Namespace:
        """The arguments; options may stand anywhere. Raises ``UsageError``."""
        return self.parse_intermixed_args(list(words))


@dataclass(frozen=True, slots=True)
class Command:
    """One command. ``runs`` is "module:function" below this package, imported when it is called for."""

    name: str
    usage: str
    does: str
    example: str
    runs: str
    options: Callable[[Parser], None]
    more: str = ""

    def parser(self) -> Parser:
        does = f"{self.does[0].upper()}{self.does[1:]}."
        parser = Parser(self.name, f"{self.name} {self.usage}", f"{does}\n\n{self.more}".rstrip(), self.example)
        self.options(parser)
        return parser


def _path(parser: Parser, *, optional: bool = False) -> None:
    if optional:
        parser.add_argument("path", metavar="PATH", nargs="?", help="the spool; the current directory if it is one")
    else:
        parser.add_argument("path", metavar="PATH", help="the spool")


def _poll_log(parser: Parser) -> None:
    parser.add_argument(
        "--cursor-file", action="append", metavar="FILE", help="a cursor file, or a folder of them, in place of those found"
    )
    parser.add_argument(
        "--poll-log", action="append", metavar="[SOURCE=]GLOB", help="logs of the pollers; without SOURCE= its name tells whose"
    )


def _redis(parser: Parser) -> None:
    parser.add_argument(
        "--redis-tickets", action="append", metavar="URL", help="its ticket queues too: redis://HOST:6379/0#QUEUE; looked at only"
    )


def _json(parser: Parser, what: str) -> None:
    parser.add_argument("--json", action="store_true", help=what)


def _selection(parser: Parser) -> None:
    parser.add_argument("what", metavar="ID", nargs="*", help="ids as listed, - for ids or `ls --json` lines on stdin, or ALL")
    parser.add_argument("--box", choices=BOXES, metavar="BOX", help="the box: " + ", ".join(BOXES))
    parser.add_argument("--source", metavar="NAME", help="only from this source")
    parser.add_argument("--older-than", metavar="AGE", help="in the box for longer than 90, 10m, 2h, 1d")
    parser.add_argument("--verdict", choices=VERDICTS, metavar="VERDICT", help="only these: " + ", ".join(VERDICTS))
    parser.add_argument(
        "--filter", metavar="QUERY", default="", help="text, !text, age:>10m, src:NAME, pid:N, tries:>2, verdict:dead"
    )


def _change(parser: Parser) -> None:
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument("--dry-run", action="store_true", help="show the plan and stop")
    parser.add_argument("--rate", type=_rate, metavar="N/s", help="at most so many messages: 50/s, 1000/m; a bare number is /s")
    _json(parser, "the plan and what came of it as one object")


def _demo(parser: Parser) -> None:
    parser.add_argument("--dir", metavar="PATH", help="make the spool there, and keep it")
    parser.add_argument("--headless", type=_seconds, metavar="SECONDS", help="no dashboard: print the status after so long")
    parser.add_argument("--theme", choices=("light", "dark"), help="the background of the terminal")
    _json(parser, "with --headless: the status as one object")


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= 1e6:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds")
    return seconds


def _init(parser: Parser) -> None:
    _path(parser)
    _json(parser, "what was made as one object")


def _put(parser: Parser) -> None:
    _path(parser)
    parser.add_argument("files", metavar="FILE", nargs="*", help="a message each; stdin if none is named, or for -")
    parser.add_argument("--source", metavar="NAME", help="who produced it")
    parser.add_argument("--id", metavar="ID", help="its id: a second put of it is a no-op while the first is in a box")
    parser.add_argument("--key", metavar="KEY", help="a second put with this key is a no-op, always")
    parser.add_argument("--no-durable", action="store_true", help="faster: may be lost when the power fails")
    _json(parser, "a line an id")


def _work(parser: Parser) -> None:
    _path(parser)
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="so many commands at once")
    parser.add_argument("--timeout", metavar="AGE", help="kill the command after 90, 10m … and release its message")
    parser.add_argument("--drain", action="store_true", help="end when nothing is there to take")
    parser.add_argument("--no-recover", action="store_true", help="leave alone what dead consumers hold")
    parser.add_argument("--no-durable", action="store_true", help="faster: an ack may be undone when the power fails")
    parser.add_argument("--quiet", action="store_true", help="no line for each message on stderr")


def _status(parser: Parser) -> None:
    _path(parser, optional=True)
    _poll_log(parser)
    _redis(parser)
    _json(parser, "one object")


def _ls(parser: Parser) -> None:
    _path(parser, optional=True)
    _selection(parser)
    parser.add_argument(
        "--sort", choices=("age", "held", "size", "source", "tries", "verdict", "name"), default="age", help="by what; age first"
    )
    parser.add_argument("--invert", action="store_true", help="the other way round")
    parser.add_argument("-n", dest="most", type=int, metavar="N", help="at most N lines")
    _json(parser, "an object a line")


def _show(parser: Parser) -> None:
    _path(parser)
    parser.add_argument("id", metavar="ID", help="as listed")
    parser.add_argument("--box", choices=BOXES, metavar="BOX", help="look in this box only")
    parser.add_argument("--raw", action="store_true", help="the payload byte by byte, to a pipe or a file")
    parser.add_argument("--who", action="store_true", help="who has the file open or locked, instead")
    _json(parser, "one object")


def _rate(text: str) -> float:
    """Messages a second."""
    number, slash, unit = text.partition("/")
    try:
        rate = float(number) / {"": 1, "s": 1, "m": 60, "min": 60, "h": 3600}[unit if slash else ""]
    except (ValueError, KeyError):
        rate = 0.0
    if not 0 < rate <= 1e9:
        raise argparse.ArgumentTypeError(f"{text!r} is no rate: 50/s, 1000/m, above 0")
    return rate


def _requeue(parser: Parser) -> None:
    _path(parser)
    _selection(parser)
    parser.add_argument("--force", action="store_true", help="take claims from holders that live, too")
    parser.add_argument(
        "--hold-poison", action="store_true", help="hold what was in work at 3 deaths or more, requeue the others"
    )
    _change(parser)


def _hold(parser: Parser) -> None:
    _path(parser)
    _selection(parser)
    parser.add_argument("--force", action="store_true", help="take claims from holders that live, too")
    _change(parser)


def _release(parser: Parser) -> None:
    _path(parser)
    _selection(parser)
    _change(parser)


def _restore(parser: Parser) -> None:
    _path(parser)
    _selection(parser)
    parser.add_argument(
        "--force", action="store_true", help="put into new also what is not known to have come from there, from the trash"
    )
    _change(parser)


def _purge(parser: Parser) -> None:
    _path(parser)
    _selection(parser)
    parser.add_argument("--now", action="store_true", help="delete, past the trash; there is no undo")
    parser.add_argument("--expired", action="store_true", help="delete what stands in the trash for longer than it is kept")
    parser.add_argument("--force", action="store_true", help=argparse.SUPPRESS)  # what lives is refused all the same
    _change(parser)


def _inject(parser: Parser) -> None:
    _path(parser)
    parser.add_argument("--count", type=int, default=1, metavar="N", help="how many")
    parser.add_argument("--text", help="the payload")
    parser.add_argument("--size", type=int, metavar="BYTES", help="or a payload of this size")
    parser.add_argument("--source", metavar="NAME", help="as from this source")
    parser.add_argument("--canary", action="store_true", help="mark them: not counted in rates; tells their way: new, cur, gone")
    parser.add_argument(
        "--timeout", type=_seconds, default=30.0, metavar="SECONDS", help="with --canary: follow them so long at most; 0: not"
    )
    _change(parser)


def _cursors(parser: Parser) -> None:
    _path(parser, optional=True)
    _poll_log(parser)
    parser.add_argument("--set", metavar="SOURCE=VALUE", help="store this value, after a plan and a question")
    parser.add_argument("--file", metavar="FILE", help="with --set: in this cursor file, where several have the source")
    parser.add_argument(
        "--type", choices=("json", "text"), default="", help="with --set: what VALUE is; else as the present value is"
    )
    parser.add_argument("--force", action="store_true", help="with --set: also a source that the file does not have yet")
    parser.add_argument("--yes", action="store_true", help="with --set: do not ask")
    parser.add_argument("--dry-run", action="store_true", help="with --set: show the plan and stop")
    parser.add_argument("--mute", metavar="SOURCE[=AGE]", help="leave its problems out of the list, for 1h unless told otherwise")
    parser.add_argument("--unmute", metavar="SOURCE", help="end that")
    parser.set_defaults(rate=None)
    _json(parser, "an object a line; with --set the plan and what came of it as one")


def _undo(parser: Parser) -> None:
    _path(parser)
    parser.add_argument(
        "operation", metavar="OPERATION", nargs="?", help="its id, or the beginning of it, as `spooltop ops` lists it"
    )
    _change(parser)


def _ops(parser: Parser) -> None:
    _path(parser, optional=True)
    parser.add_argument("operation", metavar="OPERATION", nargs="?", help="its id, or the beginning: what became of each item")
    _json(parser, "an object a line; of one operation one object")


def _unlock(parser: Parser) -> None:
    _path(parser)
    parser.add_argument("what", metavar="LOCK", nargs="*", help="as `spooltop locks` lists it, its path or file name; or ALL")
    parser.add_argument("--force", action="store_true", help="also where nobody here can tell whether its holder lives")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument("--dry-run", action="store_true", help="show the plan and stop")
    parser.set_defaults(rate=None)
    _json(parser, "the plan and what came of it as one object")


def _list(parser: Parser) -> None:
    _path(parser, optional=True)
    _redis(parser)
    _json(parser, "an object a line")


_TABLE = (
    Command(
        "demo", "[options]", "the dashboard on a living spool of its own",
        "  spooltop demo\n  spooltop demo --dir /tmp/demo", "demo.command:demo", _demo,
        "Pollers that undo each other's work, consumers that crash, a writer that dies; all real processes, which end with it.\n"
        "It runs faster than life: pollers every 2 s, and 5 s in tmp, 15 s of a claim or 10 s of a lock count as long. What\n"
        "you do in it is thrown away with it, unless --dir keeps it.",
    ),
    Command("init", "PATH", "make a spool", "  spooltop init /var/spool/memex", "making:init", _init),
    Command(
        "put", "PATH [FILE …]", "enqueue stdin or files, print their ids",
        "  echo '{\"rowid\": 89633}' | spooltop put /var/spool/memex --source imessage", "making:put", _put,
    ),
    Command(
        "work", "PATH [options] -- CMD …",
        "a worker: run CMD for each message",
        "  spooltop work /var/spool/memex --jobs 4 --timeout 10m -- ./handle-one",
        "working:work", _work,
        "CMD gets the message on stdin, and SPOOLTOP_ID, SPOOLTOP_ATTEMPT and SPOOLTOP_SOURCE. Exit 0 acks, 65 and 100\n"
        "reject, everything else releases the message with a delay. SIGTERM and SIGINT end after the current message;\n"
        "a second one ends CMD too and releases its message.",
    ),
    Command(
        "status", "[PATH]", "depths, problems, cursors, locks",
        "  spooltop status /var/spool/memex --json | jq .boxes.new.count", "looking:status", _status,
    ),
    Command(
        "ls", "PATH [ID …]", "list messages; without --box those of tmp, new and cur",
        "  spooltop ls /var/spool/memex --box cur --verdict dead\n"
        "  spooltop ls /var/spool/memex --box cur --json | spooltop requeue /var/spool/memex -", "looking:ls", _ls,
    ),
    Command(
        "show", "PATH ID", "one message, safely escaped",
        "  spooltop show /var/spool/memex 1795222801446548.4290.vm", "looking:show", _show,
    ),
    Command(
        "requeue", "PATH [ID … | - | ALL]", "put claims back to new, or what --box rejected or held names",
        "  spooltop requeue /var/spool/memex --verdict dead", "changing:requeue", _requeue,
    ),
    Command(
        "purge", "PATH [ID … | - | ALL]",
        "move messages to the trash; --box trash empties it",
        "  spooltop purge /var/spool/memex --box tmp --verdict abandoned --older-than 10m\n"
        "  spooltop purge /var/spool/memex --expired", "changing:purge", _purge,
        "It wants --box or ids, and takes what is older than 1 hour unless ids, ALL or an age say otherwise. Only what stands\n"
        "in the trash is deleted (--box trash), and what --now is said of: nothing brings it back, and the number is typed.\n"
        "Both go on when the disk is full. The trash is kept for 30 days (trash_retention = \"30d\" in the settings); what is\n"
        "there for longer is shown as expired, and goes when --expired is asked for, never by itself.",
    ),
    Command(
        "hold", "PATH [ID … | - | ALL]", "set messages of cur or new aside, where no consumer takes them",
        "  spooltop hold /var/spool/memex --box cur --filter 'tries:>2 verdict:dead'", "changing:hold", _hold,
    ),
    Command(
        "release", "PATH [ID … | - | ALL]", "put what is held back to new",
        "  spooltop release /var/spool/memex ALL --rate 50/s", "changing:release", _release,
    ),
    Command(
        "restore", "PATH [ID … | - | ALL]", "put what was held, rejected or purged back to where it came from",
        "  spooltop restore /var/spool/memex --box trash --source imessage", "changing:restore", _restore,
        "What came from cur goes to new, as a requeue puts it there; what came from tmp goes to tmp. Of what was rejected the\n"
        "attempts count anew.",
    ),
    Command(
        "inject", "PATH", "put test messages",
        "  spooltop inject /var/spool/memex --count 3 --canary", "changing:inject", _inject,
    ),
    Command("undo", "PATH OPERATION", "undo one operation", "  spooltop undo /var/spool/memex 7f3a", "changing:undo", _undo),
    Command(
        "ops", "[PATH [OPERATION]]", "list operations, newest first, or what the audit log tells of one",
        "  spooltop ops /var/spool/memex\n  spooltop ops /var/spool/memex 7f3a", "looking:ops", _ops,
    ),
    Command(
        "cursors", "[PATH]", "list the cursors and how they move; set one, mute one",
        "  spooltop cursors /opt/memex\n  spooltop cursors /opt/memex --set imessage=89640\n"
        "  spooltop cursors /opt/memex --mute teams=8h", "cursoring:cursors", _cursors,
        "--set reads VALUE as JSON, else as text, and keeps the type of the present value: what it made of it stands in the\n"
        "plan. It is stored under .cursors.lock, and only where the value that was shown still stands. A mute is kept for you\n"
        "and this PATH alone, and nothing is written beside the cursors.",
    ),
    Command(
        "locks", "[PATH]", "list the locks, their holders and who waits",
        "  spooltop locks /var/spool/memex", "looking:locks", _list,
    ),
    Command(
        "tickets", "[PATH]", "list queues of tickets: who has the first, who waits, who is gone",
        "  spooltop tickets /run/lock/job.lock.queue", "looking:tickets", _list,
    ),
    Command(
        "unlock", "PATH LOCK …", "remove stale locks, and tickets of the dead at the head of a queue",
        "  spooltop unlock /var/spool/memex leader.lock\n  spooltop unlock /run/lock/job.lock.queue job.lock.queue",
        "changing:unlock", _unlock,
        "Only where the file itself is the lock (soft locks, .lck links, leader files), its holder is gone and it is over 5m\n"
        "old; a ticket of a dead process at once. Never the file of a kernel lock: that one ends with its holder, and without\n"
        "its file two can hold it. What a living process has is never taken. undo puts it back where its place is free.",
    ),
)  # fmt: skip

COMMANDS = {command.name: command for command in _TABLE}

_WITH_VALUE = ("--as", "--theme", "--poll-log", "--cursor-file", "--redis-tickets")


def command_of(words: Sequence[str]) -> tuple[Command | None, list[str]]:
    """The command among ``words`` and the other words. None: what there is are the words of the dashboard.

    Options may come before the command: ``spooltop --read-only status PATH``.
    """
    value = False
    for place, word in enumerate(words):
        if value:
            value = False
        elif word == "--":
            break
        elif word.startswith("-") and word != "-":
            value = word in _WITH_VALUE
        elif word in COMMANDS:
            return COMMANDS[word], [*words[:place], *words[place + 1 :]]
        else:
            break
    return None, list(words)


def parser_of(command: Command | None) -> Parser:
    return dashboard_parser() if command is None else command.parser()


def dashboard_parser() -> Parser:
    """``spooltop [PATH]``."""
    parser = Parser("", "[options] [PATH]", "Open the dashboard.", "  spooltop /var/spool/memex")
    parser.add_argument("paths", metavar="PATH", nargs="*", help="the spool; the current directory if it is one")
    parser.add_argument("--theme", choices=("light", "dark"), help="the background of the terminal")
    _poll_log(parser)
    _redis(parser)
    parser.add_argument("--who-writes", action="store_true", help="ask the kernel who writes the cursors (root only)")
    parser.add_argument("--json", action="store_true", help="print the status as one object instead")
    parser.add_argument("-V", "--version", action="store_true", help="print the version")
    return parser


def overview() -> str:
    """The help of ``spooltop -h``."""
    lines = [
        "usage: spooltop [options] [PATH]            open the dashboard",
        "       spooltop COMMAND PATH [options]      everything else",
        "",
        "Watch a spool directory live, see what is stuck and why, and put it back safely.",
        "",
        "commands:",
        *(f"  {command.name:<9} {command.does}" for command in COMMANDS.values()),
        "",
        "options:",
        "  --read-only           refuse every change",
        "  --as spool            take a mail folder for a job spool",
        "  --ascii               no signs beyond ASCII",
        "  --theme light|dark    the background of the terminal",
        "  --poll-log GLOB       logs of the pollers, to tell idle from stopped; SOURCE=GLOB where the name tells not whose",
        "  --cursor-file FILE    a cursor file, or a folder of them, in place of those in the spool or beside it",
        "  --redis-tickets URL   show its ticket queues among the locks: redis://HOST:6379/0#QUEUE",
        "  --who-writes          ask the kernel who writes the cursors (fanotify; root only)",
        "  -V, --version         print the version",
        "  -h, --help            this help; spooltop COMMAND -h shows a command's",
        "",
        "A path that is spelled like a command is written ./status. Exit codes: 0 done, 1 some items skipped or failed,",
        "2 usage, 3 refused, 4 nothing matched, 5 not a spool or unreadable.",
        "",
        "example:",
        "  spooltop init /tmp/spool && echo hello | spooltop put /tmp/spool && spooltop /tmp/spool",
    ]
    return "\n".join(lines)


def near_command(word: str) -> str | None:
    """The command that ``word`` may have meant."""
    return next(iter(difflib.get_close_matches(word, COMMANDS, n=1, cutoff=0.7)), None)
