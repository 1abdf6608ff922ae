"""``spooltop`` and ``python -m spooltop``."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .curtain import Curtain

if TYPE_CHECKING:
    from argparse import Namespace

    from .cli.context import Dashboard
    from .control import Control

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Does what the words of ``argv`` (without the program's name) say; returns the exit code."""
    words = sys.argv[1:] if argv is None else argv
    curtain = Curtain.drop(words, os.environ)  # before anything that takes time to load
    try:
        if curtain.up:
            import gc
            import signal

            gc.disable()  # until the dashboard is loaded: nothing of that is garbage

            signal.signal(signal.SIGTERM, curtain.end_by_signal)
            signal.signal(signal.SIGHUP, curtain.end_by_signal)
        from .cli.main import run
        from .cli.terminal import Terminal

        return run(words, Terminal(before_words=curtain.lift), dashboard=_dashboard(curtain))
    finally:
        curtain.lift()


def _dashboard(curtain: Curtain) -> Dashboard:
    def dashboard(control: Control, options: Namespace) -> int:
        from dataclasses import replace

        from . import tui  # Textual takes most of the time of a start: only the dashboard pays for it

        drawn = tui.Options.of(os.environ, light=options.theme == "light", ascii=options.ascii)
        drawn = replace(drawn, banner=getattr(options, "banner", ""), counted=lambda: curtain.counted)
        return tui.run(control, drawn, opening=curtain.hand_over)

    return dashboard


if __name__ == "__main__":
    sys.exit(main())
