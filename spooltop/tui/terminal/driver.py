"""The driver of the terminal. Textual's driver takes a process that was stopped from outside for one that it suspended, ends each
line of a frame with a line feed, waits for a terminal that does not read, and wakes ten times a second to ask for keys."""

from __future__ import annotations

import os
import select
import sys
from codecs import getincrementaldecoder
from contextlib import suppress

from textual._xterm_parser import XTermParser
from textual.drivers.linux_driver import LinuxDriver

from spooltop.stop_event import StopEvent

from .writer import ScreenWriter

__all__ = ["TerminalDriver"]

_SCREEN = 2
"""The descriptor that is drawn on: stdout may be redirected."""
_BEGIN, _END = "\x1b[?2026h", "\x1b[?2026l"
"""Synchronized output: the beginning and the end of a frame, for terminals that know it."""
_READ = 4096
_UNFINISHED = 0.1
"""Seconds to wait for the rest of an escape sequence before asking the parser whether it was the Escape key."""


class TerminalDriver(LinuxDriver):
    """Survives SIGSTOP and SIGCONT (signal(7)) from outside, as a debugger, ``kill`` or a frozen cgroup sends them.

    Nothing was suspended then. Starting again at SIGCONT, as Textual's driver does, makes a second reader and a second writer
    that are never ended: keys go to one of the two, the terminal stays raw and the process hangs on leaving.
    """

    drained = True
    """False where the terminal did not take the last output."""
    _encoding = sys.__stderr__.encoding if sys.__stderr__ is not None else "utf-8"
    _writer: ScreenWriter | None = None
    _begin = ""
    _taken = True
    _leaving: StopEvent

    def start_application_mode(self) -> None:
        if self._key_thread is None or not self._key_thread.is_alive():
            self.exit_event = self._leaving = StopEvent()
        super().start_application_mode()  # type: ignore[no-untyped-call]

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
        if self._writer is None:
            self._writer = ScreenWriter(_SCREEN, self._caught_up)
        if data == _BEGIN:
            self._begin = data  # is written with its frame, or not at all
        elif data == _END:
            if self._taken and not self._begin:
                self._put(data, always=True)
            self._begin = ""
        else:
            # Each line of a frame begins with a cursor movement. In a window with fewer lines by now, a line feed would scroll.
            self._taken = self._put(self._begin + data.replace("\n", ""))
            self._begin = ""

    def _put(self, data: str, always: bool = False) -> bool:
        assert self._writer is not None
        return self._writer.put(data.encode(self._encoding, "backslashreplace"), always=always)

    def _caught_up(self) -> None:
        with suppress(RuntimeError):  # the loop has ended: nothing is drawn any more
            self._loop.call_soon_threadsafe(self._paint_all)

    def _paint_all(self) -> None:
        if self._writer is not None and self._app.screen_stack:
            self._app.refresh(layout=True)
            self._app.screen.refresh(layout=True)

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
