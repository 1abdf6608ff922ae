"""What an operation writes into the journal: before each batch what is meant to happen, after it what came of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from spooltop.errors import AuditFailed
from spooltop.model.plan import ItemResult, Plan

from .journal import encode_intent, encode_result
from .outcomes import Came
from .records import Books

__all__ = ["Intent"]


class Intent:
    """Writes the journal of one operation, batch by batch."""

    def __init__(self, plan: Plan, books: Books, clock: Callable[[], float], user: str) -> None:
        self._plan = plan
        self._books = books
        self._clock = clock
        self._user = user
        self._batch = 0
        self._unsynced = False
        self.lost = ""
        """Why a line is not in the journal, of what goes on all the same."""

    def write(self, moves: Iterable[str]) -> None:
        """``moves`` as ``journal.spelled_moves`` gives them. Raises ``AuditFailed``: then nothing of this batch may happen. But
        a full disk does not stop what frees space."""
        plan = self._plan
        line = encode_intent(
            plan.operation, plan.action, self._batch, self._clock(), moves,
            user=self._user, count=plan.count, force=plan.force, undoes=plan.undoes,
        )  # fmt: skip
        try:
            self._books.write_journal(line)
            self._unsynced = False
        except AuditFailed as error:
            if not (plan.deletes and error.full):
                raise
            self.lost = f"deleted without a line in the journal: {error.what}"

    def finish(self, came: Came, results: Sequence[ItemResult], *, last: bool) -> Iterator[Sequence[ItemResult]]:
        """The result line; what was done is told even where it cannot be written. Synced where it is the ``last``; else the sync
        of the next intent is its own too, or that of ``settle``."""
        line = encode_result(self._plan.operation, self._batch, self._clock(), came)
        self._batch += 1
        try:
            self._books.write_journal(line, sync=last)
            self._unsynced = not last
        except AuditFailed as error:
            yield results
            if not (self._plan.deletes and error.full):
                raise
            return
        yield results

    def settle(self) -> None:
        """No more will follow: what was not synced is. Raises ``AuditFailed``."""
        if self._unsynced:
            self._unsynced = False
            self._books.sync_journal()
