"""Ticket queues: who comes first is served first.

The state on disk and in Redis is that of stouputils' ``lock.queue``, so both can stand in one queue: a directory with ``seq``
(the last ticket given) and one file ``<ticket, 20 digits>.<pid>.<32 hex>`` for each member; in Redis the counter
``{name}:seq`` and the sorted set ``{name}:queue`` of members ``{ticket}:{token}:{ts_ms}``. The lowest ticket owns the lock.
"""

from __future__ import annotations

from .ticket_base import BaseTicketQueue
from .ticket_files import FileTicketQueue
from .ticket_redis import RedisTicketQueue

__all__ = ["BaseTicketQueue", "FileTicketQueue", "RedisTicketQueue"]
