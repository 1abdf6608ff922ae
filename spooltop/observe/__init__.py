"""Rates, histories, verdicts on cursors and problems, worst first: the conclusions that hold for every kind of spool."""

from __future__ import annotations

from .observer import Observer
from .thresholds import Thresholds

__all__ = ["Observer", "Thresholds"]
