"""The three streams of a command and their properties."""

from __future__ import annotations

import codecs
import json
import os
import select
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any, BinaryIO, TextIO, cast

from spooltop.errors import SpooltopError, UsageError
from spooltop.model.vocabulary import escape, plain_locale

# Signals: of a worker, which receives them while it waits and sends them to its commands, and of what has to clean up.


def wait_for_wakeup(pipe: int, timeout: float) -> None:
    """Waits until the pipe ``pipe`` is readable, at most ``timeout`` seconds."""
    if select.select([pipe], [], [], timeout)[0]:
        os.read(pipe, 4096)


def signal_group(pid: int, number: int) -> None:
    """Sends a signal to all processes of a process group that still exist."""
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        return  # all of it has ended


def signal_name(number: int) -> str:
    """Returns the name of a signal: ``SIGKILL``."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


@contextmanager
def signals_to(handler: Callable[[int], None], *numbers: int, once: bool = False) -> Iterator[None]:
    """Lets the signals ``numbers`` call ``handler``; with ``once`` only the first of each. In a thread nothing changes: only the
    main thread receives signals."""
    before: dict[int, Any] = {}

    def handle(number: int, frame: FrameType | None) -> None:
        if once:
            signal.signal(number, before[number])
        handler(number)

    try:
        for number in numbers:
            before[number] = signal.getsignal(number)
            signal.signal(number, handle)
    except ValueError:
        before = {}  # only the main thread may set them
    try:
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

    with signals_to(handle, signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
        pulled = signal.set_wakeup_fd(wakeup_fd, warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(pulled)


@contextmanager
def signals_received(*numbers: int, once: bool = False) -> Iterator[list[int]]:
    """Collects the signals ``numbers``, as ``signals_to``: what is done can stop between two items."""
    received: list[int] = []
    with signals_to(received.append, *numbers, once=once):
        yield received


@contextmanager
def interrupted_by_signals() -> Iterator[None]:
    """Lets SIGINT, SIGTERM and SIGHUP raise ``KeyboardInterrupt`` with their number once, so that everything is cleaned up; the
    next ones are ignored until that is done."""
    which = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def stop(number: int) -> None:
        for one in which:
            signal.signal(one, signal.SIG_IGN)
        raise KeyboardInterrupt(number)

    with signals_to(stop, *which):
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


def printable(text: str) -> str:
    """Returns ``text`` on one line without anything that a terminal would interpret. Escaped names in it are unchanged."""
    return text if text.isprintable() else "".join(char if char.isprintable() else escape(char) for char in text)


class Terminal:
    """Standard input, output and error, and the environment. ``ascii`` replaces other characters by ASCII. With ``json`` a
    command prints objects. ``columns`` is the width of the terminal; None: the width at the time of writing."""

    def __init__(
        self,
        stdin: TextIO | None = None,
        stdout: TextIO | None = None,
        stderr: TextIO | None = None,
        environ: Mapping[str, str] | None = None,
        columns: int | None = None,
    ) -> None:
        self.columns = columns
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
    def width(self) -> int:
        """The width of the terminal on standard output."""
        return self._width(self.stdout)

    @property
    def error_width(self) -> int:
        """The width of the terminal on standard error."""
        return self._width(self.stderr)

    def _width(self, stream: TextIO) -> int:
        """The width of a terminal at present, 80 if it does not tell."""
        if self.columns is not None:
            return self.columns
        try:
            return os.get_terminal_size(stream.fileno()).columns or 80
        except (OSError, ValueError):
            return 80

    def status(self, text: str) -> None:
        """Shows progress on one line, which the next call overwrites; an empty text removes it. Does nothing unless
        ``shows_progress``. The cursor stays at the beginning of the line, also if that was wrapped meanwhile."""
        if self.shows_progress:
            from spooltop.model.units import fit  # not for those commands that take no time

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

            width = shutil.get_terminal_size().columns if self.columns is None else self.columns
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
            raise UsageError(f"standard input: {os.strerror(error.errno or 0)}", advice="give it ids, one a line") from None

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
        raise OutputFailed(
            f"standard output: {os.strerror(error.errno or 0)}", advice="the output is incomplete"
        ) from None


def _closed(fd: int) -> TextIO:
    """Returns a stream for a descriptor that was already closed at the start. The descriptor is taken, so that no file of a spool
    gets its number. Reading and printing fail; errors are discarded."""
    null = os.open(os.devnull, os.O_WRONLY if fd != 1 else os.O_RDONLY)
    if null != fd:
        os.dup2(null, fd)
        os.close(null)
    return open(fd, "r" if fd == 0 else "w", encoding="utf-8", closefd=False)
