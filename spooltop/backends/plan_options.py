"""Options of plans that mean the same for every kind of queue."""

from __future__ import annotations

import os

from spooltop.model import REASON_AT_MOST, JsonObject, UsageError, escape_text, fill
from spooltop.model.vocabulary import size as size_words

_SHOWN = 60
"""Bytes of the first test message that a plan shows."""


class InjectedContent:
    """The content of test messages, from the options ``text`` (with placeholders, see ``model.vocabulary``) or ``size`` (up to
    ``most`` bytes). Raises ``UsageError`` for invalid options."""

    def __init__(self, options: JsonObject, most: int) -> None:
        text, size, source = options.get("text"), options.get("size"), options.get("source")
        if text is not None and size is not None:
            raise UsageError("inject: a text cannot be combined with a size", "give one of them")
        if text is not None and not isinstance(text, str):
            raise UsageError("inject: the text is not a string")
        if size is not None and (isinstance(size, bool) or not isinstance(size, int) or not 0 <= size <= most):
            raise UsageError(f"inject: invalid size {size!r}", f"give 0 to {most} bytes")
        if source is not None and not isinstance(source, str):
            raise UsageError("inject: the source is not a string")
        count = options.get("count")
        self._text = text
        self._count = str(count) if isinstance(count, int) else ""
        self._size = size
        self.source: str | None = source

    def first_notes(self, data: bytes, seen: bytes) -> tuple[str, ...]:
        """Returns the notes of a plan about its first message: how its ``data`` begins as it may be ``seen``."""
        if self._text is None or not data:
            return ()
        shown = escape_text(seen[:_SHOWN], keep_newlines=False)
        return (f"First message, {size_words(len(data))}: {shown}{' …' if len(seen) > _SHOWN else ''}",)

    def data(self, number: int, id: str, at: float) -> bytes:
        """Returns the content of the message ``number`` (from 1), which is put at ``at`` (epoch seconds) and will have the id
        ``id``, if that is known."""
        if self._text is not None:
            words = {"n": number, "count": self._count, "id": id, "source": self.source or "", "time": int(at)}
            text = fill(self._text, {name: str(word) for name, word in words.items()})
            try:
                return os.fsencode(text)  # the bytes of an argument, or of a file, as they were
            except UnicodeEncodeError:  # typed where the locale has no such character
                return text.encode("utf-8", "surrogateescape")
        if self._size is not None:
            line = f"test message {number}\n".encode()
            return (line * (self._size // len(line) + 1))[: self._size]
        return f"test message {number} by spooltop\n".encode()


def pause_reason(options: JsonObject) -> str:
    """Returns the option ``reason`` of a pause. Raises ``UsageError`` for one that is too long."""
    reason = options.get("reason") or ""
    if not isinstance(reason, str) or len(reason) > REASON_AT_MOST:
        raise UsageError(f"pause: the reason has more than {REASON_AT_MOST} characters", "say it shorter")
    return reason
