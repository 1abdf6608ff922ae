"""Where it is written down that a lock was removed, with all that it takes to put it back. One JSON object a line.

intent  schema line operation item action time user undoes path folder below names content link element mode uid gid mtime words
result  schema line operation item time outcome reason

What root puts back it reads from its own books alone; whatever else stands there is only shown.
"""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TypeGuard

from spooltop.model.plan import Outcome
from spooltop.model.text import escape, unescape
from spooltop.model.vocabulary import Action

from ..journal.item_lines import decoded, encoded, head_of, intended, is_time, outcome_of

__all__ = ["JOURNAL", "MOST", "Taken", "gather", "intent"]

JOURNAL = "locks"
"""What its journal is of."""
MOST = 1_024
"""Bytes: what a lock holds of its own is less."""
_SAFE = re.compile(r"(?!\.\.?(?:/|\Z))[^/\0]{1,255}\Z")


@dataclass(frozen=True, slots=True)
class Taken:
    """One lock that was removed or put back: ``names`` in the directory ``below`` of ``folder`` (its real path), names of one
    file with ``content``; or a symbolic link with the text ``link``; or a second name of ``element``. ``path`` is the lock as
    it is shown. ``outcome`` None: no result was written (a crash in between)."""

    operation: str
    item: int
    action: Action
    at: float
    user: str
    undoes: str | None
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
    outcome: Outcome | None = None
    reason: str = ""

    @property
    def is_ticket(self) -> bool:
        """True for a ticket of a queue: what it queues for is not itself."""
        return self.words.startswith("ticket ")


_TEXTS = ("user", "path", "folder", "below", "link", "element", "words")
_NUMBERS = ("item", "mode", "uid", "gid")


def intent(one: Taken) -> bytes:
    return encoded(
        {
            "schema": 1, "line": "intent", "operation": one.operation, "item": one.item, "action": str(one.action),
            "time": one.at, "user": escape(one.user), "undoes": one.undoes, "path": escape(one.path),
            "folder": escape(one.folder), "below": escape(one.below), "names": [escape(name) for name in one.names],
            "content": base64.b64encode(one.content).decode(), "link": escape(one.link), "element": escape(one.element),
            "mode": one.mode, "uid": one.uid, "gid": one.gid, "mtime": one.mtime, "words": escape(one.words),
        }
    )  # fmt: skip


def gather(lines: Iterable[bytes]) -> tuple[dict[str, list[Taken]], int]:
    """What was done by operation, in the order of their begin, and how many lines are none."""
    found: dict[str, dict[int, Taken]] = {}
    entries, bad = decoded(lines, _decode)
    for told in entries:
        if isinstance(told, Taken):
            found.setdefault(told.operation, {}).setdefault(told.item, told)
            continue
        operation, item, outcome, reason = told
        known = found.get(operation, {}).get(item)
        if known is not None and known.outcome is None:
            found[operation][item] = replace(known, outcome=outcome, reason=reason)
    return {operation: list(items.values()) for operation, items in found.items()}, bad


def _decode(line: bytes) -> Taken | tuple[str, int, Outcome, str]:
    """One line. Raises ``ValueError`` for anything else."""
    head = head_of(line)
    value = head.value
    item = value.get("item")
    if not _whole(item):
        raise ValueError("no item")
    if head.result:
        return head.operation, item, *outcome_of(head)
    action, undoes = intended(head, Action.UNLOCK, Action.UNDO)
    names = value.get("names")
    if not all(isinstance(value.get(name), str) for name in (*_TEXTS, "content")):
        raise ValueError("a field is missing")
    mtime = value.get("mtime")
    if not all(_whole(value.get(name)) for name in _NUMBERS) or not is_time(mtime):
        raise ValueError("a number is missing")
    if not isinstance(names, list) or not 1 <= len(names) <= 2 or not all(isinstance(name, str) for name in names):
        raise ValueError("no names")
    user, path, folder, below, link, element, words = (unescape(value[name]) for name in _TEXTS)
    own = tuple(unescape(name) for name in names)
    parts = [*own, *(below.split("/") if below else ()), *([element] if element else ())]
    if not all(_SAFE.match(part) for part in parts) or not os.path.isabs(folder):
        raise ValueError("a name that leads elsewhere")
    content = base64.b64decode(value["content"], validate=True)
    if len(content) > MOST:
        raise ValueError("more than a lock holds")
    return Taken(
        head.operation, item, action, head.at, user, undoes, path, folder, below, own, content, link, element,
        value["mode"] & 0o777, value["uid"], value["gid"], float(mtime), words,
    )  # fmt: skip


def _whole(value: object) -> TypeGuard[int]:
    return type(value) is int and 0 <= value < 1 << 32
