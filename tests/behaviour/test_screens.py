"""The dashboard shows what is recorded, and operations sync what is recorded."""

from __future__ import annotations

import pytest

from tests.needs import needs

from . import screens, syncs

QUICK = ("cursor-file-80x24", "spools-80x24", "job-queue-80x24")
"""Scripts of a plain run."""


def scripts() -> list[object]:
    return [pytest.param(name, marks=() if name in QUICK else pytest.mark.long) for name in screens.SCRIPTS]


@pytest.mark.parametrize("name", scripts())
def test_screens_are_as_recorded(name: str) -> None:
    assert "\n".join(screens.check(name)) == ""


@needs("strace")
@pytest.mark.long
def test_syncs_are_as_recorded() -> None:
    assert "\n".join(syncs.difference()) == ""
