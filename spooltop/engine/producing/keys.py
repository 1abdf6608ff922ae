"""Records of keys: the message that was put with each key, so that a second put with the key is suppressed.

``.spooltop/keys/<sha256 of the key>`` contains one JSON line with the message's final name. It is written and synced after the
file in ``tmp`` is complete and before its move to ``new``. It is created without replacing, so that one of two processes with the
same key wins. A process that finds a record whose file is still in ``tmp`` completes the move.

The four usual methods each lack one of these properties. A lock file used as a flag is left behind by a process that dies before
the message is written, and then the message never arrives. A set in the process does not contain the keys of other processes and
of earlier runs. A manager's dict is lost with its manager, and another process can check it between the check and the update. A
hash of the content as the name merges two identical orders, and is forgotten when the message is acked.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable

from spooltop.model.moves import mover_of
from spooltop.model.untrusted import finite, json_object
from spooltop.records import dataclass

from ..atomic import open_shared, publish_new
from ..dirs import SpoolDirs
from ..names import parse
from ..system.files import Files
from ..system.small_files import NotRegular, read_small

__all__ = ["KEYS", "KeyRecords"]

KEYS = "keys"
_CAP = 4096
_SWEPT_AT_ONCE = 1000


@dataclass(frozen=True, slots=True)
class Record:
    """The final name of a message, and when it was put (epoch seconds)."""

    name: str
    at: float

    @property
    def id(self) -> str:
        return parse(self.name, claimed=False).id


class KeyRecords:
    """The records of one spool. ``window``: seconds after which a record has expired, None: never.
    All methods may raise ``OSError``."""

    def __init__(self, dirs: SpoolDirs, clock: Callable[[], float], window: float | None) -> None:
        self._dirs = dirs
        self._clock = clock
        self._window = window
        self._swept_at = clock()

    def find(self, key: str) -> Record | None:
        """Returns the record of ``key``. An expired or useless record is removed."""
        return self._find(_called(key))

    def _find(self, called: str) -> Record | None:
        record = self._read(called)
        if record is None or self._valid(record):
            return record if record and record.name else None
        # Under a lock, and read again: else a slow process would remove the record that a quick one has just renewed.
        files, keys = self._dirs.files, self._keys()
        fd = open_shared(files, ".lock", keys, self._dirs.owner_model)
        try:
            files.lock_write(fd, wait=True)
            record = self._read(called)
            if record is None or self._valid(record):
                return record
            _remove(files, called, keys)
            return None
        finally:
            files.close(fd)

    def _valid(self, record: Record) -> bool:
        return bool(record.name) and (self._window is None or record.at > self._clock() - self._window)

    def create(self, key: str, name: str, *, durable: bool) -> bool:
        """Records that ``key`` is the message ``name``. False if the key already has a record."""
        data = json.dumps({"name": name, "at": self._clock()}).encode() + b"\n"
        if not publish_new(self._dirs.files, self._keys(), _called(key), data, self._dirs.owner_model, durable=durable):
            return False
        self._sweep()
        return True

    def forget(self, key: str) -> None:
        """Removes the record of ``key``: another put with it makes another message."""
        _remove(self._dirs.files, _called(key), self._keys())

    def forget_mover(self, mover: str) -> None:
        """Removes the records of all keys of one mover (``model.moves``), also one that it had only begun to write."""
        keys, begin = self._keys(), _called_by(mover)
        for called in self._dirs.files.list(keys):
            if called.removeprefix(".").startswith(begin):
                _remove(self._dirs.files, called, keys)

    def _sweep(self) -> None:
        now = self._clock()
        if self._window is None or now - self._swept_at < self._window / 24:
            return
        self._swept_at = now
        names = (name for name in self._dirs.files.list(self._keys()) if not name.startswith("."))
        for _, called in zip(range(_SWEPT_AT_ONCE), names, strict=False):
            self._find(called)

    def _keys(self) -> int:
        keys = self._dirs.private_dir(KEYS, create=True)
        assert keys is not None  # create=True makes it or raises
        return keys

    def _read(self, called: str) -> Record | None:
        """Reads the record; its name is empty if the content is of no use."""
        try:
            record = json_object(read_small(called, self._keys(), files=self._dirs.files, limit=_CAP).data)
        except FileNotFoundError:
            return None
        except NotRegular:
            record = {}
        name, at = record.get("name"), finite(record.get("at"))
        # Whoever may write the spool wrote it: no name may lead out of tmp.
        if not isinstance(name, str) or not name or "/" in name or name.startswith(".") or at is None:
            return Record("", 0.0)
        return Record(name, at)


def _called(key: str) -> str:
    from hashlib import sha256  # loads OpenSSL: only for those who use keys

    digest = sha256(os.fsencode(key)).hexdigest()
    moved = mover_of(key)
    return digest if moved is None else f"{_called_by(moved[0])}{digest}"


def _called_by(mover: str) -> str:
    """Returns the beginning of the names of all records of one mover: what it left behind is found by it."""
    from hashlib import sha256  # as above

    return f"move-{sha256(os.fsencode(mover)).hexdigest()[:32]}-"


def _remove(files: Files, called: str, keys: int) -> None:
    try:
        files.unlink(called, keys)
    except FileNotFoundError:
        return  # somebody was quicker; gone is what we want
