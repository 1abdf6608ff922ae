"""The tool that seeds faults notices two of them; all of them fit the code of today."""

from __future__ import annotations

from dataclasses import replace

import pytest

from . import faults

pytestmark = pytest.mark.long
ROOT = faults.Path(faults.__file__).parents[2]
BY_NAME = {fault.name: fault for fault in faults.FAULTS}


@pytest.mark.parametrize("fault", faults.FAULTS, ids=BY_NAME)
def test_a_fault_changes_exactly_one_place(fault: faults.Fault) -> None:
    path, text = faults.patched(fault, ROOT)
    assert text != path.read_text(encoding="utf-8")
    compile(text, path, "exec")


def test_a_place_that_is_not_there_is_an_error() -> None:
    with pytest.raises(LookupError, match="is in 0 places"):
        faults.patched(replace(faults.FAULTS[0], place="nowhere"), ROOT)


@pytest.mark.parametrize("name", ["cursor type changed", "sync left out before the result line"])
def test_a_fault_is_found_and_nothing_without_it(name: str) -> None:
    fault = BY_NAME[name]
    words = faults.words_of(fault.first)
    with faults.copy_with(fault) as root:
        assert faults.difference(root, words) != ""
    with faults.copy_with(None) as root:
        assert faults.difference(root, words) == ""
