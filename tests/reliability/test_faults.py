"""Each fault that is seeded as a change of the source still finds the text that it changes."""

from __future__ import annotations

from pathlib import Path

import pytest

import spooltop
from tests.reliability.faults import FAULTS, Change

CHANGES = {fault.name: fault.seeded for fault in FAULTS if isinstance(fault.seeded, Change)}


@pytest.mark.parametrize("name", CHANGES)
def test_the_text_that_a_fault_changes_stands_once(name: str) -> None:
    change = CHANGES[name]
    source = (Path(spooltop.__file__).parent / change.path).read_text()
    assert source.count(change.old) == 1
