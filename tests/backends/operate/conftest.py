"""Fixture: a spool of messages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.builders import SpoolWorld


@pytest.fixture
def world(tmp_path: Path) -> Iterator[SpoolWorld]:
    with SpoolWorld(tmp_path) as world:
        yield world
