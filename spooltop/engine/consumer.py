"""The consumer's side of a spool: claims, and every way they end."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Sequence
from typing import BinaryIO
from weakref import ref

from spooltop.errors import ClaimLost, SpooltopError, Unreadable
from spooltop.model.words import Box

from .aside import reject
from .backlog import Backlog
from .claim import Claim, as_file, warn_dropped
from .dirs import SpoolDirs
from .names import back_in_new, parse
from .presence import Hold
from .troubles import in_words

__all__ = ["Consumer"]


class Consumer:
    """Claims of one process on one spool, under one token at a time. Thread-safe."""

    def __init__(self, dirs: SpoolDirs, clock: Callable[[], float], host: str, *, durable: bool, max_attempts: int) -> None:
        self._dirs = dirs
        self.files = dirs.files
        self._clock = clock
        self._host = host
        self._durable = durable
        self._max_attempts = max_attempts
        self._sync_new: bool | None = None
        self._new = dirs.box(Box.NEW)
        self.cur = dirs.box(Box.CUR)
        self.backlog = Backlog(self._new, dirs.files, clock)
        self._lock = threading.RLock()
        self._hold: Hold | None = None
        self._open: dict[str, ref[Claim]] = {}
        self._failures: dict[str, int] = {}
        self._last_us = 0

    # Presence

    def hold(self) -> Hold:
        """The presence of this process, taken at the first call."""
        with self._lock:
            if self._hold is None:
                try:
                    self._hold = Hold.take(self._dirs, now=self._clock(), durable=self._durable)
                except OSError as error:
                    raise in_words(error, self._dirs.path, "claim") from error
            return self._hold

    @property
    def token(self) -> str | None:
        return self._hold.token if self._hold else None

    def forked(self) -> None:
        """In a forked child: everything that is held is the parent's."""
        self._lock = threading.RLock()
        if self._hold is not None:
            self._hold.abandon()
            self._hold = None
        self._open.clear()
        self.backlog.clear()

    def close(self) -> None:
        """Releases what is still claimed, with a warning, and lets go of the presence."""
        with self._lock:
            dropped = [claim for reference in list(self._open.values()) if (claim := reference()) is not None]
            for claim in dropped:
                self.drop(claim)
            self._open.clear()
            hold, self._hold = self._hold, None
            if hold is not None:
                mine = f",c={hold.token}."
                left = any(mine in name for name in self.files.scan(self.cur))
                hold.drop(self._dirs, remove=not left)
        if dropped:
            warn_dropped(*(claim.id for claim in dropped))

    # Claims

    def take(self, keep: object = None) -> Claim | None:
        """Claims the oldest message that may be; None where there is none. A lost race is not told, the next one is tried.

        ``keep`` is what must live as long as the claim does.
        """
        with self._lock:
            backlog, files, new, cur = self.backlog, self.files, self._new, self.cur
            while (name := self._oldest("claim")) is not None:
                hold = self._hold or self.hold()
                us = int(self._clock() * 1e6)
                self._last_us = us = us if us > self._last_us else self._last_us + 1
                claimed = name + hold.before_us + str(us) + hold.after_us
                try:
                    # Nobody can have this name: it holds a random token of 128 bits, and a time that the token never had.
                    # So there is nothing to replace, and plain rename(2) is as safe as RENAME_NOREPLACE, and quicker.
                    files.rename(name, new, claimed, cur)
                except OSError as error:
                    if not files.has_moved(name, new, claimed, cur, None):
                        if isinstance(error, FileNotFoundError):
                            continue
                        backlog.add(name)
                        raise in_words(error, self._dirs.path, "claim") from error
                claim = Claim(self, name, claimed, hold.token, self._failures.get(name, 0) if self._failures else 0, keep)
                self._open[claimed] = ref(claim)
                return claim
            return None

    def peek(self) -> str | None:
        """The id of what ``take`` would claim."""
        with self._lock:
            while (name := self._oldest("peek")) is not None:
                try:
                    self.files.stat(name, self._new)
                except FileNotFoundError:
                    continue
                self.backlog.add(name)
                return parse(name, claimed=False).id
            return None

    def _oldest(self, doing: str) -> str | None:
        try:
            return self.backlog.pop()
        except OSError as error:
            raise in_words(error, self._dirs.path, doing) from error

    def holds(self, claim: Claim) -> bool:
        """True while the claim is this process's to end: not after a fork, not after closing."""
        return self._hold is not None and self._hold.token == claim.token

    def open(self, claim: Claim) -> BinaryIO:
        self.check(claim)
        try:
            fd = self.files.open_read(claim.name, self.cur)
        except FileNotFoundError:
            raise self.lost(claim) from None
        except OSError as error:
            raise self.unreadable(error) from None
        return as_file(fd, self._dirs.path)

    def unreadable(self, error: OSError) -> Exception:
        """What to raise where the content could not be read."""
        if error.errno not in (errno.EINVAL, errno.ESPIPE, errno.EISDIR, errno.ELOOP, errno.ENXIO):
            return in_words(error, self._dirs.path, "read")
        return Unreadable("not a regular file", path=self._dirs.path, advice="reject it, and look who put it there")

    # Ends

    def ack(self, claim: Claim) -> None:
        if claim.done or self._failures:
            self._unlink(claim)
        else:  # the same without the detours: most of what a consumer does
            try:
                self.files.unlink(claim.name, self.cur)
            except OSError as error:
                self._must_be_gone(claim, error)
            claim.done = True
            self._open.pop(claim.name, None)
        if self._durable:
            self._settle()

    def ack_many(self, claims: Sequence[Claim]) -> None:
        """All of them, with one sync; ``ClaimLost`` at the end names those that were lost."""
        lost: list[Claim] = []
        for claim in claims:
            try:
                self._unlink(claim)
            except ClaimLost:
                lost.append(claim)
        if self._durable:
            self._settle()
        if lost:
            raise ClaimLost(
                f"{len(lost)} of {len(claims)} claims were taken away: {', '.join(repr(claim.id) for claim in lost[:10])}",
                names=[claim.name for claim in lost],
                path=self._dirs.path,
            )

    def _unlink(self, claim: Claim) -> None:
        self.check(claim)
        try:
            self.files.unlink(claim.name, self.cur)
        except OSError as error:
            self._must_be_gone(claim, error)
        self._forget(claim)
        self._failures.pop(claim.base, None)

    def _settle(self) -> None:
        try:
            self._sync_acks()
        except OSError as error:
            what = f"ack: done, but its sync failed ({os.strerror(error.errno or 0)})"
            raise SpooltopError(what, path=self._dirs.path, advice="after a power cut it may come again") from error

    def _must_be_gone(self, claim: Claim, error: OSError) -> None:
        if isinstance(error, FileNotFoundError):
            raise self.lost(claim) from None
        # A server may have done it and yet report an error.
        try:
            self.files.stat(claim.name, self.cur)
        except FileNotFoundError:
            return
        except OSError:
            pass  # the first error is the one to report
        raise in_words(error, self._dirs.path, "ack") from error

    def release(self, claim: Claim, delay: float) -> None:
        if claim.attempt >= self._max_attempts:
            self.reject(claim, f"given back after {claim.attempt} attempts")
            return
        self.check(claim)
        told = claim.told
        until = int((self._clock() + delay) * 1e6) if delay > 0 else None
        name = back_in_new(told, not_before=until)
        if not told.own:  # its name can carry neither
            self._count_failure(told.base)
            if until is not None:
                self.backlog.delay(name, until)
        try:
            self.files.move(claim.name, self.cur, name, self._new, inode=self._inode(claim))
        except FileNotFoundError:
            raise self.lost(claim) from None
        except FileExistsError:
            raise SpooltopError(
                f"{told.id!r} cannot go back: another message of that name is in new", path=self._dirs.path,
                advice="it stays in cur; requeue it when the other one is gone",
            ) from None  # fmt: skip
        except OSError as error:
            raise in_words(error, self._dirs.path, "release") from error
        self._forget(claim)
        try:
            with self._lock:
                self.backlog.add(name)
            self._sync(self._new)
        except OSError as error:
            what = f"release: done, but then {os.strerror(error.errno or 0)}"
            hint = "nothing is lost; after a power cut it may be claimed still"
            raise SpooltopError(what, path=self._dirs.path, advice=hint) from error

    def reject(self, claim: Claim, reason: str) -> None:
        self.check(claim)
        try:
            reject(
                self._dirs, claim.name, self._inode(claim), reason, operation=f"engine.{claim.token}", at=self._clock(),
                who=f"pid {os.getpid()} on {self._host}", attempt=claim.attempt, durable=self._durable,
            )  # fmt: skip
        except FileNotFoundError:
            raise self.lost(claim) from None
        except OSError as error:
            raise in_words(error, self._dirs.path, "reject") from error
        self._forget(claim)

    def _inode(self, claim: Claim) -> int:
        return self.files.stat(claim.name, self.cur).st_ino

    def drop(self, claim: Claim) -> None:
        """What the finaliser of a forgotten claim does."""
        try:
            self.release(claim, 0)
        except (ClaimLost, SpooltopError, OSError):
            self._forget(claim)  # it stays in cur and shows there; a finaliser has nobody to tell

    def check(self, claim: Claim) -> None:
        if claim.done:
            raise ClaimLost(f"the claim on {claim.id!r} has ended already", names=[claim.name], path=self._dirs.path)

    def lost(self, claim: Claim) -> ClaimLost:
        self._forget(claim)
        what, advice = f"the claim on {claim.id!r} was taken away", "drop what was done for it"
        return ClaimLost(what, names=[claim.name], path=self._dirs.path, advice=advice)

    def _forget(self, claim: Claim) -> None:
        claim.end()
        self._open.pop(claim.name, None)

    def _count_failure(self, name: str) -> None:
        if len(self._failures) >= 4096:
            self._failures.clear()  # only a hint against spinning: forgetting costs a few attempts more
        self._failures[name] = self._failures.get(name, 0) + 1

    def _sync_acks(self) -> None:
        self.files.sync_dir(self.cur)
        # Claimed and acked since the last commit, cur looks as if nothing had been there: btrfs writes nothing down for it, and
        # the message would be back in new.
        if self._sync_new is None:
            self._sync_new = not self.files.ordered(self.cur)
        if self._sync_new:
            self.files.sync_dir(self._new)

    def _sync(self, target: int) -> None:
        if self._durable:
            # Target first: cut off in between, the message is in both places and never in none.
            self.files.sync_dir(target)
            self.files.sync_dir(self.cur)
