"""Creating and opening the directory of a spool."""

from __future__ import annotations

import os

from spooltop.errors import NotASpool, Refused, Unreadable
from spooltop.model.vocabulary import LIVE

from .dirs import SpoolDirs
from .system.files import Files
from .system.os_errors import advice, translating

__all__ = ["make", "open_dirs"]


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
