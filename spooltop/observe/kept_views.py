"""Keeps the view and the orders in which a user left each target, in the user's own state.

The file holds one object, ``{"schema": 1, "targets": {real path of a target: {"view", "sorts": {list: column, or -column where it
descends}, "last_filter"}}}``, names escaped, the one that changed last at the end. Losing it costs nothing but a key or two: what
cannot be read is ignored and replaced at the next chance.
"""

from __future__ import annotations

import json
import os

from spooltop.engine.atomic import publish
from spooltop.engine.system.files import REAL_FILES, Files, close_all, read_small
from spooltop.model.kept_view import KeptView
from spooltop.model.protocols import Sort
from spooltop.model.text import escape, unescape

MOST = 200
"""Targets that are kept; the one that changed longest ago is dropped first."""
NAME = "views.json"
_LOCK = ".views.lock"
_CAP = 1 << 20
_LONGEST = 1000
"""Characters of a filter that is kept."""


def decode_views(data: bytes) -> dict[str, KeptView]:
    """Parses the file; what is not understood is left out."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    targets = value.get("targets") if isinstance(value, dict) and value.get("schema") == 1 else None
    if not isinstance(targets, dict):
        return {}
    return {unescape(path): _one(found) for path, found in targets.items() if isinstance(found, dict)}


def _one(found: dict[str, object]) -> KeptView:
    view, sorts, last = found.get("view"), found.get("sorts"), found.get("last_filter")
    return KeptView(
        view if isinstance(view, str) else "",
        {box: Sort(word.removeprefix("-"), word.startswith("-")) for box, word in sorts.items() if isinstance(word, str)}
        if isinstance(sorts, dict) else {},
        unescape(last) if isinstance(last, str) and len(last) <= _LONGEST else "",
    )  # fmt: skip


def encode_views(targets: dict[str, KeptView]) -> bytes:
    """Writes the file's content: the last ``MOST`` targets."""
    kept = {
        escape(path): {
            "view": one.view,
            "sorts": {box: f"{'-' * sort.descending}{sort.column}" for box, sort in one.sorts.items()},
            "last_filter": escape(one.last_filter)[:_LONGEST],
        }
        for path, one in list(targets.items())[-MOST:]
    }
    return json.dumps({"schema": 1, "targets": kept}, indent=1).encode() + b"\n"


class ViewFile:
    """Reads and writes what is kept for one target, in ``folder`` (None: nothing) under ``target``, its real path. ``user`` is
    the one that this process runs as: root leaves the folders of other users alone, and nobody trusts a folder that is another
    user's."""

    def __init__(self, folder: str | None, target: str, *, files: Files = REAL_FILES, user: int | None = None) -> None:
        self._folder = folder
        self._target = target
        self._files = files
        self._user = os.geteuid() if user is None else user

    def read(self) -> KeptView:
        """Returns what is kept; the default where nothing is, or it cannot be read."""
        if self._folder is None:
            return KeptView()
        try:
            folder = self._open()
            try:
                return self._all(folder).get(self._target, KeptView())
            finally:
                self._files.close(folder)
        except OSError:
            return KeptView()

    def write(self, kept: KeptView) -> bool:
        """Keeps it; False where that is not possible, which hinders nobody."""
        if self._folder is None:
            return False
        files = self._files
        try:
            self._make()
            opened = [folder := self._open()]
            try:
                lock = files.open_lasting(_LOCK, folder, mode=0o600)
                opened.insert(0, lock)
                files.lock_coarse(lock, wait=True)
                targets = self._all(folder)
                targets.pop(self._target, None)
                targets[self._target] = kept
                publish(files, folder, NAME, encode_views(targets), files.fstat(folder), mode=0o600)
            finally:
                close_all(files, opened)
        except OSError:
            return False
        return True

    def _all(self, folder: int) -> dict[str, KeptView]:
        try:
            return decode_views(read_small(NAME, folder, files=self._files, limit=_CAP).data)
        except OSError:
            return {}

    def _open(self) -> int:
        """Opens the folder. Raises ``OSError``, also where it belongs to another user."""
        assert self._folder is not None  # nobody asks where there is none
        folder = self._files.open_dir(self._folder, follow=True)
        try:
            if self._files.fstat(folder).st_uid != self._user:
                raise PermissionError(f"{self._folder} belongs to another user")
        except OSError:
            self._files.close(folder)
            raise
        return folder

    def _make(self) -> None:
        """Makes the folder if it is missing; root only below a folder of its own. Raises ``OSError``."""
        assert self._folder is not None  # nobody asks where there is none
        above = self._folder
        while not os.path.isdir(above) and above != os.path.dirname(above):
            above = os.path.dirname(above)
        if self._user == 0 and os.stat(above).st_uid != 0:
            raise PermissionError(f"{above} belongs to another user")
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
