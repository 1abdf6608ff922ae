"""The journal of messages: the record log whose steps are batches of moves.

intent  schema line operation action batch time user count force undoes moves
result  schema line operation batch time tried [between] others

``moves`` and the members of a result are those of ``journal.moves``. The outcome of a batch without a result line is found by
looking.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol, TypeVar

from spooltop.errors import AuditFailed
from spooltop.model.operations.plan import ItemResult, Outcome, Plan
from spooltop.model.operations.results import encode_line
from spooltop.model.text import escape
from spooltop.model.vocabulary import Json
from spooltop.records import dataclass

from ...journal.record_log import Head, Intent, LoggedOperation, RecordLog, RecordType, intent_head
from .moves import LoggedMove, MoveColumns, decode_moves, decode_outcome, encode_moves, encode_outcome_line, number_of, text_of
from .outcomes import BatchOutcome

__all__ = [
    "MOVES", "BatchJournal", "JournalledBatch", "MoveIntent", "MoveLog", "MoveOperation", "unsure_moves",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class MoveIntent(Intent):
    """The intent of one batch. ``count`` messages are in all batches of the operation; ``force`` skips the check of holders."""

    count: int
    force: bool
    runs: tuple[MoveColumns, ...]

    def __len__(self) -> int:
        """The number of messages in this batch."""
        return sum(len(run.names) for run in self.runs)

    def moves(self) -> Iterator[LoggedMove]:
        for run in self.runs:
            yield from run.moves()

    @property
    def deletes(self) -> bool:
        return any(run.target is None for run in self.runs)

    @classmethod
    def decode(cls, head: Head) -> MoveIntent:
        action, undoes = intent_head(head)
        value = head.value
        return cls(
            head.operation, head.step, action, head.at, text_of(value, "user"), undoes, number_of(value, "count"),
            value.get("force") is True, decode_moves(value),
        )  # fmt: skip


MoveOperation = LoggedOperation[MoveIntent, BatchOutcome]
"""All that the journal holds of one operation on messages."""


def unsure_moves(logged: MoveOperation) -> Iterator[LoggedMove]:
    """The moves of the batches without a result."""
    return (move for _, (batch, outcome) in sorted(logged.steps.items()) if outcome is None for move in batch.moves())


MoveLog = RecordLog[MoveIntent, BatchOutcome]
MOVES = RecordType("journal", "the journal", "batch", MoveIntent.decode, lambda head: decode_outcome(head.value), ends=b"]}")
"""The record type of the journal of messages."""


class JournalledBatch(Protocol):
    """A batch of changes to messages."""

    def __len__(self) -> int: ...

    def moves(self) -> Iterable[MoveColumns]:
        """The moves as the intent line holds them."""
        ...

    def results(self, outcome: BatchOutcome) -> Sequence[ItemResult]:
        """The results of the changes; ``outcome`` reaches as far as the batch was tried."""
        ...


BatchT = TypeVar("BatchT", bound=JournalledBatch)


class BatchJournal:
    """Writes the journal of one operation around its batches."""

    def __init__(self, plan: Plan, log: MoveLog, clock: Callable[[], float], user: str) -> None:
        self._plan = plan
        self._log = log
        self._clock = clock
        self._user = user
        self._batch = 0
        self._unsynced = False
        self._lost = ""
        """Why a line is missing from the journal, where the operation goes on without it."""

    def perform(
        self, batches: Iterable[BatchT], run: Callable[[BatchT], BatchOutcome]
    ) -> Iterator[Sequence[ItemResult]]:
        """Performs the batches one by one: the intent line, ``run``, the result line. Ends after a batch that ``run`` has cut
        short. Raises ``AuditFailed`` where a line cannot be written; a batch without its intent line has not begun then."""
        tried = 0
        try:
            for batch in batches:
                self._write_intent(batch.moves())
                outcome = run(batch)
                results = batch.results(outcome)
                if self._lost:
                    results = [one._replace(reason=self._lost) if one.outcome is Outcome.DONE else one for one in results]
                tried += len(outcome)
                cut_short = len(outcome) < len(batch)
                yield from self._write_result(outcome, results, last=cut_short or tried >= self._plan.count)
                if cut_short:
                    return
                if self._plan.rate is not None:
                    self._settle()  # it may be long until the next
        finally:
            self._settle()

    def _write_intent(self, moves: Iterable[MoveColumns]) -> None:
        """Announces a batch. Raises ``AuditFailed``: then nothing of this batch may happen. But a full disk does not stop what
        frees space."""
        plan = self._plan
        head: dict[str, Json] = {
            "schema": 1, "line": "intent", "operation": plan.operation, "action": str(plan.action), "batch": self._batch,
            "time": self._clock(), "user": escape(self._user), "count": plan.count, "force": plan.force, "undoes": plan.undoes,
        }  # fmt: skip
        try:
            self._log.append(encode_line(head, moves=f"[{','.join(map(encode_moves, moves))}]"))
            self._unsynced = False
        except AuditFailed as error:
            if not (plan.deletes and error.full):
                raise
            self._lost = f"deleted without a line in the journal: {error.what}"

    def _write_result(
        self, outcome: BatchOutcome, results: Sequence[ItemResult], *, last: bool
    ) -> Iterator[Sequence[ItemResult]]:
        """Writes the result line and yields ``results``, also where the line cannot be written. It is synced where it is the
        ``last``; else the next intent syncs it, or ``_settle``."""
        head: dict[str, Json] = {
            "schema": 1, "line": "result", "operation": self._plan.operation, "batch": self._batch, "time": self._clock(),
        }  # fmt: skip
        line = encode_outcome_line(head, outcome)
        self._batch += 1
        try:
            self._log.append(line, sync=last)
            self._unsynced = not last
        except AuditFailed as error:
            yield results
            if not (self._plan.deletes and error.full):
                raise
            return
        yield results

    def _settle(self) -> None:
        """Syncs what was not synced, as no batch follows soon. Raises ``AuditFailed``."""
        if self._unsynced:
            self._unsynced = False
            self._log.append(b"")
