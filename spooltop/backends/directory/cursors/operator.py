"""Sets a cursor: pins the value that stands there now, and writes over that value only."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TypeVar

from spooltop.engine.cursors import LOCK, CursorFile
from spooltop.errors import CursorMismatch, CursorUnreadable, SpooltopError, UsageError
from spooltop.model.capabilities import Can
from spooltop.model.observation import CursorSource
from spooltop.model.plan import Candidates, Item, ItemResult, OperationRecord, Outcome, Plan, Refusal
from spooltop.model.progress import Progress
from spooltop.model.redact import Redactor, unredact
from spooltop.model.row import Row
from spooltop.model.selection import Selection
from spooltop.model.text import escape
from spooltop.model.vocabulary import Action, Box, Json

from ..journal.item_log import BesideBooks
from ..journal.item_operator import BesideOperator, Step
from ..journal.log_files import LogFiles, with_above
from .files import SECTION_AT_MOST, CursorFiles, named_folders
from .permission import cursor_rights, folder_of, why_not
from .records import Set, intent, told
from .wording import (  # fmt: skip
    CursorRef,
    as_json,
    change_words,
    chosen,
    comes_before,
    real_path,
    record,
    same,
    stored_how,
    value_words,
    warnings_of,
)

__all__ = ["CursorOperator"]

_Change = TypeVar("_Change", CursorRef, Set)

PATIENCE = 10.0
"""Seconds that a set waits for the lock: whoever holds it longer is told, and nothing is written."""
_TICK = 0.05
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class CursorOperator(BesideOperator):
    """Implements ``model.kind.Operator`` for the cursor files in ``path``, or where it has none (``beside``), in the directory it
    lies in, or instead for ``cursor_files``: those that the view shows. ``wait`` sleeps some seconds; ``patience`` is for how
    long the lock is waited for. ``redactor`` hides values in words; what is stored, and the journal that an undo needs, has
    them whole."""

    def __init__(
        self,
        path: str,
        books: BesideBooks,
        *,
        beside: bool,
        read_only: str | None = None,
        files: LogFiles | None = None,
        clock: Callable[[], float] = time.time,
        wait: Callable[[float], None] = time.sleep,
        patience: float = PATIENCE,
        user: str | None = None,
        cursor_files: Sequence[str] = (),
        redactor: Redactor | None = None,
    ) -> None:
        super().__init__(path, books, "cursors", read_only=read_only, files=files, clock=clock, user=user)
        self._named = tuple(cursor_files)
        self._beside = beside
        self._wait = wait
        self._patience = patience
        self._redactor = redactor or Redactor()

    def can(self) -> Can:
        if self._read_only is not None:
            return Can.nothing(self._read_only)
        with self._telling(), self._folders() as folders:
            sources = CursorFiles(named=self._named, whole=True).look(folders, lambda _: ())
            why = cursor_rights(sources, folders)
        nothing = dict.fromkeys(Action, "there are no messages here")
        if why is None:
            del nothing[Action.SET_CURSOR], nothing[Action.UNDO]
        else:
            nothing[Action.SET_CURSOR] = nothing[Action.UNDO] = why
        return Can(nothing)

    def candidates(
        self, action: Action, selection: Selection, *, force: bool, options: Mapping[str, Json], now: float, progress: Progress
    ) -> Candidates:
        """Options: ``source``, ``value`` (any JSON), ``file`` (None: the only one that fits), ``highest`` (the highest that was
        seen of it). Raises ``UsageError`` where no source is named, or several files have it."""
        with self._telling(), self._folders() as folders:
            sources = CursorFiles(named=self._named, whole=True).look(folders, lambda _: ())
            if action is Action.UNDO:
                return self._undo(str(options.get("undoes", "")), sources, folders)
            source = options.get("source")
            if not isinstance(source, str) or "value" not in options:
                raise UsageError("set-cursor: which source, to what value?", advice="spooltop cursors PATH --set SOURCE=VALUE")
            one = chosen(source, options.get("file"), sources, self._path)
            return self._pin(one, source, options["value"], folders, force=force, highest=options.get("highest"))

    def _step(self, plan: Plan, place: int, item: Item, stop: Callable[[], bool]) -> Step:
        ref = item.ref
        if not isinstance(ref, CursorRef):
            raise TypeError(f"not a cursor that was pinned: {ref!r}")
        one = Set(
            plan.operation, plan.action, self._clock(), self._user, plan.undoes, real_path(ref.file), ref.source, ref.had,
            ref.before, ref.after,
        )  # fmt: skip

        def change() -> ItemResult:
            outcome, reason = self._store(ref, stop)
            return ItemResult(ref.source, ref.file, outcome, reason, ref.file if outcome is Outcome.DONE else "")

        return Step(intent(one), change)

    def operations(self, progress: Progress) -> list[OperationRecord]:
        known, _ = told(self._books)
        undone = {one.undoes: one.operation for one in known.values() if one.undoes and one.outcome is Outcome.DONE}
        files: dict[str, CursorSource] = {}
        if known:
            with self._telling(), self._folders() as folders:
                sources = CursorFiles(named=self._named, whole=True).look(folders, lambda _: ())
            files = {real_path(one.path): one for one in sources}
        records = []
        for one in known.values():
            file = files.get(one.file)
            stands = file is not None and same((file.sections or {}).get(one.source), one.after)
            records.append(
                record(self._hidden(one), undone.get(one.operation), self._too_late(one, file), stands=stands)
            )
        records.reverse()
        return sorted(records, key=lambda record: -record.at)

    def knows(self, operation: str) -> bool:
        """True where this operation set a cursor here, or put one back."""
        return operation in told(self._books)[0]

    # One set

    def _pin(
        self,
        one: CursorSource,
        source: str,
        value: Json,
        folders: list[tuple[str, int]],
        *,
        force: bool,
        highest: Json,
    ) -> Candidates:
        row = Row(key=one.path, box=Box.CUR, id=source, name=one.path, source=source)
        file = escape(one.path)
        if one.sections is None:
            return Candidates((), [Refusal(row, f"{file} does not read: {escape(one.error)}; mend it by hand first")])
        why = why_not(one, folders)
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
        if had and same(before, value):
            return Candidates((), [Refusal(row, f"it is {self._words(source, before)} already")])
        if isinstance(before, dict) and isinstance(value, dict) and len(json.dumps(before)) > SECTION_AT_MOST and not force:
            missing = len(before.keys() - value.keys())
            if missing:  # it was made of what is shown of a section that is too large to be shown whole
                fields = f"{missing} field{'' if missing == 1 else 's'}"
                why = f"the section of {escape(source)} is too large to be shown whole: this would drop {fields} of it"
                return Candidates((), [Refusal(row, why, forceable=True)])
        with folder_of(one.path, folders) as folder:
            found = os.fstat(folder)
        ref = CursorRef(one.path, source, one.shared, (found.st_dev, found.st_ino), had, before, value)
        words = change_words(self._hidden(ref))
        for write in one.journal:
            if write.source == source and (highest is None or comes_before(highest, write.new)):
                highest = write.new
        warnings = list(warnings_of(ref, highest, partial(self._redactor.section, source)))
        notes = (f"{words}.", *(f"{warning[0].upper()}{warning[1:]}." for warning in warnings), stored_how(one))
        shown = self._redactor.section(source, value, marked=True)
        return Candidates([Item(row, ref, "; ".join(warnings), words, shown)], (), tuple(note for note in notes if note))

    def _store(self, ref: CursorRef, stop: Callable[[], bool]) -> tuple[Outcome, str]:
        try:
            with self._folders() as folders, folder_of(ref.file, folders) as folder:
                found = os.fstat(folder)
                if (found.st_dev, found.st_ino) != ref.folder_id:
                    return Outcome.SKIPPED, "another directory stands there since the list was made"
                files = _Patient(self._patience, self._wait, stop)
                file = CursorFile(ref.file, single=not ref.shared, files=files, clock=self._clock, folder=folder)
                file.advance(ref.source, ref.after, expect=ref.before, timeout=None)  # ``files`` ends the wait
        except CursorMismatch as error:
            return Outcome.SKIPPED, self._moved_on(ref.source, as_json(error.found), ref.before)
        except CursorUnreadable as error:
            return Outcome.SKIPPED, escape(error.what)
        except _Held as error:
            return Outcome.SKIPPED, str(error)
        except SpooltopError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                return Outcome.SKIPPED, "its directory has gone"
            return Outcome.FAILED, escape(str(error))
        except FileNotFoundError:
            return Outcome.SKIPPED, "its directory has gone"
        except OSError as error:
            return Outcome.FAILED, f"{error.strerror or error}"
        return Outcome.DONE, ""

    def _undo(self, undoes: str, sources: tuple[CursorSource, ...], folders: list[tuple[str, int]]) -> Candidates:
        known, troubles = told(self._books)
        one = known.get(undoes)
        if one is None:
            return Candidates((), (), (f"no operation {undoes} in the journal of cursors", *troubles))
        if any(other.undoes == undoes and other.outcome is Outcome.DONE for other in known.values()):
            return Candidates((), (), ("1 of 1 taken back already.", *troubles))
        file = next((source for source in sources if real_path(source.path) == one.file), None)
        row = Row(key=one.file, box=Box.CUR, id=one.source, name=one.file, source=one.source)
        if one.outcome not in (Outcome.DONE, None):
            return Candidates((), (), ("it changed nothing", *troubles))
        why = self._too_late(one, file)
        if file is None or why is not None:
            if one.outcome is None and file is not None and same((file.sections or {}).get(one.source), one.before):
                return Candidates((), (), ("it was cut short and changed nothing", *troubles))
            return Candidates((), [Refusal(row, why or "")], tuple(troubles))
        found = self._pin(file, one.source, one.before, folders, force=True, highest=None)
        return replace(found, notes=(*found.notes, *troubles))

    def _too_late(self, one: Set, file: CursorSource | None) -> str | None:
        """Why ``one`` cannot be undone now, None where it can; ``file`` is its cursor file as it was just read."""
        if file is None:
            return f"{escape(one.file)} is no cursor file of this target now"
        if file.sections is None:
            return f"{escape(one.file)} does not read: {escape(file.error)}"
        if one.source not in file.sections:
            return f"too late: {escape(one.file)} has no {escape(one.source)} now"
        if not same(file.sections[one.source], one.after):
            return f"too late: {self._moved_on(one.source, file.sections[one.source], one.after)}"
        return None if one.had else "it had no section before, and no key here removes one"

    def _moved_on(self, source: str, now: Json, before: Json) -> str:
        return f"it is {self._words(source, now)} now and no longer {self._words(source, before)}"

    def _words(self, source: str, value: Json) -> str:
        return value_words(self._redactor.section(source, value))

    def _hidden(self, one: _Change) -> _Change:
        """``one`` with its values as they may be shown."""
        hide = partial(self._redactor.section, one.source)
        return replace(one, before=hide(one.before), after=hide(one.after))

    # The files

    @contextmanager
    def _folders(self) -> Iterator[list[tuple[str, int]]]:
        """(path as shown, descriptor) of the target and, with ``beside``, of the directory it lies in."""
        with named_folders(self._named) if self._named else with_above(self._path, self._files, above=self._beside) as opened:
            yield opened


class _Held(Exception):
    """The lock was not to be had in time."""


class _Patient(LogFiles):
    """Waits for a lock for so long and no longer, and not once it was asked to stop."""

    def __init__(self, patience: float, wait: Callable[[float], None], stop: Callable[[], bool]) -> None:
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
                raise _Held(f"{LOCK} is held by another for {self._patience - max(0.0, left):.0f} s; spooltop locks says by whom")
            self._wait(_TICK)
            left -= _TICK
        return True
