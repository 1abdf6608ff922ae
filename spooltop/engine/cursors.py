"""Cursor files: sections that several sources share, written so that none puts back a stale copy of another's."""

from __future__ import annotations

import errno
import json
import os
import re
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager

from msgspec import UNSET, UnsetType

from spooltop.model import CursorMismatch, CursorUnreadable, LockTimedOut, UsageError
from spooltop.model.vocabulary import Clock, Closing, Json, JsonObject, escape, finite, json_object, same_json

from .arguments import OwnedDescriptor, absolute_path, check_seconds, check_text, closed
from .atomic import drop_drafts, make_file, publish
from .files import IRREGULAR, Files, open_regular, read_small
from .host import command_line, command_of, flock_holders
from .syscalls import translating

# Sections in the text of a cursor file: one is replaced, and every other byte stays as it is.

_BLANK = " \t\n\r"
_BETWEEN = re.compile(r"[ \t\n\r,:]*")
"""Matches what may stand between two values of an object that parses."""
_DECODER = json.JSONDecoder()


def check_json(value: object) -> None:
    """Raises ``TypeError`` or ``ValueError`` for values that ``json.dumps`` accepts but other programs cannot read, or read
    differently."""
    if isinstance(value, str):
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            raise ValueError(f"half a surrogate pair in {value!r:.80}") from None
    elif isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise TypeError(f"a key of an object is a str, not {type(key).__name__}")
            check_json(key)
            check_json(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            check_json(item)


def with_value(text: str, source: str | None, field: str | None, encoded: str) -> str:
    """Returns ``text``, which parses or is empty, with the JSON ``encoded`` as the section of ``source``, or as the ``field`` of
    that section. ``source`` None: the whole text is the section. Raises ``ValueError`` where an object on the way has its key
    more than once: some readers take the first value and some the last.

    >>> with_value('{"a": 1, "b": {"id": 2}}', "b", "id", "3")
    '{"a": 1, "b": {"id": 3}}'
    """
    keys = [key for key in (source, field) if key is not None]
    if source is None:
        return _with_value(text.strip(_BLANK), keys, encoded) + "\n"
    return _with_value(text, keys, encoded) + ("" if text else "\n")


def _with_value(text: str, keys: list[str], encoded: str) -> str:
    """Returns ``text``, a JSON object, null or nothing, with ``encoded`` as the value below ``keys``."""
    if not keys:
        return encoded
    key, *below = keys
    if text in ("", "null"):
        return f"{{{json.dumps(key)}: {_with_value('', below, encoded)}}}"
    spans, end = _spans(text, key)
    for start, stop in spans:
        return text[:start] + _with_value(text[start:stop], below, encoded) + text[stop:]
    body = text[:end].rstrip(_BLANK)
    comma = "" if body.endswith("{") else ", "
    return f"{body}{comma}{json.dumps(key)}: {_with_value('', below, encoded)}{text[len(body):]}"


def _spans(text: str, wanted: str) -> tuple[list[tuple[int, int]], int]:
    """Returns the span of the value of the key ``wanted``, if it has one, and the position of the closing brace of the object,
    which must parse. Raises ``ValueError`` where it has several."""
    spans = []
    at = _next(text, text.index("{") + 1)
    while text[at] != "}":
        key, at = _DECODER.raw_decode(text, at)
        start = _next(text, at)
        _, at = _DECODER.raw_decode(text, start)
        if key == wanted:
            spans.append((start, at))
        at = _next(text, at)
    if len(spans) > 1:
        raise ValueError(f"it holds the key {wanted!r} {len(spans)} times")
    return spans, at


def _next(text: str, at: int) -> int:
    found = _BETWEEN.match(text, at)
    return found.end() if found else at


# The journal beside cursor files: a line for each time that their lock was acquired, or given up after a timeout. A line says
# when, by whom, and which value was replaced by which: what a dashboard that opens later knows of the past.

JOURNAL = ".cursors.journal"
JOURNAL_MAX = 1 << 20
"""Bytes that the journal may take; then its newest half is kept."""
_LINE_MAX = 64 << 10
_TIMED_OUT = "timed_out"
_NEWEST = 256 << 10
"""Bytes of a journal that are searched for timeouts."""


def note(
    files: Files, folder: int, at: float, file: str, source: str, values: JsonObject | None = None
) -> None:
    """Appends a line about the cursor ``source`` of ``file`` at ``at`` (epoch seconds): the values that were replaced, None for a
    timeout. An error is not reported: the cursor is stored, and a journal on a full disk is no reason to deny that."""
    who: dict[str, Json] = {"time": at, "file": file, "source": source, "pid": os.getpid(), "command": command_line()}
    line = _encode({**who, **({_TIMED_OUT: True} if values is None else values)})
    if len(line) > _LINE_MAX:
        line = _encode({**who, "cut": True})
    try:
        with files.closing(files.open_lasting(JOURNAL, folder, append=True)) as fd:
            now = files.fstat(fd)
            if not stat.S_ISREG(now.st_mode) or now.st_nlink != 1:
                return  # something else was put there, to be written to
            if now.st_size == 0:
                files.copy_owner(fd, files.fstat(folder))
            if now.st_size + len(line) <= JOURNAL_MAX:
                files.write_all(fd, line)
            elif values is not None:  # only who has the lock may put a shorter one in its place
                newest = files.read(fd, 2 * JOURNAL_MAX)[-JOURNAL_MAX // 2 :]
                kept = newest[newest.find(b"\n") + 1 :] + line
                publish(files, folder, JOURNAL, kept, now, draft=JOURNAL, durable=False)
    except OSError:
        return  # as said above


def _encode(record: JsonObject) -> bytes:
    return json.dumps(record).encode() + b"\n"


def timeouts_since(files: Files, folder: int, since: float) -> Iterator[bool]:
    """Yields for each line since ``since`` (epoch seconds), newest first, if the wait for the lock timed out. Only the newest
    part of a long journal is read."""
    try:
        fd, found = open_regular(JOURNAL, folder, files=files)
        with files.closing(fd):
            data = os.pread(fd, _NEWEST, max(0, found.st_size - _NEWEST))
    except OSError:
        return  # there is none, or it is not ours to look into
    for line in reversed(data.splitlines()):
        record = json_object(line)
        at = finite(record.get("time"))
        if at is None:
            continue  # torn, or not ours
        if at < since:
            return
        yield record.get(_TIMED_OUT) is True


# Cursor files: the position up to which each source has been read, advanced safely by several pollers. There are two forms. A
# shared file (``cursors.json``) is one JSON object, source → value. A file per source is in a directory called ``cursors`` and
# is named after the source (``cursors/imessage.json``); the whole file is the value. In both forms a value is any JSON value.

LOCK = ".cursors.lock"
FILE_MAX = 4 << 20
"""Maximum bytes of a cursor file. A larger file is neither read nor written, here or by the monitor, so that everything that can
be stored can be shown."""
TIMEOUT = 10.0
"""Seconds that ``advance`` waits for the lock, where nothing else is said."""



class CursorFile(Closing):
    """A cursor file. ``single``: the file holds the value of a single source and nothing else; the default is True if its
    directory is called ``cursors``.

    ``timeout``: seconds to wait for the lock, None: for ever. ``files`` and ``clock`` (epoch seconds) give access to the system.
    ``folder`` is an open descriptor of the directory that contains the file, for callers that must not be redirected by a link; a
    copy of it is kept. Creating the object touches nothing. After ``close`` every method raises ``Closed``.

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
        timeout: float | None = TIMEOUT,
        files: Files | None = None,
        clock: Clock = time.time,
        folder: int | None = None,
    ) -> None:
        self.path = absolute_path(path)
        self._folder, self._name = os.path.split(self.path)
        self.single = single if single is not None else os.path.basename(self._folder) == "cursors"
        self._files = files or Files()
        self._clock = clock
        self._folder_fd = None if folder is None else OwnedDescriptor(folder)
        self._timeout = timeout
        self._closed = False

    def read(self) -> dict[str, Json]:
        """All sources and their values; of a file per source just that one. Empty if there is no file. Raises
        ``CursorUnreadable`` where it does not parse."""
        with translating(self.path, "read"), self._opened() as folder:
            return self._sections(self._text(folder))

    def advance(
        self,
        source: str,
        value: Json,
        *,
        field: str | None = None,
        expect: Json | UnsetType = UNSET,
        timeout: float | UnsetType | None = UNSET,
    ) -> Json:
        """Stores ``value`` as the section of ``source`` and changes nothing else, byte for byte. Returns the previous value.

        ``value`` is the whole section, in a shared file and in a file per source alike: an existing object is replaced. With
        ``field``, ``value`` is that field of the section, which is an object or becomes one, and the other fields are kept;
        ``expect`` and the returned value are then those of the field. ``spooltop cursors --set`` does the same: an object is the
        whole section, and a plain value is the field that its plan names.

        The file is read again under an exclusive ``flock`` on ``.cursors.lock`` in the same directory, published by an atomic
        replace, and synced. ``timeout``: seconds to wait for that lock, None: for ever; the default is the timeout of the object.
        Each acquisition and each timeout of the lock is a line in ``.cursors.journal``. With ``expect`` the value is stored only
        if that value is the current one (None: also if there is none).

        Raises ``TypeError`` for a source or a field that is not a ``str``. Raises ``UsageError``, before anything is opened, for
        a value that is not valid JSON (NaN, bytes, a set, a key that is not a ``str``, half a surrogate pair) and for a source
        other than that of a file per source; also for a value with which the file would exceed ``FILE_MAX``. Raises
        ``CursorMismatch``; ``CursorUnreadable`` for a file that does not parse, exceeds ``FILE_MAX`` or contains the key twice:
        such a file is not replaced; ``LockTimedOut``, which names the holder.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     cursors = CursorFile(folder + "/cursors.json")
        ...     before = cursors.advance("imessage", {"cursor": 17, "account": "ann"})
        ...     (cursors.advance("imessage", 18, field="cursor"), cursors.read())
        (17, {'imessage': {'cursor': 18, 'account': 'ann'}})
        """
        self._check_name("source", source)
        if field is not None:
            self._check_name("field", field)
        encoded = self._encoded("the value", value)
        if expect is not UNSET:
            self._encoded("expect", expect)
        if self.single and source != self._stem:
            raise UsageError(f"the file is that of {self._stem!r}, not of {source!r}", path=self.path)
        if timeout is UNSET:
            timeout = self._timeout
        check_seconds("timeout", timeout)
        with translating(self.path, "advance"), self._opened() as folder, self._locked(folder, source, timeout):
            text = self._text(folder)
            whole = self._sections(text).get(source)
            before = whole if field is None else self._field(whole, source, field)
            if expect is not UNSET and not same_json(before, expect):
                what = source if field is None else f"{field} of {source}"
                raise CursorMismatch(f"{what} is not what was expected", "read it again", found=before, path=self.path)
            try:
                new = with_value(text or "", None if self.single else source, field, encoded)
            except ValueError as error:
                raise CursorUnreadable(str(error), "take all but one out; nothing was written over it", path=self.path) from None
            now, data = self._sections(new)[source], new.encode("utf-8")
            if len(data) > FILE_MAX:
                what = f"the file would have {len(data):,} bytes, and {FILE_MAX >> 20} MB is the most"
                raise UsageError(what, "store a shorter value; nothing was stored", path=self.path)
            publish(self._files, folder, self._name, data, self._like(folder))
            note(self._files, folder, self._clock(), self._name, source, {"old": whole, "new": now})
        return before

    def close(self) -> None:
        """Ends the use of this object. A second call does nothing."""
        self._closed = True
        self._folder_fd = None  # a call under way refers to it, and closes it at its end

    # What is given

    def _check_name(self, what: str, name: object) -> None:
        check_text(what, name)
        if not self.single or what == "field":
            self._encoded(f"the {what}", name)

    def _encoded(self, what: str, value: object) -> str:
        try:
            check_json(value)
            return json.dumps(value, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise UsageError(f"{what} is not JSON: {error}", path=self.path) from None

    def _field(self, whole: Json, source: str, field: str) -> Json:
        if whole is not None and not isinstance(whole, dict):
            what = f"{source} holds no object, so it has no field {field}"
            raise CursorMismatch(what, "give the whole section, without field=", found=whole, path=self.path)
        return None if whole is None else whole.get(field)


    @property
    def _stem(self) -> str:
        return os.path.splitext(self._name)[0]

    @contextmanager
    def _opened(self) -> Iterator[int]:
        if self._closed:
            raise closed(self.path, "CursorFile")
        kept = self._folder_fd
        if kept is not None:
            yield kept.number
            return
        with self._files.closing(self._files.open_dir(self._folder, follow=True)) as fd:
            yield fd

    @contextmanager
    def _locked(self, folder: int, source: str, timeout: float | None) -> Iterator[None]:
        files = self._files
        irregular = CursorUnreadable(f"{LOCK} beside it is no regular file", "remove it", path=self.path)
        try:
            fd = self._open_lock(folder)
        except OSError as error:
            if error.errno not in (errno.ELOOP, errno.ENXIO, errno.EISDIR):
                raise
            raise irregular from None
        with files.closing(fd):
            now = drop_drafts(files, fd, folder, LOCK)
            if not stat.S_ISREG(now.st_mode):
                raise irregular
            if now.st_nlink != 1:  # who may write the directory has linked it there, to have a file of ours given away
                raise CursorUnreadable(f"{LOCK} beside it has a second name (a hard link)", "remove it", path=self.path)
            if not files.lock_within(fd, timeout):
                who = self._held_by(fd)
                note(files, folder, self._clock(), self._name, source)
                what = f"{LOCK} beside it was not free within {timeout:g} s: {who}"
                raise LockTimedOut(what, "end that process, or try again; nothing was stored", path=self.path)
            yield

    def _open_lock(self, folder: int) -> int:
        files = self._files
        while True:
            try:
                return files.reopen(LOCK, folder)
            except FileNotFoundError:
                # With its owner and mode before it has its name: for a moment it would lock a poller out.
                like = self._like(folder)
                make_file(files, folder, LOCK, like, _lock_mode(like.st_mode, files.fstat(folder).st_mode), durable=False)

    def _held_by(self, fd: int) -> str:
        """Describes who holds the lock, and says if the lock file names somebody else."""
        pids = flock_holders(fd) or flock_holders(fd)  # one look at a table that changes can miss a lock that is held
        names = []
        for pid in pids:
            command = command_of(pid)
            names.append(f"pid {pid} ({escape(command)})" if command else f"a child of pid {pid}, which has exited")
        who = f"held by {' and '.join(names)}" if names else "held by a process that is not visible from here"
        said = self._files.read(fd, 64).split()[:1]
        if said and said[0].isdigit() and int(said[0]) not in pids:
            who += f", though the file names pid {int(said[0])}"
        return who

    def _text(self, folder: int) -> str | None:
        try:
            data = read_small(self._name, folder, files=self._files, limit=FILE_MAX, whole=True).data
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno == errno.EFBIG:
                what = f"over {FILE_MAX >> 20} MB, not read"
                raise CursorUnreadable(what, "make it smaller by hand", path=self.path) from None
            if error.errno not in IRREGULAR:
                raise
            raise CursorUnreadable("no regular file", path=self.path) from None
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
        return CursorUnreadable(f"does not parse ({why})", "mend it by hand; nothing was written over it", path=self.path)

    def _like(self, folder: int) -> os.stat_result:
        return self._files.status(self._name, folder) or self._files.fstat(folder)


def _lock_mode(file: int, folder: int) -> int:
    """Mode of a new lock file. Whoever may write the cursor file may lock, and nobody else: a reader could hold the lock and
    stop all pollers. Who may write the directory may put another file in its place, so he may write it too."""
    writers = file | (0 if folder & stat.S_ISVTX else folder)
    return 0o600 | (0o060 if writers & stat.S_IWGRP else 0) | (0o006 if writers & stat.S_IWOTH else 0)
