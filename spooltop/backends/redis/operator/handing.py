"""Ways to put a message back to work, and which of them the consumers of a group allow."""

from __future__ import annotations

import re
from typing import NamedTuple

from spooltop.errors import SpooltopError, Unreadable

from ..client import ErrorReply
from ..stream_names import StreamNames
from .connection import OperatorConnection, listed, text_of, whole
from .scripts import HANDED

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
        return Way(True, f"{_COPIED}, as --copy asks: consumers that only read new entries get it.")
    if _worker_is_running(server, names):
        return Way(False, f"{_HANDED}: workers of spooltop take it first.")
    none = "no worker of spooltop is running in the group"
    taken = _last_was_taken(server, names)
    if taken:
        return Way(False, f"{_HANDED}: {none}, but its consumers took what was handed over before.")
    if taken is None:
        seen = _autoclaim_was_seen(server)
        if seen:
            return Way(
                False,
                f"{_HANDED}: consumers that use XAUTOCLAIM take it, some of them only once a new entry came. This server has "
                f"seen that command; whether from a consumer of this group is not known. {_LATER_BY_COPY}",
            )
        if seen is None:
            why = f"{none}, and the server does not tell who uses XAUTOCLAIM"
            return Way(False, f"{_HANDED}, but {why}: {_NEVER}. {_LATER_BY_COPY}")
        why = f"{none}, and nobody was seen to use XAUTOCLAIM"
    else:
        why = f"{none}, and what was handed over before still waits while newer entries were delivered"
    if groups > 1:
        return Way(
            False,
            f"{_HANDED}, but {why}: {_NEVER}. With --copy and --force it is put again as a new entry, which the other groups get "
            "too.",
        )
    return Way(True, f"{_COPIED}: {why}, so its consumers only read new entries.")


def _worker_is_running(server: OperatorConnection, names: StreamNames) -> bool:
    """True if a worker of spooltop in the group has a lease."""
    at = "0"
    while True:
        after, flat = listed(server.ask("look", ("HSCAN", names.consumers, at, "COUNT", 100))[0])
        known = [text_of(name) for name in listed(flat)[::2]]
        if known and whole(server.ask("look", ("EXISTS", *map(names.lease, known)))[0]):
            return True
        if (at := text_of(after)) == "0":
            return False


def _last_was_taken(server: OperatorConnection, names: StreamNames) -> bool | None:
    """True if consumers took some of what was handed over last, False if all of it waits and newer entries were delivered since;
    None where that is not known."""
    try:
        found = [text_of(one) for one in listed(server.run("look", HANDED, [names.audit, names.stream], [names.group]))]
    except Unreadable:  # no such group, or nothing that it was asked for
        return None
    return {"taken": True, "passed": False}.get(found[0]) if found else None


_COPIED = "Each is replaced by a new entry with the old id in its field ~id, the last in order"
_HANDED = "Handed over to ~spooltop, with the same id and number of tries"
_NEVER = "consumers that only read new entries never get it"
_LATER_BY_COPY = "If it still waits later, --box new --copy puts it again as a new entry, as --copy does now."


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
