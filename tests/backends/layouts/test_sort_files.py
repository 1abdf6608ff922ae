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
from spooltop.backends.layouts.inside import exists, read, walk
from spooltop.backends.layouts.sort_files import fact_of, sort_files

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


def boxes(path: Path) -> dict[str, list[str]]:
    """The ids in each box; "" for files in none."""
    layout = layout_of(path)
    assert layout is not None
    found: dict[str, list[str]] = {}
    with opened(path) as root:
        for file in sort_files(layout, root)[0]:
            box, shown = (file.match.box, file.id) if file.match else ("", f"{file.path} {file.role}")
            found.setdefault(box, []).append(shown)
    return found


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


def test_a_real_job_queue(real_spools: Path) -> None:
    queue = real_spools / "jobqueue_filestorage"
    found = boxes(queue)
    outside = found.pop("")
    assert found == {"rejected": ["bad-1"], "cur": ["slow-1"], "tmp": [".4242.0"], "new": ["retry-1", "wait-1"]}
    assert "cleanup-leader.lock a lock" in outside and "jobs/slow-1.state a cross_check" in outside
    assert "workers/worker-1.worker " in outside
    layout = layout_of(queue)
    assert layout is not None
    with opened(queue) as root:
        by_id = {file.id: file for file in sort_files(layout, root)[0] if file.match is not None}
        claimed = by_id["slow-1"]
        assert claimed.match is not None and claimed.fields == {"owner": "worker-1", "id": "slow-1"}
        facts = {name: fact_of(fact, root, claimed) for name, fact in claimed.match.facts.items()}
        assert facts["enqueued_at"] == 1795220920.718 and facts["attempts"] == 1
        failed = by_id["bad-1"]
        assert failed.match is not None
        assert fact_of(failed.match.facts["reason"], root, failed) == "boom"
        assert fact_of(failed.match.facts["expires"], root, failed) == 1795224520.738


def test_a_real_dirq(real_spools: Path) -> None:
    assert boxes(real_spools / "dirq_simple") == {
        "cur": ["6b00e5b7c2149f"], "": ["6b00e590/6b00e5b7c2149f.lck judged by a problem"],
        "new": ["6b00e5b7c2217f", "6b00e5b7c22b9f"], "tmp": ["6b00e5b7c22c9f"],
    }  # fmt: skip


def test_a_real_huey(real_spools: Path) -> None:
    queue = real_spools / "huey_filestorage"
    assert len(boxes(queue)["new"]) == 4
    layout = layout_of(queue)
    assert layout is not None
    with opened(queue) as root:
        due = [fact_of(file.match.facts["not_before"], root, file) for file in sort_files(layout, root)[0]
               if file.match is not None and "not_before" in file.match.facts]  # fmt: skip
    assert due == [1795224519.821]


def test_an_nq_job_is_running_while_its_file_is_executable_and_tells_its_end(tmp_path: Path) -> None:
    done, runs = tmp_path / ",1a1fb81560d.77", tmp_path / ",1a1fb81560e.78"
    done.write_text("exec nq true\n\n[exited with status 3.]\n")
    runs.write_text("exec nq sleep 9\n")
    runs.chmod(0o700)
    done.chmod(0o600)
    assert boxes(tmp_path) == {"delivered": [",1a1fb81560d.77"], "cur": [",1a1fb81560e.78"]}
    layout = layout_of(tmp_path)
    assert layout is not None
    with opened(tmp_path) as root:
        facts = [fact_of(file.match.facts["reason"], root, file) for file in sort_files(layout, root)[0]
                 if file.match is not None and file.match.box == "delivered"]  # fmt: skip
    assert facts == ["exited with status 3"]


def test_a_directory_without_the_signs_says_what_it_lacks(tmp_path: Path) -> None:
    job_queue = next(layout for layout in LAYOUTS if layout.name.startswith("job-queue"))
    (tmp_path / "queue").write_text("a file of that name is no directory")
    with opened(tmp_path) as root:
        assert why_not(job_queue, root) == "there is no queue/ in it (detect)"


def test_no_link_leads_out_of_the_queue(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    (secret / "deep").mkdir(parents=True)
    (secret / "deep" / "4-a.msg").write_text('{"createdAt": 1795220920720}')
    queue = tmp_path / "spool"
    for name in ("queue", "processing", "jobs", "workers", "results", "errors", "notify"):
        (queue / name).mkdir(parents=True)
    (queue / "processing" / "w").symlink_to(secret / "deep")
    (queue / "queue" / "4-b.msg").symlink_to(secret / "deep" / "4-a.msg")
    found = boxes(queue)
    assert found["new"] == ["b"] and "cur" not in found
    layout = layout_of(queue)
    assert layout is not None
    with opened(queue) as root:
        one = next(file for file in sort_files(layout, root)[0] if file.id == "b")
        assert one.match is not None and fact_of(one.match.facts["enqueued_at"], root, one) is None
        assert not exists(root, "processing/w/4-a.msg")
        with pytest.raises(OSError):
            read(root, "processing/w/4-a.msg", 10)


def test_a_walk_ends(tmp_path: Path) -> None:
    for i in range(30):
        (tmp_path / f"d{i:02}").mkdir()
        (tmp_path / f"d{i:02}" / "x").write_text("")
    with opened(tmp_path) as root:
        assert len(list(walk(root, 2, most=40))) == 40
        assert len(list(walk(root, 1))) == 30
        assert [one.path for one in walk(root, 2)][:3] == ["d00", "d01", "d02"]
