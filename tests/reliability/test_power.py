"""A real power cut bites: it finds what a missing sync loses."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.needs import needs

from .disks import Disk
from .power import cuts
from .seam import Tripwire
from .world import build


class NoFileSync(Tripwire):
    def sync(self, fd: int) -> None:
        """Forgotten."""


class NoDirectorySync(Tripwire):
    def sync_dir(self, fd: int) -> None:
        """Forgotten."""


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Disk:
    folder = tmp_path_factory.mktemp("template")
    disk = Disk("ext4", folder)
    disk.mount()
    try:
        build(disk.at / "spool", True, aside=True)
    finally:
        disk.unmount()
    return disk


@needs("root", "mkfs.ext4")
@pytest.mark.parametrize(
    ("trap", "commit", "words"),
    [
        (Tripwire, True, None), (Tripwire, False, None), (NoFileSync, True, "new shows 0 bytes of a message"),
        (NoDirectorySync, False, "p1 is lost"),
    ],
)  # fmt: skip
def test_a_put_that_forgets_a_sync_is_found(
    template: Disk, tmp_path: Path, trap: type[Tripwire], commit: bool, words: str | None
) -> None:
    found = [message for _, wrong in cuts(template, tmp_path, ("put",), commit=commit, trap=trap) for message in wrong]
    assert (words in found) if words else not found, found
