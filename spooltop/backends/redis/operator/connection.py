"""Connection of an operator to its server: bounded in time and in bytes, with errors in one clear line."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TypeAlias

from spooltop.errors import SpooltopError, Unavailable, Unreadable
from spooltop.model.text import escape

from ..client import Endpoint, ErrorReply, Nonsense, RedisClient, Reply, WrongPassword
from ..trouble import error_of, trouble_of_connection, trouble_of_nonsense, trouble_of_reply

__all__ = ["OperatorConnection", "Word", "connection_to", "listed", "text_of", "whole"]

Word: TypeAlias = "str | bytes | int"

_DEEPEST = 3
_SECONDS = 5.0
_BYTES = 256 << 20
_PAUSES = (0.0, 0.1, 0.4, 1.0, 2.0)
"""Seconds before each time that a step is sent, which is safe to repeat."""


class OperatorConnection:
    """Server of one stream. ``address`` names the stream in errors, without a password. ``wait`` sleeps some seconds."""

    def __init__(self, client: RedisClient, address: str, *, wait: Callable[[float], None] | None = None) -> None:
        self._client = client
        self.address = address
        self._wait = wait or time.sleep
        self._sent_before = False

    def ask(self, what: str, *commands: Sequence[Word]) -> list[Reply]:
        """Returns the answers to these commands. Raises ``Unavailable`` (``answer_lost``: they may have been done), ``Refused``,
        ``SpoolFull``, ``Unreadable``, about the step ``what``; also for an error among the answers."""
        replies = self.try_all(what, *commands)
        for reply in replies:
            if isinstance(reply, ErrorReply):
                trouble = trouble_of_reply(str(reply))
                if self._sent_before:  # it may have been done then, whatever the server says now
                    raise Unavailable(f"{what}: {trouble.what}", path=self.address, advice=trouble.advice, answer_lost=True)
                raise error_of(trouble, self.address, what)
        return replies

    def try_all(self, what: str, *commands: Sequence[Word]) -> list[Reply]:
        """Returns the answers, with the errors among them. Raises as ``ask`` does for what is no answer. A connection that stood
        open may have been closed meanwhile: then it is made again, once. All commands here are safe to repeat."""
        stood, self._sent_before = self._client.connected, False
        try:
            try:
                return self._asked(commands)
            except ConnectionError:
                if not stood:
                    raise
                self._sent_before = self._client.sent
                return self._asked(commands)
        except (WrongPassword, ErrorReply) as error:
            raise error_of(trouble_of_reply(str(error)), self.address, what) from None
        except Nonsense as error:
            found = trouble_of_nonsense(str(error))
            raise Unavailable(f"{what}: {found.what}", path=self.address, advice=found.advice, answer_lost=True) from None
        except OSError as error:
            lost = self._sent_before or self._client.sent
            raise error_of(trouble_of_connection(error), self.address, what, answer_lost=lost) from None

    def _asked(self, commands: Sequence[Sequence[Word]]) -> list[Reply]:
        self._client.begin(_SECONDS, _BYTES)
        return self._client.ask(*commands)

    def run(self, what: str, script: str, keys: Sequence[Word], words: Sequence[Word]) -> Reply:
        """Runs a script, which is sent whole: nobody can have flushed it. Raises as ``ask`` does."""
        return self.ask(what, ("EVAL", script, len(keys), *keys, *words))[0]

    def run_again(self, what: str, script: str, keys: Sequence[Word], words: Sequence[Word]) -> Reply:
        """Runs a script that is safe to repeat, several times where the answer is lost. Raises as ``ask`` does."""
        lost: Unavailable | None = None
        for pause in _PAUSES:
            if lost is not None:
                self._wait(pause)
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


def connection_to(endpoint: Endpoint, shown: str) -> OperatorConnection:
    """Returns a connection that begins with its first command."""
    return OperatorConnection(RedisClient(endpoint, deepest=_DEEPEST, denials=True), shown)


def _unknown(error: SpooltopError, lost: Unavailable) -> Unavailable:
    """The error of a command that was sent before without an answer, and now fails for another reason."""
    return Unavailable(error.what, path=lost.path, advice=error.advice, answer_lost=True)


def listed(reply: Reply) -> list[Reply]:
    """Returns the answer as a list. Raises ``Unreadable`` for anything else."""
    if not isinstance(reply, list):
        raise _not_asked_for(reply)
    return reply


def whole(reply: Reply) -> int:
    """Returns the answer as a number, which a script may give as text. Raises ``Unreadable``."""
    if isinstance(reply, bytes) and reply.removeprefix(b"-").isdigit() and len(reply) < 20:
        return int(reply)
    if not isinstance(reply, int):
        raise _not_asked_for(reply)
    return reply


def text_of(reply: Reply) -> str:
    """Returns the answer as text, with bytes that are none kept as surrogates. Raises ``Unreadable``."""
    if not isinstance(reply, bytes):
        raise _not_asked_for(reply)
    return reply.decode("utf-8", "surrogateescape")


def _not_asked_for(reply: Reply) -> SpooltopError:
    return Unreadable(f"the server answered {escape(repr(reply)[:100])}, which is not what was asked for")
