"""Reverses an operation by its journal, and lists operations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from spooltop.model.operations.plan import OperationRecord, Outcome
from spooltop.model.row import Row
from spooltop.model.vocabulary import Action, Box

from ...journal.item_operator import operation_record, why_not_undo
from .changes import LEAVES, BatchIntent, Changed, LoggedChanges, StreamChange, StreamVerb, inverse


class Reversal(Struct, frozen=True):
    """A change that reverses ``done``; None: ``why`` there is none."""

    done: StreamChange
    change: StreamChange | None
    why: str = ""

    @property
    def gives_back(self) -> bool:
        """True if a message that was set aside goes back to the group."""
        return self.change is not None and self.change.verb is StreamVerb.BACK

    def as_copy(self) -> Reversal:
        """The same with a new entry."""
        return self if self.change is None else replace(self, change=replace(self.change, to="copy"))


def changed(logged: LoggedChanges) -> bool:
    """True if something was changed, or may have been."""
    return any(
        outcomes is None or any(one.outcome is Outcome.DONE for one in outcomes) for _, outcomes in logged.steps.values()
    )


def reversals(
    logged: LoggedChanges, settled: Mapping[int, Sequence[Changed]], undos: Sequence[LoggedChanges]
) -> tuple[list[Reversal], int]:
    """Returns the changes that reverse ``logged``, the oldest first, and how many are reversed already by ``undos``. ``settled``
    are the outcomes of the batches that were cut off."""
    over = {place for undo in undos for step in undo.steps.values() for place in _reversed_by(*step)}
    found: list[Reversal] = []
    for step, (intent, outcomes) in sorted(logged.steps.items()):
        for place, (change, one) in enumerate(zip(intent.changes, outcomes or settled.get(step, ()), strict=False)):
            if one.outcome is not Outcome.DONE or (step, place) in over:
                continue
            back = inverse(change, one.became)
            if back is None:
                found.append(Reversal(change, None, _why_not(change)))
            else:
                found.append(Reversal(change, replace(back, reverses=(step, place))))
    return found, len(over)


def _reversed_by(intent: BatchIntent, outcomes: Sequence[Changed] | None) -> list[tuple[int, int]]:
    pairs = zip(intent.reverses, outcomes or (), strict=False)
    return [place for place, one in pairs if one.outcome is Outcome.DONE]


def _why_not(change: StreamChange) -> str:
    return "it was put again as a new entry: purge that" if change.verb is StreamVerb.COPY else "deleted permanently"


def row_of(change: StreamChange) -> Row:
    """The row of a message where it lies before ``change``."""
    box = Box(change.box) if change.box else Box.NEW
    return Row((box.value, change.id), box, change.shown, change.shown, attempt=change.tries or None)


def entries(operations: Mapping[str, LoggedChanges], undone_by: Mapping[str, str]) -> list[OperationRecord]:
    """The entries of ``operations`` in the list of operations."""
    records = []
    for logged in operations.values():
        outcomes = [one.outcome for _, found in logged.steps.values() for one in found or ()]
        verbs = {change.verb for intent, _ in logged.steps.values() for change in intent.changes}
        other = "nothing of it can be reversed" if verbs and verbs <= LEAVES else None
        undone = undone_by.get(logged.operation)
        records.append(
            operation_record(
                logged, outcomes, count=logged.first.count, unfinished=logged.open, undone=undone,
                why_not=why_not_undo(changed=changed(logged), undone=undone, other=other), words=_words(logged),
            )
        )  # fmt: skip
    return records


def _words(logged: LoggedChanges) -> str:
    if logged.open:
        sent = sum(len(intent.changes) for intent, found in logged.steps.values() if found is None)
        return f"{sent:,} sent and not answered: undo finds out if they were done, and reverses what was"
    one = logged.first.changes[0] if logged.first.changes else None
    if one is not None and one.verb is StreamVerb.SET:
        return f"{one.consumer}: {one.id} → {one.to}"
    if one is not None and logged.first.action is Action.UNDO and one.verb in (StreamVerb.PAUSE, StreamVerb.RESUME):
        return "paused again" if one.verb is StreamVerb.PAUSE else "resumed"
    return ""
