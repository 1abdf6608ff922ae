"""The driver of the terminal: Textual's, which takes a process that was stopped behind its back for one that it suspended, and
ends each line of a frame with a line feed."""

from __future__ import annotations

from textual.drivers.linux_driver import LinuxDriver

__all__ = ["TerminalDriver"]


class TerminalDriver(LinuxDriver):
    """Survives SIGSTOP and SIGCONT (signal(7)) from outside, as a debugger, ``kill`` or a frozen cgroup sends them.

    Nothing was suspended then: beginning anew, as the driver does at SIGCONT, starts a second reader and a second writer beside
    the first ones, which nobody ends: keys go to one of the two, the terminal stays raw and the process hangs as it leaves.
    """

    def write(self, data: str) -> None:
        # Each line of a frame is moved to. On a terminal that has fewer of them by now, a line feed would scroll it all away.
        super().write(data.replace("\n", ""))

    _resuming = False

    def resume_application_mode(self) -> None:
        if self._resuming:
            return  # a second SIGCONT, while the handler of the first is at it
        if self._key_thread is None or not self._key_thread.is_alive():
            self._resuming = True
            try:
                super().resume_application_mode()
            finally:
                self._resuming = False
            return
        # From the loop: this is a signal handler, and what it interrupted may hold the lock of the writer's queue.
        self._loop.call_soon_threadsafe(self._begin_anew)

    def _begin_anew(self) -> None:
        """Whoever had the terminal meanwhile may have left it in any state."""
        if self._key_thread is None or not self._key_thread.is_alive():
            return  # it ended, or was suspended, since
        self.suspend_application_mode()
        self._must_signal_resume = True  # said once it is on again: the screen is painted whole
        super().resume_application_mode()
