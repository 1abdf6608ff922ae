"""Sets a cursor: pins the value that it has now, and replaces that value only. Undo sets it back."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from spooltop.engine.cursors import LOCK, CursorFile
from spooltop.errors import CursorMismatch, CursorUnreadable, UsageError
from spooltop.model.capabilities import Capabilities
from spooltop.model.cursors import CursorSource, same_json
from spooltop.model.filters.selection import Selection
from spooltop.model.operations.plan import Candidates, Item, ItemResult, OperationRecord, Outcome, Plan, Progress, Refusal
from spooltop.model.row import Row
from spooltop.model.text import escape
from spooltop.model.vocabulary import Action, Box, Json
from spooltop.records import replace

from ...journal.item_operator import ItemOperator, Skipped, changed, check_folder, one_step_record, outcome_of
from ...journal.log_files import LogFiles, with_above
from ...journal.log_store import LogStore
from ...journal.record_log import ItemOutcome, LoggedOperation
from ..options import OpenOptions
from ..world import World
from .files import CursorFiles
from .folders import cursor_rights, folder_of, named_folders
from .pinning import CursorPinner, CursorRef, chosen_file
from .set_record import CURSORS, CursorSetIntent

__all__ = ["CursorOperator"]

PATIENCE = 10.0
"""Seconds that a set waits for the lock; after that nothing is written."""
_TICK = 0.05


class CursorOperator(ItemOperator[CursorSetIntent]):
    """Implements ``model.protocols.Operator`` for the cursor files in ``path``, or if it has none (``above``), in its
    parent directory, or instead for the ``cursor_files`` of the options: those that the view shows. ``wait`` sleeps some
    seconds; ``patience`` is how many seconds a set waits for the lock. The redactor hides values in texts; the stored value,
    and the journal that an undo needs, have them in full."""

    def __init__(
        self,
        path: str,
        store: LogStore,
        options: OpenOptions | None = None,
        world: World | None = None,
        *,
        above: bool,
        wait: Callable[[float], None] = time.sleep,
        patience: float = PATIENCE,
        user: str | None = None,
    ) -> None:
        options, world = options or OpenOptions(), world or World()
        super().__init__(os.path.abspath(path), store, CURSORS, clock=world.clock, read_only=options.read_only, user=user)
        self._world = world
        self._files = world.files
        self._named = options.cursor_files
        self._above = above
        self._wait = wait
        self._patience = patience
        self._pinner = CursorPinner(options.redactor)

    def capabilities(self) -> Capabilities:
        if self._read_only is not None:
            return Capabilities.nothing(self._read_only)
        with self._translate_errors(), self._folders() as folders:
            sources = self._look(folders)
            why = cursor_rights(sources, folders)
        nothing = dict.fromkeys(Action, "there are no messages here")
        if why is None:
            del nothing[Action.SET_CURSOR], nothing[Action.UNDO]
        else:
            nothing[Action.SET_CURSOR] = nothing[Action.UNDO] = why
        return Capabilities(nothing)

    def candidates(
        self, action: Action, selection: Selection, *, force: bool, options: Mapping[str, Json], now: float, progress: Progress
    ) -> Candidates:
        """Pins one cursor. Options: ``source``, ``value`` (any JSON), ``type`` (if it is named, the value may have another one
        than now), ``file`` (None: the only one that fits), ``highest`` (the highest value seen). Raises ``UsageError`` where no
        source is named, or several files have it."""
        with self._translate_errors(), self._folders() as folders:
            sources = self._look(folders)
            if action is Action.UNDO:
                return self._undo(str(options.get("undoes", "")), sources, folders)
            source = options.get("source")
            if not isinstance(source, str) or "value" not in options:
                raise UsageError("set-cursor: which source, to what value?", advice="spooltop cursors PATH --set SOURCE=VALUE")
            one = chosen_file(source, options.get("file"), sources, self._path)
            typed, highest = bool(options.get("type")), options.get("highest")
            return self._pinner.pin(one, source, options["value"], folders, force=force, typed=typed, highest=highest)

    def _intent(self, plan: Plan, place: int, item: Item) -> CursorSetIntent:
        ref = _ref_of(item)
        return CursorSetIntent(
            plan.operation, 0, plan.action, self._clock(), self._user, plan.undoes, _real_path(ref.file), ref.source, ref.had,
            ref.before, ref.after,
        )  # fmt: skip

    def _apply(self, item: Item, intent: CursorSetIntent, stop: Callable[[], bool]) -> ItemResult:
        ref = _ref_of(item)
        outcome, reason = outcome_of(lambda: self._store_value(ref, stop))
        return ItemResult(ref.source, ref.file, outcome, reason, ref.file if outcome is Outcome.DONE else "")

    def _records(
        self, operations: Mapping[str, LoggedOperation[CursorSetIntent, ItemOutcome]], undone_by: Mapping[str, str]
    ) -> list[OperationRecord]:
        files: dict[str, CursorSource] = {}
        if operations:
            with self._translate_errors(), self._folders() as folders:
                sources = self._look(folders)
            files = {_real_path(one.path): one for one in sources}
        records = []
        for logged in operations.values():
            one, outcome = logged.steps[0]
            file = files.get(one.file)
            found = outcome is None and file is not None and same_json((file.sections or {}).get(one.source), one.after)
            words = self._pinner.change_words(one)
            cut_short = f"the new value {'is' if found else 'is not'} in the file"
            undone, too_late = undone_by.get(logged.operation), self._too_late(one, file)
            records.append(one_step_record(logged, words, found=found, cut_short=cut_short, undone=undone, too_late=too_late))
        return records

    def _store_value(self, ref: CursorRef, stop: Callable[[], bool]) -> None:
        """Raises ``Skipped``, ``OSError``, and ``SpooltopError`` for what failed."""
        files = _Patient(self._patience, self._wait, stop)
        with self._folders() as folders, folder_of(ref.file, folders) as folder:
            check_folder(folder, ref.folder_id)
            file = CursorFile(ref.file, single=not ref.shared, files=files, clock=self._clock, folder=folder)
            try:
                file.advance(ref.source, ref.after, expect=ref.before, timeout=None)  # ``files`` ends the wait
            except CursorMismatch as error:
                now: Json = error.found  # type: ignore[assignment]  # what the file held, which is JSON
                raise Skipped(self._pinner.moved_on(ref.source, now, ref.before)) from None
            except CursorUnreadable as error:
                raise Skipped(escape(error.what)) from None

    def _undo(self, undoes: str, sources: tuple[CursorSource, ...], folders: list[tuple[str, int]]) -> Candidates:
        logged, undos, problems = self._logged(undoes)
        if logged is None:
            return Candidates((), (), problems)
        if any(changed(undo) for undo in undos):
            return Candidates((), (), ("1 of 1 undone already.", *problems))
        one, outcome = logged.steps[0]
        file = next((source for source in sources if _real_path(source.path) == one.file), None)
        row = Row(key=one.file, box=Box.CUR, id=one.source, name=one.file, source=one.source)
        if outcome is not None and outcome.outcome is not Outcome.DONE:
            return Candidates((), (), ("it changed nothing", *problems))
        why = self._too_late(one, file)
        if file is None or why is not None:
            if outcome is None and file is not None and same_json((file.sections or {}).get(one.source), one.before):
                return Candidates((), (), ("it was cut short and changed nothing", *problems))
            return Candidates((), [Refusal(row, why or "")], problems)
        found = self._pinner.pin(file, one.source, one.before, folders, force=True, highest=None)
        return replace(found, notes=(*found.notes, *problems))

    def _too_late(self, one: CursorSetIntent, file: CursorSource | None) -> str | None:
        """Returns the reason why ``one`` cannot be undone now, None if it can. ``file`` is its cursor file, just read."""
        if file is None:
            return f"{escape(one.file)} is no cursor file of this target now"
        if file.sections is None:
            return f"{escape(one.file)} does not read: {escape(file.error)}"
        if one.source not in file.sections:
            return f"too late: {escape(one.file)} has no {escape(one.source)} now"
        if not same_json(file.sections[one.source], one.after):
            return f"too late: {self._pinner.moved_on(one.source, file.sections[one.source], one.after)}"
        return None if one.had else "it had no section before, and no key here removes one"

    def _look(self, folders: list[tuple[str, int]]) -> tuple[CursorSource, ...]:
        return CursorFiles(self._world, named=self._named, whole=True).look(folders, lambda _: ())

    @contextmanager
    def _folders(self) -> Iterator[list[tuple[str, int]]]:
        """Opens the target and, with ``beside``, its parent directory, as (path as shown, descriptor)."""
        with named_folders(self._named) if self._named else with_above(self._path, self._files, above=self._above) as opened:
            yield opened


class _Patient(LogFiles):
    """File operations that wait for a lock for ``patience`` seconds at most, and no longer once ``stop`` says so."""

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
                waited = self._patience - max(0.0, left)
                raise Skipped(f"{LOCK} is held by another for {waited:.0f} s; spooltop locks says by whom")
            self._wait(_TICK)
            left -= _TICK
        return True


def _ref_of(item: Item) -> CursorRef:
    if not isinstance(item.ref, CursorRef):
        raise TypeError(f"not a cursor that was pinned: {item.ref!r}")
    return item.ref


def _real_path(path: str) -> str:
    """The path of a file by the real path of its directory. The journal has this path, however the target was named."""
    above, name = os.path.split(path)
    return os.path.join(os.path.realpath(above), name)
