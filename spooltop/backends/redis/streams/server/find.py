"""Finds the streams and groups that an address names, and says which there are where it names none."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence

from spooltop.errors import NotASpool, Unavailable
from spooltop.model.text import escape
from spooltop.records import replace

from ...address import StreamAddress
from ...client import ErrorReply, Reply
from ...urls import Login
from .replies import fields_of, list_of, text_of
from .requests import ServerTrouble, StreamServer, told

__all__ = ["find_groups", "resolved"]

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
    if address.pattern:
        found = find_groups(address, login)
        if len(found) == 1:
            return found[0]
        raise NotASpool("the name stands for several groups", path=address.shown, advice=_name_one(one.name for one in found))
    server = StreamServer(address.endpoint(login))
    try:
        groups = _groups(server, address)
    except ServerTrouble as trouble:
        if address.group is not None:
            return address
        raise _unavailable(trouble, address) from None
    finally:
        server.close()
    if address.group is None and len(groups) == 1:
        return replace(address, group=groups[0])
    if address.group in groups:
        return address
    if not groups:
        raise _without_groups(address)
    what = "the stream has several groups" if address.group is None else "the stream has no such group"
    raise NotASpool(what, path=address.shown, advice=_name_one(groups))


def find_groups(address: StreamAddress, login: Login) -> list[StreamAddress]:
    """Returns the addresses of all groups that an address stands for, by name: those of its stream, or of all streams that its
    pattern matches. Raises ``NotASpool`` where there is none, and ``Unavailable``."""
    server = StreamServer(address.endpoint(login))
    try:
        if not address.pattern:
            groups = sorted(_groups(server, address))
            if not groups:
                raise _without_groups(address)
            return [replace(address, group=group) for group in groups]
        found = [
            replace(address, stream=name, group=group, pattern=False)
            for name, groups in _groups_of_all(server, _matching(server, address))
            for group in sorted(groups)
            if address.group is None or address.group == group
        ]
    except ServerTrouble as trouble:
        raise _unavailable(trouble, address) from None
    finally:
        server.close()
    if len(found) > _GROUPS_AT_MOST:
        what = f"the name stands for {len(found):,} groups, more than can be watched at once"
        raise NotASpool(what, path=address.shown, advice="write a narrower pattern")
    if not found:
        what = "no stream of such a name has a group" if address.group is None else "no stream of such a name has such a group"
        raise NotASpool(what, path=address.shown, advice="redis-cli --scan --type stream lists the streams")
    return found


def _name_one(names: Iterable[str]) -> str:
    known = sorted(names)
    more = ", …" if len(known) > _NAMED else ""
    return f"name one of them: {', '.join(map(escape, known[:_NAMED]))}{more}"


def _without_groups(address: StreamAddress) -> NotASpool:
    advice = f"spooltop init {address.server}#STREAM/GROUP makes one"
    return NotASpool("the stream has no consumer group", path=address.shown, advice=advice)


def _unavailable(trouble: ServerTrouble, address: StreamAddress) -> Unavailable:
    return Unavailable(trouble.what, path=address.shown, advice=trouble.advice)


def _groups_of_all(server: StreamServer, names: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Yields the groups of each stream. One that is gone meanwhile, or that this user may not look at, has none."""
    for start in range(0, len(names), _TOGETHER):
        some = names[start : start + _TOGETHER]
        replies = server.ask(*(("XINFO", "GROUPS", name) for name in some))
        with told():
            for name, reply in zip(some, replies, strict=True):
                yield name, [] if isinstance(reply, ErrorReply) else _names_of(reply)


def _groups(server: StreamServer, address: StreamAddress) -> list[str]:
    (reply,) = server.ask(("XINFO", "GROUPS", address.stream))
    if isinstance(reply, ErrorReply):
        if "no such key" in str(reply):
            raise NotASpool("there is no such stream", path=address.shown, advice=_there_are(server))
        if str(reply).startswith("WRONGTYPE"):
            raise NotASpool("that key is not a stream", path=address.shown, advice=_there_are(server))
    with told():
        return _names_of(reply)


def _names_of(reply: Reply) -> list[str]:
    return [text_of(fields_of(one)["name"]) for one in list_of(reply)]


def _there_are(server: StreamServer) -> str:
    """Says which streams there are, as far as a short search finds them."""
    found: set[str] = set()
    try:
        for _, names in zip(range(_STEPS), _scanned(server, "*"), strict=False):
            found.update(map(escape, names))
            if len(found) > _NAMED:
                break
    except ServerTrouble:
        return "look at the name"
    if not found:
        return "spooltop init ADDRESS#STREAM/GROUP makes one"
    more = ", …" if len(found) > _NAMED else ""
    return f"there are {', '.join(sorted(found)[:_NAMED])}{more}" if len(found) > 1 else f"there is {found.pop()}"


def _matching(server: StreamServer, address: StreamAddress) -> list[str]:
    """Returns the names of all streams that a pattern matches. Raises ``NotASpool`` where there are too many keys to look at."""
    found: set[str] = set()
    until = time.monotonic() + _PATIENCE
    for steps, names in enumerate(_scanned(server, address.stream), 1):
        found.update(names)
        if time.monotonic() > until:
            what = f"the server has too many keys to search for a pattern: {steps * _STEP:,} in {_PATIENCE:g} s were not all"
            raise NotASpool(what, path=address.shown, advice="name the streams")
    return sorted(found)


def _scanned(server: StreamServer, pattern: str) -> Iterator[list[str]]:
    """Yields names of streams, for each step through the keys; the side streams of spooltop are left out."""
    at: bytes | str = "0"
    while True:
        (reply,) = server.ask(("SCAN", at, "MATCH", pattern, "COUNT", _STEP, "TYPE", "stream"))
        with told():
            after, names = list_of(reply)
            at = text_of(after)
            found = [text_of(one) for one in list_of(names)]
        yield [name for name in found if ":spooltop:" not in name]
        if at == "0":
            return
