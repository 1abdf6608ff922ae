"""What the setting of a cursor says: which file is meant, what would become of it, what came of it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from spooltop.engine.cursors import LOCK
from spooltop.errors import Refused, UsageError
from spooltop.model.cursor_values import direction, kind_of, pick, shown
from spooltop.model.observation import CursorSource
from spooltop.model.plan import OperationRecord, Outcome
from spooltop.model.text import escape
from spooltop.model.vocabulary import Json

from .records import Set

__all__ = [
    "CursorRef", "as_json", "change_words", "chosen", "comes_before", "real_path", "record", "same", "stored_how", "value_words",
    "warnings_of",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class CursorRef:
    """What a plan pins: the value ``before`` of ``source`` (``had``: there was one) in ``file``, which lies in the directory
    ``folder_id`` (device, inode), and the value it gets."""

    file: str
    source: str
    shared: bool
    folder_id: tuple[int, int]
    had: bool
    before: Json
    after: Json


def chosen(source: str, file: Json, sources: tuple[CursorSource, ...], path: str) -> CursorSource:
    """The file that is meant. Raises ``UsageError``, ``Refused``."""
    if not sources:
        raise Refused("set-cursor: there is no cursor file here", path=path)
    if file is not None:
        wanted = str(file)
        for one in sources:
            if os.path.abspath(wanted) == one.path or wanted == os.path.basename(one.path):
                return one
        names = ", ".join(escape(one.path) for one in sources)
        raise UsageError(f"set-cursor: {escape(str(file))} is no cursor file here", advice=f"there are {names}")
    having = [one for one in sources if source in (one.sections or {}) or (not one.shared and _stem(one) == source)]
    if len(having) > 1:
        names = ", ".join(escape(one.path) for one in having)
        raise UsageError(f"set-cursor: {escape(source)} stands in {names}", advice="name one with --file")
    if having:
        return having[0]
    shared = [one for one in sources if one.shared]
    if len(shared) == 1:
        return shared[0]
    there = sorted({escape(name) for one in sources for name in one.sections or {}})
    raise UsageError(f"set-cursor: no source {escape(source)} here", advice=f"there are {', '.join(there)}")


def real_path(path: str) -> str:
    """The file's path by what its directory really is: what the journal knows it by, however the target was named."""
    above, name = os.path.split(path)
    return os.path.join(os.path.realpath(above), name)


def _stem(one: CursorSource) -> str:
    return os.path.basename(one.path).removesuffix(".json")


def record(one: Set, undone_by: str | None, too_late: str | None, *, stands: bool) -> OperationRecord:
    """What the list of operations says of it, with its values as they may be shown. ``too_late`` is why the cursor as it is now
    rules out an undo; ``stands``: it has the value that was set."""
    found = one.outcome is None and stands
    done = one.outcome is Outcome.DONE or found
    why_not = None
    if not done:
        why_not = "it changed nothing"
    elif undone_by is not None:
        why_not = f"already undone by {undone_by}"
    else:
        why_not = too_late
    words = change_words(one)
    if one.outcome is None:
        words += f"; cut short: {'it stands there' if found else 'it does not stand there'}, as found by looking"
    return OperationRecord(
        one.operation, one.action, one.at, one.user, 1, int(done), int(one.outcome is Outcome.SKIPPED),
        int(one.outcome is Outcome.FAILED), one.outcome is None, undone_by, why_not, words,
    )  # fmt: skip


def change_words(one: CursorRef | Set) -> str:
    """``imessage: 89632 → 89640 in /opt/memex/cursors.json``."""
    before = value_words(one.before) if one.had else "nothing"
    return f"{escape(one.source)}: {before} → {value_words(one.after)} in {escape(one.file)}"


def warnings_of(ref: CursorRef, highest: Json, hide: Callable[[Json], Json]) -> Iterator[str]:
    """What speaks against it: another type, or back below the ``highest`` value that was seen (None: none was). ``hide`` gives
    a value as it may be shown."""
    for before, after in ((ref.before, ref.after), (pick(ref.before), pick(ref.after))):
        if ref.had and kind_of(before) != kind_of(after):
            yield f"its type changes: it is {kind_of(before)} and becomes {kind_of(after)}; does its poller read that?"
            break
    back = comes_before(ref.after, ref.before)
    below = comes_before(ref.after, highest)
    if back or below:
        than = ref.before if back and not comes_before(ref.before, highest) else highest
        yield f"it goes back below {shown(hide(than))}, the highest seen: what lies between may come once more"


def stored_how(one: CursorSource) -> str:
    """Under which lock and condition it is stored, for the plan."""
    name = escape(os.path.basename(one.path))
    return f"Under {LOCK}, and only while {name} still has the value shown. A poller that does not lock may write over it."


def comes_before(one: Json, other: Json) -> bool:
    """True where the cursor in the first comes before that in the second; of tokens without order nobody knows."""
    return direction(pick(one), pick(other)) == 1


def same(one: Json, other: Json) -> bool:
    """Equal as JSON: True is not 1, the order of keys does not matter."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def value_words(value: Json) -> str:
    """As it stands in the file, never grouped, never rounded; long ones cut."""
    shown = escape(json.dumps(value, ensure_ascii=False))
    return shown if len(shown) <= 200 else f"{shown[:200]}…"


def as_json(found: object) -> Json:
    """What a ``CursorMismatch`` found."""
    return found  # type: ignore[return-value]  # CursorMismatch.found is what the file held, which is JSON
