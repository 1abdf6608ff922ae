"""Widgets that paint drawn lines. They take no decision and read no file: values in, messages out."""

from __future__ import annotations

from .lines import LinesView
from .virtual import WHEEL, VirtualList

__all__ = ["WHEEL", "LinesView", "VirtualList"]
