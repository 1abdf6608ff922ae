"""The pause of a spool: ``.spooltop/paused``, one JSON object with who paused it, when, and why.

While a file of that name exists, whatever is in it, no consumer takes a claim. Claims that are held already are not affected.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from spooltop.model import REASON_AT_MOST, Json, Pause, finite, json_object

from .dirs import SpoolDirs
from .files import read_small

PAUSED = "paused"
CHECK_EVERY = 0.25
"""Seconds after which a consumer checks again if the spool is paused."""
_CAP = 4096
_WHO_AT_MOST = 64


def is_paused(dirs: SpoolDirs) -> bool:
    """True if the spool is paused. Raises ``OSError`` if the system does not say."""
    own = dirs.private_dir()
    return own is not None and dirs.files.status(PAUSED, own) is not None


def read_pause(dirs: SpoolDirs) -> Pause | None:
    """Reads who paused the spool, when and why; None if it is not paused. Raises ``OSError`` if the system does not say.

    Anybody may have written the file, so what it does not say in the expected form is unknown; when it was written is then when
    the spool was paused."""
    own = dirs.private_dir()
    found = None if own is None else dirs.files.status(PAUSED, own)
    if own is None or found is None:
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
