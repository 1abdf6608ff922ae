"""Fixtures that every floor uses: real spools, a settable clock."""

from __future__ import annotations

import os
import signal
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell starts what runs behind it; whoever is tested would inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A busy machine is no reason to fail: no example has a deadline, and slow generation is not a defect of the code.
settings.register_profile("spooltop", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("spooltop")

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


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Returns the number of workers for ``-n auto``: one more than there are cores, because many tests wait for a terminal or
    another process."""
    return len(os.sched_getaffinity(0)) + 1


@pytest.hookimpl(wrapper=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Iterator[None]:
    """Lists the skipped tests. A skipped test is a failure where all dependencies are available, which SPOOLTOP_NOTHING_SKIPPED
    declares."""
    skipped = terminalreporter.stats.get("skipped", [])
    for report in skipped:
        terminalreporter.write_line(f"skipped: {report.nodeid}: {report.longrepr[-1] if report.longrepr else ''}")
    return (yield)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and os.environ.get("SPOOLTOP_NOTHING_SKIPPED") and reporter.stats.get("skipped"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
