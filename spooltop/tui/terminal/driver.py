"""The driver of the terminal, and the thread that writes to it. Textual's driver takes a process that was stopped from outside
for one that it suspended, writes each region of a frame whole, waits for a terminal that does not read, and wakes ten times a
second to ask for keys."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import sys
import threading
from codecs import getincrementaldecoder
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any

from textual._xterm_parser import XTermParser
from textual.app import App
from textual.drivers.linux_driver import LinuxDriver

from spooltop.stop_event import StopEvent

from .image import TerminalImage

_SCREEN = 2
"""The descriptor that is drawn on: stdout may be redirected."""
_BEGIN, _END = "\x1b[?2026h", "\x1b[?2026l"
"""Synchronized output: the beginning and the end of a frame, for terminals that know it."""
_READ = 4096
_UNFINISHED = 0.1
"""Seconds to wait for the rest of an escape sequence before asking the parser whether it was the Escape key."""
_OTHER_SCREEN = "\x1b[?1049"
"""The beginning of what enters and leaves the alternate screen."""


# Writes to the terminal in a thread of its own, with a bounded amount of output waiting.
#
# A terminal may stop reading for any time: the network stalls, a window is scrolled back. Nothing waits for it: output that it
# cannot take is left out, and once it reads again the whole screen is drawn.

_AT_MOST = 32_768
"""Bytes that may wait before further output is left out."""
_STEP = 512
"""Bytes per write, so that a slow terminal differs from one that does not read at all."""
_PATIENCE = 1.0
"""Seconds without any byte taken after which a terminal is given up on leaving."""


class ScreenWriter:
    """Writes to ``fd``. ``caught_up`` is called in the thread once all is written and something had been left out."""

    def __init__(self, fd: int, caught_up: Callable[[], object], *, at_most: int = _AT_MOST) -> None:
        self._fd = fd
        self._caught_up = caught_up
        self._at_most = at_most
        self._lock = threading.Condition()
        self._parts: deque[bytes] = deque()
        self._waiting = self._written = 0
        self._missed = self._ended = self._given_up = self._gone = False
        self._thread = threading.Thread(target=self._run, name="screen", daemon=True)
        self._thread.start()

    def put(self, data: bytes, *, always: bool = False) -> bool:
        """Adds output without blocking; False where it is left out: too much is waiting, or the terminal is gone."""
        with self._lock:
            if self._gone or (not always and (self._missed or self._waiting >= self._at_most)):
                self._missed = True
                return False
            self._parts.append(data)
            self._waiting += len(data)
            self._lock.notify()
            return True

    def leave_out(self) -> None:
        """Drops the output that waits, except what is being written."""
        with self._lock:
            self._waiting -= sum(map(len, self._parts))
            self._parts.clear()
            self._missed = False

    def end(self, patience: float = _PATIENCE) -> bool:
        """Waits until all is written, as long as some of it is within ``patience`` seconds. False where it was not, or the
        terminal is gone."""
        with self._lock:
            self._ended = True
            self._lock.notify()
        before = -1
        while self._thread.is_alive() and before != self._written:
            before = self._written
            self._thread.join(patience)
        self._given_up = True
        return not self._thread.is_alive() and not self._gone

    def _run(self) -> None:
        while (part := self._next()) is not None:
            try:
                self._write(part)
            except OSError:
                self._gone = True
                return  # nobody sees the rest
            with self._lock:
                self._waiting -= len(part)
                missed = self._missed and not self._parts
                self._missed = self._missed and not missed
            if missed:
                self._caught_up()

    def _next(self) -> bytes | None:
        with self._lock:
            while not self._parts and not self._ended:
                self._lock.wait()
            return self._parts.popleft() if self._parts else None

    def _write(self, data: bytes) -> None:
        at = 0
        while at < len(data) and not self._given_up:
            try:
                at += (wrote := os.write(self._fd, data[at : at + _STEP]))
                self._written += wrote
            except BlockingIOError:  # a program that shares the terminal may have set it
                writable = select.poll()
                writable.register(self._fd, select.POLLOUT)
                writable.poll()


class TerminalDriver(LinuxDriver):
    """Survives SIGSTOP and SIGCONT (signal(7)) from outside, as a debugger, ``kill`` or a frozen cgroup sends them.

    Nothing was suspended then. Starting again at SIGCONT, as Textual's driver does, makes a second reader and a second writer
    that are never ended: keys go to one of the two, the terminal stays raw and the process hangs on leaving.
    """

    drained = True
    """False where the terminal did not take the last output."""
    _encoding = sys.__stderr__.encoding if sys.__stderr__ is not None else "utf-8"
    _writer: ScreenWriter | None = None
    _leaving: StopEvent
    _in_step = False
    """True where the terminal knows synchronized output."""
    _held: asyncio.TimerHandle | None = None
    _drawn_for: object = None
    """The size of the terminal when the last frame came."""

    def __init__(self, app: App[Any], *, debug: bool = False, mouse: bool = True, size: tuple[int, int] | None = None) -> None:
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        self._image = TerminalImage()

    def start_application_mode(self) -> None:
        if self._key_thread is None or not self._key_thread.is_alive():
            self.exit_event = self._leaving = StopEvent()
        super().start_application_mode()  # type: ignore[no-untyped-call]
        report_size = signal.getsignal(signal.SIGWINCH)

        def resized(number: int, frame: FrameType | None) -> None:
            if callable(report_size):
                report_size(number, frame)
            self._loop.call_soon_threadsafe(self._paint_if_size_is_back)

        signal.signal(signal.SIGWINCH, resized)

    def run_input_thread(self) -> None:
        """Hands on what is typed, and sleeps until something is. The parser (of Textual 8.2) waits for a time only within an
        escape sequence."""
        parser = XTermParser(self._debug)
        decode = getincrementaldecoder("utf-8")().decode
        while not self._leaving.is_set():
            timeout = None if parser._timeout_time is None else _UNFINISHED
            readable, _, _ = select.select((self.fileno, self._leaving), (), (), timeout)
            if self.fileno in readable:
                typed = os.read(self.fileno, _READ)
                if not typed:
                    return  # the terminal is gone
                for event in parser.feed(decode(typed)):
                    self.process_message(event)
            for event in parser.tick():
                self.process_message(event)

    def write(self, data: str) -> None:
        if data in (_BEGIN, _END):
            self._in_step = True  # they are written around what a frame changes
            return
        if self._app.screen_stack:
            self._fit(self._app.screen_stack[-1].outer_size)
            if self._image.take(data):
                self._draw()
                return
        if _OTHER_SCREEN in data:
            self._image.forget()
        self._put(data, always=True)

    def hold(self, seconds: float) -> None:
        """Writes no frame until ``release`` is called, for at most this long: the next frame will replace it."""
        if self._held is None:
            self._held = self._loop.call_later(seconds, self.release)

    def release(self) -> None:
        """Writes what has been drawn since ``hold``."""
        if self._held is not None:
            self._held.cancel()
            self._held = None
            self._draw()

    def paint_all(self) -> None:
        """Writes every cell, whatever is on the terminal."""
        self._image.forget()
        self._draw()

    def _paint_if_size_is_back(self) -> None:
        """Writes every cell where the terminal had another size for a moment: it may have lost what did not fit. A frame comes
        where the size is another than before."""
        if self._image.size == self._get_terminal_size():
            self.paint_all()

    def _fit(self, size: tuple[int, int]) -> None:
        """Prepares for a frame of this size. A terminal with another size than before may show anything."""
        if size != self._image.size:
            self._image.resize(size)
        try:
            drawn_for = os.get_terminal_size(_SCREEN)
        except OSError:
            return  # it was closed, which the app notices
        if drawn_for != self._drawn_for:
            self._drawn_for = drawn_for
            self._image.forget()

    def _draw(self) -> None:
        if self._held is not None or self._writer is None:
            return
        difference = self._image.difference()
        if difference and not self._put(f"{_BEGIN}{difference}{_END}" if self._in_step else difference):
            self._image.forget()

    def _put(self, data: str, always: bool = False) -> bool:
        if self._writer is None:
            self._writer = ScreenWriter(_SCREEN, self._caught_up)
        return self._writer.put(data.encode(self._encoding, "backslashreplace"), always=always)

    def _caught_up(self) -> None:
        with suppress(RuntimeError):  # the loop has ended: nothing is drawn any more
            self._loop.call_soon_threadsafe(self.paint_all)

    def _enable_mouse_support(self) -> None:
        """Enables presses, releases and the wheel (1000), with coordinates of any size (1006), but never movements: each would be
        a message of the terminal, even over a slow line."""
        if self._mouse:
            self.write("\x1b[?1000h\x1b[?1006h")
            self.flush()

    def _disable_mouse_support(self) -> None:
        if self._mouse:
            self.write("\x1b[?1006l\x1b[?1000l")
            self.flush()

    def _enable_mouse_pixels(self) -> None:
        """Does nothing: clicks are on cells."""

    def stop_application_mode(self) -> None:
        if self._writer is not None:
            self._writer.leave_out()
        super().stop_application_mode()

    def close(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            self.drained = writer.end()
        super().close()

    _resuming = False

    def resume_application_mode(self) -> None:
        if self._resuming:
            return  # a second SIGCONT, while the handler of the first runs
        if self._key_thread is None or not self._key_thread.is_alive():
            self._resuming = True
            try:
                super().resume_application_mode()
            finally:
                self._resuming = False
            return
        # Called from the loop, because the code that this signal handler interrupted may hold the lock of the writer's queue.
        self._loop.call_soon_threadsafe(self._begin_anew)

    def _begin_anew(self) -> None:
        """Restores the terminal, which another program may have left in any state."""
        if self._key_thread is None or not self._key_thread.is_alive():
            return  # it has ended or was suspended
        self.suspend_application_mode()
        self._must_signal_resume = True  # makes the whole screen be painted again
        super().resume_application_mode()
