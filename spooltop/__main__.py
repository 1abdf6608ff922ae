"""``spooltop`` and ``python -m spooltop``."""

from __future__ import annotations

import os
import sys

from spooltop.startup import fork_if_fs_may_hang, targets

TYPE_CHECKING = False  # of our own: to load typing takes as long as all that stands before the first word on the screen
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Sequence

    from spooltop.control import Control
    from spooltop.startup import Leave

    from .cli.context import Dashboard
    from .monitor.spools_watch import SpoolsWatch
    from .tui.options import Options


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line ``argv`` (without the program's name); returns the exit code."""
    words = sys.argv[1:] if argv is None else argv
    if argv is None:  # the process is ours
        import atexit
        import gc

        gc.set_threshold(50_000, 20, 20)  # what is loaded is no garbage: to search it every 700 objects takes a tenth of a start
        atexit.register(gc.freeze)  # else the interpreter searches all of it once more before it ends
    leave, code = None, 128 + 2
    try:
        if argv is None:
            _load_msgspec()
        leave = fork_if_fs_may_hang(words, targets(words), os.environ)  # before there are threads
        from spooltop.cli.context import Terminal
        from spooltop.cli.main import run

        code = run(words, Terminal(), dashboard=_dashboard(leave))
    except KeyboardInterrupt:
        pass  # SIGINT while it was loaded: there is nothing to tell yet
    if argv is None:
        _leave_threads(code, leave)
    return code


def _load_msgspec() -> None:
    """Loads msgspec without ``typing_extensions``, where it looks first for names that are in ``typing`` since Python 3.11: that
    module takes a tenth of a start."""
    if "typing_extensions" not in sys.modules:
        sys.modules["typing_extensions"] = None  # type: ignore[assignment]  # an import of it fails
        import msgspec  # noqa: F401

        del sys.modules["typing_extensions"]


def _leave_threads(code: int, leave: Leave | None) -> None:
    """Ends this process at once where a thread hangs in a file system, which the interpreter would wait for, or may hang there.
    ``run`` has flushed what was printed. Streams are closed, as whoever reads them waits for their
    end."""
    calls = sys.modules.get("spooltop.run_each")  # where it was not loaded, nothing was called that may hang
    if leave is not None or (calls is not None and calls.is_thread_left()):
        try:
            sys.stdout.flush()
        except OSError:
            code = code or 1  # the disk is full, or nobody reads any more
        null = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(null, stream)
        if leave is not None:
            leave(code)
        os._exit(code)


def _dashboard(leave: Leave | None) -> Dashboard:
    def dashboard(shown: Control | SpoolsWatch, options: Namespace) -> int:
        from spooltop.control import Control

        clear = _first_words(shown.target if isinstance(shown, Control) else "")
        try:
            from . import tui  # Textual takes most of the time of a start: only the dashboard pays for it

            if isinstance(shown, Control):
                code = tui.run(shown, _drawn(options), clear)
            else:
                code = tui.run(None, _drawn(options), clear, shown)
        finally:
            clear()
        if leave is not None:
            sys.stdout.flush()
            leave(code)
        return code

    return dashboard


def _first_words(name: str) -> Callable[[], object]:
    """Writes a line that stands on the terminal while the dashboard is loaded, and returns what clears it."""
    def write(text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()

    columns = os.get_terminal_size(sys.stderr.fileno()).columns or 80  # 0: the terminal does not know its size
    write(f" spooltop {name}"[: max(0, columns - 14)] + "  looking...\r")
    return lambda: write("\r\x1b[K")


def _drawn(options: Namespace) -> Options:

    from . import tui

    mouse = not options.no_mouse
    drawn = tui.Options.of(os.environ, light=options.theme == "light", ascii=options.ascii, mouse=mouse)
    opening = {name: getattr(options, name) for name in ("view", "filter", "sort") if getattr(options, name, None)}
    return drawn.replace(banner=getattr(options, "banner", ""), **opening)


if __name__ == "__main__":
    sys.exit(main())
