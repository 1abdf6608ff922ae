"""Removes a lock and puts it back: each step refuses where the lock is no longer the one that was pinned.

The log of locks holds all that it takes to put a lock back, one JSON object a line:

intent  schema line operation item action time user undoes path folder below names content link element mode uid gid mtime words
result  schema line operation item time outcome reason

An undo reads the user's own log only; records that somebody else may have written are only shown.
"""

from __future__ import annotations

import base64
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeGuard

from spooltop.engine.atomic import publish_new, write_new
from spooltop.engine.files import UNSUPPORTED, Files
from spooltop.model.text import escape, unescape
from spooltop.model.vocabulary import Action, Json

from ..journal.item_operator import ItemIntent
from ..journal.record_log import Head, ItemOutcome, RecordType, encode, intent_head, is_time

__all__ = [
    "CONTENT_MAX", "LOCKS", "Changed", "LockRecord", "Pin", "check_same", "opened_below", "pinned", "put_back", "take_away",
]  # fmt: skip

CONTENT_MAX = 1_024
"""Bytes of a lock's content that are kept; a lock holds less."""
_SAFE = re.compile(r"(?!\.\.?(?:/|\Z))[^/\0]{1,255}\Z")
_TEXTS = ("user", "path", "folder", "below", "link", "element", "words")
_NUMBERS = ("mode", "uid", "gid")

Pin = tuple[int, int, int, int]
"""Identifies a lock: inode, size, mtime and ctime in ns."""


@dataclass(frozen=True, slots=True)
class LockRecord(ItemIntent):
    """The intent to remove one lock or to put it back: ``names`` in the directory ``below`` of ``folder`` (its real path),
    names of one file with ``content``; or a symbolic link with the text ``link``; or a second name of ``element``. ``path`` is
    the lock as it is shown; ``mtime`` is in epoch seconds."""

    path: str
    folder: str
    below: str
    names: tuple[str, ...]
    content: bytes
    link: str
    element: str
    mode: int
    uid: int
    gid: int
    mtime: float
    words: str

    @property
    def is_ticket(self) -> bool:
        """True for a ticket of a queue, which is not the thing that it queues for."""
        return self.words.startswith("ticket ")

    def encode(self) -> bytes:
        members: dict[str, Json] = {
            "item": self.step, "action": str(self.action), "time": self.at, "user": escape(self.user), "undoes": self.undoes,
            "path": escape(self.path), "folder": escape(self.folder), "below": escape(self.below),
            "names": [escape(name) for name in self.names], "content": base64.b64encode(self.content).decode(),
            "link": escape(self.link), "element": escape(self.element), "mode": self.mode, "uid": self.uid, "gid": self.gid,
            "mtime": self.mtime, "words": escape(self.words),
        }  # fmt: skip
        return encode("intent", self.operation, members)

    @classmethod
    def decode(cls, head: Head) -> LockRecord:
        value = head.value
        action, undoes = intent_head(head, Action.UNLOCK, Action.UNDO)
        names, mtime = value.get("names"), value.get("mtime")
        if not all(isinstance(value.get(name), str) for name in (*_TEXTS, "content")):
            raise ValueError("a field is missing")
        if not all(_is_whole(value.get(name)) for name in _NUMBERS) or not is_time(mtime):
            raise ValueError("a number is missing")
        if not isinstance(names, list) or not 1 <= len(names) <= 2 or not all(isinstance(name, str) for name in names):
            raise ValueError("no names")
        user, path, folder, below, link, element, words = (unescape(value[name]) for name in _TEXTS)
        own = tuple(unescape(name) for name in names)
        parts = [*own, *(below.split("/") if below else ()), *([element] if element else ())]
        if not all(_SAFE.match(part) for part in parts) or not os.path.isabs(folder):
            raise ValueError("a name that leads elsewhere")
        content = base64.b64decode(value["content"], validate=True)
        if len(content) > CONTENT_MAX:
            raise ValueError("more than a lock holds")
        return cls(
            head.operation, head.step, action, head.at, user, undoes, path, folder, below, own, content, link, element,
            value["mode"] & 0o777, value["uid"], value["gid"], float(mtime), words,
        )  # fmt: skip


LOCKS = RecordType("locks", "the journal of locks", "item", LockRecord.decode, ItemOutcome.decode)
"""The record type of the log of locks."""


def _is_whole(value: object) -> TypeGuard[int]:
    return type(value) is int and 0 <= value < 1 << 32


class Changed(Exception):
    """The lock is not the one that was pinned, and nothing was done. The message says why."""


def pinned(found: os.stat_result) -> Pin:
    """The pin of a lock file with this status."""
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def check_same(one: LockRecord, folder: int, pin: Pin, files: Files) -> os.stat_result:
    """The status of a lock that is still the pinned one. Raises ``Changed``. A ticket's name is never used twice, and its file
    may be touched, so only its inode counts."""
    name, own = one.names[0], slice(1 if one.is_ticket else len(pin))
    try:
        found = files.stat(name, folder)
    except FileNotFoundError:
        raise Changed("it has gone by itself") from None
    if pinned(found)[own] != pin[own]:
        raise Changed("it was taken anew since the list was made")
    return found


@contextmanager
def opened_below(folder: int, path: str, files: Files) -> Iterator[int]:
    """Opens the directory ``path`` below ``folder`` without following a link; gives ``folder`` itself for "". Raises
    ``OSError``."""
    opened: list[int] = []
    try:
        at = folder
        for part in path.split("/") if path else ():
            at = files.open_dir(part, at)
            opened.append(at)
        yield at
    finally:
        for fd in opened:
            files.close(fd)


def take_away(one: LockRecord, folder: int, pin: Pin, who: bytes, files: Files) -> None:
    """Removes the lock in the open directory ``folder`` and syncs it. ``who`` is the content of a lock of this process. Raises
    ``Changed`` where another lock is there now, and ``OSError``.

    A name that every process uses can be taken anew between the last check and the unlink. So the file is exchanged for a lock
    of our own, which excludes others meanwhile, and the file that was got is checked; a wrong one is exchanged back.
    """
    first = one.names[0]
    found = check_same(one, folder, pin, files)
    if one.below or one.element or not _exchanged(first, folder, found, who, files):
        # A ticket's or a claim's name is never used twice, and a second name of an element is that element's whoever made it.
        for name in one.names:
            try:
                files.unlink(name, folder)
            except FileNotFoundError:
                if name == first:
                    raise Changed("it has gone by itself") from None
    files.sync_dir(folder)


def _exchanged(name: str, folder: int, found: os.stat_result, who: bytes, files: Files) -> bool:
    """Removes the file by an exchange. False where the file system cannot exchange: then nothing was done."""
    draft = f".{name}.{os.urandom(8).hex()}"
    # Synced: if it were empty after a power cut, nothing would show that its holder is gone.
    write_new(files, folder, draft, who, found if stat.S_ISREG(found.st_mode) else None, create_mode=0o600)
    try:
        try:
            files.exchange(draft, name, folder)
        except FileNotFoundError:
            raise Changed("it has gone by itself") from None
        except OSError as error:
            if error.errno not in UNSUPPORTED:
                raise
            return False
        if pinned(files.stat(draft, folder))[:-1] != pinned(found)[:-1]:  # but for ctime, which the exchange moves
            files.exchange(draft, name, folder)
            raise Changed("it was taken anew since the list was made")
        files.unlink(name, folder)
        return True
    finally:
        files.unlink(draft, folder)


def put_back(one: LockRecord, folder: int, files: Files) -> None:
    """Makes the lock again, complete when it appears, with owner, mode and mtime as before. Raises ``Changed`` where the name
    is taken, and ``OSError``."""
    first = one.names[0]
    try:
        if one.element:
            files.link(one.element, folder, first, folder)
        elif one.link:
            files.symlink(one.link, first, folder)
        else:
            like = os.stat_result((one.mode, 0, 0, 1, one.uid, one.gid, 0, 0, 0, 0))
            if not publish_new(files, folder, first, one.content, like, one.mode, mtime=one.mtime):
                raise FileExistsError(first)
            for other in one.names[1:]:
                files.link(first, folder, other, folder)
    except FileExistsError:
        raise Changed("the place is taken: somebody has that lock now") from None
    files.sync_dir(folder)
