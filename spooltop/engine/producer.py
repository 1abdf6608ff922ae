"""Putting messages: each once, under an id of our own, a chosen one, or a key."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from itertools import chain, islice
from typing import Annotated, BinaryIO
from weakref import WeakSet

from msgspec import Meta, MsgspecError, Struct, json

from spooltop.model import Box, Clock, Frozen, LockTimedOut, PutUnknown, Refused, SpooltopError, Unreadable, UsageError, mover_of

from .arguments import Data, check_data, check_text
from .atomic import discard, open_shared, publish_new
from .counters import ACQUIRED, DUPLICATE, TIMED_OUT, Count, add
from .dirs import STAGE, SpoolDirs, make_dir
from .files import UNSUPPORTED, NotRegular, read_small
from .names import GROWTH, MAX_NEW, encode_host, in_new, is_own_id, parse
from .set_aside import find
from .syscalls import translate, translating

# Ids, and the times in them, which are never used twice in a process, so that messages sort in the order in which they were
# named.

_DIGITS_16 = 10**15
_STEP = 2_000_000
"""µs. A clock that goes back by less is being adjusted, and the order is kept. A clock that goes back further was wrong; later
messages then get the correct time rather than one from the future."""

_POOL = 64
"""Ids for which random bits are fetched at once: a call for each would cost as much as the rest of an id."""

_last = 0
_pool: list[str] = []
os.register_at_fork(after_in_child=_pool.clear)  # else a child would give the random bits that its parent gives


def _random() -> str:
    """64 random bits in hex, each given once in a process."""
    while True:
        try:
            return _pool.pop()  # one thread gets each
        except IndexError:
            block = os.urandom(8 * _POOL).hex()
            _pool.extend(block[start : start + 16] for start in range(0, len(block), 16))


class IdGenerator:
    """Ids of our own, in order. Thread-safe; ``forget`` in a forked child."""

    def __init__(self, host: str) -> None:
        self._tail = "." + encode_host(host)
        self._middle = f".P{os.getpid()}R"

    def next(self, clock: Clock) -> str:
        """Returns the id of a message put now. If ``clock`` has not advanced, or went back by less than two seconds, the time is
        one µs later than the last of this process; the random bits, not the time, keep ids apart."""
        global _last
        us = int(clock() * 1e6)
        # No lock: nothing is called between the look and the store, and threads are switched only at a call or a jump back. Where
        # there is no GIL two threads that ask at once may get one µs: of theirs there is no order, and the random bits differ.
        if _last - _STEP < us <= _last:
            us = _last + 1
        _last = us
        rest = self._middle + _random() + self._tail
        if us >= _DIGITS_16:
            return f"{us}{rest}"
        if us < 0:
            raise UsageError(f"the clock stands at {us / 1e6:g} s", "a name carries times from 1970 on: set the clock")
        return f"{us:016d}{rest}"

    def forget(self) -> None:
        """Takes the pid of a forked child into its ids; called in the child."""
        self._middle = f".P{os.getpid()}R"


# Records of keys: the message that was put with each key, so that a second put with the key is suppressed.
# ``.spooltop/keys/<sha256 of the key>`` contains one JSON line with the message's final name. It is written and synced after
# the file in ``tmp`` is complete and before its move to ``new``. It is created without replacing, so that one of two processes
# with the same key wins. A process that finds a record whose file is still in ``tmp`` completes the move. The four usual
# methods each lack one of these properties. A lock file used as a flag is left behind by a process that dies before the message
# is written, and then the message never arrives. A set in the process does not contain the keys of other processes and of
# earlier runs. A manager's dict is lost with its manager, and another process can check it between the check and the update. A
# hash of the content as the name merges two identical orders, and is forgotten when the message is acked.

KEYS = "keys"
_CAP = 4096
_SWEPT_AT_ONCE = 1000


class Record(Frozen):
    """The final name of a message, and when it was put (epoch seconds)."""

    name: Annotated[str, Meta(pattern=r"\A[^./\0][^/\0]*\Z")]  # whoever may write the spool wrote it: none may lead out of tmp
    at: Annotated[float, Meta(gt=-1e18, lt=1e18)]

    @property
    def id(self) -> str:
        return parse(self.name, claimed=False).id


def _called(key: str) -> str:
    from hashlib import sha256  # loads OpenSSL: only for those who use keys

    digest = sha256(os.fsencode(key)).hexdigest()
    moved = mover_of(key)
    return digest if moved is None else f"{_called_by(moved[0])}{digest}"


def _called_by(mover: str) -> str:
    """Returns the beginning of the names of all records of one mover: what it left behind is found by it."""
    from hashlib import sha256  # as above

    return f"move-{sha256(os.fsencode(mover)).hexdigest()[:32]}-"


# Delivery of a message: it is completed in ``tmp`` or a staging directory, committed by a single move to ``new``, and then
# synced.

# Staging directories: ``.spooltop/stage/<folder>/``. Files in them are drafts like those in ``tmp``. An ext4 without a journal
# passes over each inode that was freed within the last minutes, one by one, at every create in the same block group. A spool
# through which much goes frees as many inodes as it takes, and with all drafts in ``tmp`` a put soon costs ten times as much.
# The directory decides in which block group the inode of a new file is looked for. So a producer that puts many messages takes
# one staging directory after the other, which ext4 spreads over its block groups. They are made when they are first needed,
# shared by all producers, and never removed. Elsewhere a draft is in ``tmp``, as are the first ones of each process.

_FOLDERS = 256
"""Number of staging directories. Measured: with 64 the inodes freed in a minute cost half of the speed again."""
_EACH = 256
"""Number of drafts after which a producer goes on to the next directory. The first use of a block group may have to read from the
disk; the inodes that are freed while a producer stays cost more the longer it does."""
_IN_TMP = 32
"""Number of drafts in ``tmp`` after which a producer takes a staging directory."""
_OPEN_AT_MOST = 32
"""Number of directories that drafts of one producer may be in at a time: a large group commit has many drafts."""


class DraftDir(Struct, eq=False, weakref=True):
    """An open directory for drafts; ``left`` is the number of drafts until the next directory. A staging directory is closed when
    nothing refers to this object any more."""

    fd: int
    left: float
    _close: Callable[[int], None] | None = None

    def __del__(self) -> None:
        if self._close is not None:
            try:
                self._close(self.fd)
            except OSError:
                return  # a directory is only read: a close that reports an error loses nothing, and here nobody hears of it


_CHUNK = 1 << 20


class TmpWriter:
    """Writes the drafts of one producer process. System errors are raised as ``OSError``. ``folder`` is the directory of a draft,
    ``tmp`` unless it is given: what must be found again by its name is never in a staging directory. Thread-safe: at worst two
    threads open the next staging directory each."""

    def __init__(self, dirs: SpoolDirs) -> None:
        self._dirs = dirs
        self._files = dirs.files
        self._path = dirs.path
        self._tmp, self._new = dirs.box(Box.TMP), dirs.box(Box.NEW)
        self._drafts = DraftDir(self._tmp, _IN_TMP)
        """The directory for the next draft, unless it has none left."""
        self._opened: WeakSet[DraftDir] = WeakSet()
        self._is_staged: bool | None = None
        self._number = int.from_bytes(os.urandom(2))  # not the same for all producers
        self._like = like = dirs.owner_model
        # What this process makes belongs to another than the spool does, and is given to its owner.
        self._gives_away = like.st_uid != os.geteuid() or (like.st_gid != os.getegid() and not like.st_mode & stat.S_ISGID)

    def write_fresh(self, name: str, data: Data, sync: bool) -> DraftDir:
        """Writes the complete file under a name that was made of random bits just now. Returns the directory that it is in,
        which stays open as long as the caller keeps it."""
        drafts = self._drafts
        drafts.left -= 1
        if drafts.left < 0:
            drafts = self._next(drafts)
        try:
            self.write(name, data, sync, True, drafts.fd)
        except (FileNotFoundError, PermissionError):
            if drafts.fd == self._tmp:
                raise
            drafts = self._use_tmp()
            self.write(name, data, sync, True, drafts.fd)
        return drafts

    def _use_tmp(self) -> DraftDir:
        """Goes back to ``tmp`` for a while: a staging directory was removed, or may not be written any more."""
        self._drafts = DraftDir(self._tmp, _IN_TMP)
        return self._drafts

    def _next(self, drafts: DraftDir) -> DraftDir:
        """Returns the directory for the next draft, when ``drafts`` has none left."""
        if self._is_staged is None:
            self._is_staged = self._files.reuses_inodes_late(self._tmp)
        if not self._is_staged:
            drafts.left = float("inf")
        elif len(self._opened) >= _OPEN_AT_MOST:
            drafts.left = _EACH
        else:
            try:
                self._drafts = drafts = self._open()
            except (OSError, SpooltopError):
                return self._use_tmp()  # a put needs no staging directory
        return drafts

    def _open(self) -> DraftDir:
        dirs, files = self._dirs, self._files
        above = dirs.own_dir(STAGE)
        self._number = (self._number + 1) % _FOLDERS
        name = f"{self._number:02x}"
        try:
            fd = files.open_dir(name, above)
        except FileNotFoundError:
            files.spread_directories(above)
            make_dir(files, name, above, dirs.owner_model, durable=False)
            fd = files.open_dir(name, above)
        opened = DraftDir(fd, _EACH - 1, files.close)
        self._opened.add(opened)
        return opened

    def write(self, name: str, data: Data, sync: bool, fresh: bool, folder: int | None = None) -> int | None:
        """Writes the complete file, locked while it is written. Leaves nothing behind after an error.

        Returns its inode; None if the name is ``fresh``, made of random bits just now, which identifies the file just as well.
        """
        files = self._files
        fd = files.create(name, self._tmp if folder is None else folder)
        try:
            try:
                files.lock_write(fd)
                if self._gives_away:
                    files.copy_owner(fd, self._like, self._like.st_mode & 0o664)
                if type(data) is bytes:
                    files.write_all(fd, data)
                elif isinstance(data, (bytes, bytearray, memoryview)):
                    files.write_all(fd, bytes(data))
                else:
                    while chunk := _part(data):
                        if not isinstance(chunk, bytes):
                            raise TypeError("a message is bytes or a binary file, and this file gives text")
                        files.write_all(fd, chunk)
                if sync:
                    files.sync(fd)
                inode = None if fresh else files.fstat(fd).st_ino
            finally:
                files.close(fd)
        except BaseException:
            self.discard(name, folder)
            raise
        return inode

    def deliver(self, name: str, inode: int | None, *, keep: bool, folder: int | None = None) -> None:
        """Moves the file to ``new`` without replacing anything. Raises ``PutUnknown`` if the move reported an error and yet may
        have been done, ``FileNotFoundError`` if the file is gone. After any other error the file is removed, unless it is to be
        kept and its name is not taken in ``new`` either."""
        try:
            source = self._tmp if folder is None else folder
            self._files.move(name, source, name, self._new, inode, inode is None)
        except FileNotFoundError:
            raise
        except OSError as error:
            taken = isinstance(error, FileExistsError)
            # Where it is not known to be absent it may have arrived.
            if not taken and self._files.is_inode(name, self._new, inode, unseen=True):
                raise PutUnknown(
                    f"the move to new reported an error: {error.strerror}", id=parse(name, claimed=False).id, path=self._path
                ) from error
            if taken or not keep:
                self.discard(name, folder)
            raise

    def swap_in(self, draft: str, data: Data, name: str, folder: int, *, durable: bool) -> None:
        """Puts ``data`` in place of the content of ``name`` in the directory ``folder``, in one step. The file keeps its times.
        The new content is first written to the file ``draft`` in ``tmp``.

        Raises ``Unreadable`` if it is not a regular file, ``Refused`` if the file system cannot swap two files.
        """
        files = self._files
        old = files.stat(name, folder)
        if not stat.S_ISREG(old.st_mode):
            raise not_regular(self._path)
        inode = self.write(draft, data, durable, False)
        try:
            files.keep_times(draft, self._tmp, old)
            files.swap(draft, self._tmp, name, folder)
        except OSError as error:
            # A server may have done it and yet report an error.
            if not files.is_inode(name, folder, inode, unseen=False):
                self.discard(draft)
                if error.errno in UNSUPPORTED:
                    what = "release: this file system cannot swap two files in one step, which changed content needs"
                    raise Refused(what, "put the new content as a message, then ack this one", path=self._path) from error
                raise
        if durable:
            files.sync_dir(folder)  # first: cut off in between, the old content is in tmp, where nothing is delivered
            files.sync_dir(self._tmp)
        self.discard(draft)  # the old content

    def sync_names(self) -> None:
        """Makes the names in ``tmp`` durable before a record of one is. On a file system that does not order changes of
        directories (btrfs), a power failure could otherwise leave only the record, and a retry would take the message for
        delivered."""
        if not self._files.ordered(self._tmp):
            self._files.sync_dir(self._tmp)

    def settle(self, id: str, *, emptied: bool = False) -> None:
        """Syncs ``new``; raises ``PutUnknown`` if that fails. ``emptied`` also syncs ``tmp`` where the order of changes is not
        kept (btrfs): a file that came back in ``tmp`` after power loss would be delivered again by the next put."""
        try:
            self._files.sync_dir(self._new)
            if emptied and not self._files.ordered(self._new):
                self._files.sync_dir(self._tmp)
        except OSError as error:
            raise PutUnknown(f"the sync of new failed: {error.strerror}", id=id, path=self._path) from error

    def discard(self, name: str, folder: int | None = None) -> None:
        """Removes a draft, as far as that is possible. If it stays, nothing there is taken for a message."""
        discard(self._files, name, self._tmp if folder is None else folder)


class SourceFailed(Exception):
    """The file with the content of a message could not be read. It is not the spool's file, so the error is raised as it is."""

    def __init__(self, error: OSError) -> None:
        self.error = error


def _part(data: BinaryIO) -> bytes:
    try:
        return data.read(_CHUNK)
    except OSError as error:
        raise SourceFailed(error) from None


def not_regular(path: str) -> Unreadable:
    """Builds the error for a message of the spool ``path`` that is not a regular file."""
    return Unreadable("not a regular file", "reject it, and look who put it there", path=path)


GROUP = 32
"""Number of messages from which one ``syncfs`` is cheaper than a sync of each file."""


class MessageId(str):
    """Id that ``Spool.put`` returns for a chosen ``id`` or a ``key``. ``duplicate`` is True if nothing was put because the
    message already existed.

    >>> import tempfile
    >>> from spooltop.engine import Spool
    >>> with tempfile.TemporaryDirectory() as folder, Spool.create(folder) as spool:
    ...     [spool.put(b"", id="order-17").duplicate for _ in range(2)]
    [False, True]
    """

    duplicate = False


def existing_id(id: str) -> MessageId:
    """The id of a message that existed already, so that nothing was put."""
    existing = MessageId(id)
    existing.duplicate = True
    return existing


class Producer(TmpWriter):
    """Writes messages of one process into one spool. Thread-safe but for the descriptors' end."""

    def __init__(
        self,
        dirs: SpoolDirs,
        clock: Clock,
        host: str,
        key_window: float | None,
        lock_timeout: float | None,
    ) -> None:
        super().__init__(dirs)
        self._clock = clock
        self._lock_timeout = lock_timeout
        self._window = key_window
        self._swept_at = clock()
        self._ids = IdGenerator(host)

    def forked(self) -> None:
        """Prevents a forked child from using an id that the parent may use too; called in the child."""
        self._ids.forget()

    def put_fresh(self, data: Data, source: str | None, durable: bool, not_before: int | None, canary: bool) -> str:
        """Enqueues a message under a generated id and without a key; a fast path of ``put``. Returns the id."""
        id = name = self._ids.next(self._clock)
        if source is not None or not_before is not None or canary:
            name = self._name(id, source, not_before, canary)
        try:
            if type(data) is not bytes:
                check_data(data)
            drafts = self.write_fresh(name, data, durable)
            try:
                self.deliver(name, None, keep=False, folder=drafts.fd)
            except FileNotFoundError:
                raise self._taken_away() from None
            if durable:
                self.settle(id)
        except SourceFailed as failed:
            raise failed.error from None
        except OSError as error:
            raise translate(error, self._path, "put") from error
        return id

    def _taken_away(self) -> SpooltopError:
        what = "the file in tmp was taken away before it was delivered"
        return SpooltopError(what, "put it again", path=self._path)

    def put(
        self,
        data: Data,
        *,
        source: str | None,
        id: str | None,
        key: str | None,
        durable: bool,
        not_before: int | None,
        canary: bool,
    ) -> MessageId:
        """Enqueues a message and returns its id. See ``Spool.put``."""
        if id is not None:
            check_text("id", id)
        if key is not None:
            check_text("key", key)
            try:
                os.fsencode(key)
            except UnicodeEncodeError:
                raise UsageError(f"key: half a surrogate pair in {key!r:.80}", path=self._path) from None
        check_data(data)
        chosen = self._ids.next(self._clock) if id is None else id
        name = self._name(chosen, source, not_before, canary)
        with self._translating(), nullcontext() if id is None else self._id_locked(id):
            if key is not None and (known := self.find_key(key)) is not None:
                return self._finish(known, source, durable)
            if id is not None:
                if find(self._dirs, id) is not None:
                    self._count(DUPLICATE, source or "")
                    return existing_id(id)
                self._clear(name)
            inode = self.write(name, data, durable, id is None)
            if key is not None and (known := self._record(key, name, durable)) is not None:
                return self._finish(known, source, durable)
            try:
                self.deliver(name, inode, keep=key is not None)
            except FileExistsError:
                if parse(name, claimed=False).id != chosen:
                    raise
                return existing_id(chosen)  # the same id arrived in between, from someone who does not lock
            except FileNotFoundError:
                if key is None:
                    raise self._taken_away() from None
                # another put with this key finished the move
            if durable:
                self.settle(chosen, emptied=key is not None)
            return MessageId(chosen)

    @contextmanager
    def _translating(self) -> Iterator[None]:
        try:
            with translating(self._path, "put"):
                yield
        except SourceFailed as failed:
            raise failed.error from None

    def put_many(self, messages: Iterable[Data], *, source: str | None, durable: bool) -> list[str]:
        """Enqueues messages in one group commit and returns their ids. See ``Spool.put_many``."""
        if isinstance(messages, (str, bytes, bytearray, memoryview)) or hasattr(messages, "read"):
            what = f"messages takes an iterable of messages, not {type(messages).__name__}: for one message call put"
            raise TypeError(what)
        rest = iter(messages)
        first = list(islice(rest, GROUP))
        together = durable and len(first) == GROUP and _syncfs_tells()
        drafts: list[tuple[str, str, DraftDir]] = []
        moved = 0
        with self._translating():
            try:
                for data in chain(first, rest):
                    check_data(data)
                    id = self._ids.next(self._clock)
                    name = id if source is None else self._name(id, source, None, False)
                    drafts.append((id, name, self.write_fresh(name, data, durable and not together)))
                if together:
                    self._files.sync_fs(self._new)
                for _, name, folder in drafts:
                    self.deliver(name, None, keep=False, folder=folder.fd)
                    moved += 1
                if drafts and durable:
                    self.settle(drafts[0][0])
            except PutUnknown as unknown:
                moved += 1  # the one that may have arrived
                unknown.ids = tuple(id for id, _, _ in drafts[:moved])
                raise
            except OSError as error:
                if moved:
                    raise PutUnknown(
                        f"{moved} of {len(drafts)} messages were delivered, then: {error.strerror}",
                        id=drafts[0][0], ids=tuple(id for id, _, _ in drafts[:moved]), path=self._path,
                        advice="put again those whose ids are not among its ids",
                    ) from error  # fmt: skip
                raise
            finally:
                for _, name, folder in drafts[moved:]:
                    self.discard(name, folder.fd)
        return [id for id, _, _ in drafts]

    # Steps

    def _name(self, id: str, source: str | None, not_before: int | None, canary: bool) -> str:
        if source is not None:
            check_text("source", source)
        try:
            name = in_new(id, source=source, not_before=not_before, canary=canary)
        except ValueError as error:
            raise UsageError(str(error), path=self._path) from None
        if not is_own_id(id) and len(name) > MAX_NEW - GROWTH:
            raise UsageError(
                f"the id takes {len(name)} bytes in the name, {MAX_NEW - GROWTH} are allowed",
                "choose a shorter one",
                path=self._path,
            )  # fmt: skip
        return name

    # Records of keys. ``key_window``: seconds after which a record has expired, None: never. All methods may raise ``OSError``.

    def find_key(self, key: str) -> Record | None:
        """Returns the record of ``key``. An expired or useless record is removed."""
        return self._find(_called(key))

    def _find(self, called: str) -> Record | None:
        try:
            if (record := self._read(called)) is not None:
                return record
            # Under a lock, and read again: else a slow process would remove the record that a quick one has just renewed.
            files, keys = self._files, self._keys()
            with files.closing(open_shared(files, ".lock", keys, self._dirs.owner_model)) as fd:
                files.lock_write(fd, wait=True)
                if (record := self._read(called)) is None:
                    files.remove(called, keys)
                return record
        except FileNotFoundError:
            return None

    def _create_key(self, key: str, name: str, *, durable: bool) -> bool:
        """Records that ``key`` is the message ``name``. False if the key already has a record."""
        data = json.encode(Record(name, self._clock())) + b"\n"
        if not publish_new(self._files, self._keys(), _called(key), data, self._dirs.owner_model, durable=durable):
            return False
        self._sweep()
        return True

    def forget_key(self, key: str) -> None:
        """Removes the record of ``key``: another put with it makes another message."""
        self._files.remove(_called(key), self._keys())

    def forget_mover(self, mover: str) -> None:
        """Removes the records of all keys of one mover (``model.queue``), also one that it had only begun to write."""
        keys, begin = self._keys(), _called_by(mover)
        for called in self._files.list(keys):
            if called.removeprefix(".").startswith(begin):
                self._files.remove(called, keys)

    def _sweep(self) -> None:
        now = self._clock()
        if self._window is None or now - self._swept_at < self._window / 24:
            return
        self._swept_at = now
        names = (name for name in self._files.list(self._keys()) if not name.startswith("."))
        for called in islice(names, _SWEPT_AT_ONCE):
            self._find(called)

    def _keys(self) -> int:
        return self._dirs.own_dir(KEYS)

    def _read(self, called: str) -> Record | None:
        """Reads a record; None if it has expired or is of no use. Raises ``FileNotFoundError`` if there is none."""
        try:
            data = read_small(called, self._keys(), files=self._files, limit=_CAP).data
            record = json.decode(data, type=Record)
        except (NotRegular, MsgspecError, UnicodeDecodeError, RecursionError):
            return None
        return record if self._window is None or record.at > self._clock() - self._window else None

    # Keys and ids

    def _record(self, key: str, name: str, durable: bool) -> Record | None:
        """Records ``key`` for the draft ``name``. If somebody else has recorded it meanwhile, removes the draft and returns that
        record."""
        try:
            if durable:
                self.sync_names()
            while not self._create_key(key, name, durable=durable):
                if (known := self.find_key(key)) is not None:
                    self.discard(name)
                    return known
        except OSError:
            try:
                ours = (known := self.find_key(key)) is not None and known.name == name
            except OSError:
                ours = True  # not known to be absent
            if not ours:  # else the file stays too: a retry completes the move
                self.discard(name)
            raise
        return None

    def was_put(self, key: str, durable: bool) -> bool:
        """Returns whether ``key`` has a message; completes its put if that was cut off."""
        known = self.find_key(key)
        if known is not None:
            self._complete(known, durable)
        return known is not None

    def _finish(self, known: Record, source: str | None, durable: bool) -> MessageId:
        self._complete(known, durable)
        self._count(DUPLICATE, source or "")
        return existing_id(known.id)

    def _complete(self, known: Record, durable: bool) -> None:
        try:
            found = self._files.stat(known.name, self._tmp)
            if stat.S_ISREG(found.st_mode):
                self.deliver(known.name, found.st_ino, keep=True)
        except (FileNotFoundError, FileExistsError):
            pass  # delivered long ago, or just now by somebody else
        if durable:
            self.settle(known.id, emptied=True)  # whoever moved it may not have synced it yet

    def _count(self, what: str, of: str) -> None:
        add(self._dirs, Count(self._clock(), what, of, 1))

    @contextmanager
    def _id_locked(self, id: str) -> Iterator[None]:
        """Nobody else puts this id meanwhile. The lock files are few, shared by many ids, and never removed."""
        from hashlib import sha256  # loads OpenSSL: only for those who choose ids

        files = self._files
        ids = self._dirs.own_dir("ids")
        with files.closing(open_shared(files, sha256(os.fsencode(id)).hexdigest()[:2], ids, self._dirs.owner_model)) as fd:
            if not files.lock_within(fd, self._lock_timeout, write=True):
                self._count(TIMED_OUT, "ids")
                what = f"the lock of the id {id!r} was not free within {self._lock_timeout:g} s"
                raise LockTimedOut(what, "try again: somebody puts the same id", path=self._path)
            yield
            self._count(ACQUIRED, "ids")

    def _clear(self, name: str) -> None:
        """Removes what an interrupted put of this id left in ``tmp``. No other put of this id can be running, as it would hold
        the lock of the id."""
        files = self._files
        try:
            fd = files.open_read(name, self._tmp)
        except FileNotFoundError:
            return
        except OSError as error:
            if error.errno not in (errno.ELOOP, errno.ENXIO):
                raise
            self.discard(name)  # a link or a socket: removing the name touches nothing else
            return
        with files.closing(fd):
            if not files.write_locked(fd):
                self.discard(name)


def _syncfs_tells() -> bool:
    """True if ``syncfs`` reports write errors: Linux 5.8 and later (syncfs(2))."""
    try:
        major, minor = os.uname().release.split(".")[:2]
        return (int(major), int("".join(c for c in minor if c.isdigit()) or 0)) >= (5, 8)
    except ValueError:
        return False
