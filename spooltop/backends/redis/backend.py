"""Backend of Redis streams: ``redis://``, ``rediss://`` and ``unix://``."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import cast

from msgspec import Struct

from spooltop.model import Environ, NotASpool, Queue, QueueOptions, SpooltopError, Target, Unavailable, UsageError, escape
from spooltop.model.backend import Capabilities, OpenAs, OpenedOperator, OpenedTarget, OpenSettings

from ..surroundings import Surroundings
from .client import Login, StreamAddress
from .stream_names import StreamNames
from .streams.server import OperatorConnection, PidJudge, can_change, find_groups, resolved

# Rights of a user of the server, asked now and then and kept meanwhile.

_KEPT = 30.0
"""Seconds for which the rights of a user are not asked again."""


class PermissionProbe(Struct):
    """Finds out now and then what a user of the server may do to a group. For one thread."""

    _server: OperatorConnection
    _found: Capabilities = Capabilities()
    _until: float = 0.0

    def found(self) -> Capabilities:
        """Returns what may be done, as of some seconds ago."""
        if time.monotonic() >= self._until:
            try:
                self._found, self._until = can_change(self._server), time.monotonic() + _KEPT
            except SpooltopError as error:  # that passes: it is asked again at the next look
                return Capabilities.nothing(f"{error.what}; {error.advice}")
            finally:
                self._server.close()
        return self._found


_THIS_HOST = "this-host"
"""Value of the setting ``claims.pids``: numbers in the names of consumers of this host are pids."""


class RedisBackend(Struct):
    """Implements ``model.backend.Backend``. A target is one consumer group of one stream. ``_around`` makes what answers
    questions about processes, for a setting ``claims.pids``."""

    _around: Callable[[str], Surroundings]
    name: str = "redis"

    def identify(self, spec: str, asked: OpenAs) -> Target:
        """Reads the address, and asks for the group where it names none or a pattern; all else is asked when it is opened. Raises
        ``UsageError``."""
        address = StreamAddress.parse(spec)
        if address.group is None or address.pattern:
            with suppress(NotASpool, Unavailable):  # whoever opens it is told
                address = resolved(address, Login.from_settings(asked.environ))
        return Target("stream", address.shown, address.shown, address, None, "who holds the claim")

    def open(self, target: Target, settings: OpenSettings) -> OpenedTarget:
        from socket import gethostname

        from .streams.reader import StreamReader

        login = Login.from_settings(settings.words)
        address = resolved(cast("StreamAddress", target.where), login)
        assert address.group is not None
        endpoint, names = address.endpoint(login), StreamNames(address.stream, address.group)
        judge = PidJudge(self._around(settings.pids), gethostname(), vouched=settings.pids == _THIS_HOST)
        probe = PermissionProbe(OperatorConnection(endpoint, address.shown, names))
        maxlen = _maxlen(settings.words)
        reader = StreamReader(endpoint, names, address.shown, judge, settings, maxlen=maxlen, capabilities=probe.found)

        def operator() -> OpenedOperator:
            from .operator.operator import StreamOperator

            made = StreamOperator(
                endpoint, names, address.shown, judge, clock=settings.clock, state=settings.state,
                read_only=settings.read_only,
            )
            return OpenedOperator(made, keeps_trash=True)

        return OpenedTarget(reader, operator)

    def queue(self, target: Target, options: QueueOptions) -> Queue:
        from .queue.group_consumer import connect
        from .queue.stream_queue import StreamQueue

        address = cast("StreamAddress", target.where)
        if address.pattern:
            advice = "name one; %2A is a star in a name"
            raise UsageError(f"{options.action}: the name stands for several streams", advice, path=address.shown)
        connection = connect(address.url, Login.from_settings(options.words()))
        make = partial(StreamQueue, connection, address.stream, address.group)
        if options.create:
            if address.group is None:
                raise UsageError(f"{options.action}: no group is named", f"write {address.shown}/GROUP", path=address.shown)
            make = partial(StreamQueue.create, connection, address.stream, address.group)
        return make(address=address.shown, durable=options.durable)


def find_targets(spec: str, words: Environ) -> list[str]:
    """Returns the URLs, with their secrets, of all groups that ``spec`` stands for: one without a group stands for all groups of
    its stream, a pattern such as ``jobs:*`` for those of all streams that it matches. Raises ``SpooltopError``."""
    address = StreamAddress.parse(spec)
    if address.group is not None and not address.pattern:
        return [spec]
    return [one.spec for one in find_groups(address, Login.from_settings(words))]


def _maxlen(words: Environ) -> int:
    """Returns the number of entries to which producers trim a stream, as the settings say; 0 where they do not."""
    text = words.get("SPOOLTOP_STREAM_MAXLEN", "").strip() or "0"
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        what = f"SPOOLTOP_STREAM_MAXLEN={escape(text)} is not a whole number"
        raise UsageError(what, "write SPOOLTOP_STREAM_MAXLEN=100000")
    return int(text)
