"""Floor 2: what holds for every kind: rates, histories, verdicts on cursors, problems worst first."""

from __future__ import annotations

from .observer import Observer
from .thresholds import Thresholds

__all__ = ["Observer", "Thresholds"]
