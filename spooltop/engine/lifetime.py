"""The lifetime of a spool: its directory is created, its parts are opened and closed, also amid calls of other threads, forks and
pickling."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, cast

from spooltop.errors import NotASpool, Refused, Unreadable
from spooltop.model.vocabulary import LIVE

from .arguments import absolute_path, check_clock, check_number, check_seconds
from .closed import AfterClose
from .consuming.claim_waiter import ClaimWaiter
from .consuming.consumer import Consumer
from .dirs import SpoolDirs
from .limits import MAX_ATTEMPTS
from .mail import refuse_mail
from .presence import ANY_MACHINE, check_hosts
from .producing.producer import Producer
from .system.files import Files
from .system.forks import tell_in_children
from .system.host import this_machine
from .system.os_errors import advice, translate, translating

if TYPE_CHECKING:
    from spooltop.model.moves import QueueIdentity
    from spooltop.model.queue import Guarantee

__all__ = ["SpoolLifetime", "make"]


def make(root: str, files: Files, *, durable: bool) -> None:
    """Creates the directory and its boxes, as far as they are missing; new boxes get the owner of the directory. Raises
    ``SpooltopError``."""
    with translating(root, "create"):
        _make_root(root)
        fd = files.open_dir(root, follow=True)
        try:
            like = files.fstat(fd)
            for box in LIVE:
                try:
                    files.mkdir(box.value, fd)
                except FileExistsError:
                    continue
                inside = files.open_dir(box.value, fd)
                try:
                    files.copy_owner(inside, like)
                finally:
                    files.close(inside)
            if durable:
                files.sync_dir(fd)
        finally:
            files.close(fd)


def _make_root(root: str) -> None:
    try:
        os.makedirs(root, exist_ok=True)
    except FileNotFoundError:  # the file system itself makes none: /proc, /sys
        raise Refused("create: no directory can be made there", path=root, advice="choose a place on a disk") from None


def open_dirs(path: str, files: Files) -> SpoolDirs:
    """Opens the boxes of the spool at ``path``. Raises ``NotASpool`` naming what is missing, ``Unreadable``."""
    try:
        dirs = SpoolDirs(path, files)
    except FileNotFoundError:
        raise NotASpool("no such directory", path=path, advice=f"make it: Spool.create({path!r})") from None
    except NotADirectoryError:
        raise NotASpool("a file, not a directory", path=path) from None
    except OSError as error:
        raise Unreadable(os.strerror(error.errno or 0), path=path, advice=advice(error)) from error
    if dirs.errors:
        try:
            if dirs.missing:
                what = ", ".join(dirs.missing)
                raise NotASpool(f"{what} missing or no directory", path=path, advice=f"make it: Spool.create({path!r})")
            box, reason = next(iter(dirs.errors.items()))
            raise Unreadable(f"{box}: {os.strerror(reason.errno or 0)}", path=path, advice=advice(reason)) from reason
        finally:
            try:
                dirs.close()
            except OSError:
                pass  # the first error is the one to report
    return dirs


class SpoolLifetime:
    """Lifetime of a spool: its parts are opened together and closed together. ``Spool`` explains the arguments. A forked child,
    and a process that unpickles one, get a presence of their own."""

    _closed = True  # until it is open

    def __init__(
        self,
        path: str | os.PathLike[str],
        durable: bool = True,
        *,
        max_attempts: int = MAX_ATTEMPTS,
        key_window: float | None = None,
        lock_timeout: float | None = None,
        as_spool: bool = False,
        hosts: str = ANY_MACHINE,
        files: Files | None = None,
        clock: Callable[[], float] = time.time,
        host: str | None = None,
    ) -> None:
        check_number("max_attempts", max_attempts, 1)
        check_seconds("key_window", key_window)
        check_seconds("lock_timeout", lock_timeout)
        check_clock(clock)
        self.path = absolute_path(path)
        self.durable = durable
        self._clock = clock
        self._host = host if host is not None else this_machine().host
        self._max_attempts = max_attempts
        self._hosts = check_hosts(hosts)
        self._options = {  # as they were given: what a pickled Spool is opened with again
            "durable": durable, "max_attempts": max_attempts, "key_window": key_window, "lock_timeout": lock_timeout,
            "as_spool": as_spool, "hosts": hosts, "files": files, "clock": clock, "host": host,
        }  # fmt: skip
        self._recovering = threading.Lock()
        self._ending = threading.Lock()
        self._dirs = open_dirs(self.path, files or Files())
        try:
            if not as_spool:
                refuse_mail(self._dirs)
            self._producer = Producer(self._dirs, clock, self._host, key_window, lock_timeout)
            self._consumer = self._new_consumer()
            self._waiter = ClaimWaiter(self._dirs, self._consumer, clock)
        except BaseException as error:
            try:
                self._dirs.close()
            except OSError:
                pass  # the first error is the one to report
            if isinstance(error, OSError):
                raise translate(error, self.path, "open") from error
            raise
        self._closed = False
        tell_in_children(self, SpoolLifetime._forked)

    def _new_consumer(self, moves_to: QueueIdentity | None = None) -> Consumer:
        return Consumer(
            self._dirs, self._clock, self._host, durable=self.durable, max_attempts=self._max_attempts,
            as_spool=bool(self._options["as_spool"]), moves_to=moves_to,
        )  # fmt: skip

    @property
    def name(self) -> str:
        """The path, under the name that every queue has."""
        return self.path

    @property
    def guarantees(self) -> frozenset[Guarantee]:
        """Guarantees that hold besides delivery at least once: all; ``DURABLE`` and ``KEY_FOREVER`` unless they were opted
        out of.

        >>> import tempfile
        >>> from spooltop.engine import Spool
        >>> with tempfile.TemporaryDirectory() as folder, Spool.create(folder, durable=False) as spool:
        ...     print(*sorted(spool.guarantees))
        delay key-forever one-holder ordered
        """
        from spooltop.model.queue import Guarantee

        missing = set() if self.durable else {Guarantee.DURABLE}
        if self._options["key_window"] is not None:
            missing.add(Guarantee.KEY_FOREVER)
        return frozenset(Guarantee) - missing

    def close(self) -> None:
        """Closes the spool; claims that are still held go back, with a warning. Ends waits in other threads with ``Closed``. The
        descriptors are closed when the last call that uses them has ended. A second call does nothing."""
        if self._closed or not self._ending.acquire(blocking=False):
            return
        self._closed = True
        consumer, gone = self._consumer, AfterClose(self.path)
        # What is under way refers to what it uses: that goes when nothing does any more, and no descriptor before.
        self._producer = self._consumer = self._dirs = cast("Any", gone)
        try:
            with translating(self.path, "close"):
                consumer.close()
        finally:
            self._waiter.close(gone)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickles the arguments with which the spool was opened; another process opens the directory again, with its own
        presence."""
        default = self.__init__.__kwdefaults__  # type: ignore[misc]  # of the class
        options = {name: value for name, value in self._options.items() if name not in default or value is not default[name]}
        return _opened_again, (type(self), self.path, options)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _exception: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Spool {self.path!r}{' closed' if self._closed else ''}>"

    def _forked(self) -> None:
        if not self._closed:
            self._producer.forked()
            self._waiter.forked()
            self._recovering = threading.Lock()  # a thread of the parent may hold it


def _opened_again(kind: type[SpoolLifetime], path: str, options: dict[str, Any]) -> SpoolLifetime:
    return kind(path, **options)
