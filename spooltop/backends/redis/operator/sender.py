"""Sends a batch of changes to the server, as one step; finds out what it did where its answer was lost."""

from __future__ import annotations

from collections.abc import Sequence

from spooltop.errors import SpooltopError, Unreadable
from spooltop.model.operations.plan import Outcome

from ..client import Reply
from ..stream_names import StreamNames
from . import scripts
from .changes import StreamChange
from .connection import OperatorConnection, Word, listed, text_of
from .record import BatchIntent, Changed

__all__ = ["StepSender"]

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
    words = [text_of(word) for word in listed(reply)]
    if words == ["settled"]:
        return (_NOT_DONE,) * count
    if len(words) != 3 * count:
        raise Unreadable(f"the server answered {len(words)} words for {count} changes")
    return tuple(Changed(Outcome(words[at]), words[at + 1], words[at + 2]) for at in range(0, len(words), 3))
