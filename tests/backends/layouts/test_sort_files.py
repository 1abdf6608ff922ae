"""Real queues of other programs, sorted into boxes by the layouts that ship."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from spooltop.backends.layouts.definition.layout import Layout
from spooltop.backends.layouts.definition.library import SHIPPED, read_layout
from spooltop.backends.layouts.detect import first_layout, has_layout, open_root, why_not
from spooltop.backends.layouts.inside import walk

LAYOUTS = [read_layout(os.path.join(SHIPPED, name)) for name in sorted(os.listdir(SHIPPED))]


@contextmanager
def opened(path: Path) -> Iterator[int]:
    fd = open_root(str(path))
    try:
        yield fd
    finally:
        os.close(fd)


def layout_of(path: Path) -> Layout | None:
    with opened(path) as root:
        fits = [layout for layout in LAYOUTS if has_layout(layout, root)]
        assert len(fits) <= 1
        assert first_layout(LAYOUTS, root) is (fits[0] if fits else None)
        return fits[0] if fits else None


@pytest.mark.parametrize(
    ("name", "layout"),
    [
        ("dirq_simple", "dirq simple"),
        ("huey_filestorage", "huey FileStorage"),
        ("jobqueue_filestorage", "job-queue FileStorage"),
        ("maildir_stdlib", None),
        ("seed_atomicfilequeue", None),
        ("seed_cursors", None),
        ("seed_maildirqueue", None),
        ("stouputils_lockfifo", None),
    ],
)
def test_each_real_queue_has_its_own_layout_and_no_other(real_spools: Path, name: str, layout: str | None) -> None:
    found = layout_of(real_spools / name)
    assert (None if found is None else found.name) == layout


def test_a_directory_without_the_signs_says_what_it_lacks(tmp_path: Path) -> None:
    job_queue = next(layout for layout in LAYOUTS if layout.name.startswith("job-queue"))
    (tmp_path / "queue").write_text("a file of that name is no directory")
    with opened(tmp_path) as root:
        assert why_not(job_queue, root) == "there is no queue/ in it (detect)"


def test_a_walk_ends(tmp_path: Path) -> None:
    for i in range(30):
        (tmp_path / f"d{i:02}").mkdir()
        (tmp_path / f"d{i:02}" / "x").write_text("")
    with opened(tmp_path) as root:
        assert len(list(walk(root, 2, most=40))) == 40
        assert len(list(walk(root, 1))) == 30
        assert [one.path for one in walk(root, 2)][:3] == ["d00", "d01", "d02"]
