"""What the operators of cursors and of locks have in common: every item is in the journal before it is changed, and after."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from spooltop.errors import AuditFailed, Refused, Unreadable
from spooltop.model.audit import AuditLog
from spooltop.model.plan import Item, ItemResult, Plan
from spooltop.model.vocabulary import Json

from ..storage.access import user_name
from .item_lines import result_line
from .item_log import BesideBooks
from .log_files import LogFiles

__all__ = ["BesideOperator", "Step"]


class Step(NamedTuple):
    """One item that is about to be changed: the line of the journal that says so, what changes it, and what tells the line of its
    result which item it is of."""

    intent: bytes
    change: Callable[[], ItemResult]
    which: Mapping[str, Json] = {}


class BesideOperator(ABC):
    """``what`` it is for, in words; ``user`` None: who runs this. A subclass says what one step is."""

    def __init__(
        self,
        path: str,
        books: BesideBooks,
        what: str,
        *,
        read_only: str | None,
        files: LogFiles | None,
        clock: Callable[[], float],
        user: str | None,
    ) -> None:
        self._path = os.path.abspath(path)
        self._books = books
        self._what = what
        self._read_only = read_only
        self._files = files or LogFiles()
        self._clock = clock
        self._user = user if user is not None else user_name(os.geteuid())
        self._performed: set[str] = set()

    @abstractmethod
    def _step(self, plan: Plan, place: int, item: Item, stop: Callable[[], bool]) -> Step:
        """Of the ``item`` that stands at ``place`` in the plan."""
        ...

    def perform(self, plan: Plan, stop: Callable[[], bool] = lambda: False) -> Iterator[Sequence[ItemResult]]:
        """Raises ``Refused`` for what was performed already, ``AuditFailed`` where the journal cannot be written: that item has
        not begun then. All else that goes wrong is in the results."""
        if plan.operation in self._performed:
            raise Refused(f"operation {plan.operation} was performed already", path=self._path, advice="make a new plan")
        self._performed.add(plan.operation)
        for place, item in enumerate(plan.items):
            if stop():
                return
            step = self._step(plan, place, item, stop)
            self._books.journal(step.intent)
            done = step.change()
            try:
                self._books.journal(result_line(plan.operation, self._clock(), done.outcome, done.reason, **step.which))
            except AuditFailed:
                yield [done]
                raise
            yield [done]

    def audit(self, line: bytes, *, sync: bool = True) -> None:
        self._books.audit(line, sync=sync)

    def audit_logs(self) -> list[AuditLog]:
        """Raises ``Unreadable``."""
        try:
            return self._books.audited()
        except OSError as error:
            raise Unreadable(f"the audit log cannot be read: {error.strerror}", path=self._path) from error

    def close(self) -> None:
        return

    @contextmanager
    def _telling(self) -> Iterator[None]:
        """What the system refuses outside of any single item becomes one line."""
        try:
            yield
        except OSError as error:
            raise Unreadable(f"the {self._what} cannot be worked on: {error.strerror or error}", path=self._path) from error
