"""What the engine loads, and what its documentation has examples of."""

from __future__ import annotations

import doctest
import re
import subprocess
import sys
from types import ModuleType

import pytest

from spooltop import engine
from spooltop.engine import tickets

HEAVY = {"textual", "rich", "watchfiles", "psutil", "filelock", "redis", "asyncio", "hashlib", "ssl", "logging"}


@pytest.mark.parametrize("module", ["spooltop.engine", "spooltop.engine.tickets"])
def test_the_engine_loads_nothing_of_the_dashboard(module: str) -> None:
    code = f"import sys, {module}; print(*{{name.partition('.')[0] for name in sys.modules}})"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert "spooltop" in loaded and HEAVY & set(loaded) == set()


@pytest.mark.parametrize("module", [engine, tickets])
def test_every_public_name_has_an_example(module: ModuleType) -> None:
    parse = doctest.DocTestParser().get_examples
    # An error is shown by what an example prints.
    used = {word for one in parse(module.__doc__ or "") for word in re.findall(r"\w+", one.source + one.want)}
    assert [name for name in module.__all__ if name not in used and not has_example(getattr(module, name))] == []


def has_example(thing: object) -> bool:
    """Returns whether its docstring, or that of one of its methods, holds an example."""
    return any(test.examples for test in doctest.DocTestFinder().find(thing, "thing"))
