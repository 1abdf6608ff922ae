"""Timing of the demo. It is faster than reality, so that everything is visible within ten seconds. All times are in seconds.

The five pollers run in rounds of six seconds. ``email`` reads the whole cursor file early in a round and writes all of it back at
the beginning of the next: what ``imessage`` saved in between is lost. The others save between that write and that read, so that
only ``imessage`` is reverted.
"""

from __future__ import annotations

__all__ = ["SETTINGS"]

SETTINGS = {
    "SPOOLTOP_TMP_OLD": "5s",
    "SPOOLTOP_CLAIM_LONG": "15s",
    "SPOOLTOP_LOCK_BLOCKED": "10s",
    "SPOOLTOP_NO_CONSUMER": "20s",
    "SPOOLTOP_NEW_OLD": "60s",
    "SPOOLTOP_CURSOR_WINDOW": "60s",
}
"""Thresholds that replace those for a spool at normal speed."""

POLL = 2.0
ROUND = 6.0
EMAIL_WRITES = 0.2
EMAIL_READS = 1.6
DRAFT_STANDS = 0.2
"""Time for which the unsafe writer's ``cursors.json.tmp`` is visible before it is renamed."""

FIRST_CRASH = 2.0
NEXT_CRASH = 25.0
CRASH_AGAIN = 4.0
"""Time after which a consumer is killed if no dead claim is left, so that there is always one to requeue."""
MOST_DEAD = 3
"""Maximum number of dead claims; at this number no consumer is killed until some are put back."""
POISON_WORK = 12.0
"""Time for which the poison message is processed before it kills its consumer."""
POISON_AGAIN = 60.0
RESTART = 1.5
LAST_WORK = 2.0
"""Time that consumers of a spool that is kept have to give their claims back when the demo is over."""

FIRST_LITTER = 0.5
NEXT_LITTER = 45.0
LITTER_AGAIN = 2.0
"""Time after which the next file is abandoned if none is left in ``tmp``, so that there is always one to purge."""
MOST_LITTER = 3
SLOW_CHUNKS = 60
SLOW_CHUNK_EVERY = 0.5
SLOW_PAUSE = 8.0

SLOW_CLAIM = 60.0
SLOW_CLAIM_PAUSE = 4.0
LOCK_HELD = 90.0
LOCK_PAUSE = 3.0

RETRY = 6.0
"""Time after which a message is tried again whose picture was missing."""
LEASE = 3.0
"""Time after which a consumer of a stream that does not renew its lease counts as dead."""
ARCHIVED_EVERY = 1.2
"""Time that the second group of a stream needs for a message: more than the producers leave it."""
REPORT = 45.0
"""Time for which the program that is not spooltop's holds a message of a stream."""

TICK = 0.25
"""Interval between two checks of the scenario."""
