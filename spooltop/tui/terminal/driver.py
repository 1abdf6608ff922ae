"""The driver of the terminal. Textual's driver takes a process that was stopped from outside for one that it suspended, ends each
line of a frame with a line feed, and waits for a terminal that does not read."""

from __future__ import annotations

import sys
from contextlib import suppress

from textual.drivers.linux_driver import LinuxDriver

from .writer import ScreenWriter

__all__ = ["TerminalDriver"]

_SCREEN = 2
"""The descriptor that is drawn on: stdout may be redirected."""
_BEGIN, _END = "\x1b[?2026h", "\x1b[?2026l"
"""Synchronized output: the beginning and the end of a frame, for terminals that know it."""


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
