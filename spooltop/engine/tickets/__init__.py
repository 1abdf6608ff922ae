"""Ticket queues: first come, first served.

The state on disk and in Redis is that of stouputils' ``lock.queue``, so that both can share a queue: a directory with ``seq``
(the last ticket given) and one file ``<ticket, 20 digits>.<pid>.<32 hex>`` for each member; in Redis the counter ``{name}:seq``
and the sorted set ``{name}:queue`` of members ``{ticket}:{token}:{ts_ms}``. The lowest ticket owns the lock. A queue shared with
stouputils in Redis has the race of stouputils: it takes a number and enters with it in two steps, and a member that comes in
between with the next number is the head for that moment. Queues that use only this module do not have this race.

>>> import tempfile, time
>>> from spooltop.engine.tickets import BaseTicketQueue, FileTicketQueue, RedisTicketQueue
>>> def in_turn(queue: BaseTicketQueue, work):
...     ticket, member = queue.register()
...     try:
...         while not queue.is_head(ticket):
...             queue.cleanup_stale()
...             time.sleep(0.01)
...         return work()
...     finally:
...         queue.remove(member)
...         queue.maybe_cleanup()
>>> with tempfile.TemporaryDirectory() as folder:
...     in_turn(FileTicketQueue(folder + "/printer"), lambda: "printed")
'printed'
>>> queue = RedisTicketQueue("printer", stale_timeout=60)                  # connects at the first ticket
>>> (isinstance(queue, BaseTicketQueue), queue.name, queue.stale_timeout)
(True, 'printer', 60)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .file_queue import BaseTicketQueue, FileTicketQueue

if TYPE_CHECKING:
    from .redis_queue import RedisTicketQueue

__all__ = ["BaseTicketQueue", "FileTicketQueue", "RedisTicketQueue"]


def __getattr__(name: str) -> object:
    if name != "RedisTicketQueue":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .redis_queue import RedisTicketQueue  # loads redis: only for those who use it

    return RedisTicketQueue
