"""Puts messages into a stream."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from spooltop.engine.arguments import check_bytes, check_text
from spooltop.engine.producing.producer import MessageId
from spooltop.engine.producing.tmp_writer import Data, check_data
from spooltop.errors import PutUnknown, Unavailable, UsageError
from spooltop.model.queue import mover_of

from ..stream_names import StreamNames
from . import scripts
from .connection import translated, wait_for_disk
from .stream_claim import DATA, SOURCE

if TYPE_CHECKING:
    from redis import Redis

AT_ONCE = 100
"""Messages in one command: the server answers nobody else meanwhile."""


class StreamProducer:
    """Adds entries to a stream. ``address`` names it in errors; ``key_window`` as in ``StreamQueue``. With ``waits`` each put
    waits for the disk of the server."""

    def __init__(self, connection: Redis, names: StreamNames, address: str, key_window: float | None, *, waits: bool) -> None:
        self._redis: Any = connection
        self._names = names
        self._address = address
        self._key_window = key_window
        self._waits = waits
        self._put, self._put_moved = map(self._redis.register_script, (scripts.PUT, scripts.PUT_MOVED))

    def put(self, data: Data, source: str | None, key: str | None) -> str:
        """Adds a message; see ``StreamQueue.put``."""
        fields = _fields(data, source)
        if key is None:
            return self._put_group([fields], ())[0]
        check_text("key", key)
        window = 0 if self._key_window is None else max(1, int(self._key_window * 1000))
        with self._adding(key=key):
            pipe = self._redis.pipeline(transaction=False)
            if (moved := mover_of(key)) is not None:
                self._put_moved(keys=[self._names.stream, self._names.moved(moved[0])], args=[moved[1], *fields], client=pipe)
            else:
                self._put(keys=[self._names.stream, self._names.put_key(key)], args=[window, *fields], client=pipe)
            ((found, duplicate),) = self._executed(pipe)
        return MessageId(found.decode(), duplicate=bool(duplicate))

    def was_put(self, key: str) -> bool:
        """Returns whether ``key`` has a message."""
        moved = mover_of(key)
        with translated(self._address, "put"):
            if moved is not None:
                return bool(self._redis.hexists(self._names.moved(moved[0]), moved[1]))
            return bool(self._redis.exists(self._names.put_key(key)))

    def forget(self, key: str) -> None:
        """Forgets a key."""
        moved = mover_of(key)
        with translated(self._address, "put"):
            if moved is not None:
                self._redis.hdel(self._names.moved(moved[0]), moved[1])
            else:
                self._redis.delete(self._names.put_key(key))

    def forget_mover(self, mover: str) -> None:
        """Forgets the keys of a mover."""
        with translated(self._address, "put"):
            self._redis.delete(self._names.moved(mover))

    def put_many(self, messages: Iterable[Data], source: str | None) -> list[str]:
        """Adds messages in groups; see ``StreamQueue.put_many``."""
        ids: list[str] = []
        group: list[list[bytes]] = []
        for data in messages:
            group.append(_fields(data, source))
            if len(group) == AT_ONCE:
                ids += self._put_group(group, ids)
                group = []
        return ids + self._put_group(group, ids) if group else ids

    def _put_group(self, group: Sequence[Sequence[bytes]], before: Sequence[str]) -> list[str]:
        with self._adding(before=before):
            pipe = self._redis.pipeline(transaction=len(group) > 1 and not self._waits)
            for fields in group:
                pipe.execute_command("XADD", self._names.stream, "*", *fields)
            return [id.decode() for id in self._executed(pipe)]

    def _executed(self, pipe: Any) -> list[Any]:
        """Returns the answers to the commands of ``pipe``, when they are on disk as far as that is asked for."""
        if not self._waits:
            return list(pipe.execute())
        wait_for_disk(pipe)
        answers: list[Any]
        *answers, (local, _) = pipe.execute()
        if not local:
            what = "put: the message arrived, but the disk of the server did not answer in time"
            raise PutUnknown(what, id="", path=self._address, advice="look at the disk of the server")
        return answers

    @contextmanager
    def _adding(self, key: str | None = None, before: Sequence[str] = ()) -> Iterator[None]:
        """Raises ``PutUnknown`` if the answer was lost after the command may have been sent."""
        try:
            with translated(self._address, "put"):
                yield
        except PutUnknown:
            raise
        except Unavailable as found:
            if not found.answer_lost or key is not None:  # with a key the same put again is safe
                raise
            what = f"{found.what}; the message may or may not have arrived"
            advice = "use key= for puts that are safe to repeat"
            raise PutUnknown(what, id="", ids=before, path=self._address, advice=advice) from None


def _fields(data: Data, source: str | None) -> list[bytes]:
    check_data(data)
    if source is not None:
        check_text("source", source)
    content = bytes(data) if isinstance(data, (bytes, bytearray, memoryview)) else data.read()
    check_bytes("data", content, "open the file in binary mode")
    if source == "":
        raise UsageError("put: an empty source", advice="leave it out")
    return [DATA, content, *([] if source is None else [SOURCE, source.encode(errors="surrogateescape")])]
