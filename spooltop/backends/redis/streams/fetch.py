"""Fetches pieces of a stream and of the list of pending messages: short ones, without the contents where scripts may run."""

from __future__ import annotations

from spooltop.model.vocabulary import Box

from ..client import ErrorReply, Reply
from ..stream_names import StreamNames
from .rows import PendingEntry, claims_of, fields_by_name, heads_of
from .server import scripts
from .server.replies import list_of, number_of, text_of
from .server.requests import Command, StreamServer, told

__all__ = ["PAGE", "StreamFetcher", "id_after"]

PAGE = 100
"""Entries in one answer with their sizes."""
_CLAIMS_PAGE = 50
"""Claims in one answer, each with the size of its entry."""
_SKIPPED = 200
"""Entries that the server counts in one step: it reads their contents for that, some 3.5 µs each."""
_CLAIMS_SKIPPED = 500

Head = tuple[str, int | None, str | None]


def id_after(id: str) -> str:
    """Returns where a range begins that goes on behind ``id``; empty: at the beginning."""
    return f"({id}" if id else "-"


class StreamFetcher:
    """Reads one stream and one of its groups. Every method may raise ``ServerTrouble``."""

    def __init__(self, server: StreamServer, names: StreamNames) -> None:
        self._server = server
        self._names = names
        self._scripts = True
        self.entry_size = 0
        """Bytes of an entry in the mean, as far as that is known."""

    def heads(self, begin: str, end: str, most: int, *, back: bool = False) -> list[Head]:
        """Returns id, size and source of up to ``most`` entries between two ids, the last ones first with ``back``."""
        found: list[Head] = []
        while len(found) < most:
            wanted = min(self.fitting(PAGE), most - len(found))
            low, high = (begin, f"({found[-1][0]}") if back and found else (f"({found[-1][0]}" if found else begin, end)
            first, last = (high, low) if back else (low, high)
            plain: Command = ("XREVRANGE" if back else "XRANGE", self._names.stream, first, last, "COUNT", wanted)
            reply = self._run(scripts.HEADS_BACK if back else scripts.HEADS, (first, last, wanted), plain)
            with told():
                some = heads_of(reply)
            found += some
            if len(some) < wanted:
                break
        return found

    def skip(self, begin: str, end: str, most: int, *, back: bool = False) -> tuple[int, str]:
        """Returns how many entries, up to ``most``, lie between two ids, and the id of the last of them."""
        count, last = 0, ""
        while count < most:
            wanted = min(self.fitting(_SKIPPED), most - count)
            low, high = (begin, f"({last}") if back and last else (f"({last}" if last else begin, end)
            first, to = (high, low) if back else (low, high)
            plain: Command = ("XREVRANGE" if back else "XRANGE", self._names.stream, first, to, "COUNT", min(PAGE, wanted))
            reply = self._run(scripts.SKIP_BACK if back else scripts.SKIP, (first, to, wanted), plain)
            some, at = _skipped(reply)
            if some == 0:
                break
            count, last = count + some, at
            if some < (wanted if self._scripts else min(PAGE, wanted)):
                break
        return count, last

    def first_command(self, begin: str) -> Command:
        """Returns the command that asks for the first entry from an id on, to be sent along with others."""
        if self._scripts:
            return ("EVAL_RO", scripts.FIRST, 1, self._names.stream, begin)
        return ("XRANGE", self._names.stream, begin, "+", "COUNT", 1)

    def first_of(self, reply: Reply, begin: str) -> str | None:
        """Returns the id in the answer to ``first_command``; None where there is no entry."""
        if isinstance(reply, ErrorReply) and _refused(str(reply)):
            return self.skip(begin, "+", 1)[1] or None
        if isinstance(reply, list) and len(reply) == 3 and isinstance(reply[0], int):
            reply = reply[:2]
        return _skipped(reply)[1] or None

    def first_size(self, reply: Reply) -> int:
        """Returns the size of the entry in the answer to ``first_command``, as far as a script has told it."""
        return reply[2] if isinstance(reply, list) and len(reply) == 3 and isinstance(reply[2], int) else 0

    def fitting(self, most: int, size: int = 1 << 20) -> int:
        """Returns how many entries, up to ``most``, the server reads in one step of about ``size`` bytes."""
        return max(1, min(most, size // max(1, self.entry_size)))

    def claims(self, consumer: str, begin: str, most: int, now: float) -> list[PendingEntry]:
        """Returns up to ``most`` claims of a consumer, oldest id first, with size and source where scripts may run."""
        found: list[PendingEntry] = []
        while len(found) < most:
            wanted = min(self.fitting(_CLAIMS_PAGE), most - len(found))
            low = f"({found[-1].id}" if found else begin
            plain: Command = ("XPENDING", self._names.stream, self._names.group, low, "+", wanted, consumer)
            reply = self._run(scripts.CLAIMS, (self._names.group, low, wanted, consumer), plain)
            with told():
                some = claims_of(reply, now)
            found += some
            if len(some) < wanted:
                break
        return found

    def skip_claims(self, consumer: str, begin: str, most: int) -> tuple[int, str]:
        """Returns how many claims of a consumer, up to ``most``, come from an id on, and the id of the last of them."""
        count, last = 0, ""
        while count < most:
            wanted = min(_CLAIMS_SKIPPED, most - count)
            low = f"({last}" if last else begin
            plain: Command = ("XPENDING", self._names.stream, self._names.group, low, "+", wanted, consumer)
            some, at = _skipped(self._run(scripts.SKIP_CLAIMS, (self._names.group, low, wanted, consumer), plain))
            if some == 0:
                break
            count, last = count + some, at
            if some < wanted:
                break
        return count, last

    def delays(self, ids: list[str]) -> list[float | None]:
        """Returns when the delay of each message ends, in epoch seconds; None where it has none."""
        if not ids:
            return []
        (reply,) = self._server.ask(("ZMSCORE", self._names.later, *ids))
        if isinstance(reply, ErrorReply):
            return [None] * len(ids)
        with told():
            return [None if one is None else float(text_of(one)) / 1000 for one in list_of(reply)]

    def aside(self, box: Box, begin: str, most: int) -> list[tuple[str, dict[bytes, bytes]]]:
        """Returns up to ``most`` entries of a side stream, with their fields."""
        return self._entries(self.key_of(box), begin, "+", most)

    def entry(self, box: Box, id: str) -> dict[bytes, bytes] | None:
        """Returns the fields of one entry; None where it is gone."""
        found = self._entries(self.key_of(box), id, id, 1)
        return found[0][1] if found else None

    def key_of(self, box: Box) -> str:
        """Returns the name of the stream in which the messages of a box lie."""
        names = self._names
        return {Box.REJECTED: names.rejected, Box.HELD: names.held, Box.TRASH: names.trash}.get(box, names.stream)

    def claim(self, id: str) -> PendingEntry | None:
        """Returns who holds a message now, without its size; None where nobody does. Its time is relative to 0."""
        (reply,) = self._server.ask(("XPENDING", self._names.stream, self._names.group, id, id, 1))
        with told():
            found = claims_of(reply, 0.0)
        return found[0] if found else None

    def _entries(self, key: str, begin: str, end: str, most: int) -> list[tuple[str, dict[bytes, bytes]]]:
        (reply,) = self._server.ask(("XRANGE", key, begin, end, "COUNT", min(PAGE, most)))
        with told():
            return [(text_of(parts[0]), dict(fields_by_name(parts[1]))) for parts in map(list_of, list_of(reply))]

    def _run(self, script: str, words: Command, plain: Command) -> Reply:
        """Runs a script, or the plain command where this user or an old server does not let it run."""
        if self._scripts:
            (reply,) = self._server.ask(("EVAL_RO", script, 1, self._names.stream, *words))
            if not isinstance(reply, ErrorReply) or not _refused(str(reply)):
                return reply
            self._scripts = False
        (reply,) = self._server.ask(plain)
        return reply


def _refused(text: str) -> bool:
    return text.startswith(("NOPERM", "ERR unknown command")) or "permissions" in text


def _skipped(reply: Reply) -> tuple[int, str]:
    """Reads the answer to a script that counts, or the entries themselves."""
    with told():
        parts = list_of(reply)
        if len(parts) == 2 and isinstance(parts[0], int):
            return number_of(parts[0]), text_of(parts[1])
        return len(parts), text_of(list_of(parts[-1])[0]) if parts else ""
