"""When what happens. Faster than life, so that everything is seen within ten seconds. All times are seconds.

The five pollers turn in rounds of six seconds. ``email`` reads the whole cursor file early in a round and writes the whole of it
back at the beginning of the next: what ``imessage`` saved in between is lost. The others move between that write and that read,
so that only ``imessage`` is reverted.
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
"""Thresholds in place of those for a spool that lives at its own pace."""

POLL = 2.0
ROUND = 6.0
EMAIL_WRITES = 0.2
EMAIL_READS = 1.6
DRAFT_STANDS = 0.2
"""For so long the unsafe writer's ``cursors.json.tmp`` is seen before it is renamed."""

FIRST_CRASH = 2.0
NEXT_CRASH = 25.0
CRASH_AGAIN = 4.0
"""After so long a consumer is killed where no dead claim is left, so that there is always one to requeue."""
MOST_DEAD = 3
"""Dead claims that may stand; then nobody is killed until some are put back."""
POISON_WORK = 12.0
"""The message that kills is worked on for so long before it does."""
POISON_AGAIN = 60.0
RESTART = 1.5
LAST_WORK = 2.0
"""When it is over, consumers of a spool that is kept have so long to give their claims back."""

FIRST_LITTER = 0.5
NEXT_LITTER = 45.0
LITTER_AGAIN = 2.0
"""After so long the next file is abandoned where none is left in ``tmp``, so that there is always one to purge."""
MOST_LITTER = 3
SLOW_CHUNKS = 60
SLOW_CHUNK_EVERY = 0.5
SLOW_PAUSE = 8.0

SLOW_CLAIM = 60.0
SLOW_CLAIM_PAUSE = 4.0
LOCK_HELD = 90.0
LOCK_PAUSE = 3.0

TICK = 0.25
"""The stage looks so often."""
