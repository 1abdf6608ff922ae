from __future__ import annotations

import doctest
import subprocess
import sys

import pytest

import spooltop.engine
from spooltop.engine import atomic, claim, counters, cursors, flat, names, spool, ticket_files

HEAVY = {"textual", "rich", "watchfiles", "psutil", "filelock", "redis", "asyncio", "hashlib", "ssl", "logging"}


@pytest.mark.parametrize("module", ["spooltop.engine", "spooltop.engine.tickets"])
def test_the_engine_loads_nothing_of_the_dashboard(module: str) -> None:
    code = f"import sys, {module}; print(*{{name.partition('.')[0] for name in sys.modules}})"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert "spooltop" in loaded and HEAVY & set(loaded) == set()


@pytest.mark.parametrize("module", [spooltop.engine, atomic, claim, counters, cursors, flat, names, spool, ticket_files])
def test_the_examples_run(module: object) -> None:
    outcome = doctest.testmod(module)  # type: ignore[arg-type]
    assert outcome.attempted > 0 and outcome.failed == 0


def test_every_public_name_has_an_example() -> None:
    shown = spooltop.engine.__doc__ or ""
    for name in spooltop.engine.__all__:
        assert name in shown or ">>> " in (getattr(spooltop.engine, name).__doc__ or ""), name
