"""Spools and readers that are closed at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from spooltop.backends.directory.reader import DirectoryReader
from tests.worlds import opening

Opened = Callable[..., DirectoryReader]


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    """An empty spool."""
    path = tmp_path / "spool"
    for box in ("tmp", "new", "cur"):
        (path / box).mkdir(parents=True)
    return path


@pytest.fixture
def opened() -> Iterator[Opened]:
    """Opens readers; without events unless asked, so that nothing happens between two looks."""
    readers: list[DirectoryReader] = []

    def opener(path: Path, **wanted: Any) -> DirectoryReader:
        options, world, more = opening({"watch": False, "least": 0.0, **wanted})
        reader = DirectoryReader(str(path), options, world, **more)
        readers.append(reader)
        return reader

    yield opener
    for reader in readers:
        reader.close()
