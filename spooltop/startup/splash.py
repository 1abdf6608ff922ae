"""What stands on the terminal while the dashboard is being loaded: its name, at once, on the screen it will draw on, and how many
messages wait as soon as they are counted.

Loading Textual takes some hundred milliseconds; a terminal that shows nothing for so long makes people press keys. This module
loads nothing but what the interpreter has loaded already; the thread that counts loads a few milliseconds' worth.
"""

from __future__ import annotations

import _thread
import os
import sys

TYPE_CHECKING = False  # typing takes as long to load as all of this takes to run
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["Splash", "target", "wanted"]

_PLAIN = ("-h", "--help", "-V", "--version", "--json", "--headless")
"""With one of these words the dashboard does not open, whatever else is said."""
_OPENS = ("new", "cursors.json", "seq")
"""What a target that can be opened has in it, or is called."""

_ENTER = "\x1b[?1049h\x1b[?25l\x1b[H\x1b[2J"
_LEAVE = "\x1b[?25h\x1b[?1049l"


def wanted(words: Sequence[str], environ: Mapping[str, str], ask: bool = True) -> str | None:
    """What to call the target where these words will most likely open the dashboard, None where they will not. A guess by one
    ``stat`` (without one where ``ask`` is False): who it is wrong for gets the screen back before the first word."""
    if environ.get("TERM", "") in ("", "dumb") or any(word.split("=")[0] in _PLAIN for word in words):
        return None
    if words[:1] == ["demo"]:
        return "demo"
    path = target(words)
    if ask and os.path.basename(path) not in _OPENS and not any(os.path.exists(os.path.join(path, name)) for name in _OPENS):
        return None
    return path if path.isascii() and path.isprintable() else ""


def target(words: Sequence[str]) -> str:
    """What these words most likely open."""
    paths = [word for word in words if not word.startswith("-")]
    return paths[-1] if paths else "."


class Splash:
    """Up from ``show`` until ``hand_over`` (the dashboard draws now) or ``hide`` (something is to be said instead). It is down
    from the start where nothing was painted; then all do nothing."""

    def __init__(self, fd: int | None = None, called: str = "", columns: int = 80) -> None:
        self._fd = fd
        self._called = called
        self._columns = columns
        self._lock = _thread.allocate_lock()
        self.counted: int | None = None
        """How many names stand in ``new``, once that is known."""

    @classmethod
    def show(
        cls, words: Sequence[str], environ: Mapping[str, str], fds: tuple[int, int, int] = (0, 1, 2), ask: bool = True
    ) -> Splash:
        """Paints where all three streams are a terminal and the words open the dashboard, and begins to count. ``ask`` False:
        the file system of the target may never answer."""
        try:
            if not all(os.isatty(fd) for fd in fds) or (called := wanted(words, environ, ask)) is None:
                return cls()
            splash = cls(fds[2], called, os.get_terminal_size(fds[2]).columns or 80)  # 0: nobody told the terminal its size
        except OSError:
            return cls()  # a terminal that cannot be written to is told of by whoever needs it
        try:
            _write(fds[2], _ENTER + splash._line())
            if words[:1] != ["demo"]:
                _thread.start_new_thread(splash.count, (os.path.join(target(words), "new"),))
        except OSError:
            return cls()
        except KeyboardInterrupt:
            splash.hide()
            raise
        return splash

    def count(self, path: str) -> None:
        """Counts the names in ``path`` and paints their number while it is up. What goes wrong is told by the first look."""
        from spooltop.backends.directory.scan import getdents

        try:
            fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                found = getdents.count(fd)
            finally:
                os.close(fd)
            with self._lock:
                self.counted = found
                if self._fd is not None:
                    _write(self._fd, "\x1b[H" + self._line() + "\x1b[K")
        except OSError:
            return

    def _line(self) -> str:
        text = f" spooltop {self._called}"
        after = "  looking..." if self.counted is None else f"  new {self.counted:,}  looking..."
        keep = max(0, self._columns - 1 - len(after))
        return (text[:keep] + after)[: max(0, self._columns - 1)]

    @property
    def up(self) -> bool:
        """True while it is what the terminal shows."""
        return self._fd is not None

    def hand_over(self) -> None:
        """The dashboard takes the screen as it is, and gives it back at its end."""
        with self._lock:
            self._fd = None

    def hide(self) -> None:
        """Gives the terminal back as it was."""
        # A signal may come while this thread holds the lock: it is waited for so long only as a write takes.
        held = self._lock.acquire(timeout=0.2)
        fd, self._fd = self._fd, None
        if held:
            self._lock.release()
        if fd is not None:
            try:
                _write(fd, _LEAVE)
            except OSError:
                return  # the terminal went away meanwhile: nobody sees it

    def end_by_signal(self, number: int, frame: object) -> None:
        """A handler for signals that come while it is up."""
        self.hide()
        sys.exit(128 + number)


def _write(fd: int, text: str) -> None:
    data = text.encode("ascii")
    while data:
        data = data[os.write(fd, data) :]
