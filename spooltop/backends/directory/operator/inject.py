"""Puts test messages: each is made whole in ``tmp``, moved into ``new``, and belongs to the owner of the spool."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from spooltop.engine import names
from spooltop.engine.atomic import discard, write_new
from spooltop.engine.dirs import SpoolDirs
from spooltop.engine.system.files import is_inode
from spooltop.errors import UsageError
from spooltop.model.operations.plan import Item, Outcome
from spooltop.model.redact import Redactor
from spooltop.model.row import Row
from spooltop.model.text import escape_text, fill
from spooltop.model.units import size as size_words
from spooltop.model.vocabulary import Box, Json

from ..journal import BatchOutcome, MoveOutcome, MoveRun, folder_text

_MOST_BYTES = 1 << 30
_SHOWN = 60
"""Bytes of the first message that a plan shows."""


class InjectedContent:
    """The content of the messages, from the options ``text`` (with placeholders, see ``model.text``) or ``size`` (bytes).
    Raises ``UsageError`` for invalid options."""

    def __init__(self, options: Mapping[str, Json]) -> None:
        text, size, source = options.get("text"), options.get("size"), options.get("source")
        if text is not None and size is not None:
            raise UsageError("inject: a text cannot be combined with a size", advice="give one of them")
        if text is not None and not isinstance(text, str):
            raise UsageError("inject: the text is not a string")
        if size is not None and (isinstance(size, bool) or not isinstance(size, int) or not 0 <= size <= _MOST_BYTES):
            raise UsageError(f"inject: invalid size {size!r}", advice=f"give 0 to {_MOST_BYTES} bytes")
        if source is not None and not isinstance(source, str):
            raise UsageError("inject: the source is not a string")
        count = options.get("count")
        self._text = text
        self._count = str(count) if isinstance(count, int) else ""
        self._size = size
        self.source: str | None = source
        self.canary = bool(options.get("canary"))

    def notes(self, us: int, redactor: Redactor) -> tuple[str, ...]:
        """The notes of a plan about the messages: how the first begins."""
        first = self.data(1, self.name(us))
        if self._text is None or not first:
            return ()
        seen = redactor.data(first)
        shown = escape_text(seen[:_SHOWN], keep_newlines=False)
        return (f"First message, {size_words(len(first))}: {shown}{' …' if len(seen) > _SHOWN else ''}",)

    def name(self, us: int) -> str:
        """The name in ``new`` of a message put at ``us`` µs since the epoch. Raises ``UsageError`` for a source that is too
        long."""
        id = names.new_id(us, os.getpid(), os.uname().nodename)
        try:
            return names.in_new(id, source=self.source, canary=self.canary)
        except ValueError as error:
            raise UsageError(f"inject: {error}") from error

    def data(self, number: int, name: str) -> bytes:
        """The content of the message ``number`` (from 1), which will be called ``name`` in ``new``."""
        if self._text is not None:
            parsed = names.parse(name, claimed=False)
            at = (parsed.enqueued_us or 0) // 1_000_000
            words = {"n": number, "count": self._count, "id": parsed.id, "source": self.source or "", "time": at}
            return os.fsencode(fill(self._text, {name: str(word) for name, word in words.items()}))
        if self._size is not None:
            line = f"test message {number}\n".encode()
            return (line * (self._size // len(line) + 1))[: self._size]
        return f"test message {number} by spooltop\n".encode()


def new_messages(content: InjectedContent, us: int, count: int) -> list[Item]:
    """``count`` messages to put at ``us`` µs since the epoch, under names that sort so."""
    found = [content.name(us + place) for place in range(count)]
    return [Item(Row((Box.NEW.value, name), Box.NEW, names.parse(name, claimed=False).id, name), name) for name in found]


def put_run(names: list[str]) -> MoveRun:
    """The puts as the journal announces them."""
    return MoveRun(None, folder_text(Box.NEW, ""), names, 0, 0, 0, None)


def put_messages(
    dirs: SpoolDirs, content: InjectedContent, names: Sequence[str], first: int, stop: Callable[[], bool]
) -> BatchOutcome:
    """Puts one message after the other, until ``stop`` says so after one, and syncs them. ``first`` is the number of the first
    of ``names`` in the plan, from 1. Never raises ``OSError``."""
    ended: list[MoveOutcome] = []
    for number, name in enumerate(names, first):
        if ended and stop():
            break
        ended.append(_put_one(dirs, name, content.data(number, name), len(ended)))
    try:
        if any(one.moved for one in ended):
            dirs.files.sync_dir(dirs.box(Box.NEW))
    except OSError as error:
        reason = f"put, but a power failure may remove it: {error.strerror}"
        ended = [replace(one, outcome=Outcome.FAILED, reason=reason) if one.moved else one for one in ended]
    return BatchOutcome(tried=len(ended), others=ended)


def _put_one(dirs: SpoolDirs, name: str, data: bytes, place: int) -> MoveOutcome:
    """Puts one message, synced before it moves. Never raises ``OSError``; a message that could not be put leaves nothing in
    ``tmp``."""
    files, like = dirs.files, dirs.owner_model
    try:
        tmp, new = dirs.box(Box.TMP), dirs.box(Box.NEW)
        ino = write_new(files, tmp, name, data, like, like.st_mode & 0o664, locked=True)
    except OSError as error:
        return MoveOutcome(place, Outcome.FAILED, error.strerror or str(error))
    moved = False
    try:
        files.move(name, tmp, name, new, inode=ino)
        moved = True
        return MoveOutcome(place, Outcome.DONE, "", True, ino)
    except OSError as error:
        moved = is_inode(files, name, new, ino, unseen=False)
        reason = f"{'put, but: ' if moved else ''}{error.strerror or error}"
        return MoveOutcome(place, Outcome.FAILED, reason, moved, ino if moved else 0)
    finally:
        if not moved:
            discard(files, name, tmp)
