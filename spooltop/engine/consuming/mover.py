"""The source's side of ``spooltop move`` on a directory."""

from __future__ import annotations

import stat
from collections import Counter
from collections.abc import Callable, Sequence

from spooltop.errors import Unreadable
from spooltop.model.queue import InterruptedMove, QueueCounts
from spooltop.model.vocabulary import Box, Closing, Verdict, escape

from ..dirs import SpoolDirs
from ..names import Name, claimable, not_before, parse
from ..presence import CONSUMERS, HostView, judge, look
from ..system.files import remove_name, status_of
from ..system.syscalls import translating
from .consumer import Claim, Consumer
from .recovery import has_other_name


class SpoolMover(Closing):
    """Implements ``model.queue.MessageMover`` with ``consumer``, whose presence file says where the messages go."""

    def __init__(self, dirs: SpoolDirs, consumer: Consumer, clock: Callable[[], float], hosts: str) -> None:
        self._dirs = dirs
        self._files, self._cur = dirs.files, dirs.box(Box.CUR)
        self._consumer = consumer
        self._clock = clock
        self._hosts = hosts

    def counts(self) -> QueueCounts:
        now = int(self._clock() * 1e6)
        waiting: Counter[str] = Counter()
        claimed: Counter[Verdict] = Counter()
        with translating(self._dirs.path, "move"):
            for names in self._files.regular(self._dirs.box(Box.NEW)):
                for name in names:
                    if name[0] != ".":
                        ready = "delayed" if (not_before(name) or 0) > now else "ready"
                        waiting[ready if claimable(name) else "unclaimable"] += 1
            tokens = Counter(parse(name, claimed=True).token for name in self._files.list(self._cur) if name[0] != ".")
            claimed[Verdict.UNKNOWN] += tokens.pop(None, 0)  # of other programs
            tokens.pop(self._consumer.token, None)
            vantage = HostView.of(self._dirs, self._hosts)
            for token, count in tokens.items():
                presence = look(self._dirs, token or "")
                verdict = judge(presence, vantage)[0]
                if presence.moves_to is None or verdict is not Verdict.DEAD:
                    claimed[verdict] += count
        running, dead, unknown = (claimed[one] for one in (Verdict.ALIVE, Verdict.DEAD, Verdict.UNKNOWN))
        return QueueCounts(running=running, dead=dead, unknown=unknown, **waiting)

    def interrupted(self) -> Sequence[InterruptedMove]:
        with translating(self._dirs.path, "move"):
            consumers = self._dirs.private_dir(CONSUMERS)
            if consumers is None:
                return ()
            vantage = HostView.of(self._dirs, self._hosts)
            looked = {token: look(self._dirs, token) for token in self._files.list(consumers) if token[0] != "."}
            dead = {
                token: found.moves_to for token, found in looked.items()
                if found.moves_to is not None and judge(found, vantage)[0] is Verdict.DEAD
            }  # fmt: skip
            claims: dict[str, list[tuple[str, str]]] = {token: [] for token in dead}
            unreadable = {token for token, found in looked.items() if found.state == "unreadable"}
            for name in self._files.list(self._cur) if dead or unreadable else ():
                parsed = parse(name, claimed=True)
                if parsed.token in unreadable:  # perhaps a killed move has put it already
                    raise Unreadable(f"who holds {escape(name)} cannot be read", path=self._dirs.path, advice="try again")
                if parsed.token in claims:
                    claims[parsed.token].append((name, _key(parsed)))
            return [InterruptedMove(f"move:{token}", target, claims[token]) for token, target in dead.items()]

    def claim(self) -> Claim | None:
        claim = self._consumer.take()
        if claim is not None:
            self._settle()
        return claim

    def adopt(self, name: str) -> Claim | None:
        with translating(self._dirs.path, "move"):
            if self._is_back(name):
                return None
            claim = self._consumer.adopt(name)
        if claim is not None:
            self._settle()
        return claim

    def _settle(self) -> None:
        """Makes the claim durable before its message is put: back in ``new`` after a power cut, it would be put again."""
        with translating(self._dirs.path, "move"):
            self._consumer.sync_claims()

    def _is_back(self, name: str) -> bool:
        """Completes a way back to ``new`` that was cut off between two names of the file."""
        found = status_of(self._files, name, self._cur)
        if found is None:
            return True
        parsed = parse(name, claimed=True)
        if not stat.S_ISREG(found.st_mode) or found.st_nlink < 2 or not has_other_name(self._dirs, parsed, found.st_ino):
            return False
        self._files.unlink(name, self._cur)
        return True

    def discard(self, name: str) -> None:
        with translating(self._dirs.path, "move"):
            if remove_name(self._files, name, self._cur):  # else somebody was quicker, and found the same
                self._consumer.sync_claims()

    def key(self, claim: Claim) -> str:
        return _key(claim.parsed)

    def holds(self, _claim: Claim) -> bool:
        return True  # as long as this process runs

    def give_back(self, claim: Claim) -> None:
        with translating(self._dirs.path, "move"):
            self._consumer.give_back(claim)

    def leave(self, claim: Claim) -> None:
        self._consumer.leave(claim)

    def end(self, move: InterruptedMove) -> None:
        token = move.mover.rpartition(":")[2]
        with translating(self._dirs.path, "move"):
            consumers = self._dirs.private_dir(CONSUMERS)
            held = any(f",c={token}." in name for name in self._files.list(self._cur))
            if consumers is not None and not held:
                remove_name(self._files, token, consumers)

    def close(self) -> None:
        with translating(self._dirs.path, "close"):
            self._consumer.close()


def _key(claim: Name) -> str:
    return f"move:{claim.token}.{claim.claimed_us}"
