"""Where it is written down that a cursor was set: an intent line before, a result line after. One JSON object a line.

intent  schema line operation action time user undoes file source had before after
result  schema line operation time outcome reason

Of a spool it stands with the spool's own books; of cursor files alone below ``/var/lib/spooltop`` for root, else in the user's
own state. In a spool that somebody else owns it is untrusted input: a line that is not exactly this is left out and counted.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from ...engine.dirs import SpoolDirs
from ...errors import AuditFailed
from ...model.audit import AuditLog
from ...model.plan import Outcome
from ...model.text import escape, unescape
from ...model.words import Action, Json
from .applog import AppendLog
from .books import Books, state_of
from .logfiles import LogFiles, open_path
from .places import OPERATION

__all__ = ["CursorBooks", "Set", "SpoolBooks", "StateBooks", "decode", "gather", "intent", "result"]

_FIELDS = ("file", "source", "user")
_MOST = 1e15


@dataclass(frozen=True, slots=True)
class Set:
    """One cursor that was set or put back. ``had`` is False where the source had no section. ``outcome`` None: no result was
    written (a crash in between)."""

    operation: str
    action: Action
    at: float
    user: str
    undoes: str | None
    file: str
    source: str
    had: bool
    before: Json
    after: Json
    outcome: Outcome | None = None
    reason: str = ""


def intent(one: Set) -> bytes:
    told = {
        "schema": 1, "line": "intent", "operation": one.operation, "action": str(one.action), "time": one.at,
        "user": escape(one.user), "undoes": one.undoes, "file": escape(one.file), "source": escape(one.source), "had": one.had,
        "before": one.before, "after": one.after,
    }  # fmt: skip
    return json.dumps(told, separators=(",", ":")).encode() + b"\n"


def result(operation: str, at: float, outcome: Outcome, reason: str) -> bytes:
    told = {
        "schema": 1, "line": "result", "operation": operation, "time": at, "outcome": str(outcome), "reason": reason,
    }  # fmt: skip
    return json.dumps(told, separators=(",", ":")).encode() + b"\n"


def decode(line: bytes) -> Set | tuple[str, Outcome, str]:
    """One line: an intent, or (operation, outcome, reason). Raises ``ValueError`` for anything else."""
    value = json.loads(line)
    if not isinstance(value, dict) or value.get("schema") != 1:
        raise ValueError("no journal line")
    operation, at = value.get("operation"), value.get("time")
    if not isinstance(operation, str) or not OPERATION.match(operation):
        raise ValueError("no operation id")
    if isinstance(at, bool) or not isinstance(at, (int, float)) or not 0 <= at < _MOST:
        raise ValueError("no time")
    if value.get("line") == "result":
        reason = value.get("reason")
        if not isinstance(reason, str):
            raise ValueError("no reason")
        return operation, Outcome(str(value.get("outcome"))), reason
    action, undoes = Action(str(value.get("action"))), value.get("undoes")
    if value.get("line") != "intent" or action not in (Action.SET_CURSOR, Action.UNDO):
        raise ValueError("neither intent nor result")
    if undoes is not None and not (isinstance(undoes, str) and OPERATION.match(undoes)):
        raise ValueError("undoes no operation")
    if not all(isinstance(value.get(name), str) for name in _FIELDS) or not isinstance(value.get("had"), bool):
        raise ValueError("a field is missing")
    file, source, user = (unescape(value[name]) for name in _FIELDS)
    return Set(
        operation, action, float(at), user, undoes, file, source, value["had"], value.get("before"), value.get("after")
    )


def gather(lines: Iterable[bytes]) -> tuple[dict[str, Set], int]:
    """Operations by id in the order of their begin, and how many lines are none."""
    found: dict[str, Set] = {}
    bad = 0
    for line in lines:
        try:
            told = decode(line)
        except (ValueError, RecursionError):
            bad += 1
            continue
        if isinstance(told, Set):
            found.setdefault(told.operation, told)
        elif (known := found.get(told[0])) is not None and known.outcome is None:
            found[told[0]] = Set(
                known.operation, known.action, known.at, known.user, known.undoes, known.file, known.source, known.had,
                known.before, known.after, told[1], told[2],
            )  # fmt: skip
    return found, bad


class CursorBooks(Protocol):
    """``journal`` and ``audit`` raise ``AuditFailed``."""

    def journal(self, line: bytes) -> None: ...

    def audit(self, entry: Mapping[str, Json]) -> None: ...

    def audited(self) -> list[AuditLog]:
        """The audit logs, the own one first. Raises ``OSError``."""
        ...

    def read(self) -> tuple[dict[str, Set], list[str]]:
        """All operations by id, and what is wrong with the journal, in words."""
        ...


def _told(logs: Iterable[tuple[list[bytes], bool, int]]) -> tuple[dict[str, Set], list[str]]:
    found: dict[str, Set] = {}
    troubles: list[str] = []
    for lines, torn, unread in logs:
        sets, bad = gather(lines)
        for operation, one in sets.items():
            found.setdefault(operation, one)
        if unread:
            troubles.append(f"the first {unread / 1e6:.0f} MB of the journal of cursors were not read")
        if torn:
            troubles.append("the last line of the journal of cursors is cut off: a crash or a full disk")
        if bad:
            troubles.append(f"{bad} lines of the journal of cursors are no journal lines and were left out")
    return found, troubles


class SpoolBooks:
    """With the books of the spool at ``path``."""

    def __init__(self, path: str, files: LogFiles, *, state_dir: str) -> None:
        self._path = path
        self._files = files
        self._state_dir = state_dir

    def journal(self, line: bytes) -> None:
        try:
            with SpoolDirs(self._path, self._files) as dirs:
                books = Books(dirs, self._files, state_dir=self._state_dir)
                try:
                    books.write_cursors(line)
                finally:
                    books.close()
        except OSError as error:
            raise _failed(self._path, error) from error

    def audit(self, entry: Mapping[str, Json]) -> None:
        try:
            with SpoolDirs(self._path, self._files) as dirs:
                books = Books(dirs, self._files, state_dir=self._state_dir)
                try:
                    books.write_audit(entry)
                finally:
                    books.close()
        except OSError as error:
            raise _failed(self._path, error) from error

    def audited(self) -> list[AuditLog]:
        with SpoolDirs(self._path, self._files) as dirs:
            books = Books(dirs, self._files, state_dir=self._state_dir)
            try:
                return books.audited()
            finally:
                books.close()

    def read(self) -> tuple[dict[str, Set], list[str]]:
        try:
            with SpoolDirs(self._path, self._files) as dirs:
                books = Books(dirs, self._files, state_dir=self._state_dir)
                try:
                    return _told(books.cursors())
                finally:
                    books.close()
        except OSError as error:
            return {}, [f"the journal of cursors cannot be read: {error.strerror}"]


class StateBooks:
    """Of cursor files alone, which lie in ``target``: in a directory of this user's own below ``state_dir``."""

    def __init__(self, target: str, files: LogFiles, *, state_dir: str | None) -> None:
        self._folder = None if state_dir is None else state_of(state_dir, target)
        self._files = files

    def journal(self, line: bytes) -> None:
        self._append("cursors.jsonl", line)

    def audit(self, entry: Mapping[str, Json]) -> None:
        self._append("audit.jsonl", json.dumps(entry, separators=(",", ":")).encode() + b"\n")

    def audited(self) -> list[AuditLog]:
        if self._folder is None:
            return []
        try:
            fd = self._files.open_dir(self._folder, follow=True)
        except FileNotFoundError:
            return []
        try:
            return [AuditLog(*AppendLog(self._files, fd, "audit.jsonl", self._files.fstat(fd)).lines(), True)]
        finally:
            self._files.close(fd)

    def read(self) -> tuple[dict[str, Set], list[str]]:
        if self._folder is None:
            return {}, []
        try:
            fd = self._files.open_dir(self._folder, follow=True)
        except FileNotFoundError:
            return {}, []
        except OSError as error:
            return {}, [f"the journal of cursors cannot be read: {error.strerror}"]
        try:
            return _told([AppendLog(self._files, fd, "cursors.jsonl", self._files.fstat(fd)).lines()])
        except OSError as error:
            return {}, [f"the journal of cursors cannot be read: {error.strerror}"]
        finally:
            self._files.close(fd)

    def _append(self, name: str, line: bytes) -> None:
        if self._folder is None:
            raise AuditFailed("there is no place for the audit log", advice="set XDG_STATE_HOME or HOME")
        try:
            fd = open_path(self._files, self._folder)
            try:
                found = self._files.fstat(fd)
                if found.st_uid != os.geteuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                    raise PermissionError(1, "others may write its directory")
                AppendLog(self._files, fd, name, found).append(line)
            finally:
                self._files.close(fd)
        except OSError as error:
            raise _failed(self._folder, error) from error


def _failed(path: str, error: OSError) -> AuditFailed:
    return AuditFailed(
        f"what happens to cursors cannot be written down: {error.strerror or error}",
        path=path,
        advice="nothing is changed without it; free space or mend its rights",
    )
