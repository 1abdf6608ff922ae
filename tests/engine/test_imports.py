from __future__ import annotations

import doctest
import re
import subprocess
import sys
from types import ModuleType

import pytest

import spooltop.engine
from spooltop.engine import atomic, counters, flat_dir, lifetime, names, spool, tickets
from spooltop.engine.consuming import claim
from spooltop.engine.cursors import cursor_file, sections
from spooltop.engine.tickets import file_queue
from spooltop.engine.tickets import names as ticket_names

HEAVY = {"textual", "rich", "watchfiles", "psutil", "filelock", "redis", "asyncio", "hashlib", "ssl", "logging"}


@pytest.mark.parametrize("module", ["spooltop.engine", "spooltop.engine.tickets"])
def test_the_engine_loads_nothing_of_the_dashboard(module: str) -> None:
    code = f"import sys, {module}; print(*{{name.partition('.')[0] for name in sys.modules}})"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert "spooltop" in loaded and HEAVY & set(loaded) == set()


@pytest.mark.parametrize(
    "module",
    [spooltop.engine, atomic, claim, counters, cursor_file, flat_dir, lifetime, names, sections, spool, file_queue, ticket_names],
)
def test_the_examples_run(module: object) -> None:
    outcome = doctest.testmod(module)  # type: ignore[arg-type]
    assert outcome.attempted > 0 and outcome.failed == 0


@pytest.mark.parametrize("module", [spooltop.engine, tickets])
def test_every_public_name_has_an_example(module: ModuleType) -> None:
    parse = doctest.DocTestParser().get_examples
    # An error is shown by what an example prints.
    used = {word for one in parse(module.__doc__ or "") for word in re.findall(r"\w+", one.source + one.want)}
    without = [name for name in module.__all__ if name not in used and not _examples(getattr(module, name))]
    assert without == []


def _examples(thing: object) -> bool:
    """Returns whether its docstring, or that of one of its methods, holds an example."""
    return any(test.examples for test in doctest.DocTestFinder().find(thing, "it"))


def test_what_has_no_example_is_found() -> None:
    def told_in_prose() -> None:
        """Mentions ``told_in_prose`` and shows nothing."""

    assert not _examples(told_in_prose) and _examples(spool.Spool)
