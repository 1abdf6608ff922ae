"""Drafts of a busy producer on real file systems: an ext4 without a journal spreads them, elsewhere they are in ``tmp``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from spooltop.engine import Spool
from tests.needs import needs

from .disks import Disk

PER_GROUP = 1024
"""Inodes of a block group."""


@pytest.fixture
def disk(tmp_path: Path, request: pytest.FixtureRequest) -> Callable[..., Path]:
    def mounted(*options: str) -> Path:
        # 16 block groups of 4 MB, of which ext4 sees each by itself.
        made = Disk("ext4", tmp_path / "disk", size=64 << 20, options=("-b", "1024", "-g", "4096", "-N", "16384", *options))
        made.mount()
        request.addfinalizer(made.unmount)
        return made.at

    return mounted


def put_and_drain(path: Path) -> set[int]:
    """Puts 2,000 messages and takes them; returns the block groups that their inodes were in."""
    with Spool.create(path, durable=False) as spool:
        for _ in range(2_000):
            spool.put(b"x")
        groups = {(found.stat().st_ino - 1) // PER_GROUP for found in (path / "new").iterdir()}
        for held in spool.claims():
            held.ack()
    return groups


@needs("root", "mkfs.ext4")
def test_without_a_journal_they_are_spread(disk: Callable[..., Path]) -> None:
    path = disk("-O", "^has_journal,^flex_bg") / "spool"
    assert len(put_and_drain(path)) > 6
    folders = list((path / ".spooltop" / "stage").iterdir())
    assert len(folders) == 8 and all(list(folder.iterdir()) == [] for folder in folders)


@needs("root", "mkfs.ext4")
def test_with_a_journal_they_are_in_tmp(disk: Callable[..., Path]) -> None:
    path = disk("-O", "^flex_bg") / "spool"
    assert len(put_and_drain(path)) <= 3
    assert not (path / ".spooltop" / "stage").exists()
