"""The common part of the operators that change single things, cursors and locks: each item has a step in a record log."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from spooltop.errors import AuditFailed, Refused, SpooltopError, Unreadable
from spooltop.model.capabilities import Capabilities
from spooltop.model.filters.selection import Selection
from spooltop.model.operations.audit import AuditLog
from spooltop.model.operations.plan import Candidates, Item, ItemResult, OperationRecord, Outcome, Plan
from spooltop.model.operations.progress import Progress
from spooltop.model.text import escape
from spooltop.model.vocabulary import Action, Json

from ..options import OpenOptions
from ..storage.access import user_name
from ..world import World
from .log_files import AUDIT
from .log_store import LogStore, audit_logs
from .operation_list import newest_first, undone_by, undos_of
from .record_log import Intent, ItemOutcome, LoggedOperation, RecordLog, RecordType, write_failed

__all__ = ["ItemIntent", "ItemOperator", "Skipped", "changed", "check_folder", "folder_id", "outcome_of"]


class ItemIntent(Intent, ABC):
    """The intent to change one thing."""

    __slots__ = ()

    @abstractmethod
    def encode(self) -> bytes:
        """The intent line."""
        ...


IntentT = TypeVar("IntentT", bound=ItemIntent)


class Skipped(Exception):
    """The item is not as it was when it was pinned, and nothing was done. The message says why."""


def folder_id(folder: int) -> tuple[int, int]:
    """The device and inode of an open directory."""
    found = os.fstat(folder)
    return found.st_dev, found.st_ino


def check_folder(folder: int | None, pinned: tuple[int, int]) -> int:
    """Returns the open directory. Raises ``Skipped`` where it is another than the one ``pinned``."""
    if folder is None or folder_id(folder) != pinned:
        raise Skipped("the directory was replaced since the list was made")
    return folder


def outcome_of(change: Callable[[], None]) -> tuple[Outcome, str]:
    """Runs ``change`` and returns how it ended."""
    try:
        change()
    except Skipped as error:
        return Outcome.SKIPPED, str(error)
    except SpooltopError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return Outcome.SKIPPED, "its directory has gone"
        return Outcome.FAILED, escape(str(error))
    except FileNotFoundError:
        return Outcome.SKIPPED, "its directory has gone"
    except OSError as error:
        return Outcome.FAILED, f"{error.strerror or error}"
    return Outcome.DONE, ""


def changed(logged: LoggedOperation[Any, ItemOutcome]) -> bool:
    """True if a step of the operation was done."""
    return any(outcome is not None and outcome.outcome is Outcome.DONE for _, outcome in logged.steps.values())


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

    def why_not(self, action: Action) -> str | None:
        return self.capabilities().why_not(action)

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
    def _records(
        self, operations: Mapping[str, LoggedOperation[IntentT, ItemOutcome]], undone_by: Mapping[str, str]
    ) -> list[OperationRecord]:
        """The entries of ``operations`` in the list of operations, in their order. ``undone_by``: operation → the one that undid
        it."""
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
            unlogged = self._unlogged(plan, intent)
            done = self._apply(item, intent, stop)
            if unlogged:
                yield [done._replace(reason=done.reason or unlogged)]
                continue
            try:
                self._log.append(ItemOutcome(done.outcome, done.reason).encode(intent, self._kind, self._clock()))
            except AuditFailed as error:
                yield [done]
                if not (plan.works_when_full and error.full):
                    raise
                continue
            yield [done]

    def _unlogged(self, plan: Plan, intent: IntentT) -> str:
        """Logs the intent, "" if that is done. If the disk is full, an operation that works then continues without, and this
        says so. Raises ``AuditFailed``."""
        try:
            self._log.append(intent.encode())
        except AuditFailed as error:
            if not (plan.works_when_full and error.full):
                raise
            return f"done without a line in the journal, so that no undo is possible: {error.what}"
        return ""

    def operations(self, progress: Progress, *, begins: str = "", most: int | None = None) -> list[OperationRecord]:
        operations = self._log.read(progress, begins=begins, most=most)[0]
        undos = undos_of(operations)
        undone = {operation: by for operation, found in undos.items() if (by := undone_by(found, changed)) is not None}
        found = newest_first(self._records(operations, undone))
        return [record for record in found if record.operation.startswith(begins)][:most]

    def _logged(
        self, operation: str
    ) -> tuple[LoggedOperation[IntentT, ItemOutcome] | None, list[LoggedOperation[IntentT, ItemOutcome]], tuple[str, ...]]:
        """The operation that is to be undone, None if there is none; those that undo it; and notes for the plan."""
        operations, problems = self._log.read(begins=operation)
        logged = operations.get(operation)
        missing = (f"no operation {operation} in {self._kind.what}",) if logged is None else ()
        return logged, undos_of(operations).get(operation, []), (*missing, *problems)

    def knows(self, operation: str) -> bool:
        """True if this operation was this operator's."""
        return operation in self._log.read(begins=operation)[0]

    def audit(self, line: bytes, *, sync: bool = True) -> None:
        try:
            self._store.append(AUDIT, line, sync=sync)
        except OSError as error:
            raise write_failed(self._store, self._kind.name, error) from error

    def audit_logs(self, operation: str) -> list[AuditLog]:
        """Raises ``Unreadable``."""
        try:
            return audit_logs(self._store, operation)
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
            raise Unreadable(f"the {self._kind.name} cannot be accessed: {error.strerror or error}", path=self._path) from error
