"""Plans of what concerns the whole group: its pause, the messages that are put, and the place where it reads."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from spooltop.engine.pausing import encode_pause, pause_from
from spooltop.errors import UsageError
from spooltop.model.look.observation import REASON_AT_MOST, Pause, pause_words
from spooltop.model.operations.plan import Candidates, Item, Refusal
from spooltop.model.row import Row
from spooltop.model.template import fill
from spooltop.model.text import escape, escape_text, json_object
from spooltop.model.units import size as size_words
from spooltop.model.vocabulary import Box, Json
from spooltop.patterns import pattern

from ..stream_names import StreamNames
from .changes import StreamChange, StreamVerb
from .connection import OperatorConnection, listed, text_of, whole
from .rows import groups_of

__all__ = ["inject_plan", "pause_item", "pause_plan", "put_changes", "resume_plan", "set_item", "set_plan"]

_MOST_BYTES = 16 << 20
_SHOWN = 60
_COUNTED = 10_000
_PAGE = 200
_ID = pattern(r"([0-9]{1,20})(?:-([0-9]{1,20}))?\Z")
_LAST = """
local found = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1]
return found and found[1]
"""
_PAGE_END = """
local found = redis.call('XRANGE', KEYS[1], ARGV[1], ARGV[2], 'COUNT', ARGV[3])
return {#found, #found > 0 and found[#found][1] or ''}
"""


def pause_plan(server: OperatorConnection, names: StreamNames, options: Mapping[str, Json], user: str, now: float) -> Candidates:
    """Pins that the queue is not paused. Raises ``UsageError`` for a reason that is too long."""
    reason = options.get("reason") or ""
    if not isinstance(reason, str) or len(reason) > REASON_AT_MOST:
        raise UsageError(f"pause: the reason has more than {REASON_AT_MOST} characters", advice="say it shorter")
    found = _pause_record(server, names)
    row = _row(server)
    if found is not None:
        return Candidates((), [Refusal(row, f"it is paused already, {pause_words(_pause(found, now), now)}")])
    record = encode_pause(Pause(user, now, reason)).decode()
    note = "Only workers of spooltop read this record: other consumers of the group go on."
    return Candidates([pause_item(server, StreamChange(StreamVerb.PAUSE, "", to=record), now)], notes=(note,))


def resume_plan(server: OperatorConnection, names: StreamNames, now: float) -> Candidates:
    """Pins the record of the pause that was found."""
    found = _pause_record(server, names)
    if found is None:
        return Candidates((), [Refusal(_row(server), "it is not paused")])
    return Candidates([pause_item(server, StreamChange(StreamVerb.RESUME, found), now)])


def pause_item(server: OperatorConnection, change: StreamChange, now: float) -> Item:
    """The item of a plan that pauses or resumes."""
    if change.verb is StreamVerb.PAUSE:
        words = "Workers of spooltop claim no message until it is resumed"
    else:
        words = f"Workers of spooltop claim messages again. Paused {pause_words(_pause(change.id, now), now)}"
    return Item(_row(server), change, words=words)


def _pause(record: str, now: float) -> Pause:
    return pause_from(json_object(record.encode("utf-8", "surrogateescape")), now)


def _pause_record(server: OperatorConnection, names: StreamNames) -> str | None:
    (found,) = server.ask("look", ("GET", names.paused))
    return None if found is None else text_of(found)


def _row(server: OperatorConnection) -> Row:
    return Row(server.address, Box.CUR, server.address, server.address)


def inject_plan(options: Mapping[str, Json], groups: int, clock: Callable[[], float]) -> Candidates:
    """Checks the options of test messages: ``text`` with placeholders, or ``size`` in bytes. Raises ``UsageError``."""
    size = options.get("size")
    if size is not None and (isinstance(size, bool) or not isinstance(size, int) or not 0 <= size <= _MOST_BYTES):
        raise UsageError(f"inject: invalid size {size!r}", advice=f"give 0 to {_MOST_BYTES} bytes")
    if options.get("text") is not None and size is not None:
        raise UsageError("inject: a text cannot be combined with a size", advice="give one of them")
    first = _content(options, 1, clock())
    notes = []
    if options.get("text") is not None and first:
        shown = escape_text(first[:_SHOWN], keep_newlines=False)
        notes.append(f"First message, {size_words(len(first))}: {shown}{' …' if len(first) > _SHOWN else ''}")
    if groups > 1:
        notes.append(f"All {groups:,} groups of this stream get it.")
    effect = "Test messages are put at the end of the stream; running consumers claim them."
    return Candidates((), notes=tuple(notes), effect=effect)


def put_changes(options: Mapping[str, Json], first: int, last: int, clock: Callable[[], float]) -> list[StreamChange]:
    """Returns the changes that put the messages ``first`` to ``last``, counted from 1."""
    source = options.get("source")
    named = source if isinstance(source, str) else ""
    return [
        StreamChange(StreamVerb.PUT, "", "new", consumer=named, data=_content(options, number, clock()))
        for number in range(first, last + 1)
    ]


def _content(options: Mapping[str, Json], number: int, now: float) -> bytes:
    text, size, source = options.get("text"), options.get("size"), options.get("source")
    if isinstance(text, str):
        words = {"n": number, "count": options.get("count", ""), "id": "", "source": source or "", "time": int(now)}
        return fill(text, {name: str(word) for name, word in words.items()}).encode("utf-8", "surrogateescape")
    if isinstance(size, int):
        line = f"test message {number}\n".encode()
        return (line * (size // len(line) + 1))[:size]
    return f"test message {number} by spooltop\n".encode()


def set_plan(server: OperatorConnection, names: StreamNames, options: Mapping[str, Json]) -> Candidates:
    """Pins the id last delivered to a group and the one that it gets. Options: ``source``, the group; ``value``, an id, ``0`` or
    ``$``. Raises ``UsageError``."""
    source, value = options.get("source"), options.get("value")
    if not isinstance(source, str) or not isinstance(value, (str, int)) or isinstance(value, bool):
        raise UsageError("set-cursor: which group, to what id?", advice="spooltop cursors URL --set GROUP=ID")
    groups = groups_of(server, names)
    row = Row(source, Box.CUR, source, server.address, source=source)
    if source not in groups:
        there = ", ".join(sorted(map(escape, groups)))
        return Candidates((), [Refusal(row, f"the stream has no group {escape(source)}; it has {there}")])
    before, after = groups[source], _id(server, names, value)
    return set_item(server, names, source, before, after)


def set_item(server: OperatorConnection, names: StreamNames, group: str, before: str, after: str) -> Candidates:
    """Pins a group's last delivered id ``before``, to be set to ``after``; says what would be delivered again or skipped."""
    row = Row(group, Box.CUR, group, server.address, source=group)
    if before == after:
        return Candidates((), [Refusal(row, f"it is {after} already")])
    back = _order(after) < _order(before)
    count, all_of_them = _counted(server, names, *((after, before) if back else (before, after)))
    many = f"{'' if all_of_them else '≥ '}{count:,} message{'' if count == 1 else 's'}"
    what = f"{many} would be delivered again" if back else f"{many} would be skipped"
    words = f"{escape(group)}: {before} → {after}"
    deleted = "Messages that were deleted meanwhile are not delivered again. " if back else ""
    notes = [f"{deleted}Claims stay as they are."]
    change = StreamChange(StreamVerb.SET, before, to=after, consumer=group)
    effect = "The group reads on after the new id. Nothing is deleted."
    return Candidates([Item(row, change, what, words, after)], notes=tuple(notes), effect=effect)


def _id(server: OperatorConnection, names: StreamNames, value: str | int) -> str:
    if value == "$":
        found = server.run("look", _LAST, [names.stream], ())
        return "0-0" if found is None else text_of(found)
    found_id = _ID.match(str(value))
    if found_id is None:
        raise UsageError(f"set-cursor: {escape(json.dumps(value))} is no id", advice="write 1763900000123-0, 0 or $")
    return f"{int(found_id[1])}-{int(found_id[2] or 0)}"


def _order(id: str) -> tuple[int, int]:
    found = _ID.match(id)
    return (0, 0) if found is None else (int(found[1]), int(found[2] or 0))


def _counted(server: OperatorConnection, names: StreamNames, after: str, up_to: str) -> tuple[int, bool]:
    """Counts the entries between two ids, up to a bound, and says whether these are all."""
    count = 0
    while count < _COUNTED:
        page = listed(server.run("look", _PAGE_END, [names.stream], [f"({after}", up_to, _PAGE]))
        found = whole(page[0])
        count += found
        if found < _PAGE:
            return count, True
        after = text_of(page[1])
    return count, False
