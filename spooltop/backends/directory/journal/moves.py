"""The moves of a batch and their outcomes, as the lines of the journal hold them: by columns.

moves    [{from to [meta] names inos sizes ctimes tokens [to_names]}]
results  tried [between] others[{place outcome reason moved ino ctime}]

Each object of ``moves`` is a run of messages out of one folder into one. ``from`` and ``to`` are these folders (``cur``,
``trash/OPERATION``), null where messages are made or deleted; ``names`` are those in the source, or where there is none, at the
target; ``to_names`` is left out where the names stay. Any other column with one value for all is that value. ``meta`` was known
of messages that had been set aside.

Each of the moves that were ``tried`` is done as planned but for ``others``. ``ctime`` is in nanoseconds, 0 where it is not known
or does not matter; that of a message done as planned is one of ``between``. ``ino`` is 0 where it is that of the intent.

Earlier versions wrote an object for each message: ``items`` with ``from`` and ``to`` as places (``cur/NAME``), and ``results``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from spooltop.model.operations.plan import Outcome
from spooltop.model.operations.results import encode_column, encode_line, encode_names, encode_object
from spooltop.model.text import unescape
from spooltop.model.vocabulary import Box, Json

from ..storage.location import Place, safe_name
from ..storage.metadata import plain_meta
from .outcomes import BatchOutcome, MoveOutcome

__all__ = [
    "LoggedMove", "MoveColumns", "decode_moves", "decode_outcome", "encode_moves", "encode_outcome_line", "number_of", "text_of",
]  # fmt: skip

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
    if "items" not in value:
        return tuple(_columns(one) for one in _list(value, "moves"))
    moves = [_move(one) for one in _list(value, "items")]
    return tuple(_together(list(run)) for _, run in groupby(moves, _folders))


def decode_outcome(value: Mapping[str, object]) -> BatchOutcome:
    """Reads the outcome in a result line. Raises ``ValueError``."""
    between = _between(value)
    if "results" in value:
        each = [_outcome(one, between or (0, 0)) for one in _list(value, "results")]
        return BatchOutcome(len(each), dict(enumerate(each)))
    tried = number_of(value, "tried", below=_MOST_TRIED)
    others = {number_of(one, "place", below=tried): _outcome(one, (0, 0)) for one in _list(value, "others")}
    return BatchOutcome(tried, others, between)


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


def _outcome(value: Mapping[str, object], between: tuple[int, int]) -> MoveOutcome:
    ctimes = between if value.get("ctime", 0) is None else (number_of(value, "ctime"),) * 2
    outcome, reason, moved = Outcome(text_of(value, "outcome")), text_of(value, "reason"), value.get("moved") is True
    return MoveOutcome(outcome, reason, moved, number_of(value, "ino"), *ctimes)


def _move(value: Mapping[str, object]) -> LoggedMove:
    """Reads one of the ``items`` of an earlier version."""
    source, target, token = value.get("from"), value.get("to"), value.get("token")
    if "to" not in value or (source is None and target is None):
        raise ValueError("from nowhere to nowhere")
    if token is not None and not isinstance(token, str):
        raise ValueError("token is no text")
    meta = value.get("meta")
    if meta is not None and not isinstance(meta, dict):
        raise ValueError("meta is no object")
    return LoggedMove(
        None if source is None else Place.parse(text_of(value, "from")),
        None if target is None else Place.parse(text_of(value, "to")),
        number_of(value, "ino"), number_of(value, "size"), number_of(value, "ctime"), token,
        None if meta is None else plain_meta(meta),
    )  # fmt: skip


def _folders(move: LoggedMove) -> tuple[tuple[Box, str] | None, tuple[Box, str] | None, Mapping[str, Json] | None]:
    source, target = move.source, move.target
    return source and (source.box, source.folder), target and (target.box, target.folder), move.meta


def _together(run: Sequence[LoggedMove]) -> MoveColumns:
    """The columns of moves between the same folders with the same metadata."""
    sources, targets, inos, sizes, ctimes_ns, tokens, metas = zip(*run, strict=True)
    source, target, _ = _folders(run[0])
    names, to_names = ([place and place.name for place in places] for places in (sources, targets))
    names, to_names = names if source else to_names, to_names if target else names
    return MoveColumns(source, target, metas[0], names, to_names, inos, sizes, ctimes_ns, tokens)
