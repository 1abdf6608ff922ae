"""Fixture: a spool that syncs nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from spooltop.engine import Spool


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    with Spool.create(tmp_path / "spool", durable=False) as spool:
        yield spool
