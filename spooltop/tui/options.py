"""How the dashboard is drawn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ..model.text import plain_locale

__all__ = ["Options"]


@dataclass(frozen=True, slots=True)
class Options:
    """How it is drawn. ``light``: for a light terminal that does not follow its own palette. ``view``: the one to begin with
    (empty: the one that fits the target). ``banner``: stands on the last line in place of the views (the demo's); then nothing
    is said on leaving. ``counted``: how many messages were counted in ``new`` so far, shown until the first look is done."""

    light: bool = False
    ascii: bool = False
    colour: bool = True
    mouse: bool = False
    view: str = ""
    banner: str = ""
    counted: Callable[[], int | None] = lambda: None

    @staticmethod
    def of(environ: Mapping[str, str], *, light: bool = False, ascii: bool = False, mouse: bool = False) -> Options:
        """Options as the environment asks for them: ``NO_COLOR`` (no-color.org), ``TERM=linux`` and a C locale mean ASCII."""
        poor = environ.get("TERM") == "linux" or plain_locale(environ)
        return Options(light=light, ascii=ascii or poor, colour=not environ.get("NO_COLOR"), mouse=mouse)
