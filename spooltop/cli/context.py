"""Environment of a command: its streams and their properties, progress on one line of the terminal, and its arguments, which open
targets and the dashboard."""

from __future__ import annotations

import codecs
import json
import math
import os
import re
import select
import signal
import sys
import threading
import time
from argparse import Namespace
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO, TypeVar, cast

from spooltop.model import Snapshot, SpooltopError, Unavailable, UsageError, has_scheme
from spooltop.model.vocabulary import Clock, Closing, Environ, Row, cells, count, duration, fit, plain_locale, printable, rate
from spooltop.run_each import call_watched, run_each

if TYPE_CHECKING:
    from spooltop.control import Control
    from spooltop.monitor.spools_watch import SpoolsWatch

# Signals: of a worker, which receives them while it waits and sends them to its commands, and of what has to clean up.


def wait_for_wakeup(pipe: int, timeout: float) -> None:
    """Waits until the pipe ``pipe`` is readable, at most ``timeout`` seconds."""
    if select.select([pipe], [], [], timeout)[0]:
        os.read(pipe, 4096)


def signal_name(number: int) -> str:
    """Returns the name of a signal: ``SIGKILL``."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


@contextmanager
def signals_to(
    handler: Callable[[int], object], numbers: Sequence[int] = (signal.SIGINT, signal.SIGTERM), *, once: bool = False
) -> Iterator[None]:
    """Lets the signals ``numbers`` call ``handler``; with ``once`` only the first of each. In a thread nothing changes: only the
    main thread receives signals."""
    received = numbers if threading.current_thread() is threading.main_thread() else ()
    before = {number: signal.getsignal(number) for number in received}

    def handle(number: int, frame: FrameType | None) -> None:
        if once:
            signal.signal(number, before[number])
        handler(number)

    try:
        for number in before:
            signal.signal(number, handle)
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


@contextmanager
def signals_handled(stop: Callable[[], None], wake: Callable[[], object], wakeup_fd: int) -> Iterator[None]:
    """Lets SIGTERM and SIGINT call ``stop``; these and the end of a child call ``wake`` and write to ``wakeup_fd``.

    ``signal.set_wakeup_fd`` writes to ``wakeup_fd`` at once. A Python handler runs only between two steps of the interpreter:
    without the write, the end of a child just before the wait begins would be noticed only when the wait is over, an hour later.
    """

    def handle(number: int) -> None:
        if number != signal.SIGCHLD:
            stop()
        wake()

    with signals_to(handle, (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD)):
        pulled = signal.set_wakeup_fd(wakeup_fd, warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(pulled)


@contextmanager
def interrupted_by_signals() -> Iterator[None]:
    """Lets SIGINT, SIGTERM and SIGHUP raise ``KeyboardInterrupt`` with their number once, so that everything is cleaned up; the
    next ones are ignored until that is done."""
    which = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def stop(number: int) -> None:
        for one in which:
            signal.signal(one, signal.SIG_IGN)
        raise KeyboardInterrupt(number)

    with signals_to(stop, which):
        yield


_ASCII = str.maketrans(
    {
        "✗": "x", "✓": "+", "▌": ">", "→": "->", "·": "-", "…": "...", "—": "-", "≥": ">=", "≤": "<=", "×": "x", "↑": "^",
        "↓": "v", "µ": "u",
    }
)  # fmt: skip


SCHEMA = 1
"""Schema version in every object that is printed."""


class OutputFailed(SpooltopError):
    """Standard output cannot be written: a full disk, a closed descriptor."""


def dumps(thing: Mapping[str, Any]) -> str:
    """Encodes an object on a single line, in ASCII, so that no locale can corrupt it. Values that JSON does not have (NaN) become
    null."""
    try:
        return json.dumps(thing, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(thing), allow_nan=False)


def _finite(thing: Any) -> Any:
    if isinstance(thing, float):
        return thing if thing - thing == 0 else None  # infinite and NaN are the floats for which this does not hold
    if isinstance(thing, Mapping):
        return {key: _finite(value) for key, value in thing.items()}
    if isinstance(thing, Sequence) and not isinstance(thing, str):
        return [_finite(value) for value in thing]
    return thing


class Terminal:
    """Standard input, output and error, and the environment. ``ascii`` replaces other characters by ASCII. With ``json`` a
    command prints objects."""

    def __init__(
        self,
        stdin: TextIO | None = None,
        stdout: TextIO | None = None,
        stderr: TextIO | None = None,
        environ: Environ | None = None,
    ) -> None:
        self.json = False
        self.stdin = stdin or sys.stdin or _closed(0)
        self.stdout = stdout or sys.stdout or _closed(1)
        self.stderr = stderr or sys.stderr or _closed(2)
        self.environ = os.environ if environ is None else environ
        encoding = (getattr(self.stdout, "encoding", None) or "utf-8").lower().replace("-", "")
        poor = self.environ.get("TERM") == "linux" or plain_locale(self.environ)
        self.ascii = poor or encoding not in ("utf8", "utf16", "utf32")

    @property
    def out_is_terminal(self) -> bool:
        return self.stdout.isatty()

    @property
    def can_ask(self) -> bool:
        """True if a person can read a question and answer it."""
        seen = self.stdout.isatty() or self.stderr.isatty()
        return seen and (self.stdin.isatty() or _has_terminal())

    @property
    def can_draw(self) -> bool:
        """True if the terminal can be used by a full-screen program."""
        return self._can_erase and all(stream.isatty() for stream in (self.stdin, self.stdout, self.stderr))

    def out(self, line: str) -> None:
        """Prints a line on standard output."""
        with _translate_errors():
            self._write(self.stdout, line + "\n")

    def out_each(self, lines: Iterable[str]) -> None:
        """Prints lines on standard output."""
        for line in lines:
            self.out(line)

    def out_json(self, thing: Mapping[str, Any]) -> None:
        """Prints an object on standard output, with the version of its schema first."""
        self.out(dumps({"schema": SCHEMA, **thing}))

    def show(self, things: Iterable[Mapping[str, Any]], lines: Iterable[str]) -> None:
        """Prints the same as objects or as lines of text, and makes only what is printed."""
        if self.json:
            for thing in things:
                self.out_json(thing)
        else:
            self.out_each(lines)

    def err(self, line: str) -> None:
        """Prints a line on standard error and flushes it."""
        self._write(self.stderr, line + "\n")
        self.stderr.flush()

    @property
    def shows_progress(self) -> bool:
        """True if standard error is a terminal on which a line can be erased."""
        return self._can_erase and self.stderr.isatty()

    @property
    def coloured(self) -> bool:
        """True if standard output shows colours, and the user wants them (no-color.org)."""
        return self._can_erase and self.stdout.isatty() and not self.environ.get("NO_COLOR")

    @property
    def _can_erase(self) -> bool:
        return self.environ.get("TERM", "") not in ("", "dumb")

    @property
    def error_width(self) -> int:
        """The width of the terminal on standard error."""
        return self.width(self.stderr)

    def width(self, stream: TextIO) -> int:
        """The width of a terminal at present, 80 if it does not tell."""
        try:
            return os.get_terminal_size(stream.fileno()).columns or 80
        except (OSError, ValueError):
            return 80

    def status(self, text: str) -> None:
        """Shows progress on one line, which the next call overwrites; an empty text removes it. Does nothing unless
        ``shows_progress``. The cursor stays at the beginning of the line, also if that was wrapped meanwhile."""
        if self.shows_progress:
            mark = "..." if self.ascii else "…"
            shown = fit(printable(text), self.error_width - 1, cut="right", mark=mark).rstrip()
            self._write(self.stderr, f"\r\x1b[J{shown}\r" if text else "\r\x1b[J")
            self.stderr.flush()

    def error(self, text: str) -> None:
        """Prints what is wrong and what to do: one line ``spooltop: …``, wrapped between words on a terminal."""
        line = f"spooltop: {printable(text)}"
        if self.stderr.isatty():
            import shutil  # these two load the modules of five archive formats, for an error on a terminal
            import textwrap

            width = shutil.get_terminal_size((self.error_width, 24)).columns  # COLUMNS first
            line = textwrap.fill(line, max(20, width), break_long_words=False, break_on_hyphens=False)
        self.err(line)

    def ask(self, question: str) -> str:
        """Asks a question and returns the line that was typed; empty at the end of input."""
        self.stdout.flush()
        self._write(self.stderr, question)
        self.stderr.flush()
        if self.stdin.isatty():
            return self.stdin.readline()
        with open(_TTY, encoding="utf-8", errors="replace") as terminal:  # stdin gave the ids
            return terminal.readline()

    def lines(self) -> Iterator[str]:
        """Lines of standard input, decoded like file names: bytes that are not UTF-8 are kept (``os.fsdecode``)."""
        if self.stdin.isatty():
            self.err("spooltop: reading ids from the terminal, one a line; Ctrl-D ends, Ctrl-C cancels")
        try:
            for line in self.binary_in():
                yield os.fsdecode(line.rstrip(b"\r\n"))
        except OSError as error:
            raise UsageError(f"standard input: {os.strerror(error.errno or 0)}", "give it ids, one a line") from None

    def binary_in(self) -> BinaryIO:
        return cast("BinaryIO", getattr(self.stdin, "buffer", self.stdin))

    def write_bytes(self, data: bytes) -> None:
        with _translate_errors():
            self.stdout.flush()
            raw = cast("BinaryIO", getattr(self.stdout, "buffer", self.stdout))
            raw.write(data)
            raw.flush()

    def flush(self) -> None:
        with _translate_errors():
            self.stdout.flush()

    def _write(self, stream: TextIO, text: str) -> None:
        if self.ascii:
            text = text.translate(_ASCII)
        encoding = getattr(stream, "encoding", None) or "utf-8"
        stream.write(text.encode(encoding, "spooltop-bytes").decode(encoding))


_TTY = "/dev/tty"


def _has_terminal() -> bool:
    """True if this process has a controlling terminal, tty(4), on which it can ask although stdin is something else."""
    try:
        os.close(os.open(_TTY, os.O_RDWR | os.O_CLOEXEC | os.O_NOCTTY))
    except OSError:
        return False
    return True


def _bytes_of(error: UnicodeError) -> tuple[str, int]:
    r"""Escapes characters that the encoding cannot represent, in the form used for names: ``\xNN`` for each byte, so that the
    text can be pasted back."""
    assert isinstance(error, UnicodeEncodeError)  # only ever used to encode
    data = error.object[error.start : error.end].encode("utf-8", "surrogateescape")
    return "".join(f"\\x{byte:02x}" for byte in data), error.end


codecs.register_error("spooltop-bytes", _bytes_of)


@contextmanager
def _translate_errors() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputFailed(f"standard output: {os.strerror(error.errno or 0)}", "the output is incomplete") from None


def _closed(fd: int) -> TextIO:
    """Returns a stream for a descriptor that was already closed at the start. The descriptor is taken, so that no file of a spool
    gets its number. Reading and printing fail; errors are discarded."""
    null = os.open(os.devnull, os.O_WRONLY if fd != 1 else os.O_RDONLY)
    if null != fd:
        os.dup2(null, fd)
        os.close(null)
    return open(fd, "r" if fd == 0 else "w", encoding="utf-8", closefd=False)


# Progress on one line of the terminal, for whatever takes longer than a second. It is written to standard error, and only if that
# is a terminal: what a command prints is the same with and without it. The first line comes after a second, then at most ten a
# second, and the line is gone before anything else is printed. It has no colour. The cursor stays at its beginning: so it can be
# erased whole, even after a narrower window has wrapped it.

FIRST_AFTER = 1.0
EVERY = 0.1
_RATE_OVER = 5.0
"""Seconds over which the rate is taken: what comes next resembles what was last."""
_BAR = 20
_COUNTED = r"([0-9,]+) of ([0-9,]+) (.+)"


class ProgressLine(Closing):
    """A line such as ``requeue ███░░░ 12,300 of 40,000 · 3,100/s · 9s left · Ctrl-C stops between two items``. ``hint`` is its
    end. With ``shown`` False it is never shown: where each item has a line of its own on the same terminal."""

    def __init__(
        self, terminal: Terminal, what: str, *, total: int | None = None, hint: str = "", shown: bool = True,
        monotonic: Clock = time.monotonic,
    ) -> None:  # fmt: skip
        self._terminal = terminal
        self._what = what
        self._total = total
        self._hint = hint
        self._monotonic = monotonic
        self._shown = shown and terminal.shows_progress
        self._began = monotonic()
        self._next = self._began + FIRST_AFTER
        self._painted = False
        self._steps = deque([(self._began, 0)])

    def due(self) -> bool:
        """True if it is time to paint the line: called often, and answered fast."""
        return self._shown and self._monotonic() >= self._next

    def _paint(self, parts: Sequence[str]) -> None:
        self._next = self._monotonic() + EVERY
        self._painted = True
        self._terminal.status(_fitted([*parts, self._hint], self._terminal.error_width))

    def advance(self, done: int, total: int | None = None, words: str = "") -> None:
        """``done`` of ``total`` items are done; ``words`` say what happens to them. The bar is only where it fits."""
        if not self.due():
            return
        now = self._monotonic()
        if done < self._steps[-1][1]:
            self._steps = deque([(now, done)])  # the next part of the work, which counts anew
        self._steps.append((now, done))
        while len(self._steps) > 2 and now - self._steps[1][0] > _RATE_OVER:
            self._steps.popleft()
        began, before = self._steps[0]
        speed = (done - before) / (now - began) if now > began else None
        self._total = total if total is not None else self._total
        known = self._total if self._total is not None and self._total >= done > 0 else None
        counted = f"{count(done)} of {count(known)}" if known else count(done)
        counted += f" {words}" if words else ""
        barred = f"{self._what} {_bar(done / known, self._terminal.ascii)} {counted}" if known else ""
        head = barred if barred and cells(barred) < self._terminal.error_width else f"{self._what} {counted}"
        self._paint([head, rate(speed) if speed else "", _left((known - done) / speed if known and speed else None)])

    def tell(self, words: str) -> None:
        """Shows progress that comes in words: ``230,000 of 300,000 claims judged``. Other words are shown as they are."""
        if not self.due():
            return
        if found := re.fullmatch(_COUNTED, words):
            self.advance(int(found[1].replace(",", "")), int(found[2].replace(",", "")), found[3])
        else:
            self._paint([self._what, words])

    def wait(self, step: str) -> None:
        """Shows what one long call is at, and for how long it has lasted."""
        if self.due():
            self._paint([self._what, step, duration(self._monotonic() - self._began)])

    def share(self, share: float, words: str) -> None:
        """``share`` (0 to 1) of the work is done; ``words`` say what is being done."""
        if self.due():
            left = (self._monotonic() - self._began) * (1 - share) / share if share > 0 else None
            self._paint([f"{self._what} {_bar(share, self._terminal.ascii)} {share:.0%}", words, _left(left)])

    def advanced(self, share: float, rows: Sequence[Row], count: int) -> None:
        """Shows the progress of a list that is made, as ``model.backend.ListProgress``."""
        self.share(share, "")

    def close(self) -> None:
        """Erases the line. It may be painted again."""
        if self._painted:
            self._painted = False
            self._terminal.status("")


def _left(seconds: float | None) -> str:
    return "" if seconds is None else f"{duration(max(1.0, seconds))} left"


def _bar(share: float, ascii: bool) -> str:
    full = int(_BAR * share)
    return f"[{'#' * full}{'-' * (_BAR - full)}]" if ascii else f"{'█' * full}{'░' * (_BAR - full)}"


def _fitted(parts: Sequence[str], width: int) -> str:
    """Joins the parts, without what does not fit into ``width`` cells: first the hint goes, then the rest from its end."""
    kept = [part for part in parts if part]
    while len(kept) > 1 and cells(" · ".join(kept)) >= width:
        kept.pop()
    return " · ".join(kept)


@contextmanager
def while_waiting(terminal: Terminal, what: str, step: Callable[[], str] = str) -> Iterator[None]:
    """Shows ``what`` is waited for, its current ``step`` and for how long, while one call takes its time."""
    if not terminal.shows_progress:
        yield
        return
    ended, line = threading.Event(), ProgressLine(terminal, what)

    def show() -> None:
        while not ended.wait(5 * EVERY):
            line.wait(step())

    thread = threading.Thread(target=show, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        line.close()


# The arguments.

R = TypeVar("R")

DONE, SOME, REFUSED, NOTHING_MATCHED, INTERRUPTED = 0, 1, 3, 4, 130
"""Exit codes of commands that choose messages."""
PATIENCE = 10.0
"""Seconds after which a file system is said not to answer: a disk that slept has spun up by then."""
_FIRST = 1.0
"""Seconds within which a path tells whether it is a target. One that does not is a target: whoever opens it says that it does not
answer."""

Opener = Callable[..., "Control"]
Dashboard = Callable[["Control | SpoolsWatch", Namespace], int]
"""Opens the dashboard on a control, or the Spools view on several targets. The options are ``read_only``, ``ascii``, ``theme``
(None, light, dark) and ``banner`` (the last line of the demo, else absent)."""


def answered(snapshot: Snapshot, path: str) -> Snapshot:
    """Returns the snapshot. Raises ``Unavailable`` for that of a server that has not answered at all."""
    watch = snapshot.observation.watch
    if watch.away and watch.seen_at is None:
        raise Unavailable(watch.reason, watch.advice, path=path)
    return snapshot


def _open_control(path: str, **options: Any) -> Control:
    from spooltop.control import open_control

    return open_control(path, **options)


class Arguments(Namespace):
    """Arguments of a command, as ``Parser`` reads them, and its environment. ``open`` takes the arguments of
    ``control.open_control``."""

    path: Any
    terminal: Terminal
    dashboard: Dashboard
    open: Opener = staticmethod(_open_control)
    patience: float = PATIENCE
    """Seconds after which a file system that a command reads does not answer."""

    def patient(self, seconds: float) -> Arguments:
        """Returns the same with another patience."""
        return Arguments(**{**vars(self), "patience": seconds})

    def control(self, path: str | None = None, *, watch: bool = False, owners: bool = True) -> Control:
        """Opens the target of a command that looks or changes once, by default its path (``here_or``). With ``watch``, it also
        receives the changes that happen meanwhile; ``owners`` as in ``control.open_control``."""
        if path is None:
            path = self.path = here_or(self)
        with while_waiting(self.terminal, "opening"):
            return self.open(path, watch=watch, owners=owners, patience=self.patience, **watching(self))

    def reach(self, path: str, call: Callable[[], R]) -> R:
        """Returns the result of ``call``, the first one that touches ``path``. Raises ``DoesNotAnswer`` where that hangs."""
        with while_waiting(self.terminal, "opening"):
            return call_watched(call, math.inf if has_scheme(path) else self.patience, path)


def watching(args: Arguments) -> dict[str, Any]:
    """Returns the options of ``control.open_control`` that the arguments of a command give."""
    names = ("read_only", "as_kind", "poll_logs", "cursor_files", "redis_tickets", "locks", "syslog")
    return {name: given for name in names if (given := getattr(args, name, None))}


def here_or(args: Arguments) -> str:
    """Returns the path of a command; without one, the current directory if it can be opened, else the directory of the first
    cursor file. Raises ``UsageError`` if there is none of these."""
    if args.path is not None:
        return str(args.path)
    from spooltop.targets import identify_target

    def is_target(path: str) -> bool:
        try:
            identify_target(path, as_kind=args.as_kind)
        except SpooltopError:
            return False
        return True

    if run_each(["."], is_target, _FIRST) != [False]:
        return "."
    if args.cursor_files:
        return os.path.dirname(args.cursor_files[0]) or "."
    raise UsageError("no spool given, and the current directory is not one", "spooltop PATH, or spooltop -h")


def targets_of(args: Arguments, *, strict: bool = False) -> list[str]:
    """Returns the targets of a command that takes several, each once: those of its words, else those of the setting ``paths``,
    else as ``here_or``. ``strict`` as of ``targets.find_targets``."""
    from spooltop.backends.registry import conceal
    from spooltop.settings import load
    from spooltop.targets import find_targets, is_spool_at

    named = args.paths or [*map(conceal, load(args.terminal.environ).items("paths"))]
    if not named:
        return [here_or(args)]
    if args.cursor_files:
        return list(dict.fromkeys(named))  # a cursor file makes a target of any directory
    if len(named) == 1 and run_each(named, is_spool_at, _FIRST) != [False]:
        return [named[0]]
    return find_targets(named, args.as_kind, strict=strict)
