"""A new version of a file in one step: whoever reads finds the old one or the new one, whole, also after a power cut."""

from __future__ import annotations

import errno
import os
import stat

from spooltop.errors import Refused, SpoolFull

from .arguments import check_bytes, check_text
from .files import Files
from .os_errors import in_words

__all__ = ["publish", "write_atomic", "write_atomic_text"]


def write_atomic(path: str | os.PathLike[str], data: bytes | bytearray | memoryview, *, files: Files | None = None) -> None:
    """Replaces the content of a file by ``data`` in one step, or makes the file.

    Written under a random name in the same directory (never one that somebody could have planted), owner, group and mode taken
    from the file that was there, synced, moved over it, the directory synced. After an error or a crash the old content stands.
    A symbolic link as the last component is refused, as is anything else that is no regular file: replaced, the link would be
    lost; followed, it could lead out of the directory. Give the path that it leads to. Other hard links keep the old content.

    Raises ``Refused``, ``SpoolFull``, or ``OSError`` as ``open`` does. Several writers are not told of each other.

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
    folder = files.open_dir(folder_path, follow=True)
    try:
        try:
            like: os.stat_result | None = files.stat(name, folder)
        except FileNotFoundError:
            like = None
        if like is not None and not stat.S_ISREG(like.st_mode):
            link = stat.S_ISLNK(like.st_mode)
            what, advice = ("a symbolic link", "give the path that it leads to") if link else ("not a regular file", "")
            raise Refused(what, path=path, advice=advice)
        publish(files, folder, name, data, like)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise SpoolFull("write: no space, no inodes or no quota left", path=path, advice="free some") from error
        raise in_words(error, folder_path, "write") from error
    finally:
        files.close(folder)


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
    """Puts ``data`` in place of the file ``name`` in the directory ``folder``. ``like``: whose owner, group and mode it takes
    (None: a new file's). ``draft`` is what the name of the file that is written first begins with. Leaves none behind."""
    draft = (draft or f".{name[:200]}") + f".{os.urandom(8).hex()}"
    fd = files.create(draft, folder, mode)
    try:
        try:
            if like is not None:
                files.own_as(fd, like)
            files.write_all(fd, data)
            if durable:
                files.sync(fd)
        finally:
            files.close(fd)
        files.replace(draft, name, folder)
    except BaseException:
        try:
            files.unlink(draft, folder)
        except OSError:
            pass  # the first error is the one to report
        raise
    if durable:
        files.sync_dir(folder)
