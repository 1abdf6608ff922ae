"""A queue in memory: all that a new kind of queue needs to be changed, undone and audited as any other."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from spooltop.backends.journal import Intent, ItemOutcome, LoggedOperation, RecordType, SingleOperator, Skipped, Told
from spooltop.backends.log_store import LogStore
from spooltop.model.backend import Capabilities
from spooltop.model.plan import Candidates, Item, Plan, Refusal, Request, RowItem
from spooltop.model.vocabulary import Action, Box, Row

TARGETS = {Action.HOLD: Box.HELD, Action.RELEASE: Box.NEW, Action.PURGE: Box.TRASH}
SOURCES = {Action.HOLD: (Box.NEW,), Action.RELEASE: (Box.HELD,), Action.PURGE: (Box.NEW, Box.HELD)}


class Moved(Intent, frozen=True):
    """The intent to move the message ``id`` from ``source`` to ``target``."""

    id: str
    source: Box
    target: Box

    def told(self) -> list[Told]:
        return [(self.id, self.id, f"{self.target}/{self.id}")]


MOVES = RecordType("memory", "the journal", "first", Moved, ItemOutcome)
Logged = LoggedOperation[Moved, ItemOutcome]


class MemoryOperator(SingleOperator[Moved, None]):
    """Changes the queue ``boxes``: a set of ids for each box."""

    def __init__(self, boxes: dict[Box, set[str]], store: LogStore, clock: Callable[[], float]) -> None:
        super().__init__("memory", store, MOVES, clock=clock)
        self.boxes = boxes

    def capabilities(self) -> Capabilities:
        return Capabilities(dict.fromkeys(set(Action) - {*TARGETS, Action.UNDO}, "not in memory"))

    def _choose(self, request: Request, state: None) -> Candidates:
        action, selection = request.action, request.selection
        sources = SOURCES[action] if selection.box is None else {selection.box}.intersection(SOURCES[action])
        found = ((id, box) for box in sources for id in sorted(self.boxes[box]))
        matches = selection.matcher(request.at)
        return self._pinned([(id, box, TARGETS[action]) for id, box in found if matches(row_of(id, box))])

    def _backwards(self, logged: Logged, undos: Sequence[Logged], request: Request, state: None) -> Candidates:
        back = {one.id for undo in undos for one, outcome in undo.steps.values() if outcome is not None and outcome.changed}
        steps = sorted(logged.steps.items())
        return self._pinned([(one.id, one.target, one.source) for _, (one, _) in steps if one.id not in back])

    def _pinned(self, moves: Sequence[tuple[str, Box, Box]]) -> Candidates:
        gone = [Refusal(row_of(id, source), "gone") for id, source, _ in moves if id not in self.boxes[source]]
        there = [RowItem(row_of(id, source), (source, target)) for id, source, target in moves if id in self.boxes[source]]
        return Candidates(there, gone)

    def _intent(self, plan: Plan, place: int, items: Sequence[Item]) -> Moved:
        [item] = items
        return Moved(item.id, *item.ref)  # type: ignore[misc]

    def _change(self, item: Item, intent: Moved, stop: Callable[[], bool]) -> None:
        if item.id not in self.boxes[intent.source]:
            raise Skipped("gone")
        self.boxes[intent.source].remove(item.id)
        self.boxes[intent.target].add(item.id)


def row_of(id: str, box: Box) -> Row:
    return Row((box.value, id), box, id, id)
