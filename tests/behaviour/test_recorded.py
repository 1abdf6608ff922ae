"""Commands do what is recorded of them, below ``recorded/``: ``python -m tests.behaviour NAME`` shows the difference."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.needs import needs

from .record import missing, recorded_worlds

_ROOT = Path(__file__).parents[2]
Recorder = subprocess.Popen[str]


@pytest.fixture(scope="module")
def recorder() -> Iterator[Recorder]:
    """A process without threads, from which the cases can be forked."""
    words = [sys.executable, "-m", "tests.behaviour", "-"]
    with subprocess.Popen(words, cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process


def difference(recorder: Recorder, world: str, users: str) -> str:
    """Returns the difference between what is recorded of a world and what ``recorder`` sees."""
    if (thing := missing(world)) is not None:
        pytest.skip(f"needs {thing}")
    assert recorder.stdin is not None and recorder.stdout is not None
    print(world, users, file=recorder.stdin, flush=True)
    return "\n".join(json.loads(recorder.stdout.readline()))


@pytest.mark.parametrize("world", recorded_worlds())
def test_commands_of_an_ordinary_user(recorder: Recorder, world: str) -> None:
    assert difference(recorder, world, "plain") == ""


@needs("root")
@pytest.mark.parametrize("world", recorded_worlds(with_root=True))
def test_commands_that_need_root(recorder: Recorder, world: str) -> None:
    assert difference(recorder, world, "root") == ""
