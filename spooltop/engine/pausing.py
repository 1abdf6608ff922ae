"""The pause of a spool: ``.spooltop/paused``, one JSON object with who paused it, when, and why.

While a file of that name exists, whatever is in it, no consumer takes a claim. Claims that are held already are not affected.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping

from spooltop.model.look.observation import REASON_AT_MOST, Pause
from spooltop.model.text import finite, json_object
from spooltop.model.vocabulary import Json

from .dirs import SpoolDirs
from .system.files import read_small

PAUSED = "paused"
CHECK_EVERY = 0.25
"""Seconds after which a consumer checks again if the spool is paused."""
_CAP = 4096
_WHO_AT_MOST = 64


class PauseCheck:
    """Checks for a consumer if its spool is paused, at most once in ``CHECK_EVERY`` seconds of ``tick``, a monotonic clock."""

    __slots__ = ("_paused", "_tick", "_until", "looks")

    def __init__(self, tick: Callable[[], float] = time.monotonic) -> None:
        self._tick = tick
        self._until = float("-inf")
        self._paused = False
        self.looks = 0
        """Number of times that the spool was looked at."""

    def paused(self, dirs: SpoolDirs) -> bool:
        """True if the spool is paused. Raises ``OSError`` if the system does not say."""
        now = self._tick()
        if now >= self._until:
            self._paused = _is_paused(dirs)
            self._until = now + CHECK_EVERY
            self.looks += 1
        return self._paused

    def due_in(self) -> float | None:
        """Seconds until the next check of a spool that is paused; None if it was not paused at the last one."""
        return max(0.0, self._until - self._tick()) if self._paused else None


def _is_paused(dirs: SpoolDirs) -> bool:
    own = dirs.private_dir()
    if own is None:
        return False
    try:
        dirs.files.stat(PAUSED, own)
    except FileNotFoundError:
        return False
    return True


def read_pause(dirs: SpoolDirs) -> Pause | None:
    """Reads who paused the spool, when and why; None if it is not paused. Raises ``OSError`` if the system does not say."""
    own = dirs.private_dir()
    return None if own is None else pause_of(dirs, own)


def pause_of(dirs: SpoolDirs, own: int) -> Pause | None:
    """``read_pause`` with ``.spooltop`` open as ``own``. Anybody may have written the file, so what it does not say in the
    expected form is unknown; when it was written is then when the spool was paused."""
    try:
        found = dirs.files.stat(PAUSED, own)
    except FileNotFoundError:
        return None
    try:
        value = json_object(read_small(PAUSED, own, files=dirs.files, limit=_CAP).data)
    except FileNotFoundError:
        return None
    except OSError:
        value = {}  # closed to this user, or not a file: it pauses all the same
    return pause_from(value, found.st_mtime)


def pause_from(value: Mapping[str, object], written_at: float) -> Pause:
    """Returns the pause that a record describes, which was written at ``written_at``, epoch seconds."""
    by, at, reason = value.get("by"), finite(value.get("at")), value.get("reason")
    return Pause(
        by[:_WHO_AT_MOST] if isinstance(by, str) and by else None,
        written_at if at is None else at,
        reason[:REASON_AT_MOST] if isinstance(reason, str) else "",
    )


def encode_pause(pause: Pause) -> bytes:
    """The content of the file."""
    value: dict[str, Json] = {"by": pause.by, "at": pause.at, "reason": pause.reason}
    return json.dumps(value).encode() + b"\n"
