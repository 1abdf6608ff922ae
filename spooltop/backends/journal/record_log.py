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
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import closing
from functools import cache
from itertools import accumulate
from types import NoneType
from typing import Annotated, Any, Generic, NamedTuple, Self, TypeVar

from msgspec import Meta, Struct, ValidationError, convert, to_builtins

from spooltop.engine.system.syscalls import advice
from spooltop.model import Actor, AuditFailed, Outcome, Plan, Progress, Unreadable
from spooltop.model.vocabulary import Action, Frozen, Json, JsonObject, escape, unescape

from .log_store import OPERATION, LogStore

IntentT = TypeVar("IntentT", bound="Intent")
ResultT = TypeVar("ResultT")

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
        """The intent of a line that was just read. Raises ``ValueError`` for what is none."""
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


class RecordLog(Generic[IntentT, ResultT]):
    """A log of one record type in ``store``."""

    def __init__(self, store: LogStore, kind: RecordType[IntentT, ResultT]) -> None:
        self._store = store
        self._kind = kind
        self._name = f"{kind.name}.jsonl"
        self._unsynced = False

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
