"""The terms that every package uses (boxes, verdicts, owners, actions, rows, locks), and the one form of names and numbers.

A file name is bytes that somebody else chose: escape sequences, markup, bidirectional overrides, newlines. Nothing from a spool
is shown or printed without ``escape``. The form is reversible, so it can be typed back.
"""

from __future__ import annotations

import json
import math
import os
import re
import sys
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from datetime import datetime, tzinfo
from enum import StrEnum
from functools import lru_cache
from typing import Any, Literal, Self, TypeAlias, dataclass_transform

from msgspec import Struct, field
from msgspec.structs import replace

from spooltop.errors import UsageError

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
JsonObject: TypeAlias = Mapping[str, Json]
Environ: TypeAlias = Mapping[str, str]
"""Variables of the environment, or settings under the names and in the form that they have there."""

Clock: TypeAlias = Callable[[], float]
"""Returns seconds: since the epoch, or of a clock that only goes forward."""
Stop: TypeAlias = Callable[[], bool]
"""Returns True if the work is to end: asked now and then, between two items."""

Key: TypeAlias = Hashable
"""Identity of a message while it is listed: marks and the cursor are kept by it. Opaque above the backends."""

Ref: TypeAlias = Hashable
"""Identity of a message that is pinned in a plan (in a directory box: name, inode, size, ctime). Opaque above the backends."""


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class Frozen(Struct, frozen=True):
    """Base of records that never change."""

    def replace(self, **changes: Any) -> Self:
        """Returns a copy with other values for these members."""
        return replace(self, **changes)


class Box(StrEnum):
    """Location of a message."""

    TMP = "tmp"
    NEW = "new"
    CUR = "cur"
    HELD = "held"
    REJECTED = "rejected"
    TRASH = "trash"
    DELIVERED = "delivered"
    """Handed out by a queue that knows no ack: done, running or lost."""

    __hash__ = str.__hash__  # equal to its word, and found by it; and without a call into Python


DIED = "died"
"""End of an attempt that its consumer did not end: ``recover`` or an operator took the claim away."""
RUNNING, EXITED = "running", "exited"
"""Evidence that says no more than the verdict: the holder itself is running, or has exited."""
NOT_A_CLAIM = "not a claim that spooltop knows: no holder in its name"
"""Evidence on a file in ``cur`` that is not judged: other programs keep there what was read."""
LIVE = (Box.TMP, Box.NEW, Box.CUR)
ASIDE = (Box.HELD, Box.REJECTED, Box.TRASH)


class Verdict(StrEnum):
    """Judgement of a claim (ALIVE, DEAD or UNKNOWN) or of a file in ``tmp`` (WRITING, ABANDONED or UNKNOWN). Never by age
    alone."""

    ALIVE = "alive"
    DEAD = "dead"
    UNKNOWN = "unknown"
    WRITING = "writing"
    ABANDONED = "abandoned"

    __hash__ = str.__hash__


class Action(StrEnum):
    """Kinds of operations. A kind of spool says by ``Capabilities`` which of them it has."""

    REQUEUE = "requeue"
    PURGE = "purge"
    INJECT = "inject"
    HOLD = "hold"
    RELEASE = "release"
    RESTORE = "restore"
    EMPTY = "empty"
    UNDO = "undo"
    SET_CURSOR = "set-cursor"
    UNLOCK = "unlock"
    PAUSE = "pause"
    RESUME = "resume"

    __hash__ = str.__hash__


WHOLE = (Action.PAUSE, Action.RESUME)
"""Actions on the spool as a whole: their plans have one item."""
PAST = {
    Action.REQUEUE: "requeued", Action.PURGE: "purged", Action.INJECT: "injected", Action.HOLD: "held",
    Action.RELEASE: "released", Action.RESTORE: "restored", Action.EMPTY: "emptied", Action.UNDO: "undone",
    Action.SET_CURSOR: "set", Action.UNLOCK: "removed", Action.PAUSE: "paused", Action.RESUME: "resumed",
}  # fmt: skip
"""Each action in the past, in a word."""


class Owner(Frozen):
    """The holder of a claim or the writer of a file, according to its name or its presence file; ``start`` in epoch seconds.
    ``name`` is that of a consumer in a queue that knows consumers by names, and not by processes. ``moves_to`` names the queue
    into which ``spooltop move`` was moving the message: only the same move may take its claim."""

    host: str | None = None
    pid: int | None = None
    start: float | None = None
    command: str | None = None
    user: str | None = None
    name: str | None = None
    moves_to: str | None = None

    @property
    def called(self) -> str:
        """The name, else the program without path, interpreter and arguments; empty if neither is known. Not escaped."""
        return self.name or (program(self.command) if self.command else "")

    @property
    def label(self) -> str:
        """The pid and ``called``, as far as they are known; only the name where the pid is part of it. Not escaped."""
        if self.name is not None and self.pid is not None and str(self.pid) in self.name:
            return self.name
        return " ".join(str(part) for part in (self.pid, self.called) if part)


class Row(Frozen):
    """A message (or file) in one box.

    ``id`` and ``name`` are as ``os.fsdecode`` gives them and go through ``escape`` before anyone reads them. Times are epoch
    seconds, None if not known: ``enqueued_at`` when it was put, ``in_box_since`` when it came into this box (``cur``: claimed; an
    upper bound for claims of other consumers, ``since_is_bound``; ``tmp``: begun, according to our own names, else last written).
    ``size`` is in bytes. ``attempt`` is the number of attempts, including the current one, None if they are not counted.
    ``evidence`` gives the grounds of the verdict in words. ``note`` is a fault of the file itself ("a fifo, not a message").
    """

    key: Key
    box: Box
    id: str
    name: str
    size: int | None = None
    enqueued_at: float | None = None
    in_box_since: float | None = None
    since_is_bound: bool = False
    source: str | None = None
    attempt: int | None = None
    verdict: Verdict | None = None
    evidence: str = ""
    owner: Owner | None = None
    note: str = ""
    not_before: float | None = None
    canary: bool = False
    written_at: float | None = None
    reason: str = ""
    """Why it was set aside (``held``, ``rejected``, ``trash``)."""
    expires_at: float | None = None
    """When its retention in the trash ends; None: never."""
    ended: str | None = None
    """End of the last attempt (``exit-1``, ``timeout``, ``died``, the class of an exception); None if unknown."""

    def judged(self, verdict: Verdict | None, evidence: str, owner: Owner | None) -> Row:
        """Returns a copy with another verdict; this very row where it is the same one."""
        same = (verdict, evidence, owner) == (self.verdict, self.evidence, self.owner)
        return self if same else replace(self, verdict=verdict, evidence=evidence, owner=owner)

    def age(self, now: float) -> float | None:
        """Seconds since it was put, never negative; None where not known."""
        return since(self.enqueued_at, now)

    def in_box_age(self, now: float) -> float | None:
        """Seconds in this box, never negative; None where not known."""
        return since(self.in_box_since, now)

    def held(self, now: float) -> str:
        """The time in this box in words, ``≤`` in front of an upper bound."""
        return (at_most if self.since_is_bound else age)(self.in_box_age(now))

    @property
    def tries(self) -> str:
        """The number of attempts in words."""
        return "—" if self.attempt is None else str(self.attempt)

    def expired(self, now: float) -> bool:
        """True if it is in the trash for longer than it is kept."""
        return self.expires_at is not None and self.expires_at <= now


def began(rows: Iterable[Row]) -> list[float]:
    """Returns when the rows came into their boxes, as far as that is known."""
    return [row.in_box_since for row in rows if row.in_box_since is not None]


class Payload(Frozen):
    """The beginning of a message: ``data`` has at most the requested bytes, ``size`` is that of the whole in bytes. Names of
    its files, where it is several, stand in ``data`` and do not count."""

    data: bytes
    size: int
    truncated: bool
    facts: tuple[tuple[str, str], ...] = ()
    """Lines for the detail: (label, text), for example ("owner", "pid 4312 of this host has exited")."""


class LockHolder(Frozen):
    """A holder or a waiter of a lock; ``pid`` None: not visible from here. ``since`` is when it was first seen."""

    pid: int | None
    command: str | None = None
    user: str | None = None
    since: float | None = None
    alive: bool | None = None


LOCK_SUFFIXES, QUEUE_SUFFIX, READ_WRITE_SUFFIX = (".lock", ".lck"), ".queue", ".rw"


def is_lock_name(name: str) -> bool:
    """True for the names of lock files, lock directories, read-write locks and ticket queues."""
    return name.endswith((*LOCK_SUFFIXES, QUEUE_SUFFIX, READ_WRITE_SUFFIX))


class Lock(Frozen):
    """A lock file.

    ``kind``: flock, posix, ofd, soft (the existing file is the lock), mkdir (a directory is the lock), ticket (a queue of
    tickets), rw (filelock's ``SoftReadWriteLock``), redis, none. ``verdict``: held, free, blocked, stale, unknown.
    """

    path: str
    kind: str
    holders: tuple[LockHolder, ...] = ()
    waiters: tuple[LockHolder, ...] = ()
    verdict: str = "unknown"
    evidence: str = ""
    failed: bool = False
    """True if the lock could not be read, for example because a server does not answer; ``evidence`` says why."""

    @property
    def taken_at(self) -> float | None:
        """When the first of its holders was seen; None where that is not known."""
        return min((one.since for one in self.holders if one.since is not None), default=None)


class Holding(Frozen):
    """A process and its use of the file.

    ``how``: "open for writing", "open for reading", "mapped", "flock, holds", "flock, waits" (also posix, ofd), "holds the
    claim", "ticket, first". ``of`` names the file if it is not the one that was asked about (the lock beside a cursor file).
    ``pid`` None: a process that is not visible from here. ``since`` is epoch seconds, None if unknown: a claim has it in its
    name, the kernel has it for neither open files nor locks.
    """

    pid: int | None
    command: str | None
    user: str | None
    how: str
    since: float | None = None
    of: str = ""


class Holders(Frozen):
    """The processes that use ``path``. ``complete`` is False if there may be others; ``notes`` say in words what was not
    visible."""

    path: str
    processes: tuple[Holding, ...] = ()
    complete: bool = True
    notes: tuple[str, ...] = ()


class Closing:
    """Base of what is closed at the end of its ``with`` block."""

    __slots__ = ()

    def close(self) -> None:
        """Ends its use."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        self.close()


# Names as they are shown.

_ESCAPED = rb"(?s)\\(\\|x([0-9a-fA-F]{2}))|\\|[^\\]+"

_INTERPRETERS = r"(python|pypy|perl|ruby|node|php|bash|dash|sh|env)[0-9.]*"


def escape(name: str) -> str:
    r"""Escapes a name for display: printable UTF-8 as it is, ``\\`` for a backslash, ``\xNN`` for each byte of anything else.

    ``name`` is as ``os.fsdecode`` gives it (undecodable bytes are lone surrogates). ``unescape`` is the inverse.

    >>> escape("a\x1b[31mb")
    'a\\x1b[31mb'
    """
    if name.isprintable() and "\\" not in name:
        return name
    return "".join(map(_escaped, name))


@lru_cache(maxsize=4096)
def _escaped(char: str) -> str:
    if char == "\\":
        return "\\\\"
    return char if char.isprintable() else "".join(f"\\x{byte:02x}" for byte in _bytes(char))


def _bytes(char: str) -> bytes:
    try:
        return os.fsencode(char)
    except UnicodeEncodeError:  # a lone surrogate that no file name has, but JSON may
        return char.encode("utf-8", "surrogatepass")


def unescape(shown: str) -> str:
    r"""Returns the name that ``escape`` displays as ``shown``. Raises ``ValueError`` for a backslash that starts neither ``\\``
    nor ``\xNN``.

    >>> unescape("a\\x1b[31mb") == "a\x1b[31mb"
    True
    """
    if "\\" not in shown:
        return shown
    out = bytearray()
    for match in re.finditer(_ESCAPED, os.fsencode(shown)):
        part = match.group()
        if part == b"\\":
            raise ValueError(f"a backslash in a name is written \\\\ and any other byte \\xNN: {shown}")
        if match.group(2) is not None:
            out.append(int(match.group(2), 16))
        else:
            out += b"\\" if part == b"\\\\" else part
    return os.fsdecode(bytes(out))


def escape_text(data: bytes, *, keep_newlines: bool = True) -> str:
    r"""Escapes a payload for display: printable UTF-8, newlines and tabs if asked, every other byte as ``\xNN``."""
    lines = []
    for line in data.split(b"\n") if keep_newlines else [data]:
        parts = line.split(b"\t") if keep_newlines else [line]
        lines.append("    ".join(escape(part.decode("utf-8", "surrogateescape")) for part in parts))
    return "\n".join(lines)


def printable(text: str) -> str:
    """Returns ``text`` on one line without anything that a terminal would interpret. Escaped names in it are unchanged."""
    return text if text.isprintable() else "".join(char if char.isprintable() else escape(char) for char in text)


def program(command: str) -> str:
    """Returns the short name of a process: its command line without path, interpreter and arguments. Not escaped.

    >>> program("python3 /opt/memex/worker.py --all"), program("/usr/bin/rsync -a"), program("sh -c 'a b'"), program("worker")
    ('worker.py', 'rsync', 'sh', 'worker')
    """
    return program_of(command.split()).removesuffix(" -c") or command


def program_of(arguments: Sequence[str]) -> str:
    """Returns the short name of a process with these arguments; "" if there are none. Not escaped.

    >>> program_of(["/usr/bin/python3", "-m", "worker"]), program_of(["python3", "-u", "/srv/worker.py", "x"])
    ('worker', 'worker.py')
    >>> program_of(["/bin/sh", "-c", "a b"]), program_of(["-bash"])
    ('sh -c', 'bash')
    """
    if not arguments or not arguments[0]:
        return ""
    name = _base(arguments[0].lstrip("-")) or arguments[0]
    if not re.fullmatch(_INTERPRETERS, name):
        return name
    rest = iter(arguments[1:])
    for word in rest:
        if word == "-m":
            return next(rest, name)
        if word == "-c":
            return f"{name} -c"
        if not word.startswith("-"):
            return _base(word) or name
    return name


def _base(path: str) -> str:
    return path.rsplit("/", 1)[-1]


# Reads values from data that anybody may have written. Pure.

_MOST = 1e18
"""Larger than any time in seconds, and than any that a float holds to the second."""
_BLANKS = " \t\n\r"
_parse = json.JSONDecoder().raw_decode
"""Parses without guessing the encoding, which takes as long as a small object."""


def finite(value: object) -> float | None:
    """Returns a number as a float, else None: for other types, NaN, infinity, and numbers larger than any time (JSON sets no
    bound to the digits of an int, and ``float`` raises from the 309th on).

    >>> finite(7), finite(10**400), finite(float("nan")), finite(True), finite("7")
    (7.0, None, None, None, None)
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if abs(value) < _MOST else None


def json_object(data: bytes) -> dict[str, Any]:
    """Parses a JSON object; empty if ``data`` is anything else, torn, or nested deeper than the parser goes.

    >>> json_object(b'{"pid": 7}\\n'), json_object(b'{"pid": '), json_object(b'{"pid": 7} 8'), json_object(b"[" * 100_000)
    ({'pid': 7}, {}, {}, {})
    """
    try:
        text = data.decode("utf-8", "surrogatepass").strip(_BLANKS)
        found, end = _parse(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) and end == len(text) else {}


_DEEPEST = 32
_PART = r"""(?:[\w-]++|"(?:[^"\\\n]|\\.){0,200}"|'[^'\n]{0,200}')"""
"""Part of a key. What is quoted has an end, as the search begins at each quotation mark; of longer parts a file has few."""
_TOO_DEEP = rf"(?<![\w-]){_PART}(?:[ \t]*\.[ \t]*{_PART}){{{_DEEPEST}}}"
"""Key of more parts than any file of ours has. ``tomllib`` keeps each beginning of a key: 15,000 parts take 9 s and 900 MB."""


def parse_toml(text: str) -> dict[str, Any]:
    """Parses ``text``. Raises ``ValueError`` and ``RecursionError`` for what is not valid TOML, or too deep.

    >>> parse_toml("claims.hosts = 'any'")
    {'claims': {'hosts': 'any'}}
    """
    import tomllib  # takes 15 ms, and most have no such file

    if found := re.search(_TOO_DEEP, text):
        line = text.count("\n", 0, found.start()) + 1
        raise ValueError(f"A key of more than {_DEEPEST} parts (at line {line}, column 1)")
    return tomllib.loads(text)


_COERCED = ("C.UTF-8", "C.utf8", "UTF-8")
"""Values of LC_CTYPE that the interpreter itself may have set, PEP 538."""


def plain_locale(environ: Environ, utf8_mode: bool = sys.flags.utf8_mode == 1) -> bool:
    """True if the environment asks for ASCII, locale(7).

    In a C locale the interpreter turns on its ``utf8_mode`` and writes another LC_CTYPE into the environment, which is not the
    user's choice.

    >>> plain_locale({"LANG": "C", "LC_CTYPE": "C.UTF-8"}, True), plain_locale({"LANG": "C", "LC_CTYPE": "C.UTF-8"}, False)
    (True, False)
    """
    ctype = environ.get("LC_CTYPE", "")
    asked = "" if utf8_mode and ctype in _COERCED else ctype
    return (environ.get("LC_ALL") or asked or environ.get("LANG")) in ("C", "POSIX")


def suppressed_words(by_source: Mapping[str, int]) -> str:
    """Says how many puts were duplicates, in total and by source; "" for none.

    >>> suppressed_words({"mail": 2, "": 1}), suppressed_words({})
    ('duplicates suppressed: 3 (without a source 1, mail 2)', '')
    """
    each = ", ".join(f"{escape(source) or 'without a source'} {many:,}" for source, many in sorted(by_source.items()))
    return f"duplicates suppressed: {sum(by_source.values()):,} ({each})" if by_source else ""


# Fills in the placeholders, in braces, in the text of test messages.

PLACEHOLDERS = ("n", "count", "id", "source", "time")
"""The message's number from 1, their total, its id, its source ("" without one), the time (epoch seconds, whole)."""

_HOLE = r"\{\{(%s)\}\}|\{(%s)\}" % (("|".join(PLACEHOLDERS),) * 2)


def fill(text: str, words: Mapping[str, str]) -> str:
    """Replaces each placeholder in ``text``. All other braces are unchanged, so that JSON need not be escaped; doubled braces
    keep a placeholder as it is.

    >>> fill('{"rowid": {n}, "of": {"id": "{id}"}, "as is": "{{n}}"}', {"n": "3", "id": "a"})
    '{"rowid": 3, "of": {"id": "a"}, "as is": "{n}"}'
    """
    return re.sub(_HOLE, lambda hole: f"{{{hole[1]}}}" if hole[1] else words.get(hole[2], hole[0]), text)


def same_json(one: Json, other: Json) -> bool:
    """True if both are equal as JSON: True is not 1, and the order of keys does not matter."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


# Numbers as they are shown and typed, the same in the dashboard and on the command line. An unknown value is ``—`` (nothing
# there) or ``?`` (not visible), never 0. Ages change in steps, so an idle screen stays still.

MINUTE = 60.0
HOUR = 3600.0
DAY = 86400.0
_YEAR = 365 * DAY
_SECONDS = {"": 1.0, "s": 1.0, "m": MINUTE, "h": HOUR, "d": DAY, "w": 7 * DAY}
_PER = {"": 1.0, "s": 1.0, "m": MINUTE, "min": MINUTE, "h": HOUR}
_AGE_PART = r"([0-9]+(?:\.[0-9]+)?|\.[0-9]+)([smhdw]?)"
_AGE = rf"(?:{_AGE_PART})+"


def _long(seconds: float) -> str:
    """Formats a time of a minute or more in at most 4 cells: whole units, rounded down."""
    if seconds < HOUR:
        return f"{int(seconds // MINUTE)}m"
    if seconds < 2 * DAY:
        return f"{int(seconds // HOUR)}h"
    if seconds < 1000 * DAY:
        return f"{int(seconds // DAY)}d"
    return f"{int(min(seconds, 999 * _YEAR) // _YEAR)}y"


def since(at: float | None, now: float) -> float | None:
    """Seconds from ``at`` to ``now``, never negative; None where ``at`` is not known."""
    return None if at is None else max(0.0, now - at)


def age(seconds: float | None) -> str:
    """Formats an age in at most 4 cells: seconds below 10 s, then steps of 10 s below a minute, then minutes. ``—`` for None.

    Every age is rounded here, bounds included, so that one age reads the same wherever it is shown.

    >>> [age(s) for s in (0, 9.9, 42, 61, 7199, 90000, 300000, None)]
    ['0s', '9s', '40s', '1m', '1h', '25h', '3d', '—']
    """
    if seconds is None or math.isnan(seconds):
        return "—"
    if seconds < 10:
        return f"{max(0, int(seconds))}s"
    if seconds < MINUTE:
        return f"{int(seconds // 10) * 10}s"
    return _long(seconds)


def at_most(seconds: float | None) -> str:
    """Formats an age that is an upper bound, in at most 5 cells, rounded like every age. ``—`` for None.

    >>> [at_most(s) for s in (0.4, 3, 42, 2461, None)]
    ['≤1s', '≤3s', '≤40s', '≤41m', '—']
    """
    if seconds is None or not math.isfinite(seconds):
        return "—"
    return "≤" + age(max(1.0, seconds))


def at_least(seconds: float | None) -> str:
    """Formats an age that is a lower bound, in at most 5 cells. ``—`` for None.

    >>> [at_least(s) for s in (3, 42, 900, None)]
    ['≥3s', '≥40s', '≥15m', '—']
    """
    shown = age(seconds)
    return shown if shown == "—" else "≥" + shown


def duration(seconds: float | None) -> str:
    """Formats a measured time in at most 4 cells. ``—`` for None.

    >>> [duration(s) for s in (0.0001, 0.012, 0.1, 9.96, 59.9, 425)]
    ['<1ms', '12ms', '0.1s', '10s', '1m', '7m']
    """
    if seconds is None or math.isnan(seconds):
        return "—"
    if seconds < 0.001:
        return "<1ms"
    if seconds < 0.0995:
        return f"{seconds * 1000:.0f}ms"
    if seconds < 9.95:
        return f"{seconds:.1f}s"
    if seconds < 59.5:
        return f"{seconds:.0f}s"
    return _long(max(seconds, MINUTE))


def interval(seconds: float | None) -> str:
    """Formats the interval between recurring events in at most 4 cells: whole seconds below two minutes. ``—`` for None.

    >>> [interval(s) for s in (0.4, 2.2, 60.3, 660, None)]
    ['<1s', '2s', '60s', '11m', '—']
    """
    if seconds is None or math.isnan(seconds):
        return "—"
    if seconds < 0.5:
        return "<1s"
    return f"{seconds:.0f}s" if seconds < 119.5 else _long(seconds)


def span(seconds: float | None) -> str:
    """Formats the time that something was watched, with two units.

    >>> [span(s) for s in (0, 12, 312, 7500, 200000)]
    ['0s', '12s', '5m12s', '2h05m', '2d07h']
    """
    if seconds is None or not math.isfinite(seconds):
        return "—"
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02}s"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02}m"
    return f"{whole // 86400}d{whole % 86400 // 3600:02}h"


def size(bytes: int | None) -> str:
    """Formats bytes in powers of 1000, at most 6 cells. ``?`` for None.

    >>> [size(n) for n in (0, 512, 4100, 12_300_000, 1_900_000_000, 999_999, None)]
    ['0B', '512B', '4.1kB', '12MB', '1.9GB', '1.0MB', '?']
    """
    if bytes is None:
        return "?"
    if bytes < 1000:
        return f"{max(0, bytes)}B"
    value = float(bytes)
    for unit in ("kB", "MB", "GB", "TB", "PB", "EB"):
        value /= 1000
        if value < 9.95:
            return f"{value:.1f}{unit}"
        if value < 999.5:
            return f"{value:.0f}{unit}"
    return ">999EB"


def count(n: int | None, *, complete: bool = True) -> str:
    """Formats a number with grouped thousands; ``≥`` in front of a lower bound; ``?`` for None.

    >>> count(4310), count(310000, complete=False), count(None)
    ('4,310', '≥310,000', '?')
    """
    if n is None:
        return "?"
    return f"{n:,}" if complete else f"≥{n:,}"


def rate(per_s: float | None, *, signed: bool = False) -> str:
    """Formats a rate per second; ``—`` for None.

    >>> rate(11.93), rate(1.8, signed=True), rate(-2500, signed=True), rate(0.01), rate(0)
    ('11.9/s', '+1.8/s', '-2,500/s', '<0.1/s', '0.0/s')
    """
    if per_s is None or not math.isfinite(per_s):
        return "—"
    if abs(per_s) < 0.05:
        return "0.0/s" if signed or per_s == 0 else "<0.1/s"
    return f"{per_s:{'+' if signed else '-'}{',.0f' if abs(per_s) >= 99.95 else '.1f'}}/s"


def percent(part: float | None, whole: float | None) -> str:
    """Formats a share in at most 4 cells. 0 % and 100 % mean exactly none and all; ``?`` if not known.

    >>> percent(41, 100), percent(1, 1000), percent(999, 1000), percent(0, 7), percent(None, 7)
    ('41%', '<1%', '>99%', '0%', '?')
    """
    if part is None or whole is None or whole <= 0:
        return "?"
    share = 100 * part / whole
    if 0 < share < 1:
        return "<1%"
    if 99 < share < 100:
        return ">99%"
    return f"{share:.0f}%"


def clock_time(epoch: float | None, tz: tzinfo | None = None, *, offset: bool = True) -> str:
    """Formats the time of day in ``tz`` (None: local), with the offset from UTC. ``—`` for None or a time outside the calendar.

    >>> from datetime import timedelta, timezone
    >>> clock_time(1_795_222_869, timezone(timedelta(hours=1)))
    '02:01:09 +0100'
    """
    if epoch is None:
        return "—"
    wanted = "%H:%M:%S %z" if offset else "%H:%M:%S"
    try:
        return datetime.fromtimestamp(epoch, tz).astimezone(tz).strftime(wanted)
    except (ValueError, OverflowError, OSError):
        return "—"


def parse_age(text: str) -> float:
    """Parses ``90``, ``10m``, ``1.5d``, ``1h30m`` into seconds. Raises ``UsageError``.

    >>> parse_age("10m"), parse_age("90"), parse_age("1.5d"), parse_age("1h30m")
    (600.0, 90.0, 129600.0, 5400.0)
    """
    if re.fullmatch(_AGE, text):
        parts = re.findall(_AGE_PART, text)
        total = sum(float(number) * _SECONDS[unit] for number, unit in parts)
        # a number without a unit says seconds only where it stands alone: "1h30" is not a half minute past one for everybody
        if math.isfinite(total) and (len(parts) == 1 or all(unit for _, unit in parts)):
            return total
    raise UsageError(f"invalid duration {text!r}: use 90, 10m, 2h or 1d")


def parse_rate(text: str) -> float:
    """Parses ``50``, ``50/s``, ``1000/m``, ``10/h`` into items a second. Raises ``UsageError``.

    >>> parse_rate("50"), parse_rate("0.5/s"), parse_rate("1200/m")
    (50.0, 0.5, 20.0)
    """
    number, slash, unit = text.partition("/")
    try:
        found = float(number) / _PER[unit if slash else ""]
    except (ValueError, KeyError):
        found = 0.0
    if not 0 < found <= 1e9:
        raise UsageError(f"invalid rate {text!r}: use 50/s or 1000/m, above 0")
    return found


def rate_limit(rate: float) -> str:
    """Formats a configured rate.

    >>> rate_limit(50), rate_limit(1200.0), rate_limit(1000 / 60), rate_limit(0.25)
    ('50/s', '1,200/s', '16.7/s', '0.25/s')
    """
    return f"{rate:,.0f}/s" if rate == int(rate) else f"{rate:.3g}/s"


def _width(char: str) -> int:
    """Cells of one character, as the dashboard's toolkit counts them too: a test compares the two."""
    if char.isascii():
        return 1 if char.isprintable() else 0
    import unicodedata  # only for those who have such names

    if unicodedata.category(char) in _MARKS or "\u1160" <= char <= "\u11ff" or "\ud7b0" <= char <= "\ud7fb":
        return 0  # also vowels and final consonants of Hangul, which join the syllable before them (UAX #29)
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


_MARKS = frozenset(("Mn", "Me", "Mc", "Cf", "Cc", "Cs"))


def cells(text: str) -> int:
    """Counts the terminal cells of ``text``; wide characters take two, combining ones none (UAX #11).

    >>> cells("abc"), cells("日本")
    (3, 4)
    """
    return len(text) if text.isascii() and text.isprintable() else sum(map(_width, text))


def fit(text: str, width: int, *, cut: Literal["left", "right"] = "left", mark: str = "…") -> str:
    """Fits ``text`` into exactly ``width`` cells: padded, or cut at the left (names differ at their ends) with ``mark`` in place
    of the cut.

    >>> fit("1795222801446548", 8), fit("abc", 5), fit("no room", 5, cut="right"), fit("日本", 3)
    ('…1446548', 'abc  ', 'no r…', '…本')
    """
    if width <= 0:
        return ""
    have = cells(text)
    if have > width:
        room = width - cells(mark)
        if room < 0:
            mark, room = "", width
        kept = _tail(text, room) if cut == "left" else _head(text, room)
        text = mark + kept if cut == "left" else kept + mark
        have = cells(text)
    return text + " " * (width - have)


def _head(text: str, room: int) -> str:
    for at, char in enumerate(text):
        room -= _width(char)
        if room < 0:
            return text[:at]
    return text


def _tail(text: str, room: int) -> str:
    start = len(text)
    for at in range(len(text) - 1, -1, -1):
        wide = _width(text[at])
        room -= wide
        if room < 0:
            break
        if wide:  # a combining sign is kept only with the character that it belongs to
            start = at
    return text[start:]
