"""``bench`` below the command line: percentiles, worker processes, what is measured, and that nothing is left."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spooltop.engine import Spool
from spooltop.errors import Refused
from spooltop.monitor.bench import bench, tasks
from spooltop.monitor.bench.bench import Bench, BenchRun, check_room, runs
from spooltop.monitor.bench.pool import Answer, BenchFailed, Pool
from spooltop.monitor.bench.tasks import FILES, LOCKS, run_files, run_lock, run_reader, run_writer
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


@pytest.mark.parametrize("name", FILES)
def test_each_operation_with_files_in_several_batches(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "BATCH", 3)
    monkeypatch.setattr(tasks, "_MOST", 10)
    found = run_files(name, str(tmp_path), time.monotonic_ns() + 60 * 10**9)
    assert len(found.times) == 12 and found.seconds > 0 and all(found.times)
    assert sum(path.is_file() for path in tmp_path.rglob("*")) <= 3
    assert {path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} <= {b"x" * 1024}


@pytest.mark.parametrize("name", LOCKS)
def test_each_lock_is_taken_and_released(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "BATCH", 5)
    monkeypatch.setattr(tasks, "_MOST", 10)
    end = time.monotonic_ns() + 60 * 10**9
    assert len(run_lock(name, str(tmp_path), end, counted=False).times) == 10
    assert len(run_lock(name, str(tmp_path), end, counted=True).times) == 10
    assert int.from_bytes((tmp_path / "counter").read_bytes(), "little") == 10


def test_writers_and_readers_of_the_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "_MOST", 30)
    Spool.create(str(tmp_path / "s")).close()
    end = time.monotonic_ns() + 60 * 10**9
    assert len(run_writer(str(tmp_path / "s"), end, durable=False).times) == 30
    found = run_reader(str(tmp_path / "s"), end, durable=False)
    assert len(found.times) == len(found.delivered) == 30 and min(found.delivered) > 0
    with Spool(str(tmp_path / "s")) as spool:
        assert spool.depth() == 0
    assert len(run_reader(str(tmp_path / "s"), time.monotonic_ns(), durable=True).times) == 0


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


def test_all_of_it_with_real_processes_leaves_nothing(tmp_path: Path) -> None:
    told: list[tuple[float, str]] = []
    found = list(Bench(str(tmp_path), 2.0, lambda share, words: told.append((share, words))).measure())
    assert os.listdir(tmp_path) == []
    assert [one.error for one in found if one.error] == []
    assert len(found) == len(FILES) + 2 * len(LOCKS) + 6 * 3
    assert [one.exclusive for one in found if one.section == "locks"] == [None, True] * len(LOCKS)
    assert all(one.operations and one.per_second for one in found if one.section == "files")
    assert {words for _, words in told} <= {"starting processes", *(f"{run.section}: {run.name}" for run in runs())}
    assert [share for share, _ in told] == sorted(share for share, _ in told)


def test_leaving_early_ends_processes_and_removes_everything(tmp_path: Path) -> None:
    figures = Bench(str(tmp_path), 2.0, lambda share, words: None).measure()
    assert next(figures).name == "write"
    (folder,) = os.listdir(tmp_path)
    assert folder.startswith(".spooltop-trial-")
    figures.close()
    assert os.listdir(tmp_path) == []


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


def test_answers_are_json(tmp_path: Path) -> None:
    program = [sys.executable, "-m", "spooltop.monitor.bench.worker", str(os.getpid())]
    job = {"task": "files", "name": "write", "folder": str(tmp_path), "seconds": 0.01}
    words = f"{json.dumps(job)}\n0\n"
    done = subprocess.run(program, cwd=Path(bench.__file__).parents[3], input=words, capture_output=True, text=True, check=True)
    started, ready, answer = done.stdout.splitlines()
    assert (started, ready) == ("started", "ready") and set(json.loads(answer)) == {"seconds", "times", "delivered"}
