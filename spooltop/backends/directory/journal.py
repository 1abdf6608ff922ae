"""The journal of messages: batches of moves, their outcomes, and their summaries."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from spooltop.errors import AuditFailed
from spooltop.model.operations.plan import ItemResult, Outcome, Plan
from spooltop.model.operations.results import encode_column, encode_line, encode_names, encode_object
from spooltop.model.text import escape, unescape
from spooltop.model.vocabulary import Box, Json

from ..journal.record_log import HEAD_AT_MOST, Head, Intent, LoggedOperation, RecordLog, RecordType, intent_head
from .storage.location import Place, plain_meta, safe_name

# The outcomes of the moves of a batch.


class MoveOutcome(NamedTuple):
    """The outcome of one move. ``moved``: the file is at its target now, or is deleted, whatever else went wrong; ``ino`` and
    ``ctime_ns`` are those it has there. ``ino`` 0: that of the plan; ``ctime_ns`` 0: not known. Where the file was not looked at
    again its ctime is between ``ctime_ns`` and ``until_ns``."""

    outcome: Outcome
    reason: str = ""
    moved: bool = False
    ino: int = 0
    ctime_ns: int = 0
    until_ns: int = 0


class BatchOutcome:
    """The outcomes of the ``tried`` moves of a batch. Nearly all are done and have nothing else to record: ``others`` holds only
    the exceptions, by place.

    ``between`` (from, until, in ns) bounds the ctimes of the files that were not looked at again; None where that does not
    matter.
    """

    def __init__(self, tried: int, others: Mapping[int, MoveOutcome], between: tuple[int, int] | None = None) -> None:
        self.tried = tried
        self.others = others
        self.between = between

    def __len__(self) -> int:
        return self.tried

    def at(self, place: int, ino: int = 0) -> MoveOutcome:
        """The outcome of the move ``place`` of the file ``ino``."""
        one = self.others.get(place)
        if one is None:
            return MoveOutcome(Outcome.DONE, "", True, ino, *(self.between or ()))
        return one if one.ino or not one.moved else one._replace(ino=ino)

    def pins(self, start: int, inos: Sequence[int]) -> tuple[list[bool], list[int], list[tuple[int, int]]]:
        """Returns of the files ``inos``, whose moves begin at ``start``: moved or not, inode, bounds of the ctime. The bounds
        of a move that is not done are 0."""
        tried = max(0, min(self.tried - start, len(inos)))
        there, pinned = [True] * tried + [False] * (len(inos) - tried), list(inos)
        between = [self.between or (0, 0)] * len(inos)
        for place in range(tried) if self.others else ():
            one = self.others.get(start + place)
            if one is not None:
                there[place], pinned[place] = one.moved, one.ino or inos[place]
                between[place] = (one.ctime_ns, one.until_ns) if one.outcome is Outcome.DONE else (0, 0)
        return there, pinned, between

    def columns(self) -> tuple[list[Outcome], list[str], list[bool]]:
        """Outcome, reason and whether moved, of each."""
        count = self.tried
        outcomes, reasons, there = [Outcome.DONE] * count, [""] * count, [True] * count
        for place, one in self.others.items():
            outcomes[place], reasons[place], there[place] = one[:3]
        return outcomes, reasons, there

    def failed_with(self, problem: str) -> BatchOutcome:
        """The same outcomes, where the moves may not survive power loss."""
        done = MoveOutcome(Outcome.DONE, "", True)
        each = ((place, self.others.get(place, done)) for place in range(self.tried))
        return BatchOutcome(
            self.tried, {place: one._replace(outcome=Outcome.FAILED, reason=problem) if one.moved else one for place, one in each}
        )


# The moves of a batch and their outcomes, as the lines of the journal hold them: by columns. moves [{from to [meta] names inos
# sizes ctimes tokens [to_names]}] results tried [between] others[{place outcome reason moved ino ctime}] Each object of
# ``moves`` is a run of messages out of one folder into one. ``from`` and ``to`` are these folders (``cur``,
# ``trash/OPERATION``), null where messages are made or deleted; ``names`` are those in the source, or where there is none, at
# the target; ``to_names`` is left out where the names stay. Any other column with one value for all is that value. ``meta`` was
# known of messages that had been set aside. Each of the moves that were ``tried`` is done as planned but for ``others``.
# ``ctime`` is in nanoseconds, 0 where it is not known or does not matter; that of a message done as planned is one of
# ``between``. ``ino`` is 0 where it is that of the intent.

_MOST = 1 << 64
"""No inode, size or time is larger; and NaN is below nothing."""
_MOST_TRIED = 1 << 32
_place = tuple.__new__


class LoggedMove(NamedTuple):
    """A move as the intent line holds it. ``source`` None: the message is made; ``target`` None: it is deleted."""

    source: Place | None
    target: Place | None
    ino: int = 0
    size: int = 0
    ctime_ns: int = 0
    token: str | None = None
    meta: Mapping[str, Json] | None = None


class MoveColumns(NamedTuple):
    """The moves of messages out of one (box, folder) into one. ``source`` None: they are made; ``target`` None: they are deleted,
    and ``to_names`` says nothing. ``names`` are those in the source, or where there is none, at the target."""

    source: tuple[Box, str] | None
    target: tuple[Box, str] | None
    meta: Mapping[str, Json] | None
    names: Sequence[str]
    to_names: Sequence[str]
    inos: Sequence[int]
    sizes: Sequence[int]
    ctimes_ns: Sequence[int]
    tokens: Sequence[str | None]

    def moves(self) -> Iterator[LoggedMove]:
        """Each of the moves; the places are those that were checked as columns."""
        source, target, meta = self.source, self.target, self.meta
        for name, to_name, ino, size, ctime_ns, token in zip(*self[3:], strict=True):
            yield LoggedMove(
                source and _place(Place, (source[0], name, source[1])), target and _place(Place, (target[0], to_name, target[1])),
                ino, size, ctime_ns, token, meta,
            )  # fmt: skip


def encode_moves(moves: MoveColumns) -> str:
    """Encodes an object of ``moves``."""
    head: dict[str, Json] = {"from": _folder_text(moves.source), "to": _folder_text(moves.target)}
    if moves.meta is not None:
        head["meta"] = dict(moves.meta)
    columns = {key: encode_column(column) for key, column in zip(_COLUMNS, moves[5:], strict=True)}
    if moves.target is not None and list(moves.to_names) != list(moves.names):
        columns["to_names"] = encode_names(moves.to_names)
    return encode_object(head, names=encode_names(moves.names), **columns)


_NUMBERS = "inos", "sizes", "ctimes"
_COLUMNS = *_NUMBERS, "tokens"


def _folder_text(place: tuple[Box, str] | None) -> str | None:
    return None if place is None else "/".join(filter(None, place))


def encode_outcome_line(head: Mapping[str, Json], outcome: BatchOutcome) -> bytes:
    """Encodes a result line that begins with ``head``."""
    line: dict[str, Json] = {**head, "tried": len(outcome)}
    if outcome.between is not None:
        line["between"] = list(outcome.between)
    line["others"] = [
        {"place": place, "outcome": one.outcome, "reason": one.reason, "moved": one.moved, "ino": one.ino, "ctime": one.ctime_ns}
        for place, one in sorted(outcome.others.items())
    ]
    return encode_line(line)


def decode_moves(value: Mapping[str, object]) -> tuple[MoveColumns, ...]:
    """Reads the moves of an intent line. Raises ``ValueError``."""
    return tuple(_columns(one) for one in _list(value, "moves"))


def decode_outcome(value: Mapping[str, object]) -> BatchOutcome:
    """Reads the outcome in a result line. Raises ``ValueError``."""
    tried = number_of(value, "tried", below=_MOST_TRIED)
    others = {number_of(one, "place", below=tried): _outcome(one) for one in _list(value, "others")}
    return BatchOutcome(tried, others, _between(value))


def text_of(value: Mapping[str, object], key: str) -> str:
    found = value.get(key)
    if not isinstance(found, str):
        raise ValueError(f"{key} is no text")
    return found


def number_of(value: Mapping[str, object], key: str, *, below: int = _MOST) -> int:
    return _checked(value.get(key), key, below)


def _checked(found: object, key: str, below: int = _MOST) -> int:
    if isinstance(found, bool) or not isinstance(found, int) or not 0 <= found < below:
        raise ValueError(f"{key} is no number")
    return found


def _list(value: Mapping[str, object], key: str) -> list[Mapping[str, object]]:
    found = value.get(key)
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise ValueError(f"{key} is no list")
    return found


def _columns(value: Mapping[str, object]) -> MoveColumns:
    names = _names(value, "names")
    to_names = _names(value, "to_names") if "to_names" in value else names
    meta = value.get("meta")
    if meta is not None and not isinstance(meta, dict):
        raise ValueError("meta is no object")
    source, target = _folder(value, "from"), _folder(value, "to")
    inos, sizes, ctimes_ns, tokens = (_column(value, key, len(names)) for key in _COLUMNS)
    for key, column in zip(_NUMBERS, (inos, sizes, ctimes_ns), strict=True):
        if not set(map(type, column)) <= {int} or (column and not 0 <= min(column) <= max(column) < _MOST):
            raise ValueError(f"{key} are no numbers")
    if not set(map(type, tokens)) <= {str, type(None)}:
        raise ValueError("tokens are no texts")
    if (source is None and target is None) or len(to_names) != len(names):
        raise ValueError("from nowhere to nowhere")
    return MoveColumns(
        source, target, None if meta is None else plain_meta(meta), names, to_names, inos, sizes, ctimes_ns, tokens
    )


def _names(value: Mapping[str, object], key: str) -> list[str]:
    found = value.get(key)
    if not isinstance(found, list) or not set(map(type, found)) <= {str}:
        raise ValueError(f"{key} are no texts")
    names = [unescape(name) for name in found] if "\\" in "".join(found) else found
    if not all(map(safe_name, names)):
        raise ValueError(f"{key} lead out of a folder")
    return names


def _folder(value: Mapping[str, object], key: str) -> tuple[Box, str] | None:
    if value.get(key, "") is None:
        return None
    box, _, folder = text_of(value, key).partition("/")
    place = Place(Box(box), "name", folder)  # checks the folder
    return place.box, place.folder


def _column(value: Mapping[str, object], key: str, count: int) -> list[Any]:
    found = value.get(key)
    column = found if isinstance(found, list) else [found] * count
    if len(column) != count:
        raise ValueError(f"{key} are not as many as the names")
    return column


def _between(value: Mapping[str, object]) -> tuple[int, int] | None:
    found = value.get("between")
    if found is None:
        return None
    if not isinstance(found, list) or len(found) != 2:
        raise ValueError("between is no pair")
    return _checked(found[0], "between"), _checked(found[1], "between")


def _outcome(value: Mapping[str, object]) -> MoveOutcome:
    outcome, reason, moved = Outcome(text_of(value, "outcome")), text_of(value, "reason"), value.get("moved") is True
    ctime_ns = number_of(value, "ctime")
    return MoveOutcome(outcome, reason, moved, number_of(value, "ino"), ctime_ns, ctime_ns)


# The journal of messages: the record log whose steps are batches of moves. intent schema line operation action batch time user
# count force undoes moves result schema line operation batch time tried [between] others ``moves`` and the members of a result
# are those of ``journal.moves``. The outcome of a batch without a result line is found by looking.

class MoveIntent(Intent, frozen=True):
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


# The journal of messages without its moves: the numbers that the list of operations shows. Journals are large, and nearly all
# of them is names and inodes. A line is shortened in its text, so that the rest is not parsed.

_MOVES = re.compile(rb',"moves":\[\{"from":(?:null|"[^"]*"),"to":(null|")')


class BatchTally(NamedTuple):
    """Numbers of moves of a batch by outcome, and of those that were made, whatever else went wrong."""

    done: int
    skipped: int
    failed: int
    moved: int

    @classmethod
    def decode(cls, head: Head) -> BatchTally:
        outcome = decode_outcome(head.value)
        others = list(outcome.others.values())
        planned = len(outcome) - len(others)
        done, skipped, failed = (sum(one.outcome is which for one in others) for which in Outcome)
        return cls(planned + done, skipped, failed, planned + sum(one.moved for one in others))


MoveSummary = LoggedOperation[MoveIntent, BatchTally]
"""All numbers that the journal holds of one operation on messages, and the moves of batches without a result."""


def _shortened(line: bytes) -> bytes:
    """Leaves the folders of the first move of an intent without its messages. A line that this program would not write so stays
    as it is."""
    if not line.endswith(b"]}") or (moves := _MOVES.search(line, 0, HEAD_AT_MOST)) is None:
        return line
    folders = b'"from":"new","to":null' if moves[1] == b"null" else b'"from":null,"to":"new"'
    return line[: moves.start()] + b',"moves":[{%b,"names":[],"inos":0,"sizes":0,"ctimes":0,"tokens":null}]}' % folders


SUMMARIES = RecordType("journal", "the journal", "batch", MoveIntent.decode, BatchTally.decode, MOVES.ends, _shortened)
"""The record type of the journal of messages, as it is read for summaries."""
