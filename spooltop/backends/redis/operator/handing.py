"""Ways to put a message back to work, and which of them the consumers of a group allow."""

from __future__ import annotations

import re
from typing import NamedTuple

from spooltop.errors import SpooltopError

from ..client import ErrorReply
from ..stream_names import StreamNames
from .connection import OperatorConnection, text_of, whole

__all__ = ["Way", "chosen_way"]

_AUTOCLAIMS = re.compile(r"cmdstat_xautoclaim:calls=([0-9]+)")


class Way(NamedTuple):
    """The way that was chosen. ``copies``: a message is put again as a new entry, else it is handed over to ``~spooltop`` with
    its id. ``words`` tell which it is, and why."""

    copies: bool
    words: str


def chosen_way(server: OperatorConnection, names: StreamNames, *, asked: bool, groups: int) -> Way:
    """Chooses the best way that the consumers of the group allow. ``asked``: copies are wanted; ``groups`` are those of the
    stream. Raises as ``OperatorConnection.ask``."""
    if asked:
        return Way(True, f"{_COPIED}, as --copy asks: consumers that only read new entries get it. This has no undo.")
    if whole(server.ask("look", ("HLEN", names.consumers))[0]):
        return Way(False, f"{_HANDED}: workers of spooltop take it first.")
    seen = _autoclaim_was_seen(server)
    if seen:
        return Way(
            False,
            f"{_HANDED}: consumers that use XAUTOCLAIM take it, some of them only once a new entry came. This server has seen "
            "that command; whether from a consumer of this group is not known. With --copy it is put again as a new entry.",
        )
    if seen is None:
        return Way(
            False,
            f"{_HANDED}, but no worker of spooltop is in the group, and the server does not tell who uses XAUTOCLAIM: {_NEVER}. "
            "With --copy it is put again as a new entry.",
        )
    if groups > 1:
        return Way(
            False,
            f"{_HANDED}, but no worker of spooltop is in the group, and nobody was seen to use XAUTOCLAIM: {_NEVER}. With --copy "
            "and --force it is put again as a new entry, which the other groups get too.",
        )
    return Way(
        True,
        f"{_COPIED}: no worker of spooltop is in the group, and nobody was seen to use XAUTOCLAIM, so its consumers only read "
        "new entries. This has no undo.",
    )


_COPIED = "Each is replaced by a new entry with the old id in its field ~id, the last in order"
_HANDED = "Handed over to ~spooltop, with the same id and number of tries"
_NEVER = "consumers that only read new entries never get it"


def _autoclaim_was_seen(server: OperatorConnection) -> bool | None:
    """True if a client of this server has used XAUTOCLAIM since it was started; None where it does not tell."""
    try:
        (stats,) = server.try_all("look", ("INFO", "commandstats"))
    except SpooltopError:  # this user may not ask
        return None
    if isinstance(stats, ErrorReply):
        return None
    found = _AUTOCLAIMS.search(text_of(stats))
    return found is not None and int(found[1]) > 0
