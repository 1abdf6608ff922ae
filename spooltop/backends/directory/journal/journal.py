"""The journal of messages: the record log whose steps are batches of moves.

intent  schema line operation action batch time user count force undoes items[{from to ino size ctime token meta}]
result  schema line operation batch time between results[{outcome reason moved ino ctime}]

``from`` and ``to`` are places (``cur/NAME``, ``trash/OPERATION/NAME``), null where a message is new or deleted; ``ctime`` is in
nanoseconds, 0 where it is not known or does not matter, null where the file was not looked at again: then it is one of
``between``; ``meta`` is what was known of a message that had been set aside, left out for others. The outcome of a batch
without a result line is found by looking.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from json.encoder import encode_basestring_ascii as quoted
from typing import NamedTuple, Protocol, TypeVar

from spooltop.errors import AuditFailed
from spooltop.model.jsonl import encode_line, encode_outcome, memoised
from spooltop.model.plan import ItemResult, Outcome, Plan
from spooltop.model.text import bare_all, escape
from spooltop.model.vocabulary import Box, Json
from spooltop.records import dataclass

from ..storage.location import Place
from ..storage.metadata import plain_meta
from .outcomes import BatchOutcome, MoveOutcome
from .record_log import Head, Intent, LoggedOperation, RecordLog, RecordType, intent_head

__all__ = [
    "MOVES", "BatchJournal", "JournalledBatch", "LoggedMove", "MoveIntent", "MoveLog", "MoveOperation", "Places", "encode_moves",
    "encode_uniform_moves", "is_unfinished", "moves_of", "unfinished_lines",
]  # fmt: skip


class LoggedMove(NamedTuple):
    """A move as the intent line holds it. ``source`` None: the message is made; ``target`` None: it is deleted."""

    source: Place | None
    target: Place | None
    ino: int = 0
    size: int = 0
    ctime_ns: int = 0
    token: str | None = None
    meta: Mapping[str, Json] | None = None


@dataclass(frozen=True, slots=True)
class MoveIntent(Intent):
    """The intent of one batch. ``count`` messages are in all batches of the operation; ``force`` skips the check of holders."""

    count: int
    force: bool
    moves: tuple[LoggedMove, ...]

    @classmethod
    def decode(cls, head: Head) -> MoveIntent:
        action, undoes = intent_head(head)
        value = head.value
        return cls(
            head.operation, head.step, action, head.at, _text(value, "user"), undoes, int(_number(value, "count")),
            value.get("force") is True, tuple(_move(one) for one in _list(value, "items")),
        )  # fmt: skip


MoveOperation = LoggedOperation[MoveIntent, tuple[MoveOutcome, ...]]
"""All that the journal holds of one operation on messages."""


def is_unfinished(logged: MoveOperation) -> bool:
    """True where the operation did not complete: a batch has no result line, or the last batches were never begun."""
    return logged.open or sum(len(batch.moves) for batch, _ in logged.steps.values()) < logged.first.count


def moves_of(logged: MoveOperation) -> Iterator[tuple[LoggedMove, MoveOutcome | None]]:
    """Each move with its outcome; None where no result was written. Moves that were never reached are left out."""
    for _, (batch, outcomes) in sorted(logged.steps.items()):
        if outcomes is None:
            yield from ((move, None) for move in batch.moves)
        else:
            yield from zip(batch.moves, outcomes, strict=False)


class Places(NamedTuple):
    """Places by columns; a box is None where there is no place."""

    boxes: Iterable[Box | None]
    names: Sequence[str]
    folders: Iterable[str]


def encode_moves(
    sources: Places,
    targets: Places,
    inos: Iterable[int],
    sizes: Iterable[int],
    ctimes_ns: Iterable[int],
    tokens: Iterable[str | None],
    metas: Iterable[Mapping[str, Json] | None],
) -> list[str]:
    """The items of an intent line, each as JSON."""
    return _items(_encoded_places(sources), _encoded_places(targets), inos, sizes, ctimes_ns, memoised(_rest, tokens, metas))


def encode_uniform_moves(
    source: tuple[Box, str],
    names: Sequence[str],
    target: tuple[Box, str],
    to_names: Sequence[str],
    inos: Iterable[int],
    sizes: Iterable[int],
    ctimes_ns: Iterable[int],
    tokens: Iterable[str | None],
) -> list[str]:
    """As ``encode_moves``, for messages out of one (box, folder) into one, in half the time."""
    here, there = _start(*source), _start(*target)
    rests = memoised(_rest, tokens, repeat(None, len(names)))
    around = f'"{here}', f'"{there}', '"'
    return _items(bare_all(names), bare_all(to_names), inos, sizes, ctimes_ns, rests, around)


def _items(
    sources: Iterable[str],
    targets: Iterable[str],
    inos: Iterable[int],
    sizes: Iterable[int],
    ctimes_ns: Iterable[int],
    rests: Iterable[str],
    around: tuple[str, str, str] = ("", "", ""),
) -> list[str]:
    """Encodes the items; ``around`` is the text before each source, before each target, and after both."""
    here, there, end = around
    return [
        f'{{"from":{here}{source}{end},"to":{there}{target}{end},"ino":{ino},"size":{size},"ctime":{ctime_ns},{rest}}}'
        for source, target, ino, size, ctime_ns, rest in zip(sources, targets, inos, sizes, ctimes_ns, rests, strict=True)
    ]


def _encoded_places(places: Places) -> Iterator[str]:
    """Encodes each place as the JSON text of its ``str``."""
    for start, name in zip(memoised(_start, places.boxes, places.folders), bare_all(places.names), strict=True):
        yield f'"{start}{name}"' if start else "null"


def _start(box: Box | None, folder: str) -> str:
    # No box and no folder of an operation has anything in it that JSON would quote.
    return "" if box is None else f"{box}/{folder}/" if folder else f"{box}/"


def _rest(token: str | None, meta: Mapping[str, Json] | None) -> str:
    metadata = "" if meta is None else f',"meta":{json.dumps(meta, separators=(",", ":"))}'
    return f'"token":{"null" if token is None else quoted(token)}{metadata}'


def _encode_result(operation: str, batch: int, at: float, outcome: BatchOutcome) -> bytes:
    ctime = 0 if outcome.between is None else "null"
    spelled = [f'{_AS_PLANNED}{ino},"ctime":{ctime}}}' for ino in outcome.inos]
    for place, one in outcome.others.items():
        spelled[place] = f'{{{_how(one)},"ino":{one.ino},"ctime":{one.ctime_ns}}}'
    head: dict[str, Json] = {"schema": 1, "line": "result", "operation": operation, "batch": batch, "time": at}
    if outcome.between is not None:
        head["between"] = list(outcome.between)
    return encode_line(head, results=spelled)


def _how(one: MoveOutcome) -> str:
    return f'{encode_outcome(one.outcome, one.reason)},"moved":{"true" if one.moved else "false"}'


_AS_PLANNED = f'{{{_how(MoveOutcome(Outcome.DONE, moved=True))},"ino":'


_HEAD = re.compile(
    rb'\{"schema":1,"line":"(intent|result)","operation":"([0-9A-Za-z._-]{1,64})",(?:"action":"[a-z]{1,20}",)?"batch":([0-9]{1,9}),'
)


def unfinished_lines(data: bytes) -> Iterator[bytes]:
    """The lines of batches without a result in a journal, found by the form in which this program writes a line, without
    parsing the rest of it. A line that it would not write so is among them."""
    waiting: dict[tuple[bytes, bytes], tuple[int, int]] = {}
    unknown: list[tuple[int, int]] = []
    start = 0
    while (end := data.find(b"\n", start)) >= 0:
        head = _HEAD.match(data, start, end)
        if head is None or not data.endswith(b"]}", start, end):
            unknown.append((start, end))
        elif head[1] == b"intent":
            waiting.setdefault((head[2], head[3]), (start, end))
        else:
            waiting.pop((head[2], head[3]), None)
        start = end + 1
    for start, end in (*waiting.values(), *unknown):
        if start < end:
            yield data[start:end]


def _outcomes(head: Head) -> tuple[MoveOutcome, ...]:
    between = _between(head.value)
    return tuple(_outcome(one, between) for one in _list(head.value, "results"))


MoveLog = RecordLog[MoveIntent, tuple[MoveOutcome, ...]]
MOVES = RecordType("journal", "the journal", "batch", MoveIntent.decode, _outcomes)
"""The record type of the journal of messages."""


class JournalledBatch(Protocol):
    """A batch of changes to messages."""

    def __len__(self) -> int: ...

    def encoded(self) -> list[str]:
        """The moves as the intent line holds them (``encode_moves``)."""
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
                self._write_intent(batch.encoded())
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

    def _write_intent(self, moves: Iterable[str]) -> None:
        """Announces a batch. Raises ``AuditFailed``: then nothing of this batch may happen. But a full disk does not stop what
        frees space."""
        plan = self._plan
        head: dict[str, Json] = {
            "schema": 1, "line": "intent", "operation": plan.operation, "action": str(plan.action), "batch": self._batch,
            "time": self._clock(), "user": escape(self._user), "count": plan.count, "force": plan.force, "undoes": plan.undoes,
        }  # fmt: skip
        try:
            self._log.append(encode_line(head, items=moves))
            self._unsynced = False
        except AuditFailed as error:
            if not (plan.deletes and error.full):
                raise
            self._lost = f"deleted without a line in the journal: {error.what}"

    def _write_result(
        self, outcomes: BatchOutcome, results: Sequence[ItemResult], *, last: bool
    ) -> Iterator[Sequence[ItemResult]]:
        """Writes the result line and yields ``results``, also where the line cannot be written. It is synced where it is the
        ``last``; else the next intent syncs it, or ``_settle``."""
        line = _encode_result(self._plan.operation, self._batch, self._clock(), outcomes)
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


def _text(value: Mapping[str, object], key: str) -> str:
    found = value.get(key)
    if not isinstance(found, str):
        raise ValueError(f"{key} is no text")
    return found


def _number(value: Mapping[str, object], key: str, *, whole: bool = True) -> float:
    return _checked(value.get(key), key, whole=whole)


def _checked(found: object, key: str, *, whole: bool = True) -> float:
    if isinstance(found, bool) or not isinstance(found, int if whole else (int, float)) or not 0 <= found < _MOST:
        raise ValueError(f"{key} is no number")
    return found


_MOST = 1 << 64
"""No inode, size or time is larger; and NaN is below nothing."""


def _list(value: Mapping[str, object], key: str) -> list[Mapping[str, object]]:
    found = value.get(key)
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise ValueError(f"{key} is no list")
    return found


def _move(value: Mapping[str, object]) -> LoggedMove:
    source, target, token = value.get("from"), value.get("to"), value.get("token")
    if "to" not in value or (source is None and target is None):
        raise ValueError("from nowhere to nowhere")
    if token is not None and not isinstance(token, str):
        raise ValueError("token is no text")
    meta = value.get("meta")
    if meta is not None and not isinstance(meta, dict):
        raise ValueError("meta is no object")
    return LoggedMove(
        None if source is None else Place.parse(_text(value, "from")),
        None if target is None else Place.parse(_text(value, "to")),
        int(_number(value, "ino")), int(_number(value, "size")), int(_number(value, "ctime")), token,
        None if meta is None else plain_meta(meta),
    )  # fmt: skip


def _between(value: Mapping[str, object]) -> tuple[int, int]:
    found = value.get("between", [0, 0])
    if not isinstance(found, list) or len(found) != 2:
        raise ValueError("between is no pair")
    return int(_checked(found[0], "between")), int(_checked(found[1], "between"))


def _outcome(value: Mapping[str, object], between: tuple[int, int]) -> MoveOutcome:
    if value.get("ctime", 0) is None:
        from_ns, until_ns = between
    else:
        from_ns = until_ns = int(_number(value, "ctime"))
    return MoveOutcome(
        Outcome(_text(value, "outcome")), _text(value, "reason"), value.get("moved") is True,
        int(_number(value, "ino")), from_ns, until_ns,
    )  # fmt: skip
