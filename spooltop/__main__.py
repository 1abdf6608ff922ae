"""``spooltop`` and ``python -m spooltop``."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from .cli.main import run

if TYPE_CHECKING:
    from .control import Control

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Does what the words of ``argv`` (without the program's name) say; returns the exit code."""
    return run(sys.argv[1:] if argv is None else argv, dashboard=_dashboard)


def _dashboard(control: Control, options: Namespace) -> int:
    from . import tui  # Textual takes most of the time of a start: only the dashboard pays for it

    drawn = tui.Options.of(os.environ, light=options.theme == "light", ascii=options.ascii)
    drawn = replace(drawn, banner=getattr(options, "banner", ""))
    return tui.run(control, drawn)


if __name__ == "__main__":
    sys.exit(main())
