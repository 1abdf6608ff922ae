"""Cursors: their values, what is seen of their files, and the input that sets one."""

from __future__ import annotations

import json
import math
import os
import re
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence

from spooltop.model import Frozen, Json, JsonObject, LockHolder, age, at_least, count, escape, since

# Cursors: their files as one look read them, the history of a source, and its verdict. All times are epoch seconds.

VERDICTS = (
    "advancing", "reverted", "rewound", "stalled", "stopped", "idle", "not advancing", "missing", "unreadable", "new",
)  # fmt: skip
"""All verdicts on cursors."""


class CursorWrite(Frozen):
    """A line of ``.cursors.journal``: a write by ``CursorFile.advance``, under its lock. ``old`` is the replaced value."""

    at: float
    source: str
    old: Json
    new: Json
    writer: LockHolder


class CursorSource(Frozen):
    """A cursor file as it was read, or the cursors that a server keeps.

    ``sections`` is source → value; None if it does not parse (``error`` says why). ``shared`` is False for one file per source.
    ``mtime`` is when it was written by the file's own time; ``stamp`` changes whenever the content may have. ``lock_holders`` are
    those that held its lock at this look. ``in_file`` is False on a server: there ``path`` is a name, and nobody looks for
    locks and writers.
    """

    path: str
    shared: bool
    sections: JsonObject | None
    error: str = ""
    mtime: float = 0.0
    stamp: Hashable = None
    lock_holders: tuple[LockHolder, ...] = ()
    temp_files: tuple[str, ...] = ()
    """Temporary files beside it that an unsafe writer leaves, names as on disk."""
    journal: tuple[CursorWrite, ...] = ()
    """Writes that the journal beside it records since the previous look (at the first look: of the last hour), in their order.
    All of them were published before the file was read."""
    lock_there: bool | None = None
    """True if ``.cursors.lock`` exists beside it: without it nobody takes the lock. None: not checked."""
    writer: LockHolder | None = None
    """The process that published this content, if the kernel reported it (fanotify(7))."""
    earlier: tuple[CursorSource, ...] = ()
    """Its contents since the previous look that have been replaced, oldest first."""
    read_at: float | None = None
    """When it was read, None: at the time of the look."""
    unread: int | None = None
    """Number of writes between the content before and this one that were not read; None: not known."""
    left_out: int = 0
    """Number of sources of this file that are not among ``sections``, because they are too many or their names too long."""
    cut: frozenset[str] = frozenset()
    """Sources whose section is too large to be kept: ``sections`` has only its short fields, or its length."""
    in_file: bool = True
    behind: Mapping[str, tuple[int, bool]] = {}
    """For each source that a server counts: how many messages come after its cursor, and whether that is exact and not only a
    lower bound."""


class Poll(Frozen):
    """A poll according to its log: ``new`` messages from the cursor ``start``, ``end`` after it, as written in ``line``."""

    source: str
    at: float
    new: int
    start: str
    end: str
    line: str = ""


class CursorSection(Frozen):
    """A source's value in one file, as written: an entry of the history.

    ``shown`` is the cursor in it, escaped ("" if it is the value itself). ``held_by`` are those that were seen to hold the lock.
    A look comes after the write, so empty means "not seen", never "nobody", unless ``lock_there`` is False: without a lock file
    nobody held it.

    ``also_changed`` are other sources that changed in the same write, ``advanced`` those that went forward; ``kept``: True if one
    of them changed and did not go back. ``exact``: nothing else was written since the previous version; False: something was, and
    was not read; None: not known. ``repeated``: the whole file has a content that it had before.
    """

    at: float
    value: Json
    also_changed: tuple[str, ...] = ()
    held_by: tuple[LockHolder, ...] = ()
    shown: str = ""
    writer: LockHolder | None = None
    """The process that wrote it, if the journal or the kernel reported it; it is never guessed."""
    lock_there: bool | None = None
    back: bool = False
    """True if the cursor went back: to a smaller value, or to a token that it had before."""
    lost: bool = False
    """True if that was a lost update and not a rewind."""
    journaled: bool = False
    """True if the journal records it: written by ``CursorFile.advance``, under the lock and of one section alone, so that it
    cannot lose an update."""
    old: Json = None
    """The value before."""
    over: int | None = None
    """Number of moves that it went back over; None if they are too many for a stale copy, or it never had this value."""
    advanced: tuple[str, ...] = ()
    kept: bool = False
    exact: bool | None = None
    repeated: bool = True


class Cursor(Frozen):
    """A source's cursor with its verdict, as ``observe`` derived it from many looks.

    ``value`` is the current value in the file (the last good one if it does not parse). ``verdict`` is one of ``VERDICTS``;
    "new" was seen once. ``moved_at`` is when the
    value last changed as far as known; ``moved_is_bound``: not later than that. ``every`` is the learnt interval in
    seconds, None while unknown. ``writes`` counts the writes that were seen, None in a shared file where a write of the same
    value may be another source's. ``history`` is newest first.
    """

    source: str
    value: Json
    shown: str
    verdict: str
    evidence: str
    file: str
    shared: bool
    moved_at: float | None = None
    moved_is_bound: bool = False
    every: float | None = None
    writes: int | None = None
    writes_unread: int = 0
    """Number of writes of its file, by any source, that were too fast to be read, over the same time."""
    reverts: int = 0
    """Lost updates over the time watched, and those before it according to journals and poll logs."""
    reverts_recent: int = 0
    """Lost updates of the last minutes, or, if there are none, of the last hour."""
    reverts_is_bound: bool = False
    """True if there may have been more: not all writes were read, or a poll log has more than the file."""
    history: tuple[CursorSection, ...] = ()
    lock_holders: tuple[LockHolder, ...] = ()
    suspects: tuple[tuple[str, int], ...] = ()
    """Other sources that advanced in the same writes that reverted it: (source, in how many of ``reverts_recent``), most
    first."""
    unsafe: tuple[str, ...] = ()
    """Evidence that this file is written unsafely, in words; names are escaped."""
    polls: tuple[Poll, ...] = ()
    """Entries of its poll log, newest first; empty if none was named."""
    field: str | None = None
    """The field of its section that is the cursor, if a setting names it."""
    reverted_by: tuple[tuple[str, int], ...] = ()
    """Writers of those reverting writes, if they were seen: (command or pid, how many), most first; escaped."""
    same_start: int = 0
    """Number of the last polls that found something new from the same start: from 2 on none of it was saved."""
    cut: bool = False
    """True if its section is too large to be kept: ``value`` has its short fields, or says how long it is."""
    in_file: bool = True
    """False for a cursor that a server keeps: no locks and no writers are looked for."""
    behind: int | None = None
    """Number of messages that come after it; None where nobody counts them."""
    behind_is_bound: bool = False
    """True if there may be more."""

    @property
    def lag(self) -> str:
        """Number of messages that come after it, with ``≥`` where there may be more."""
        return "?" if self.behind is None else count(self.behind, complete=not self.behind_is_bound)

    @property
    def because(self) -> str:
        """The evidence, as it follows the verdict: "not advancing for 2h, every 60s before" contains its verdict."""
        if self.evidence.startswith(f"{self.verdict} "):
            return self.evidence.removeprefix(self.verdict)
        return f": {self.evidence}" if self.evidence else ""

    def moved(self, now: float) -> str:
        """The age of its last move."""
        return (at_least if self.moved_is_bound else age)(since(self.moved_at, now))


def cursors_by_key(cursors: Sequence[Cursor]) -> dict[str, Cursor]:
    """Returns the cursors by their unique, escaped names: the source or, if several files have that source, the source and the
    file, ``imessage@cursors/imessage.json``."""
    often = Counter(cursor.source for cursor in cursors)
    files = [cursor.file for cursor in cursors]
    above = os.path.commonpath([os.path.dirname(file) for file in files]) if files else ""
    return {
        escape(cursor.source if often[cursor.source] == 1 else f"{cursor.source}@{os.path.relpath(cursor.file, above)}"): cursor
        for cursor in cursors
    }


# Finds the cursor in its section, orders two cursors, and writes them.

_NAMED = ("cursor", "value", "offset", "id")
_POSITION = r"(?i)id|seq|cursor|offset|row|pos"
_DIGITS = r"-?[0-9]{1,4000}"
_DATE = r"(?s)[0-9]{4}-[0-9]{2}-[0-9]{2}([T ].*)?"
_DEEPEST = 4
_KINDS = {
    type(None): "null", bool: "a boolean", int: "an integer", float: "a decimal number", str: "a string", list: "a list",
    dict: "an object",
}  # fmt: skip


def pick(value: Json, field: str | None = None, *, depth: int = 0) -> Json:
    """Returns the cursor in a section.

    A number or text is the cursor itself. In an object it is ``field``; without that its ``cursor``, ``value``, ``offset``,
    ``id`` or ``last…`` field, else its only numeric field, else its only field that is a time, else the whole object.

    >>> pick({"last_rowid": 7, "updated_at": 99.5}), pick({"n": 3, "name": "x"}), pick("abc"), pick({"id": 1, "at": 2}, "at")
    (7, 3, 'abc', 2)
    """
    if not isinstance(value, dict) or depth >= _DEEPEST:
        return value
    name = field_of(value, field)
    return value if name is None else pick(value[name], depth=depth + 1)


def field_of(section: JsonObject, named: str | None = None) -> str | None:
    """Returns the name of the field that holds the cursor of an object, None if it is ambiguous; ``named`` if the object has
    that."""
    if named is not None and named in section:
        return named
    for name in _NAMED:
        if section.get(name) is not None:
            return name
    last = [name for name in section if name.lower().startswith("last") and order(section[name]) is not None]
    if last:  # "last_rowid" is the cursor and "last_run" is not
        return next((name for name in last if re.search(_POSITION, name[4:])), last[0])
    numeric = [name for name, item in section.items() if isinstance(item, int | float) and not isinstance(item, bool)]
    if numeric:
        return numeric[0] if len(numeric) == 1 else None
    ordered = [name for name, item in section.items() if order(item) is not None]
    return ordered[0] if len(ordered) == 1 else None


def cursor_fields(text: str) -> dict[str, str]:
    """Parses a setting into source → the field of its section that holds the cursor; "*" for all other sources.

    >>> cursor_fields("seen, imessage=last_row")
    {'*': 'seen', 'imessage': 'last_row'}
    """
    found = {}
    for part in text.split(","):
        source, equals, field = part.strip().rpartition("=")
        if field:
            found[source if equals else "*"] = field
    return found


def order(value: Json) -> tuple[str, float | int] | None:
    """Returns the sort key of a value with its kind, since values of two kinds do not compare; None for an opaque token."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int):
        return "number", value
    if isinstance(value, float):
        return ("number", value) if math.isfinite(value) else None
    if isinstance(value, str):
        if re.fullmatch(_DIGITS, value):
            return "number", int(value)
        if re.fullmatch(_DATE, value):
            from datetime import UTC, datetime  # takes 2 ms to load: only for cursors that are times

            try:
                when = datetime.fromisoformat(value)
            except ValueError:
                return None
            aware = when.tzinfo is not None
            return ("time" if aware else "local time"), (when if aware else when.replace(tzinfo=UTC)).timestamp()
    return None


def direction(old: Json, new: Json) -> int | None:
    """Compares two values: 1 forward, -1 back, 0 equal in order; None if there is no order between them."""
    before, after = order(old), order(new)
    if before is None or after is None or before[0] != after[0]:
        return None
    return (after[1] > before[1]) - (after[1] < before[1])


def shown(value: Json, field: str | None = None) -> str:
    """Writes the value as it is in the file: never grouped, never rounded, escaped. ``field`` as for ``pick``.

    >>> shown(12345678901234567890), shown({"a": 1, "b": 2}), shown("tok")
    ('12345678901234567890', '{"a":1,"b":2}', 'tok')
    """
    picked = pick(value, field)
    if isinstance(picked, str):
        return escape(picked)
    return escape(json.dumps(picked, ensure_ascii=False, separators=(",", ":")))


def kind_of(value: Json) -> str:
    """Names the type of a value: "an integer", "a string", "an object"."""
    return _KINDS[type(value)]


def type_change(before: Json, after: Json) -> str:
    """Describes a change of type, "" if there is none. Members that both objects have are compared one by one; null has no type
    to keep, and an integer may take the place of a decimal number.

    >>> type_change(146, "hello"), type_change({"id": 146, "at": 1.5}, {"id": 1000.0, "at": 2}), type_change(146, 147)
    ('from an integer to a string', 'from an integer to a decimal number in its field id', '')
    """
    pairs: list[tuple[str, Json, Json]] = [("", before, after)]
    while pairs:
        field, one, two = pairs.pop()
        if isinstance(one, dict) and isinstance(two, dict):
            pairs += [(name, one[name], two[name]) for name in reversed(one) if name in two]
        elif one is not None and type(one) is not type(two) and (type(one), type(two)) != (float, int):
            return f"from {kind_of(one)} to {kind_of(two)}" + (f" in its field {escape(field)}" if field else "")
    return ""


# Parses what a person types as the value of a cursor.

_NUMBER = r"-?(0|[1-9][0-9]{0,3999})"


class ParsedValue(Frozen):
    """``value`` is the whole section as it will be stored in the file; ``words`` say how the text was read."""

    value: Json
    words: str


def parse_value(text: str, present: Json, kind: str = "", field: str | None = None) -> ParsedValue:
    """Reads ``text`` as JSON, else as text.

    It takes the type of ``present`` if that leaves no doubt: digits stay text if the present value is text. In a section that is
    an object, a value that is not an object goes into ``field``, or into the field that holds the cursor. ``kind`` "json" or
    "text" decides without guessing, and replaces the section as a whole. Raises ``ValueError`` for "json" that does not parse.

    >>> parse_value("89640", 89632).value, parse_value("89640", "89632").value, parse_value("7", {"last_id": 6, "n": "x"}).value
    (89640, '89640', {'last_id': 7, 'n': 'x'})
    """
    if kind == "text":
        return ParsedValue(text, "a string, as asked")
    if kind == "json":
        return ParsedValue(_json(text), "JSON, as asked")
    if isinstance(present, dict) and (name := field_of(present, field)) is not None:
        try:
            whole = _json(text)
        except ValueError:
            whole = None
        if not isinstance(whole, dict):
            inner = parse_value(text, present[name])
            return ParsedValue({**present, name: inner.value}, f"{inner.words}, in its field {name}")
    try:
        value = _json(text)
    except ValueError:
        return ParsedValue(text, "a string")
    if isinstance(present, str) and re.fullmatch(_NUMBER, text.strip()):
        return ParsedValue(text, "a string, as it is now")
    return ParsedValue(value, kind_of(value))


def _json(text: str) -> Json:
    """Parses JSON. Raises ``ValueError`` also for values that JSON cannot express (NaN, a number that is too large)."""
    try:
        value: Json = json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except RecursionError:
        raise ValueError("nested too deep") from None
    return value


def _refuse(constant: str) -> Json:
    raise ValueError(f"{constant} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"{text} is too large for a number")
    return value
