"""Fixtures that every floor uses: real spools, a settable clock."""

from __future__ import annotations

import os
import signal
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from .builders import SpoolWorld
from .clock import Clock
from .needs import is_root_missing, missing_things, need, summary
from .scratch import extract, scratch

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell starts what runs behind it; whoever is tested would inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # else each program that a test starts compiles the whole package anew,
sys.dont_write_bytecode = False  # and each worker every module of the tests

# A busy machine is no reason to fail: no example has a deadline, and slow generation is not a defect of the code.
settings.register_profile("spooltop", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("spooltop")

DATA = Path(__file__).parent / "data"


@pytest.fixture(scope="session", autouse=True)
def state_home(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keeps what is tested from writing mutes and views into the state of the user who tests."""
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.mktemp("state"))


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def memory() -> Iterator[Path]:
    """A directory for many spools, in memory where there is one."""
    with tempfile.TemporaryDirectory(prefix="spooltop-test-", dir=scratch()) as folder:
        yield Path(folder)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[SpoolWorld]:
    """A spool with nothing in it yet."""
    with SpoolWorld(tmp_path) as made:
        yield made


@pytest.fixture
def spool(world: SpoolWorld) -> Path:
    """The path of a spool with nothing in it yet."""
    return world.path


@pytest.fixture
def real_spools(tmp_path: Path) -> Path:
    """Spools as other programs left them, one folder each, fresh for each test."""
    with tarfile.open(DATA / "spools.tar.gz") as archive:
        extract(archive, tmp_path)
    return tmp_path


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all", action="store_true", help="run the long tests too, which .ci/run does after the others, and those "
                     "with other programs, which .ci/full does")


def is_left_out(item: pytest.Item, config: pytest.Config) -> bool:
    """True for a test marked long or programs that nothing asks for: neither ``--all`` nor an expression after ``-m`` that speaks
    of its mark, nor the name of its file or of the test."""
    marks = [mark for mark in ("programs", "long") if item.get_closest_marker(mark)]
    if not marks or config.getoption("--all") or marks[0] in config.getoption("-m"):
        return False
    named = [arg.partition("::") for arg in config.args if ".py" in arg]
    asked = tuple(f"{(config.invocation_params.dir / path).resolve()}::{name}" for path, _, name in named)
    return not f"{item.path}::{item.nodeid.partition('::')[2]}".startswith(asked)


def early_first(items: Sequence[pytest.Item], workers: int) -> list[pytest.Item]:
    """Puts early tests first in the share of each worker. ``--dist worksteal`` deals equal, contiguous shares; a worker that has
    done its own takes from the end of another's."""
    early = [item for item in items if item.get_closest_marker("early")]
    others = [item for item in items if not item.get_closest_marker("early")]
    ordered: list[pytest.Item] = []
    for worker in range(workers):
        share = (len(items) - len(ordered)) // (workers - worker)
        first = early[worker::workers]
        rest = max(0, share - len(first))
        ordered += first + others[:rest]
        del others[:rest]
    return ordered


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    wanted, out = [], []
    for item in items:
        (out if is_left_out(item, config) else wanted).append(item)
    if out:
        config.hook.pytest_deselected(items=out)
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    items[:] = early_first(wanted, workers) if workers > 1 else wanted


def pytest_itemcollected(item: pytest.Item) -> None:
    if "root" in things_of(item):
        item.add_marker("root")


def things_of(item: pytest.Item) -> list[str]:
    return [thing for mark in item.iter_markers("needs") for thing in mark.args]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    need(*things_of(item))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """A test that is skipped for want of root has the mark by which the part for root finds it."""
    report = yield
    if report.skipped and is_root_missing(reason_of(report)) and item.get_closest_marker("root") is None:  # type: ignore[attr-defined]
        report.outcome, report.longrepr = "failed", f"{item.nodeid} needs root and has no mark: @pytest.mark.root"  # type: ignore[attr-defined]
    return report


def reason_of(report: pytest.TestReport) -> str:
    """The reason of a skipped test."""
    return report.longrepr[-1] if isinstance(report.longrepr, tuple) else str(report.longrepr)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Returns the number of workers for ``-n auto``: three for each core, because many tests wait for a terminal,
    a server or another process."""
    return 3 * len(os.sched_getaffinity(0))


@pytest.hookimpl(wrapper=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Iterator[None]:
    """Names what skipped tests needed, in one line; each that another reason kept from running gets a line of its own."""
    skipped = {report.nodeid: reason_of(report) for report in terminalreporter.stats.get("skipped", [])}
    for name, reason in skipped.items():
        if "see above" in missing_things([reason]):
            terminalreporter.write_line(f"skipped: {name}: {reason}")
    if line := summary(skipped.values()):
        terminalreporter.write_line(line)
    return (yield)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fails a run that skipped a test where all components are available: SPOOLTOP_MAY_SKIP names those that may be missing, and
    is empty where none may."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    allowed = os.environ.get("SPOOLTOP_MAY_SKIP")
    if reporter is None or allowed is None:
        return
    missing = missing_things(map(reason_of, reporter.stats.get("skipped", [])))
    if missing.keys() - {*allowed.split()}:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
