"""Changes the messages of one group of a stream. Everything is journalled before, and can be undone after."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from spooltop.errors import SpooltopError, Unavailable
from spooltop.model.backend import Capabilities
from spooltop.model.plan import (
    Batches,
    Candidates,
    Item,
    ItemResult,
    OperationRecord,
    Outcome,
    Plan,
    Progress,
    Refusal,
    Selection,
)
from spooltop.model.text import escape
from spooltop.model.vocabulary import Action, Box, Json, Row

from ...journal.item_operator import EndedStep, ItemOperator, operation_record
from ...journal.log_store import STATE_DIR, LogFiles, LogStore, StateLogs
from ..client import Endpoint
from ..stream_names import StreamNames
from ..streams.look import JudgedMember, Looker, PidJudge, judged_consumers
from ..streams.server import ServerTrouble, StreamServer
from . import planning
from .changes import (
    BATCHES,
    LEAVES,
    BatchChanged,
    BatchIntent,
    Changed,
    LoggedChanges,
    StepSender,
    StreamChange,
    StreamVerb,
    can_change,
    change_of,
    check_master,
    inverse,
)


def row_of(change: StreamChange) -> Row:
    """The row of a message where it lies before ``change``."""
    box = Box(change.box) if change.box else Box.NEW
    return Row((box.value, change.id), box, change.shown, change.shown, attempt=change.tries or None)


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


AT_ONCE = 25
"""Changes in one step of the server, which answers nobody else meanwhile: some 40 µs each."""


class StreamOperator(ItemOperator[BatchIntent, BatchChanged]):
    """Implements ``model.protocols.Operator`` for the group of ``server``. ``store`` keeps the journal on this
    machine: a stream can be trimmed by others. ``judge`` judges consumers; ``read_only`` says why nothing may be
    changed."""

    at_once = AT_ONCE

    def __init__(
        self, server: StepSender, store: LogStore, judge: planning.Judge, clock: Callable[[], float], read_only: str | None
    ) -> None:
        super().__init__(server.address, store, BATCHES, clock=clock, read_only=read_only)
        self._server = server
        self._judge = judge

    def capabilities(self) -> Capabilities:
        """Returns what may be done, asked of the server."""
        return Capabilities.nothing(self._read_only) if self._read_only is not None else can_change(self._server)

    def candidates(
        self, action: Action, selection: Selection, *, force: bool, options: Mapping[str, Json], now: float, progress: Progress
    ) -> Candidates:
        match action:
            case Action.UNDO:
                return self._undo(str(options.get("undoes", "")), force=force, now=now, progress=progress)
            case Action.INJECT:
                return planning.inject_plan(options, len(planning.groups_of(self._server)), self._clock)
            case Action.SET_CURSOR:
                return planning.set_plan(self._server, options)
            case Action.PAUSE:
                return planning.pause_plan(self._server, options, self._user, now)
            case Action.RESUME:
                return planning.resume_plan(self._server, now)
        chooser = planning.GroupChooser(self._server, self._judge, action, at=now, force=force, options=options)
        return chooser.choose(selection, progress)

    def perform(self, plan: Plan, stop: Callable[[], bool] = lambda: False) -> Batches:
        """Raises ``Refused`` for what was performed already and on a replica, ``AuditFailed``, and what the server refuses: then
        that batch was not done. What was sent and not answered is in the results, and raises ``Unavailable`` after them."""
        check_master(self._server)
        if plan.undoes is not None:
            self._settle(plan.undoes)
        yield from super().perform(plan, stop)
        self._server.ended(plan.operation)

    def _intent(self, plan: Plan, place: int, items: Sequence[Item]) -> BatchIntent:
        if plan.action is Action.INJECT:
            changes = planning.put_changes(plan.options, place + 1, min(place + self._at_once(plan), plan.count), self._clock)
        else:
            changes = [change_of(item) for item in items]
        reverses = tuple(one.reverses for one in changes if one.reverses is not None)
        return BatchIntent(
            plan.operation, place, plan.action, self._clock(), self._user, plan.undoes, tuple(changes), reverses
        )

    def _recorded(self, intent: BatchIntent) -> BatchIntent:
        return intent.checked()

    def _apply(self, items: Sequence[Item], intent: BatchIntent, stop: Callable[[], bool]) -> EndedStep[BatchChanged]:
        count = len(intent.changes)
        try:
            outcomes = self._server.perform(intent)
        except SpooltopError as error:
            if isinstance(error, Unavailable) and error.answer_lost:
                why = f"sent, and not answered: it is unknown if it was done; spooltop undo finds out: {error.what}"
                return EndedStep(_results(intent.changes, items, [Changed(Outcome.FAILED, why)] * count), None, error)
            return EndedStep((), BatchChanged((Changed(Outcome.FAILED, error.what),) * count), error)
        return EndedStep(_results(intent.changes, items, outcomes), BatchChanged(outcomes))

    def _record(self, logged: LoggedChanges, undone: str | None) -> OperationRecord:
        verbs = {change.verb for intent, _ in logged.steps.values() for change in intent.changes}
        other = "nothing of it can be reversed" if verbs and verbs <= LEAVES else None
        return operation_record(logged, undone, _words(logged), other=other)

    # Undo

    def _settle(self, operation: str) -> None:
        """Ends the batches of an operation that were cut off: what was not done by now will not be done any more."""
        logged, _, _ = self._logged(operation)
        for intent, outcome in () if logged is None else logged.steps.values():
            if outcome is None:
                self._log_result(intent, BatchChanged(self._server.settled(intent, look=False)))

    def _ended(self, logged: LoggedChanges) -> Iterator[tuple[BatchIntent, Sequence[Changed]]]:
        """Yields the batches of an operation, with what is known by now of those that were cut off."""
        for _, (intent, outcome) in sorted(logged.steps.items()):
            yield intent, self._server.settled(intent, look=True) if outcome is None else outcome.outcomes

    def _undo(self, undoes: str, *, force: bool, now: float, progress: Progress) -> Candidates:
        logged, undos, problems = self._logged(undoes)
        if logged is None:
            return Candidates((), (), problems)
        over = {
            place
            for undo in undos
            for intent, outcomes in self._ended(undo)
            for place, one in zip(intent.reverses, outcomes, strict=False)
            if one.outcome is Outcome.DONE
        }
        found = [
            (change, None if (back := inverse(change, one.became)) is None else replace(back, reverses=(intent.step, place)))
            for intent, outcomes in self._ended(logged)
            for place, (change, one) in enumerate(zip(intent.changes, outcomes, strict=False))
            if one.outcome is Outcome.DONE and (intent.step, place) not in over
        ]
        notes = ((f"{len(over):,} of {logged.first.count:,} undone already.",) if over else ()) + problems
        single = found[0][1] if len(found) == 1 else None
        if single is not None and single.verb in (StreamVerb.PAUSE, StreamVerb.RESUME, StreamVerb.SET):
            made = self._undo_of_one(single, now)
            return replace(made, notes=(*made.notes, *notes))
        copies = self._copies_only([back for _, back in found])
        forced = b"force" if force else b""
        items: list[Item] = []
        refused: list[Refusal] = []
        words: Counter[str] = Counter()
        for start in range(0, len(found), AT_ONCE):
            some = [
                (done, back and replace(back, data=forced, to="copy" if copies and back.verb is StreamVerb.BACK else back.to))
                for done, back in found[start : start + AT_ONCE]
            ]
            progress.advance(len(some))
            answers = iter(self._server.tried([back for _, back in some if back is not None]))
            for done, back in some:
                if back is None:
                    refused.append(Refusal(row_of(done), _why_not(done)))
                elif (told := next(answers)).outcome is not Outcome.DONE:
                    refused.append(Refusal(row_of(back), told.reason, "would get the copy" in told.reason))
                else:
                    words[told.reason] += 1
                    items.append(Item(row_of(back), back, escape(told.reason)))
        notes = (*(f"{count:,} of {len(items):,}: {why}." for why, count in words.items() if why), *notes)
        return Candidates(items, refused, notes, effect=_undo_effect(items))

    def _copies_only(self, changes: Sequence[StreamChange | None]) -> bool:
        """True where something was set aside that must be put again as new entries: consumers only read those."""
        if not any(change is not None and change.verb is StreamVerb.BACK for change in changes):
            return False
        return planning.chosen_way(self._server, asked=False, groups=len(planning.groups_of(self._server))).copies

    def _undo_of_one(self, change: StreamChange, now: float) -> Candidates:
        told = self._server.tried([change])[0]
        late = f"too late: {escape(told.reason)}" if told.outcome is not Outcome.DONE else ""
        if change.verb is not StreamVerb.SET:
            item = planning.pause_item(self._server, change, now)
            return Candidates((), [Refusal(item.row, late)]) if late else Candidates([item])
        if late:
            return Candidates((), [Refusal(row_of(change), late)])
        made = planning.set_item(self._server, change.consumer, change.id, change.to)
        return replace(made, items=[replace(item, ref=change) for item in made.items])

    def close(self) -> None:
        self._server.close()


def _results(changes: Sequence[StreamChange], items: Sequence[Item], outcomes: Sequence[Changed]) -> list[ItemResult]:
    if not items:  # of messages that are put, only what they became is known
        ids = [one.became or "new" for one in outcomes]
        return [
            ItemResult(id, id, one.outcome, escape(one.reason), one.became) for id, one in zip(ids, outcomes, strict=True)
        ]
    return [
        ItemResult(item.row.id, item.row.name, one.outcome, escape(one.reason), one.became)
        for item, one in zip(items, outcomes, strict=True)
    ]


def _why_not(change: StreamChange) -> str:
    return "it was put again as a new entry: purge that" if change.verb is StreamVerb.COPY else "deleted permanently"


def _undo_effect(items: Sequence[Item]) -> str:
    if not items:
        return ""
    verbs = {change_of(item).verb for item in items}
    if verbs == {StreamVerb.GIVE}:
        return "Each claim goes back to the consumer that had it, unless it was taken since."
    if verbs == {StreamVerb.BACK} and all(change_of(item).to == "copy" for item in items):
        return "Each message is put again as a new entry, last in order, unless it was changed since."
    if verbs == {StreamVerb.BACK}:
        return "Each message is handed back to the group, claimed next, unless it was changed since."
    if verbs <= {StreamVerb.ASIDE, StreamVerb.ASIDE_NEW, StreamVerb.MOVE}:
        return "Each message is set aside again, unless it was taken since."
    return ""


# Opens the operator of a group.

def open_operator(
    endpoint: Endpoint, names: StreamNames, shown: str, judge: PidJudge, *, clock: Callable[[], float],
    state: str | None, read_only: str | None,
) -> StreamOperator:  # fmt: skip
    """Opens the operator of the group ``names.group``, whose address is ``shown``. ``judge`` knows which consumers
    are processes of this host, as the views do; ``state`` is the folder of this user's own state, for the journal."""
    store = StateLogs(shown, LogFiles(), state_dir=STATE_DIR if os.geteuid() == 0 else state)

    def judged() -> Mapping[str, JudgedMember]:
        """Judges consumers as the views do, by a look of its own. Raises ``Unavailable``."""
        server = StreamServer(endpoint)
        try:
            return judged_consumers(Looker(server, names).look(), judge)
        except ServerTrouble as trouble:
            raise Unavailable(f"look: {trouble.what}", path=shown, advice=trouble.advice) from None
        finally:
            server.close()

    return StreamOperator(StepSender(endpoint, shown, names), store, judged, clock, read_only)
