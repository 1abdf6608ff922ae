"""The dashboard. ``run`` opens it and returns the exit code; importing this package loads no Textual.

``threads`` look at the spool and post what they found, plan and apply. ``app`` hands that to the screen in front. ``screens``
keep what the user chose and ask ``draw`` for lines, which ``widgets`` paint. A key looks up its command in ``commands``.
``Session`` (in ``screens.base``) is the part of all this that a screen may use.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from spooltop.model import Environ

from .options import Options

if TYPE_CHECKING:
    from spooltop.control import Control
    from spooltop.monitor.spools_watch import SpoolsWatch


__all__ = ["Options", "run", "why_no_dashboard"]


def why_no_dashboard(environ: Environ, *, terminal: bool) -> str | None:
    """Says why the dashboard cannot run and a plain report is printed instead; None where it can. ``terminal``: stdin and stderr
    are a terminal."""
    if not terminal:
        return "stdin or stderr is not a terminal"
    if environ.get("TERM", "") in ("", "dumb"):
        return f"TERM={environ.get('TERM', '')} cannot place a cursor"
    return None


def run(control: Control | None, options: Options, opening: Callable[[], object], spools: SpoolsWatch | None = None) -> int:
    """Opens the dashboard on the terminal of this process and returns the exit code (143 and 129 after SIGTERM and SIGHUP): that
    of one target, or the Spools view on several, ``spools``. Raises ``OSError`` where there are no descriptors left.

    Textual draws on stderr. Call it in the main thread, after ``why_no_dashboard`` said None. The caller closes ``control`` or
    ``spools``. ``opening`` is called when all is loaded, just before the terminal is taken.
    """
    # Textual reads these when it is imported. An animated page costs 272 kB, and a key waits for a frame.
    os.environ["TEXTUAL_ANIMATIONS"] = "none"
    os.environ.setdefault("TEXTUAL_FPS", "60")
    os.environ["TEXTUAL_SMOOTH_SCROLL"] = "0"  # otherwise mouse coordinates would be taken for pixels
    if spools is not None:
        spools.count()  # while Textual is loaded
    from .threads import SnapshotThread, read_kept

    snapshot_thread = kept = None
    if control is not None:
        snapshot_thread = SnapshotThread(control)
        snapshot_thread.start()  # waits for the disk while Textual is loaded
        kept = None if options.banner else read_kept(control)
    try:
        import asyncio

        from .app import SpooltopApp
        from .terminal.lifecycle import event_loop, require_descriptors, silence_output

        require_descriptors()
        app = SpooltopApp(control, options, snapshot_thread=snapshot_thread, kept=kept and kept(), spools=spools)
    except BaseException:
        # A thread that outlives the interpreter aborts the process where no descriptor is left to import what ends threads.
        if snapshot_thread is not None:
            snapshot_thread.stop(timeout=1.0)
        raise
    opening()
    # Loaded objects stay alive: a collection that visits them would delay keys by some 50 ms, again and again under load.
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    with asyncio.Runner(loop_factory=event_loop) as runner:
        runner.run(app.run_async(mouse=options.mouse))
    app.finish()
    if not app.terminal_drained():
        silence_output()
    for line in [] if options.banner else app.goodbye():
        print(line, file=sys.stdout)
    return app.return_code or 0
