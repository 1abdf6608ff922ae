"""Sets a cursor: pins the value that it has now, and replaces that value only. Undo sets it back."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from time import sleep
from typing import Any

from spooltop.backends.directory.storage import OpenOptions, System
from spooltop.backends.journal import (
    Intent,
    ItemOutcome,
    PinnedChange,
    RecordType,
    Skipped,
    Standing,
    Told,
    ValueOperator,
    check_folder,
    folder_id,
    ref_of,
)
from spooltop.backends.log_store import LogFiles, LogStore, OpenFolders, with_above
from spooltop.cursors.model import CursorSource, direction, pick, shown, type_change
from spooltop.engine.cursors import LOCK, CursorFile
from spooltop.model import Capabilities, CursorMismatch, CursorUnreadable, Frozen, Refused, UsageError, unredact
from spooltop.model.plan import Candidates, Item, Refusal, Request, RowItem
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
        raise UsageError(f"set-cursor: {escape(str(file))} is no cursor file here", f"there are {names}")
    having = [one for one in sources if source in (one.sections or {}) or (not one.shared and _stem(one) == source)]
    if len(having) > 1:
        names = ", ".join(escape(one.path) for one in having)
        raise UsageError(f"set-cursor: {escape(source)} stands in {names}", "name one with --file")
    if having:
        return having[0]
    shared = [one for one in sources if one.shared]
    if len(shared) == 1:
        return shared[0]
    there = sorted({escape(name) for one in sources for name in one.sections or {}})
    raise UsageError(f"set-cursor: no source {escape(source)} here", f"there are {', '.join(there)}")


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


def _row_of(source: str, file: str) -> Row:
    return Row(key=file, box=Box.CUR, id=source, name=file, source=source)


def _comes_before(one: Json, other: Json) -> bool:
    """True if the cursor in the first value comes before that in the second. Tokens without order never do."""
    return direction(pick(one), pick(other)) == 1


PATIENCE = 10.0
"""Seconds that a set waits for the lock; after that nothing is written."""
_TICK = 0.05


class CursorState(Frozen):
    """The cursor files of a target, in the order of the view; their open ``folders`` as (path, descriptor); and the same files by
    their real paths, as the journal names them."""

    sources: tuple[CursorSource, ...]
    folders: OpenFolders
    files: Mapping[str, CursorSource]


class CursorOperator(ValueOperator[CursorSetIntent, CursorState]):
    """Implements ``model.backend.Operator`` for the cursor files in ``path``, or if it has none, in its parent directory, or
    instead for the ``cursor_files`` of the options: those that the view shows. The redactor hides values in texts; the stored
    value, and the journal that an undo needs, have them in full."""

    cut_short = "the new value is in the file", "the new value is not in the file"

    def __init__(self, path: str, store: LogStore, options: OpenOptions, world: System) -> None:
        super().__init__(os.path.abspath(path), store, CURSORS, clock=world.clock, read_only=options.read_only)
        self._world = world
        self._files = world.files
        self._options = options
        self._redactor = options.redactor

    def capabilities(self) -> Capabilities:
        with self._state() as state:
            why = cursor_rights(state.sources, state.folders)
        return Capabilities.nothing("there are no messages here").replaced(why, Action.SET_CURSOR, Action.UNDO)

    def _choose(self, request: Request, state: CursorState) -> Candidates:
        """Pins one cursor. Options: ``source``, ``value`` (any JSON), ``type`` (if it is named, the value may have another one
        than now), ``file`` (None: the only one that fits), ``highest`` (the highest value seen). Raises ``UsageError`` where no
        source is named, or several files have it."""
        options = request.options
        source = options.get("source")
        if not isinstance(source, str) or "value" not in options:
            raise UsageError("set-cursor: which source, to what value?", "spooltop cursors PATH --set SOURCE=VALUE")
        one = chosen_file(source, options.get("file"), state.sources, self._path)
        typed, highest = bool(options.get("type")), options.get("highest")
        return self._pin(one, source, options["value"], state.folders, force=request.force, typed=typed, highest=highest)

    def _pin(
        self,
        one: CursorSource,
        source: str,
        value: Json,
        folders: OpenFolders,
        *,
        force: bool,
        typed: bool = False,
        highest: Json,
    ) -> Candidates:
        """Pins the cursor of ``source`` in the file ``one`` with the new ``value``. ``typed``: its type was named, so that
        another one than now is no slip. ``highest`` is the highest value seen, None if none was. Raises ``UsageError``."""
        row, file = _row_of(source, one.path), escape(one.path)

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
            raise UsageError(f"set-cursor: {error}", "write the value itself") from None
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
        condition = f"Under {LOCK}, and only while {escape(os.path.basename(one.path))} still has the value shown."
        notes = (
            f"{words}.", *(f"{warning[0].upper()}{warning[1:]}." for warning in warnings),
            f"{condition} A poller that does not lock may write over it.",
        )  # fmt: skip
        item = RowItem(row, ref, "; ".join(warnings), words, self._redactor.section(source, value, marked=True))
        return Candidates([item], notes=notes)

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
        files = _Patient(stop)
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
        return _row_of(intent.source, intent.file)

    def _set_back(self, intent: CursorSetIntent, state: CursorState) -> Candidates:
        return self._pin(state.files[intent.file], intent.source, intent.before, state.folders, force=True, highest=None)

    def _standing(self, intent: CursorSetIntent, state: CursorState) -> Standing:
        file, shown = state.files.get(intent.file), escape(intent.file)
        if file is None:
            return Standing(False, False, f"{shown} is no cursor file of this target now")
        value = (file.sections or {}).get(intent.source)
        is_after, is_before = same_json(value, intent.after), same_json(value, intent.before)
        too_late = None if intent.had else "it had no section before, and no key here removes one"
        if file.sections is None:
            too_late = f"{shown} does not read: {escape(file.error)}"
        elif intent.source not in file.sections:
            too_late = f"too late: {shown} has no {escape(intent.source)} now"
        elif not is_after:
            too_late = f"too late: {self._moved_on(intent.source, value, intent.after)}"
        return Standing(is_after, is_before, too_late)

    @contextmanager
    def _state(self) -> Iterator[CursorState]:
        with self._translate_errors(), self._folders() as folders:
            sources = CursorFiles(self._world, named=self._options.cursor_files, whole=True).look(folders, lambda *_: ())
            yield CursorState(sources, folders, {_real_path(one.path): one for one in sources})

    def _folders(self) -> AbstractContextManager[OpenFolders]:
        """Opens the folders whose cursors are shown, as (path as shown, descriptor)."""
        named = self._options.cursor_files
        return named_folders(named) if named else with_above(self._path, self._files, above=self._options.shows_above)


class _Patient(LogFiles):
    """File operations that wait for a lock for ``PATIENCE`` seconds at most, and no longer once ``stop`` says so."""

    def __init__(self, stop: Stop) -> None:
        super().__init__()
        self._stop = stop

    def lock(self, fd: int, *, shared: bool = False, wait: bool = False) -> bool:
        waited = 0.0
        while not super().lock(fd, shared=shared):
            if waited >= PATIENCE or self._stop():
                raise Skipped(f"{LOCK} is held by another for {waited:.0f} s; spooltop locks says by whom")
            sleep(_TICK)
            waited += _TICK
        return True


def _real_path(path: str) -> str:
    """The path of a file by the real path of its directory. The journal has this path, however the target was named."""
    above, name = os.path.split(path)
    return os.path.join(os.path.realpath(above), name)
