"""Backend of Redis streams: ``redis://``, ``rediss://`` and ``unix://``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from functools import partial
from time import monotonic
from typing import cast

from msgspec import Struct

from spooltop.model import Environ, NotASpool, Queue, QueueOptions, Target, Unavailable, UsageError, escape
from spooltop.model.backend import OpenAs, OpenedOperator, OpenedTarget, OpenSettings

from ..surroundings import Surroundings
from .client import ErrorReply, Login, StreamAddress, endpoint, fields_of, list_of, text_of
from .stream_names import StreamNames
from .streams.server import PidJudge, StreamServer, translate_errors

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
        where, names = endpoint(address.url, login), StreamNames(address.stream, address.group)
        judge = PidJudge(self._around(settings.pids), gethostname(), vouched=settings.pids == _THIS_HOST)
        reader = StreamReader(where, names, address.shown, judge, settings, maxlen=_maxlen(settings.words))

        def operator() -> OpenedOperator:
            from .operator.operator import StreamOperator

            made = StreamOperator(
                where, names, address.shown, judge, clock=settings.clock, state=settings.state,
                read_only=settings.read_only,
            )
            return OpenedOperator(made, keeps_trash=True)

        return OpenedTarget(reader, operator)

    def queue(self, target: Target, options: QueueOptions) -> Queue:
        from .stream_queue import StreamQueue, connect

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


# Finds the streams and groups that an address names, and says which there are where it names none.

_STEPS = 20
"""Steps through the keys for an advice."""
_STEP = 1_000
"""Keys that one step looks at."""
_PATIENCE = 5.0
"""Seconds that a search for a pattern may take."""
_TOGETHER = 100
_NAMED = 10
_GROUPS_AT_MOST = 1_000


def resolved(address: StreamAddress, login: Login) -> StreamAddress:
    """Returns the address with its group: the only one of the stream, where it names none. A group that is named is taken as it
    is while the server does not answer. Raises ``NotASpool`` and ``Unavailable``."""
    named = address.group is not None and not address.pattern
    try:
        found = find_groups(address, login)
    except Unavailable:
        if named:
            return address
        raise
    chosen = [one for one in found if not named or one.group == address.group]
    if len(chosen) == 1:
        return chosen[0]
    what = "the name stands for several groups" if address.pattern else "the stream has several groups"
    names = sorted(escape(one.name if address.pattern else one.group or "") for one in found)
    advice = f"name one of them: {', '.join(names[:_NAMED])}{', …' if len(names) > _NAMED else ''}"
    raise NotASpool("the stream has no such group" if named else what, advice, path=address.shown)


def find_groups(address: StreamAddress, login: Login) -> list[StreamAddress]:
    """Returns the addresses of all groups that an address stands for, by name: those of its stream, whatever group it names, or
    of all streams that its pattern matches. Raises ``NotASpool`` where there is none, and ``Unavailable``."""
    with closing(StreamServer(endpoint(address.url, login), address.shown)) as server:
        found = [
            address.replace(stream=name, group=group, pattern=False)
            for name, groups in _groups(server, address, _matching(server, address) if address.pattern else [address.stream])
            for group in sorted(groups)
            if not address.pattern or address.group in (None, group)
        ]
    if not address.pattern:
        if not found:
            advice = f"spooltop init {address.server}#STREAM/GROUP makes one"
            raise NotASpool("the stream has no consumer group", advice, path=address.shown)
        return found
    if len(found) > _GROUPS_AT_MOST:
        what = f"the name stands for {len(found):,} groups, more than can be watched at once"
        raise NotASpool(what, "write a narrower pattern", path=address.shown)
    if not found:
        what = "no stream of such a name has a group" if address.group is None else "no stream of such a name has such a group"
        raise NotASpool(what, "redis-cli --scan --type stream lists the streams", path=address.shown)
    return found


_NO_STREAM = {"no such key": "there is no such stream", "WRONGTYPE": "that key is not a stream"}


def _groups(server: StreamServer, address: StreamAddress, names: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Yields the groups of each stream. One that a pattern matched has none if it is gone meanwhile, or this user may not look at
    it; else ``NotASpool`` or ``Unavailable`` says so."""
    for start in range(0, len(names), _TOGETHER):
        some = names[start : start + _TOGETHER]
        for name, reply in zip(some, server.ask(*(("XINFO", "GROUPS", name) for name in some)), strict=True):
            if isinstance(reply, ErrorReply):
                if address.pattern:
                    continue
                if what := next((what for word, what in _NO_STREAM.items() if word in str(reply)), ""):
                    raise NotASpool(what, _there_are(server), path=address.shown)
            with translate_errors(server.address):
                yield name, [text_of(fields_of(one)["name"]) for one in list_of(reply)]


def _there_are(server: StreamServer) -> str:
    """Says which streams there are, as far as a short search finds them."""
    found: set[str] = set()
    try:
        for _, names in zip(range(_STEPS), _scanned(server, "*"), strict=False):
            found.update(map(escape, names))
            if len(found) > _NAMED:
                break
    except Unavailable:
        return "look at the name"
    if not found:
        return "spooltop init ADDRESS#STREAM/GROUP makes one"
    more = ", …" if len(found) > _NAMED else ""
    return f"there are {', '.join(sorted(found)[:_NAMED])}{more}" if len(found) > 1 else f"there is {found.pop()}"


def _matching(server: StreamServer, address: StreamAddress) -> list[str]:
    """Returns the names of all streams that a pattern matches. Raises ``NotASpool`` where there are too many keys to look at."""
    found: set[str] = set()
    until = monotonic() + _PATIENCE
    for steps, names in enumerate(_scanned(server, address.stream), 1):
        found.update(names)
        if monotonic() > until:
            what = f"the server has too many keys to search for a pattern: {steps * _STEP:,} in {_PATIENCE:g} s were not all"
            raise NotASpool(what, "name the streams", path=address.shown)
    return sorted(found)


def _scanned(server: StreamServer, pattern: str) -> Iterator[list[str]]:
    """Yields names of streams, for each step through the keys; the side streams of spooltop are left out."""
    at: bytes | str = "0"
    while True:
        (reply,) = server.ask(("SCAN", at, "MATCH", pattern, "COUNT", _STEP, "TYPE", "stream"))
        with translate_errors(server.address):
            after, names = list_of(reply)
            at = text_of(after)
            found = [text_of(one) for one in list_of(names)]
        yield [name for name in found if ":spooltop:" not in name]
        if at == "0":
            return


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
