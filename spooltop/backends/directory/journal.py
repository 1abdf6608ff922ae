"""The journal of messages: runs of moves out of one folder into one, and how each step of an operation ended."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from spooltop.engine import names as grammar
from spooltop.model import Box, Frozen, Outcome

from ..journal import HEAD_AT_MOST, Intent, ItemOutcome, LoggedOperation, Number, RecordType, Told, Whole, check_sizes
from .storage import Place, safe_name

# intent  … first … moves[{from to names inos sizes ctimes tokens [to_names meta]}]
# result  … first … tried [between] others[{place outcome reason moved ino ctime}]
#
# A step is a batch of messages, and its number is the place of its first message in the plan. Each object of ``moves`` is a run
# of messages out of one folder into one. ``from`` and ``to`` are these folders (``cur``, ``trash/OPERATION``), null where
# messages are made or deleted; ``names`` are those in the source, or where there is none, at the target; ``to_names`` is left out
# where the names stay. Any other column with one value for all is that value. ``meta`` was known of messages that had been set
# aside. Each of the moves that were ``tried`` is done as planned but for ``others``.


class MoveRun(Frozen, omit_defaults=True, rename={"source": "from", "target": "to"}):
    """An object of ``moves``. A column is one value where all have the same; ``ctimes`` are in nanoseconds."""

    source: str | None
    target: str | None
    names: list[str]
    inos: list[Whole] | Whole
    sizes: list[Whole] | Whole
    ctimes: list[Whole] | Whole
    tokens: list[str | None] | str | None
    to_names: list[str] | None = None
    meta: dict[str, Any] | None = None

    @property
    def source_folder(self) -> tuple[Box, str] | None:
        """The (box, folder) that the messages leave."""
        return _folder(self.source)

    @property
    def target_folder(self) -> tuple[Box, str] | None:
        return _folder(self.target)

    @property
    def target_names(self) -> Sequence[str]:
        return self.names if self.to_names is None else self.to_names

    def moves(self) -> Iterator[LoggedMove]:
        source, target = self.source_folder, self.target_folder
        inos = self.inos if isinstance(self.inos, list) else [self.inos] * len(self.names)
        for name, to_name, ino in zip(self.names, self.target_names, inos, strict=True):
            # The names were checked when the line was read.
            yield LoggedMove(
                self, source and _place(Place, (source[0], name, source[1])),
                target and _place(Place, (target[0], to_name, target[1])), ino,
            )  # fmt: skip

    def __post_init__(self) -> None:
        if {self.source_folder, self.target_folder} == {None}:
            raise ValueError("from nowhere to nowhere")
        for column in (self.inos, self.sizes, self.ctimes, self.tokens, self.to_names):
            if isinstance(column, list) and len(column) != len(self.names):
                raise ValueError("columns of different lengths")
        for numbers in (self.inos, self.sizes, self.ctimes):
            check_sizes(*(numbers if isinstance(numbers, list) else (numbers,)))
        if not all(map(safe_name, self.names)) or not all(map(safe_name, self.to_names or ())):
            raise ValueError("a name leads out of a folder")


_place = tuple.__new__


class LoggedMove(Frozen, gc=False):
    """A move of ``run`` as the intent line holds it, or as it was done. ``source`` None: the message is made; ``target`` None: it
    is deleted. ``ino``, and the ctime, which is ``between`` two, are those at the target once it is done, 0 where not recorded. A
    message that left and came back between the two, a tenth of a second, counts as one that stayed."""

    run: MoveRun
    source: Place | None
    target: Place | None
    ino: int = 0
    between: tuple[int, int] = (0, 0)


def folder_text(box: Box, folder: str) -> str:
    return f"{box}/{folder}" if folder else str(box)


def _folder(text: str | None) -> tuple[Box, str] | None:
    if text is None:
        return None
    box, _, folder = text.partition("/")
    place = Place(Box(box), "name", folder)  # checks the folder
    return place.box, place.folder


class MoveIntent(Intent):
    """The intent of one batch."""

    moves: list[MoveRun]

    def __len__(self) -> int:
        """The number of messages in this batch."""
        return sum(len(run.names) for run in self.moves)

    def each(self) -> Iterator[LoggedMove]:
        for run in self.moves:
            yield from run.moves()

    @property
    def deletes(self) -> bool:
        return any(run.target is None for run in self.moves)

    def told(self) -> Iterator[Told]:
        for run in self.moves:
            box = run.source_folder[0] if run.source_folder is not None else Box.NEW
            for name, to_name in zip(run.names, run.target_names, strict=True):
                became = to_name if run.target is not None else ""
                yield grammar.parse(name, claimed=box not in (Box.NEW, Box.TMP)).id, name, became


class MoveOutcome(Frozen):
    """The outcome of the move ``place`` of a batch. ``moved``: the file is at its target now, or is deleted, whatever else went
    wrong; ``ino`` and ``ctime`` (ns) are those it has there. ``ino`` 0: that of the plan; ``ctime`` 0: not known, or it does not
    matter."""

    place: Number
    outcome: Outcome
    reason: str
    moved: bool = False
    ino: Whole = 0
    ctime: Whole = 0


class BatchOutcome(Frozen, kw_only=True, omit_defaults=True):
    """The outcomes of the ``tried`` moves of a batch. Nearly all are done and have nothing else to record: ``others`` holds only
    the exceptions. ``between`` (from, until, in ns) bounds the ctimes of the files that were not looked at again; None where that
    does not matter."""

    tried: Number
    between: tuple[Whole, Whole] | None = None
    others: list[MoveOutcome]

    @property
    def count_moved(self) -> int:
        """The number of messages that are at their targets now, or deleted."""
        return self.tried - sum(not one.moved for one in self.others)

    def each(self) -> Iterator[ItemOutcome]:
        others = {one.place: ItemOutcome(one.outcome, one.reason) for one in self.others}
        return (others.get(place, _DONE) for place in range(self.tried))

    def count(self, outcome: Outcome) -> int:
        planned = self.tried - len(self.others) if outcome is Outcome.DONE else 0
        return planned + sum(one.outcome is outcome for one in self.others)

    def __post_init__(self) -> None:
        places = {one.place for one in self.others}
        if len(places) < len(self.others) or max(places, default=-1) >= self.tried:
            raise ValueError("an outcome of nothing, or twice")
        check_sizes(*(self.between or ()), *(number for one in self.others for number in (one.ino, one.ctime)))


_DONE = ItemOutcome(Outcome.DONE, "")


MoveOperation = LoggedOperation[MoveIntent, BatchOutcome]
"""All that the journal holds of one operation on messages."""


def unsure_moves(operations: Iterable[MoveOperation]) -> Iterator[LoggedMove]:
    """The moves of the batches without a result."""
    for logged in operations:
        for batch, outcome in logged.steps.values():
            if outcome is None:
                yield from batch.each()


# Journals are large, and nearly all of them is names and inodes. For the list of operations a line is shortened in its text, so
# that the rest is not parsed.

_MOVES = re.compile(rb',"moves":\[\{"from":(?:null|"[^"]*"),"to":(null|")')


def _shortened(line: bytes) -> bytes:
    """Cuts the messages out of an intent line, and keeps from where to where the first of them moved, so that a line of megabytes
    need not be parsed to be counted. A line of another form is returned as it is."""
    if not line.endswith(b"]}") or (moves := _MOVES.search(line, 0, HEAD_AT_MOST)) is None:
        return line
    folders = b'"from":"new","to":null' if moves[1] == b"null" else b'"from":null,"to":"new"'
    return line[: moves.start()] + b',"moves":[{%b,"names":[],"inos":0,"sizes":0,"ctimes":0,"tokens":null}]}' % folders


MOVES = RecordType("journal", "the journal", "first", MoveIntent, BatchOutcome, shorten=_shortened)
"""The record type of the journal of messages."""
