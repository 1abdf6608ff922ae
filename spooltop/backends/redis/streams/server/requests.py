"""A server with streams, asked within limits of time and size; its failures are said in words."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from ...client import Endpoint, ErrorReply, NoHandshake, Nonsense, RedisClient, Reply, WrongPassword
from ...trouble import Kind, Trouble, trouble_of_connection, trouble_of_nonsense, trouble_of_reply

__all__ = ["PATIENCE", "Command", "ServerTrouble", "StreamServer", "told"]

Command = Sequence[str | bytes | int]
PATIENCE = 2.0
"""Seconds that one question may take in all."""
_DEEPEST = 5
_MOST = 1_000_000
"""Elements of an array: one entry may have so many fields and values."""
_BYTES = 64 << 20
_REST = 3.0
"""Seconds after a question that was not answered in time, in which none is asked."""


class ServerTrouble(Exception):
    """The server does not answer, or not as asked; the message says why and what to do, escaped."""

    def __init__(self, trouble: Trouble) -> None:
        super().__init__(trouble.line)
        self.what = trouble.what
        self.advice = trouble.advice


class StreamServer:
    """Connection to a server, for one thread. It connects again by itself."""

    def __init__(
        self, endpoint: Endpoint, *, patience: float = PATIENCE, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._client = RedisClient(endpoint, deepest=_DEEPEST, most=_MOST, denials=True)
        self._patience = patience
        self._monotonic = monotonic
        self._rest_until = 0.0
        self._timed_out = trouble_of_connection(TimeoutError())

    def ask(self, *commands: Command, seconds: float | None = None, at_most: int = _BYTES) -> list[Reply]:
        """Returns the answers to these commands, sent together; a command that failed has an ``ErrorReply``. Raises
        ``ServerTrouble``. After a question that was not answered in time it raises that at once for some seconds, so that nobody
        who waits for the reader waits for one question after another."""
        if self._monotonic() < self._rest_until:
            raise ServerTrouble(self._timed_out)
        with told(), self._resting(self._patience if seconds is None else seconds) as allowed:
            return self._asked(commands, allowed, at_most)

    def _asked(self, commands: Sequence[Command], seconds: float, at_most: int) -> list[Reply]:
        used_before = self._client.connected
        self._client.begin(seconds, at_most)
        try:
            return self._client.ask(*commands)
        except TimeoutError:
            raise
        except OSError:
            if not used_before:
                raise
        self._client.begin(seconds, at_most)  # the server was restarted, or closed an idle connection
        return self._client.ask(*commands)

    @contextmanager
    def _resting(self, seconds: float) -> Iterator[float]:
        try:
            yield seconds
        except TimeoutError as error:
            what = f"no answer from the server within {seconds:g} s"
            late = Trouble(Kind.AWAY, what, "look at the network, and at its log")
            self._timed_out = trouble_of_connection(error) if isinstance(error, NoHandshake) else late
            self._rest_until = self._monotonic() + _REST
            raise ServerTrouble(self._timed_out) from None

    @property
    def ends(self) -> tuple[str, str] | None:
        """Both ends of the TCP connection, the own one first; None where it has none."""
        return self._client.ends

    def close(self) -> None:
        self._client.close()


@contextmanager
def told() -> Iterator[None]:
    """Raises what goes wrong with a server as ``ServerTrouble``, in words without a secret."""
    try:
        yield
    except (WrongPassword, ErrorReply) as error:
        raise ServerTrouble(trouble_of_reply(str(error))) from None
    except Nonsense as nonsense:
        raise ServerTrouble(trouble_of_nonsense(str(nonsense))) from None
    except OSError as error:
        raise ServerTrouble(trouble_of_connection(error)) from None
    except (IndexError, KeyError, TypeError, ValueError) as error:  # an answer of another shape
        raise ServerTrouble(trouble_of_nonsense(f"not what was asked for ({type(error).__name__})")) from None
