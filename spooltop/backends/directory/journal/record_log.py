"""Logs of changes: an intent line before each step of an operation, a result line after it, one JSON object a line.

intent  schema line operation [step] action time user undoes …
result  schema line operation [step] time …

A step is what is changed between the two lines: a batch of messages, one lock, one cursor. The ``RecordType`` of a log names the
member that numbers the steps, and reads what else the lines hold. A step without a result line was cut short. Somebody else may
have written the log: a line that is not exactly so is left out and counted.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeGuard, TypeVar

from spooltop.engine.os_errors import advice
from spooltop.errors import AuditFailed, Unreadable
from spooltop.model.plan import OperationRecord, Outcome
from spooltop.model.progress import Progress
from spooltop.model.vocabulary import Action, Json
from spooltop.records import dataclass, field

from ..storage.location import OPERATION
from .log_files import lines_of
from .log_store import LogStore

__all__ = [
    "Head", "Intent", "ItemOutcome", "LoggedOperation", "RecordLog", "RecordType", "StepResult", "decode", "encode", "gather",
    "intent_head", "is_time", "newest_first", "operation_record", "undone_by", "undos_of", "why_not_undo", "write_failed",
]  # fmt: skip

IntentT = TypeVar("IntentT", bound="Intent")
ResultT = TypeVar("ResultT")
_Logged = TypeVar("_Logged", bound="LoggedOperation[Any, Any]")

_LATEST = 1e15
_STEPS = 1 << 32


class Head(NamedTuple):
    """The object ``value`` of one line, and what every line holds. ``step`` is 0 where the log does not number steps; ``at`` is
    in epoch seconds; ``result``: it is a result line."""

    value: Mapping[str, Any]
    operation: str
    step: int
    at: float
    result: bool


@dataclass(frozen=True, slots=True)
class Intent:
    """The record of an intent line, as far as all logs have it in common. ``undoes`` is the operation that this one undoes."""

    operation: str
    step: int
    action: Action
    at: float
    user: str
    undoes: str | None


class StepResult(NamedTuple, Generic[ResultT]):
    """The record of a result line: ``result`` is the result of the step."""

    operation: str
    step: int
    result: ResultT


@dataclass(frozen=True, slots=True)
class RecordType(Generic[IntentT, ResultT]):
    """The type of the records in one log, and how its lines are read. ``name`` is its file name without ``.jsonl``; ``what``
    names the log in messages; ``step`` is the member that numbers the steps of an operation, "" where each has one. ``intent``
    and ``result`` raise ``ValueError`` for what is no such line."""

    name: str
    what: str
    step: str
    intent: Callable[[Head], IntentT]
    result: Callable[[Head], ResultT]


@dataclass(slots=True)
class LoggedOperation(Generic[IntentT, ResultT]):
    """All that a log holds of one operation. ``first`` is its first intent; ``trusted``: nobody else could have written it;
    ``steps`` is number → (intent, outcome or None where no result was written)."""

    first: IntentT
    trusted: bool
    steps: dict[int, tuple[IntentT, ResultT | None]] = field(default_factory=dict)

    @property
    def operation(self) -> str:
        return self.first.operation

    @property
    def undoes(self) -> str | None:
        return self.first.undoes

    @property
    def open(self) -> bool:
        """True where a step has no result line."""
        return any(result is None for _, result in self.steps.values())


class ItemOutcome(NamedTuple):
    """The outcome of a step that changes one thing."""

    outcome: Outcome
    reason: str = ""

    @classmethod
    def decode(cls, head: Head) -> ItemOutcome:
        reason = head.value.get("reason")
        if not isinstance(reason, str):
            raise ValueError("no reason")
        return cls(Outcome(str(head.value.get("outcome"))), reason)

    def encode(self, intent: Intent, kind: RecordType[Any, Any], at: float) -> bytes:
        """The result line of the step that ``intent`` announced."""
        step = {kind.step: intent.step} if kind.step else {}
        return encode("result", intent.operation, {**step, "time": at, "outcome": str(self.outcome), "reason": self.reason})


# Lines


def encode(line: str, operation: str, members: Mapping[str, Json]) -> bytes:
    """A line, ``intent`` or ``result``, with its ``members`` in their order."""
    value = {"schema": 1, "line": line, "operation": operation, **members}
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"


def decode(line: bytes, kind: RecordType[IntentT, ResultT]) -> IntentT | StepResult[ResultT]:
    """Reads one line. Raises ``ValueError`` for anything that is not exactly a line of such a log."""
    value = json.loads(line)
    if not isinstance(value, dict) or value.get("schema") != 1 or value.get("line") not in ("intent", "result"):
        raise ValueError("no journal line")
    operation, at = value.get("operation"), value.get("time")
    if not isinstance(operation, str) or not OPERATION.match(operation):
        raise ValueError("no operation id")
    if not is_time(at):
        raise ValueError("no time")
    step = value.get(kind.step) if kind.step else 0
    if type(step) is not int or not 0 <= step < _STEPS:
        raise ValueError(f"no {kind.step}")
    head = Head(value, operation, step, float(at), value["line"] == "result")
    return StepResult(operation, step, kind.result(head)) if head.result else kind.intent(head)


def intent_head(head: Head, *actions: Action) -> tuple[Action, str | None]:
    """The action of an intent, which is one of ``actions`` where they are given, and the operation that it undoes. Raises
    ``ValueError``."""
    action, undoes = Action(str(head.value.get("action"))), head.value.get("undoes")
    if actions and action not in actions:
        raise ValueError("another action")
    if undoes is not None and not (isinstance(undoes, str) and OPERATION.match(undoes)):
        raise ValueError("undoes no operation")
    return action, undoes


def is_time(value: object) -> TypeGuard[float]:
    """True for epoch seconds; NaN is below nothing."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < _LATEST


def gather(
    lines: Iterable[bytes], kind: RecordType[IntentT, ResultT], *, trusted: bool
) -> tuple[dict[str, LoggedOperation[IntentT, ResultT]], int]:
    """Pairs the intents of a log with their results: the operations by id, in the order of their first intent, and how many lines
    are none. Of two lines about one step the first counts; a result before its intent counts for nothing."""
    found: dict[str, LoggedOperation[IntentT, ResultT]] = {}
    bad = 0
    for line in lines:
        try:
            record = decode(line, kind)
        except (ValueError, RecursionError):
            bad += 1
            continue
        known = found.get(record.operation)
        if not isinstance(record, StepResult):
            if known is None:
                known = found[record.operation] = LoggedOperation(record, trusted)
            known.steps.setdefault(record.step, (record, None))
        elif known is not None and record.step in known.steps:
            intent, result = known.steps[record.step]
            if result is None:
                known.steps[record.step] = intent, record.result
    return found, bad


# A log in a store


class RecordLog(Generic[IntentT, ResultT]):
    """A log of one record type in ``store``."""

    def __init__(self, store: LogStore, kind: RecordType[IntentT, ResultT]) -> None:
        self._store = store
        self._kind = kind
        self._name = f"{kind.name}.jsonl"

    def append(self, line: bytes, *, sync: bool = True) -> None:
        """Appends an encoded line, synced unless a later line will be; an empty one only syncs. Raises ``AuditFailed``: then
        nothing may be changed."""
        try:
            self._store.append(self._name, line, sync=sync)
        except OSError as error:
            raise write_failed(self._store, self._kind.name, error) from error

    def read(self) -> tuple[dict[str, LoggedOperation[IntentT, ResultT]], list[str]]:
        """All operations by id, and what is wrong with the logs, in words. The user's own log counts first."""
        return self._gathered(lines_of, Progress(), required=False)

    def read_required(self, progress: Progress) -> tuple[dict[str, LoggedOperation[IntentT, ResultT]], list[str]]:
        """As ``read``, but raises ``Unreadable`` if the user's own log cannot be read, because it may record operations that
        nothing else shows. Raises ``Stopped``."""
        return self._gathered(lines_of, progress, required=True)

    def read_some(self, narrow: Callable[[bytes], Iterable[bytes]]) -> dict[str, LoggedOperation[IntentT, ResultT]]:
        """As ``read``, of those lines alone that ``narrow`` finds in the text of a log."""
        return self._gathered(narrow, Progress(), required=False)[0]

    def _gathered(
        self, narrow: Callable[[bytes], Iterable[bytes]], progress: Progress, *, required: bool
    ) -> tuple[dict[str, LoggedOperation[IntentT, ResultT]], list[str]]:
        found: dict[str, LoggedOperation[IntentT, ResultT]] = {}
        problems: list[str] = []
        what = self._kind.what
        try:
            for text in self._store.read(self._name):
                if text.error is not None:
                    words = f"{what} cannot be read: {text.error.strerror}"
                    if required and text.trusted:
                        raise Unreadable(words, path=self._store.path, advice=advice(text.error)) from text.error
                    problems.append(words)
                    continue
                progress.begin("lines of the journal read", every=1)
                operations, bad = gather(progress.each(narrow(text.data)), self._kind, trusted=text.trusted)
                if text.unread:
                    lost = f"the first {text.unread / 1e6:.0f} MB of {what} were not read"
                    problems.append(f"{lost}: operations recorded there cannot be undone")
                if text.torn:
                    problems.append(f"the last line of {what} is cut off: a crash or a full disk")
                if bad:
                    problems.append(f"{bad} lines of {what} are not journal lines and were left out")
                for operation, logged in operations.items():
                    found.setdefault(operation, logged)
        except OSError as error:
            problems.append(f"{what} cannot be read: {error.strerror}")
        return found, problems


def write_failed(store: LogStore, what: str, error: OSError) -> AuditFailed:
    """The error to raise where a log about ``what`` cannot be written."""
    return AuditFailed(
        f"changes to {what} cannot be logged: {error.strerror or error}",
        path=store.path,
        advice="nothing is changed without it; free space or fix its permissions",
    )


# Undo


def undos_of(operations: Mapping[str, _Logged]) -> dict[str, list[_Logged]]:
    """The operations that undo each operation, in the order of the log."""
    found: dict[str, list[_Logged]] = {}
    for logged in operations.values():
        if logged.undoes is not None:
            found.setdefault(logged.undoes, []).append(logged)
    return found


def undone_by(undos: Sequence[_Logged], changed: Callable[[_Logged], bool]) -> str | None:
    """The last of ``undos`` that ``changed`` something, None where none did."""
    return next((logged.operation for logged in reversed(undos) if changed(logged)), None)


def why_not_undo(*, changed: bool, undone: str | None, other: str | None) -> str | None:
    """Why an operation cannot be undone, None where it can: it ``changed`` nothing, it is ``undone`` by another already, or
    ``other``."""
    if not changed:
        return "it changed nothing"
    return other if undone is None else f"already undone by {undone}"


def operation_record(
    logged: LoggedOperation[Any, Any], outcomes: Iterable[Outcome], *, count: int, found: int = 0, unfinished: bool,
    undone: str | None, why_not: str | None, words: str,
) -> OperationRecord:  # fmt: skip
    """The entry of ``logged`` in the list of operations. ``found``: steps without a result that were found done by looking."""
    first, many = logged.first, Counter(outcomes)
    return OperationRecord(
        operation=first.operation, action=first.action, at=first.at, user=first.user, count=count,
        done=many[Outcome.DONE] + found, skipped=many[Outcome.SKIPPED], failed=many[Outcome.FAILED], open=unfinished,
        undone_by=undone, why_not_undo=why_not, words=words,
    )  # fmt: skip


def newest_first(records: Sequence[OperationRecord]) -> list[OperationRecord]:
    """``records``, which are in the order of the log, newest first; those of one moment backwards."""
    in_order = sorted(records, key=lambda record: record.at)
    in_order.reverse()
    return in_order
