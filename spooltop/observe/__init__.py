"""Rates, histories, verdicts on cursors and problems, worst first: the conclusions that hold for every kind of spool."""

from __future__ import annotations

from spooltop.lazy_names import lazy_names

TYPE_CHECKING = False  # typing takes 5 ms to load
if TYPE_CHECKING:
    from .observer import Observer
    from .thresholds import Thresholds

__all__ = ["Observer", "Thresholds"]

# Who reads the settings to put a message needs the thresholds and no observer.
__getattr__ = lazy_names(__name__, {"Observer": "observer", "Thresholds": "thresholds"})
