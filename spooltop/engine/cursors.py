"""Cursor files: how far each source has been read, safely advanced by several pollers.

Two forms. A shared file (``cursors.json``) is one JSON object, source → value. A file per source stands in a directory called
``cursors`` and is named after it (``cursors/imessage.json``): the whole file is the value. In both a value is any JSON value.
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from spooltop.errors import CursorMismatch, CursorUnreadable, LockTimedOut, UsageError
from spooltop.model.words import Json

from .atomic import publish
from .counters import ACQUIRED, COUNTERS, TIMED_OUT, Count, add, lock_within
from .dirs import OWN
from .files import Files
from .machine import command_line
from .troubles import telling

__all__ = ["JOURNAL", "JOURNAL_MAX", "LOCK", "CursorFile", "section_span"]

LOCK = ".cursors.lock"
JOURNAL = ".cursors.journal"
JOURNAL_MAX = 1 << 20
"""Bytes that the journal may take; then its newest half is kept."""
_LINE_MAX = 64 << 10
_FILE_MAX = 64 << 20
_SPACE = re.compile(r"[ \t\n\r]*")
_DECODER = json.JSONDecoder()


class Anything:
    """The type of ``ANYTHING``."""


ANYTHING = Anything()
"""``expect`` that is not given: whatever stands there may be replaced."""


class CursorFile:
    """One cursor file. ``single``: it holds one source's value and nothing else; by default where its directory is ``cursors``.

    ``timeout``: seconds to wait for the lock, None: for ever. ``files`` and ``clock`` (epoch seconds) are the world; ``folder``
    is an open descriptor of the directory that the file lies in, kept by the caller, for one who must not be led elsewhere by a
    link. Making the object touches nothing.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     cursors = CursorFile(folder + "/cursors.json")
    ...     (cursors.advance("imessage", 17), cursors.advance("imessage", 18, expect=17), cursors.read())
    (None, 17, {'imessage': 18})
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        single: bool | None = None,
        timeout: float | None = None,
        files: Files | None = None,
        clock: Callable[[], float] = time.time,
        folder: int | None = None,
    ) -> None:
        self.path = os.path.abspath(os.fsdecode(path))
        self._folder, self._name = os.path.split(self.path)
        self.single = single if single is not None else os.path.basename(self._folder) == "cursors"
        self._files = files or Files()
        self._clock = clock
        self._folder_fd = folder
        self._timeout = timeout

    def read(self) -> dict[str, Json]:
        """All sources and their values; of a file per source just that one. Empty where there is no file. Raises
        ``CursorUnreadable`` where it does not parse."""
        with telling(self.path, "read"), self._opened() as folder:
            return self._sections(self._text(folder))

    def advance(self, source: str, value: Json, *, expect: Json | Anything = ANYTHING) -> Json:
        """Stores ``value`` as the section of ``source`` and changes nothing else, byte for byte; the value it had before.

        Read again under an exclusive ``flock`` on ``.cursors.lock`` beside the file, published by an atomic replace, synced.
        With ``expect`` only where the section holds that value (None: also where there is none), else ``CursorMismatch``.
        ``CursorUnreadable`` where the file does not parse: nothing is published over it. ``LockTimedOut`` after
        ``timeout``; of a file in a spool it is counted how often. ``UsageError`` for a value that is no
        JSON, and for another source than the one a file per source is named after.
        """
        try:
            encoded = json.dumps(value, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise UsageError(f"not a JSON value: {error}", path=self.path) from None
        if self.single and source != self._stem:
            raise UsageError(f"the file is that of {self._stem!r}, not of {source!r}", path=self.path)
        with telling(self.path, "advance"), self._opened() as folder, self._locked(folder):
            text = self._text(folder)
            before = self._sections(text).get(source)
            if not isinstance(expect, Anything) and not _same(before, expect):
                raise CursorMismatch(f"{source} is not what was expected", found=before, path=self.path, advice="read it again")
            new = encoded + "\n" if self.single else _with_section(text, source, encoded)
            publish(self._files, folder, self._name, new.encode("utf-8"), self._like(folder))
            self._note(folder, source, before, value)
            self._count(folder, ACQUIRED)
        return before

    @property
    def _stem(self) -> str:
        return os.path.splitext(self._name)[0]

    @contextmanager
    def _opened(self) -> Iterator[int]:
        if self._folder_fd is not None:
            yield self._folder_fd
            return
        fd = self._files.open_dir(self._folder, follow=True)
        try:
            yield fd
        finally:
            self._files.close(fd)

    @contextmanager
    def _locked(self, folder: int) -> Iterator[None]:
        files = self._files
        try:
            fd = files.open_lasting(LOCK, folder)
        except OSError as error:
            if error.errno not in (errno.ELOOP, errno.ENXIO, errno.EISDIR):
                raise
            raise CursorUnreadable(f"{LOCK} beside it is no regular file", path=self.path, advice="remove it") from None
        try:
            now = files.fstat(fd)
            if not stat.S_ISREG(now.st_mode):
                raise CursorUnreadable(f"{LOCK} beside it is no regular file", path=self.path, advice="remove it")
            if now.st_nlink != 1:  # who may write the directory has linked it there, to have a file of ours given away
                raise CursorUnreadable(f"{LOCK} beside it has a second name (a hard link)", path=self.path, advice="remove it")
            if now.st_uid == os.geteuid() and now.st_size == 0:
                files.own_as(fd, files.fstat(folder))  # root's lock file would lock every poller out
            if not lock_within(files, fd, self._timeout):
                self._count(folder, TIMED_OUT)
                what = f"{LOCK} beside it was not free within {self._timeout:g} s"
                raise LockTimedOut(what, path=self.path, advice="try again")
            yield
        finally:
            files.close(fd)

    def _count(self, folder: int, what: str) -> None:
        """Into the counters of the spool that the file lies in, if it lies in one."""
        files = self._files
        for where in (OWN, f"../{OWN}"):
            try:
                fd = files.open_dir(where, folder)
            except OSError:
                continue  # no spool here, or one that nobody changed yet, or not ours to look into
            try:
                add(files, fd, COUNTERS, files.fstat(fd), (Count(self._clock(), what, self._name, 1),))
            finally:
                files.close(fd)
            return

    def _text(self, folder: int) -> str | None:
        files = self._files
        try:
            fd = files.open_read(self._name, folder)
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno not in (errno.ELOOP, errno.ENXIO):
                raise
            raise CursorUnreadable("no regular file", path=self.path) from None
        try:
            if not stat.S_ISREG(files.fstat(fd).st_mode):
                raise CursorUnreadable("no regular file", path=self.path)
            data = files.read(fd, _FILE_MAX + 1)
        finally:
            files.close(fd)
        if len(data) > _FILE_MAX:
            raise CursorUnreadable(f"larger than {_FILE_MAX >> 20} MB", path=self.path)
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError:
            raise self._unparsable("not UTF-8") from None

    def _sections(self, text: str | None) -> dict[str, Json]:
        if text is None:
            return {}
        try:
            found: Json = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise self._unparsable(str(error)) from None
        if self.single:
            return {self._stem: found}
        if not isinstance(found, dict):
            raise self._unparsable("not an object of sources")
        return found

    def _unparsable(self, why: str) -> CursorUnreadable:
        return CursorUnreadable(f"does not parse ({why})", path=self.path, advice="mend it by hand; nothing was written over it")

    def _like(self, folder: int) -> os.stat_result:
        try:
            return self._files.stat(self._name, folder)
        except FileNotFoundError:
            return self._files.fstat(folder)

    def _note(self, folder: int, source: str, before: Json, after: Json) -> None:
        """One line in the journal: what a dashboard that opens later knows of the past."""
        who = {"time": self._clock(), "file": self._name, "source": source, "pid": os.getpid(), "command": command_line()}
        told = json.dumps({**who, "old": before, "new": after}).encode() + b"\n"
        if len(told) > _LINE_MAX:
            told = json.dumps({**who, "cut": True}).encode() + b"\n"
        files = self._files
        try:
            fd = files.open_lasting(JOURNAL, folder, append=True)
            try:
                now = files.fstat(fd)
                if not stat.S_ISREG(now.st_mode) or now.st_nlink != 1:
                    return  # something else was put there, to be written to
                if now.st_size == 0:
                    files.own_as(fd, files.fstat(folder))
                if now.st_size + len(told) > JOURNAL_MAX:
                    self._rotate(folder, fd, now, told)
                else:
                    files.write_all(fd, told)
            finally:
                files.close(fd)
        except OSError:
            return  # the cursor is stored; a journal on a full disk is no reason to say that it is not

    def _rotate(self, folder: int, fd: int, like: os.stat_result, line: bytes) -> None:
        files = self._files
        newest = files.read(fd, 2 * JOURNAL_MAX)[-JOURNAL_MAX // 2 :]
        kept = newest[newest.find(b"\n") + 1 :] + line
        publish(files, folder, JOURNAL, kept, like, draft=JOURNAL, durable=False)


def _same(one: Json, other: Json) -> bool:
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _with_section(text: str | None, source: str, encoded: str) -> str:
    if text is None:
        return f"{{{json.dumps(source)}: {encoded}}}\n"
    start, end, found = section_span(text, source)
    if found:
        return text[:start] + encoded + text[end:]
    body = text[:start].rstrip(" \t\n\r")
    comma = "" if body.endswith("{") else ", "
    return f"{body}{comma}{json.dumps(source)}: {encoded}{text[len(body):]}"


def section_span(text: str, source: str) -> tuple[int, int, bool]:
    """Where the value of ``source`` stands in the text of a JSON object, which must parse: (start, end, True). Of a key that
    stands there twice the last counts. (place of the closing brace, same, False) where there is none.

    >>> section_span('{"a": 1, "b": [2]}', "b")
    (14, 17, True)
    """
    span: tuple[int, int] | None = None
    at = _skip(text, text.index("{") + 1)
    while text[at] != "}":
        key, at = _DECODER.raw_decode(text, at)
        start = _skip(text, _skip(text, at) + 1)
        _, at = _DECODER.raw_decode(text, start)
        if key == source:
            span = (start, at)
        at = _skip(text, at)
        if text[at] == ",":
            at = _skip(text, at + 1)
    return (*span, True) if span else (at, at, False)


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at
