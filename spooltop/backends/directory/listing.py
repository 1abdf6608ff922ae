"""Lists for the front ends: windows over the names of a scan, their order and filter, and one message in full."""

from __future__ import annotations

import errno
import os
import stat
import time
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import compress, count
from typing import Any, NamedTuple

from msgspec import Struct

from spooltop.engine.dirs import SpoolDirs
from spooltop.engine.files import NotRegular, open_regular
from spooltop.engine.names import Name, is_own_id, parse
from spooltop.model import ASIDE, Box, Key, ListProgress, ListQuery, Payload, Row, Stop, Unreadable, Verdict, escape
from spooltop.model import query as filters

from ..access import closed_words, user_name
from ..row_listing import matcher
from .scan import BoxScan, pieces
from .storage import FORMS_AT_MOST, folders_dir, kind_of_file, named_like, safe_name

# Decides about messages in ``new`` by their names.

def _attributes(raw: str) -> str | None:
    """The attributes in a name with an id of our own, with their comma; None of any other name."""
    id, _, _ = raw.partition(",")
    return raw[len(id) :] if is_own_id(id) else None


def name_test(query: ListQuery, now: float, row: Callable[[str], Row]) -> Callable[[str], bool | None] | None:
    """Makes the test of a filter and a selection of messages in ``new``, as far as names decide them; None where they do not.
    ``row`` makes the row of a name. The test is True if the message is selected, None if its file has to be looked at.

    Names of our own differ in their times and ids: what is asked of the rest of a name, its attributes, is decided once for all
    that have the same."""
    wanted = filters.parse(query.filter).by_name
    chosen = query.selection
    if query.box is not Box.NEW or wanted is None or (chosen is not None and (chosen.named or chosen.filter)):
        return None
    texts, ages, rest = wanted.texts, wanted.ages, wanted.rest
    selects: Callable[[Row], bool] = lambda row: True  # noqa: E731
    if chosen is not None:
        selects = chosen.replace(older_than=None).matcher(now)
        ages = ages if chosen.older_than is None else (*ages, (filters.OLDER, chosen.older_than, True))

    @lru_cache(FORMS_AT_MOST)  # each delayed message has attributes of its own
    def of_attributes(attributes: str) -> bool | None:
        name = named_like(attributes)
        if name is None or (texts and "%" in attributes):  # encoded: what is shown differs
            return None
        like = row(name.raw)
        if not rest.match(like, now) or not selects(like):
            return False
        return None if ages and name.attempts else True  # it came back at a time that its name does not tell

    def test(raw: str) -> bool | None:
        attributes = _attributes(raw)
        taken = None if attributes is None else of_attributes(attributes)
        if not taken:
            return taken
        for text, expected in texts:
            if (text in raw) is not expected:
                return False
        if ages:
            age = max(0.0, now - int(raw[:16]) / 1e6)
            for compare, seconds, expected in ages:
                if compare(age, seconds) is not expected:
                    return False
        return True

    return test


# Sorts very many keys, a piece at a time: sorting a million at once would hold the interpreter, and with it the user's keys,
# for a second.

_PIECE = 16_384
_SAMPLES = 8


def ordered(keys: Sequence[Any], report: Callable[[float], bool]) -> array[int] | None:
    """Returns the places of ``keys`` in ascending order, as ``sorted(range(len(keys)), key=keys.__getitem__)`` does, four bytes
    each; None if it was cancelled. ``report`` gets the share that is done (0 to 1), and returns True to cancel."""
    count = len(keys)
    edges: list[Any] = []
    if count > _PIECE:
        from random import Random  # only for long lists

        anywhere = Random(0)
        sample = sorted(keys[int(anywhere.random() * count)] for _ in range(_SAMPLES * (count // _PIECE + 1)))
        edges = sorted(set(sample[_SAMPLES // 2 :: _SAMPLES]))
    # All keys between two edges are sorted together. Very many of them are equal, as nearly all tries are, and in order already.
    between = [array("I") for _ in range(len(edges) + 1)]
    for place, key in enumerate(keys):
        if place % _PIECE == 0 and report(0.6 * place / count):
            return None
        between[bisect_left(edges, key)].append(place)
    found = array("I")
    for places in between:
        if report(0.6 + 0.4 * len(found) / max(1, count)):
            return None
        found.extend(sorted(places, key=keys.__getitem__))
    return found


# The order of a box by a column, from its names: four bytes a message. It is kept as long as the scan, so that a filter
# only has to select from it.

_SORTED_AT_MOST = 100_000

ValueOf = Callable[[str], float | str | None]
"""Returns the value that the message of this name has in a column, None if it has none."""


class Order(NamedTuple):
    """Places of names, ascending by a column. ``unknown`` are those without a value, which come last in both directions."""

    known: array[int]
    unknown: array[int]

    def only(self, mask: bytearray) -> Order:
        """Keeps the places that ``mask`` selects (one byte per place, 1: selected), in this order."""
        return Order(*(array("I", compress(places, map(mask.__getitem__, places))) for places in self)) if 0 in mask else self

    def places(self, *, reverse: bool) -> array[int]:
        return (self.known[::-1] if reverse else self.known) + self.unknown


def time_of(scan: BoxScan) -> ValueOf:
    """The time of the put, in µs."""
    def value(raw: str) -> float | None:
        when = scan.put_us(raw)
        return None if when is None else float(when)  # floats hold the µs of this millennium exactly and compare fastest
    return value


def by_column(
    names: list[str], value: ValueOf, mask: bytearray | None, report: Callable[[float], bool], gathered: float = 0.6
) -> Order | None:
    """Orders the names that ``mask`` selects (None: all). Returns None if it was cancelled: ``report`` as for ``ordered``, where
    the values take ``gathered`` of the share."""
    keys: list[float | str] = []
    places, unknown = array("I"), array("I")
    for start, piece in pieces(names):
        if report(gathered * start / len(names)):
            return None
        for place, raw in enumerate(piece, start):
            if mask is not None and not mask[place]:
                continue
            key = value(raw)
            if key is None:
                unknown.append(place)
            else:
                keys.append(key)
                places.append(place)
    ranks = ordered(keys, lambda share: report(gathered + (1.0 - gathered) * share))
    if ranks is None:
        return None
    if len(unknown) <= _SORTED_AT_MOST:  # the order of a directory means nothing
        unknown = array("I", sorted(unknown, key=names.__getitem__))
    return Order(ranks if len(places) == len(names) else array("I", map(places.__getitem__, ranks)), unknown)


def _name_like(raw: str) -> Name:
    """Parses a name; one of our own once for all with its attributes, whose id and times are then not those of ``raw``."""
    attributes = _attributes(raw)
    return (None if attributes is None else named_like(attributes)) or parse(raw, claimed=False)


AT_ONCE = 150
"""Rows that are shown before all are known: more than fit on a screen."""


class NameListing(Struct, eq=False, kw_only=True):
    """List over the names of a scan in which nothing was judged: four bytes a message for the order, and rows only for the
    window. ``status`` looks a name up in the box (lstat(2), None if it has gone), ``row`` makes its row.

    The order of all names by a column is kept with the scan. While it is made, the list reports to ``progress`` how much is done,
    how many names match so far, and the first of them by name, or the last (``_backwards``), because most names begin with their
    time. A cancelled list is empty and not ``complete``.
    """

    query: ListQuery
    scan: BoxScan
    status: Callable[[str], os.stat_result | None]
    row: Callable[[str, os.stat_result | None], Row]
    now: float
    generation: int
    cancelled: Stop
    progress: ListProgress | None
    timed: bool = False
    complete: bool = False
    ordered_over: int | None = None
    _places: array[int] = array("I")
    _backwards: bool = False
    _first: list[str] = []
    _count: int = 0
    _stage: tuple[float, float] = (0.0, 0.0)
    """The part of the work that this stage of it is."""
    _shown: dict[str, int] = {}
    """The places of the last window: nearly all that is searched is in it, and to search all takes 70 ms."""

    def __post_init__(self) -> None:
        # Ages count backwards: the oldest has the least time and the greatest age.
        self._backwards = self.query.sort.descending != (self.query.sort.column in ("age", "held"))
        order = self._ordered()
        if order is not None:
            self._places = order.places(reverse=self._backwards)
            self.complete = self.scan.complete

    def _ordered(self) -> Order | None:
        key = ("order", self.query.sort.column)
        kept: Order | None = self.scan.kept.get(key)
        mask = self._taken(0.5 if kept is None else 1.0)
        if self.cancelled():
            return None
        self._stage = self._stage[1], 1.0
        if mask is not None and kept is not None:
            return kept.only(mask)
        value: ValueOf = {
            "age": time_of(self.scan), "held": time_of(self.scan), "size": self._size,
            "source": lambda raw: _name_like(raw).source, "tries": lambda raw: _name_like(raw).attempts,
        }.get(key[1], str)  # fmt: skip
        gathered = 0.9 if key[1] == "size" else 0.6  # for sizes each file is looked up
        order = kept or by_column(self.scan.names, value, mask, self._report, gathered)
        if mask is None and order is not None:
            self.scan.kept[key] = order
        return order

    def _taken(self, share: float) -> bytearray | None:
        """Returns one byte for each name, 1 if filter and selection take it; None if they take all. If cancelled, the rest is
        0. ``share`` is that of the whole work."""
        query, chosen = self.query, self.query.selection
        match = matcher(query, self.now)
        if match is None:
            return None
        wanted = filters.parse(query.filter)
        self.timed = wanted.needs_stat or (chosen is not None and (chosen.older_than is not None or bool(chosen.filter)))
        test = name_test(query, self.now, self._of_name)
        mask = bytearray(len(self.scan.names))
        self._stage = 0.0, share
        for start, piece in pieces(self.scan.names):
            if self._report(start / len(mask)):
                break
            if not wanted.could_match(os.fsencode("/".join(piece))):
                continue
            found = []
            for place, raw in enumerate(piece, start):
                taken = None if test is None else test(raw)
                if taken is None and wanted.could_match(os.fsencode(raw)):
                    taken = match(self._seen(raw) if self.timed else self._of_name(raw))
                if taken:
                    mask[place] = 1
                    found.append(raw)
            if found and self.progress is not None:
                self._take(found)
        return mask

    def _take(self, names: Sequence[str]) -> None:
        """Adds names that match to those of the next report."""
        self._count += len(names)
        last = self._first[-1] if len(self._first) == AT_ONCE else None
        if last is None or (max(names) > last if self._backwards else min(names) < last):
            self._first = sorted([*self._first, *names], reverse=self._backwards)[:AT_ONCE]

    def _report(self, share: float) -> bool:
        """Reports that ``share`` of this stage is done, if a report is due. Returns True where the list is cancelled."""
        stopped = self.cancelled()
        if self.progress is not None and not stopped and self.progress.due():
            start, end = self._stage
            self.progress.advanced(start + share * (end - start), list(map(self._seen, self._first)), self._count)
        return stopped

    def _seen(self, raw: str) -> Row:
        return self.row(raw, self.status(raw))

    def _of_name(self, raw: str) -> Row:
        """Returns the row as far as the name alone tells it."""
        return self.row(raw, None).replace(note="")

    def _size(self, raw: str) -> float | None:
        found = self.status(raw)
        return None if found is None else float(found.st_size)

    def __len__(self) -> int:
        return len(self._places)

    def window(self, start: int, stop: int) -> Sequence[Row]:
        start = max(0, start)
        names = [self.scan.names[place] for place in self._places[start : max(0, stop)]]
        self._shown = dict(zip(names, count(start)))
        return list(map(self._seen, names))

    def find(self, key: Key) -> int | None:
        match key:
            case (self.query.box.value, str(name)):
                with suppress(ValueError):  # not there, or the filter does not take it
                    shown = self._shown.get(name)
                    return self._places.index(self.scan.names.index(name)) if shown is None else shown
        return None

    def keys(self) -> Iterator[Key]:
        return ((self.query.box.value, self.scan.names[place]) for place in self._places)


# Reads the beginning of one message, and makes the lines of its detail.

def split_key(key: Key) -> tuple[Box, str, str]:
    """Splits a key into box, folder ("" unless it was set aside or is in a staging directory) and name. Raises ``Unreadable`` if
    it is not a key of a spool."""
    match key:
        case (str(box), str(rest)) if box in set(Box):
            folder, slash, name = rest.rpartition("/")
            if safe_name(name) and (box == Box.TMP or (box in ASIDE) is bool(slash)) and (not slash or safe_name(folder)):
                return Box(box), folder, name
    raise Unreadable("no message of this spool", "look again")


def read_message(dirs: SpoolDirs, key: Key, limit: int, row: Row | None, sentences: Mapping[str, str]) -> Payload:
    """Reads at most ``limit`` bytes from the beginning. Raises ``Unreadable`` if the message is gone, not a regular file, or
    may not be read."""
    box, within, name = split_key(key)
    shown = f"{box}/{escape(name)}"
    folder: int | None = None
    try:
        folder = dirs.private_dir(folders_dir(box), within) if within else dirs.box(box)
        if folder is None:
            raise FileNotFoundError(2, "gone")
        fd, found = open_regular(name, folder)
        with open(fd, "rb") as file:
            data = file.read(limit)
    except FileNotFoundError:
        raise Unreadable("gone since", "it was taken, finished or moved", path=shown) from None
    except NotRegular as problem:
        raise Unreadable(kind_of_file(problem.status), path=shown) from None
    except PermissionError:
        raise Unreadable("permission denied", _closed_words(dirs, -1 if folder is None else folder, name), path=shown) from None
    except OSError as problem:
        what = "a symbolic link, not a message" if problem.errno == errno.ELOOP else str(problem.strerror)
        raise Unreadable(what, path=shown) from None
    finally:
        if within:
            dirs.forget(folders_dir(box), within)
    return Payload(data, found.st_size, found.st_size > len(data), facts_of(name, box, found, row, sentences))


def _closed_words(dirs: SpoolDirs, folder: int, name: str) -> str:
    """Says whose the message ``name`` is, and the command to try; of the spool where its ``folder`` is closed too (then -1)."""
    try:
        return closed_words("it", os.lstat(name, dir_fd=folder), dirs.path)
    except OSError:
        return closed_words("the spool", os.fstat(dirs.root), dirs.path)


def facts_of(
    raw: str, box: Box, found: os.stat_result, row: Row | None, sentences: Mapping[str, str]
) -> tuple[tuple[str, str], ...]:
    """Makes the lines of the detail. ``row`` is the judged row, if there is one; ``sentences`` gives the evidence on the holder
    with a token in full."""
    name = parse(raw, claimed=box is Box.CUR or box in ASIDE)
    told_us = name.enqueued_us if box is not Box.TMP or is_own_id(name.id) else None  # as its row has it
    put_at = found.st_mtime if told_us is None else told_us / 1e6
    facts = [("enqueued", when(put_at) + ("" if told_us is not None else " (last written; its name contains no time)"))]
    if box is Box.CUR:
        claimed = f"claimed {when(name.claimed_us / 1e6)}" if name.claimed_us else f"claimed {when(found.st_ctime)} at the latest"
        if name.flags is not None:  # mail that was read (maildir(5)): nobody claimed it
            claimed = f"in cur since {when(found.st_ctime)} at the latest"
        facts[0] = ("enqueued", f"{facts[0][1]} · {claimed}")
    if name.source is not None:
        facts.append(("source", escape(name.source)))
    if (ended := name.ended if row is None else row.ended) is not None:
        facts.append(("last attempt", escape(ended)))
    if name.not_before is not None:
        facts.append(("waits", f"not before {when(name.not_before / 1e6)}"))
    if row is not None and row.verdict is not None:
        owner = row.owner
        if owner is not None and owner.pid is not None:
            named = (" ", owner.command), (" of ", owner.user), (" on ", owner.host)
            facts.append(("owner", f"pid {owner.pid}" + "".join(f"{before}{escape(text)}" for before, text in named if text)))
        sentence = sentences.get(name.token, "") if name.token is not None else ""
        facts.append(("holder" if box is Box.CUR else "writer", sentence or row.evidence))
        if row.verdict is Verdict.DEAD and owner is not None and owner.pid is not None:
            facts.append(("look up", f"journalctl _PID={owner.pid}"))
    if row is not None and row.reason:
        facts.append(("set aside", escape(row.reason)))
    mode = f"{stat.S_IMODE(found.st_mode):04o}"
    facts.append(("file", f"{user_name(found.st_uid)} {mode}" + (f" · {found.st_nlink} names" if found.st_nlink > 1 else "")))
    return tuple(facts)


def when(at: float) -> str:
    """Local time with its offset: a detail is copied into tickets and read elsewhere."""
    return time.strftime("%Y-%m-%d %H:%M:%S %z", time.localtime(at))
