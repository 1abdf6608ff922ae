"""``<message>.lock``: a lock file in a box, beside its message. It is a message too, as every valid name is one."""

from __future__ import annotations

import os
from collections.abc import Iterable

__all__ = ["message_locks"]

_SUFFIX = b".lock"
_AT_MOST = 64


def message_locks(chunks: Iterable[bytes]) -> tuple[str, ...]:
    """Those among the names of one box, joined by ``/``, whose message stands there too: under its name, or claimed, under that
    with a tail.

    >>> message_locks([b"a/a.lock/b.lock", b"c.lock/c:2,P77"])
    ('a.lock', 'c.lock')
    """
    known = list(chunks)
    names = [name for chunk in known if _SUFFIX in chunk for name in chunk.split(b"/") if name.endswith(_SUFFIX)]
    found = (name for name in sorted(names)[:_AT_MOST] if _stands(name.removesuffix(_SUFFIX), known))
    return tuple(os.fsdecode(name) for name in found)


def _stands(message: bytes, chunks: list[bytes]) -> bool:
    if not message:
        return False
    starts = (message + b",", message + b":")
    among = (chunk.split(b"/") for chunk in chunks if message in chunk)
    return any(name == message or name.startswith(starts) for names in among for name in names)
