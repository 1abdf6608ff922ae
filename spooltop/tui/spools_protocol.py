"""The part of the watch over several targets that the dashboard uses, so that tests can replace it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from spooltop.monitor.glance import Glance

from .control_protocol import ControlProtocol

__all__ = ["SpoolsProtocol"]


class SpoolsProtocol(Protocol):
    """The part of ``spooltop.monitor.spools_watch.SpoolsWatch`` that the dashboard uses. ``open`` may block."""

    def now(self) -> float: ...
    def start(self) -> None: ...
    def wake_with(self, wake: Callable[[], object]) -> None: ...
    def glances(self) -> Sequence[Glance]: ...
    def look_again(self) -> None: ...
    def calm(self, calm: bool) -> None: ...
    def open(self, target: str) -> ControlProtocol: ...
