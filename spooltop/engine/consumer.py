"""The consumer's side of a spool: claims, every way they end, their recovery, and their move to another queue."""

from __future__ import annotations

import errno
import os
import stat
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, BinaryIO, NoReturn, Self, TypeVar, cast
from weakref import ref

from msgspec import Struct, field

from spooltop.model import ClaimLost, Closed, InterruptedMove, QueueCounts, QueueIdentity, SpooltopError, Unreadable, UsageError
from spooltop.model.vocabulary import ASIDE, DIED, Box, Clock, Closing, Verdict, escape

from .arguments import AfterClose, Data, check_data, check_seconds, check_text, closed
from .dirs import OpenBoxes, SpoolDirs
from .files import IRREGULAR, open_regular
from .host import is_its_child, tell_in_children
from .mail import refuse_mail
from .names import LATEST, Name, claimable, in_cur, is_mail_name, not_before, parse, requeued_name
from .pausing import CHECK_EVERY, is_paused
from .presence import CONSUMERS, HostView, Presence, PresenceLock, judge, look
from .producer import IdGenerator, SourceFailed, TmpWriter, not_regular
from .set_aside import entries, reject
from .syscalls import translate, translating
from .waiting import Backlog

_T = TypeVar("_T")

# A claimed message, held by this process.


def backoff(attempt: int) -> float:
    """Seconds that a message waits after its ``attempt``-th failure: min(2^attempt, 300).

    >>> [backoff(n) for n in (1, 2, 10)]
    [2.0, 4.0, 300.0]
    """
    return float(min(2 ** min(attempt, 9), 300))


class HeldClaim:
    """A claim of any kind of queue. ``with claim:`` acks at the end, and releases with a delay on an exception."""

    __slots__ = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exception: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        claim: Any = self
        if claim.ended:
            if exception is None:
                self.check_closed()
        elif exception is None:
            claim.ack()
        else:
            try:
                # Whoever interrupts the program says nothing about the message.
                if isinstance(exception, Exception):
                    claim.release(backoff(claim.attempt), ended=type(exception).__name__)
                else:
                    claim.release(0)
            except ClaimLost:
                exception.add_note(f"the claim on {claim.id!r} was taken away meanwhile")

    def check_closed(self) -> None:
        """Raises ``Closed`` for a claim that its queue gave back when it was closed, so that it could not be acked."""

    def __reduce__(self) -> NoReturn:
        kind = type(self).__name__
        raise TypeError(f"a {kind} cannot be pickled: it belongs to the process that holds it; pass its id or its data on")

    __copy__ = __reduce__

    def __repr__(self) -> str:
        claim: Any = self
        return f"<{type(self).__name__} {claim.id!r} attempt {claim.attempt}{' ended' if claim.ended else ''}>"


class Claim(HeldClaim, Struct, eq=False, weakref=True):
    """A claimed message. ``with claim:`` acks at the end, and releases with a delay on an exception.

    ``name`` is its exact name in ``cur``: the compare-and-swap of every later step. If somebody took the claim away, each step
    raises ``ClaimLost``. A claim that is dropped without ack, release or reject goes back to ``new``, with a warning. So does a
    claim whose spool is closed; each later step, including the end of ``with claim:``, then raises ``Closed``. The process that
    claimed is the holder: in a forked child each step raises ``ClaimLost``, and leaving the block does nothing.

    >>> import tempfile
    >>> from spooltop.engine import Spool
    >>> with tempfile.TemporaryDirectory() as folder, Spool.create(folder) as spool:
    ...     id = spool.put(b"hello", source="greeter")
    ...     try:
    ...         with spool.claim() as claim:
    ...             raise ValueError(claim.data)
    ...     except ValueError:
    ...         ("back in new, for 2 seconds", spool.depth(), spool.claim())
    ('back in new, for 2 seconds', 1, None)
    """

    _consumer: Consumer
    base: str
    name: str
    _failed: int
    _keep: object  # a spool that its owner lets go of stays open for the claims that he holds
    ended: bool = True  # until its consumer knows it
    _parsed: Name | None = None

    @property
    def parsed(self) -> Name:
        """Parsed name of the claim; parsed on first use."""
        parsed = self._parsed
        if parsed is None or parsed.raw != self.name:  # another thread may have taken a new token and renamed it
            parsed = self._parsed = parse(self.name, claimed=True)
        return parsed

    @property
    def token(self) -> str | None:
        """Token of the consumer that holds it."""
        return self.parsed.token

    @property
    def id(self) -> str:
        """Id of the message, which stays the same for its whole life."""
        return self.parsed.id if "," in self.base else self.base  # without attributes the id is all of the name

    @property
    def source(self) -> str | None:
        """Producer of the message; None if the name does not contain it."""
        return self.parsed.source if "," in self.base else None

    @property
    def attempt(self) -> int:
        """Number of this attempt, from 1. For a foreign message only the attempts of this process are known."""
        attempts = self.parsed.attempts
        return 1 + (self._failed if attempts is None else attempts)

    @property
    def data(self) -> bytes:
        """Content of the whole message, read at each access. Raises ``ClaimLost``, and ``Unreadable`` if it is not a regular
        file."""
        return self._consumer.step(self, "read", _content)

    def open(self) -> BinaryIO:
        """Opens the message as a file for reading, for large messages. Raises ``ClaimLost`` if it is gone, ``Unreadable`` if it
        is not a regular file.

        >>> import tempfile
        >>> from spooltop.engine import Spool
        >>> with tempfile.TemporaryDirectory() as folder, Spool.create(folder) as spool:
        ...     id = spool.put(b"head and body")
        ...     with spool.claim() as claim, claim.open() as file:
        ...         file.read(4)
        b'head'
        """
        return self._consumer.step(self, "read", _open)

    def ack(self) -> None:
        """Acknowledges the message: it is gone when this returns (durable: also after power loss)."""
        self._consumer.ack(self)

    def release(self, delay: float = 0, *, data: Data | None = None, ended: str | None = None) -> None:
        """Moves the message back to ``new``, to be claimed again after ``delay`` seconds, and counts the attempt. At the limit of
        attempts the message is rejected instead. ``ended`` says how the attempt ended (``exit-1``, the class of an exception): it
        is written into the name, cut to 24 bytes, and shown to operators.

        ``data`` replaces the content, as bytes or a binary file: the remaining part of a job, for example. It is written to its
        own file and synced. The file then changes places with the claim in one step (``renameat2(2)`` with RENAME_EXCHANGE), and
        only then does the claim go back. After a crash at any point the message exists once, with the old content or the new; a
        leftover is a file in ``tmp`` that is never delivered. If that step is not supported (NFS, some FUSE), ``Refused`` is
        raised, and the claim is still held with the old content, as it is after ``SpoolFull``. After an error in a later step it
        is held with the new content.

        >>> import tempfile
        >>> from spooltop.engine import Spool
        >>> with tempfile.TemporaryDirectory() as folder, Spool.create(folder) as spool:
        ...     id = spool.put(b"rows 1 to 900")
        ...     spool.claim().release(data=b"rows 600 to 900")
        ...     with spool.claim() as claim:
        ...         (claim.id == id, claim.data, claim.attempt)
        (True, b'rows 600 to 900', 2)
        """
        consumer = self._consumer
        if data is not None:
            check_seconds("delay", delay, or_none=False)
            check_data(data)
            consumer.rewrite(self, data)
        consumer.release(self, delay, ended)

    def reject(self, reason: str, *, ended: str | None = None) -> None:
        """Sets the message aside in ``rejected`` for an operator, with the reason and with how the attempt ended.

        >>> import os, tempfile
        >>> from spooltop.engine import Spool
        >>> with tempfile.TemporaryDirectory() as folder, Spool.create(folder) as spool:
        ...     id = spool.put(b"?")
        ...     spool.claim().reject("not JSON")
        ...     (spool.depth(), len(os.listdir(folder + "/.spooltop/rejected")))
        (0, 1)
        """
        self._consumer.reject(self, reason, ended)

    def of(self, consumer: Consumer) -> bool:
        """True for a claim of this consumer."""
        return self._consumer is consumer

    def end(self) -> None:
        """Marks the claim as no longer held; touches no file."""
        self.ended = True

    def check_closed(self) -> None:
        if self._consumer.gave_back(self):
            self._consumer.raise_ended(self)

    async def __aenter__(self) -> Claim:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exception: BaseException | None, traceback: TracebackType | None
    ) -> None:
        import asyncio  # whoever gets here has it loaded

        # To the end even where the task is cancelled: half an ack would leave the claim held by nobody's code.
        await asyncio.shield(asyncio.to_thread(self.__exit__, kind, exception, traceback))

    def __del__(self) -> None:
        if not self.ended and not self._consumer.is_closed:
            self._consumer.drop(self)  # before the warning, which may be made an error
            warn_dropped(self.id)


def _content(boxes: OpenBoxes, name: str) -> bytes:
    files = boxes.files
    fd = files.open_read(name, boxes.cur)
    try:
        return files.content(fd)
    finally:
        files.close(fd)


def _open(boxes: OpenBoxes, name: str) -> BinaryIO:
    return os.fdopen(open_regular(name, boxes.cur, files=boxes.files)[0], "rb")


def _remove(boxes: OpenBoxes, name: str) -> None:
    try:
        boxes.files.unlink(name, boxes.cur)
    except OSError as error:
        # A server may have done it and yet report an error.
        if isinstance(error, FileNotFoundError) or boxes.files.is_inode(name, boxes.cur, None, unseen=True):
            raise


def _move_back(boxes: OpenBoxes, name: str, to: str) -> OpenBoxes:
    boxes.files.move(name, boxes.cur, to, boxes.new, inode=boxes.files.stat(name, boxes.cur).st_ino)
    return boxes


def warn_dropped(*ids: str) -> None:
    """Warns about claims that were given back because their owner did not end them."""
    what = f"claim on {', '.join(map(repr, ids[:10]))} was dropped without ack, release or reject"
    warnings.warn(what, ResourceWarning, stacklevel=3)


# The consumer itself.

class Consumer(Struct, eq=False, dict=True, weakref=True):
    """Claims of one process on one spool, under one token at a time. Mail is not claimed, unless ``as_spool``. Thread-safe,
    ``close`` included: a call that is under way in another thread ends as it would have, and every later one raises
    ``Closed``. With ``moves_to``, the queue into which it moves messages, no claim goes back by itself."""

    boxes: OpenBoxes
    _path: str
    _clock: Clock
    _host: str
    _durable: bool
    _max_attempts: int
    _takes_mail_names: bool
    _hosts: str
    _moves_to: QueueIdentity | None = None
    _sync_new: bool | None = None
    _paused: bool = False
    _look_at: float = float("-inf")
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _hold: PresenceLock | None = None
    _lost_hold: PresenceLock | None = None
    """Presence whose file was removed, until all claims have the token of its successor."""
    _open: dict[str, ref[Claim]] = {}
    _failures: dict[str, int] = {}
    _last_us: int = 0
    # Claims that may have been made: a server did the rename and reported an error, or the rename was interrupted. A name is
    # added before its rename and removed when somebody has the claim, so that an interrupt in between (Ctrl-C) leaves no claim
    # that its own process does not know.
    _uncertain: dict[str, str] = {}
    """Name in ``cur`` → name in ``new``."""
    is_closed: bool = False
    _given_back: frozenset[str] = frozenset()
    forks: int = 0
    """Number of forks between the process that opened the spool and this one."""

    def __post_init__(self) -> None:
        self.backlog = Backlog(self.boxes.new, self.boxes.files, self._clock)
        tell_in_children(self, Consumer._forked)  # by itself: another thread may be closing the spool at the fork

    # Presence

    def hold(self) -> PresenceLock:
        """Returns the presence of this process, which is taken at the first call."""
        with self._lock:
            if self._hold is None:
                boxes = self.boxes
                try:
                    hold = PresenceLock.take(boxes.dirs, now=self._clock(), durable=self._durable, moves_to=self._moves_to)
                except OSError as error:
                    raise translate(error, self._path, "claim") from error
                if self.is_closed:  # by a signal handler, since this call began
                    hold.drop(boxes.dirs, remove=True)
                    raise closed(self._path)
                self._hold = hold
            return self._hold

    @property
    def token(self) -> str | None:
        return self._hold.token if self._hold else None

    def _forked(self) -> None:
        """Ends and forgets all claims in a forked child, on no disk: everything that is held belongs to the parent."""
        self.forks += 1
        self._lock = threading.RLock()
        for reference in self._open.values():
            if (claim := reference()) is not None:
                claim.end()
        for hold in (self._hold, self._lost_hold):
            if hold is not None:
                hold.abandon()
        self._hold = self._lost_hold = None
        self._open.clear()
        self._uncertain.clear()
        self.backlog.clear()

    def close(self) -> None:
        """Releases the claims that are still held, with a warning, and frees the presence and the descriptors. Claims of which an
        interrupt kept the caller from hearing go back without."""
        with self._lock:
            self.is_closed = True
            boxes = self.boxes
            # A mover's may have been put into the target by the claim before: the next move asks.
            while self._moves_to is None and (found := self._settled_claim(boxes)) is not None:
                del self._uncertain[found[1]]
                self._put_back(boxes, *found)
            held = () if self._moves_to is not None else list(self._open.values())
            dropped = [claim for reference in held if (claim := reference()) is not None]
            self._given_back = frozenset(claim.name for claim in dropped)
            for claim in dropped:
                self.drop(claim)
            self._open.clear()
            hold, self._hold = self._hold, None
            try:
                if self._lost_hold is not None:
                    self._lost_hold.drop(boxes.dirs, remove=False)
            finally:
                try:
                    if hold is not None:
                        self._end_presence(boxes, hold)
                finally:
                    self.boxes = cast("OpenBoxes", AfterClose(self._path))
        if dropped:
            warn_dropped(*(claim.id for claim in dropped))

    def _end_presence(self, boxes: OpenBoxes, hold: PresenceLock) -> None:
        mine, left = f",c={hold.token}.", True
        try:
            left = any(mine in name for name in boxes.files.scan(boxes.cur))
        finally:
            hold.drop(boxes.dirs, remove=not left)

    def _keep_presence(self, boxes: OpenBoxes) -> None:
        """Takes a new presence if the file of this one was removed (a restore without it), and renames the claims to its token:
        nobody could see any more that their holder is running, or ever that it is dead.

        An interrupted or failed call is completed by the next one. Raises ``OSError``, ``SpooltopError``.
        """
        if self._lost_hold is None:
            if self._hold is None or boxes.files.is_linked(self._hold.fd):
                return
            self._lost_hold, self._hold = self._hold, None
        token, uncertain = self.hold().token, self._uncertain
        for name, base in list(uncertain.items()):
            to = self._with_token(name, base, token)
            uncertain[to] = base
            del uncertain[name if to == name or self._moved_on(boxes, name, to) else to]
        for reference in list(self._open.values()):
            claim = reference()
            if claim is None or claim.ended or claim.token == token:
                continue
            before, to = claim.name, self._with_token(claim.name, claim.base, token)
            if self._moved_on(boxes, before, to):
                self._open[to] = reference
                claim.name = to  # with the token that this consumer has now
                self._open.pop(before, None)
        if self._durable:
            boxes.files.sync_dir(boxes.cur)
        self._lost_hold.drop(boxes.dirs, remove=False)
        self._lost_hold = None

    def _with_token(self, name: str, base: str, token: str) -> str:
        return in_cur(base, token, parse(name, claimed=True).claimed_us or 0, os.getpid())

    def _moved_on(self, boxes: OpenBoxes, name: str, to: str) -> bool:
        """Renames a claim. False if it was taken away, or has ended."""
        try:
            boxes.files.rename(name, boxes.cur, to, boxes.cur)
        except FileNotFoundError:
            return boxes.files.status(to, boxes.cur) is not None  # renamed by a call that was interrupted
        return True

    def _put_back(self, boxes: OpenBoxes, name: str, claimed: str) -> None:
        try:
            boxes.files.move(claimed, boxes.cur, name, boxes.new)
        except OSError:
            return  # it stays in cur, where recover finds it when the lock of this consumer is free

    def due_in(self) -> float:
        """Seconds until a delayed message may be claimed, infinity if there is none; until a paused spool is looked at again."""
        return max(0.0, self._look_at - time.monotonic() if self._paused else self.backlog.due() - self._clock())

    # Claims

    def take(self, keep: object = None) -> Claim | None:
        """Claims the oldest message that may be claimed; None if there is none, or the spool is paused. After a lost race it
        tries the next message. ``keep`` is an object that must live as long as the claim."""
        with self._lock:
            if self.is_closed:
                raise closed(self._path)
            try:
                return self._take(keep)
            except SpooltopError:
                raise
            except OSError as error:
                raise translate(error, self._path, "claim") from error
            except BaseException:
                self.backlog.clear()  # an interrupt came, maybe to a name that had just left it
                raise

    def _take(self, keep: object) -> Claim | None:
        boxes, uncertain = self.boxes, self._uncertain
        if uncertain and self._hold is not None and (found := self._settled_claim(boxes)) is not None:
            return self._begin(*found, keep)
        if (now := time.monotonic()) >= self._look_at:
            self._paused = is_paused(boxes.dirs)
            self._keep_presence(boxes)
            self._look_at = now + CHECK_EVERY
        while not self._paused and (name := self.backlog.pop()) is not None:
            if name[10:11] == "." and not self._takes_mail_names and is_mail_name(name):
                self._refuse_mail(name)
            hold = self._hold or self.hold()
            us = int(self._clock() * 1e6)
            self._last_us = us = us if us > self._last_us else self._last_us + 1
            claimed = name + hold.before_us + str(us) + hold.after_us
            uncertain[claimed] = name
            try:
                # Nobody can have this name: it holds a random token of 128 bits, and a time that the token never had.
                # So there is nothing to replace, and plain rename(2) is as safe as RENAME_NOREPLACE, and quicker.
                boxes.files.rename(name, boxes.new, claimed, boxes.cur)
            except OSError as error:
                if not self._was_made(error, name, claimed, boxes):
                    continue
            if self.is_closed:  # by a signal handler meanwhile: this holder would not be seen as alive
                self._put_back(boxes, name, claimed)
                raise closed(self._path)
            if claimed in uncertain:  # else a signal handler that claims was handed this message
                return self._begin(name, claimed, keep)
        return None

    def _was_made(self, error: OSError, name: str, claimed: str, boxes: OpenBoxes) -> bool:
        """True if a rename from ``name`` to ``claimed`` that reported ``error`` made the claim; False if the race was lost.

        Raises if the claim was not made, or if that cannot be determined: ``_settled_claim`` then checks again, as nobody puts
        back what a living process holds.
        """
        try:
            if boxes.files.status(claimed, boxes.cur) is not None:
                return True
        except OSError:
            pass  # still unknown
        else:
            del self._uncertain[claimed]
            if isinstance(error, FileNotFoundError):
                return False
            self.backlog.add(name)
        raise translate(error, self._path, "claim") from error

    def _settled_claim(self, boxes: OpenBoxes) -> tuple[str, str] | None:
        """Returns the names in ``new`` and in ``cur`` of a message whose claim has turned out to exist and is not held. A message
        that turns out not to be claimed goes back to the backlog."""
        for claimed, name in list(self._uncertain.items()):
            if claimed in self._open and (claim := self._open[claimed]()) is not None and not claim.ended:
                continue
            try:
                found = boxes.files.status(claimed, boxes.cur)
            except OSError:
                continue  # still unknown
            if found is not None:
                return name, claimed
            self.backlog.add(name)
            del self._uncertain[claimed]
        return None

    def _begin(self, name: str, claimed: str, keep: object) -> Claim:
        claim = Claim(self, name, claimed, self._failures.get(name, 0), keep)
        self._open[claimed] = ref(claim)
        claim.ended = False  # in this order: after an interrupt the claim is either uncertain or given back by its finaliser
        del self._uncertain[claimed]
        return claim

    def _refuse_mail(self, name: str) -> None:
        """Raises ``MailFolder`` if mail was delivered into a directory that was opened as a spool."""
        try:
            refuse_mail(self.boxes.dirs)
        except BaseException:
            self.backlog.add(name)
            raise
        self._takes_mail_names = True  # jobs under such names: claims of others in cur show it

    def peek(self) -> str | None:
        """Returns the id of the message that ``take`` would claim."""
        with self._lock:
            boxes = self.boxes
            while (name := self.backlog.pop()) is not None:
                if boxes.files.status(name, boxes.new) is not None:
                    self.backlog.add(name)
                    return parse(name, claimed=False).id
            return None

    def step(self, claim: Claim, doing: str, act: Callable[[OpenBoxes, str], _T]) -> _T:
        """Calls ``act`` with the boxes and the name of a claim that is held, and again if this consumer took a new token
        meanwhile and renamed the claim. Raises ``ClaimLost`` if the claim is gone, and the errors of ``doing``."""
        while True:
            if claim.ended:
                self.raise_ended(claim)
            boxes, name = self.boxes, claim.name  # kept open by this, where another thread closes the spool meanwhile
            try:
                return act(boxes, name)
            except FileNotFoundError:
                self._follow(claim, name)
            except OSError as error:
                if doing == "release" and isinstance(error, FileExistsError):
                    what = f"{claim.id!r} cannot go back: another message of that name is in new"
                    raise SpooltopError(what, "it stays in cur; requeue it when the other one is gone", path=self._path) from None
                if doing == "read" and error.errno in IRREGULAR:
                    raise not_regular(self._path) from None
                raise translate(error, self._path, doing) from error

    def _follow(self, claim: Claim, name: str) -> None:
        """Returns if ``claim`` has another name than ``name`` by now, which was not found: this consumer took a new token. Else
        the claim is lost."""
        with self._lock:  # until all claims are renamed
            if claim.name != name:
                return
        self._forget(claim)
        what, advice = f"the claim on {claim.id!r} was taken away", "drop what was done for it"
        raise ClaimLost(what, advice, names=[claim.name], path=self._path) from None

    # Ends

    def ack(self, claim: Claim) -> None:
        boxes = self.boxes
        self._unlink(claim)
        if self._durable:
            self._settle(boxes)

    def ack_many(self, claims: Sequence[Claim]) -> None:
        """Acks all claims with one sync; ``ClaimLost`` at the end names those that were lost."""
        for claim in claims:
            if not isinstance(claim, Claim):
                raise TypeError(f"claims takes claims, not {type(claim).__name__}: {claim!r:.80}")
            if not claim.of(self):
                raise UsageError(f"{claim!r} is a claim of another Spool", "nothing was acked", path=self._path)
        lost: list[Claim] = []
        boxes = self.boxes
        for claim in claims:
            try:
                self._unlink(claim)
            except ClaimLost:
                lost.append(claim)
        if self._durable:
            self._settle(boxes)
        if lost:
            ids = ", ".join(repr(claim.id) for claim in lost[:10])
            raise ClaimLost(
                f"{len(lost)} of {len(claims)} claims were {_whose(lost[0]) or 'taken away'}: {ids}",
                names=[claim.name for claim in lost],
                path=self._path,
            )

    def _unlink(self, claim: Claim) -> None:
        self.step(claim, "ack", _remove)
        claim.ended = True
        self._open.pop(claim.name, None)
        if self._failures:
            self._failures.pop(claim.base, None)

    def _settle(self, boxes: OpenBoxes) -> None:
        try:
            self._sync_acks(boxes)
        except OSError as error:
            what = f"ack: done, but its sync failed ({os.strerror(error.errno or 0)})"
            raise SpooltopError(what, "after a power cut it may come again", path=self._path) from error

    def rewrite(self, claim: Claim, data: Data) -> None:
        """Puts ``data`` in place of the content of a claim that is held, in one step."""
        if claim.ended:
            self.raise_ended(claim)
        boxes, name, draft = self.boxes, claim.name, IdGenerator(self._host).next(self._clock)
        try:
            TmpWriter(boxes.dirs).swap_in(draft, data, name, boxes.cur, durable=self._durable)
        except SourceFailed as failed:
            raise failed.error from None
        except FileNotFoundError:
            self._follow(claim, name)  # but a file that gave the data has been read
            what = "release: the claim was renamed meanwhile, as .spooltop was removed"
            raise SpooltopError(what, "it is still held; release it again", path=self._path) from None
        except OSError as error:
            raise translate(error, self._path, "release") from error

    def release(self, claim: Claim, delay: float, ended: str | None = None) -> None:
        check_seconds("delay", delay, or_none=False)
        if claim.attempt >= self._max_attempts:
            self.reject(claim, f"given back after {claim.attempt} attempts", ended)
            return
        if claim.ended:
            self.raise_ended(claim)
        parsed = claim.parsed
        until = int(min((self._clock() + delay) * 1e6, LATEST)) if delay > 0 else None
        name = requeued_name(parsed, not_before=until, ended=ended)
        if not parsed.own:  # its name can carry neither
            if len(self._failures) >= 4096:
                self._failures.clear()  # only a hint against spinning: forgetting costs a few attempts more
            self._failures[parsed.base] = self._failures.get(parsed.base, 0) + 1
            if until is not None:
                self.backlog.delay(name, until)
        boxes = self.step(claim, "release", lambda boxes, held_as: _move_back(boxes, held_as, name))
        self._forget(claim)
        try:
            with self._lock:
                self.backlog.add(name)
            self._sync(boxes)
        except OSError as error:
            what = f"release: done, but then {os.strerror(error.errno or 0)}"
            raise SpooltopError(what, "nothing is lost; after a power cut it may be claimed still", path=self._path) from error

    def reject(self, claim: Claim, reason: str, ended: str | None = None) -> None:
        check_text("reason", reason)
        who = f"pid {os.getpid()} on {self._host}"
        self.step(
            claim, "reject",
            lambda boxes, name: reject(
                boxes.dirs, name, boxes.files.stat(name, boxes.cur).st_ino, reason, operation=f"engine.{claim.token}",
                at=self._clock(), who=who, attempt=claim.attempt, durable=self._durable, ended=ended,
            ),
        )  # fmt: skip
        self._forget(claim)

    def drop(self, claim: Claim) -> None:
        """Gives back a claim that the caller forgot; called by its finaliser."""
        try:
            self.release(claim, 0)
        except (ClaimLost, SpooltopError, OSError):
            self._forget(claim)  # it stays in cur and is visible there; a finaliser cannot report it

    def gave_back(self, claim: Claim) -> bool:
        """True for a claim that was held when the spool was closed."""
        return claim.name in self._given_back

    def raise_ended(self, claim: Claim) -> NoReturn:
        """Says how a claim ended that is used after its end."""
        if self.gave_back(claim):
            what = f"the Spool was closed while the claim on {claim.id!r} was held"
            raise Closed(what, "the message went back to new and will be claimed again", path=self._path)
        if whose := _whose(claim):
            raise ClaimLost(f"{claim.id!r} was {whose}", "leave it to that process", names=[claim.name], path=self._path)
        raise ClaimLost(f"the claim on {claim.id!r} has ended already", names=[claim.name], path=self._path)

    def _forget(self, claim: Claim) -> None:
        claim.end()
        self._open.pop(claim.name, None)

    def _sync_acks(self, boxes: OpenBoxes) -> None:
        boxes.files.sync_dir(boxes.cur)
        # Claimed and acked since the last commit, cur looks as if nothing had been there: btrfs writes nothing down for it, and
        # the message would be back in new.
        if self._sync_new is None:
            self._sync_new = not boxes.files.ordered(boxes.cur)
        if self._sync_new:
            boxes.files.sync_dir(boxes.new)

    def _sync(self, boxes: OpenBoxes) -> None:
        if self._durable:
            # Target first: cut off in between, the message is in both places and never in none.
            boxes.files.sync_dir(boxes.new)
            boxes.files.sync_dir(boxes.cur)

    # Recovery: puts back the claims of dead consumers, and completes moves that were interrupted between two names of one file.

    def recover(self) -> list[str]:
        """Returns the ids that went back to ``new``. This consumer's own claims are left alone.

        Only claims of our own protocol whose holder is proved dead; the attempt is counted, and at the limit the message is
        rejected. Those of ``spooltop move`` are left to the next move: only that asks whether they were put.
        """
        boxes, mine = self.boxes, self.token  # once: another thread may close this consumer, or take a new token
        dirs = boxes.dirs
        files, cur, new = dirs.files, boxes.cur, boxes.new
        # In this order: claims listed before the locks are tried cannot belong to a consumer that appeared in between.
        claims = [parse(name, claimed=True) for name in files.list(cur) if ",c=" in name]
        tokens = {claim.token for claim in claims if claim.token is not None and claim.token != mine}
        vantage = HostView.of(dirs, self._hosts)
        dead = {token for token in tokens if _is_dead(look(dirs, token), vantage)}
        back: list[str] = []
        set_aside = False
        for claim in sorted((claim for claim in claims if claim.token in dead), key=lambda claim: claim.enqueued_us or 0):
            with _losing_races():
                found = files.stat(claim.raw, cur)
                if not stat.S_ISREG(found.st_mode):
                    continue
                if found.st_nlink > 1 and _has_other_name(dirs, claim, found.st_ino):
                    files.unlink(claim.raw, cur)
                    continue
                attempt = (claim.attempts or 0) + 1
                if claim.own and attempt >= self._max_attempts:
                    reject(
                        dirs, claim.raw, found.st_ino, f"its consumers died or gave it back {attempt} times",
                        operation=f"engine.{claim.token}", at=self._clock(), who=f"recover, pid {os.getpid()} on {self._host}",
                        attempt=attempt, durable=self._durable, ended=DIED,
                    )  # fmt: skip
                    set_aside = True
                    continue
                files.move(claim.raw, cur, requeued_name(claim, ended=DIED), new, inode=found.st_ino)
                back.append(claim.id)
        if back:
            self._sync(boxes)
        if set_aside:
            for token in dead:
                dirs.forget(Box.REJECTED.value, f"engine.{token}")
        _finish_puts(dirs)
        _tidy_presence(dirs, mine, vantage)
        return back


def _whose(claim: Claim) -> str:
    """Says whose claim it is if a parent of this process made it, else ""."""
    pid = claim.parsed.pid
    return "" if pid == os.getpid() else is_its_child("claimed", pid)


_GOING = ".gone-"
"""Prefix of a presence file's name while the file is being removed."""


def _is_dead(presence: Presence, vantage: HostView) -> bool:
    return presence.moves_to is None and judge(presence, vantage)[0] is Verdict.DEAD


@contextmanager
def _losing_races() -> Iterator[None]:
    """Ends the block, and raises nothing, where another recover or an operator was quicker, and at a conflict: both files stay
    and are shown. So does EPERM, which a sticky directory causes for another user's file: the file is left for its owner or the
    owner of the spool."""
    try:
        yield
    except (FileNotFoundError, FileExistsError):
        pass
    except OSError as error:
        if error.errno != errno.EPERM:  # any other says that nothing may be moved at all
            raise


def _has_other_name(dirs: SpoolDirs, claim: Name, inode: int) -> bool:
    """True if the file already exists at the destination of a rename that was cut off."""
    for name in dirs.files.list(dirs.box(Box.NEW)):
        if _begins_alike(name, claim) and dirs.files.is_inode(name, dirs.box(Box.NEW), inode):
            return True
    for box in ASIDE:
        for entry in entries(dirs, box):
            if _begins_alike(entry.name, claim):
                target = dirs.private_dir(box.value, entry.operation)
                if target is not None and dirs.files.is_inode(entry.name, target, inode):
                    return True
    return False


def _begins_alike(name: str, claim: Name) -> bool:
    return name.startswith(claim.base.partition(",")[0] or claim.base)


def _finish_puts(dirs: SpoolDirs) -> None:
    """Completes interrupted puts: a file that is in ``tmp`` and, as the same file, in ``new`` or ``cur`` is delivered, so its
    name in ``tmp`` is removed."""
    if dirs.tmp is None:
        return
    files, claimed = dirs.files, None
    for name in files.list(dirs.tmp):
        with _losing_races():  # to its writer, which may finish meanwhile
            found = files.stat(name, dirs.tmp)
            if found.st_nlink < 2 or not stat.S_ISREG(found.st_mode):
                continue
            delivered = dirs.files.is_inode(name, dirs.box(Box.NEW), found.st_ino)
            if not delivered:
                claimed = files.list(dirs.box(Box.CUR)) if claimed is None else claimed
                delivered = any(
                    other.startswith(name) and dirs.files.is_inode(other, dirs.box(Box.CUR), found.st_ino) for other in claimed
                )
            if delivered:
                files.unlink(name, dirs.tmp)


def _tidy_presence(dirs: SpoolDirs, mine: str | None, vantage: HostView) -> None:
    """Removes the presence files of dead consumers that hold no claim any more.

    A dead token never claims again, but an operator's undo may put a claim of it back into ``cur``. A file is therefore hidden
    first, and restored if a claim has turned up meanwhile: without it nobody could tell that its holder is dead.
    """
    consumers = dirs.private_dir(CONSUMERS)
    if consumers is None:
        return
    files = dirs.files
    listed = files.list(consumers)
    tokens = [token for token in listed if not token.startswith(".") and token != mine]
    dead = {token for token in tokens if _is_dead(look(dirs, token), vantage)}
    going = {name.removeprefix(_GOING) for name in listed if name.startswith(_GOING)}  # left by one that was cut off
    if not dead and not going:
        return
    for token in dead - _holding(dirs):
        with _losing_races():
            files.rename(token, consumers, _GOING + token, consumers)
            going.add(token)
    held = _holding(dirs) if going else set()
    for token in going:
        with _losing_races():
            if token in held:
                files.move(_GOING + token, consumers, token, consumers)
            else:
                files.unlink(_GOING + token, consumers)


def _holding(dirs: SpoolDirs) -> set[str | None]:
    """The tokens of the claims in ``cur``."""
    return {parse(name, claimed=True).token for name in dirs.files.list(dirs.box(Box.CUR)) if ",c=" in name}


# The source's side of ``spooltop move`` on a directory.


class SpoolMover(Consumer, Closing):
    """Implements ``model.queue.MessageMover``: the presence file says where the messages go."""

    def counts(self) -> QueueCounts:
        boxes, now = self.boxes, int(self._clock() * 1e6)
        dirs = boxes.dirs
        waiting: Counter[str] = Counter()
        claimed: Counter[Verdict] = Counter()
        with translating(self._path, "move"):
            for names in dirs.files.regular(boxes.new):
                for name in names:
                    if name[0] != ".":
                        ready = "delayed" if (not_before(name) or 0) > now else "ready"
                        waiting[ready if claimable(name) else "unclaimable"] += 1
            tokens = Counter(parse(name, claimed=True).token for name in dirs.files.list(boxes.cur) if name[0] != ".")
            claimed[Verdict.UNKNOWN] += tokens.pop(None, 0)  # of other programs
            tokens.pop(self.token, None)
            vantage = HostView.of(dirs, self._hosts)
            for token, count in tokens.items():
                presence = look(dirs, token or "")
                verdict = judge(presence, vantage)[0]
                if presence.moves_to is None or verdict is not Verdict.DEAD:
                    claimed[verdict] += count
        running, dead, unknown = (claimed[one] for one in (Verdict.ALIVE, Verdict.DEAD, Verdict.UNKNOWN))
        return QueueCounts(running=running, dead=dead, unknown=unknown, **waiting)

    def interrupted(self) -> Sequence[InterruptedMove]:
        dirs = self.boxes.dirs
        with translating(self._path, "move"):
            consumers = dirs.private_dir(CONSUMERS)
            if consumers is None:
                return ()
            vantage = HostView.of(dirs, self._hosts)
            looked = {token: look(dirs, token) for token in dirs.files.list(consumers) if token[0] != "."}
            dead = {
                token: found.moves_to for token, found in looked.items()
                if found.moves_to is not None and judge(found, vantage)[0] is Verdict.DEAD
            }  # fmt: skip
            claims: dict[str, list[tuple[str, str]]] = {token: [] for token in dead}
            unreadable = {token for token, found in looked.items() if found.state == "unreadable"}
            for name in dirs.files.list(self.boxes.cur) if dead or unreadable else ():
                parsed = parse(name, claimed=True)
                if parsed.token in unreadable:  # perhaps a killed move has put it already
                    raise Unreadable(f"who holds {escape(name)} cannot be read", "try again", path=self._path)
                if parsed.token in claims:
                    claims[parsed.token].append((name, _key(parsed)))
            return [InterruptedMove(f"move:{token}", target, claims[token]) for token, target in dead.items()]

    def claim(self) -> Claim | None:
        claim = self.take()
        if claim is not None:
            self._settle_claims()
        return claim

    def adopt(self, name: str) -> Claim | None:
        """Takes over the claim ``name`` of a dead consumer; None if it is gone."""
        with translating(self._path, "move"), self._lock:
            boxes, parsed = self.boxes, parse(name, claimed=True)
            if self._is_back(boxes, parsed):
                return None
            hold, base = self.hold(), parsed.base
            self._last_us = us = max(int(self._clock() * 1e6), self._last_us + 1)
            claimed = f"{base}{hold.before_us}{us}{hold.after_us}"
            self._uncertain[claimed] = base
            try:
                boxes.files.rename(name, boxes.cur, claimed, boxes.cur)
            except FileNotFoundError:
                del self._uncertain[claimed]
                return None
            claim = self._begin(base, claimed, None)
        self._settle_claims()
        return claim

    def _settle_claims(self) -> None:
        """Makes the claims durable, if this consumer is, before a message is put: back in ``new`` after a power cut, it would be
        put again."""
        if self._durable:
            with translating(self._path, "move"):
                self._sync_acks(self.boxes)

    def _is_back(self, boxes: OpenBoxes, claim: Name) -> bool:
        """Completes a way back to ``new`` that was cut off between two names of the file."""
        found = boxes.files.status(claim.raw, boxes.cur)
        if found is None:
            return True
        if not stat.S_ISREG(found.st_mode) or found.st_nlink < 2 or not _has_other_name(boxes.dirs, claim, found.st_ino):
            return False
        boxes.files.unlink(claim.raw, boxes.cur)
        return True

    def discard(self, name: str) -> None:
        boxes = self.boxes
        with translating(self._path, "move"):
            if boxes.files.remove(name, boxes.cur):  # else somebody was quicker, and found the same
                self._settle_claims()

    def key(self, claim: Claim) -> str:
        return _key(claim.parsed)

    def holds(self, _claim: Claim) -> bool:
        return True  # as long as this process runs

    def give_back(self, claim: Claim) -> None:
        """Moves a claim back to the name that it had in ``new``: nothing was tried, and no attempt is counted."""
        with translating(self._path, "move"):
            boxes = _move_back(self.boxes, claim.name, claim.base)
            self._forget(claim)
            self._sync(boxes)

    leave = drop = Consumer._forget  # it stays in cur: whether it was put is known to the target alone

    def end(self, move: InterruptedMove) -> None:
        boxes, token = self.boxes, move.mover.rpartition(":")[2]
        with translating(self._path, "move"):
            consumers = boxes.dirs.private_dir(CONSUMERS)
            held = any(f",c={token}." in name for name in boxes.files.list(boxes.cur))
            if consumers is not None and not held:
                boxes.files.remove(token, consumers)

    def close(self) -> None:
        with translating(self._path, "close"):
            super().close()


def _key(claim: Name) -> str:
    return f"move:{claim.token}.{claim.claimed_us}"
