"""Pins the cursor that is to be set, and describes the change, its risks, or the reason for a refusal."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from functools import partial

from spooltop.engine.cursors import LOCK
from spooltop.errors import Refused, UsageError
from spooltop.model.cursors import CursorSource, direction, pick, same_json, shown, type_change
from spooltop.model.operations.plan import Candidates, Item, Refusal
from spooltop.model.redact import Redactor, unredact
from spooltop.model.row import Row
from spooltop.model.text import escape
from spooltop.model.vocabulary import Box, Json
from spooltop.records import dataclass

from ...journal.item_operator import folder_id
from .folders import blocked_by, folder_of
from .parsing import SECTION_AT_MOST
from .set_record import CursorSetIntent

__all__ = ["CursorPinner", "CursorRef", "chosen_file"]


@dataclass(frozen=True, slots=True)
class CursorRef:
    """The pin of a cursor in a plan: the value ``before`` of ``source`` (``had``: there was one) in ``file``, which is in the
    directory ``folder_id`` (device, inode), and the value ``after`` that it gets."""

    file: str
    source: str
    shared: bool
    folder_id: tuple[int, int]
    had: bool
    before: Json
    after: Json


class CursorPinner:
    """Pins cursors for a plan. ``redactor`` hides values in texts."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor

    def pin(
        self,
        one: CursorSource,
        source: str,
        value: Json,
        folders: list[tuple[str, int]],
        *,
        force: bool,
        typed: bool = False,
        highest: Json,
    ) -> Candidates:
        """Pins the cursor of ``source`` in the file ``one`` with the new ``value``. ``typed``: its type was named, so that
        another one than now is no slip. ``highest`` is the highest value seen, None if none was. Raises ``UsageError``."""
        row = Row(key=one.path, box=Box.CUR, id=source, name=one.path, source=source)
        file = escape(one.path)
        if one.sections is None:
            return Candidates((), [Refusal(row, f"{file} does not read: {escape(one.error)}; mend it by hand first")])
        why = blocked_by(one, folders)
        if why is not None:
            return Candidates((), [Refusal(row, why)])
        had = source in one.sections
        if not had and not force:
            there = ", ".join(sorted(map(escape, one.sections))) or "none"
            return Candidates((), [Refusal(row, f"{file} has no {escape(source)}; it has {there}", forceable=True)])
        before = one.sections.get(source)
        try:
            value = unredact(value, before)
        except ValueError as error:
            raise UsageError(f"set-cursor: {error}", advice="write the value itself") from None
        if had and same_json(before, value):
            return Candidates((), [Refusal(row, f"it is {self._words(source, before)} already")])
        if had and not (force or typed) and (change := type_change(before, value)):
            why = f"its type would change {change}, which its poller may not read"
            return Candidates((), [Refusal(row, why, forceable=True)])
        if isinstance(before, dict) and isinstance(value, dict) and len(json.dumps(before)) > SECTION_AT_MOST and not force:
            missing = len(before.keys() - value.keys())
            if missing:  # it was made of what is shown of a section that is too large to be shown whole
                fields = f"{missing} field{'' if missing == 1 else 's'}"
                why = f"the section of {escape(source)} is too large to be shown whole: this would drop {fields} of it"
                return Candidates((), [Refusal(row, why, forceable=True)])
        with folder_of(one.path, folders) as folder:
            ref = CursorRef(one.path, source, one.shared, folder_id(folder), had, before, value)
        words = self.change_words(ref)
        for write in one.journal:
            if write.source == source and (highest is None or _comes_before(highest, write.new)):
                highest = write.new
        warnings = list(_warnings_of(ref, highest, partial(self._redactor.section, source)))
        notes = (f"{words}.", *(f"{warning[0].upper()}{warning[1:]}." for warning in warnings), _stored_how(one))
        shown = self._redactor.section(source, value, marked=True)
        return Candidates([Item(row, ref, "; ".join(warnings), words, shown)], (), tuple(note for note in notes if note))

    def moved_on(self, source: str, now: Json, before: Json) -> str:
        """Says that the cursor has another value than ``before`` now."""
        return f"it is {self._words(source, now)} now and no longer {self._words(source, before)}"

    def _words(self, source: str, value: Json) -> str:
        """The value as it is in the file, never grouped, never rounded; long values are cut."""
        shown = escape(json.dumps(self._redactor.section(source, value), ensure_ascii=False))
        return shown if len(shown) <= 200 else f"{shown[:200]}…"

    def change_words(self, one: CursorRef | CursorSetIntent) -> str:
        """The change in words: ``imessage: 89632 → 89640 in /opt/memex/cursors.json``."""
        before = self._words(one.source, one.before) if one.had else "nothing"
        return f"{escape(one.source)}: {before} → {self._words(one.source, one.after)} in {escape(one.file)}"


def chosen_file(source: str, file: Json, sources: tuple[CursorSource, ...], path: str) -> CursorSource:
    """Returns the file that is meant by ``file``, or that has ``source``. Raises ``UsageError``, ``Refused``."""
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


def _stem(one: CursorSource) -> str:
    return os.path.basename(one.path).removesuffix(".json")


def _warnings_of(ref: CursorRef, highest: Json, hide: Callable[[Json], Json]) -> Iterator[str]:
    """The warnings about a change: another type, or a step back below the ``highest`` value seen (None: none was). ``hide``
    redacts a value."""
    if ref.had and (change := type_change(ref.before, ref.after)):
        yield f"its type changes {change}, which its poller may not read"
    back = _comes_before(ref.after, ref.before)
    below = _comes_before(ref.after, highest)
    if back or below:
        than = ref.before if back and not _comes_before(ref.before, highest) else highest
        yield f"it goes back below {shown(hide(than))}, the highest seen: messages in between may be delivered again"


def _stored_how(one: CursorSource) -> str:
    """The lock and the condition under which the value is stored, for the plan."""
    name = escape(os.path.basename(one.path))
    return f"Under {LOCK}, and only while {name} still has the value shown. A poller that does not lock may write over it."


def _comes_before(one: Json, other: Json) -> bool:
    """True if the cursor in the first value comes before that in the second. Tokens without order never do."""
    return direction(pick(one), pick(other)) == 1
