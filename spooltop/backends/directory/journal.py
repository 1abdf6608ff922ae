"""The journal of messages: batches of moves, their outcomes, and their summaries."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from msgspec import Struct, convert

from spooltop.errors import AuditFailed
from spooltop.model.operations.plan import ItemResult, Outcome, Plan
from spooltop.model.operations.results import encode_column, encode_line, encode_names, encode_object
from spooltop.model.text import escape, unescape
from spooltop.model.vocabulary import Box, Json

from ..journal.record_log import HEAD_AT_MOST, Intent, LoggedOperation, Number, RecordLog, RecordType, Whole, check_sizes
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


class _Run(Struct, frozen=True, rename={"source": "from", "target": "to"}):
    """An object of ``moves``. A column is one value where all have the same."""

    source: str | None
    target: str | None
    names: list[str]
    inos: list[Whole] | Whole
    sizes: list[Whole] | Whole
    ctimes: list[Whole] | Whole
    tokens: list[str | None] | str | None
    to_names: list[str] | None = None
    meta: dict[str, Any] | None = None


class _Other(Struct, frozen=True):
    """An object of ``others``."""

    place: Number
    outcome: Outcome
    reason: str
    ino: Whole
    ctime: Whole
    moved: bool = False


class _Outcomes(Struct, frozen=True):
    """The members of a result line."""

    tried: Number
    others: list[_Other]
    between: tuple[Whole, Whole] | None = None


def decode_outcome(value: Mapping[str, object]) -> BatchOutcome:
    """Reads the outcome in a result line. Raises ``ValueError``, ``ValidationError``."""
    found = convert(value, _Outcomes)
    if any(one.place >= found.tried for one in found.others):
        raise ValueError("an outcome of nothing")
    check_sizes(*(found.between or ()), *(number for one in found.others for number in (one.ino, one.ctime)))
    others = {one.place: MoveOutcome(one.outcome, one.reason, one.moved, one.ino, one.ctime, one.ctime) for one in found.others}
    return BatchOutcome(found.tried, others, found.between)


def _columns(run: _Run) -> MoveColumns:
    names, count = _names(run.names), len(run.names)
    to_names = names if run.to_names is None else _names(run.to_names)
    source, target = _folder(run.source), _folder(run.target)
    inos, sizes, ctimes = (one if isinstance(one, list) else [one] * count for one in (run.inos, run.sizes, run.ctimes))
    tokens = run.tokens if isinstance(run.tokens, list) else [run.tokens] * count
    if {len(to_names), len(inos), len(sizes), len(ctimes), len(tokens)} != {count} or (source is None and target is None):
        raise ValueError("columns of different lengths, or from nowhere to nowhere")
    check_sizes(*inos, *sizes, *ctimes)
    meta = None if run.meta is None else plain_meta(run.meta)
    return MoveColumns(source, target, meta, names, to_names, inos, sizes, ctimes, tokens)


def _names(found: list[str]) -> list[str]:
    names = [unescape(name) for name in found] if "\\" in "".join(found) else found
    if not all(map(safe_name, names)):
        raise ValueError("a name leads out of a folder")
    return names


def _folder(text: str | None) -> tuple[Box, str] | None:
    if text is None:
        return None
    box, _, folder = text.partition("/")
    place = Place(Box(box), "name", folder)  # checks the folder
    return place.box, place.folder


# The journal of messages: the record log whose steps are batches of moves. intent schema line operation action batch time user
# count force undoes moves result schema line operation batch time tried [between] others ``moves`` and the members of a result
# are those of ``journal.moves``. The outcome of a batch without a result line is found by looking.

class MoveIntent(Intent, frozen=True):
    """The intent of one batch. ``count`` messages are in all batches of the operation; ``force`` skips the check of holders."""

    count: Number
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
    def decode(cls, value: Mapping[str, object]) -> MoveIntent:
        """Raises ``ValueError``, ``ValidationError``."""
        found = convert(value, _IntentLine)
        runs = tuple(map(_columns, found.moves))
        return cls(found.operation, found.step, found.action, found.at, found.user, found.undoes, found.count, found.force, runs)


class _IntentLine(Intent, frozen=True):
    count: Number
    moves: list[_Run]
    force: bool = False


MoveOperation = LoggedOperation[MoveIntent, BatchOutcome]
"""All that the journal holds of one operation on messages."""


def unsure_moves(logged: MoveOperation) -> Iterator[LoggedMove]:
    """The moves of the batches without a result."""
    return (move for _, (batch, outcome) in sorted(logged.steps.items()) if outcome is None for move in batch.moves())


MoveLog = RecordLog[MoveIntent, BatchOutcome]
MOVES = RecordType("journal", "the journal", "batch", MoveIntent.decode, decode_outcome, ends=b"]}")
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
    def decode(cls, value: Mapping[str, object]) -> BatchTally:
        outcome = decode_outcome(value)
        others = list(outcome.others.values())
        planned = len(outcome) - len(others)
        done, skipped, failed = (sum(one.outcome is which for one in others) for which in Outcome)
        return cls(planned + done, skipped, failed, planned + sum(one.moved for one in others))


MoveSummary = LoggedOperation[MoveIntent, BatchTally]
"""All numbers that the journal holds of one operation on messages, and the moves of batches without a result."""


def _shortened(line: bytes) -> bytes:
    """Cuts the messages out of an intent line, and keeps from where to where the first of them moved, so that a line of megabytes
    need not be parsed to be counted. A line of another form is returned as it is."""
    if not line.endswith(b"]}") or (moves := _MOVES.search(line, 0, HEAD_AT_MOST)) is None:
        return line
    folders = b'"from":"new","to":null' if moves[1] == b"null" else b'"from":null,"to":"new"'
    return line[: moves.start()] + b',"moves":[{%b,"names":[],"inos":0,"sizes":0,"ctimes":0,"tokens":null}]}' % folders


SUMMARIES = RecordType("journal", "the journal", "batch", MoveIntent.decode, BatchTally.decode, MOVES.ends, _shortened)
"""The record type of the journal of messages, as it is read for summaries."""
