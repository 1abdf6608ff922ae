"""Tries mutations in forks of a pytest that has loaded and collected everything: a fork costs milliseconds, a start seconds.

    SPOOLTOP_JOBS=FILE SPOOLTOP_OUTCOMES=FILE pytest -p tests.mutate.trial …

A job is a mutation and the names of tests. The changed file lies in the tree for as long as it is tried, for the processes that a
test starts; in the fork the code of the changed function is replaced. What runs at import is tried by a pytest of its own, which
has one job: it finds the changed file.
"""

from __future__ import annotations

import gc
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest

from .mutations import Mutation

__all__ = ["Job", "Outcome"]

NOTICED, SURVIVED, HANGS, BROKEN = "noticed", "survived", "hangs", "broken"


@dataclass(frozen=True)
class Job:
    """``limit``: seconds after which the tests count as hanging. ``loaded``: the tree had the mutation when it was loaded."""

    mutation: Mutation
    tests: list[str]
    limit: float
    loaded: bool = False


@dataclass(frozen=True)
class Outcome:
    """``how`` a mutation came out, and by which test."""

    how: str
    test: str = ""


class Trial:
    """The plugin: in place of the tests it tries the jobs."""

    def __init__(self, jobs: list[Job], to: Path) -> None:
        self._jobs, self._to = jobs, to
        self._sound: dict[str, bool] = {}
        """Maps a test to True if it passes without any mutation: a test that does not pass notices nothing."""

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid: item for item in session.items}
        with self._to.open("a") as outcomes:
            for job in self._jobs:
                # Where a file cannot be collected, pytest itself would stop: with what runs at import changed, it has noticed.
                uncollected = job.loaded and bool(session.testsfailed)
                outcome = Outcome(NOTICED, "collection") if uncollected else self._tried(job, items)
                outcomes.write(json.dumps(asdict(outcome)) + "\n")
                outcomes.flush()
        return True

    def _tried(self, job: Job, items: dict[str, pytest.Item]) -> Outcome:
        tests = [test for test in job.tests if test in items]
        while True:
            if not tests:
                return Outcome(SURVIVED if job.tests else BROKEN)
            outcome = self._forked(job, [items[test] for test in tests], job.limit)
            if outcome.how in (SURVIVED, BROKEN) or job.loaded:
                return outcome
            if outcome.test and outcome.test not in self._sound:
                alone = self._forked(None, [items[outcome.test]], job.limit)
                self._sound[outcome.test] = alone.how == SURVIVED
            if self._sound.get(outcome.test, True):
                return outcome
            tests.remove(outcome.test)

    def _forked(self, job: Job | None, items: list[pytest.Item], limit: float) -> Outcome:
        path = Path(job.mutation.path) if job is not None and not job.loaded else None
        source = path.read_bytes() if path is not None else b""
        scratch = tempfile.mkdtemp(prefix="spooltop-trial-")
        notes = Path(scratch) / "notes"
        if path is not None and job is not None:
            path.write_bytes(job.mutation.applied(source))
        try:
            pid = os.fork()
            if pid == 0:
                code = 3
                try:
                    code = _child(job.mutation if path is not None and job is not None else None, items, scratch, notes)
                finally:
                    os._exit(code)
            ended = _waited(pid, limit)
        finally:
            if path is not None:
                path.write_bytes(source)
        test = notes.read_text() if notes.exists() else ""
        shutil.rmtree(scratch, ignore_errors=True)
        return Outcome({None: HANGS, 0: SURVIVED, 1: NOTICED}.get(ended, BROKEN if not test else NOTICED), test)


def _waited(pid: int, limit: float) -> int | None:
    """The exit code, None after ``limit`` seconds. All that it has started is ended."""
    deadline = time.monotonic() + limit
    try:
        while time.monotonic() < deadline:
            found, status = os.waitpid(pid, os.WNOHANG)
            if found:
                pid_left = 0
                code = os.waitstatus_to_exitcode(status)
                return code if code >= 0 else 1  # killed by a signal: a test that brings pytest down has noticed
            time.sleep(0.02)
        pid_left = pid
        return None
    finally:
        try:
            os.killpg(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass  # nothing is left of it
        if pid_left:
            os.waitpid(pid, 0)


def _child(mutation: Mutation | None, items: list[pytest.Item], scratch: str, notes: Path) -> int:
    os.setsid()
    os.environ["TMPDIR"] = tempfile.tempdir = scratch
    nothing = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(nothing, fd)
    if mutation is not None:
        replace_code(mutation)
    first = First()
    items[0].config.pluginmanager.register(first)
    for item, next_item in zip(items, [*items[1:], None], strict=True):
        notes.write_text(item.nodeid)
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=next_item)
        if first.failed:
            return 1
    notes.unlink()
    return 0


class First:
    """Notes that a test has failed."""

    failed = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.failed = self.failed or report.failed


def codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes(constant)


def replace_code(mutation: Mutation) -> None:
    """Gives every function of that name the code of the file as it is now. One whose module is not loaded gets it then."""
    path = os.path.abspath(mutation.path)
    text = Path(path).read_bytes()
    named = [one for one in codes(compile(text, path, "exec", dont_inherit=True)) if one.co_qualname == mutation.function]
    changed = max((one for one in named if one.co_firstlineno <= mutation.line), key=lambda one: one.co_firstlineno)
    for found in gc.get_objects():
        if isinstance(found, FunctionType):
            code: Any = found.__code__
            if code.co_filename == path and (code.co_qualname, code.co_firstlineno) == (
                changed.co_qualname, changed.co_firstlineno,
            ):  # fmt: skip
                found.__code__ = changed


def pytest_configure(config: pytest.Config) -> None:
    if jobs := os.environ.pop("SPOOLTOP_JOBS", ""):
        found = [Job(Mutation(**one.pop("mutation")), **one) for one in json.loads(Path(jobs).read_text())]
        config.pluginmanager.register(Trial(found, Path(os.environ.pop("SPOOLTOP_OUTCOMES"))))
        sys.dont_write_bytecode = True
