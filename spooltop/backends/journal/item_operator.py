"""The common part of operators: each step of an operation, with one item or many, stands in a record log before and after."""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from spooltop.model import Action, AuditFailed, Capabilities, Clock, Frozen, Row, SpooltopError, Stop, Unreadable, escape
from spooltop.model.plan import (
    Actor,
    AuditLine,
    AuditTrail,
    Batches,
    Candidates,
    Item,
    ItemResult,
    OperationRecord,
    Outcome,
    Plan,
    Progress,
    Refusal,
    Request,
    Results,
    done,
)

from ..access import user_name
from .log_store import LogStore
from .record_log import Intent, ItemOutcome, LoggedOperation, RecordLog, RecordType, encode_intent, encode_result

# The entries of the list of operations, made of what a log holds, and which operation is undone by which.

_Logged = TypeVar("_Logged", bound=LoggedOperation[Any, Any])


def undos_of(operations: Mapping[str, _Logged]) -> dict[str, list[_Logged]]:
    """The operations that undo each operation, in the order of the log."""
    found: dict[str, list[_Logged]] = {}
    for logged in operations.values():
        if logged.undoes is not None:
            found.setdefault(logged.undoes, []).append(logged)
    return found


class Account(NamedTuple):
    """An operation in the list, beside what its log has. ``words`` describe it; ``why_not`` says why it cannot be undone, None
    where it can. ``outcomes`` are those of the items in steps with a result, None: those that its lines tell; ``found`` is the
    number of items in steps without one that were found done by looking, None: nobody looked; ``made`` is the number of items
    that were changed, None: those that are done. ``unfinished``: some items were not attempted."""

    words: str = ""
    why_not: str | None = None
    outcomes: Mapping[Outcome, int] | None = None
    found: int | None = None
    made: int | None = None
    unfinished: bool = False

    def counted(self, logged: LoggedOperation[Any, Any]) -> Account:
        """The facts with all numbers."""
        outcomes = self.outcomes
        if outcomes is None:  # of the items that the intents name: a result line may say that it tried any number
            ended = ((intent, result) for intent, result in logged.steps.values() if result is not None)
            each = (one.outcome for intent, result in ended for _, one in zip(intent.told(), result.each(), strict=False))
            outcomes = Counter(each)
        made = outcomes.get(Outcome.DONE, 0) + (self.found or 0) if self.made is None else self.made
        return self._replace(outcomes=outcomes, made=made)


_TICK = 0.2
"""Seconds between two looks if a person wants to stop, while a limit on the rate has it wait."""


class StepOutcome(Protocol):
    """How a step ended, as its result line holds it."""

    def each(self) -> Iterator[ItemOutcome]:
        """How each item that was reached ended."""
        ...


RefT = TypeVar("RefT")
IntentT = TypeVar("IntentT", bound=Intent)
ResultT = TypeVar("ResultT", bound=StepOutcome)
StateT = TypeVar("StateT")


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


def ref_of(item: Item, kind: type[RefT]) -> RefT:
    """Returns the pin of ``item``, which an operator of this kind has made."""
    if not isinstance(item.ref, kind):
        raise TypeError(f"not pinned by this operator: {item.ref!r}")
    return item.ref


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


def changed(logged: LoggedOperation[Any, ResultT]) -> bool:
    """True if something in a step of the operation was done."""
    outcomes = (outcome for _, outcome in logged.steps.values() if outcome is not None)
    return any(one.changed for outcome in outcomes for one in outcome.each())


class EndedStep(NamedTuple, Generic[ResultT]):
    """The end of a step: the ``results`` of the items that were reached; its ``outcome`` for the log, None where that is not
    known yet, so that it stays open there; and the ``error`` that ends the operation."""

    results: Results
    outcome: ResultT | None
    error: SpooltopError | None = None


class ItemOperator(ABC, Generic[IntentT, ResultT, StateT]):
    """Implements ``model.backend.Operator`` on the items of one record ``kind``, ``at_once`` of them in a step at most. A
    subclass pins the items, changes those of a step, and says which of its operations can be undone. ``path`` is named in errors;
    ``read_only`` says why nothing may be changed; ``user`` None: who runs this. ``wait`` sleeps some seconds."""

    at_once = 1
    untrusted = ""
    """Words for what is not done by a journal that somebody else may have written, "" where that counts too."""
    needs_log = False
    """True where the list of operations fails if the log cannot be read, rather than leave its operations out."""

    def __init__(
        self,
        path: str,
        store: LogStore,
        kind: RecordType[IntentT, ResultT],
        *,
        clock: Clock,
        read_only: str | None = None,
        user: str | None = None,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        self._path = path
        self._store = store
        self._kind = kind
        self._log = RecordLog(store, kind)
        self._clock = clock
        self._read_only = read_only
        self._user = user if user is not None else user_name(os.geteuid())
        self._actor = Actor.here()
        self._wait = wait

    @abstractmethod
    def capabilities(self) -> Capabilities:
        """Returns what may be done where nothing is read-only."""
        ...

    def why_not(self, action: Action) -> str | None:
        nothing = None if self._read_only is None else Capabilities.nothing(self._read_only)
        return (nothing or self.capabilities()).why_not(action)

    def candidates(self, request: Request) -> Candidates:
        with self._state() as state:
            if request.action is not Action.UNDO:
                return self._choose(request, state)
            operations, problems = self._log.read(request.progress, required=True, begins=request.undoes)
            logged = operations.get(request.undoes)
            if logged is None:
                found = Candidates(notes=(f"no operation {request.undoes} in {self._kind.what}",))
            elif self.untrusted and not logged.trusted:
                why = f"its journal may have been written by another user, so nothing is {self.untrusted}"
                found = Candidates(notes=(why,))
            else:
                found = self._backwards(logged, undos_of(operations).get(request.undoes, []), request, state)
            return found.replace(notes=(*found.notes, *problems))

    def _state(self) -> AbstractContextManager[StateT]:
        """Looks at what may be changed, once for a plan. None where an operator needs nothing of the kind."""
        return nullcontext()  # type: ignore[return-value]  # StateT is None then

    @abstractmethod
    def _choose(self, request: Request, state: StateT) -> Candidates:
        """Pins what a request selects, and says which of it may not be changed, and why."""
        ...

    @abstractmethod
    def _backwards(
        self, logged: LoggedOperation[IntentT, ResultT], undos: Sequence[LoggedOperation[IntentT, ResultT]], request: Request,
        state: StateT,
    ) -> Candidates:  # fmt: skip
        """Pins what reverses an operation, as far as its ``undos`` have not reversed it."""
        ...

    @abstractmethod
    def _intent(self, plan: Plan, place: int, items: Sequence[Item]) -> IntentT:
        """The record of what is about to happen to ``items``, which begin at ``place`` in the plan: its own members."""
        ...

    @abstractmethod
    def _apply(self, items: Sequence[Item], intent: IntentT, stop: Stop) -> EndedStep[ResultT]:
        """Changes the items of a step, the first at least, and ends early where ``stop`` says so or it takes long: the next step
        begins with the others. Never raises ``OSError``."""
        ...

    def _items(self, plan: Plan, place: int, at_most: int) -> Sequence[Item]:
        """The items of the step that begins at ``place``."""
        return plan.items[place : place + at_most]

    def _recorded(self, intent: IntentT) -> Intent:
        """The intent as its line holds it."""
        return intent

    def _facts(self, operations: Mapping[str, LoggedOperation[IntentT, ResultT]], progress: Progress) -> Iterator[Account]:
        """Yields what there is to say of each of ``operations``, in their order. Raises ``Stopped``."""
        return map(self._fact, operations.values())

    def _fact(self, logged: LoggedOperation[IntentT, ResultT]) -> Account:
        return Account()

    def perform(self, plan: Plan, stop: Stop = lambda: False) -> Batches:
        """Raises ``AuditFailed`` where the log cannot be written: that step has not begun then. All else that goes wrong is in
        the results."""
        at_once = self._at_once(plan)
        place = 0
        try:
            while place < plan.count and not stop():
                with self._turn(plan, stop):
                    results, error = self._step(plan, place, self._items(plan, place, at_once), stop)
                if results:
                    yield results
                if error is not None:
                    raise error
                if not results:
                    return
                place += len(results)
                if plan.rate is not None and place < plan.count:
                    self._pause(len(results) / plan.rate, stop)
        finally:
            self._log.settle()

    def _at_once(self, plan: Plan) -> int:
        """The number of items in a step: with a limit on the rate those of a fifth of a second."""
        return self.at_once if plan.rate is None else max(1, min(self.at_once, int(plan.rate * _TICK)))

    def _pause(self, seconds: float, stop: Stop) -> None:
        while seconds > 0 and not stop():
            self._wait(min(_TICK, seconds))
            seconds -= _TICK

    @contextmanager
    def _turn(self, plan: Plan, stop: Stop) -> Iterator[None]:
        """Surrounds the changes of one step with its two lines in the log: what only one operator does at a time, a subclass
        locks here. Raises ``SpooltopError`` where the step cannot begin."""
        yield

    def _step(
        self, plan: Plan, place: int, items: Sequence[Item], stop: Stop
    ) -> tuple[Results, SpooltopError | None]:
        """Logs the intent, changes the items and logs how it ended; returns the results, and what ends the operation here."""
        intent = self._intent(plan, place, items).replace(
            operation=plan.operation, step=place, action=plan.action, at=self._clock(),
            user=self._user, by=self._actor, undoes=plan.undoes, count=plan.count, force=plan.force,
        )  # fmt: skip
        unlogged = self._log.begin(plan, encode_intent(self._recorded(intent), self._kind))
        ended = self._apply(items, intent, stop)
        results, error = ended.results, ended.error
        if not unlogged and ended.outcome is not None:
            # The next intent syncs it; after the last one, and before it may be long, it is synced at once.
            last = place + len(results) >= plan.count or plan.rate is not None or error is not None
            try:
                self._log_result(intent, ended.outcome, sync=last)
            except AuditFailed as failed:
                if not (plan.works_when_full and failed.full):
                    return results, error or failed
                unlogged = f"its outcome is not in the journal: {failed.what}"
        if unlogged:
            known = [one or done(items[number]) for number, one in enumerate(results)]
            results = [one._replace(reason=one.reason or unlogged) for one in known]
        return results, error

    def _log_result(self, intent: IntentT, outcome: ResultT, *, sync: bool = True) -> None:
        """Raises ``AuditFailed``."""
        self._log.append(encode_result(intent, outcome, self._kind, self._clock()), sync=sync)

    def operations(self, progress: Progress, *, begins: str = "", most: int | None = None) -> list[OperationRecord]:
        required = self.needs_log or bool(begins)
        operations = self._log.read(progress, required=required, begins=begins, most=most, brief=True)[0]
        if not operations:
            return []
        facts = {
            logged.operation: one.counted(logged)
            for logged, one in zip(operations.values(), self._facts(operations, progress), strict=True)
        }
        records, undos_by_operation = [], undos_of(operations)
        for operation, own in facts.items():
            if not operation.startswith(begins):
                continue
            logged, undos = operations[operation], undos_by_operation.get(operation, ())
            first, many, made, why_not = logged.first, Counter(own.outcomes), own.made or 0, own.why_not
            undone = [undo.operation for undo in undos if facts[undo.operation].made]
            if undone and sum(facts[undo].made or 0 for undo in undone) >= made:
                why_not = f"already undone by {undone[-1]}"
            if not made and (own.found is not None or not logged.open):  # one that was cut off, and nobody looked at, may be done
                why_not = "it changed nothing"
            records.append(OperationRecord(
                operation=operation, action=first.action, at=first.at, user=first.user, count=first.count,
                done=many[Outcome.DONE] + (own.found or 0), skipped=many[Outcome.SKIPPED], failed=many[Outcome.FAILED],
                open=logged.open or own.unfinished, undone_by=undone[-1] if undone else None, why_not_undo=why_not,
                words=own.words,
            ))  # fmt: skip
        # Those of one moment come backwards.
        return sorted(records, key=lambda record: record.at)[::-1][:most]

    def knows(self, operation: str) -> bool:
        """True if this operation was this operator's."""
        return operation in self._log.read(begins=operation)[0]

    def trail(self, operation: str) -> AuditTrail:
        """Raises ``Unreadable``."""
        operations, problems = self._log.read(required=True, begins=operation)
        logged = operations.get(operation)
        lines = [] if logged is None else [self._audited(logged, *step) for step in logged.steps.values()]
        if logged is not None and 0 not in logged.steps:
            problems.append(f"its steps before item {min(logged.steps) + 1:,} are no longer in the journal")
        return AuditTrail(tuple(lines), tuple(problems))

    def _audited(self, logged: LoggedOperation[IntentT, ResultT], intent: IntentT, outcome: ResultT | None) -> AuditLine:
        items = list(intent.told())
        results = () if outcome is None else tuple(
            ItemResult(id, name, one.outcome, one.reason, became if one.changed else "")
            for (id, name, became), one in zip(items, outcome.each(), strict=False)
        )  # fmt: skip
        return AuditLine(
            intent.at, "before" if outcome is None else "after", str(intent.action), intent.user, intent.by, intent.count,
            None if outcome is None else intent.step + len(results), intent.force,
            tuple(name for _, name, _ in items) if outcome is None else (), results, logged.trusted,
        )  # fmt: skip

    def close(self) -> None:
        return

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Turns what the system refuses outside of any single item into ``Unreadable``."""
        try:
            yield
        except OSError as error:
            raise Unreadable(f"the {self._kind.name} cannot be accessed: {error.strerror or error}", path=self._path) from error


class PinnedChange(Frozen, Generic[IntentT]):
    """The ``ref`` of an item of a ``SingleOperator``: the ``record`` of its change."""

    record: IntentT


class SingleOperator(ItemOperator[IntentT, ItemOutcome, StateT]):
    """An operator whose steps change one item each."""

    @abstractmethod
    def _change(self, item: Item, intent: IntentT, stop: Stop) -> None:
        """Changes the item. Raises ``Skipped``, ``OSError``, and ``SpooltopError`` for what failed."""
        ...

    def _became(self, item: Item, intent: IntentT) -> str:
        """The name of an item that was changed."""
        return item.name

    def _intent(self, plan: Plan, place: int, items: Sequence[Item]) -> IntentT:
        record: IntentT = ref_of(items[0], PinnedChange).record
        return record

    def _apply(self, items: Sequence[Item], intent: IntentT, stop: Stop) -> EndedStep[ItemOutcome]:
        item = items[0]
        outcome, reason = outcome_of(lambda: self._change(item, intent, stop))
        became = self._became(item, intent) if outcome is Outcome.DONE else ""
        return EndedStep([ItemResult(item.id, item.name, outcome, reason, became)], ItemOutcome(outcome, reason))


class Standing(NamedTuple):
    """Compares a value as it is now with the one that an operation set (``after``) and the one that it found (``before``).
    ``too_late``: why the operation cannot be undone any more, None where it can."""

    is_after: bool
    is_before: bool
    too_late: str | None


class ValueOperator(SingleOperator[IntentT, StateT]):
    """An operator whose operations set one value each. Undo sets back the one before, as long as it is the one that was set. A
    ``StateT`` holds what the values are now, looked up once for a plan or a list."""

    cut_short: tuple[str, str]
    """Words for an operation without a result that was done after all, and for one that was not."""

    @abstractmethod
    def _standing(self, intent: IntentT, state: StateT) -> Standing: ...

    @abstractmethod
    def _words_of(self, intent: IntentT) -> str:
        """Describes the change."""
        ...

    @abstractmethod
    def _row(self, intent: IntentT) -> Row: ...

    @abstractmethod
    def _set_back(self, intent: IntentT, state: StateT) -> Candidates:
        """Pins that the value before is set again."""
        ...

    def _facts(self, operations: Mapping[str, LoggedOperation[IntentT, ItemOutcome]], progress: Progress) -> Iterator[Account]:
        with self._state() as state:
            for logged in operations.values():
                intent, outcome = logged.steps[0]
                standing, words = self._standing(intent, state), self._words_of(intent)
                if outcome is None:
                    words += f"; cut short: {self.cut_short[not standing.is_after]}"
                yield Account(words, standing.too_late, found=outcome is None and standing.is_after)

    def _backwards(
        self, logged: LoggedOperation[IntentT, ItemOutcome], undos: Sequence[LoggedOperation[IntentT, ItemOutcome]],
        request: Request, state: StateT,
    ) -> Candidates:  # fmt: skip
        if any(map(changed, undos)):
            return Candidates(notes=("1 of 1 undone already.",))
        intent, outcome = logged.steps[0]
        if outcome is not None and not outcome.changed:
            return Candidates(notes=("it changed nothing",))
        standing = self._standing(intent, state)
        if standing.too_late is None:
            return self._set_back(intent, state)
        if outcome is None and standing.is_before:
            return Candidates(notes=("it was cut short and changed nothing",))
        return Candidates(refused=[Refusal(self._row(intent), standing.too_late)])
