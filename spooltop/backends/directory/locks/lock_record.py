"""The log of locks, which holds all that it takes to put a lock back, one JSON object a line.

intent  schema line operation item action time user undoes path folder below names content link element mode uid gid mtime words
result  schema line operation item time outcome reason

An undo reads the user's own log only; records that somebody else may have written are only shown.
"""

from __future__ import annotations

import base64
import os
from typing import TypeGuard

from spooltop.model.text import escape, unescape
from spooltop.model.vocabulary import Action, Json
from spooltop.patterns import pattern
from spooltop.records import dataclass

from ...journal.item_operator import ItemIntent
from ...journal.record_log import Head, ItemOutcome, RecordType, encode, intent_head, is_time

__all__ = ["CONTENT_MAX", "LOCKS", "LockRecord"]

CONTENT_MAX = 1_024
"""Bytes of a lock's content that are kept; a lock holds less."""
_SAFE = pattern(r"(?!\.\.?(?:/|\Z))[^/\0]{1,255}\Z")
_TEXTS = ("user", "path", "folder", "below", "link", "element", "words")
_NUMBERS = ("mode", "uid", "gid")


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
