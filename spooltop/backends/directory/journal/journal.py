"""The journal of operations: an intent line before each batch, a result line after it. One JSON object a line.

intent  schema line operation action batch time user count force undoes items[{from to ino size ctime token meta}]
result  schema line operation batch time between results[{outcome reason moved ino ctime}]

``from`` and ``to`` are places (``cur/NAME``, ``trash/OPERATION/NAME``), null where a message came from nowhere or was deleted;
``ctime`` in nanoseconds, 0 where it is not known or does not matter, null where it was not looked at again: then it is one of
``between``; ``meta`` is what was known of a message that had been set aside, left out for others. A batch without a
result line was cut short; what became of its items is found by looking. In a spool that somebody else owns the journal is
untrusted input: a line that is not exactly this is left out and counted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from json.encoder import encode_basestring_ascii as quoted
from typing import NamedTuple

from spooltop.model.jsonl import each_once, spelled_line, spelled_outcome
from spooltop.model.plan import Outcome
from spooltop.model.text import bare_all, escape
from spooltop.model.vocabulary import Action, Box, Json

from ..storage.location import OPERATION, Place
from ..storage.metadata import plain_meta
from .outcomes import Came, Moved

__all__ = [
    "Entry", "Move", "Operation", "Places", "decode", "encode_intent", "encode_result", "gather",
    "spelled_alike", "spelled_moves", "unfinished",
]  # fmt: skip


class Move(NamedTuple):
    """One thing to do, as the intent line holds it. ``source`` None: the message is made; ``target`` None: it is deleted."""

    source: Place | None
    target: Place | None
    ino: int = 0
    size: int = 0
    ctime_ns: int = 0
    token: str | None = None
    meta: Mapping[str, Json] | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """One batch of an operation, as one line or the other tells of it."""

    operation: str
    batch: int
    at: float
    action: Action | None = None
    user: str = ""
    count: int = 0
    force: bool = False
    undoes: str | None = None
    moves: tuple[Move, ...] = ()
    results: tuple[Moved, ...] | None = None


@dataclass(slots=True)
class Operation:
    """All that the journal holds of one operation. ``batches`` is number → (moves, results or None for a crash)."""

    operation: str
    action: Action
    at: float
    user: str
    count: int
    force: bool
    undoes: str | None
    trusted: bool
    batches: dict[int, tuple[tuple[Move, ...], tuple[Moved, ...] | None]] = field(default_factory=dict)

    @property
    def open(self) -> bool:
        """True where a batch has no result line."""
        return any(results is None for _, results in self.batches.values())

    @property
    def unfinished(self) -> bool:
        """True where it did not come to its end: a batch has no result line, or the last ones were never begun."""
        return self.open or sum(len(moves) for moves, _ in self.batches.values()) < self.count

    def steps(self) -> Iterable[tuple[Move, Moved | None]]:
        """Each move with what came of it; None where no result was written; moves never reached are left out."""
        for _, (moves, results) in sorted(self.batches.items()):
            if results is None:
                yield from ((move, None) for move in moves)
            else:
                yield from zip(moves, results, strict=False)


def encode_intent(
    operation: str,
    action: Action,
    batch: int,
    at: float,
    items: Iterable[str],
    *,
    user: str,
    count: int,
    force: bool,
    undoes: str | None,
) -> bytes:
    """``items`` as ``spelled_moves`` gives them."""
    head: dict[str, Json] = {
        "schema": 1, "line": "intent", "operation": operation, "action": str(action), "batch": batch, "time": at,
        "user": escape(user), "count": count, "force": force, "undoes": undoes,
    }  # fmt: skip
    return spelled_line(head, items=items)


class Places(NamedTuple):
    """By columns; a box is None where there is no place."""

    boxes: Iterable[Box | None]
    names: Sequence[str]
    folders: Iterable[str]


def spelled_moves(
    sources: Places,
    targets: Places,
    inos: Iterable[int],
    sizes: Iterable[int],
    ctimes_ns: Iterable[int],
    tokens: Iterable[str | None],
    metas: Iterable[Mapping[str, Json] | None],
) -> list[str]:
    """The items of an intent line, each JSON."""
    return _items(_spelled(sources), _spelled(targets), inos, sizes, ctimes_ns, each_once(_rest, tokens, metas))


def spelled_alike(
    source: tuple[Box, str],
    names: Sequence[str],
    target: tuple[Box, str],
    to_names: Sequence[str],
    inos: Iterable[int],
    sizes: Iterable[int],
    ctimes_ns: Iterable[int],
    tokens: Iterable[str | None],
) -> list[str]:
    """The same as ``spelled_moves``, of messages out of one (box, folder) into one, in half the time."""
    here, there = _start(*source), _start(*target)
    rests = each_once(_rest, tokens, repeat(None, len(names)))
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
    """``around`` is what stands before each source, before each target, and after both."""
    here, there, end = around
    return [
        f'{{"from":{here}{source}{end},"to":{there}{target}{end},"ino":{ino},"size":{size},"ctime":{ctime_ns},{rest}}}'
        for source, target, ino, size, ctime_ns, rest in zip(sources, targets, inos, sizes, ctimes_ns, rests, strict=True)
    ]


def _spelled(places: Places) -> Iterator[str]:
    """As ``str`` of each would give it, quoted."""
    for start, name in zip(each_once(_start, places.boxes, places.folders), bare_all(places.names), strict=True):
        yield f'"{start}{name}"' if start else "null"


def _start(box: Box | None, folder: str) -> str:
    # No box and no folder of an operation has anything in it that JSON would quote.
    return "" if box is None else f"{box}/{folder}/" if folder else f"{box}/"


def _rest(token: str | None, meta: Mapping[str, Json] | None) -> str:
    told = "" if meta is None else f',"meta":{json.dumps(meta, separators=(",", ":"))}'
    return f'"token":{"null" if token is None else quoted(token)}{told}'


def encode_result(operation: str, batch: int, at: float, came: Came) -> bytes:
    ctime = 0 if came.between is None else "null"
    spelled = [f'{_AS_PLANNED}{ino},"ctime":{ctime}}}' for ino in came.inos]
    for place, one in came.others.items():
        spelled[place] = f'{{{_how(one)},"ino":{one.ino},"ctime":{one.ctime_ns}}}'
    head: dict[str, Json] = {"schema": 1, "line": "result", "operation": operation, "batch": batch, "time": at}
    if came.between is not None:
        head["between"] = list(came.between)
    return spelled_line(head, results=spelled)


def _how(one: Moved) -> str:
    return f'{spelled_outcome(one.outcome, one.reason)},"moved":{"true" if one.moved else "false"}'


_AS_PLANNED = f'{{{_how(Moved(Outcome.DONE, moved=True))},"ino":'


_HEAD = re.compile(
    rb'\{"schema":1,"line":"(intent|result)","operation":"([0-9A-Za-z._-]{1,64})",(?:"action":"[a-z]{1,20}",)?"batch":([0-9]{1,9}),'
)


def unfinished(data: bytes) -> Iterator[bytes]:
    """Of the lines of a journal, each with its newline, those of batches without a result, found by how this program writes a
    line, without reading the rest of it. A line that it would not write so is among them."""
    waiting: dict[tuple[bytes, bytes], tuple[int, int]] = {}
    strange: list[tuple[int, int]] = []
    start = 0
    while (end := data.find(b"\n", start)) >= 0:
        head = _HEAD.match(data, start, end)
        if head is None or not data.endswith(b"]}", start, end):
            strange.append((start, end))
        elif head[1] == b"intent":
            waiting.setdefault((head[2], head[3]), (start, end))
        else:
            waiting.pop((head[2], head[3]), None)
        start = end + 1
    for start, end in (*waiting.values(), *strange):
        if start < end:
            yield data[start:end]


def decode(line: bytes) -> Entry:
    """One line. Raises ``ValueError`` for anything that is not exactly a journal line."""
    value = json.loads(line)
    if not isinstance(value, dict) or value.get("schema") != 1:
        raise ValueError("no journal line")
    operation = _text(value, "operation")
    if not OPERATION.match(operation):
        raise ValueError("no operation id")
    batch, at = _number(value, "batch"), float(_number(value, "time", whole=False))
    match value.get("line"):
        case "intent":
            undoes = value.get("undoes")
            if undoes is not None and not (isinstance(undoes, str) and OPERATION.match(undoes)):
                raise ValueError("undoes no operation")
            return Entry(
                operation, int(batch), at, Action(_text(value, "action")), _text(value, "user"), int(_number(value, "count")),
                value.get("force") is True, undoes, tuple(_move(one) for one in _list(value, "items")),
            )  # fmt: skip
        case "result":
            between = _between(value)
            return Entry(operation, int(batch), at, results=tuple(_moved(one, between) for one in _list(value, "results")))
        case _:
            raise ValueError("neither intent nor result")


def gather(entries: Iterable[Entry], *, trusted: bool) -> dict[str, Operation]:
    """Entries in the order of the file → operations by id, in order of their first intent."""
    found: dict[str, Operation] = {}
    for entry in entries:
        known = found.get(entry.operation)
        if entry.action is not None:
            if known is None:
                known = found[entry.operation] = Operation(
                    entry.operation, entry.action, entry.at, entry.user, entry.count, entry.force, entry.undoes, trusted
                )
            known.batches.setdefault(entry.batch, (entry.moves, None))
        elif known is not None and entry.batch in known.batches and entry.results is not None:
            moves, results = known.batches[entry.batch]
            if results is None:
                known.batches[entry.batch] = (moves, entry.results)
    return found


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
"""More is no inode, no size and no time; and NaN is below nothing."""


def _list(value: Mapping[str, object], key: str) -> list[Mapping[str, object]]:
    found = value.get(key)
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise ValueError(f"{key} is no list")
    return found


def _move(value: Mapping[str, object]) -> Move:
    source, target, token = value.get("from"), value.get("to"), value.get("token")
    if "to" not in value or (source is None and target is None):
        raise ValueError("from nowhere to nowhere")
    if token is not None and not isinstance(token, str):
        raise ValueError("token is no text")
    meta = value.get("meta")
    if meta is not None and not isinstance(meta, dict):
        raise ValueError("meta is no object")
    return Move(
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


def _moved(value: Mapping[str, object], between: tuple[int, int]) -> Moved:
    if value.get("ctime", 0) is None:
        from_ns, until_ns = between
    else:
        from_ns = until_ns = int(_number(value, "ctime"))
    return Moved(
        Outcome(_text(value, "outcome")), _text(value, "reason"), value.get("moved") is True,
        int(_number(value, "ino")), from_ns, until_ns,
    )  # fmt: skip
