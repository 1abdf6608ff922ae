"""The spool itself, usable alone: it imports the standard library and nothing of the dashboard.

>>> import tempfile
>>> from spooltop.engine import CursorFile, Spool, write_atomic
>>> with tempfile.TemporaryDirectory() as folder, Spool.create(folder) as spool:
...     id = spool.put(b"hello", source="greeter")
...     with spool.claim() as claim:
...         (claim.id == id, claim.data, claim.attempt, claim.source)
...     spool.depth()
(True, b'hello', 1, 'greeter')
0

A failure raises ``SpooltopError`` or a subclass of it, which says what to do. Losing a race is not a failure.

>>> def error_of(step, *arguments, **options):
...     try:
...         step(*arguments, **options)
...     except SpooltopError as error:
...         return f"{type(error).__name__}: {error.what}"
>>> with tempfile.TemporaryDirectory() as folder:
...     print(error_of(Spool, folder))                                         # nothing is made by opening
...     with Spool.create(folder) as spool:
...         print(error_of(spool.put, b"", source="s" * 41))
...         id = spool.put(b"hello")
...         claim = spool.claim()
...         claim.ack()
...         print(error_of(claim.ack) == f"ClaimLost: the claim on {id!r} has ended already")
...     cursors = CursorFile(folder + "/cursors.json")
...     before = cursors.advance("imessage", 17)
...     print(error_of(cursors.advance, "imessage", 19, expect=18))
...     write_atomic(folder + "/cursors.json", b"{torn")
...     print(error_of(cursors.read).split(" (")[0])
...     write_atomic(folder + "/dovecot.index.log", b"")
...     print(error_of(Spool, folder))
...     print(error_of(spool.put, b"too late"))
NotASpool: tmp, new, cur missing or no directory
UsageError: a source takes 1 to 40 bytes, this one 41: 'sssssssssssssssssssssssssssssssssssssssss'
True
CursorMismatch: imessage is not what was expected
CursorUnreadable: does not parse
MailFolder: a mail folder (it holds dovecot.index.log): its cur is read mail, not stuck work
Closed: this Spool is closed

``SpoolFull`` (no space: acks go on), ``Refused`` (no permission to write), ``Unreadable``, ``LockTimedOut`` (only with a timeout)
and ``PutUnknown`` depend on the disk or on other processes:

>>> def deliver(spool, data, id):
...     try:
...         return spool.put(data, id=id)
...     except PutUnknown as unknown:
...         return spool.put(data, id=unknown.id)                          # a no-op if it arrived
...     except (SpoolFull, Refused, Unreadable, LockTimedOut):
...         return None                                                    # nothing was delivered
>>> with tempfile.TemporaryDirectory() as folder, Spool.create(folder) as spool:
...     (deliver(spool, b"x", "order-17"), deliver(spool, b"x", "order-17"), spool.depth())
('order-17', 'order-17', 1)

A put is complete and delivered at least once when it returns. A claim is held by one running process; ``Spool.recover`` puts
back the claims of dead ones. All file operations go through one ``Files`` object, by directory descriptor, and no move replaces
a file.
"""

from __future__ import annotations

from spooltop.errors import (
    ClaimLost,
    Closed,
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

from .atomic import write_atomic, write_atomic_text
from .consumer import Claim
from .cursors import CursorFile
from .flat_dir import available, read_and_delete
from .producer import MessageId
from .spool import Spool
from .tickets import FileTicketQueue

__all__ = [
    "Claim",
    "ClaimLost",
    "Closed",
    "CursorFile",
    "CursorMismatch",
    "CursorUnreadable",
    "FileTicketQueue",
    "LockTimedOut",
    "MailFolder",
    "MessageId",
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
    "write_atomic_text",
]
