"""Table of the functions that each test enters: measured once, as a plugin of pytest, and kept in a file.

    SPOOLTOP_REACH=FILE pytest -p tests.mutate.reach …       writes the table
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

__all__ = ["Reach", "Recorder"]

VALUES = 200
"""Tests for a module that has no function that is entered."""
REPOSITORY = Path(__file__).parents[2]
PACKAGE = f"{REPOSITORY}/spooltop/"


@dataclass
class Reach:
    """``functions``: ``path:qualified name`` → the tests that enter it; ``seconds``: how long each test took."""

    functions: dict[str, list[str]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    @cached_property
    def breadth(self) -> dict[str, int]:
        """Counts the functions that each test enters."""
        found: dict[str, int] = defaultdict(int)
        for tests in self.functions.values():
            for test in tests:
                found[test] += 1
        return found

    def tests(self, path: str, function: str, budget: float) -> tuple[list[str], int]:
        """(Tests that enter the function, the most specific first, as many as fit in ``budget`` seconds; how many there are).
        Of what runs at import, and of a function that no test enters in its own process: those that enter the module; of a
        module without functions: those that enter most of the others."""
        found = self.functions.get(f"{path}:{function}", [])
        if not function or not found:
            found = sorted({test for key, tests in self.functions.items() if key.startswith(f"{path}:") for test in tests})
        breadth = self.breadth
        if not found:  # values alone: whoever enters most of the rest
            most = sorted(self.seconds, key=lambda test: (self.seconds[test] / (1 + breadth.get(test, 0)), test))
            found = most[:VALUES]
        chosen, left = [], budget
        for test in sorted(found, key=lambda test: (breadth[test] * (0.1 + self.seconds[test]), test)):
            left -= self.seconds[test]
            if left < 0 and chosen:
                break
            chosen.append(test)
        return chosen, len(found)

    def enters(self, path: str, function: str) -> bool:
        """True if a test enters the function; of what runs at import, a function of the same module."""
        if not function:
            return any(key.startswith(f"{path}:") for key in self.functions)
        return f"{path}:{function}" in self.functions

    def only(self, is_wanted: Callable[[str], bool]) -> Reach:
        """The table of the tests with such names."""
        seconds = {test: took for test, took in self.seconds.items() if is_wanted(test)}
        functions = {key: [test for test in tests if test in seconds] for key, tests in self.functions.items()}
        return Reach({key: tests for key, tests in functions.items() if tests}, seconds)

    def add(self, other: Reach) -> None:
        """Takes over the tests of ``other``."""
        for key, tests in self.functions.items():
            self.functions[key] = [test for test in tests if test not in other.seconds]
        for key, tests in other.functions.items():
            self.functions.setdefault(key, []).extend(tests)
        self.seconds.update(other.seconds)

    def store(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        tests = sorted(self.seconds)
        number = {test: at for at, test in enumerate(tests)}
        record = {
            "tests": [[test, round(self.seconds[test], 3)] for test in tests],
            "functions": {key: [number[test] for test in tests] for key, tests in sorted(self.functions.items())},
        }
        path.write_text(json.dumps(record))

    @classmethod
    def load(cls, path: Path) -> Reach:
        record = json.loads(path.read_text())
        tests = [test for test, _ in record["tests"]]
        functions = {key: [tests[number] for number in numbers] for key, numbers in record["functions"].items()}
        return cls(functions, dict(record["tests"]))


class Recorder:
    """Notes each function of the package that is entered while a test runs, in any thread of this process."""

    def __init__(self) -> None:
        self.entered: set[str] = set()
        self._known: dict[Any, str] = {}

    def __call__(self, frame: FrameType, _event: str, _argument: object) -> None:
        code = frame.f_code
        key = self._known.get(code)
        if key is None:
            here = code.co_filename.startswith(PACKAGE)
            name = code.co_qualname.partition(".<locals>")[0]
            key = self._known[code] = f"spooltop/{code.co_filename[len(PACKAGE) :]}:{name}" if here else ""
        if key:
            self.entered.add(key)

    def start(self) -> None:
        self.entered = set()
        threading.settrace(self)
        sys.settrace(self)

    def stop(self) -> set[str]:
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type]
        return self.entered


class Measuring:
    """The plugin that measures."""

    def __init__(self, to: Path) -> None:
        self._to, self._reach, self._recorder = to, Reach(), Recorder()
        self._failed: set[str] = set()
        os.register_at_fork(after_in_child=self._recorder.stop)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        began = time.monotonic()
        self._recorder.start()
        try:
            result = yield
        finally:
            entered = self._recorder.stop()
        if item.nodeid not in self._failed:
            self._reach.seconds[item.nodeid] = time.monotonic() - began
            for key in entered:
                self._reach.functions.setdefault(key, []).append(item.nodeid)
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.passed:
            self._failed.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        self._reach.store(self._to)


def pytest_configure(config: pytest.Config) -> None:
    if to := os.environ.pop("SPOOLTOP_REACH", ""):
        config.pluginmanager.register(Measuring(Path(to)))
