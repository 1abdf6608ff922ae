"""Directories in which something is measured, described in words that tell nothing of the machine."""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from spooltop.engine import Spool
from spooltop.engine.host import file_system

__all__ = ["arguments", "filled", "kind"]


def kind(path: str | Path) -> str:
    """The type of the file system that ``path`` is on."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return file_system(fd)
    finally:
        os.close(fd)


def arguments(doc: str | None) -> argparse.ArgumentParser:
    """The arguments of a measurement, ``--dir`` among them."""
    parser = argparse.ArgumentParser(description=(doc or "").partition("\n")[0])
    parser.add_argument("--dir", help="where the spool is made")
    return parser


@contextmanager
def filled(where: str | None, messages: Mapping[str, int]) -> Iterator[Path]:
    """A spool below ``where`` with so many messages in ``new`` of each source, removed at the end."""
    folder = Path(tempfile.mkdtemp(prefix="spooltop-bench-", dir=where))
    try:
        path = folder / "spool"
        with Spool.create(str(path), durable=False) as spool:
            for source, count in messages.items():
                spool.put_many((b"%d" % number for number in range(count)), source=source)
        yield path
    finally:
        shutil.rmtree(folder)
