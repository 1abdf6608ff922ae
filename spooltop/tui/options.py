"""Options for drawing the dashboard."""

from __future__ import annotations

from spooltop.model import Environ, Frozen, Sort, plain_locale


class Options(Frozen):
    """Options for drawing. ``light``: for a light terminal that does not use its own palette. ``view``: the first view (empty:
    the one that fits the target). ``banner``: replaces the views on the last line (in the demo); nothing is printed on leaving
    then."""

    light: bool = False
    ascii: bool = False
    colour: bool = True
    mouse: bool = False
    view: str = ""
    filter: str = ""
    """The filter of the first view."""
    sort: Sort | None = None
    """The order of all lists that have its column; None: each has its own."""
    banner: str = ""

    @staticmethod
    def of(environ: Environ, *, light: bool = False, ascii: bool = False, mouse: bool = False) -> Options:
        """The options that the environment asks for: ``NO_COLOR`` (no-color.org); ``TERM=linux`` and a C locale mean ASCII."""
        poor = environ.get("TERM") == "linux" or plain_locale(environ)
        return Options(light=light, ascii=ascii or poor, colour=not environ.get("NO_COLOR"), mouse=mouse)
