"""Journals: who changed what, from where and when, and how it ended. Other programs may read them; nobody else writes them.

A journal is a file ``NAME.jsonl`` beside the queue, in ``.spooltop`` or the directory that its layout names. Where root works on
a queue of somebody else, and for what has no directory of its own (a stream, lock files alone), it lies in the directory
``TARGET-<16 hex digits>`` below ``/var/lib/spooltop`` (root) or ``~/.local/state/spooltop``. ``NAME.jsonl`` is the newest part,
``NAME.000001.jsonl`` was the first; a part begins with the intents that had no result in the parts before.

Each line is one JSON object: an *intent* before each step of an operation, synced before anything is changed, and a *result*
after it. A step is what is changed between the two: a batch of messages, one lock, one cursor. Its number is the place in the
plan of the first item of it, in the member that the table below names; "-": each operation has one step. A step without a result
was cut short: what it names may be done or not. Of two lines of one kind about one step the first counts.

Members of every line, in this order, and then of every intent and of every result:

    line    schema line operation STEP
    intent  action time user by undoes count force
    result  time

``schema`` is 1; another number is another form. ``line`` is ``intent`` or ``result``, ``operation`` an id. ``time`` is in epoch
seconds. ``user`` is who did it, and ``by`` has ``uid``, ``pid``, ``sudo_user``, ``ssh_connection`` and ``tty``, null where they
are not known. ``undoes`` is the operation that is undone, or null. ``count`` is the number of items in the whole operation, and
``force`` tells if it was forced.

    journal   first  intent  moves
    journal   first  result  tried between others
    messages  first  intent  items
    messages  first  result  tried others
    messages  first  intent  changes reverses
    messages  first  result  outcomes
    locks     item   intent  path folder below names content link element mode uid gid mtime words
    locks     item   result  outcome reason
    cursors   -      intent  file source had before after
    cursors   -      result  outcome reason
    pauses    -      intent  before after
    pauses    -      result  outcome reason

``journal`` is that of a spool: ``moves`` are runs out of one folder into one, with the columns ``names``, ``inos``, ``sizes``,
``ctimes`` (ns), ``tokens`` and, where they differ, ``to_names``; of the moves that were ``tried`` all are done but the
``others``; ``between`` bounds the ctimes that they gave. ``messages`` is that of another program's directory, whose ``items``
have ``id``, ``message``, ``changes`` and ``pins``, or that of a stream, with ``changes`` (``StreamChange``) and for each one of
``outcomes``: outcome, reason, new id. An outcome is ``done``, ``skipped`` or ``failed``.

Texts are valid Unicode: a byte of a name that is not printable UTF-8 is written ``\\xNN``, a backslash ``\\\\``; but ``before``
and ``after`` of a cursor are JSON values as they were. New members may come: pass over what is not known.

Somebody else may have written the journal. A line that is not exactly so is left out, counted, and the first reason is told with
the place in the line, such as ``Expected `int`, got `str` - at `$.others[0].place```.
"""

from __future__ import annotations

import json
import os
import re
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from functools import cache
from itertools import accumulate
from types import NoneType
from typing import Annotated, Any, Generic, NamedTuple, Protocol, Self, TypeVar

from msgspec import Meta, Struct, ValidationError, convert, to_builtins

from spooltop.engine.syscalls import advice
from spooltop.model import (
    Action,
    AuditFailed,
    Capabilities,
    Clock,
    Frozen,
    Json,
    JsonObject,
    Row,
    SpooltopError,
    Stop,
    Unreadable,
    escape,
    unescape,
)
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

from .access import user_name
from .log_store import OPERATION, LogStore

RefT = TypeVar("RefT")
IntentT = TypeVar("IntentT", bound="Intent")
ResultT = TypeVar("ResultT", bound="StepOutcome")
StateT = TypeVar("StateT")

OperationId = Annotated[str, Meta(pattern=rf"\A{OPERATION.pattern}")]
Time = Annotated[float, Meta(ge=0, lt=1e15)]
"""Epoch seconds."""
Number = Annotated[int, Meta(ge=0, lt=1 << 32)]
Whole = Annotated[int, Meta(ge=0)]
"""An inode, a size or a time in ns; ``check_sizes`` tests the other bound, which is more than msgspec compares with."""
PART = r"(?!\.\.?(?:/|\Z))[^/\0]{1,255}"
"""Pattern of a part of a path, which leads to no other directory."""


Told = tuple[str, str, str]
"""The id of an item, its name, and its name once it is changed."""


class Intent(Frozen, kw_only=True, rename={"at": "time"}):
    """The record of an intent line, as far as all logs have it in common: who did it and from where, the operation that it
    ``undoes``, the number of items in the whole operation, and if it was forced. Each step of an operation fills it in."""

    operation: OperationId = ""
    step: Number = 0
    action: Action = Action.UNDO
    at: Time = 0.0
    user: str = ""
    by: Actor = Actor()
    undoes: OperationId | None = None
    count: Number = 1
    force: bool = False

    def told(self) -> Iterable[Told]:
        """Names the items."""
        raise NotImplementedError

    def checked(self) -> Self:
        """The intent as its line holds it. Raises ``ValueError`` for one that no line holds."""
        return self


class _ResultHead(Frozen):
    """The members that every result line has."""

    operation: OperationId
    step: Number
    time: Time


class StepResult(NamedTuple, Generic[ResultT]):
    """The record of a result line: ``result`` is the result of the step."""

    operation: str
    step: int
    result: ResultT


class RecordType(Frozen, Generic[IntentT, ResultT]):
    """The type of the records in one log, and how its lines are read. ``name`` is its file name without ``.jsonl``; ``what``
    names the log in messages; ``step`` is the member that numbers the steps of an operation, "" where each has one.
    ``intent`` and ``result`` are the types of its records, in which that member is called ``step``; ``actions`` are those of its
    intents, empty for all. ``shorten`` leaves out of the intent of a step that has a result what the list of operations does not
    need. ``raw`` are members that are JSON of others: in all else names are escaped."""

    name: str
    what: str
    step: str
    intent: type[IntentT]
    result: type[ResultT]
    actions: tuple[Action, ...] = ()
    raw: frozenset[str] = frozenset()
    shorten: Callable[[bytes], bytes] = bytes


class LoggedOperation(Struct, Generic[IntentT, ResultT]):
    """All that a log holds of one operation. ``first`` is its first intent; ``trusted``: nobody else could have written it;
    ``steps`` is number → (intent, outcome or None where no result was written), in their order."""

    first: IntentT
    trusted: bool
    steps: dict[int, tuple[IntentT, ResultT | None]] = {}

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


class StepOutcome(Protocol):
    """How a step ended, as its result line holds it."""

    def each(self) -> Iterator[ItemOutcome]:
        """How each item that was reached ended."""
        ...


class ItemOutcome(Frozen):
    """The outcome of a step that changes one thing."""

    outcome: Outcome
    reason: str

    @property
    def changed(self) -> bool:
        """True if it was done."""
        return self.outcome is Outcome.DONE

    def each(self) -> Iterator[ItemOutcome]:
        yield self


# Lines

_UNDOES = re.compile(rb'"undoes":(?:null|"([0-9A-Za-z._-]{1,64})")')
_INTENT = b'{"schema":1,"line":"intent",'
_CARRIED_AT_MOST = 8 << 20
"""Bytes of unfinished intents that a part begins with."""
_SHOWN = 120
"""Characters shown of what is wrong with a line: its text may be somebody else's."""
_HEAD = "operation", "action", "time", "user", "undoes"
"""Members that each intent line has."""
HEAD_AT_MOST = 4096
"""Bytes from the beginning of a line within which its head ends, but for strange ones."""


@cache
def _head(step: str) -> re.Pattern[bytes]:
    """Matches the beginning of an intent as it is encoded: its operation and step."""
    number = f'"{step}":([0-9]{{1,9}}),' if step else "()"
    return re.compile(_INTENT.replace(b"{", rb"\{") + rf'"operation":"([0-9A-Za-z][0-9A-Za-z._-]{{0,63}})",{number}'.encode())


def encode_intent(intent: Intent, kind: RecordType[Any, Any]) -> bytes:
    """The intent line."""
    members: dict[str, Json] = to_builtins(intent)
    head = {name: members.pop(name) for name in Intent.__struct_encode_fields__}
    return _encode("intent", head | members, kind)


def encode_result(intent: Intent, result: object, kind: RecordType[Any, Any], at: float) -> bytes:
    """The result line of the step that ``intent`` announced, with the members of the struct ``result``."""
    head: JsonObject = {"operation": intent.operation, "step": intent.step, "time": at}
    return _encode("result", {**head, **to_builtins(result, str_keys=True)}, kind)


def _encode(line: str, members: JsonObject, kind: RecordType[Any, Any]) -> bytes:
    shown: dict[str, Json] = {"schema": 1, "line": line}
    for name, value in members.items():
        if member := kind.step if name == "step" else name:
            shown[member] = value if name in kind.raw else _mapped(value, escape)
    return json.dumps(shown, separators=(",", ":")).encode() + b"\n"


def check_sizes(*numbers: int) -> None:
    """Raises ``ValueError`` if one of ``numbers`` is larger than any inode, size or time in ns."""
    if max(numbers, default=0) >= 1 << 64:
        raise ValueError("a number that is too large")


def unescaped(value: Mapping[str, Any], raw: Collection[str] = ()) -> dict[str, Any]:
    """The members of a line with names as they are. Raises ``ValueError``."""
    return {name: member if name in raw else _mapped(member, unescape) for name, member in value.items()}


def _mapped(value: Any, name: Callable[[str], str]) -> Any:
    """``value`` with ``name`` of each of its texts."""
    if isinstance(value, str):
        return name(value)
    if isinstance(value, dict):
        return {name(key): _mapped(item, name) for key, item in value.items()}
    if isinstance(value, list | tuple):
        kinds = set(map(type, value))
        if (kinds == {str} and name(whole := "".join(value)) == whole) or kinds <= {int, NoneType}:
            return value  # of a batch of thousands, at once
        return [_mapped(item, name) for item in value]
    return value


def decode(line: bytes, kind: RecordType[IntentT, ResultT]) -> IntentT | StepResult[ResultT]:
    """Reads one line. Raises ``ValueError`` for anything that is not exactly a line of such a log."""
    value = json.loads(line)
    if not isinstance(value, dict) or value.get("schema") != 1 or value.get("line") not in ("intent", "result"):
        raise ValueError("no journal line")
    value["step"] = value.get(kind.step) if kind.step else 0
    try:
        plain = unescaped(value, kind.raw)
        if value["line"] == "result":
            head = convert(value, _ResultHead)
            return StepResult(head.operation, head.step, convert(plain, kind.result, str_keys=True))
        if missing := [name for name in _HEAD if name not in value]:
            raise ValueError(f"{missing[0]} is missing")
        intent = convert(plain, kind.intent, str_keys=True).checked()
    except ValidationError as error:
        raise ValueError(str(error)) from None
    if kind.actions and intent.action not in kind.actions:
        raise ValueError("another action")
    return intent


def step_of(line: bytes, kind: RecordType[IntentT, ResultT]) -> tuple[str, int, StepResult[ResultT] | None]:
    """Tells the operation of a line, the number of its step, and its record if it is a result: an intent may be long. Raises
    ``ValueError`` as ``decode`` does."""
    if line.endswith(b"}") and (found := _head(kind.step).match(line)) is not None:
        return found[1].decode(), int(found[2] or 0), None
    record = decode(kind.shorten(line), kind)
    return record.operation, record.step, record if isinstance(record, StepResult) else None


def gather(
    lines: Iterable[bytes],
    kind: RecordType[IntentT, ResultT],
    *,
    trusted: bool,
    begins: str = "",
    most: int | None = None,
) -> tuple[dict[str, LoggedOperation[IntentT, ResultT]], list[str]]:
    """Pairs the intents of a log, whose ``lines`` come newest first, with their results: the operations by id, the oldest first,
    and of each line that is none what is wrong with it. Of two lines about one step the first in the log counts; a result before
    its intent counts for nothing. ``begins``: only operations whose id begins so and those that undo one; if it is a whole id,
    nothing before that operation is read. ``most``: nothing before the newest so many operations is read."""
    found: dict[str, LoggedOperation[IntentT, ResultT]] = {}
    results: dict[tuple[str, int], StepResult[ResultT]] = {}
    begun: set[str] = set()
    bad: list[str] = []
    for line in lines:
        try:
            operation, step, ended = step_of(line, kind)
            if ended is not None:
                results[operation, step] = ended
                continue
            result = results.pop((operation, step), None)
            undoes = None if operation.startswith(begins) else _UNDOES.search(line, 0, HEAD_AT_MOST)
            if undoes is not None and not (undoes[1] or b"").decode().startswith(begins):
                continue
            intent = decode(line if result is None else kind.shorten(line), kind)
            if isinstance(intent, StepResult) or (intent.operation, intent.step) != (operation, step):
                raise ValueError("a member twice")  # of which step_of reads the first, and decode the last
        except (ValueError, RecursionError) as error:
            bad.append(str(error))
            continue
        if not operation.startswith(begins) and not (intent.undoes or "").startswith(begins):
            continue  # no line of ours: its head did not say so
        logged = found.setdefault(operation, LoggedOperation(intent, trusted))
        logged.first = intent
        _, later = logged.steps.get(step, (None, None))
        logged.steps[step] = intent, later if result is None else result.result
        if step == 0:
            begun.add(operation)
            if operation == begins or (most is not None and len(begun) == len(found) >= most):
                break
    for logged in found.values():
        logged.steps = dict(sorted(logged.steps.items()))
    return dict(reversed(found.items())), bad


def unfinished(lines: Iterable[bytes], kind: RecordType[Any, Any]) -> list[bytes]:
    """The intents without a result in a log whose ``lines`` come newest first."""
    ended: set[tuple[str, int]] = set()
    waiting: dict[tuple[str, int], bytes] = {}
    for line in lines:
        try:
            operation, step, record = step_of(line, kind)
        except (ValueError, RecursionError):
            continue  # what is no line begins nothing
        if record is not None:
            ended.add((operation, step))
            waiting.pop((operation, step), None)
        elif (operation, step) not in ended:
            waiting[operation, step] = line
    return list(waiting.values())


# A log in a store


class RecordLog(Struct, Generic[IntentT, ResultT]):
    """A log of one record type in a store."""

    _store: LogStore
    _kind: RecordType[IntentT, ResultT]
    _unsynced: bool = False

    @property
    def _name(self) -> str:
        return f"{self._kind.name}.jsonl"

    def append(self, line: bytes, *, sync: bool = True) -> None:
        """Appends an encoded line, synced unless a later line or ``settle`` will sync it; an empty one only syncs. Raises
        ``AuditFailed``: then nothing may be changed."""
        following = self._carried if line.startswith(_INTENT) else None  # so that a step is rarely divided between two parts
        self._store.append(self._name, line, sync=sync, following=following)
        self._unsynced = not sync

    def settle(self) -> None:
        """Syncs what no later line has synced. Raises ``AuditFailed``."""
        if self._unsynced:
            self.append(b"")

    def begin(self, plan: Plan, intent: bytes) -> str:
        """Appends the line of an intent of ``plan``, "" if that is done. If the disk is full, an operation that works then
        continues without, and this says so. Raises ``AuditFailed``."""
        try:
            self.append(intent)
        except AuditFailed as error:
            if not (plan.works_when_full and error.full):
                raise
            return f"done without a line in the journal, so that no undo is possible: {error.what}"
        return ""

    def _carried(self) -> bytes:
        """The intents of the two newest parts that have no result, as lines of the next part, the newest if they are many."""
        lines: list[bytes] = []
        for log in self._store.read(self._name, latest=2):
            if log.trusted:
                with closing(iter(log)) as newest_first:
                    lines = unfinished(newest_first, self._kind)
        few = [line for line, length in zip(lines, accumulate(map(len, lines)), strict=True) if length < _CARRIED_AT_MOST]
        return b"".join(line + b"\n" for line in reversed(few))

    def read(
        self, progress: Progress | None = None, *, required: bool = False, begins: str = "", most: int | None = None,
        brief: bool = False, cut_off: bool = False,
    ) -> tuple[dict[str, LoggedOperation[IntentT, ResultT]], list[str]]:
        """The operations by id, in the order of the log, and what is wrong with the logs, in words. The user's own log counts
        first; if it is ``required`` and cannot be read, this raises ``Unreadable``, because it may record operations that nothing
        else shows. ``begins`` and ``most`` as for ``gather``, of each log; ``brief``: without what ``shorten`` leaves out;
        ``cut_off``: only the steps without a result, of the two newest parts. Raises ``Stopped``."""
        progress = progress or Progress()
        kind = self._kind if brief or cut_off else self._kind.replace(shorten=bytes)
        found: dict[str, LoggedOperation[IntentT, ResultT]] = {}
        problems: list[str] = []
        what = kind.what
        try:
            for log in self._store.read(self._name, latest=2 if cut_off else None):
                progress.begin("lines of the journal read", every=1)
                try:
                    with closing(iter(log)) as lines:
                        counted = progress.each(lines)
                        wanted = unfinished(counted, kind) if cut_off else counted
                        operations, bad = gather(wanted, kind, trusted=log.trusted, begins=begins, most=most)
                except OSError as error:
                    words = f"{what} cannot be read: {error.strerror}"
                    if required and log.trusted:
                        raise Unreadable(words, advice(error), path=log.path) from error
                    problems.append(words)
                    continue
                if log.unread:
                    lost = f"the first {log.unread / 1e6:.0f} MB of {what} were not read"
                    problems.append(f"{lost}: operations recorded there cannot be undone")
                if log.torn:
                    problems.append(f"the last line of {what} is cut off: a crash or a full disk")
                if bad:
                    newest = bad[0] if len(bad[0]) <= _SHOWN else f"{bad[0][: _SHOWN // 2]}…{bad[0][-_SHOWN // 2 :]}"
                    left_out = f"{len(bad)} lines of {what} are not journal lines and were left out"
                    problems.append(f"{left_out}; the newest: {escape(newest)}")
                for operation, logged in operations.items():
                    found.setdefault(operation, logged)
        except OSError as error:
            words = f"{what} cannot be read: {error.strerror}"
            if required and not isinstance(error, PermissionError):  # whose log it is decides who may read it
                raise Unreadable(words, advice(error), path=self._store.path) from error
            problems.append(words)
        return found, problems

    def unfinished(self) -> list[LoggedOperation[IntentT, ResultT]]:
        """The operations with a step that has no result, with no other steps: a new part begins with such intents."""
        return list(self.read(cut_off=True)[0].values())


# The entries of the list of operations, made of what a log holds, and which operation is undone by which.

_Logged = TypeVar("_Logged", bound=LoggedOperation[Any, Any])


def undos_of(operations: Mapping[str, _Logged]) -> dict[str, list[_Logged]]:
    """The operations that undo each operation, in the order of the log."""
    found: dict[str, list[_Logged]] = {}
    for logged in operations.values():
        if logged.undoes is not None:
            found.setdefault(logged.undoes, []).append(logged)
    return found


class Account(Struct):
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


_TICK = 0.2
"""Seconds between two looks if a person wants to stop, while a limit on the rate has it wait."""


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
    ``read_only`` says why nothing may be changed; ``user`` None: who runs this."""

    at_once = 1
    _wait = staticmethod(time.sleep)
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
    ) -> None:
        self._path = path
        self._kind = kind
        self._log = RecordLog(store, kind)
        self._clock = clock
        self._read_only = read_only
        self._user = user if user is not None else user_name(os.geteuid())
        self._actor = Actor.here()

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
        unlogged = self._log.begin(plan, encode_intent(intent.checked(), self._kind))
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
            results = [one.replace(reason=one.reason or unlogged) for one in known]
        return results, error

    def _log_result(self, intent: IntentT, outcome: ResultT, *, sync: bool = True) -> None:
        """Raises ``AuditFailed``."""
        self._log.append(encode_result(intent, outcome, self._kind, self._clock()), sync=sync)

    def operations(self, progress: Progress, *, begins: str = "", most: int | None = None) -> list[OperationRecord]:
        required = self.needs_log or bool(begins)
        operations = self._log.read(progress, required=required, begins=begins, most=most, brief=True)[0]
        if not operations:
            return []
        accounts = dict(zip(operations, self._facts(operations, progress), strict=True))
        made: dict[str, int] = {}
        for operation, own in accounts.items():
            if own.outcomes is None:  # of the items that the intents name: a result line may say that it tried any number
                ended = ((intent, result) for intent, result in operations[operation].steps.values() if result is not None)
                each = (one.outcome for intent, result in ended for _, one in zip(intent.told(), result.each(), strict=False))
                own.outcomes = Counter(each)
            made[operation] = own.outcomes.get(Outcome.DONE, 0) + (own.found or 0) if own.made is None else own.made
        records, undos_by_operation = [], undos_of(operations)
        for operation, own in accounts.items():
            if not operation.startswith(begins):
                continue
            logged, undos = operations[operation], undos_by_operation.get(operation, ())
            first, many, why_not = logged.first, Counter(own.outcomes), own.why_not
            undone = [undo.operation for undo in undos if made[undo.operation]]
            if undone and sum(made[undo] for undo in undone) >= made[operation]:
                why_not = f"already undone by {undone[-1]}"
            if not made[operation] and (own.found is not None or not logged.open):
                why_not = "it changed nothing"  # one that was cut off, and nobody looked at, may be done
            records.append(OperationRecord(
                operation=operation, action=first.action, at=first.at, user=first.user, count=first.count,
                done=many[Outcome.DONE] + (own.found or 0), skipped=many[Outcome.SKIPPED], failed=many[Outcome.FAILED],
                open=logged.open or own.unfinished, undone_by=undone[-1] if undone else None, why_not_undo=why_not,
                words=own.words,
            ))  # fmt: skip
        # Those of one moment come backwards.
        return sorted(records, key=lambda record: record.at)[::-1][:most]

    def knows(self, operation: str) -> bool:
        """True if this operation was this operator's. Raises ``Unreadable``."""
        return operation in self._log.read(required=True, begins=operation)[0]

    def trail(self, operation: str) -> AuditTrail:
        """Raises ``Unreadable``."""
        operations, problems = self._log.read(required=True, begins=operation)
        logged = operations.get(operation)
        lines = []
        for intent, outcome in () if logged is None else logged.steps.values():
            items = list(intent.told())
            results = () if outcome is None else tuple(
                ItemResult(id, name, one.outcome, one.reason, became if one.changed else "")
                for (id, name, became), one in zip(items, outcome.each(), strict=False)
            )  # fmt: skip
            lines.append(AuditLine(
                intent.at, "before" if outcome is None else "after", str(intent.action), intent.user, intent.by, intent.count,
                None if outcome is None else intent.step + len(results), intent.force,
                tuple(name for _, name, _ in items) if outcome is None else (), results, logged is not None and logged.trusted,
            ))  # fmt: skip
        if logged is not None and 0 not in logged.steps:
            problems.append(f"its steps before item {min(logged.steps) + 1:,} are no longer in the journal")
        return AuditTrail(tuple(lines), tuple(problems))

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


class Standing(Frozen):
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
