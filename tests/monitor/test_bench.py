"""``bench`` below the command line: percentiles, worker processes, what is measured, and that nothing is left."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spooltop.errors import Refused
from spooltop.monitor.bench import bench
from spooltop.monitor.bench.bench import BenchRun, check_room
from spooltop.monitor.bench.pool import Answer, BenchFailed, Pool
from spooltop.monitor.latency import Latencies


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 10**12), min_size=20, max_size=60), st.floats(0, 1))
def test_percentiles_are_at_most_two_percent_too_low(times: list[int], share: float) -> None:
    exact = sorted(times)[min(len(times) - 1, int(share * len(times)))] / 1e9
    found = Latencies.of(times).percentile(share)
    assert found is not None and 0.98 * exact <= found <= exact


def test_few_samples_give_no_percentile_and_several_processes_add_up() -> None:
    few = Latencies.of([1000] * 19)
    assert few.percentile(0.5) is None
    few.add(Latencies.of([9000]))
    assert len(few) == 20 and few.percentile(0.5) == 1e-6 and few.percentile(1.0) == 8.96e-6


class FakePool:
    """Answers of workers that did so many operations each, after ``act`` in the folder of the run."""

    def __init__(self, *operations: int, act: Any = None) -> None:
        self._operations = operations
        self._act = act

    def run(self, jobs: Sequence[Mapping[str, Any]], seconds: float) -> list[Answer]:
        if self._act is not None:
            self._act(Path(jobs[0]["folder"]))
        return [Answer(1.0, Latencies({1000: n}), Latencies()) for n in self._operations]


def test_a_lock_that_does_not_exclude_is_found(tmp_path: Path) -> None:
    def count(total: int) -> Any:
        return lambda folder: (folder / "counter").write_bytes(total.to_bytes(8, "little"))

    run = BenchRun("locks", "x", 4)
    right: Any = FakePool(30, 30, act=count(60))
    wrong: Any = FakePool(30, 30, act=count(59))
    assert bench._lock(run, str(tmp_path), right, 1.0).exclusive is True
    found = bench._lock(run, str(tmp_path), wrong, 1.0)
    assert (found.exclusive, found.operations, found.per_second) == (False, 60, 60.0)


def test_a_message_that_is_lost_fails_the_bench(tmp_path: Path) -> None:
    pool: Any = FakePool(5, 4)
    with pytest.raises(BenchFailed, match="5 messages were put, but 4 acked and 0 left"):
        bench._engine(BenchRun("engine", "x", 2, 1, 1), str(tmp_path / "s"), pool, 1.0)


def test_workers_begin_at_the_same_moment_and_end_with_the_pool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)  # they run the package that this process runs, wherever that lies
    with Pool(2, lambda: None) as pool:
        answers = pool.run([{"task": "lock", "name": "flock(2)", "folder": str(tmp_path), "counted": True}] * 2, 0.05)
        assert all(0 < answer.seconds < 30 and len(answer.times) for answer in answers)
        with pytest.raises(BenchFailed, match="KeyError"):
            pool.run([{"task": "lock", "name": "unknown", "folder": str(tmp_path), "counted": True}], 0.05)
        processes = pool._workers
        processes[0].kill()
        with pytest.raises(BenchFailed, match="a worker process ended with -9"):
            pool.run([{"task": "files", "name": "write", "folder": str(tmp_path)}], 0.05)
    assert [process.poll() for process in processes] == [-9, -9]


def test_a_worker_without_its_parent_ends() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "spooltop.monitor.bench.worker", "1"], cwd=Path(bench.__file__).parents[3], input="",
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == ""


def test_too_little_room_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_room(str(tmp_path))
    room = list(os.statvfs(tmp_path))
    full = os.statvfs_result([*room[:4], 10, *room[5:]])
    monkeypatch.setattr(os, "statvfs", lambda path: full)
    with pytest.raises(Refused, match=re.escape("too little room; it needs 100 MB and 8,000 inodes free")):
        check_room(str(tmp_path))
