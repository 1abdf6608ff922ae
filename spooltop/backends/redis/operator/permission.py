"""Actions that a user of the server may do, found out without changing anything."""

from __future__ import annotations

from collections.abc import Mapping

from spooltop.errors import Refused, SpooltopError, Unavailable
from spooltop.model.capabilities import Capabilities
from spooltop.model.vocabulary import Action, Box

from ..client import ErrorReply
from ..stream_names import StreamNames
from ..trouble import Kind, error_of, trouble_of_reply
from .connection import OperatorConnection, listed, text_of

__all__ = ["SOURCES", "can_change", "check_master"]

SOURCES: Mapping[Action, tuple[Box, ...]] = {
    Action.REQUEUE: (Box.CUR, Box.REJECTED, Box.HELD, Box.NEW),
    Action.PURGE: (Box.CUR, Box.NEW, Box.REJECTED, Box.HELD),
    Action.HOLD: (Box.CUR, Box.NEW),
    Action.RELEASE: (Box.HELD,),
    Action.RESTORE: (Box.TRASH, Box.HELD, Box.REJECTED),
    Action.EMPTY: (Box.TRASH,),
}
"""Boxes that each action takes from. Undo is not among them: it reverses what the journal says."""

_DENIED = """
-- KEYS stream; ARGV group. Returns the commands that this user may not send, without trying one: the server logs what it refuses.
local denied = {}
for _, words in ipairs({{'XACK', KEYS[1], ARGV[1], '0-0'}, {'XDEL', KEYS[1], '0-0'}, {'EVAL', 'return 1', '0'}, {'ROLE'}}) do
  if not redis.acl_check_cmd(unpack(words)) then denied[#denied + 1] = words[1] end
end
return denied
"""
_NO_LOCKS = "a stream has no locks"
_REPLICA = "the server is a replica: it is changed on its master"


def can_change(server: OperatorConnection, names: StreamNames) -> Capabilities:
    """Returns what may be done to a group. The commands that it tries name the id 0-0, which no entry has. Raises
    ``Unavailable``."""
    try:
        denied = _denied(server, names)
        if "ROLE" not in denied:
            check_master(server)
        for what, command in (
            ("acknowledge messages", ("XACK", names.stream, names.group, "0-0")),
            ("delete messages", ("XDEL", names.stream, "0-0")),
            ("run scripts", ("EVAL", "return 1", 0)),
        ):
            refused = f"this user of the server may not {what} ({command[0]})"
            if command[0] in denied:
                return Capabilities.nothing(refused)
            (reply,) = server.try_all("look", command)
            if isinstance(reply, ErrorReply):
                if str(reply).startswith("READONLY"):
                    return Capabilities.nothing(_REPLICA)
                if str(reply).startswith("NOPERM"):
                    return Capabilities.nothing(refused)
                trouble = trouble_of_reply(str(reply))
                if trouble.kind is Kind.LATER:
                    raise error_of(trouble, server.address, "look")
                return Capabilities.nothing(trouble.line)
    except Refused as error:
        advice = f"; {error.advice}" if error.advice else ""
        return Capabilities.nothing(f"{error.what.removeprefix('look: ')}{advice}")
    return Capabilities({Action.UNLOCK: _NO_LOCKS}, boxes=SOURCES)


def _denied(server: OperatorConnection, names: StreamNames) -> frozenset[str]:
    """Returns which of the commands below this user may not send; none where the server does not tell (before 7.0)."""
    (reply,) = server.try_all("look", ("EVAL_RO", _DENIED, 1, names.stream, names.group))
    return frozenset() if isinstance(reply, ErrorReply) else frozenset(map(text_of, listed(reply)))


def check_master(server: OperatorConnection) -> None:
    """Raises ``Refused`` on a replica, ``Unavailable``. Where this user may not ask, the change itself finds out."""
    try:
        (reply,) = server.try_all("look", ("ROLE",))
    except Unavailable:
        raise
    except SpooltopError:
        return
    if not isinstance(reply, ErrorReply) and text_of(listed(reply)[0]) != "master":
        advice = "open its master instead"
        raise Refused(_REPLICA, path=server.address, advice=advice)
