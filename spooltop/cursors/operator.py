"""Sets a cursor: pins the value that it has now, and replaces that value only. Undo sets it back."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

from spooltop.backends.directory.world import OpenOptions, System
from spooltop.backends.journal.item_operator import (
    PinnedChange,
    Skipped,
    Standing,
    ValueOperator,
    check_folder,
    folder_id,
    ref_of,
)
from spooltop.backends.journal.log_store import LogFiles, LogStore, with_above
from spooltop.backends.journal.record_log import Intent, ItemOutcome, RecordType, Told
from spooltop.cursors.model import CursorSource, direction, pick, shown, type_change
from spooltop.engine.cursors import LOCK, CursorFile
from spooltop.errors import CursorMismatch, CursorUnreadable, Refused, UsageError
from spooltop.model import Candidates, Capabilities, Item, Refusal, Request, RowItem, unredact
from spooltop.model.vocabulary import Action, Box, Json, Row, Stop, escape, same_json

from .files import SECTION_AT_MOST, CursorFiles, blocked_by, cursor_rights, folder_of, named_folders

# The log of cursors, one JSON object a line; an operation sets one cursor, so its lines have no step number. intent schema line
# operation action time user undoes file source had before after result schema line operation time outcome reason


class CursorSetIntent(Intent):
    """The intent to set one cursor. ``had`` is False if the source had no section."""

    file: str
    source: str
    had: bool
    before: Any
    after: Any

    def told(self) -> Iterator[Told]:
        yield self.source, self.file, self.file


CURSORS = RecordType(
    "cursors", "the journal of cursors", "", CursorSetIntent, ItemOutcome, (Action.SET_CURSOR, Action.UNDO),
    raw=frozenset({"before", "after"}),
)  # fmt: skip
"""The record type of the log of cursors."""


# Pins the cursor that is to be set, and describes the change, its risks, or the reason for a refusal.

class CursorRef(PinnedChange[CursorSetIntent]):
    """The pin of a cursor in a plan: its ``file``, as shown, ``shared`` or of one source, in the directory ``folder_id`` (device,
    inode)."""

    file: str
    shared: bool
    folder_id: tuple[int, int]


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


def _warnings_of(ref: CursorSetIntent, highest: Json, hide: Callable[[Json], Json]) -> Iterator[str]:
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


PATIENCE = 10.0
"""Seconds that a set waits for the lock; after that nothing is written."""
_TICK = 0.05


class CursorState(NamedTuple):
    """The cursor files of a target, in the order of the view; their open ``folders`` as (path, descriptor); and the same files by
    their real paths, as the journal names them."""

    sources: tuple[CursorSource, ...]
    folders: list[tuple[str, int]]
    files: Mapping[str, CursorSource]


class CursorOperator(ValueOperator[CursorSetIntent, CursorState]):
    """Implements ``model.backend.Operator`` for the cursor files in ``path``, or if it has none (``above``), in its
    parent directory, or instead for the ``cursor_files`` of the options: those that the view shows. ``wait`` sleeps some
    seconds; ``patience`` is how many seconds a set waits for the lock. The redactor hides values in texts; the stored value,
    and the journal that an undo needs, have them in full."""

    cut_short = "the new value is in the file", "the new value is not in the file"

    def __init__(
        self,
        path: str,
        store: LogStore,
        options: OpenOptions,
        world: System,
        *,
        above: bool,
        wait: Callable[[float], None] = time.sleep,
        patience: float = PATIENCE,
        user: str | None = None,
    ) -> None:
        path = os.path.abspath(path)
        super().__init__(path, store, CURSORS, clock=world.clock, read_only=options.read_only, user=user, wait=wait)
        self._world = world
        self._files = world.files
        self._named = options.cursor_files
        self._above = above
        self._patience = patience
        self._redactor = options.redactor

    def capabilities(self) -> Capabilities:
        with self._state() as state:
            why = cursor_rights(state.sources, state.folders)
        nothing = Capabilities(dict.fromkeys(Action, "there are no messages here"))
        return nothing.replaced(Action.SET_CURSOR, why).replaced(Action.UNDO, why)

    def _choose(self, request: Request, state: CursorState) -> Candidates:
        """Pins one cursor. Options: ``source``, ``value`` (any JSON), ``type`` (if it is named, the value may have another one
        than now), ``file`` (None: the only one that fits), ``highest`` (the highest value seen). Raises ``UsageError`` where no
        source is named, or several files have it."""
        options = request.options
        source = options.get("source")
        if not isinstance(source, str) or "value" not in options:
            raise UsageError("set-cursor: which source, to what value?", advice="spooltop cursors PATH --set SOURCE=VALUE")
        one = chosen_file(source, options.get("file"), state.sources, self._path)
        typed, highest = bool(options.get("type")), options.get("highest")
        return self._pin(one, source, options["value"], state.folders, force=request.force, typed=typed, highest=highest)

    def _pin(
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

        def refused(why: str, *, forceable: bool = False) -> Candidates:
            return Candidates(refused=[Refusal(row, why, forceable)])

        if one.sections is None:
            return refused(f"{file} does not read: {escape(one.error)}; mend it by hand first")
        why = blocked_by(one, folders)
        if why is not None:
            return refused(why)
        had = source in one.sections
        if not had and not force:
            there = ", ".join(sorted(map(escape, one.sections))) or "none"
            return refused(f"{file} has no {escape(source)}; it has {there}", forceable=True)
        before = one.sections.get(source)
        try:
            value = unredact(value, before)
        except ValueError as error:
            raise UsageError(f"set-cursor: {error}", advice="write the value itself") from None
        if had and same_json(before, value):
            return refused(f"it is {self._words(source, before)} already")
        if had and not (force or typed) and (change := type_change(before, value)):
            return refused(f"its type would change {change}, which its poller may not read", forceable=True)
        if isinstance(before, dict) and isinstance(value, dict) and len(json.dumps(before)) > SECTION_AT_MOST and not force:
            missing = len(before.keys() - value.keys())
            if missing:  # it was made of what is shown of a section that is too large to be shown whole
                fields = f"{missing} field{'' if missing == 1 else 's'}"
                why = f"the section of {escape(source)} is too large to be shown whole: this would drop {fields} of it"
                return refused(why, forceable=True)
        with folder_of(one.path, folders) as folder:
            record = CursorSetIntent(_real_path(one.path), source, had, before, value)
            ref = CursorRef(record, one.path, one.shared, folder_id(folder))
        words = self._change_words(record, one.path)
        for write in one.journal:
            if write.source == source and (highest is None or _comes_before(highest, write.new)):
                highest = write.new
        warnings = list(_warnings_of(record, highest, partial(self._redactor.section, source)))
        notes = (f"{words}.", *(f"{warning[0].upper()}{warning[1:]}." for warning in warnings), _stored_how(one))
        shown = self._redactor.section(source, value, marked=True)
        return Candidates([RowItem(row, ref, "; ".join(warnings), words, shown)], (), tuple(note for note in notes if note))

    def _moved_on(self, source: str, now: Json, before: Json) -> str:
        """Says that the cursor has another value than ``before`` now."""
        return f"it is {self._words(source, now)} now and no longer {self._words(source, before)}"

    def _words(self, source: str, value: Json) -> str:
        """The value as it is in the file, never grouped, never rounded; long values are cut."""
        shown = escape(json.dumps(self._redactor.section(source, value), ensure_ascii=False))
        return shown if len(shown) <= 200 else f"{shown[:200]}…"

    def _change_words(self, one: CursorSetIntent, file: str) -> str:
        """The change in words: ``imessage: 89632 → 89640 in /opt/memex/cursors.json``."""
        before = self._words(one.source, one.before) if one.had else "nothing"
        return f"{escape(one.source)}: {before} → {self._words(one.source, one.after)} in {escape(file)}"

    def _words_of(self, intent: CursorSetIntent) -> str:
        return self._change_words(intent, intent.file)

    def _change(self, item: Item, intent: CursorSetIntent, stop: Stop) -> None:
        ref = ref_of(item, CursorRef)
        files = _Patient(self._patience, self._wait, stop)
        with self._folders() as folders, folder_of(ref.file, folders) as folder:
            check_folder(folder, ref.folder_id)
            file = CursorFile(ref.file, single=not ref.shared, files=files, clock=self._clock, folder=folder)
            try:
                file.advance(intent.source, intent.after, expect=intent.before, timeout=None)  # ``files`` ends the wait
            except CursorMismatch as error:
                now: Json = error.found  # type: ignore[assignment]  # what the file held, which is JSON
                raise Skipped(self._moved_on(intent.source, now, intent.before)) from None
            except CursorUnreadable as error:
                raise Skipped(escape(error.what)) from None

    def _row(self, intent: CursorSetIntent) -> Row:
        return Row(key=intent.file, box=Box.CUR, id=intent.source, name=intent.file, source=intent.source)

    def _set_back(self, intent: CursorSetIntent, state: CursorState) -> Candidates:
        return self._pin(state.files[intent.file], intent.source, intent.before, state.folders, force=True, highest=None)

    def _standing(self, intent: CursorSetIntent, state: CursorState) -> Standing:
        file = state.files.get(intent.file)
        value = None if file is None else (file.sections or {}).get(intent.source)
        is_after, is_before = (file is not None and same_json(value, one) for one in (intent.after, intent.before))
        return Standing(is_after, is_before, self._too_late(intent, file))

    def _too_late(self, one: CursorSetIntent, file: CursorSource | None) -> str | None:
        """Returns the reason why ``one`` cannot be undone now, None if it can. ``file`` is its cursor file, just read."""
        if file is None:
            return f"{escape(one.file)} is no cursor file of this target now"
        if file.sections is None:
            return f"{escape(one.file)} does not read: {escape(file.error)}"
        if one.source not in file.sections:
            return f"too late: {escape(one.file)} has no {escape(one.source)} now"
        if not same_json(file.sections[one.source], one.after):
            return f"too late: {self._moved_on(one.source, file.sections[one.source], one.after)}"
        return None if one.had else "it had no section before, and no key here removes one"

    @contextmanager
    def _state(self) -> Iterator[CursorState]:
        with self._translate_errors(), self._folders() as folders:
            sources = CursorFiles(self._world, named=self._named, whole=True).look(folders, lambda *_: ())
            yield CursorState(sources, folders, {_real_path(one.path): one for one in sources})

    @contextmanager
    def _folders(self) -> Iterator[list[tuple[str, int]]]:
        """Opens the target and, with ``beside``, its parent directory, as (path as shown, descriptor)."""
        with named_folders(self._named) if self._named else with_above(self._path, self._files, above=self._above) as opened:
            yield opened


class _Patient(LogFiles):
    """File operations that wait for a lock for ``patience`` seconds at most, and no longer once ``stop`` says so."""

    def __init__(self, patience: float, wait: Callable[[float], None], stop: Stop) -> None:
        super().__init__()
        self._patience = patience
        self._wait = wait
        self._stop = stop

    def lock(self, fd: int, *, shared: bool = False, wait: bool = False) -> bool:
        left = self._patience
        while not super().lock(fd, shared=shared):
            if not wait:
                return False
            if left <= 0 or self._stop():
                waited = self._patience - max(0.0, left)
                raise Skipped(f"{LOCK} is held by another for {waited:.0f} s; spooltop locks says by whom")
            self._wait(_TICK)
            left -= _TICK
        return True


def _real_path(path: str) -> str:
    """The path of a file by the real path of its directory. The journal has this path, however the target was named."""
    above, name = os.path.split(path)
    return os.path.join(os.path.realpath(above), name)
