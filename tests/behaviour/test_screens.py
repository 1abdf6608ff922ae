"""The dashboard shows what is recorded, and operations sync what is recorded."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.needs import needs

from . import screens, syncs

ROOT = Path(__file__).parents[2]
QUICK = ("look-80x24", "change-80x24")
"""Scripts of a plain run."""


def scripts() -> list[object]:
    return [pytest.param(name, marks=() if name in QUICK else pytest.mark.long) for name in screens.SCRIPTS]


@pytest.mark.parametrize("name", scripts())
def test_screens_are_as_recorded(name: str) -> None:
    done = subprocess.run([sys.executable, "-m", screens.__name__, name], capture_output=True, text=True, cwd=ROOT)
    assert (done.stdout.strip(), done.stderr) == ("", "")


@needs("strace")
@pytest.mark.long
def test_syncs_are_as_recorded() -> None:
    assert "\n".join(syncs.difference()) == ""
