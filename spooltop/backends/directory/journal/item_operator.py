"""The common part of the operators that change single things, cursors and locks: each item has a step in a record log."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Generic, TypeVar

from spooltop.errors import AuditFailed, Refused, Unreadable
from spooltop.model.audit import AuditLog
from spooltop.model.capabilities import Capabilities
from spooltop.model.plan import Candidates, Item, ItemResult, OperationRecord, Plan
from spooltop.model.progress import Progress
from spooltop.model.selection import Selection
from spooltop.model.vocabulary import Action, Json

from ..options import OpenOptions
from ..storage.access import user_name
from ..world import World
from .log_store import AUDIT, LogStore
from .record_log import Intent, ItemOutcome, LoggedOperation, RecordLog, RecordType, newest_first, write_failed

__all__ = ["ItemIntent", "ItemOperator"]


class ItemIntent(Intent, ABC):
    """The intent to change one thing."""

    __slots__ = ()

    @abstractmethod
    def encode(self) -> bytes:
        """The intent line."""
        ...


IntentT = TypeVar("IntentT", bound=ItemIntent)


class ItemOperator(ABC, Generic[IntentT]):
    """Implements ``model.protocols.Operator`` on the items of one record ``kind``. A subclass pins the items, changes one, and
    says which of its operations can be undone. ``user`` None: who runs this."""

    def __init__(
        self,
        path: str,
        store: LogStore,
        kind: RecordType[IntentT, ItemOutcome],
        *,
        options: OpenOptions | None,
        world: World | None,
        user: str | None,
    ) -> None:
        self._path = os.path.abspath(path)
        self._store = store
        self._kind = kind
        self._log = RecordLog(store, kind)
        self._options = options or OpenOptions()
        self._world = world or World()
        self._read_only = self._options.read_only
        self._files = self._world.files
        self._clock = self._world.clock
        self._user = user if user is not None else user_name(os.geteuid())
        self._performed: set[str] = set()

    @abstractmethod
    def capabilities(self) -> Capabilities: ...

    @abstractmethod
    def candidates(
        self, action: Action, selection: Selection, *, force: bool, options: Mapping[str, Json], now: float, progress: Progress
    ) -> Candidates: ...

    @abstractmethod
    def _intent(self, plan: Plan, place: int, item: Item) -> IntentT:
        """The record of what is about to happen to ``item``, which is at ``place`` in the plan."""
        ...

    @abstractmethod
    def _apply(self, item: Item, intent: IntentT, stop: Callable[[], bool]) -> ItemResult:
        """Changes one item. Never raises ``OSError``."""
        ...

    @abstractmethod
    def _records(self, operations: Mapping[str, LoggedOperation[IntentT, ItemOutcome]]) -> list[OperationRecord]:
        """The entries of ``operations`` in the list of operations, in their order."""
        ...

    def perform(self, plan: Plan, stop: Callable[[], bool] = lambda: False) -> Iterator[Sequence[ItemResult]]:
        """Raises ``Refused`` for what was performed already, ``AuditFailed`` where the log cannot be written: that item has
        not begun then. All else that goes wrong is in the results."""
        if plan.operation in self._performed:
            raise Refused(f"operation {plan.operation} was performed already", path=self._path, advice="make a new plan")
        self._performed.add(plan.operation)
        for place, item in enumerate(plan.items):
            if stop():
                return
            intent = self._intent(plan, place, item)
            self._log.append(intent.encode())
            done = self._apply(item, intent, stop)
            try:
                self._log.append(ItemOutcome(done.outcome, done.reason).encode(intent, self._kind, self._clock()))
            except AuditFailed:
                yield [done]
                raise
            yield [done]

    def operations(self, progress: Progress) -> list[OperationRecord]:
        return newest_first(self._records(self._log.read()[0]))

    def knows(self, operation: str) -> bool:
        """True where this operation was this operator's."""
        return operation in self._log.read()[0]

    def audit(self, line: bytes, *, sync: bool = True) -> None:
        try:
            self._store.append(AUDIT, line, sync=sync)
        except OSError as error:
            raise write_failed(self._store, self._kind.name, error) from error

    def audit_logs(self) -> list[AuditLog]:
        """Raises ``Unreadable``."""
        try:
            return self._store.audit_logs()
        except OSError as error:
            raise Unreadable(f"the audit log cannot be read: {error.strerror}", path=self._path) from error

    def close(self) -> None:
        return

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Turns what the system refuses outside of any single item into ``Unreadable``."""
        try:
            yield
        except OSError as error:
            raise Unreadable(f"the {self._kind.name} cannot be worked on: {error.strerror or error}", path=self._path) from error
