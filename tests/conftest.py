"""Fixtures that every floor uses: real spools, a settable clock."""

from __future__ import annotations

import tarfile
from dataclasses import dataclass
from pathlib import Path

import pytest

DATA = Path(__file__).parent / "data"


@dataclass
class Clock:
    """A clock that stands still until it is moved; epoch seconds."""

    now: float = 1_795_222_869.0

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def real_spools(tmp_path: Path) -> Path:
    """Spools as other programs left them, one folder each, fresh for each test."""
    with tarfile.open(DATA / "spools.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path
