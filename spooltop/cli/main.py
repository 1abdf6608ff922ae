"""Runs a command line and returns its exit code. Errors end here, as one line on stderr."""

from __future__ import annotations

import errno
import importlib
import os
import re
import signal
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from functools import partial
from itertools import takewhile

from spooltop import __version__
from spooltop.model import DoesNotAnswer, NotASpool, SpooltopError, Unreadable, UsageError, escape, has_password, has_scheme
from spooltop.run_each import run_each

from .context import Arguments, Dashboard, Opener, OutputFailed, Terminal, targets_of, watching
from .parser import COMMANDS, DASHBOARD, Parser, command_of, near_command, sort_of

# The version of spooltop, and those of what it stands on, for bug reports and for whoever compares two machines. The names of
# the directories of installed packages tell their versions. ``importlib.metadata`` reads the same names, but takes 48 ms to
# load, more than everything else that ``spooltop --version`` does.

_PACKAGES = {"textual": "", "watchfiles": "", "psutil": "", "filelock": "", "redis": "redis", "prometheus_client": "metrics"}
"""Packages that spooltop needs, each with the extra that alone needs it."""
_PACKAGE = r"([A-Za-z0-9_.]+?)-([0-9][^-]*)(?:-py[0-9.]+)?\.(?:dist|egg)-info"


def versions() -> Iterator[str]:
    """Yields lines: first ``spooltop VERSION``, which scripts read, then one for each thing below it."""
    yield f"spooltop {__version__}"
    yield f"python {'.'.join(map(str, sys.version_info[:3]))} ({sys.executable})"
    found = installed(_PACKAGES, sys.path)
    for name, extra in _PACKAGES.items():
        missing = f"not installed: pip install '.[{extra}]' in the checkout" if extra else "not found"
        yield f"{name} {found.get(name, missing)}"
    import fcntl

    from spooltop.engine.syscalls import HAS_INOTIFY, HAS_RENAMEAT2

    ofd_locks = sys.platform == "linux" and hasattr(fcntl, "F_OFD_SETLK")
    # The system calls on which a guarantee rests.
    calls = (("renameat2", HAS_RENAMEAT2), ("OFD locks", ofd_locks), ("inotify", HAS_INOTIFY))
    system = os.uname()
    said = ", ".join(f"{name} {'yes' if there else 'NO'}" for name, there in calls)
    yield f"{system.sysname} {system.release} {system.machine}: {said}"


def installed(names: Collection[str], folders: Iterable[str]) -> dict[str, str]:
    """Returns the versions of the packages ``names`` in ``folders``, of each the first one, as Python would import it."""
    found: dict[str, str] = {}
    for folder in folders:
        try:
            entries = os.listdir(folder or ".")
        except OSError:
            continue  # a zip file, or a folder that is not there, which sys.path may well name
        for entry in entries:
            if (match := re.fullmatch(_PACKAGE, entry)) and (name := match[1].lower().replace(".", "_")) in names:
                found.setdefault(name, match[2])
    return found


BROKEN_PIPE = 141
UNEXPECTED = 1
_OPENS_WITHIN = 2.0
"""Seconds after which the dashboard opens without its target."""


def run(
    words: Sequence[str],
    terminal: Terminal | None = None,
    *,
    dashboard: Dashboard,
    open_control: Opener | None = None,
) -> int:
    """Runs the command line ``words`` and returns the exit code. Raises nothing; with SPOOLTOP_DEBUG=1 it prints tracebacks."""
    terminal = terminal or Terminal()
    args = Arguments(terminal=terminal, dashboard=dashboard)
    if open_control is not None:
        args.open = open_control
    try:
        code = _run(words, args)
        terminal.flush()
        return code
    except BrokenPipeError:
        _leave_stdout(terminal)  # the reader of our output has seen enough
        return BROKEN_PIPE
    except KeyboardInterrupt as interrupt:
        number: int = interrupt.args[0] if interrupt.args else signal.SIGINT
        if number == signal.SIGINT:
            terminal.err("")
        return 128 + number
    except Exception as error:  # noqa: BLE001  the one place where what nobody foresaw becomes a line instead of a traceback
        is_traced = _debug(terminal)
        if isinstance(error, OutputFailed):
            _leave_stdout(terminal)
        if (known := _translated(error)) is not None:
            return _failed(words, terminal, str(known), known.exit_code)
        text = f"{type(error).__name__}: {error}; this is a defect: SPOOLTOP_DEBUG=1 shows where"
        return UNEXPECTED if is_traced else _failed(words, terminal, text, UNEXPECTED)


def _failed(words: Sequence[str], terminal: Terminal, text: str, code: int) -> int:
    """Prints what is wrong, where who called the command looks for it, and returns the exit code."""
    command, _ = command_of(words)
    if command.name != "check":
        terminal.error(text)
        return code
    from .commands.check import report, unknown

    (line,), code = report([("", unknown(text))])
    terminal.stdout.write(f"{line}\n")
    return code


def _run(words: Sequence[str], args: Arguments) -> int:
    terminal = args.terminal
    command, rest = command_of(words)
    before = [*takewhile("--".__ne__, rest)]
    if "-h" in before or "--help" in before:
        terminal.out(command.help())
        return 0
    if command is DASHBOARD and ("-V" in before or "--version" in before):
        return show_version(args)
    if command.name == "work":
        rest, args.command = before, rest[len(before) + 1 :]
    Parser(command).read(rest, args)
    _conceal_secrets(args)
    terminal.ascii, terminal.json = terminal.ascii or args.ascii, args.json
    if os.geteuid() == 0 and command.name not in ("help", "version"):
        _warn_of_mistrusted_settings(terminal)
    module, function = command.runs.split(":")
    runs: Callable[[Arguments], int] = getattr(importlib.import_module(f".{module}", __package__), function)
    return runs(args)


def _warn_of_mistrusted_settings(terminal: Terminal) -> None:
    """Says which settings file root does not read, and why."""
    from spooltop.settings import SYSTEM_FILE, files_of, why_not_read

    for file in files_of(terminal.environ):
        if why := why_not_read(file):
            terminal.error(f"warning: {escape(file)} is not read: {why}; root's settings: {SYSTEM_FILE}")


def show_help(args: Arguments) -> int:
    """Prints the help of ``spooltop help [COMMAND]``, the same as ``-h``."""
    if args.name is not None and args.name not in COMMANDS:
        near = near_command(args.name)
        raise UsageError(
            f"unknown command {args.name!r}", f"did you mean spooltop help {near}?" if near else "spooltop help lists them"
        )
    args.terminal.out((DASHBOARD if args.name is None else COMMANDS[args.name]).help())
    return 0


def _conceal_secrets(args: Arguments) -> None:
    """Replaces URLs with a password by names without it, which open the same: nothing that is printed can hold it then. Warns of
    the list of processes, which has it all the same."""
    paths: list[str] = getattr(args, "paths", [])
    single: dict[str, str] = {name: word for name in ("path", "to") if (word := getattr(args, name, None))}
    words = (*single.values(), *paths)
    if any(map(_is_misspelt_url, words)):
        raise UsageError("that is not the URL of a server", "write redis://HOST:6379/0#STREAM/GROUP")
    if not words:
        return
    from spooltop.backends.registry import conceal

    if any(map(has_password, words)):
        args.terminal.error("everybody here sees the password of that URL in ps; put it into SPOOLTOP_REDIS_PASSWORD instead")
    for name, word in single.items():
        setattr(args, name, conceal(word))
    args.paths = [*map(conceal, paths)]


def _is_misspelt_url(word: str) -> bool:
    """True for what was meant as the URL of a server and is taken for a path, with what may be a password in it."""
    before, at, _ = word.partition("@")
    meant = before.startswith(("redis", "valkey", "unix:")) and ":" in before and bool(at)
    return meant and not has_scheme(word) and not os.path.lexists(word)


def show_version(args: Arguments) -> int:
    """Prints the version on the first line, and below it those of what spooltop stands on."""

    args.terminal.out_each(versions())
    return 0


def dashboard(args: Arguments) -> int:
    """Opens the dashboard, or prints the status where none can be opened."""
    terminal = args.terminal
    _refuse_misspelt_commands(args.paths)
    try:
        _read_opening(args)
        targets = targets_of(args)
        if args.json or not terminal.can_draw:
            from .commands.status import report

            return report(args, targets)
        opened = partial(args.open, watch=True, who_writes=args.who_writes, **watching(args))
        control = None
        if len(targets) == 1:
            from spooltop.settings import load

            args.no_mouse = args.no_mouse or not load(terminal.environ).mouse
            # Of one that does not answer a line in the Spools view says so, keys answer, and it opens from there once it does.
            with suppress(DoesNotAnswer):
                control = args.patient(_OPENS_WITHIN).reach(targets[0], partial(opened, targets[0]))
        if control is not None:
            with control:
                return args.dashboard(control, args)
        from .several import spools_watch

        with closing(spools_watch(targets, args, opened)) as spools:
            return args.dashboard(spools, args)
    except NotASpool as error:
        path = args.paths[0] if args.paths else "."
        near = None if "/" in path or os.path.lexists(path) else near_command(path)
        if near is None or "did you mean" in error.advice:
            raise
        raise NotASpool(error.what, f"did you mean the command: spooltop {near}?", path=error.path) from None


def _read_opening(args: Arguments) -> None:
    """Reads what the dashboard opens with, before anything is opened. Raises ``UsageError`` for what makes no sense, also where
    a report is printed instead."""
    args.sort = sort_of(args.sort)
    if args.filter:
        args.view = args.view if args.view not in (None, "overview") else "new"
        if args.view in ("new", "claims", "tmp", "aside"):
            from spooltop.model import query

            query.parse(args.filter)  # raises; the other views have verdicts of their own, and say what they do not know


def _refuse_misspelt_commands(words: Sequence[str]) -> None:
    """Raises ``UsageError`` for the first of several words that is neither a path nor the pattern of one: it is a command, with
    its path behind it."""
    several = words if len(words) > 1 else ()
    for word, exists in zip(several, run_each(several, os.path.lexists, 1.0), strict=True):
        if not set(word) & set("/*?[~") and exists is False:
            near = near_command(word)
            raise UsageError(
                f"unknown command {word!r}",
                f"did you mean spooltop {near}?" if near else f"give paths, or a command: {', '.join(COMMANDS)}",
            )


def _translated(error: Exception) -> SpooltopError | None:
    """Returns the error that says what is wrong; None for a defect."""
    if isinstance(error, SpooltopError):
        return error
    # If a library cannot be opened for lack of descriptors there is no errno, only the text of the system's message.
    if isinstance(error, ImportError) and (words := os.strerror(errno.EMFILE)) in str(error):
        error = OSError(errno.EMFILE, words)
    if not isinstance(error, OSError):
        return None
    from spooltop.engine.syscalls import advice

    about = escape(os.fsdecode(error.filename)) if isinstance(error.filename, (str, bytes)) else None
    return Unreadable(error.strerror or str(error), advice(error), path=about)


def _leave_stdout(terminal: Terminal) -> None:
    """Replaces a broken stdout by /dev/null, so that the flush at interpreter exit does not fail again."""
    try:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, terminal.stdout.fileno())
        os.close(null)
    except (OSError, ValueError):
        return  # a stream without a descriptor has nothing to flush later


def _debug(terminal: Terminal) -> bool:
    if terminal.environ.get("SPOOLTOP_DEBUG", "") in ("", "0"):
        return False
    import traceback  # takes 4 ms, for nobody who sees no traceback

    traceback.print_exception(*sys.exc_info(), file=terminal.stderr)
    return True
