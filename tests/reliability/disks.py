"""File systems of our own, in a file: mounted, filled, and cut off from their power."""

from __future__ import annotations

import fcntl
import os
import shutil
import struct
import subprocess
from pathlib import Path

__all__ = ["Disk", "missing", "mount_tmpfs", "unmount"]

_MKFS = {
    "ext4": ("mkfs.ext4", "-q", "-F"),
    "xfs": ("mkfs.xfs", "-q", "-f"),
    "btrfs": ("mkfs.btrfs", "-q", "-f"),
}
_SIZE = {"ext4": 24 << 20, "xfs": 300 << 20, "btrfs": 128 << 20}
"""About the smallest that each takes; the files are sparse."""

_GOING_DOWN = 0x8004587D
"""EXT4_IOC_SHUTDOWN and XFS_IOC_GOINGDOWN, ``_IOR('X', 125, __u32)``."""
_WITHOUT_FLUSHING = 2


def _sh(*words: str | Path) -> None:
    done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, "PATH": _path()})
    if done.returncode:
        raise OSError(f"{' '.join(map(str, words))}: {done.stderr.strip()}")


def _path() -> str:
    return f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"


def missing(kind: str, folder: Path) -> str:
    """Returns why no file system of this kind can be made and mounted here, in words; empty where it can."""
    if shutil.which(_MKFS[kind][0], path=_path()) is None:
        return f"{_MKFS[kind][0]} is missing"
    try:
        disk = Disk(kind, folder / f"probe-{kind}")
        disk.mount()
        disk.unmount()
    except OSError as error:
        return str(error)
    return ""


def mount_tmpfs(at: Path, options: str) -> None:
    at.mkdir(exist_ok=True)
    _sh("mount", "-t", "tmpfs", "-o", options, "none", at)


def unmount(at: Path) -> None:
    """Detaches ``at`` even while a process of another test walks through it, which makes the plain call fail as busy."""
    try:
        _sh("umount", at)
    except OSError:
        _sh("umount", "--lazy", at)


class Disk:
    """A file system in ``folder``, made anew or as a copy of another one. ``at`` is where it is mounted."""

    def __init__(
        self, kind: str, folder: Path, *, like: Disk | None = None, size: int = 0, options: tuple[str, ...] = ()
    ) -> None:
        self.kind = kind
        self.image, self.at = folder / "image", folder / "mnt"
        self.at.mkdir(parents=True, exist_ok=True)
        if like is not None:
            self._copy(like.image)
            return
        with self.image.open("wb") as image:
            image.truncate(size or _SIZE[kind])
        _sh(*_MKFS[kind], *options, self.image)

    def _copy(self, image: Path) -> None:
        # A file of its own each time: whoever began a mount namespace meanwhile (other tests do) still holds what is unmounted
        # here, and a mount of the same file would be given that file system again, shut down as it is.
        copied = self.image.with_name("copy")
        _sh("cp", "--sparse=always", image, copied)
        copied.replace(self.image)

    def mount(self) -> None:
        _sh("mount", "-o", "loop", self.image, self.at)

    def unmount(self) -> None:
        unmount(self.at)

    def commit(self) -> None:
        """Somebody else's fsync, by which the journal is committed with all that it holds."""
        fd = os.open(self.at / "other", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.write(fd, b"z")
            os.fsync(fd)
        finally:
            os.close(fd)

    def cut(self) -> None:
        """Takes the power away and gives it back: what the device had not got is gone. Mounted again when this returns."""
        if self.kind == "btrfs":  # has no such ioctl: what stands in the file now is what the device got
            self._copy(self.image)
            self.unmount()
        else:
            fd = os.open(self.at, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                fcntl.ioctl(fd, _GOING_DOWN, struct.pack("I", _WITHOUT_FLUSHING))
            finally:
                os.close(fd)
            self.unmount()
            self._copy(self.image)
        self.mount()
