"""The directory of a demo, and the removal of directories that killed demos left behind."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import quote

from spooltop.backends.directory import trials
from spooltop.backends.log_store import STATE_DIR, state_of
from spooltop.model import NotASpool, Refused, escape

_PREFIX = "spooltop-demo-"
STREAM, WORKING = "memex", "workers"
"""The stream of a demo on a server, and the group whose messages are worked on."""


@contextmanager
def scratch_dir() -> Iterator[str]:
    """Makes a new directory below that for temporary files, and removes it at the end."""
    scratch = trials.ScratchDir(tempfile.gettempdir(), _PREFIX)
    try:
        yield scratch.path
    finally:
        scratch.close()
        _remove_logs(scratch.path)


def socket_in(base: str) -> str:
    """Returns the path of the server's socket in the directory of a demo."""
    return os.path.join(base, "redis.sock")


def stream_address(base: str) -> str:
    """Returns the address of the group whose messages are worked on."""
    return f"unix://{quote(socket_in(base))}#{STREAM}/{WORKING}"


def make_kept(path: str) -> str:
    """Makes a directory at ``path`` that is kept, and returns its full path. Raises ``Refused`` if the path exists,
    ``NotASpool`` if its parent is missing."""
    full = os.path.abspath(path)
    try:
        os.mkdir(full)
    except FileExistsError:
        if not os.path.isdir(full) or os.listdir(full):
            raise Refused("demo: the directory exists already", "name a new or an empty directory", path=path) from None
    except FileNotFoundError:
        raise NotASpool(
            "demo: its parent directory does not exist", f"first: mkdir -p {escape(os.path.dirname(full))}", path=path
        ) from None
    return full


def sweep() -> None:
    """Removes the directories that killed demos of this user left."""
    above = tempfile.gettempdir()
    for name in trials.sweep(above, _PREFIX):
        _remove_logs(os.path.join(above, name))


def left_behind() -> list[str]:
    """Returns the directories that killed demos of this user left, as far as the kernel's table of locks shows. Changes
    nothing."""
    above = tempfile.gettempdir()
    return [os.path.join(above, name) for name in trials.left_behind(above, _PREFIX)]


def _remove_logs(base: str) -> None:
    """Removes what root's operations on the stream of a demo wrote elsewhere: everybody else's logs are in the directory."""
    if os.geteuid() == 0:
        shutil.rmtree(state_of(STATE_DIR, stream_address(base)), ignore_errors=True)
