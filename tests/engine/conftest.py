"""Makes the helpers beside the tests importable, however pytest was started."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from spooltop.engine import Spool


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    with Spool.create(tmp_path / "spool", durable=False) as spool:
        yield spool
