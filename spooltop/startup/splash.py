"""First screen while the dashboard is being loaded: paints the name of the target at once, on the screen that the dashboard will
use, and the number of waiting messages as soon as they are counted.

Loading Textual takes some hundred milliseconds; a terminal that shows nothing for that long makes people press keys. This module
imports only what the interpreter has already loaded; the counting thread imports a few milliseconds' worth.
"""

from __future__ import annotations

import _thread
import os
import sys

TYPE_CHECKING = False  # typing takes as long to load as all of this takes to run
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_PLAIN = ("-h", "--help", "-V", "--version", "--json", "--headless")
"""Words that keep the dashboard from opening, whatever the other words are."""
_WITH_VALUE = ("--as", "--cursor-file", "--filter", "--poll-log", "--redis-tickets", "--sort", "--theme", "--view")
"""Options of the dashboard that take the next word."""
_OPENS = ("new", "cursors.json", "seq")
"""Names that mark a target that can be opened: names in the directory, or the name of the target itself."""

_ASKED_WITHIN = 0.5
"""Seconds that a file system has to answer."""
_ENTER = "\x1b[?1049h\x1b[?25l\x1b[H\x1b[2J"
_LEAVE = "\x1b[?25h\x1b[?1049l"


def wanted(words: Sequence[str], environ: Mapping[str, str], ask: bool = True) -> str | None:
    """Returns the name to show for the target if the dashboard will most likely open, else None. The decision takes a single
    ``stat`` (none if ``ask`` is False). If it is wrong, the screen is restored before anything is printed."""
    if environ.get("TERM", "") in ("", "dumb") or any(word.split("=")[0] in _PLAIN for word in words):
        return None
    if words[:1] == ["demo"]:
        return "demo"
    path = target(words)
    if "://" in path:
        return None  # nothing to count, and it may hold a password
    if ask and os.path.basename(path) not in _OPENS and not _opens(path):
        return None
    return path if path.isascii() and path.isprintable() else ""


def _opens(path: str) -> bool:
    """Returns whether ``path`` holds a name that marks a target. False too where that is not known soon: a file system may never
    answer."""
    found: list[str] = []
    asked = _thread.allocate_lock()
    asked.acquire()

    def ask() -> None:
        found.extend(name for name in _OPENS if os.path.exists(os.path.join(path, name)))
        asked.release()

    _thread.start_new_thread(ask, ())
    asked.acquire(timeout=_ASKED_WITHIN)
    return bool(found)


def target(words: Sequence[str]) -> str:
    """Returns the path that these words most likely open."""
    return targets(words)[-1]


def targets(words: Sequence[str]) -> list[str]:
    """Returns all paths that these words may open."""
    found = [word for before, word in zip(("", *words), words, strict=False) if word[:1] != "-" and before not in _WITH_VALUE]
    return found or ["."]


class Splash:
    """The splash screen. It is up from ``show`` until ``hand_over`` (the dashboard draws now) or ``hide`` (a message is to be
    printed instead). If nothing was painted, it is down from the start and all methods do nothing."""

    def __init__(self, fd: int | None = None, called: str = "", columns: int = 80) -> None:
        self._fd = fd
        self._called = called
        self._columns = columns
        self._lock = _thread.allocate_lock()
        self.counted: int | None = None
        """Number of names in ``new``; None until it is known."""

    @classmethod
    def show(
        cls, words: Sequence[str], environ: Mapping[str, str], fds: tuple[int, int, int] = (0, 1, 2), ask: bool = True
    ) -> Splash:
        """Paints the splash and starts counting if all three streams are terminals and the words open the dashboard. ``ask``
        False: the file system of the target may never answer."""
        try:
            if not all(os.isatty(fd) for fd in fds) or (called := wanted(words, environ, ask)) is None:
                return cls()
            splash = cls(fds[2], called, os.get_terminal_size(fds[2]).columns or 80)  # 0: the terminal does not know its size
        except OSError:
            return cls()  # the code that needs the terminal reports that it cannot be written
        try:
            _write(fds[2], _ENTER + splash._line())
            if words[:1] != ["demo"]:
                # Before there are two threads: Python 3.13 puts another module in the place of this one while it is loaded, and a
                # thread that waits for that gets the first one, which is empty.
                import collections.abc  # noqa: F401

                _thread.start_new_thread(splash.count, (os.path.join(target(words), "new"),))
        except OSError:
            return cls()
        except KeyboardInterrupt:
            splash.hide()
            raise
        return splash

    def count(self, path: str) -> None:
        """Counts the names in ``path`` and paints their number while the splash is up. Errors are ignored: the dashboard's first
        scan reports them."""
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
        """True while the splash is on the terminal."""
        return self._fd is not None

    def hand_over(self) -> None:
        """Leaves the screen as it is to the dashboard, which restores the terminal at its end."""
        with self._lock:
            self._fd = None

    def hide(self) -> None:
        """Restores the terminal."""
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
        """Handles signals that arrive while the splash is up."""
        self.hide()
        sys.exit(128 + number)


def _write(fd: int, text: str) -> None:
    data = text.encode("ascii")
    while data:
        data = data[os.write(fd, data) :]
