"""A spool for the commands."""

from __future__ import annotations

from pathlib import Path

import pytest

from spooltop.engine import Spool


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    """Returns the path of a spool without messages, whose puts are not synced unless a test asks for it."""
    Spool.create(tmp_path / "spool", durable=False).close()
    return tmp_path / "spool"
