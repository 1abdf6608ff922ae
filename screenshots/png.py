"""Makes a PNG of text smaller without changing a pixel: lines that repeat compress best without the filters of the format."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

__all__ = ["lines_of", "smaller"]

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_RGBA = 4
"""Bytes of a pixel."""


def smaller(data: bytes) -> bytes:
    """Returns the same picture: 8-bit RGBA, not interlaced, as rsvg-convert writes it. Only its size and its pixels are kept."""
    lines = b"".join(b"\0" + line for line in lines_of(data))
    header = next(body for kind, body in _chunks(data) if kind == b"IHDR")
    return _SIGNATURE + _chunk(b"IHDR", header) + _chunk(b"IDAT", zlib.compress(lines, 9)) + _chunk(b"IEND", b"")


def lines_of(data: bytes) -> list[bytes]:
    """Returns the pixels of each line, without the filters (https://www.w3.org/TR/png-3/#9Filters)."""
    header = next(body for kind, body in _chunks(data) if kind == b"IHDR")
    width, _, *form = struct.unpack(">IIBBBBB", header)
    if form != [8, 6, 0, 0, 0]:
        raise ValueError("not a PNG of 8-bit RGBA, not interlaced")
    packed = zlib.decompress(b"".join(body for kind, body in _chunks(data) if kind == b"IDAT"))
    size = width * _RGBA
    above, lines = bytes(size), []
    for start in range(0, len(packed), size + 1):
        above = _unfiltered(packed[start], bytearray(packed[start + 1 : start + 1 + size]), above)
        lines.append(above)
    return lines


def _unfiltered(filter: int, line: bytearray, above: bytes) -> bytes:
    for at in range(len(line)):
        left, corner = (line[at - _RGBA], above[at - _RGBA]) if at >= _RGBA else (0, 0)
        predicted = (0, left, above[at], (left + above[at]) // 2, _paeth(left, above[at], corner))[filter]
        line[at] = (line[at] + predicted) % 256
    return bytes(line)


def _paeth(left: int, above: int, corner: int) -> int:
    guess = left + above - corner
    return min((left, above, corner), key=lambda one: abs(guess - one))


def _chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = len(_SIGNATURE)
    while at < len(data):
        (length,) = struct.unpack_from(">I", data, at)
        yield data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        at += length + 12


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
