"""Connection of an operator to its server: bounded in time and in bytes, with errors in one clear line."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from redis.exceptions import RedisError

from spooltop.errors import Refused, SpooltopError, Unavailable, Unreadable
from spooltop.model.backend import Capabilities
from spooltop.model.operations.plan import Outcome
from spooltop.model.vocabulary import Action, Box

from ..client import (
    Endpoint,
    ErrorReply,
    Kind,
    Nonsense,
    RedisClient,
    Reply,
    error_of,
    list_of,
    text_of,
    trouble_of,
    trouble_of_reply,
)
from ..stream_names import StreamNames
from . import scripts
from .changes import BatchIntent, Changed, StreamChange

Word: TypeAlias = "str | bytes | int"

_SECONDS = 5.0
_BYTES = 256 << 20
_PAUSES = (0.0, 0.1, 0.4, 1.0, 2.0)
"""Seconds before each time that a step is sent, which is safe to repeat."""


class OperatorConnection:
    """Server of one stream, connected with the first command. ``address`` names the stream in errors, without a password."""

    def __init__(self, endpoint: Endpoint, address: str) -> None:
        self._client = RedisClient(endpoint)
        self.address = address

    def ask(self, what: str, *commands: Sequence[Word]) -> list[Reply]:
        """Returns the answers to these commands. Raises ``Unavailable`` (``answer_lost``: they may have been done), ``Refused``,
        ``SpoolFull``, ``Unreadable``, about the step ``what``; also for an error among the answers."""
        replies = self.try_all(what, *commands)
        for reply in replies:
            if isinstance(reply, ErrorReply):
                trouble = trouble_of_reply(str(reply))
                if self._client.sent_before:  # it may have been done then, whatever the server says now
                    raise Unavailable(f"{what}: {trouble.what}", path=self.address, advice=trouble.advice, answer_lost=True)
                raise error_of(trouble, self.address, what)
        return replies

    def try_all(self, what: str, *commands: Sequence[Word]) -> list[Reply]:
        """Returns the answers, with the errors among them. Raises as ``ask`` does for what is no answer. All commands here are
        safe to repeat."""
        client = self._client
        client.begin(_SECONDS, _BYTES)
        try:
            return client.ask(*commands)
        except (RedisError, Nonsense) as error:
            raise error_of(trouble_of(error), self.address, what, answer_lost=client.sent_before or client.sent) from None

    def run(self, what: str, script: str, keys: Sequence[Word], words: Sequence[Word]) -> Reply:
        """Runs a script, which is sent whole: nobody can have flushed it. Raises as ``ask`` does."""
        return self.ask(what, ("EVAL", script, len(keys), *keys, *words))[0]

    def run_again(self, what: str, script: str, keys: Sequence[Word], words: Sequence[Word]) -> Reply:
        """Runs a script that is safe to repeat, several times where the answer is lost. Raises as ``ask`` does."""
        lost: Unavailable | None = None
        for pause in _PAUSES:
            if lost is not None:
                time.sleep(pause)
            try:
                return self.run(what, script, keys, words)
            except SpooltopError as error:
                if not isinstance(error, Unavailable) or not (error.answer_lost or lost is not None):
                    if lost is None:
                        raise
                    raise _unknown(error, lost) from None
                lost = error if lost is None else _unknown(error, lost)
        assert lost is not None  # else it has returned or raised
        raise lost

    def close(self) -> None:
        self._client.close()


def _unknown(error: SpooltopError, lost: Unavailable) -> Unavailable:
    """The error of a command that was sent before without an answer, and now fails for another reason."""
    return Unavailable(error.what, path=lost.path, advice=error.advice, answer_lost=True)


# Actions that a user of the server may do, found out without changing anything.

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
    return frozenset() if isinstance(reply, ErrorReply) else frozenset(map(text_of, list_of(reply)))


def check_master(server: OperatorConnection) -> None:
    """Raises ``Refused`` on a replica, ``Unavailable``. Where this user may not ask, the change itself finds out."""
    try:
        (reply,) = server.try_all("look", ("ROLE",))
    except Unavailable:
        raise
    except SpooltopError:
        return
    if not isinstance(reply, ErrorReply) and text_of(list_of(reply)[0]) != "master":
        advice = "open its master instead"
        raise Refused(_REPLICA, path=server.address, advice=advice)


# Sends a batch of changes to the server, as one step; finds out what it did where its answer was lost.

_NOT_DONE = Changed(Outcome.SKIPPED, "cut short before anything was changed")
_REMEMBERED = 3600
"""Seconds for which the last step of an operation that ended is remembered: a copy of it may still be on its way."""


class StepSender:
    """Makes changes in the group ``names.group``."""

    def __init__(self, server: OperatorConnection, names: StreamNames) -> None:
        self._server = server
        self._names = names

    def perform(self, intent: BatchIntent) -> tuple[Changed, ...]:
        """Makes the changes of a batch. A step that is sent twice is done once. Raises ``Unavailable`` with ``answer_lost`` where
        it is not known if it was done; after any other error it was not."""
        keys, words = self._keys(intent.operation), self._words(intent.changes, "", intent)
        reply = self._server.run_again(str(intent.action), scripts.ACT, keys, words)
        return _changed(reply, len(intent.changes))

    def tried(self, changes: Sequence[StreamChange]) -> tuple[Changed, ...]:
        """Asks the server what it would do with these changes now. Changes nothing."""
        reply = self._server.run("look", scripts.ACT, self._keys(""), self._words(changes, "1", None))
        return _changed(reply, len(changes))

    def settled(self, intent: BatchIntent, *, look: bool) -> tuple[Changed, ...]:
        """Returns what a batch did that was cut off. Unless it only has a ``look``, what was not done by now is never done."""
        keys, words = [self._names.step(intent.operation)], [intent.step, "look" if look else ""]
        return _changed(self._server.run_again("undo", scripts.SETTLE, keys, words), len(intent.changes))

    def ended(self, operation: str) -> None:
        """Lets the server forget the last step of an operation after a while, if it answers now."""
        try:
            self._server.try_all("end", ("EXPIRE", self._names.step(operation), _REMEMBERED))
        except SpooltopError:
            return  # some kilobytes stay on the server

    def _keys(self, operation: str) -> list[Word]:
        names = self._names
        marker = names.step(operation)
        return [names.stream, names.held, names.rejected, names.trash, names.audit, marker, names.later, names.paused]

    def _words(self, changes: Sequence[StreamChange], dry: str, intent: BatchIntent | None) -> list[Word]:
        head: list[Word] = ["", 0, "", ""]
        if intent is not None:
            head = [intent.operation, intent.step, intent.user, str(intent.action)]
        words: list[Word] = [self._names.group, dry, *head]
        for one in changes:
            tries, _, why = one.notes.partition(" ")
            words += [one.verb.value, one.id, one.box, one.to, one.consumer, one.tries, one.delivered, one.data]
            words += [tries or one.tries, why]
        return words


def _changed(reply: Reply, count: int) -> tuple[Changed, ...]:
    words = [text_of(word) for word in list_of(reply)]
    if words == ["settled"]:
        return (_NOT_DONE,) * count
    if len(words) != 3 * count:
        raise Unreadable(f"the server answered {len(words)} words for {count} changes")
    return tuple(Changed(Outcome(words[at]), words[at + 1], words[at + 2]) for at in range(0, len(words), 3))
