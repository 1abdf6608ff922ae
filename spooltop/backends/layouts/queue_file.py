"""Reads the envelope of a queue file of Postfix: records of a letter, a length of seven bits a byte, and that many bytes.

A file comes from anywhere. Only its beginning is read. A record that is longer than the rest of it ends the search, and so does
the message itself, which comes behind the envelope.
"""

from __future__ import annotations

__all__ = ["ENVELOPE", "record"]

ENVELOPE = 4096
"""Bytes that are read. Size, time and sender stand before the recipients, of which there may be thousands."""
_MESSAGE = ord("M")
_LONGEST = 5
"""Maximum number of bytes of a length."""


def record(data: bytes, letter: str) -> str | None:
    """Returns the text of the first record with this letter; None where the envelope has none, or is cut off before it."""
    at, wanted = 0, ord(letter)
    while at < len(data):
        kind = data[at]
        at += 1
        length = shift = 0
        for _ in range(_LONGEST):
            if at >= len(data):
                return None
            byte = data[at]
            at += 1
            length |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        else:
            return None
        if at + length > len(data):
            return None
        if kind == wanted:
            return data[at : at + length].decode("utf-8", "replace")
        if kind == _MESSAGE:
            return None
        at += length
    return None
