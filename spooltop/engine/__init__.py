"""The spool itself, usable alone: it loads the standard library and nothing of the dashboard.

>>> import tempfile
>>> from spooltop.engine import Spool
>>> with tempfile.TemporaryDirectory() as folder, Spool.create(folder) as spool:
...     id = spool.put(b"hello", source="greeter")
...     with spool.claim() as claim:
...         (claim.id == id, claim.data, claim.attempt, claim.source)
...     spool.depth()
(True, b'hello', 1, 'greeter')
0

A put is complete and delivered at least once when it returns; a claim is held by one living process; what dead ones hold goes
back by ``Spool.recover``. Every file operation goes through one ``Files`` object, by directory descriptor, and no move replaces.
"""

from __future__ import annotations

from spooltop.errors import (
    ClaimLost,
    CursorMismatch,
    CursorUnreadable,
    LockTimedOut,
    MailFolder,
    NotASpool,
    PutUnknown,
    Refused,
    SpoolFull,
    SpooltopError,
    Unreadable,
    UsageError,
)

from .atomic import write_atomic
from .claim import Claim
from .cursors import CursorFile
from .flat import available, read_and_delete
from .spool import Spool
from .tickets import FileTicketQueue

__all__ = [
    "Claim",
    "ClaimLost",
    "CursorFile",
    "CursorMismatch",
    "CursorUnreadable",
    "FileTicketQueue",
    "LockTimedOut",
    "MailFolder",
    "NotASpool",
    "PutUnknown",
    "Refused",
    "Spool",
    "SpoolFull",
    "SpooltopError",
    "Unreadable",
    "UsageError",
    "available",
    "read_and_delete",
    "write_atomic",
]
