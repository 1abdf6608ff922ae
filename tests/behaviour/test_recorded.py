"""Commands do what is recorded of them, below ``recorded/``: ``python -m tests.behaviour NAME`` shows the difference."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.needs import needs

from .record import missing, recorded_worlds

_ROOT = Path(__file__).parents[2]


def difference(world: str, users: str) -> str:
    """Returns the difference that a process without threads sees, from which children can be forked."""
    if (thing := missing(world)) is not None:
        pytest.skip(f"needs {thing}")
    words = [sys.executable, "-m", "tests.behaviour", world, "--users", users]
    done = subprocess.run(words, cwd=_ROOT, capture_output=True, text=True)
    return done.stdout if done.returncode < 2 else done.stderr


@pytest.mark.parametrize("world", recorded_worlds())
def test_commands_of_an_ordinary_user(world: str) -> None:
    assert difference(world, "plain") == ""


@needs("root")
@pytest.mark.parametrize("world", recorded_worlds(with_root=True))
def test_commands_that_need_root(world: str) -> None:
    assert difference(world, "root") == ""
