"""Atomic publication of a new version of a file: a reader finds the old or the new version, complete, also after a power
failure."""

from __future__ import annotations

import errno
import os
import stat

from spooltop.errors import Refused, SpoolFull

from .arguments import check_bytes, check_text
from .files import Files
from .syscalls import translate


def write_atomic(path: str | os.PathLike[str], data: bytes | bytearray | memoryview, *, files: Files | None = None) -> None:
    """Replaces the content of a file by ``data`` in one step, or creates the file.

    The data are written under a random name in the same directory (never one that somebody could have planted), get the owner,
    group and mode of the existing file, are synced and moved over it; then the directory is synced. After an error or a crash the
    old content remains. A symbolic link as the last component is refused, as is anything else that is not a regular file: a link
    would be lost if it were replaced, and could lead out of the directory if it were followed. Pass the path that it leads to.
    Other hard links keep the old content.

    Raises ``Refused``, ``SpoolFull``, or ``OSError`` as ``open`` does. Several writers are not coordinated.

    >>> import os, pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "state.json")
    ...     write_atomic(path, b"{}")
    ...     path.chmod(0o640)
    ...     write_atomic(path, b'{"a": 1}')
    ...     (path.read_text(), oct(path.stat().st_mode & 0o777), os.listdir(folder))
    ('{"a": 1}', '0o640', ['state.json'])
    """
    check_bytes("data", data, "call write_atomic_text")
    data = bytes(data)
    files = files or Files()
    folder_path, name = os.path.split(os.path.abspath(os.fsdecode(path)))
    with files.closing(files.open_dir(folder_path, follow=True)) as folder:
        try:
            like = files.status(name, folder)
            if like is not None and not stat.S_ISREG(like.st_mode):
                link = stat.S_ISLNK(like.st_mode)
                what, advice = ("a symbolic link", "give the path that it leads to") if link else ("not a regular file", "")
                raise Refused(what, advice, path=path)
            publish(files, folder, name, data, like)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise SpoolFull("write: no space, no inodes or no quota left", "free some", path=path) from error
            raise translate(error, folder_path, "write") from error


def write_atomic_text(
    path: str | os.PathLike[str], text: str, encoding: str = "utf-8", *, files: Files | None = None
) -> None:
    """``write_atomic`` for text, line ends as they are. ``UnicodeEncodeError`` for what ``encoding`` does not know; the file then
    stays as it was.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "motd")
    ...     write_atomic_text(path, "größer")
    ...     path.read_text(encoding="utf-8")
    'größer'
    """
    check_text("text", text)
    write_atomic(path, text.encode(encoding), files=files)


def publish(
    files: Files,
    folder: int,
    name: str,
    data: bytes,
    like: os.stat_result | None,
    *,
    draft: str = "",
    durable: bool = True,
    mode: int = 0o666,
) -> None:
    """Replaces or creates the file ``name`` in the directory ``folder`` with the content ``data``. Owner, group and mode are
    those of ``like`` (None: those of a new file, made with ``mode``). The content is first written to a file whose name begins
    with ``draft``; none is left behind after an error. Raises ``OSError``."""
    draft = _draft(draft or f".{name[:200]}")
    write_new(files, folder, draft, data, like, create_mode=mode, durable=durable)
    try:
        files.replace(draft, name, folder)
    except BaseException:
        discard(files, draft, folder)
        raise
    if durable:
        files.sync_dir(folder)


def publish_new(
    files: Files,
    folder: int,
    name: str,
    data: bytes,
    like: os.stat_result,
    mode: int | None = None,
    *,
    mtime: float | None = None,
    durable: bool = True,
) -> bool:
    """Creates the file ``name`` in the directory ``folder`` with ``data`` in it, and with the owner, group and mode of ``like``,
    or ``mode``. False if the name already exists: then nothing was changed. Raises ``OSError``. ``mtime`` (epoch seconds): the
    file is to be as old as that.

    The file has another name until it is complete and has its owner: after an interruption, root would otherwise leave a file
    that locks others out. Only the file created here is given to another owner, never an existing one, which may have been
    planted for that purpose.
    """
    draft = _draft(f".{name[:200]}")
    write_new(files, folder, draft, data, like, mode, mtime=mtime, create_mode=0o600, durable=durable and bool(data))
    try:
        files.move(draft, folder, name, folder)
    except BaseException as error:
        was_there = discard(files, draft, folder)
        if isinstance(error, FileExistsError):
            return False
        # Without its draft it is in place: somebody took the draft for a second name that was left behind.
        if was_there or not isinstance(error, OSError):
            raise
    if durable:
        files.sync_dir(folder)
    return True


def write_new(
    files: Files,
    folder: int,
    name: str,
    data: bytes,
    like: os.stat_result | None,
    mode: int | None = None,
    *,
    mtime: float | None = None,
    create_mode: int = 0o666,
    durable: bool = True,
    locked: bool = False,
) -> int:
    """Writes ``data`` to a new file ``name`` with the owner, group and mode of ``like``, or ``mode``, and returns its inode.
    ``mtime`` (epoch seconds): the file is to be as old as that. ``durable`` syncs the file and leaves the directory to the
    caller; ``locked`` holds a write lock on the file meanwhile. After an error the file does not exist. Raises ``OSError``,
    ``FileExistsError`` if the name is taken."""
    fd = files.create(name, folder, create_mode)
    try:
        with files.closing(fd):
            inode = files.fstat(fd).st_ino
            if like is not None:
                files.copy_owner(fd, like, mode)
            if locked:
                files.lock_write(fd)
            if data:
                files.write_all(fd, data)
            if mtime is not None:
                files.set_mtime(fd, mtime)
            if durable:
                files.sync(fd)
    except BaseException:
        discard(files, name, folder)
        raise
    return inode


def make_file(
    files: Files, dir_fd: int, name: str, like: os.stat_result, mode: int | None = None, *, durable: bool = True
) -> None:
    """Makes an empty file as ``publish_new`` does, unless ``name`` exists already. ``durable``: the name survives power loss when
    this returns, whoever made it."""
    if not publish_new(files, dir_fd, name, b"", like, mode, durable=durable) and durable:
        files.sync_dir(dir_fd)


def open_shared(files: Files, name: str, dir_fd: int, like: os.stat_result, *, append: bool = False) -> int:
    """Opens a file as ``Files.open_lasting`` does; if it is missing, ``make_file`` creates it for everyone who may write the
    spool."""
    if files.status(name, dir_fd) is None:
        make_file(files, dir_fd, name, like)
    return files.open_lasting(name, dir_fd, append=append)


def _draft(begin: str) -> str:
    """Returns a name that nobody could have planted."""
    return f"{begin}.{os.urandom(8).hex()}"


def discard(files: Files, name: str, folder: int) -> bool:
    """Removes a draft, if that is possible; False if it is already gone."""
    try:
        return files.remove(name, folder)
    except OSError:
        return True  # the first error is the one to report


def drafts_of(files: Files, found: os.stat_result, dir_fd: int, name: str) -> list[str]:
    """Returns the draft, where it is the one other name of the file ``found``, whose name is ``name``: ``publish_new`` was cut
    off between link and unlink."""
    if found.st_nlink != 2 or not stat.S_ISREG(found.st_mode):
        return []
    drafts = (other for other in files.list(dir_fd) if other.startswith(f".{name[:200]}."))
    return [draft for draft in drafts if files.is_inode(draft, dir_fd, found.st_ino)]


def drop_drafts(files: Files, fd: int, dir_fd: int, name: str) -> os.stat_result:
    """Removes the draft that is the second name of the open file ``name``, and returns the status of the file."""
    found = files.fstat(fd)
    drafts = drafts_of(files, found, dir_fd, name)
    for draft in drafts:
        files.unlink(draft, dir_fd)
    return files.fstat(fd) if drafts else found
