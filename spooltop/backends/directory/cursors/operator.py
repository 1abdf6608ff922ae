"""Sets a cursor: pins the value that it has now, and replaces that value only. Undo sets it back.

The log of cursors, one JSON object a line; an operation sets one cursor, so its lines have no step number:

intent  schema line operation action time user undoes file source had before after
result  schema line operation time outcome reason
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from spooltop.engine.cursors.cursor_file import LOCK, CursorFile
from spooltop.errors import CursorMismatch, CursorUnreadable, Refused, SpooltopError, UsageError
from spooltop.model.capabilities import Capabilities
from spooltop.model.cursor_values import direction, kind_of, pick, same_json, shown
from spooltop.model.cursors import CursorSource
from spooltop.model.plan import Candidates, Item, ItemResult, OperationRecord, Outcome, Plan, Refusal
from spooltop.model.progress import Progress
from spooltop.model.redact import unredact
from spooltop.model.row import Row
from spooltop.model.selection import Selection
from spooltop.model.text import escape, unescape
from spooltop.model.vocabulary import Action, Box, Json

from ..journal.item_operator import ItemIntent, ItemOperator
from ..journal.log_files import LogFiles, with_above
from ..journal.log_store import LogStore
from ..journal.record_log import (  # fmt: skip
    Head,
    ItemOutcome,
    LoggedOperation,
    RecordType,
    encode,
    intent_head,
    operation_record,
    undone_by,
    undos_of,
    why_not_undo,
)
from ..options import OpenOptions
from ..world import World
from .files import CursorFiles
from .folders import blocked_by, cursor_rights, folder_of, named_folders
from .parsing import SECTION_AT_MOST

__all__ = ["CURSORS", "CursorOperator", "CursorRef"]

PATIENCE = 10.0
"""Seconds that a set waits for the lock; after that nothing is written."""
_TICK = 0.05
_TEXTS = ("file", "source", "user")


@dataclass(frozen=True, slots=True)
class CursorSetIntent(ItemIntent):
    """The intent to set one cursor. ``had`` is False where the source had no section."""

    file: str
    source: str
    had: bool
    before: Json
    after: Json

    def encode(self) -> bytes:
        members: dict[str, Json] = {
            "action": str(self.action), "time": self.at, "user": escape(self.user), "undoes": self.undoes,
            "file": escape(self.file), "source": escape(self.source), "had": self.had, "before": self.before, "after": self.after,
        }  # fmt: skip
        return encode("intent", self.operation, members)

    @classmethod
    def decode(cls, head: Head) -> CursorSetIntent:
        action, undoes = intent_head(head, Action.SET_CURSOR, Action.UNDO)
        value = head.value
        if not all(isinstance(value.get(name), str) for name in _TEXTS) or not isinstance(value.get("had"), bool):
            raise ValueError("a field is missing")
        file, source, user = (unescape(value[name]) for name in _TEXTS)
        return cls(
            head.operation, head.step, action, head.at, user, undoes, file, source, value["had"], value.get("before"),
            value.get("after"),
        )  # fmt: skip


CURSORS = RecordType("cursors", "the journal of cursors", "", CursorSetIntent.decode, ItemOutcome.decode)
"""The record type of the log of cursors."""


@dataclass(frozen=True, slots=True)
class CursorRef:
    """The pin of a cursor in a plan: the value ``before`` of ``source`` (``had``: there was one) in ``file``, which lies in the
    directory ``folder_id`` (device, inode), and the value ``after`` that it gets."""

    file: str
    source: str
    shared: bool
    folder_id: tuple[int, int]
    had: bool
    before: Json
    after: Json


_Change = TypeVar("_Change", CursorRef, CursorSetIntent)


class CursorOperator(ItemOperator[CursorSetIntent]):
    """Implements ``model.protocols.Operator`` for the cursor files in ``path``, or where it has none (``beside``), in its
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
        beside: bool,
        wait: Callable[[float], None] = time.sleep,
        patience: float = PATIENCE,
        user: str | None = None,
    ) -> None:
        super().__init__(path, store, CURSORS, options=options, world=world, user=user)
        self._named = self._options.cursor_files
        self._beside = beside
        self._wait = wait
        self._patience = patience
        self._redactor = self._options.redactor

    def capabilities(self) -> Capabilities:
        if self._read_only is not None:
            return Capabilities.nothing(self._read_only)
        with self._translate_errors(), self._folders() as folders:
            sources = CursorFiles(self._world, named=self._named, whole=True).look(folders, lambda _: ())
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
        """Pins one cursor. Options: ``source``, ``value`` (any JSON), ``file`` (None: the only one that fits), ``highest`` (the
        highest value seen). Raises ``UsageError`` where no source is named, or several files have it."""
        with self._translate_errors(), self._folders() as folders:
            sources = CursorFiles(self._world, named=self._named, whole=True).look(folders, lambda _: ())
            if action is Action.UNDO:
                return self._undo(str(options.get("undoes", "")), sources, folders)
            source = options.get("source")
            if not isinstance(source, str) or "value" not in options:
                raise UsageError("set-cursor: which source, to what value?", advice="spooltop cursors PATH --set SOURCE=VALUE")
            one = _chosen(source, options.get("file"), sources, self._path)
            return self._pin(one, source, options["value"], folders, force=force, highest=options.get("highest"))

    def _intent(self, plan: Plan, place: int, item: Item) -> CursorSetIntent:
        ref = _ref_of(item)
        return CursorSetIntent(
            plan.operation, 0, plan.action, self._clock(), self._user, plan.undoes, _real_path(ref.file), ref.source, ref.had,
            ref.before, ref.after,
        )  # fmt: skip

    def _apply(self, item: Item, intent: CursorSetIntent, stop: Callable[[], bool]) -> ItemResult:
        ref = _ref_of(item)
        outcome, reason = self._store_value(ref, stop)
        return ItemResult(ref.source, ref.file, outcome, reason, ref.file if outcome is Outcome.DONE else "")

    def _records(self, operations: Mapping[str, LoggedOperation[CursorSetIntent, ItemOutcome]]) -> list[OperationRecord]:
        files: dict[str, CursorSource] = {}
        if operations:
            with self._translate_errors(), self._folders() as folders:
                sources = CursorFiles(self._world, named=self._named, whole=True).look(folders, lambda _: ())
            files = {_real_path(one.path): one for one in sources}
        undos = undos_of(operations)
        records = []
        for logged in operations.values():
            one, outcome = logged.steps[0]
            file = files.get(one.file)
            found = outcome is None and file is not None and same_json((file.sections or {}).get(one.source), one.after)
            undone = undone_by(undos.get(logged.operation, ()), _changed)
            why_not = why_not_undo(changed=found or _changed(logged), undone=undone, other=self._too_late(one, file))
            words = _change_words(self._hidden(one))
            if outcome is None:
                words += f"; cut short: {'it stands there' if found else 'it does not stand there'}, as found by looking"
            outcomes = () if outcome is None else (outcome.outcome,)
            records.append(
                operation_record(
                    logged, outcomes, count=1, found=found, unfinished=logged.open, undone=undone, why_not=why_not, words=words
                )
            )
        return records

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
        if isinstance(before, dict) and isinstance(value, dict) and len(json.dumps(before)) > SECTION_AT_MOST and not force:
            missing = len(before.keys() - value.keys())
            if missing:  # it was made of what is shown of a section that is too large to be shown whole
                fields = f"{missing} field{'' if missing == 1 else 's'}"
                why = f"the section of {escape(source)} is too large to be shown whole: this would drop {fields} of it"
                return Candidates((), [Refusal(row, why, forceable=True)])
        with folder_of(one.path, folders) as folder:
            found = os.fstat(folder)
        ref = CursorRef(one.path, source, one.shared, (found.st_dev, found.st_ino), had, before, value)
        words = _change_words(self._hidden(ref))
        for write in one.journal:
            if write.source == source and (highest is None or _comes_before(highest, write.new)):
                highest = write.new
        warnings = list(_warnings_of(ref, highest, partial(self._redactor.section, source)))
        notes = (f"{words}.", *(f"{warning[0].upper()}{warning[1:]}." for warning in warnings), _stored_how(one))
        shown = self._redactor.section(source, value, marked=True)
        return Candidates([Item(row, ref, "; ".join(warnings), words, shown)], (), tuple(note for note in notes if note))

    def _store_value(self, ref: CursorRef, stop: Callable[[], bool]) -> tuple[Outcome, str]:
        try:
            with self._folders() as folders, folder_of(ref.file, folders) as folder:
                found = os.fstat(folder)
                if (found.st_dev, found.st_ino) != ref.folder_id:
                    return Outcome.SKIPPED, "another directory stands there since the list was made"
                files = _Patient(self._patience, self._wait, stop)
                file = CursorFile(ref.file, single=not ref.shared, files=files, clock=self._clock, folder=folder)
                file.advance(ref.source, ref.after, expect=ref.before, timeout=None)  # ``files`` ends the wait
        except CursorMismatch as error:
            return Outcome.SKIPPED, self._moved_on(ref.source, _as_json(error.found), ref.before)
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
        operations, troubles = self._log.read()
        logged = operations.get(undoes)
        if logged is None:
            return Candidates((), (), (f"no operation {undoes} in {CURSORS.what}", *troubles))
        if undone_by(undos_of(operations).get(undoes, ()), _changed) is not None:
            return Candidates((), (), ("1 of 1 taken back already.", *troubles))
        one, outcome = logged.steps[0]
        file = next((source for source in sources if _real_path(source.path) == one.file), None)
        row = Row(key=one.file, box=Box.CUR, id=one.source, name=one.file, source=one.source)
        if outcome is not None and outcome.outcome is not Outcome.DONE:
            return Candidates((), (), ("it changed nothing", *troubles))
        why = self._too_late(one, file)
        if file is None or why is not None:
            if outcome is None and file is not None and same_json((file.sections or {}).get(one.source), one.before):
                return Candidates((), (), ("it was cut short and changed nothing", *troubles))
            return Candidates((), [Refusal(row, why or "")], tuple(troubles))
        found = self._pin(file, one.source, one.before, folders, force=True, highest=None)
        return replace(found, notes=(*found.notes, *troubles))

    def _too_late(self, one: CursorSetIntent, file: CursorSource | None) -> str | None:
        """Why ``one`` cannot be undone now, None where it can; ``file`` is its cursor file as it was just read."""
        if file is None:
            return f"{escape(one.file)} is no cursor file of this target now"
        if file.sections is None:
            return f"{escape(one.file)} does not read: {escape(file.error)}"
        if one.source not in file.sections:
            return f"too late: {escape(one.file)} has no {escape(one.source)} now"
        if not same_json(file.sections[one.source], one.after):
            return f"too late: {self._moved_on(one.source, file.sections[one.source], one.after)}"
        return None if one.had else "it had no section before, and no key here removes one"

    def _moved_on(self, source: str, now: Json, before: Json) -> str:
        return f"it is {self._words(source, now)} now and no longer {self._words(source, before)}"

    def _words(self, source: str, value: Json) -> str:
        return _value_words(self._redactor.section(source, value))

    def _hidden(self, one: _Change) -> _Change:
        """Redacts the values of ``one``."""
        hide = partial(self._redactor.section, one.source)
        return replace(one, before=hide(one.before), after=hide(one.after))

    # The files

    @contextmanager
    def _folders(self) -> Iterator[list[tuple[str, int]]]:
        """Opens the target and, with ``beside``, its parent directory, as (path as shown, descriptor)."""
        with named_folders(self._named) if self._named else with_above(self._path, self._files, above=self._beside) as opened:
            yield opened


class _Held(Exception):
    """Somebody else held the lock for too long."""


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
                raise _Held(f"{LOCK} is held by another for {self._patience - max(0.0, left):.0f} s; spooltop locks says by whom")
            self._wait(_TICK)
            left -= _TICK
        return True


def _ref_of(item: Item) -> CursorRef:
    if not isinstance(item.ref, CursorRef):
        raise TypeError(f"not a cursor that was pinned: {item.ref!r}")
    return item.ref


def _changed(logged: LoggedOperation[CursorSetIntent, ItemOutcome]) -> bool:
    _, outcome = logged.steps[0]
    return outcome is not None and outcome.outcome is Outcome.DONE


def _chosen(source: str, file: Json, sources: tuple[CursorSource, ...], path: str) -> CursorSource:
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


def _real_path(path: str) -> str:
    """The path of a file by the real path of its directory. The journal has this path, however the target was named."""
    above, name = os.path.split(path)
    return os.path.join(os.path.realpath(above), name)


def _stem(one: CursorSource) -> str:
    return os.path.basename(one.path).removesuffix(".json")


def _change_words(one: CursorRef | CursorSetIntent) -> str:
    """The change in words: ``imessage: 89632 → 89640 in /opt/memex/cursors.json``."""
    before = _value_words(one.before) if one.had else "nothing"
    return f"{escape(one.source)}: {before} → {_value_words(one.after)} in {escape(one.file)}"


def _warnings_of(ref: CursorRef, highest: Json, hide: Callable[[Json], Json]) -> Iterator[str]:
    """The warnings about a change: another type, or a step back below the ``highest`` value seen (None: none was). ``hide``
    redacts a value."""
    for before, after in ((ref.before, ref.after), (pick(ref.before), pick(ref.after))):
        if ref.had and kind_of(before) != kind_of(after):
            yield f"its type changes: it is {kind_of(before)} and becomes {kind_of(after)}; does its poller read that?"
            break
    back = _comes_before(ref.after, ref.before)
    below = _comes_before(ref.after, highest)
    if back or below:
        than = ref.before if back and not _comes_before(ref.before, highest) else highest
        yield f"it goes back below {shown(hide(than))}, the highest seen: what lies between may come once more"


def _stored_how(one: CursorSource) -> str:
    """The lock and the condition under which the value is stored, for the plan."""
    name = escape(os.path.basename(one.path))
    return f"Under {LOCK}, and only while {name} still has the value shown. A poller that does not lock may write over it."


def _comes_before(one: Json, other: Json) -> bool:
    """True where the cursor in the first value comes before that in the second. Tokens without order never do."""
    return direction(pick(one), pick(other)) == 1


def _value_words(value: Json) -> str:
    """The value as it is in the file, never grouped, never rounded; long values are cut."""
    shown = escape(json.dumps(value, ensure_ascii=False))
    return shown if len(shown) <= 200 else f"{shown[:200]}…"


def _as_json(found: object) -> Json:
    """Types the value that a ``CursorMismatch`` found."""
    return found  # type: ignore[return-value]  # CursorMismatch.found is what the file held, which is JSON
