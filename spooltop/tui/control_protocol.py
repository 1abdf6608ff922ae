"""The part of the application's API that the dashboard uses, so that tests can replace it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from spooltop.model.audit import AuditTrail
from spooltop.model.consumers import ConsumerList
from spooltop.model.locks import Holders
from spooltop.model.plan import Item, OperationRecord, Plan, Result
from spooltop.model.protocols import Listing, ListProgress, ListQuery
from spooltop.model.row import Payload
from spooltop.model.selection import Selection
from spooltop.model.snapshot import Snapshot
from spooltop.model.tracked import TrackedMessage
from spooltop.model.vocabulary import Action, Json, Key

__all__ = ["PAYLOAD_LIMIT", "ControlProtocol"]

PAYLOAD_LIMIT = 65536
"""Bytes of a message that are read."""


class ControlProtocol(Protocol):
    """The part of ``spooltop.control.Control`` that the dashboard uses."""

    target: str
    layout: str

    def now(self) -> float: ...
    def look(self, rescan: bool = False) -> Snapshot: ...
    def changes(self, timeout: float) -> bool: ...
    def wake(self) -> None: ...
    def listing(
        self, query: ListQuery, cancelled: Callable[[], bool] = lambda: False, progress: ListProgress | None = None
    ) -> Listing: ...
    def read(self, key: Key, limit: int = PAYLOAD_LIMIT) -> Payload: ...
    def save(self, key: Key, path: str) -> tuple[str, int]: ...
    def follow(self, ids: Sequence[str], since: float) -> Mapping[str, TrackedMessage]: ...
    def consumers(self) -> ConsumerList: ...
    def current_step(self) -> str: ...
    def plan(
        self, action: Action, selection: Selection, *, force: bool = False, options: Mapping[str, Json] | None = None,
        on_progress: Callable[[str], object] | None = None, on_first: Callable[[Sequence[Item]], object] | None = None,
        stop: Callable[[], bool] | None = None,
    ) -> Plan: ...  # fmt: skip
    def with_rate(self, plan: Plan, rate: float | None) -> Plan: ...
    def apply(
        self, plan: Plan, on_progress: Callable[[int], None] | None = None, stop: Callable[[], bool] | None = None
    ) -> Result: ...
    def operations(
        self, stop: Callable[[], bool] | None = None, *, begins: str = "", most: int | None = None
    ) -> list[OperationRecord]: ...

    def audit(self, operation: str) -> AuditTrail: ...
    def holders(self, key: Key) -> Holders: ...
    def mute(self, source: str, seconds: float) -> float: ...
    def unmute(self, source: str) -> bool: ...
    def close(self) -> None: ...
